//! WinDivert's own library, from a package of Python that carries it. Under Wine its driver cannot
//! be loaded, but the library compiles and evaluates filters there.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The package and its wheel for Windows. It has the library of WinDivert 2.2.2, under the LGPL.
const PACKAGE: &str =
    "pydivert==4.0.1 --hash=sha256:848e8da98a39b4da056758f51b53af33cdf027d8c55eff19d910922b61347db1\n";
const WHEEL: &str = "pydivert-4.0.1-py3-none-win_amd64.whl";

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("real-windivert"))
}

/// The library, if it could be got.
pub(super) fn library() -> Result<Option<PathBuf>> {
    let path = folder()?.join("pydivert/windivert_dll/WinDivert64.dll");
    Ok(path.exists().then_some(path))
}

/// Gets the package, if it is not there and can be got.
pub(super) fn get() -> Result<()> {
    if library()?.is_some() {
        return Ok(());
    }
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let wanted = folder.join("wanted.txt");
    fs::write(&wanted, PACKAGE).with_context(|| format!("cannot write {}", wanted.display()))?;
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
    download.args(["--retries", "0", "--timeout", "10"]);
    download.args(["--only-binary", ":all:", "--platform", "win_amd64", "--dest"]).arg(&folder);
    download.arg("--requirement").arg(&wanted).stdout(Stdio::null()).stderr(Stdio::null());
    if !download.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let mut unpack = Command::new("python3");
    let status = unpack.args(["-m", "zipfile", "--extract"]).arg(folder.join(WHEEL)).arg(&folder).status();
    let status = status.context("cannot run python3")?;
    ensure!(status.success(), "the package's wheel cannot be unpacked ({status})");
    ensure!(library()?.is_some(), "the package has no library of WinDivert");
    Ok(())
}
