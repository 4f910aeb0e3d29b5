//! Cables (veth pairs) and switches (bridges).

use crate::host::LabHost;
use crate::processors::Processors;
use crate::shell::run;
use anyhow::Result;

/// Properties of a cable or a switch port.
#[derive(Clone, Debug)]
pub struct CableOptions {
    /// MTU of the interfaces.
    pub mtu: u32,
    /// Whether the hosts' kernels may use checksum offload and segmentation offload. A veth pair
    /// passes such packets on unchanged, unlike a wire, so this is off unless a test needs the
    /// kernel's best throughput.
    pub offload: bool,
    /// Bits per second of a switch port, in each direction; `None`: unlimited.
    pub rate: Option<u64>,
    /// Receive and transmit queues of each end. Several queues are served by several processors at
    /// a time, like those of a network card: a hash assigns each flow to a queue.
    pub queues: u32,
}

impl Default for CableOptions {
    fn default() -> Self {
        Self { mtu: 1500, offload: false, rate: None, queues: 1 }
    }
}

pub(crate) fn join(a: &LabHost, b: &LabHost, interface: &str, options: &CableOptions) -> Result<()> {
    connect(a, interface, b, interface, options.queues)?;
    for host in [a, b] {
        bring_up(host, interface, options)?;
    }
    Ok(())
}

fn connect(a: &LabHost, a_interface: &str, b: &LabHost, b_interface: &str, queues: u32) -> Result<()> {
    let queues = format!("numrxqueues {queues} numtxqueues {queues}");
    let command = format!(
        "ip link add {a_interface} netns {} {queues} type veth peer name {b_interface} netns {} {queues}",
        a.namespace(),
        b.namespace()
    );
    run(&command.split(' ').collect::<Vec<_>>()).map(drop)
}

pub(crate) fn bring_up(host: &LabHost, interface: &str, options: &CableOptions) -> Result<()> {
    host.mtu(interface, options.mtu)?;
    if !options.offload {
        host.run(&["ethtool", "-K", interface, "tx", "off", "tso", "off", "gso", "off"])?;
    }
    host.run(&["ip", "link", "set", interface, "up"])?;
    // GRO makes veth poll (NAPI), which preserves the order of frames, and is required before a
    // peer may redirect XDP frames into it. The kernel announces that ability only for a device
    // that is up when GRO is enabled.
    host.run(&["ethtool", "-K", interface, "gro", "on"])?;
    Ok(())
}

/// An Ethernet switch whose ports may be limited in rate.
#[derive(Clone, Debug)]
pub struct Switch {
    host: LabHost,
}

const BRIDGE: &str = "bridge";

impl Switch {
    pub(crate) fn new(host: LabHost) -> Result<Self> {
        // No spanning tree and no snooping: a port forwards at once, and multicast reaches every
        // port.
        host.run(&["ip", "link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "mcast_snooping", "0"])?;
        // A switch does not pass frames through netfilter, but the kernel may be configured to do
        // so.
        for family in ["arp", "ip", "ip6"] {
            host.run(&["sysctl", "-q", "-e", "-w", &format!("net.bridge.bridge-nf-call-{family}tables=0")])?;
        }
        host.run(&["ip", "link", "set", BRIDGE, "up"])?;
        Ok(Self { host })
    }

    /// The namespace that holds the bridge, for tests that look at its ports.
    #[must_use]
    pub fn host(&self) -> &LabHost {
        &self.host
    }

    /// Lets these processors process the frames that a host sends into its port (RPS, scaling.rst
    /// of the kernel's documentation). Without it the sending processor carries each frame to its
    /// queue or receiver, and also runs the reply path, which no computer on a real wire does.
    ///
    /// # Errors
    /// The host has no such interface here, or there is no such processor.
    pub fn carry_on(&self, host: &LabHost, interface: &str, processors: &Processors) -> Result<()> {
        let port = port(host, interface);
        let write = format!("echo {} > /sys/class/net/{port}/queues/rx-0/rps_cpus", processors.mask());
        self.host.run(&["sh", "-c", &write]).map(drop)
    }
}

/// The name of the port for a host's interface. Interface names have at most 15 bytes.
fn port(host: &LabHost, interface: &str) -> String {
    format!("{}-{interface}", host.name()).chars().take(15).collect()
}

pub(crate) fn plug(host: &LabHost, switch: &Switch, interface: &str, options: &CableOptions) -> Result<()> {
    let port = port(host, interface);
    connect(host, interface, &switch.host, &port, options.queues)?;
    bring_up(host, interface, options)?;
    // Brought up like the host's end (GRO, so NAPI); otherwise a cable's frames wait in the backlog
    // queue of each processor, and overtake each other.
    switch.host.run(&["ip", "link", "set", &port, "master", BRIDGE])?;
    bring_up(&switch.host, &port, options)?;
    if let Some(rate) = options.rate {
        limit(&switch.host, &port, rate)?;
        limit(host, interface, rate)?;
    }
    Ok(())
}

fn limit(host: &LabHost, interface: &str, rate: u64) -> Result<()> {
    let rate = format!("{rate}bit");
    let command =
        ["tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", &rate, "burst", "64kb", "latency", "20ms"];
    host.run(&command).map(drop)
}
