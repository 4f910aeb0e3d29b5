//! `cargo xtask test`: all tests, and their sum.
//!
//! The lab's tests make network namespaces: they run as root (by sudo, if the caller is not), one at a time because they measure and because
//! the machine may have two processors only. All others run first, as the caller.

use crate::{deps, workspace};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tickwire_lab::tools::DIRECTORY_VARIABLE;

/// Which tests.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only tests whose name contains this
    filter: Option<String>,

    /// Leave out the tests that need root
    #[arg(long)]
    no_lab: bool,
}

/// Packages whose tests make namespaces, devices or BPF programs.
const ROOT: [&str; 5] = ["tickwire-lab", "tickwire-host", "tickwire-link", "tickwire-service", "tickwire-preload"];

#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
}

/// Runs the tests; the last line of output is `N passed, M failed`.
pub(crate) fn run(options: &Options) -> Result<()> {
    deps::install(&deps::EVERYTHING)?;
    let mut sum = Sum::default();
    let mut broken = Vec::new();
    let mut part = |what: &str, command: &mut Command| -> Result<()> {
        println!("== {what}");
        if let Some(filter) = &options.filter {
            command.args(["--", filter]);
        }
        if !tests(command, &mut sum)? {
            broken.push(what.to_owned());
        }
        Ok(())
    };

    let mut first = workspace::cargo();
    first.args(["test", "--workspace", "--no-fail-fast"]);
    for package in ROOT {
        first.args(["--exclude", package]);
    }
    part("unit, property and simulation tests", &mut first)?;
    if !options.no_lab {
        // The tests start `tickwire`, and that loads the preload library.
        workspace::run(workspace::cargo().args(["build", "--workspace", "--exclude", "xtask"]))?;
        let mut lab = workspace::cargo();
        lab.args(["test", "--no-fail-fast"]);
        for package in ROOT {
            lab.args(["--package", package]);
        }
        lab.env("RUST_TEST_THREADS", "1").env(DIRECTORY_VARIABLE, workspace::target()?.join("debug"));
        run_by_root(&mut lab)?;
        part("lab tests", &mut lab)?;
    }

    if !broken.is_empty() {
        println!("not all well in: {}", broken.join(", "));
        // What did not even build counts as one failure: the last line must not look like success.
        sum.failed = sum.failed.max(1);
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    if sum.failed > 0 {
        bail!("tests failed");
    }
    Ok(())
}

/// Cargo builds as the caller and runs the built tests by sudo.
fn run_by_root(command: &mut Command) -> Result<()> {
    if tickwire_lab::is_root() {
        return Ok(());
    }
    if !tickwire_lab::tools::installed("sudo") {
        bail!(
            "the lab's tests make network namespaces and need root: run this as root, install sudo, or leave them out with --no-lab"
        );
    }
    let runner = format!("CARGO_TARGET_{}_RUNNER", env!("XTASK_TARGET").to_uppercase().replace('-', "_"));
    command.env(runner, "sudo -E");
    Ok(())
}

/// Runs cargo test, passes its output on and counts; whether all was well.
fn tests(command: &mut Command, sum: &mut Sum) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot run cargo test")?;
    let output = child.stdout.take().context("no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        if let Some((passed, failed)) = result(&line) {
            sum.passed += passed;
            sum.failed += failed;
        }
    }
    Ok(child.wait()?.success())
}

/// The numbers of `test result: ok. 3 passed; 0 failed; ...`.
fn result(line: &str) -> Option<(u64, u64)> {
    let rest = line.strip_prefix("test result: ")?;
    let number = |word: &str| {
        let before = rest.split(';').find_map(|part| part.trim().strip_suffix(word))?;
        before.split_whitespace().last()?.parse().ok()
    };
    Some((number(" passed")?, number(" failed")?))
}

#[cfg(test)]
mod tests {
    use super::result;

    #[test]
    fn the_runners_summaries_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.07s";
        assert_eq!(result(line), Some((12, 3)));
        assert_eq!(result("test a ... ok"), None);
    }
}
