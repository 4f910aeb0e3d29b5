//! Wine on a host of the lab: Windows programs in its network namespace.
//!
//! Wine makes the ordinary sockets of a prefix in the process `wineserver`, which the first program
//! of the prefix would start. So each host has a prefix and a server of its own, and the server
//! starts in the host's namespace before any program does.

use super::wine_process::WineProcess;
use super::{lab_card, wine};
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tickwire_lab::{LabHost, Process};

/// Within this Wine starts, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Wine on a host. Its processes end when it is dropped; its files go away with the lab.
pub(crate) struct WineHost {
    /// None: this process runs inside of the host.
    host: Option<LabHost>,
    prefix: PathBuf,
    /// Where the lab card's DLL is, if programs are to find it.
    libraries: Option<PathBuf>,
}

impl WineHost {
    /// Starts Wine in a copy of [`wine::prefix`], with the lab card.
    pub(super) fn new(host: &LabHost) -> Result<Self> {
        Self::with_card(Some(host.clone()), host.directory().join("wine"))
    }

    /// The same on the host in which this process runs, below a directory of the lab.
    pub(super) fn here(directory: &Path) -> Result<Self> {
        Self::with_card(None, directory.join(format!("wine-{}", std::process::id())))
    }

    /// The same for programs that have no use for a lab card, which need not have been built.
    pub(crate) fn without_card(host: &LabHost) -> Result<Self> {
        Self::unstarted(Some(host.clone()), host.directory().join("wine"), None)?.start()
    }

    fn with_card(host: Option<LabHost>, prefix: PathBuf) -> Result<Self> {
        let wine = Self::unstarted(host, prefix, Some(lab_card::folder()?))?;
        let placeholder = wine.prefix.join(wine::SYSTEM).join(lab_card::DLL);
        fs::copy(lab_card::placeholder()?, placeholder).context("the lab card has not been built")?;
        wine.start()
    }

    fn unstarted(host: Option<LabHost>, prefix: PathBuf, libraries: Option<PathBuf>) -> Result<Self> {
        copy(&wine::prefix()?, &prefix)?;
        Ok(Self { host, prefix, libraries })
    }

    fn start(self) -> Result<Self> {
        // It stays until the end (`-p`).
        let mut server = self.prepared(wine::SERVER);
        let status = server.arg("-p").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let status = status.context("cannot run wineserver")?;
        ensure!(status.success(), "no wineserver for {} ({status})", self.prefix.display());
        // Starts Wine's services, so that the first program need not.
        self.spawn(Path::new("wineboot"), &[] as &[&str])?.success(TIMEOUT)?;
        Ok(self)
    }

    /// A Windows program, to be run on the host; it finds the lab card's DLL.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = self.prepared(wine::WINE);
        command.arg(program);
        command
    }

    /// The same, on these processors, as `taskset -c` has them.
    pub(super) fn command_on(&self, processors: &str, program: &Path) -> Command {
        let mut command = self.prepared("taskset");
        command.args(["-c", processors, wine::WINE]).arg(program);
        command
    }

    /// Starts a Windows program; it is killed when the value is dropped.
    pub(crate) fn spawn(&self, program: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<Process> {
        let mut command = self.command(program);
        command.args(arguments);
        Process::spawn(command)
    }

    /// A process of this Wine: the file of its program, without the folder, and its arguments.
    pub(super) fn process(&self, words: &[&str]) -> Result<WineProcess> {
        WineProcess::find(&self.prefix, words)
    }

    /// The process that has the prefix's objects: sockets, sections, events.
    pub(super) fn server(&self) -> Result<WineProcess> {
        self.process(&["wineserver64", "-p"])
    }

    fn prepared(&self, program: &str) -> Command {
        let mut command = self.host.as_ref().map_or_else(|| Command::new(program), |host| host.command(program));
        // (The lab names a socket of Linux to a host's programs.)
        wine::environment(&mut command, &self.prefix).env_remove("TICKWIRE_SOCKET");
        if let Some(libraries) = &self.libraries {
            command.env("WINEDLLPATH", libraries);
        }
        command
    }
}

impl Drop for WineHost {
    fn drop(&mut self) {
        wine::end(&self.prefix);
    }
}

/// Makes a prefix of the calling user with the contents of another. Files are links, except for the
/// registry, which Wine writes.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("cannot create {}", to.display()))?;
    for name in ["system.reg", "user.reg", "userdef.reg", ".update-timestamp"] {
        fs::copy(from.join(name), to.join(name)).with_context(|| format!("no {name} in {}", from.display()))?;
    }
    let (from, to) = (|name| from.join(name).display().to_string(), to.display().to_string());
    tickwire_lab::run(&["cp", "--recursive", "--no-dereference", &from("dosdevices"), &to])?;
    tickwire_lab::run(&["cp", "--recursive", "--symbolic-link", &from("drive_c"), &to])?;
    Ok(())
}
