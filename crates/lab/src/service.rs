//! A Tickwire service on a host.

use crate::host::LabHost;
use crate::pair::INTERFACE;
use crate::process::{Ended, Process};
use crate::stat::Stat;
use crate::tools;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of a service.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// The interface to accelerate.
    pub interface: String,
    /// More settings, as lines of TOML.
    pub config: String,
    /// More arguments of `tickwire service`.
    pub arguments: Vec<String>,
    /// Whether the service may assume that no VLAN-tagged frame arrives.
    pub untagged: bool,
    /// The program `tickwire`, if not the one that [`tools::tickwire`] finds.
    pub program: Option<PathBuf>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            interface: INTERFACE.to_owned(),
            config: String::new(),
            arguments: Vec::new(),
            untagged: true,
            program: None,
        }
    }
}

/// A running service; ended (SIGTERM, then SIGKILL) when dropped.
#[derive(Debug)]
pub struct Service {
    host: LabHost,
    process: Process,
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Lanes that a service keeps ready for new programs if its configuration does not say.
    pub const READY_LANES: usize = 4;

    /// Starts `tickwire service` for `eth0` of the host and waits until it accepts connections.
    ///
    /// # Errors
    /// Not built, or it did not start; the error contains its log.
    pub fn start(host: &LabHost) -> Result<Self> {
        Self::start_with(host, &ServiceOptions::default())
    }

    /// Like [`Service::start`], with options.
    ///
    /// # Errors
    /// As [`Service::start`].
    pub fn start_with(host: &LabHost, options: &ServiceOptions) -> Result<Self> {
        let config = host.directory().join("tickwire.toml");
        std::fs::write(&config, &options.config).with_context(|| format!("cannot write {}", config.display()))?;
        let tickwire = options.program.clone().map_or_else(tools::tickwire, Ok)?;
        let mut command = host.command(&tickwire.to_string_lossy());
        command.arg("service").arg("--config").arg(&config).arg("--socket").arg(host.socket());
        command.args(["--interface", &options.interface]).args(&options.arguments);
        // The lab's links are veth pairs, which hide tags, and carry no tagged frames unless a test
        // states so.
        if options.untagged {
            command.args(["--untagged", &options.interface]);
        }
        let mut process = Process::spawn(command)?;
        let until = Instant::now() + TIMEOUT;
        while !answers(host) {
            if !process.is_running()? || Instant::now() > until {
                bail!("the service on host {} did not come up: {}", host.name(), process.stderr());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { host: host.clone(), process })
    }

    /// The output of `tickwire stat --json`.
    ///
    /// # Errors
    /// The service does not answer, or its output cannot be parsed.
    pub fn stat(&self) -> Result<Stat> {
        Stat::read(&self.host)
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// The process, for tests that signal or kill it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Stops it like systemd, by SIGTERM.
    ///
    /// # Errors
    /// It did not end within ten seconds.
    pub fn stop(&mut self) -> Result<Ended> {
        self.process.stop(TIMEOUT)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.stop(Duration::from_secs(3));
    }
}

fn answers(host: &LabHost) -> bool {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
    use std::os::fd::AsRawFd;
    let Ok(address) = UnixAddr::new(&host.socket()) else { return false };
    let Ok(fd) = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None) else { return false };
    connect(fd.as_raw_fd(), &address).is_ok()
}
