//! `cargo xtask test`: all tests, and their sum.
//!
//! Everything is built once, as the calling user. The tests that do not need root run first, as
//! that user. The tests that make network namespaces then run as root (by sudo if needed), one at a
//! time, because they measure time and the machine may have only two processors.

use crate::{deps, unpacked, workspace};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
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

/// Folders of the crates whose tests make namespaces, devices or BPF programs.
const ROOT: [&str; 5] = ["lab", "host", "lane-linux", "service", "preload"];

/// A built test program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    executable: PathBuf,
    /// The crate's folder, in which it runs.
    folder: PathBuf,
    name: String,
}

impl Program {
    /// Parses a line of cargo's JSON; none if it is not about a test program.
    fn read(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        Some(Self {
            executable: message["executable"].as_str()?.into(),
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.into(),
            name: message["target"]["name"].as_str()?.to_owned(),
        })
    }

    /// The program.
    pub(crate) fn executable(&self) -> &Path {
        &self.executable
    }

    /// The folder in which it runs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it tests.
    pub(crate) fn title(&self) -> String {
        let folder = self.folder.strip_prefix(workspace::root()).unwrap_or(&self.folder);
        format!("{}: {}", folder.display(), self.name)
    }

    fn needs_root(&self) -> bool {
        self.folder.file_name().is_some_and(|name| ROOT.iter().any(|root| name == *root))
    }
}

/// How many tests passed and failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    passed: u64,
    failed: u64,
}

impl Sum {
    /// Runs a test program (or cargo itself), passes its output on and counts. A nonzero exit
    /// status without a counted failure is a crash or a failed build, and counts as one failure:
    /// the last line must not look like success.
    pub(crate) fn run(&mut self, what: &str, command: &mut Command) -> Result<()> {
        println!("== {what}");
        let before = self.failed;
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {what}"))?;
        let output = child.stdout.take().context("no output")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            println!("{line}");
            if let Some((passed, failed)) = result(&line) {
                self.passed += passed;
                self.failed += failed;
            }
        }
        let status = child.wait()?;
        if !status.success() && self.failed == before {
            println!("{what} ended with {status}");
            self.failed += 1;
        }
        Ok(())
    }
}

impl Sum {
    /// Whether all passed.
    pub(crate) fn is_success(&self) -> bool {
        self.failed == 0
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs the tests; the last line of output is `N passed, M failed`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.no_lab {
        workspace::ask_for_root().context("the lab's tests need root; --no-lab leaves them out")?;
    }
    deps::install(&deps::EVERYTHING)?;
    deps::install(&deps::TESTS)?;
    // The tests start `tickwire`, which loads the preload library.
    workspace::run(workspace::cargo().args(["build", "--workspace"]))?;
    let (for_root, for_all): (Vec<_>, Vec<_>) = build()?.into_iter().partition(Program::needs_root);
    let filter = options.filter.as_deref();

    let mut sum = Sum::default();
    for program in &for_all {
        sum.run(
            &program.title(),
            Command::new(&program.executable).args(filter).env("PATH", unpacked::path()).current_dir(&program.folder),
        )?;
    }
    let mut documentation = workspace::cargo();
    documentation.args(["test", "--workspace", "--doc", "--no-fail-fast", "--quiet", "--"]).args(filter);
    sum.run("examples in the documentation", &mut documentation)?;
    if !options.no_lab {
        let build = workspace::target()?.join("debug");
        for program in &for_root {
            let mut command = as_root(&program.executable, &build);
            sum.run(&program.title(), command.args(filter).current_dir(&program.folder))?;
        }
    }

    println!("{sum}");
    if !sum.is_success() {
        bail!("tests failed");
    }
    Ok(())
}

/// Builds all tests and returns the test programs.
fn build() -> Result<Vec<Program>> {
    built(workspace::cargo().args(["test", "--workspace", "--no-run"]))
}

/// The test programs that a `cargo test --no-run` builds.
pub(crate) fn built(cargo: &mut Command) -> Result<Vec<Program>> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo test")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Program::read).collect())
}

/// The command that runs a test program as root, one test at a time.
fn as_root(executable: &Path, build: &Path) -> Command {
    let mut path = OsString::from("PATH=");
    path.push(unpacked::path());
    let settings = ["RUST_TEST_THREADS=1".into(), format!("{DIRECTORY_VARIABLE}={}", build.display()).into(), path];
    let mut command = Command::new(if tickwire_lab::is_root() { "env" } else { "sudo" });
    if !tickwire_lab::is_root() {
        command.arg("env");
    }
    command.args(settings).arg(executable);
    command
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
    use super::*;

    #[test]
    fn the_runners_summaries_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.07s";
        assert_eq!(result(line), Some((12, 3)));
        assert_eq!(result("test a ... ok"), None);
    }

    #[test]
    fn test_programs_are_found_in_what_cargo_says() {
        let line = |test| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/x/crates/lab/Cargo.toml","target":{{"name":"echo"}},"profile":{{"test":{test}}},"executable":"/t/echo-1"}}"#
            )
        };
        let program = Program::read(&line(true)).unwrap();
        assert_eq!((program.name.as_str(), program.executable.to_str()), ("echo", Some("/t/echo-1")));
        assert!(program.needs_root());
        assert_eq!(Program::read(&line(false)), None);
        assert_eq!(Program::read("Compiling"), None);
    }

    #[test]
    fn a_program_that_crashes_counts_as_a_failure() {
        let mut sum = Sum::default();
        sum.run("a test", Command::new("sh").args(["-c", "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'"]))
            .unwrap();
        assert_eq!(sum, Sum { passed: 2, failed: 0 });
        sum.run("another", Command::new("sh").args(["-c", "kill -9 $$"])).unwrap();
        assert_eq!(sum, Sum { passed: 2, failed: 1 });
    }
}
