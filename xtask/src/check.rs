//! `cargo xtask check`: the shared crates depend on nothing of an operating system, no modules use
//! each other in a circle (`modules`), no two public types have one name (`type_names`), and
//! comments and documentation keep the rules for words (`words`).
//!
//! The shared crates will be ported to Windows next, so they may use only what is the same
//! everywhere. The check walks the dependencies that each is built with (normal and build
//! dependencies for every target, its own features, no tests). It allows only packages that are
//! listed here with a reason.

use anyhow::{Context, Result, bail};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Show which module uses which, too
    #[arg(long)]
    graph: bool,
}

/// The crates that run on every operating system.
pub(crate) const SHARED: [&str; 8] = [
    "tickwire-stack",
    "tickwire-steer",
    "tickwire-registry",
    "tickwire-lane",
    "tickwire-clockpage",
    "tickwire-clock",
    "tickwire-ntp",
    "tickwire-sim",
];

/// The allowed packages: pure computation, or code that runs only in the compiler.
const ALLOWED: [&str; 46] = [
    "tickwire-stack",
    "tickwire-steer",
    "tickwire-registry",
    "tickwire-lane",
    "tickwire-clockpage",
    "tickwire-clock",
    "tickwire-ntp",
    "tickwire-sim",
    // wire formats and what it uses
    "smoltcp",
    "bitflags",
    "byteorder",
    "cfg-if",
    "heapless",
    "hash32",
    "managed",
    "stable_deref_trait",
    // typed views of bytes
    "zerocopy",
    // keyed hash
    "siphasher",
    // the cipher of NTS
    "aes-siv",
    "aead",
    "aes",
    "block-buffer",
    "cipher",
    "cmac",
    "cmov",
    "cpubits",
    PROCESSOR,
    "crypto-common",
    "ctr",
    "ctutils",
    "dbl",
    "digest",
    "hybrid-array",
    "inout",
    "rand_core",
    "typenum",
    "zeroize",
    // the same mathematics on every machine
    "libm",
    // errors in words
    "thiserror",
    "thiserror-impl",
    // procedural macros: run in the compiler
    "zerocopy-derive",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
    "document-features",
];

/// Detects the processor's instruction set, on some processors by asking the operating system. Its
/// dependencies are not followed.
const PROCESSOR: &str = "cpufeatures";

/// Checks; fails with the path from a shared crate to each package that is not allowed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut faults = Vec::new();
    for name in SHARED {
        // Not `cargo metadata`: it joins the features that other members, and tests, ask for.
        let output = crate::workspace::cargo()
            // In a shared crate, code for an operating system is behind a default feature.
            .args([
                "tree",
                "--locked",
                "--no-default-features",
                "--package",
                name,
                "--edges",
                "normal,build",
                "--target",
                "all",
            ])
            .args(["--prefix", "depth", "--no-dedupe", "--format", " {p}"])
            .output()
            .context("cannot run cargo tree")?;
        if !output.status.success() {
            bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        faults.extend(forbidden(&String::from_utf8_lossy(&output.stdout))?);
    }
    if !faults.is_empty() {
        bail!(
            "a shared crate must not depend on an operating system; not allowed (see ALLOWED in xtask/src/check.rs): {}",
            faults.join("; ")
        );
    }
    println!("{} depend on nothing of an operating system", SHARED.join(", "));
    crate::modules::check(options.graph)?;
    crate::type_names::check()?;
    crate::words::check()
}

/// The paths to packages that are not allowed, in a tree whose lines begin with their depth. A path
/// ends at the first such package.
fn forbidden(tree: &str) -> Result<Vec<String>> {
    let mut way: Vec<&str> = Vec::new();
    let mut faults = Vec::new();
    for line in tree.lines().filter(|l| !l.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let depth: usize =
            words.next().and_then(|w| w.parse().ok()).with_context(|| format!("cargo tree printed {line:?}"))?;
        let name = words.next().with_context(|| format!("cargo tree printed {line:?}"))?;
        way.truncate(depth);
        let beyond = way.iter().any(|&n| !ALLOWED.contains(&n) || n == PROCESSOR);
        way.push(name);
        if !ALLOWED.contains(&name) && !beyond {
            let fault = way.join(" -> ");
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    if way.is_empty() {
        bail!("cargo tree printed nothing");
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::forbidden;

    #[test]
    fn the_way_to_a_forbidden_package_is_named_once_and_not_what_lies_beyond() {
        let tree = "0 tickwire-stack v0.1.0 (/somewhere)\n1 smoltcp v0.14.0\n2 libc v0.2.1\n3 std-of-os v1.0.0\n2 managed v0.8.0\n1 zerocopy v0.8.1\n";
        assert_eq!(forbidden(tree).unwrap(), ["tickwire-stack -> smoltcp -> libc"]);
        assert!(forbidden("0 tickwire-stack v0.1.0\n1 smoltcp v0.14.0\n").unwrap().is_empty());
        assert!(forbidden("0 tickwire-ntp v0.1.0\n1 cpufeatures v0.3.1\n2 libc v0.2.1\n").unwrap().is_empty());
        assert!(forbidden("").is_err());
    }
}
