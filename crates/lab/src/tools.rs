//! Paths of the built programs.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Environment variable: the directory of the built programs, if they are not beside the running
/// one.
pub const DIRECTORY_VARIABLE: &str = "TICKWIRE_BUILD";

/// The program `tickwire`.
///
/// # Errors
/// It has not been built.
pub fn tickwire() -> Result<PathBuf> {
    built("tickwire")
}

/// A program of the workspace by name. It is taken from the directory named by `TICKWIRE_BUILD`, or
/// from the build directory that contains the running program (a test, an `xtask`).
///
/// # Errors
/// It is not there; the error says how to build it.
pub fn built(name: &str) -> Result<PathBuf> {
    let directory = match std::env::var_os(DIRECTORY_VARIABLE) {
        Some(directory) => PathBuf::from(directory),
        None => own_directory()?,
    };
    let path = directory.join(name);
    if !path.is_file() {
        bail!(
            "{} is not there: build it with `cargo build --workspace` (`cargo xtask` does so by itself)",
            path.display()
        );
    }
    Ok(path)
}

fn own_directory() -> Result<PathBuf> {
    let me = std::env::current_exe().context("cannot find the running program")?;
    let directory = me.parent().context("the running program has no directory")?;
    // Tests are in `deps`, examples in `examples`, below the programs.
    let below = directory.file_name().is_some_and(|n| n == "deps" || n == "examples");
    Ok(if below { directory.parent().unwrap_or(directory) } else { directory }.to_path_buf())
}

/// Polls until a condition holds.
///
/// # Errors
/// It did not within `timeout`; the error names it.
pub fn until(what: &str, timeout: Duration, mut holds: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + timeout;
    while !holds() {
        if Instant::now() > end {
            bail!("gave up after {timeout:?} waiting until {what}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Whether a program is installed, in `PATH` or in Debian's directories for system administration.
#[must_use]
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].iter().map(PathBuf::from))
        .any(|d| is_executable(&d.join(program)))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
