//! `cargo xtask windows package`: the zip for users on Windows, built and tried.
//!
//! | module | purpose |
//! |---|---|
//! | `imports` | what the library imports |
//! | `notices` | the licences of what is in the programs |
//! | `trial` | unpacking it into an empty prefix, and its first commands |

mod imports;
mod notices;
mod trial;

use super::{TARGET, add_target, cross, replacement, wine};
use crate::{deps, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, and its library.
const PROGRAM: &str = "tickwire.exe";
const LIBRARY: &str = "tickwire_winsock.dll";

/// The library that reads the clock, and what programs are linked to it by.
const CLOCK: &str = "tickclock.dll";
const CLOCK_IMPORTS: &str = "libtickclock.dll.a";

/// What is in the zip as it is in the source tree.
const FILES: [&str; 6] = [
    "crates/tickclock/include/tickclock.h",
    "packaging/windows/README.txt",
    "packaging/windows/install.cmd",
    "packaging/windows/uninstall.cmd",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

/// What is said about the DLLs of Winsock for a program's folder, beside them.
const REPLACEMENT_README: &str = "packaging/windows/replacement/README.txt";

/// Builds it, and tries it.
pub(super) fn run() -> Result<()> {
    deps::install(&deps::WINDOWS)?;
    deps::install(&deps::WINDOWS_PACKAGE)?;
    add_target()?;
    let release = build()?;
    imports::check(&release.join(LIBRARY))?;
    replacement::build()?;
    let name = format!("tickwire-{}-windows-x86_64", env!("CARGO_PKG_VERSION"));
    let folder = workspace::target()?.join("windows-package");
    let staged = folder.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&staged).with_context(|| format!("cannot create {}", staged.display()))?;
    for file in [PROGRAM, LIBRARY, CLOCK, CLOCK_IMPORTS] {
        copy(&release.join(file), &staged)?;
    }
    let replacements = staged.join("replacement");
    fs::create_dir(&replacements).with_context(|| format!("cannot create {}", replacements.display()))?;
    for name in replacement::NAMES {
        copy(&replacement::library(name)?, &replacements)?;
    }
    copy_text(&workspace::root().join(REPLACEMENT_README), &replacements)?;
    for file in FILES {
        copy_text(&workspace::root().join(file), &staged)?;
    }
    let notices = notices::of(&["tickwire", "tickwire-winsock", "tickclock"])?;
    fs::write(staged.join("THIRD-PARTY.txt"), windows_lines(&notices)).context("cannot write the notices")?;
    let zip = folder.join(format!("{name}.zip"));
    let mut pack = Command::new("python3");
    pack.args(["-m", "zipfile", "-c"]).arg(&zip).arg(&name).current_dir(&folder);
    workspace::run(&mut pack)?;
    trial::run(&zip, &name)?;
    println!("{}", zip.display());
    Ok(())
}

/// Builds the program and both libraries. A library is built alone, because cargo optimises it as a
/// whole only so, and its import of Winsock would stay otherwise.
fn build() -> Result<PathBuf> {
    for what in [
        &["--package", "tickwire", "--bin", "tickwire"][..],
        &["--package", "tickwire-winsock", "--lib", "--crate-type", "cdylib"],
        &["--package", "tickclock", "--lib", "--crate-type", "cdylib"],
    ] {
        let mut cargo = workspace::cargo();
        cargo.args(["rustc", "--release", "--locked"]).args(what);
        cross(&mut cargo).args(["--", "-C", "strip=symbols"]);
        workspace::run(&mut cargo)?;
    }
    Ok(workspace::target()?.join(TARGET).join("release"))
}

fn copy(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().context("a file without a name")?;
    fs::copy(file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// Copies a text, with lines as on Windows.
fn copy_text(file: &Path, folder: &Path) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = file.file_name().context("a file without a name")?;
    fs::write(folder.join(name), windows_lines(&text)).with_context(|| format!("cannot write {}", folder.display()))
}

fn windows_lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}
