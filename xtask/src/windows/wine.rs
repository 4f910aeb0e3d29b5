//! Wine: a prefix of our own below the target directory, with what Wine 8 lacks, and programs in
//! it.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const WINE: &str = "/usr/lib/wine/wine64";
pub(super) const SERVER: &str = "/usr/lib/wine/wineserver64";
/// Within this a server ends that has no programs any more.
const SERVER_ENDS: Duration = Duration::from_secs(6);

const SOURCE: &str = include_str!("bcryptprimitives.c");

/// The folder of Windows' own DLLs in a prefix.
pub(super) const SYSTEM: &str = "drive_c/windows/system32";

/// The prefix below the target directory. Its processes end when it is dropped.
pub(super) struct Wine {
    prefix: PathBuf,
}

impl Wine {
    /// Makes the prefix if it is not there. It takes 10 seconds the first time.
    pub(super) fn new() -> Result<Self> {
        make()?;
        let wine = Self { prefix: prefix()? };
        wine.keep_server();
        Ok(wine)
    }

    /// Has the server stay until the end. Else it ends some seconds after a program, and one that
    /// begins in that moment fails.
    fn keep_server(&self) {
        let begin = Instant::now();
        let keeps = || {
            let mut server = Command::new(SERVER);
            environment(&mut server, &self.prefix).arg("-p");
            server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            server.status().is_ok_and(|status| status.success())
        };
        // One that is about to end refuses, and so does one that another task keeps.
        while !keeps() && begin.elapsed() < SERVER_ENDS {
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// A prefix that was [made](make_at).
    pub(super) fn at(prefix: &Path) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// A Windows program.
    pub(super) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(WINE);
        environment(&mut command, &self.prefix).arg(program);
        command
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        end(&self.prefix);
    }
}

/// The prefix below the target directory.
pub(super) fn prefix() -> Result<PathBuf> {
    Ok(workspace::target()?.join("wine"))
}

/// Makes the prefix if it is not there. Afterwards none of its processes runs, except for those of
/// other tasks that use it now.
pub(super) fn make() -> Result<()> {
    make_at(&prefix()?)
}

/// As [`make`], in this folder.
pub(super) fn make_at(prefix: &Path) -> Result<()> {
    let system = prefix.join(SYSTEM);
    if !system.join("kernel32.dll").exists() {
        eprintln!("preparing Wine ...");
        fs::create_dir_all(prefix).with_context(|| format!("cannot create {}", prefix.display()))?;
        let wine = Wine::at(prefix);
        let status = wine.run(Path::new("wineboot")).arg("--init").stdout(Stdio::null()).stderr(Stdio::null()).status();
        let status = status.context("cannot run Wine")?;
        ensure!(status.success() && system.is_dir(), "Wine cannot make {} ({status})", prefix.display());
    }
    let library = system.join("bcryptprimitives.dll");
    if !library.exists() {
        let source = prefix.join("bcryptprimitives.c");
        fs::write(&source, SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
        let mut compile = Command::new(super::CC);
        compile.args(["-O2", "-Wall", "-Werror", "-shared", "-o"]).args([&library, &source]).arg("-ladvapi32");
        workspace::run(&mut compile)?;
    }
    Ok(())
}

/// Which Wine this is, in words: `Wine 8.0 (Debian 8.0~repack-4)`.
pub(super) fn version() -> Result<String> {
    let told = Command::new(WINE).arg("--version").output().context("cannot run Wine")?.stdout;
    // (It says `wine-8.0 ...`.)
    Ok(format!("Wine {}", String::from_utf8_lossy(&told).trim().trim_start_matches("wine-")))
}

/// A path as Windows programs have it under Wine.
pub(crate) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display().to_string().replace('/', "\\"))
}

/// What each process of a prefix has in its environment.
pub(super) fn environment<'c>(command: &'c mut Command, prefix: &Path) -> &'c mut Command {
    // The server's socket is in TMPDIR, and stays there. Mono and Gecko would be offered in a
    // dialogue.
    command.env("WINEPREFIX", prefix).env("TMPDIR", prefix);
    command.env("WINEDEBUG", "-all").env("WINEDLLOVERRIDES", "mscoree,mshtml=")
}

/// Ends all processes of a prefix.
pub(super) fn end(prefix: &Path) {
    let _ = environment(&mut Command::new(SERVER), prefix).arg("-k").stderr(Stdio::null()).status();
}
