//! Building the program of the suite.

use crate::windows::CC;
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The program.
pub(super) fn program() -> Result<PathBuf> {
    Ok(workspace::target()?.join("lab-programs/suite.exe"))
}

/// Compiles all files of the folder into the program.
pub(super) fn build() -> Result<()> {
    let sources = workspace::root().join("xtask/src/windows/suite/program");
    let entries = fs::read_dir(&sources).with_context(|| format!("cannot read {}", sources.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    let program = program()?;
    let folder = program.parent().context("a program without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut compile = Command::new(CC);
    compile.args(["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Werror"]);
    compile.args(["-D_WIN32_WINNT=0x0602", "-o"]).arg(&program).args(files);
    workspace::run(compile.args(["-lws2_32", "-lmswsock", "-luser32"]))
}
