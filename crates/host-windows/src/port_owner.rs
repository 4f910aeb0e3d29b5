//! Which process has a port: selection in the kernel's tables of TCP and UDP endpoints.

use tickwire_stack::addr::{Address, Endpoint, Family};

/// The most owners that are listed for one endpoint. With `SO_REUSEADDR` a port has several.
pub const MAX_OWNERS: usize = 64;

/// A transport protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A row of the kernel's tables: a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointRow {
    /// The ID of the process that made the socket. `None` if it is unknown: connections that a
    /// process left behind; under Wine 8 also sockets that were not used yet, and TCP over IPv6.
    pub process: Option<u32>,
    /// The local address and port. The address may be unspecified: any.
    pub local: Endpoint,
    /// The peer of a TCP connection; unspecified and port 0 for other sockets.
    pub remote: Endpoint,
}

/// A process that has a local endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOwner {
    /// The ID of the process, if it is known.
    pub process: Option<u32>,
    /// The endpoint that its socket is bound to. The address may be unspecified: any.
    pub local: Endpoint,
}

/// What the tables say about a process and an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProof {
    /// The process has a socket there.
    Confirmed,
    /// No socket is listed, or the process of one is unknown. Windows does not list TCP sockets
    /// that are bound, but neither listen nor are connected.
    Unknown,
    /// Only other processes have sockets there.
    Refuted,
}

impl PortProof {
    /// What these rows say about a process and a local endpoint. A socket that is bound to the port
    /// at any address counts for each address.
    #[must_use]
    pub fn of(rows: impl IntoIterator<Item = EndpointRow>, local: Endpoint, process: u32) -> Self {
        let mut of_others = false;
        let mut is_unknown = false;
        for row in rows.into_iter().filter(|row| holds(row.local, local)) {
            match row.process {
                Some(owner) if owner == process => return Self::Confirmed,
                Some(_) => of_others = true,
                None => is_unknown = true,
            }
        }
        if of_others && !is_unknown { Self::Refuted } else { Self::Unknown }
    }
}

/// The owners of an endpoint: first sockets at exactly its address, then those at any address of
/// its family (or of both). At most [`MAX_OWNERS`], each once.
#[must_use]
pub fn match_owners(rows: impl IntoIterator<Item = EndpointRow>, local: Endpoint) -> Vec<PortOwner> {
    let (mut exact, mut any) = (Vec::new(), Vec::new());
    for row in rows.into_iter().filter(|row| holds(row.local, local)) {
        let chosen = if row.local == local { &mut exact } else { &mut any };
        let owner = PortOwner { process: row.process, local: row.local };
        if chosen.len() < MAX_OWNERS && !chosen.contains(&owner) {
            chosen.push(owner);
        }
    }
    exact.append(&mut any);
    exact.truncate(MAX_OWNERS);
    exact
}

/// The process of a TCP connection, if it is listed and known.
#[must_use]
pub fn match_connection(rows: impl IntoIterator<Item = EndpointRow>, local: Endpoint, remote: Endpoint) -> Option<u32> {
    let mut rows = rows.into_iter().filter(|row| (row.local, row.remote) == (local, remote));
    rows.find_map(|row| row.process)
}

/// Whether a socket at an endpoint receives packets for another one. `::` may be a dual-stack
/// socket, which receives IPv4 as well.
fn holds(bound: Endpoint, wanted: Endpoint) -> bool {
    let (own, other) = (bound.address, wanted.address);
    let any = own == Address::ANY || own == Address::ANY_V4 && other.family() == Family::V4;
    bound.port == wanted.port && (own == other || any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::testing::address;

    fn row(process: u32, local: &str, port: u16) -> EndpointRow {
        let process = (process != 0).then_some(process);
        EndpointRow { process, local: Endpoint::new(address(local), port), remote: Endpoint::default() }
    }

    fn owners(rows: &[EndpointRow], local: &str, port: u16) -> Vec<Option<u32>> {
        let found = match_owners(rows.iter().copied(), Endpoint::new(address(local), port));
        found.iter().map(|owner| owner.process).collect()
    }

    #[test]
    fn exact_addresses_go_before_sockets_at_any_address() {
        let rows = [
            row(1, "0.0.0.0", 80),
            row(2, "10.0.0.1", 80),
            row(3, "10.0.0.2", 80),
            row(4, "10.0.0.1", 81),
            row(5, "::", 80),
            row(6, "2001:db8::1", 80),
        ];
        assert_eq!(owners(&rows, "10.0.0.1", 80), [Some(2), Some(1), Some(5)]);
        assert_eq!(owners(&rows, "2001:db8::1", 80), [Some(6), Some(5)]);
        assert_eq!(owners(&rows, "0.0.0.0", 80), [Some(1), Some(5)]);
        assert_eq!(owners(&rows, "::", 80), [Some(5)]);
        assert_eq!(owners(&rows, "10.0.0.1", 8080), []);
    }

    #[test]
    fn an_owner_is_listed_once_and_there_is_a_limit() {
        let rows = [row(0, "10.0.0.1", 80), row(7, "10.0.0.1", 80), row(7, "10.0.0.1", 80)];
        assert_eq!(owners(&rows, "10.0.0.1", 80), [None, Some(7)]);
        let rows: Vec<_> = (1..1000).map(|n| row(n, if n % 2 == 0 { "0.0.0.0" } else { "10.0.0.1" }, 80)).collect();
        assert_eq!(owners(&rows, "10.0.0.1", 80).len(), MAX_OWNERS);
    }

    #[test]
    fn a_process_is_confirmed_however_many_others_share_the_port() {
        let proof = |rows: &[EndpointRow], process| {
            PortProof::of(rows.iter().copied(), Endpoint::new(address("10.0.0.1"), 80), process)
        };
        let many: Vec<_> = (1..1000).map(|n| row(n, "10.0.0.1", 80)).collect();
        assert_eq!(proof(&many, 999), PortProof::Confirmed);
        assert_eq!(proof(&many, 1000), PortProof::Refuted);
        assert_eq!(proof(&[row(5, "0.0.0.0", 80)], 5), PortProof::Confirmed);
        assert_eq!(proof(&[row(5, "10.0.0.1", 80), row(0, "10.0.0.1", 80)], 6), PortProof::Unknown);
        assert_eq!(proof(&[row(5, "10.0.0.2", 80), row(5, "10.0.0.1", 81)], 5), PortProof::Unknown);
        assert_eq!(proof(&[], 5), PortProof::Unknown);
    }

    #[test]
    fn a_connection_is_found_by_both_ends() {
        let peer = Endpoint::new(address("10.0.0.9"), 4000);
        let connection = EndpointRow { remote: peer, ..row(8, "10.0.0.1", 80) };
        let rows = [row(7, "10.0.0.1", 80), connection];
        assert_eq!(match_connection(rows, connection.local, peer), Some(8));
        assert_eq!(match_connection(rows, connection.local, connection.local), None);
    }
}
