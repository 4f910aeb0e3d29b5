//! The lab on one machine: a consumer and producers, each a host of its own, on a switch with
//! limited ports.

use super::Error;
use super::place::{Hosts, Place, Way};
use anyhow::{Context, Result};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use tickwire_lab::{CableOptions, Confined, Host, Lab, Process, Processors, Service, ServiceOptions, Switch};

/// The interface of every host.
const INTERFACE: &str = "eth0";
/// The consumer's address; producers count up from the next ten.
const CONSUMER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// The most producers that fit into one lab.
const MOST_PRODUCERS: usize = 200;

/// What the lab is like.
#[derive(Clone, Debug)]
pub(super) struct BedOptions {
    /// Bits per second of each host's port, in each direction.
    pub rate_bps: u64,
    /// The numbers of the producers: a host each.
    pub producers: Vec<u16>,
    /// Whether the consumer has a service.
    pub consumer_service: bool,
    /// Whether the producers have one each.
    pub producer_services: bool,
    /// So many processors are kept busy by other programs all the while.
    pub busy: usize,
    /// The program `tickwire`.
    pub tickwire: PathBuf,
}

/// The lab; all of it goes with the value.
#[derive(Debug)]
pub(super) struct Bed {
    hosts: Hosts,
    switch: Switch,
    // Before the hosts, so that they end before their hosts go.
    _busy: Vec<Process>,
    _services: Vec<Service>,
    _lab: Lab,
    _confined: Option<Confined>,
}

impl Bed {
    /// Builds it.
    ///
    /// # Errors
    /// [`Error::Refused`] if there are more producers than fit; otherwise not root, or something
    /// cannot be made.
    pub(super) fn new(options: &BedOptions) -> Result<Self, Error> {
        if options.producers.len() > MOST_PRODUCERS {
            let many = options.producers.len();
            return Err(Error::Refused(format!(
                "{many} producers: a lab has room for {MOST_PRODUCERS} (use several machines: --nodes)"
            )));
        }
        let lab = Lab::new()?;
        let switch = lab.switch("switch")?;
        // They may have any processor, the consumer's too: that is what they are for.
        let busy = switch.host().busy(options.busy)?;
        // The consumer has the last processor of the machine to itself, as a computer of its own
        // has it; all others and the network have the others. Where it shares one, its worst
        // messages are those that come while the kernel carries a long one through the switch. With
        // one processor there is nothing to share out.
        let apart = Processors::of_thread()?.one_apart();
        let confined = apart.as_ref().map(|(_, others)| others.confine()).transpose()?;
        let mut services = Vec::new();
        let mut plugged = |name: &str, last: u8, service: bool, processors: Processors| -> Result<Place> {
            let host = lab.host(name)?;
            let cable = CableOptions { rate: Some(options.rate_bps), ..CableOptions::default() };
            lab.plug(&host, &switch, INTERFACE, &cable)?;
            if let Some((_, others)) = &apart {
                switch.carry_on(&host, INTERFACE, others)?;
            }
            let [a, b, c, _] = CONSUMER.octets();
            let address = Ipv4Addr::new(a, b, c, last);
            host.address(INTERFACE, &format!("{address}/24"))?;
            // Groups go by the cable, also where no route says so.
            host.run(&["ip", "route", "add", "224.0.0.0/4", "dev", INTERFACE])?;
            if service {
                let program = Some(options.tickwire.clone());
                services.push(Service::start_with(&host, &ServiceOptions { program, ..ServiceOptions::default() })?);
            }
            let way = Way::Lab { host, processors };
            Ok(Place { name: name.to_owned(), address: IpAddr::V4(address), tickwire: options.tickwire.clone(), way })
        };
        let own = apart.as_ref().map(|(one, _)| one.clone()).unwrap_or_default();
        let consumer = plugged("consumer", CONSUMER.octets()[3], options.consumer_service, own)?;
        let numbered = options.producers.iter().zip(11..);
        let producers = numbered
            .map(|(&number, last)| {
                let name = format!("p{number}");
                Ok((plugged(&name, last, options.producer_services, Processors::default())?, vec![number]))
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

    /// Where packets have been dropped so far: the port and how many, for each port of the switch
    /// and each host's own.
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
            let Way::Lab { host, .. } = &place.way else { continue };
            let count =
                dropped(host)?.into_iter().filter(|(device, _)| device == INTERFACE).map(|(_, count)| count).sum();
            drops.push((format!("{}, on its way out", place.name), count));
        }
        Ok(drops)
    }
}

/// What the queues of a host's devices have dropped.
fn dropped(host: &Host) -> Result<Vec<(String, u64)>> {
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
