//! `cargo xtask miscompiled`: looks for code of the data path that the compiler has broken.
//!
//! An optimisation of rustc 1.95 can remove the assignment of a comparison's result that is used
//! twice (rust-lang/rust#158206). What remains is a read of a local that nothing has assigned. No
//! lint and no test of another profile shows that, but the compiler's MIR does.
//!
//! | module | purpose |
//! |---|---|
//! | `mir` | reads the compiler's MIR, as text |
//! | `unassigned` | the locals that a function may read before anything has assigned them |

mod mir;
mod unassigned;

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Faults shown of a function.
const SHOWN: usize = 3;

/// Looks at the MIR of a release build; fails if something was miscompiled.
pub(crate) fn run() -> Result<()> {
    let target = workspace::target()?.join("mir");
    let crates =
        data_path(&fs::read_to_string(workspace::root().join("Cargo.toml")).context("cannot read Cargo.toml")?);
    if crates.is_empty() {
        bail!("Cargo.toml has no crate with one codegen unit");
    }
    // What an earlier run left would be read again.
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", target.display()));
        }
        _ => {}
    }
    let mut cargo = workspace::cargo();
    // A build and not a check: a check does not inline functions of one crate in another.
    cargo.args(["build", "--release", "--locked", "--target-dir"]).arg(&target).env("RUSTFLAGS", "--emit=mir");
    workspace::run(cargo.args(crates.iter().flat_map(|name| ["--package", name.as_str()])))?;
    let mut number = 0;
    let mut faults = Vec::new();
    for name in &crates {
        for file in files(&target.join("release/deps"), name)? {
            let text = code(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let functions = mir::functions(&text);
            number += functions.len();
            faults.extend(functions.iter().flat_map(|function| faults_of(name, function)));
        }
    }
    fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))?;
    if !faults.is_empty() {
        bail!("the compiler has broken this code (xtask/src/miscompiled/mod.rs says how):\n  {}", faults.join("\n  "));
    }
    println!("{number} functions of {} read only what they have assigned", crates.join(", "));
    Ok(())
}

/// The crates of the data path, by the workspace's manifest: those that a release build compiles
/// as one unit.
fn data_path(manifest: &str) -> Vec<String> {
    let mut lines = manifest.lines().peekable();
    let mut crates = Vec::new();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("[profile.release.package.").and_then(|line| line.strip_suffix(']'));
        if let Some(name) = name
            && lines.peek().is_some_and(|line| *line == "codegen-units = 1")
        {
            crates.push(name.to_owned());
        }
    }
    crates
}

/// The files with the MIR of a crate.
fn files(folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if is_mir_of(&path.file_name().unwrap_or_default().to_string_lossy(), name) {
            found.push(path);
        }
    }
    if found.is_empty() {
        bail!("cargo wrote no MIR of {name} to {}", folder.display());
    }
    Ok(found)
}

/// Whether a file has the MIR of a crate: a hash follows the name, except in a shared library's.
fn is_mir_of(file: &str, name: &str) -> bool {
    let rest = file.strip_suffix(".mir").and_then(|file| file.strip_prefix(&name.replace('-', "_")));
    rest.is_some_and(|hash| hash.is_empty() || hash.starts_with('-'))
}

/// The text of a file without the contents of constants, which may be hundreds of megabytes.
fn code(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    for line in BufReader::new(File::open(file)?).lines() {
        let line = line?;
        if !line.contains('│') {
            text.push_str(&line);
            text.push('\n');
        }
    }
    Ok(text)
}

fn faults_of(name: &str, function: &mir::Function<'_>) -> Vec<String> {
    let found = unassigned::unassigned(function).into_iter().take(SHOWN);
    found.map(|fault| format!("{name}: {} {fault}", function.signature)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_of_the_data_path_are_those_of_the_manifest() {
        let crates = data_path(include_str!("../../../Cargo.toml"));
        for name in ["tickwire-stack", "tickwire-lane", "tickwire-lane-linux", "tickwire-linux-abi", "tickwire-preload"]
        {
            assert!(crates.iter().any(|other| other == name), "{name}: {crates:?}");
        }
        let others = "[profile.release.package.a]\nopt-level = 3\n[profile.dev.package.b]\ncodegen-units = 1\n";
        assert_eq!(data_path(others), [""; 0]);
    }

    #[test]
    fn the_files_of_a_crate_are_told_from_those_of_others() {
        assert!(is_mir_of("tickwire_lane_linux-99c356f5.mir", "tickwire-lane-linux"));
        assert!(is_mir_of("tickwire_preload.mir", "tickwire-preload"));
        for other in
            ["tickwire_linked-99c356f5.mir", "tickwire_lane_linux-99c356f5.d", "libtickwire_lane_linux-99c356f5.rmeta"]
        {
            assert!(!is_mir_of(other, "tickwire-lane-linux"), "{other}");
        }
    }
}
