//! The lab card, the network card of Windows programs in the lab, and a program that tests it. What
//! the card is and does says `lab_card.h`.

use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds Winelib DLLs. Debian's script in front of it does not pass on names with spaces.
pub(super) const WINEGCC: &str = "/usr/lib/wine/winegcc";
pub(super) const WINEBUILD: &str = "/usr/lib/wine/winebuild";

/// The name by which Windows programs load it.
pub(super) const DLL: &str = "tickwire_lab_card.dll";

/// Where Wine finds the DLL (`WINEDLLPATH`), in a file of Linux. A program finds it if there is a
/// placeholder of its name in the folder of Windows' own DLLs.
pub(super) fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("lab-card"))
}

/// The placeholder.
pub(super) fn placeholder() -> Result<PathBuf> {
    Ok(folder()?.join(DLL))
}

/// The program that tests the card.
pub(super) fn echo() -> Result<PathBuf> {
    Ok(folder()?.join("echo.exe"))
}

/// Builds the DLL, its placeholder and the program, which takes two seconds.
pub(super) fn build() -> Result<()> {
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let sources = workspace::root().join("xtask/src/windows/lab_card");
    let exports = sources.join("tickwire_lab_card.spec");
    let mut library = compiler(WINEGCC, &folder.join(format!("{DLL}.so")));
    library.env("WINEBUILD", WINEBUILD).arg("-shared").arg(&exports);
    workspace::run(library.args(["lab_card.c", "claims.c", "helper.c", "tun.c"].map(|name| sources.join(name))))?;
    let mut placeholder = Command::new(WINEBUILD);
    placeholder.args(["--dll", "--fake-module", "-m64", "-F", DLL, "-E"]).arg(&exports);
    workspace::run(placeholder.arg("-o").arg(self::placeholder()?))?;
    workspace::run(compiler(super::CC, &echo()?).arg(sources.join("echo.c")))
}

/// A compiler with our usual options.
pub(super) fn compiler(compiler: &str, output: &Path) -> Command {
    let mut command = Command::new(compiler);
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(output);
    command
}
