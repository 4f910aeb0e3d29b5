//! The two paths of a packet, each with hosts of its own, so that neither disturbs the other.

use crate::traffic;
use anyhow::Result;
use std::fmt;
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{CableOptions, LabHost, LabPair, Process, Service};

/// Which stack carries the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// The kernel's.
    Kernel,
    /// Ours, at both ends.
    Tickwire,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "the kernel",
            Self::Tickwire => "Tickwire",
        })
    }
}

/// Two hosts, with a service each if it is Tickwire's side.
pub(crate) struct Side {
    path: Path,
    // Fields drop in order: the services end before their hosts.
    services: Vec<Service>,
    pair: LabPair,
}

/// The server's and the client's processor.
const SERVER_CPU: &str = "0";
const CLIENT_CPU: &str = "1";

impl Side {
    pub(crate) fn new(path: Path) -> Result<Self> {
        let kernel = path == Path::Kernel;
        let pair = LabPair::with(&CableOptions { offload: kernel, ..CableOptions::default() })?;
        let hosts: &[&LabHost] = if kernel { &[] } else { &[&pair.a, &pair.b] };
        let services = hosts.iter().map(|host| Service::start(host)).collect::<Result<_>>()?;
        Ok(Self { path, services, pair })
    }

    pub(crate) fn path(&self) -> Path {
        self.path
    }

    /// The server's address.
    pub(crate) fn address(&self) -> String {
        self.pair.b_v4()
    }

    /// The server's host, for its files.
    pub(crate) fn server_host(&self) -> &LabHost {
        &self.pair.b
    }

    /// Starts a server and waits until its port is bound (`tcp` or `udp`).
    pub(crate) fn server(&self, protocol: &str, port: u16, command: &[&str]) -> Result<Process> {
        let mut server = Process::spawn(self.prepared(&self.pair.b, SERVER_CPU, command)?)?;
        tickwire_lab::wait_until_listening(&self.pair.b, protocol, port, &mut server)?;
        Ok(server)
    }

    /// Runs a client to its end and returns what it printed.
    pub(crate) fn client(&self, command: &[&str], timeout: Duration) -> Result<String> {
        Process::spawn(self.prepared(&self.pair.a, CLIENT_CPU, command)?)?.success(timeout)
    }

    fn prepared(&self, host: &LabHost, cpu: &str, command: &[&str]) -> Result<Command> {
        let accelerated: Option<&[&str]> = (self.path == Path::Tickwire).then_some(&[]);
        traffic::command(host, cpu, accelerated, command)
    }

    /// Measures; on Tickwire's side the figures count only if the lanes' counters show that the
    /// traffic crossed our stack.
    pub(crate) fn proven<T>(&self, measure: impl FnOnce() -> Result<T>) -> Result<T> {
        traffic::proven(&self.services, traffic::FEWEST, measure)
    }
}
