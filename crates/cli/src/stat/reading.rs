//! One reading: `--json` prints it, and the tables are made from it.

use serde::Serialize;
use std::collections::BTreeMap;

/// Everything at one moment.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Reading {
    /// The machine as a whole.
    pub(crate) host: Host,
    /// One entry for each program that has a lane, was refused one, or could not ask for one.
    pub(crate) lanes: Vec<Lane>,
    /// The deadline passed before all processes were checked: programs that the service does not
    /// know may be missing.
    pub(crate) incomplete: bool,
    /// Whether the programs of all users are included: only root sees them all.
    #[serde(skip)]
    pub(crate) of_all_users: bool,
}

/// What the divert program has counted, and on which interfaces.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Host {
    pub(crate) interfaces: Vec<Interface>,
    /// By name, since the service started.
    pub(crate) counters: BTreeMap<&'static str, u64>,
}

/// An interface that the service knows.
#[derive(Debug, Serialize)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) mac: String,
    pub(crate) mtu: u32,
    /// `native`, `generic`, `tc`, `none`.
    pub(crate) mode: &'static str,
    /// Why it is not accelerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
}

/// A program.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Lane {
    /// 0 if it was refused a lane.
    pub(crate) lane: u32,
    pub(crate) program: String,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) processes: u32,
    pub(crate) age_ms: u64,
    /// Memory in use by the lane: frames, sockets, buffers, counters. It grows with peak use, up to
    /// its limits.
    pub(crate) memory_bytes: u64,
    pub(crate) accelerated: bool,
    /// Why it was refused a lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// The counters of divert and guard.
    pub(crate) guard: BTreeMap<&'static str, u64>,
    /// The counters of its stack, with the names of `netstat -s`; empty if its memory cannot be
    /// mapped.
    pub(crate) counters: BTreeMap<&'static str, u64>,
    pub(crate) sockets: Vec<Socket>,
    /// What is diverted to it.
    pub(crate) claims: Vec<Claim>,
}

/// A socket, according to its row in the lane's memory; or to the kernel's table, if the service
/// does not know its program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Socket {
    /// `tcp` or `udp`.
    pub(crate) protocol: &'static str,
    pub(crate) accelerated: bool,
    /// Why it is not accelerated, or why some of its packets take the kernel's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    pub(crate) local: String,
    pub(crate) remote: Option<String>,
    pub(crate) state: &'static str,
    /// The following fields are none where unknown. For a socket on the kernel these are packets
    /// and bytes, and also the queues if the kernel's table cannot be read.
    pub(crate) rx_queue: Option<u32>,
    pub(crate) tx_queue: Option<u32>,
    pub(crate) rx_packets: Option<u64>,
    pub(crate) rx_bytes: Option<u64>,
    pub(crate) tx_packets: Option<u64>,
    pub(crate) tx_bytes: Option<u64>,
    pub(crate) drops: Option<u32>,
    /// Of a TCP connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp: Option<Tcp>,
}

/// Figures of a TCP connection; times in microseconds, sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tcp {
    pub(crate) srtt_us: u32,
    pub(crate) rto_us: u32,
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) mss: u32,
    pub(crate) retransmits: u32,
}

/// What is diverted to a lane.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Claim {
    pub(crate) protocol: &'static str,
    pub(crate) local: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// All field names in a JSON value, except the names of stack counters, which are those of
    /// netstat.
    fn names(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    into.push(name.clone());
                    names(value, into);
                }
            }
            Value::Array(all) => all.iter().for_each(|value| names(value, into)),
            _ => {}
        }
    }

    #[test]
    fn every_field_is_in_the_manual() {
        let socket = Socket {
            protocol: "tcp",
            accelerated: false,
            reason: Some(String::new()),
            pid: 0,
            fd: 0,
            local: String::new(),
            remote: None,
            state: "",
            rx_queue: None,
            tx_queue: None,
            rx_packets: None,
            rx_bytes: None,
            tx_packets: None,
            tx_bytes: None,
            drops: None,
            tcp: Some(Tcp { srtt_us: 0, rto_us: 0, cwnd: 0, ssthresh: 0, mss: 0, retransmits: 0 }),
        };
        let lane = Lane {
            lane: 0,
            program: String::new(),
            pid: 0,
            uid: 0,
            processes: 0,
            age_ms: 0,
            memory_bytes: 0,
            accelerated: false,
            reason: Some(""),
            guard: super::super::gather::guard_counters().map(|name| (name, 0)).collect(),
            counters: BTreeMap::new(),
            sockets: vec![socket],
            claims: vec![Claim { protocol: "tcp", local: String::new(), remote: Some(String::new()) }],
        };
        let interface = Interface {
            name: String::new(),
            driver: String::new(),
            mac: String::new(),
            mtu: 0,
            mode: "",
            reason: Some(""),
        };
        let counters = super::super::gather::HOST_COUNTERS.map(|name| (name, 0)).into_iter().collect();
        let host = Host { interfaces: vec![interface], counters };
        let reading = Reading { host, lanes: vec![lane], incomplete: false, of_all_users: true };
        let mut all = Vec::new();
        names(&serde_json::to_value(reading).unwrap(), &mut all);
        assert!(all.len() > 60, "{all:?}");
        let manual = include_str!("../manual/stat.txt");
        let manual = manual.split_once("JSON:").unwrap().1.split_once("Environment:").unwrap().0;
        let words: Vec<&str> = manual.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        for name in all {
            assert!(words.contains(&name.as_str()), "{name} is not explained");
        }
    }
}
