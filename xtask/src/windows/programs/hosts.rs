//! The two hosts of a case: Windows programs and the service on one, a Linux kernel on the other.

use super::lane_log::{self, LoggedLane};
use crate::windows::TARGET;
use crate::windows::wine_host::WineHost;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{LabPair, Process, tools};

/// Within this a program has started, or its lane has ended.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Which sockets a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::windows) enum Sockets {
    Kernel,
    Lane,
}

/// Host a, with Wine, and the service; host b has a kernel.
pub(in crate::windows) struct ProgramHosts {
    // In the order in which they are to end.
    service: Process,
    wine: WineHost,
    pair: LabPair,
}

impl ProgramHosts {
    pub(in crate::windows) fn new() -> Result<Self> {
        let pair = LabPair::new()?;
        let wine = WineHost::new(&pair.a)?;
        let mut service = wine.spawn(&built("examples/lab_service.exe")?, &["lab", "eth0"])?;
        service.wait_for("ready", TIMEOUT)?;
        Ok(Self { service, wine, pair })
    }

    /// The hosts.
    pub(in crate::windows) fn pair(&self) -> &LabPair {
        &self.pair
    }

    /// What the lanes have had that began after a length of the service's log.
    fn lanes_since(&self, begin: usize) -> Vec<LoggedLane> {
        lane_log::read(self.service.stdout().get(begin..).unwrap_or_default())
    }
}

/// One run of a case, on the kernel's sockets or on the lane.
pub(in crate::windows) struct ProgramRun<'h> {
    hosts: &'h ProgramHosts,
    sockets: Sockets,
    /// The length of the service's log when the run began.
    begin: usize,
    /// The Windows programs that were started, to end them.
    started: RefCell<BTreeSet<OsString>>,
}

impl<'h> ProgramRun<'h> {
    pub(in crate::windows) fn new(hosts: &'h ProgramHosts, sockets: Sockets) -> Self {
        Self { hosts, sockets, begin: hosts.service.stdout().len(), started: RefCell::default() }
    }

    /// The address of the Windows programs.
    pub(super) fn here(&self) -> String {
        self.hosts.pair.a_v4()
    }

    /// The address of their peers.
    pub(super) fn there(&self) -> String {
        self.hosts.pair.b_v4()
    }

    /// A folder for the files of this run.
    pub(super) fn folder(&self) -> Result<PathBuf> {
        let folder = self.hosts.pair.b.directory().join(format!("{:?}-{}", self.sockets, self.begin));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// A Windows program on host a, by the launcher if it is to run on the lane.
    pub(in crate::windows) fn windows(&self, program: &Path, words: &[&str]) -> Result<Command> {
        self.started.borrow_mut().insert(program.file_name().context("no program")?.to_owned());
        let mut command = match self.sockets {
            Sockets::Kernel => self.hosts.wine.command(program),
            Sockets::Lane => {
                let mut launcher = self.hosts.wine.command(&built("examples/launch.exe")?);
                launcher.arg("--require").arg(windows_path(&built("tickwire_winsock.dll")?)).arg(windows_path(program));
                launcher
            }
        };
        command.args(words);
        Ok(command)
    }

    /// Runs a Windows program to its end, and returns what it printed.
    pub(in crate::windows) fn client(&self, program: &Path, words: &[&str]) -> Result<String> {
        Process::spawn(self.windows(program, words)?)?.success(TIMEOUT)
    }

    /// Starts a Windows server, and waits until its port is bound, and claimed if it is to be on
    /// the lane.
    pub(super) fn server(&self, command: Command, protocol: &str, port: u16) -> Result<Process> {
        let mut server = Process::spawn(command)?;
        tickwire_lab::wait_until_listening(&self.hosts.pair.a, protocol, port, &mut server)?;
        if self.sockets == Sockets::Lane {
            // A server that stays on the kernel claims nothing.
            let claimed = || lane_log::claims(self.log(), port);
            let _ = tools::until("the port is claimed", Duration::from_secs(1), claimed);
        }
        Ok(server)
    }

    /// Starts a program on host b, and waits until its port is bound.
    pub(super) fn peer_server(&self, words: &[&str], protocol: &str, port: u16) -> Result<Process> {
        let mut server = self.hosts.pair.b.spawn(words)?;
        tickwire_lab::wait_until_listening(&self.hosts.pair.b, protocol, port, &mut server)?;
        Ok(server)
    }

    /// Starts a program on host b.
    pub(super) fn peer(&self, words: &[&str]) -> Result<Process> {
        self.hosts.pair.b.spawn(words)
    }

    /// Runs a program on host b to its end, and returns what it printed.
    pub(super) fn peer_client(&self, words: &[&str]) -> Result<String> {
        self.peer(words)?.success(TIMEOUT)
    }

    /// Ends the Windows programs of the run that still run, and returns what their lanes have had.
    ///
    /// # Errors
    /// If a packet of theirs was refused.
    pub(in crate::windows) fn end(&self) -> Result<Vec<LoggedLane>> {
        let lanes = self.ended_lanes()?;
        let refused: u64 = lanes.iter().map(|lane| lane.refused).sum();
        ensure!(refused == 0, "the service has refused {refused} packets");
        Ok(lanes)
    }

    /// The same, whatever was refused.
    pub(in crate::windows) fn ended_lanes(&self) -> Result<Vec<LoggedLane>> {
        for program in self.started.borrow().iter() {
            let words = ["/F", "/IM"].map(OsString::from).into_iter().chain([program.clone()]).collect::<Vec<_>>();
            // It fails if none runs.
            let _ = self.hosts.wine.spawn(Path::new("taskkill"), &words)?.wait(TIMEOUT);
        }
        let ended = || self.hosts.lanes_since(self.begin).iter().all(|lane| lane.has_ended);
        tools::until("the lanes end", TIMEOUT, ended)?;
        Ok(self.hosts.lanes_since(self.begin))
    }

    fn log(&self) -> String {
        self.hosts.service.stdout().get(self.begin..).unwrap_or_default().to_owned()
    }
}

/// A file that cargo has built.
fn built(name: &str) -> Result<PathBuf> {
    Ok(workspace::target()?.join(TARGET).join("debug").join(name))
}

/// A path as Windows programs have it under Wine.
pub(super) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display().to_string().replace('/', "\\"))
}
