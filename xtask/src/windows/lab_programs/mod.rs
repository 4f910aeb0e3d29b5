//! Windows programs of the lab, in C.

use crate::windows::CC;
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Where they are.
fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("lab-programs"))
}

/// A plain program of Winsock.
pub(super) fn plain() -> Result<PathBuf> {
    Ok(folder()?.join("plain.exe"))
}

/// Builds them.
pub(super) fn build() -> Result<()> {
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let source = workspace::root().join("xtask/src/windows/lab_programs/plain.c");
    let mut compile = Command::new(CC);
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(plain()?).arg(source).arg("-lws2_32");
    workspace::run(&mut compile)
}
