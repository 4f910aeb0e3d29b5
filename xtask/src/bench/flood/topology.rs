//! Two pairs of hosts, one with services. The client's host sends the flood, with its own or a
//! forged source address. Client and flood share a processor, the server has its own.

use super::reach::{self, Counts};
use super::rows::{Flood, Row};
use crate::bench::harness::host_pairs::{CLIENT_CPU, SERVER_CPU, program, start};
use crate::traffic;
use anyhow::{Context, Result, bail};
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_lab::{LabPair, Process, Service, ServiceOptions};

/// The hosts.
pub(super) struct Topology {
    // Fields drop in order: the services end before their hosts.
    services: [Service; 2],
    with: LabPair,
    without: LabPair,
    trips: u32,
    rate: u32,
    measured: u16,
}

const TIMEOUT: Duration = Duration::from_secs(60);
const SIZE: &str = "64";
/// A locally administered address that no host here has: the kernel drops such a frame.
const ABSENT: &str = "02:00:5e:00:53:01";
/// Each measurement has its own ports, counted from these, so that connections of the last one in
/// TIME-WAIT do not matter.
const PORTS: [u16; 2] = [5_300, 40_000];

impl Topology {
    pub(super) fn new(attach: &str, trips: u32, rate: u32) -> Result<Self> {
        let options = ServiceOptions { arguments: vec!["--attach".into(), attach.into()], ..ServiceOptions::default() };
        let (with, without) = (LabPair::new()?, LabPair::new()?);
        let services = [Service::start_with(&with.a, &options)?, Service::start_with(&with.b, &options)?];
        for pair in [&with, &without] {
            // Answers to the forged addresses go back to the client's host, which drops them.
            pair.b.run(&["ip", "route", "add", "198.18.0.0/15", "via", &pair.a_v4()])?;
        }
        Ok(Self { services, with, without, trips, rate, measured: 0 })
    }

    pub(super) fn measure(&mut self, row: &Row) -> Result<Latency> {
        let [port, client_port] = PORTS.map(|first| first + self.measured % 1_000);
        self.measured += 1;
        let pair = if row.ours { &self.with } else { &self.without };
        // The forger must know the addresses and ports of the connection.
        pair.a.sysctl("net.ipv4.ip_local_port_range", &format!("'{client_port} {client_port}'"))?;
        let program = program("pingpong")?;
        let address = format!("{}:{port}", pair.b_v4());
        let serve = [&program, "server", "tcp", &address, "--size", SIZE];
        let mut server = start(&pair.b, SERVER_CPU, row.ours, &serve)?;
        tickwire_lab::wait_until_listening(&pair.b, "tcp", port, &mut server)?;
        let flood = row.flood.map(|flood| self.flood(pair, flood, &address, client_port)).transpose()?;
        let trips = self.trips.to_string();
        let ask = [&*program, "client", "tcp", &address, "--size", SIZE, "--count", &trips];
        let services: &[Service] = if row.ours { &self.services } else { &[] };
        let printed = traffic::proven(services, traffic::FEWEST, || {
            start(&pair.a, CLIENT_CPU, row.ours, &ask)?.success(TIMEOUT)
        })?;
        if let (Some(mut process), Some(flood)) = (flood, row.flood) {
            let ended = process.stop(TIMEOUT)?;
            let said: serde_json::Value = serde_json::from_str(ended.stdout.trim())
                .with_context(|| format!("the flood said {} {}", ended.stdout, ended.stderr))?;
            let sent = said["sent"].as_u64().context("what was sent")?;
            reach::enough(sent)?;
            if row.ours {
                // The server still has its lane.
                self.hit(flood, sent)?;
            }
        }
        server.kill();
        let latency: Latency = serde_json::from_str(printed.trim()).context("figures of the ping-pong client")?;
        if latency.lost > 0 {
            bail!("{} messages were lost", latency.lost);
        }
        Ok(latency)
    }

    fn flood(&self, pair: &LabPair, flood: Flood, victim: &str, client_port: u16) -> Result<Process> {
        let mac = match flood {
            Flood::AbsentHost => ABSENT.to_owned(),
            _ => pair.b.run(&["cat", "/sys/class/net/eth0/address"])?,
        };
        let (peer, rate) = (format!("{}:{client_port}", pair.a_v4()), self.rate.to_string());
        let program = program("flood")?;
        let command = [&*program, flood.kind(), "eth0", mac.trim(), victim, &peer, "--rate", &rate];
        let mut process = start(&pair.a, CLIENT_CPU, false, &command)?;
        process.wait_for("flooding", TIMEOUT)?;
        Ok(process)
    }

    /// Fails unless the server's lane has seen the flood; or, for a flood to an absent host, unless
    /// it has seen none of it.
    fn hit(&self, flood: Flood, sent: u64) -> Result<()> {
        let stat = self.services[1].stat()?;
        let (counter, own) = match flood {
            Flood::Fragments | Flood::Overlaps => ("IpReasmReqds", 0),
            Flood::Land => ("IpInAddrErrors", 0),
            Flood::AbsentHost | Flood::Syn | Flood::Rst | Flood::Data => ("TcpInSegs", self.trips.into()),
        };
        let counts = Counts { sent, own, seen: stat.number(&format!("/lanes/0/counters/{counter}")) };
        let right = if flood == Flood::AbsentHost { counts.spared() } else { counts.hit() };
        if !right {
            bail!("of {sent} forged packets and {own} others the stack saw {}: {}", counts.seen, stat.json["lanes"]);
        }
        Ok(())
    }
}
