//! Hosts for comparisons: a pair with a service on each host, a pair that never had a service, and
//! the programs on them.

use crate::traffic;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;
use tickwire_lab::{CableOptions, LabHost, LabPair, Process, Service, ServiceOptions, tools};

pub(crate) const PORT: u16 = 5201;
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);
/// Clients and servers have a processor each.
pub(crate) const CLIENT_CPU: &str = "0";
pub(crate) const SERVER_CPU: &str = "1";

/// Which ends are accelerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// None, on hosts without a service.
    Kernel,
    /// The client only.
    Client,
    /// The server only.
    Server,
    /// Both.
    Both,
}

impl Ends {
    /// Whether the client and the server are accelerated.
    pub(crate) fn ours(self) -> [bool; 2] {
        match self {
            Self::Kernel => [false, false],
            Self::Client => [true, false],
            Self::Server => [false, true],
            Self::Both => [true, true],
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Client => "Tickwire to kernel",
            Self::Server => "kernel to Tickwire",
            Self::Both => "Tickwire",
        })
    }
}

/// Two hosts with a service each, and two without.
pub(crate) struct HostPairs {
    // Fields drop in order: the services end before their hosts.
    pub(crate) services: [Service; 2],
    with: LabPair,
    without: LabPair,
}

impl HostPairs {
    /// Makes the hosts, on cables with `queues` queues; the services have this configuration.
    pub(crate) fn new(queues: u32, attach: &str, config: &str) -> Result<Self> {
        let cable = CableOptions { queues, ..CableOptions::default() };
        let (with, without) = (LabPair::with(&cable)?, LabPair::with(&cable)?);
        let options = ServiceOptions {
            config: config.into(),
            arguments: vec!["--attach".into(), attach.into()],
            ..ServiceOptions::default()
        };
        let services = [Service::start_with(&with.a, &options)?, Service::start_with(&with.b, &options)?];
        Ok(Self { services, with, without })
    }

    pub(crate) fn pair(&self, ends: Ends) -> &LabPair {
        if ends == Ends::Kernel { &self.without } else { &self.with }
    }

    /// The services that must have seen the traffic.
    pub(crate) fn witnesses(&self, ends: Ends) -> &[Service] {
        match ends {
            Ends::Kernel => &[],
            Ends::Client => &self.services[..1],
            Ends::Server => &self.services[1..],
            Ends::Both => &self.services,
        }
    }

    /// Runs a program against itself, as the server in the first role and as the client in the
    /// second, and reads the figures that the client prints. Fails unless at least `packets`
    /// packets crossed each lane.
    pub(crate) fn figures<T: DeserializeOwned>(
        &self,
        ends: Ends,
        name: &str,
        roles: [&str; 2],
        options: &[&str],
        packets: u64,
    ) -> Result<T> {
        self.figures_of(ends, &[], name, roles, options, packets)
    }

    /// The same, with a command that starts the client (`chrt`).
    pub(crate) fn figures_of<T: DeserializeOwned>(
        &self,
        ends: Ends,
        starter: &[&str],
        name: &str,
        [serve, ask]: [&str; 2],
        options: &[&str],
        packets: u64,
    ) -> Result<T> {
        let program = program(name)?;
        let pair = self.pair(ends);
        let address = at(pair, PORT);
        let mut server = start_server(pair, ends, PORT, &[&program, serve, &address])?;
        let client = [starter, &[&*program, ask, &address], options].concat();
        let measured = || start_client(pair, ends, &client)?.success(TIMEOUT);
        let printed = traffic::proven(self.witnesses(ends), packets, measured)?;
        server.kill();
        serde_json::from_str(printed.trim()).context("figures of the client")
    }
}

pub(crate) fn at(pair: &LabPair, port: u16) -> String {
    format!("{}:{port}", pair.b_v4())
}

pub(crate) fn start_server(pair: &LabPair, ends: Ends, port: u16, command: &[&str]) -> Result<Process> {
    let mut server = start(&pair.b, SERVER_CPU, ends.ours()[1], command)?;
    tickwire_lab::wait_until_listening(&pair.b, "tcp", port, &mut server)?;
    Ok(server)
}

pub(crate) fn start_client(pair: &LabPair, ends: Ends, command: &[&str]) -> Result<Process> {
    start(&pair.a, CLIENT_CPU, ends.ours()[0], command)
}

/// Starts a program on one processor of a host.
pub(crate) fn start(host: &LabHost, cpu: &str, accelerated: bool, command: &[&str]) -> Result<Process> {
    let options: &[&str] = &[];
    Process::spawn(traffic::command(host, cpu, accelerated.then_some(options), command)?)
}

/// The path of one of our own programs.
pub(crate) fn program(name: &str) -> Result<String> {
    Ok(tools::built(name)?.to_str().context("a path that is not text")?.to_owned())
}
