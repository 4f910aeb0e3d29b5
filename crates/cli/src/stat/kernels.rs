//! The kernel's own tables of Internet sockets: `/proc/net/tcp`, `tcp6`, `udp` and `udp6`.

use super::search::Deadline;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use tickwire_stack::addr::Endpoint;

/// The most bytes of a table that are read: some million sockets.
const BYTES: u64 = 1 << 29;

const TABLES: [(&str, &str); 4] = [("tcp", "tcp"), ("tcp", "tcp6"), ("udp", "udp"), ("udp", "udp6")];

/// Linux's number of the state.
const LISTEN: u32 = 10;

/// A kernel socket.
#[derive(Debug)]
pub(super) struct KernelSocket {
    pub(super) protocol: &'static str,
    pub(super) local: Endpoint,
    pub(super) remote: Endpoint,
    /// Linux's number of it.
    pub(super) state: u32,
    pub(super) rx_queue: u32,
    pub(super) tx_queue: u32,
}

/// The wanted sockets of our network namespace, by inode, until the deadline.
pub(super) fn sockets(proc: &Path, wanted: &HashSet<u64>, deadline: Deadline) -> HashMap<u64, KernelSocket> {
    let mut found = HashMap::new();
    for (protocol, table) in TABLES {
        let Ok(file) = File::open(proc.join("self/net").join(table)) else { continue };
        let lines = BufReader::new(file.take(BYTES)).lines().map_while(Result::ok);
        let lines = lines.take_while(|_| !deadline.has_passed());
        let sockets = lines.filter_map(|line| socket(protocol, &line));
        found.extend(sockets.filter(|(inode, _)| wanted.contains(inode)));
    }
    found
}

/// A line of a table: number, local, remote, state, queues, timers, retransmissions, user, timeout,
/// inode and more.
fn socket(protocol: &'static str, line: &str) -> Option<(u64, KernelSocket)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, remote, state, queues, .., inode] = fields[..] else { return None };
    let (tx_queue, rx_queue) = queues.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let state = number(state)?;
    // Connections in TIME-WAIT belong to no process: their inode is 0.
    let inode = (fields.len() == 10).then(|| inode.parse().ok())?.filter(|inode| *inode != 0)?;
    let socket = KernelSocket {
        protocol,
        local: endpoint(local)?,
        remote: endpoint(remote)?,
        state,
        // For a listener it is the number of connections that wait to be accepted, not bytes.
        rx_queue: if state == LISTEN { 0 } else { number(rx_queue)? },
        tx_queue: number(tx_queue)?,
    };
    Some((inode, socket))
}

/// `0100007F:1F90`: an address as words in host byte order, and a port.
fn endpoint(text: &str) -> Option<Endpoint> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut octets = [0; 16];
    let length = address.len() / 2;
    for (place, word) in octets.get_mut(..length)?.chunks_exact_mut(4).enumerate() {
        let word_of = address.get(place * 8..place * 8 + 8)?;
        word.copy_from_slice(&u32::from_str_radix(word_of, 16).ok()?.to_ne_bytes());
    }
    let address = match (address.len(), octets) {
        (8, [a, b, c, d, ..]) => IpAddr::from(Ipv4Addr::new(a, b, c, d)),
        (32, octets) => IpAddr::from(Ipv6Addr::from(octets)),
        _ => return None,
    };
    Some(Endpoint::new(address.into(), port))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Proc, line};
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let shown = |text| endpoint(text).map(|endpoint| endpoint.to_string());
        assert_eq!(shown("0100007F:EA69").as_deref(), Some("127.0.0.1:60009"));
        assert_eq!(shown("00000000000000000000000000000000:0016").as_deref(), Some("[::]:22"));
        assert_eq!(shown("000077FD000000000000000001000000:0050").as_deref(), Some("[fd77::1]:80"));
        assert_eq!(shown("0000000000000000FFFF000002004D0A:0050").as_deref(), Some("10.77.0.2:80"), "mapped");
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in
            ["", ":", "0100007F", "0100007F:", "0100007F:10000", "01:1", "0100007F00:1", "é100007:1", "+100007F:x"]
        {
            assert!(endpoint(text).is_none(), "{text}");
        }
        assert!(endpoint(&format!("{}:0", "0".repeat(40))).is_none());
    }

    #[test]
    fn wanted_sockets_of_all_tables_are_found() {
        let proc = Proc::new();
        proc.table("tcp", &[line(10, 5), line(1, 6), line(6, 0), "nonsense".into(), "1: 2 3".into(), String::new()]);
        proc.table("udp6", &[line(7, 8)]);
        let found = sockets(proc.path(), &[0, 5, 8, 9].into(), Deadline::of_a_search());
        let mut inodes: Vec<_> = found.iter().map(|(inode, socket)| (*inode, socket.protocol, socket.state)).collect();
        inodes.sort_unstable();
        assert_eq!(inodes, [(5, "tcp", 10), (8, "udp", 7)]);
        assert_eq!((found[&8].tx_queue, found[&8].rx_queue), (2, 3));
        assert_eq!(found[&5].rx_queue, 0, "connections wait there, no bytes");
        assert_eq!((found[&5].local.port, found[&5].remote.port), (9000, 0));
        assert!(sockets(proc.path(), &[5].into(), Deadline::passed()).is_empty(), "without time");
    }
}
