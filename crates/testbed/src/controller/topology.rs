//! The lab on one machine: a consumer and producers, each a host (network namespace), on a switch
//! with rate-limited ports.

use super::TestbedError;
use super::host::{Hosts, NodeHost, Way};
use super::starter::{LabNodes, NodeProgram};
use anyhow::{Context, Result};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use tickwire_lab::{CableOptions, Confined, Lab, LabHost, Process, Processors, Service, ServiceOptions, Switch};

/// The interface of every host.
const INTERFACE: &str = "eth0";
/// The consumer's address; producers count up from the next ten.
const CONSUMER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// The most producers that fit into one lab.
const MOST_PRODUCERS: usize = 200;

/// Options of the lab.
#[derive(Clone, Debug)]
pub(super) struct TopologyOptions {
    /// Bits per second of each host's port, in each direction.
    pub rate_bps: u64,
    /// The numbers of the producers, one host each.
    pub producers: Vec<u16>,
    /// Whether the consumer has a service.
    pub consumer_service: bool,
    /// Whether each producer has a service.
    pub producer_services: bool,
    /// Processors kept busy by other programs during the experiment.
    pub busy: usize,
    /// The program `tickwire`.
    pub tickwire: PathBuf,
    /// What starts the nodes; none: `tickwire`.
    pub nodes: Option<LabNodes>,
}

/// The lab, removed when dropped.
#[derive(Debug)]
pub(super) struct Topology {
    hosts: Hosts,
    switch: Switch,
    // Dropped before the hosts, so that the processes end before their hosts are removed.
    _busy: Vec<Process>,
    _services: Vec<Service>,
    _lab: Lab,
    _confined: Option<Confined>,
}

impl Topology {
    /// Builds the lab.
    ///
    /// # Errors
    /// [`TestbedError::Refused`] if there are too many producers; otherwise not root, or a part
    /// cannot be created.
    pub(super) fn new(options: &TopologyOptions) -> Result<Self, TestbedError> {
        if options.producers.len() > MOST_PRODUCERS {
            let many = options.producers.len();
            return Err(TestbedError::Refused(format!(
                "{many} producers: a lab has room for {MOST_PRODUCERS} (use several machines: --nodes)"
            )));
        }
        let lab = Lab::new()?;
        let switch = lab.switch("switch")?;
        // They may run on any processor, including the consumer's: that is their purpose.
        let busy = switch.host().busy(options.busy)?;
        // The consumer has the machine's last processor to itself, like a separate computer; all
        // other hosts and the network run on the rest. On a shared processor, its worst latencies
        // occur while the kernel forwards a long message through the switch. With one processor
        // there is nothing to divide.
        let apart = Processors::of_thread()?.one_apart();
        let confined = apart.as_ref().map(|(_, others)| others.confine()).transpose()?;
        let mut services = Vec::new();
        let mut plugged =
            |name: &str, last: u8, service: bool, node: (Processors, Option<NodeProgram>)| -> Result<NodeHost> {
                let host = lab.host(name)?;
                let cable = CableOptions { rate: Some(options.rate_bps), ..CableOptions::default() };
                lab.plug(&host, &switch, INTERFACE, &cable)?;
                if let Some((_, others)) = &apart {
                    switch.carry_on(&host, INTERFACE, others)?;
                }
                let [a, b, c, _] = CONSUMER.octets();
                let address = Ipv4Addr::new(a, b, c, last);
                host.address(INTERFACE, &format!("{address}/24"))?;
                // Multicast uses the cable, even without a default route.
                host.run(&["ip", "route", "add", "224.0.0.0/4", "dev", INTERFACE])?;
                if service {
                    let program = Some(options.tickwire.clone());
                    services
                        .push(Service::start_with(&host, &ServiceOptions { program, ..ServiceOptions::default() })?);
                }
                let way = match node {
                    (processors, None) => Way::Lab { host, processors },
                    (processors, Some(program)) => Way::LabWith { host, processors, program },
                };
                Ok(NodeHost {
                    name: name.to_owned(),
                    address: IpAddr::V4(address),
                    tickwire: options.tickwire.clone(),
                    way,
                })
            };
        let own = apart.as_ref().map(|(one, _)| one.clone()).unwrap_or_default();
        let starter = options.nodes.as_ref().map(|nodes| NodeProgram::Starter(nodes.starter.clone()));
        let consumer = plugged("consumer", CONSUMER.octets()[3], options.consumer_service, (own, starter))?;
        let numbered = options.producers.iter().zip(11..);
        let producers = numbered
            .map(|(&number, last)| {
                let name = format!("p{number}");
                let program = options.nodes.as_ref().map(|nodes| nodes.producer(number));
                let node = (Processors::default(), program);
                Ok((plugged(&name, last, options.producer_services, node)?, vec![number]))
            })
            .collect::<Result<_>>()?;
        let hosts = Hosts { consumer, producers };
        Ok(Self { hosts, switch, _busy: busy, _services: services, _lab: lab, _confined: confined })
    }

    /// The hosts of the experiment.
    #[must_use]
    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Packets dropped so far: place and number, for each port of the switch and each host's own.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub(super) fn drops(&self) -> Result<Vec<(String, u64)>> {
        let mut drops = Vec::new();
        for (device, count) in dropped(self.switch.host())? {
            let host = device.trim_end_matches(INTERFACE).trim_end_matches('-');
            drops.push((format!("switch, port to {host}"), count));
        }
        for place in std::iter::once(&self.hosts.consumer).chain(self.hosts.producers.iter().map(|(place, _)| place)) {
            let (Way::Lab { host, .. } | Way::LabWith { host, .. }) = &place.way else { continue };
            let count =
                dropped(host)?.into_iter().filter(|(device, _)| device == INTERFACE).map(|(_, count)| count).sum();
            drops.push((format!("{}, on its way out", place.name), count));
        }
        Ok(drops)
    }
}

/// Drops in the queues of a host's devices.
fn dropped(host: &LabHost) -> Result<Vec<(String, u64)>> {
    #[derive(serde::Deserialize)]
    struct Queue {
        kind: String,
        dev: String,
        #[serde(default)]
        drops: u64,
    }
    let said = host.run(&["tc", "-s", "-j", "qdisc", "show"])?;
    let queues: Vec<Queue> = serde_json::from_str(&said).context("`tc -j` did not print JSON")?;
    Ok(queues.into_iter().filter(|queue| queue.kind == "tbf").map(|queue| (queue.dev, queue.drops)).collect())
}
