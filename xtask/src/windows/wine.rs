//! Wine: a prefix of our own below the target directory, with what Wine 8 lacks, and programs in
//! it.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WINE: &str = "/usr/lib/wine/wine64";
const SERVER: &str = "/usr/lib/wine/wineserver64";
const SOURCE: &str = include_str!("bcryptprimitives.c");

/// A prefix. Its processes end when it is dropped.
pub(super) struct Wine {
    prefix: PathBuf,
}

impl Wine {
    /// The prefix below the target directory, which is made if it is not there. It takes 10 seconds
    /// the first time.
    pub(super) fn new() -> Result<Self> {
        let wine = Self { prefix: workspace::target()?.join("wine") };
        let system = wine.prefix.join("drive_c/windows/system32");
        if !system.join("kernel32.dll").exists() {
            eprintln!("preparing Wine ...");
            let status =
                wine.run(Path::new("wineboot")).arg("--init").stdout(Stdio::null()).stderr(Stdio::null()).status();
            let status = status.context("cannot run Wine")?;
            ensure!(status.success() && system.is_dir(), "Wine cannot make {} ({status})", wine.prefix.display());
        }
        let library = system.join("bcryptprimitives.dll");
        if !library.exists() {
            let source = wine.prefix.join("bcryptprimitives.c");
            fs::write(&source, SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
            let mut compile = Command::new(super::CC);
            compile.args(["-O2", "-Wall", "-Werror", "-shared", "-o"]).args([&library, &source]).arg("-ladvapi32");
            workspace::run(&mut compile)?;
        }
        Ok(wine)
    }

    /// A Windows program.
    pub(super) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(WINE);
        self.environment(&mut command).arg(program);
        command
    }

    fn environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        // Mono and Gecko would be offered in a dialogue.
        command.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").env("WINEDLLOVERRIDES", "mscoree,mshtml=")
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        let mut end = Command::new(SERVER);
        let _ = self.environment(&mut end).arg("-k").stderr(Stdio::null()).status();
    }
}
