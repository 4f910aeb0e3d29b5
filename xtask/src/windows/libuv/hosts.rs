//! Running a test: Windows and the service on one host, the mirror on the other.

use super::{build, list, tap};
use crate::windows::programs::{LoggedLane, ProgramHosts, ProgramRun, Sockets};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tickwire_lab::Process;

/// The mirror's address. Its host has no such address, so that the kernel does not answer.
const MIRROR: &str = "10.96.0.1";

/// In the environment of the tests: the mirror's address and the host's own.
const VARIABLE: &str = "LIBUV_MIRROR";

/// Within this the runner ends: it gives most tests 40 s, and some 160 s (`timeouts.c`).
const TIMEOUT: Duration = Duration::from_secs(180);

/// What a run of a test has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TestRun {
    /// In one line.
    pub(super) result: String,
    /// Packets of all lanes of the test and its helpers.
    pub(super) packets: u64,
    /// Packets that guard has refused: a reset that answers what has come for a connection whose
    /// claim has ended meanwhile.
    pub(super) refused: u64,
    /// Why sockets stayed on the kernel.
    pub(super) kernel: Vec<String>,
}

/// The hosts, with the mirror.
pub(super) struct LibuvHosts {
    // In the order in which they are to end.
    mirror: Process,
    hosts: ProgramHosts,
}

impl LibuvHosts {
    pub(super) fn new() -> Result<Self> {
        let hosts = ProgramHosts::new()?;
        let pair = hosts.pair();
        // For the mirror, for addresses where no host is, and for groups.
        pair.a.run(&["ip", "route", "add", "default", "via", &pair.b_v4()])?;
        // Linux lets no socket listen at a port that has a connection which has just ended, and
        // Windows does. All tests have the same port.
        pair.a.sysctl("net.ipv4.tcp_max_tw_buckets", "0")?;
        // The mirror sends what it has received, so nothing may be merged.
        for host in [&pair.a, &pair.b] {
            host.run(&["ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off"])?;
        }
        let words = ["python3", "-c", include_str!("mirror.py"), "eth0", MIRROR, &pair.a_v4()];
        let mut mirror = pair.b.spawn(&words)?;
        mirror.wait_for("ready", Duration::from_secs(10))?;
        Ok(Self { mirror, hosts })
    }

    /// The tests that use sockets.
    pub(super) fn list(&self) -> Result<Vec<String>> {
        let run = ProgramRun::new(&self.hosts, Sockets::Kernel);
        let tests = list::of_sockets(&run.client(&build::program()?, &["--list"])?);
        ensure!(!tests.is_empty(), "the runner lists no tests of sockets");
        Ok(tests)
    }

    /// Runs a test with its helpers.
    pub(super) fn run(&self, name: &str, sockets: Sockets) -> Result<TestRun> {
        ensure!(self.mirror.stderr().is_empty(), "the mirror: {}", self.mirror.stderr());
        let run = ProgramRun::new(&self.hosts, sockets);
        let mut command = run.windows(&build::program()?, &[name])?;
        command.env(VARIABLE, format!("{MIRROR} {}", self.hosts.pair().a_v4()));
        let mut runner = Process::spawn(command)?;
        let result = match runner.wait(TIMEOUT) {
            Ok(ended) => tap::result(name, &ended.stdout),
            Err(_) => "failed: the runner hangs".to_owned(),
        };
        let lanes = run.ended_lanes().with_context(|| format!("{name}: {result}"))?;
        let sum = |of: fn(&LoggedLane) -> u64| lanes.iter().map(of).sum();
        let (packets, refused) = (sum(|lane| lane.packets), sum(|lane| lane.refused));
        ensure!(sockets == Sockets::Lane || lanes.is_empty(), "{name}: without the library it has got a lane");
        let mut kernel: Vec<String> = lanes.into_iter().flat_map(|lane| lane.kernel).collect();
        kernel.sort_unstable();
        kernel.dedup();
        Ok(TestRun { result, packets, refused, kernel })
    }
}
