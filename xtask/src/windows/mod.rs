//! `cargo xtask windows test`: the shared crates are built for Windows, and their tests run under
//! Wine. There is no Windows machine among those that test this project.

mod wine;

use crate::check::SHARED;
use crate::test::{Sum, built};
use crate::{deps, workspace};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use std::path::Path;
use std::process::Command;
use wine::Wine;

/// The Rust target, and the variable in which cargo looks for its linker.
const TARGET: &str = "x86_64-pc-windows-gnu";
const LINKER: &str = "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER";

/// The C compiler, which is also the linker.
const CC: &str = "x86_64-w64-mingw32-gcc";

/// Crates beside the shared ones: two without code for one operating system, and one with code for
/// each.
const FURTHER: [&str; 3] = ["tickwire-report", "tickwire-settings", "tickclock"];

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Build the shared crates for Windows and run their tests under Wine
    Test(Options),
}

/// Which tests.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only tests whose name contains this
    filter: Option<String>,
}

pub(crate) fn run(task: &Task) -> Result<()> {
    match task {
        Task::Test(options) => test(options),
    }
}

/// Runs the tests; the last line of output is `N passed, M failed (Wine)`.
fn test(options: &Options) -> Result<()> {
    deps::install(&deps::WINDOWS)?;
    add_target()?;
    let mut cargo = workspace::cargo();
    // In a shared crate, code for an operating system is behind a default feature.
    cargo.args(["test", "--no-run", "--locked", "--no-default-features", "--tests", "--target", TARGET]);
    cargo.args(SHARED.into_iter().chain(FURTHER).flat_map(|package| ["--package", package])).env(LINKER, CC);
    let programs = built(&mut cargo)?;
    let wine = Wine::new()?;
    let mut sum = Sum::default();
    for program in &programs {
        let mut command = wine.run(program.executable());
        sum.run(&program.title(), command.args(&options.filter).current_dir(program.folder()))?;
    }
    println!("{sum} (Wine)");
    if !sum.is_success() {
        bail!("tests failed");
    }
    Ok(())
}

/// Installs the standard library for Windows, if it is not there.
fn add_target() -> Result<()> {
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let libraries = libraries.context("cannot run rustc")?.stdout;
    let is_there = Path::new(String::from_utf8_lossy(&libraries).trim()).is_dir();
    if is_there {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    workspace::run(add.args(["target", "add", TARGET]).current_dir(workspace::root()))
        .with_context(|| format!("the Rust target {TARGET} is needed: rustup target add {TARGET}"))
}
