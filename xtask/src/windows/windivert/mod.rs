//! The stand-in for WinDivert in the lab, and the service beside it. What it is and does says
//! `windivert.h`.

use super::lab_card::{WINEBUILD, WINEGCC, compiler};
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The name by which Windows programs load it.
pub(super) const DLL: &str = "WinDivert.dll";

/// The folder of programs that use it: they load it from beside them.
fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("lab-windivert"))
}

/// The folder of programs that look for it in vain.
fn folder_without() -> Result<PathBuf> {
    Ok(workspace::target()?.join("lab-without-windivert"))
}

/// The stand-in.
pub(super) fn library() -> Result<PathBuf> {
    Ok(folder()?.join(DLL))
}

/// The service, beside the stand-in.
pub(super) fn service() -> Result<PathBuf> {
    Ok(folder()?.join("lab_service.exe"))
}

/// The service without a stand-in.
pub(super) fn service_without() -> Result<PathBuf> {
    Ok(folder_without()?.join("lab_service.exe"))
}

/// Builds the stand-in, and puts the service beside it.
pub(super) fn build(lab_service: &Path) -> Result<()> {
    for (folder, service) in [(folder()?, service()?), (folder_without()?, service_without()?)] {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::copy(lab_service, service).with_context(|| format!("cannot copy {}", lab_service.display()))?;
    }
    build_library()
}

/// Builds the stand-in alone. (Wine loads a library of Linux like any DLL, if it is named by its
/// whole path.)
pub(super) fn build_library() -> Result<()> {
    fs::create_dir_all(folder()?).context("cannot create the folder of the stand-in")?;
    let sources = workspace::root().join("xtask/src/windows/windivert");
    let built = folder()?.join(format!("{DLL}.so"));
    let mut compile = compiler(WINEGCC, &built);
    compile.env("WINEBUILD", WINEBUILD).arg("-shared").arg(sources.join("WinDivert.spec"));
    compile
        .args(["exports.c", "handle.c", "filter.c", "packet.c", "host.c", "copies.c"].map(|name| sources.join(name)));
    let shared = workspace::root().join("xtask/src/windows/lab_card");
    workspace::run(compile.args(["helper.c", "tun.c"].map(|name| shared.join(name))))?;
    fs::rename(&built, library()?).context("the stand-in has not been built")
}
