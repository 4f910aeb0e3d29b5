//! One reading: `--json` prints it, and the tables are made from it.

use serde::Serialize;
use std::collections::BTreeMap;

/// Everything at one moment.
#[derive(Debug, Default, Serialize)]
pub struct StatReading {
    /// The machine as a whole.
    pub host: Host,
    /// One entry for each program that has a lane, was refused one, or could not ask for one.
    pub lanes: Vec<Lane>,
    /// The deadline passed before all processes were checked: programs that the service does not
    /// know may be missing.
    pub incomplete: bool,
    /// Whether the programs of all users are included: only root sees them all.
    #[serde(skip)]
    pub of_all_users: bool,
}

/// What the divert program has counted, and on which interfaces.
#[derive(Debug, Default, Serialize)]
pub struct Host {
    /// The interfaces that the service accelerates, or means to.
    pub interfaces: Vec<Interface>,
    /// By name, since the service started.
    pub counters: BTreeMap<&'static str, u64>,
}

/// An interface that the service knows.
#[derive(Debug, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Its longest packet, in bytes.
    pub mtu: u32,
    /// `native`, `generic`, `tc`, `driver`, `none`.
    pub mode: &'static str,
    /// Why it is not accelerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// A program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lane {
    /// 0 if it was refused a lane.
    pub lane: u32,
    /// Its name.
    pub program: String,
    /// Its process, or the first of several.
    pub pid: u32,
    /// Its user; none where users have no numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// How many processes share the lane, or the sockets.
    pub processes: u32,
    /// Since it has been there, in milliseconds.
    pub age_ms: u64,
    /// Memory in use by the lane: frames, sockets, buffers, counters. It grows with peak use, up to
    /// its limits.
    pub memory_bytes: u64,
    /// Whether it has a lane.
    pub accelerated: bool,
    /// Why it was refused a lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The counters of divert and guard.
    pub guard: BTreeMap<&'static str, u64>,
    /// The counters of its stack, with the names of `netstat -s`; empty if its memory cannot be
    /// mapped.
    pub counters: BTreeMap<&'static str, u64>,
    /// Its sockets.
    pub sockets: Vec<SocketReading>,
    /// What is diverted to it.
    pub claims: Vec<ClaimReading>,
}

/// A socket, according to its row in the lane's memory; or to the kernel's table, if the service
/// does not know its program.
#[derive(Clone, Debug, Serialize)]
pub struct SocketReading {
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// Whether its packets go by the lane.
    pub accelerated: bool,
    /// Why it is not accelerated, or why some of its packets take the kernel's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a socket on the kernel that its program polls before it sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled: Option<Polled>,
    /// Its process.
    pub pid: u32,
    /// Its descriptor or handle there.
    pub fd: u32,
    /// Its address and port.
    pub local: String,
    /// Those of its peer.
    pub remote: Option<String>,
    /// As `ss` prints it.
    pub state: &'static str,
    /// Bytes that were not read. This and the following are none where unknown. For a socket on
    /// the kernel these are packets and bytes, and also the queues if the kernel's table cannot be
    /// read.
    pub rx_queue: Option<u32>,
    /// Bytes that were not sent, or not acknowledged.
    pub tx_queue: Option<u32>,
    /// Packets received.
    pub rx_packets: Option<u64>,
    /// Their bytes.
    pub rx_bytes: Option<u64>,
    /// Packets sent.
    pub tx_packets: Option<u64>,
    /// Their bytes.
    pub tx_bytes: Option<u64>,
    /// Datagrams for which there was no room.
    pub drops: Option<u32>,
    /// Of a TCP connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
}

/// How often polling the kernel's socket was of use.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Polled {
    /// Calls that have found something while they polled.
    pub found: u32,
    /// Calls that have polled in vain, and then slept.
    pub slept: u32,
}

/// Figures of a TCP connection; times in microseconds, sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Tcp {
    /// Smoothed round trip.
    pub srtt_us: u32,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Congestion window.
    pub cwnd: u32,
    /// Slow start threshold.
    pub ssthresh: u32,
    /// Longest segment.
    pub mss: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
}

/// What is diverted to a lane.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimReading {
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// The address and port.
    pub local: String,
    /// Those of the peer, of a single connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}
