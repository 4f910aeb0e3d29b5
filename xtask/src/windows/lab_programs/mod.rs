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

/// The programs, and the libraries of Windows that each needs beside `ws2_32`.
const PROGRAMS: [(&str, &[&str]); 13] = [
    ("plain", &[]),
    ("events", &["-luser32"]),
    ("overlapped", &["-lmswsock"]),
    ("afd", &["-lntdll"]),
    ("afd_server", &["-lntdll"]),
    ("afd_loss", &["-lntdll"]),
    ("exits", &[]),
    ("waits", &[]),
    ("echo_service", &["-ladvapi32"]),
    ("by_ordinal", &[]),
    ("round_trips", &[]),
    ("stress", &["-lntdll"]),
    ("handles", &["-lntdll"]),
];

/// A program.
pub(super) fn program(name: &str) -> Result<PathBuf> {
    Ok(folder()?.join(name).with_extension("exe"))
}

/// A program that reads the clock.
pub(super) fn clock() -> Result<PathBuf> {
    program("clock")
}

/// Builds the programs of sockets.
pub(super) fn build() -> Result<()> {
    make_folder()?;
    for (name, libraries) in PROGRAMS {
        workspace::run(compile(name, &program(name)?).arg("-lws2_32").args(libraries))?;
    }
    Ok(())
}

/// Builds the program that reads the clock; the library comes beside it.
pub(super) fn build_clock(library: &Path) -> Result<()> {
    let beside = folder()?.join("tickclock.dll");
    make_folder()?;
    fs::copy(library, &beside).with_context(|| format!("cannot copy {}", library.display()))?;
    build_clock_with(&workspace::root().join("crates/tickclock/include"), &beside, &clock()?)
}

/// Builds it with the header in this folder and this library, or what stands for it in a link.
pub(super) fn build_clock_with(include: &Path, library: &Path, program: &Path) -> Result<()> {
    workspace::run(compile("clock", program).arg("-I").arg(include).arg(library))
}

fn make_folder() -> Result<()> {
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// The compiler for a program, without its libraries.
fn compile(name: &str, program: &Path) -> Command {
    let source = workspace::root().join("xtask/src/windows/lab_programs").join(name).with_extension("c");
    let mut compile = Command::new(CC);
    compile.args(["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Werror"]);
    compile.args(["-D_WIN32_WINNT=0x0600", "-o"]).arg(program).arg(source);
    compile
}
