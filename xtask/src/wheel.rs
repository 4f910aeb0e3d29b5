//! `cargo xtask wheel`: the Python package with the C library in it.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Builds the library and the wheel, below the target directory. The source tree stays as it is.
pub(crate) fn run() -> Result<()> {
    let pip =
        Command::new("python3").args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !pip.is_ok_and(|status| status.success()) {
        bail!("building a wheel needs Python's pip: apt-get install python3-pip");
    }
    let library = workspace::build_release_of(&["tickclock"])?.join("libtickclock.so");
    let directory = workspace::target()?.join("wheel");
    let staged = directory.join("source");
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    copy(&workspace::root().join("crates/tickclock/python"), &staged)?;
    fs::copy(&library, staged.join("tickclock/libtickclock.so"))
        .with_context(|| format!("cannot copy {}", library.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir"]).arg(&directory).arg(&staged);
    workspace::run(&mut pip)?;
    fs::remove_dir_all(&staged).context("cannot remove the staged source")?;
    for entry in fs::read_dir(&directory).context("cannot look for the wheel")?.flatten() {
        println!("{}", entry.path().display());
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            copy(&entry, &to)?;
        } else {
            fs::copy(&entry, &to).with_context(|| format!("cannot copy {}", entry.display()))?;
        }
    }
    Ok(())
}
