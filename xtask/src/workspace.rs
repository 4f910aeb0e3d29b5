//! Building the workspace, and becoming root for what needs it.

use crate::unpacked;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tickwire_lab::tools::DIRECTORY_VARIABLE;

/// The top of the source tree for which cargo runs us. This program may have been built in another
/// tree with the same target directory.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&package).parent().unwrap_or(Path::new(".")).to_owned()
    })
}

/// Cargo, to be run in the source tree; the cargo that runs us, if there is one. The variables that
/// it has set for our own package are removed. Build scripts (`ring`'s, for one) depend on them, so
/// builds with and without xtask in turn would rerun these scripts and rebuild all that depends on
/// them.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let of_our_package =
            |name: &str| name == "OUT_DIR" || name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
        if name.to_str().is_some_and(of_our_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command on our own terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}

/// Builds an example of a package in release mode, with these features. The result is in
/// `release/examples` below [`target`].
pub(crate) fn build_release_example(package: &str, features: &str, name: &str) -> Result<()> {
    run(cargo().args(["build", "--release", "--package", package, "--features", features, "--example", name]))
}

/// Builds all programs in release mode and returns their directory.
pub(crate) fn build_release() -> Result<PathBuf> {
    let directory = target()?.join("release");
    let warning = if directory.exists() { "" } else { " (the first time takes some minutes and 2 GB of disk)" };
    eprintln!("building{warning} ...");
    run(cargo().args(["build", "--release", "--workspace", "--exclude", "xtask"]))?;
    Ok(directory)
}

/// Builds some packages in release mode and returns the directory of their programs.
pub(crate) fn build_release_of(packages: &[&str]) -> Result<PathBuf> {
    eprintln!("building ...");
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    run(cargo().args(["build", "--release"]).args(packages))?;
    Ok(target()?.join("release"))
}

/// Cargo's target directory: this program is in `debug` or `release` below it.
pub(crate) fn target() -> Result<PathBuf> {
    let me = std::env::current_exe().context("cannot find the running program")?;
    let directory = me.parent().and_then(Path::parent).context("the running program is not in a target directory")?;
    Ok(directory.to_path_buf())
}

/// Makes sure early that becoming root will work: sudo asks for its password now, if it needs one,
/// before anything takes long.
pub(crate) fn ask_for_root() -> Result<()> {
    if tickwire_lab::is_root() {
        return Ok(());
    }
    if !tickwire_lab::tools::installed("sudo") {
        bail!("this makes network namespaces and needs root: run it as root, or install sudo");
    }
    let ready = Command::new("sudo").args(["-n", "true"]).stderr(std::process::Stdio::null()).status();
    if ready.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    eprintln!("network namespaces need root: asking sudo now, so that nothing has to wait for it later");
    run(Command::new("sudo").arg("-v"))
}

/// Executes this program again as root, with the directory of the built programs in its
/// environment. It replaces this process, so that a signal reaches the process that has to clean
/// up. Returns only on failure.
pub(crate) fn again_as_root(build: &Path) -> Result<()> {
    let me = std::env::current_exe().context("cannot find the running program")?;
    let mut command = if tickwire_lab::is_root() {
        Command::new(me)
    } else {
        let mut path = OsString::from("PATH=");
        path.push(unpacked::path());
        let mut sudo = Command::new("sudo");
        sudo.arg("env").arg(format!("{DIRECTORY_VARIABLE}={}", build.display())).arg(path).arg(me);
        sudo
    };
    command.args(std::env::args_os().skip(1)).env(DIRECTORY_VARIABLE, build).env("PATH", unpacked::path());
    Err(command.exec()).context("cannot run this program again")
}
