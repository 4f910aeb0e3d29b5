//! Windows programs of the lab, in C.

use crate::windows::CC;
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where they are.
fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("lab-programs"))
}

/// A plain program of Winsock.
pub(super) fn plain() -> Result<PathBuf> {
    Ok(folder()?.join("plain.exe"))
}

/// A program that reads the clock.
pub(super) fn clock() -> Result<PathBuf> {
    Ok(folder()?.join("clock.exe"))
}

/// Builds the plain program.
pub(super) fn build() -> Result<()> {
    workspace::run(compile("plain.c", &plain()?)?.arg("-lws2_32"))
}

/// Builds the program that reads the clock; the library comes beside it.
pub(super) fn build_clock(library: &Path) -> Result<()> {
    let mut compile = compile("clock.c", &clock()?)?;
    let beside = folder()?.join("tickclock.dll");
    fs::copy(library, &beside).with_context(|| format!("cannot copy {}", library.display()))?;
    let include = workspace::root().join("crates/tickclock/include");
    workspace::run(compile.arg("-I").arg(include).arg(beside))
}

/// The compiler for a program, without its libraries.
fn compile(source: &str, program: &Path) -> Result<Command> {
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let source = workspace::root().join("xtask/src/windows/lab_programs").join(source);
    let mut compile = Command::new(CC);
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program).arg(source);
    Ok(compile)
}
