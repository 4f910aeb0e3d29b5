//! Debian packages unpacked into the build directory instead of installed. Time daemons exclude
//! each other, so installing one would remove the one that keeps the machine's clock. And the
//! interpreter's tests need its newest build.

use crate::workspace;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directories of administrators' programs, which a user's `PATH` lacks.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

fn directory() -> Result<PathBuf> {
    Ok(workspace::target()?.join("unpacked"))
}

/// The folders of the programs of a package.
fn folders(package: &Path) -> [PathBuf; 2] {
    ["usr/sbin", "usr/bin"].map(|folder| package.join(folder))
}

/// Whether this package is unpacked and has this program.
pub(crate) fn has(package: &str, program: &str) -> bool {
    directory().is_ok_and(|all| folders(&all.join(package)).iter().any(|folder| folder.join(program).is_file()))
}

/// A folder of an unpacked package, by its path in the package.
pub(crate) fn folder(package: &str, inside: &str) -> Option<PathBuf> {
    Some(directory().ok()?.join(package).join(inside)).filter(|folder| folder.is_dir())
}

/// `PATH`, extended by administrators' programs and unpacked ones.
pub(crate) fn path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let packages = directory().and_then(|all| Ok(std::fs::read_dir(all)?)).into_iter().flatten().flatten();
    let unpacked = packages.flat_map(|package| folders(&package.path()));
    let all = std::env::split_paths(&path).chain(ADMINISTRATORS.map(PathBuf::from)).chain(unpacked);
    // A build directory with a colon in its name cannot be in `PATH`.
    std::env::join_paths(all).unwrap_or(path)
}

/// Downloads and unpacks a package, whose dependencies are installed. This runs as the building
/// user: apt-get's own user cannot write here.
pub(crate) fn get(package: &str) -> Result<()> {
    let all = directory()?;
    std::fs::create_dir_all(&all).with_context(|| format!("cannot make {}", all.display()))?;
    eprintln!("unpacking: {package}, into {}", all.display());
    let script = format!(
        "set -e\nrm -rf {package} {package}_*.deb\napt-get download -q -o APT::Sandbox::User=root {package}\ndpkg-deb -x {package}_*.deb {package}\nrm {package}_*.deb\n"
    );
    workspace::run(Command::new("sh").current_dir(&all).args(["-c", &script]))
        .with_context(|| format!("cannot get {package}"))
}
