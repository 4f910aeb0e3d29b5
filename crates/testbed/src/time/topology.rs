//! Two hosts of a lab on one cable: the reference server on one, a clock that follows it on the
//! other.

use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::OFlag;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickclock::{Clock, counter};
use tickwire_clock_reference::Truth;
use tickwire_clock_reference::server::{ReferenceServer, TransmitStamping};
use tickwire_clock_reference::stamp;
use tickwire_lab::{CableOptions, Lab, LabHost, Process};

const CLIENT: &str = "10.79.0.1";
const SERVER: &str = "10.79.0.2";
const NTP: u16 = 123;
const INTERFACE: &str = "eth0";
/// Timeout of a daemon's first page.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Polling interval of that.
const LOOK: Duration = Duration::from_millis(5);
/// Interval of progress reports, in seconds.
const MOMENT: f64 = 0.25;

/// The lab, removed when dropped.
#[derive(Debug)]
pub(super) struct Topology {
    client: LabHost,
    server: LabHost,
    tickwire: PathBuf,
    directory: PathBuf,
    /// How many clocks have been started in it.
    kept: u32,
    // Dropped before the lab, so that the processes end before their host is removed.
    _busy: Vec<Process>,
    _lab: Lab,
}

impl Topology {
    /// Builds it, with `busy` programs that each keep a processor busy.
    ///
    /// # Errors
    /// Not root, or a part cannot be created.
    pub(super) fn new(tickwire: &Path, busy: usize) -> Result<Self> {
        let lab = Lab::new()?;
        let (client, server) = (lab.host("client")?, lab.host("server")?);
        lab.cable(&client, &server, INTERFACE, &CableOptions::default())?;
        client.address(INTERFACE, &format!("{CLIENT}/24"))?;
        server.address(INTERFACE, &format!("{SERVER}/24"))?;
        for host in [&client, &server] {
            // Without GRO a veth timestamps a packet as soon as its peer sends it, like an idle
            // NIC; with GRO, when its NAPI poll runs in the peer's context.
            host.run(&["ethtool", "-K", INTERFACE, "gro", "off"])?;
        }
        let directory = lab.directory();
        let object = directory.join("stamp.o");
        std::fs::write(&object, stamp::OBJECT).context("cannot write the program that stamps answers")?;
        server.run(&["tc", "qdisc", "add", "dev", INTERFACE, "clsact"])?;
        let object = object.to_string_lossy();
        let filter =
            ["tc", "filter", "add", "dev", INTERFACE, "egress", "bpf", "da", "obj", &object, "sec", "classifier"];
        server.run(&filter)?;
        // Fills both neighbour caches.
        client.run(&["ping", "-c1", SERVER])?;
        let busy = client.busy(busy)?;
        Ok(Self { client, server, tickwire: tickwire.to_owned(), directory, kept: 0, _busy: busy, _lab: lab })
    }

    /// Starts a server of this reference time, and a daemon that polls it every `interval` seconds.
    ///
    /// # Errors
    /// One of them cannot be started.
    pub(super) fn follow(&mut self, truth: &Truth, interval: f64) -> Result<Followed> {
        self.kept += 1;
        let server = Serving::start(&self.server, truth.clone())?;
        let file = |name: String| self.directory.join(name).to_string_lossy().into_owned();
        // Each daemon has its own page, so that it does not inherit another one's state.
        let (page, config) = (file(format!("clock-{}", self.kept)), file("tickwire.toml".to_owned()));
        // An empty configuration: the machine's own may steer the system clock, which must not
        // follow this reference.
        std::fs::write(&config, "").context("cannot write the daemon's configuration")?;
        let (tickwire, interval) = (self.tickwire.to_string_lossy(), interval.to_string());
        let run = ["clock", "run", "--server", SERVER, "--poll", &interval, "--page", &page, "--config", &config];
        let mut daemon = self.client.spawn(&[&[&*tickwire][..], &run[..]].concat())?;
        let clock = opened(Path::new(&page), &mut daemon)?;
        ensure!(clock.counter_kind() == truth.kind(), "the daemon has chosen another counter than the truth's server");
        Ok(Followed { clock, daemon, server })
    }
}

/// Opens the clock of a daemon that was just started.
fn opened(page: &Path, daemon: &mut Process) -> Result<Clock> {
    let until = Instant::now() + TIMEOUT;
    loop {
        match Clock::open(page) {
            Ok(clock) => return Ok(clock),
            Err(error) if Instant::now() > until => return Err(error).context("the daemon has made no clock"),
            Err(_) if !daemon.is_running()? => bail!("the daemon has ended: {}", daemon.stderr().trim()),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// A clock, its daemon, and the server that the daemon polls.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) clock: Clock,
    daemon: Process,
    server: Serving,
}

impl Followed {
    /// Fails if one of the two has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        ensure!(!self.server.is_over(), "the truth's server has ended by itself");
        ensure!(self.daemon.is_running()?, "the daemon has ended: {}", self.said());
        Ok(())
    }

    /// The daemon's standard error.
    pub(super) fn said(&self) -> String {
        self.daemon.stderr().trim().to_owned()
    }

    /// How many requests the server has answered.
    pub(super) fn answers(&self) -> u64 {
        self.server.answers.load(Ordering::Relaxed)
    }
}

/// The reference server: a thread of this program whose socket is in the server host.
#[derive(Debug)]
struct Serving {
    answers: Arc<AtomicU64>,
    /// The server ends when this is closed.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Serving {
    fn start(host: &LabHost, truth: Truth) -> Result<Self> {
        let address: SocketAddr = format!("{SERVER}:{NTP}").parse()?;
        let mut server = host.within(|| ReferenceServer::bind(truth, address, TransmitStamping::Completed))??;
        let answers = server.answers();
        // Close-on-exec: the daemon, which is started next, would keep the pipe open.
        let (stopped, stop) = nix::unistd::pipe2(OFlag::O_CLOEXEC).context("cannot make a pipe")?;
        let thread = std::thread::spawn(move || server.run(stopped.as_fd()));
        Ok(Self { answers, stop: Some(stop), thread: Some(thread) })
    }

    fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Its result no longer matters.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Sleeps until `seconds` of the reference time have passed; calls `tell` regularly with the
/// seconds passed.
pub(super) fn sleep_until(truth: &Truth, seconds: f64, mut tell: impl FnMut(f64)) {
    loop {
        let passed = truth.seconds(counter::read(truth.kind()));
        if passed >= seconds {
            return;
        }
        tell(passed);
        std::thread::sleep(Duration::from_secs_f64((seconds - passed).min(MOMENT)));
    }
}
