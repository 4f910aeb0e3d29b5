//! What the kernel's own tables say about a claim: second to what Windows says about the socket,
//! some of which the program's own process may have set.
//!
//! On Windows a socket at any address may be bound over one that another process has at one
//! address, which keeps its packets. A claim would take them. And connections that the kernel has
//! stay with it: they are not known to a lane.

use tickwire_host_windows::{EndpointRow, PortProof};
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_registry::ProvenSocket;
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_steer::tables::Protocol;

/// A claim, as these tables are to agree with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// What Windows says about the socket.
    pub(crate) socket: &'a ProvenSocket,
    /// What is claimed.
    pub(crate) kind: ClaimKind,
    /// The other end of a flow.
    pub(crate) remote: Endpoint,
    /// The process that asks.
    pub(crate) process: u32,
}

/// Whether the kernel's sockets of the claim's protocol leave room for it.
///
/// # Errors
/// [`Reason::PortTaken`] if another process has the port, or a part of it, or the kernel has
/// connections there.
pub(crate) fn allow(asked: &Asked<'_>, rows: &[EndpointRow]) -> Result<(), Reason> {
    let bound = asked.socket.bound;
    if PortProof::of(rows.iter().copied(), bound.local, asked.process) == PortProof::Refuted {
        return Err(Reason::PortTaken);
    }
    let is_in_the_way = |row: &EndpointRow| match asked.kind {
        // (The socket itself may be bound to any address.)
        ClaimKind::Flow => {
            let is_others = row.process.is_some_and(|process| process != asked.process) && row.remote.port == 0;
            row.local == bound.local && (row.remote == asked.remote || is_others)
        }
        // What a process has left behind (TIME_WAIT) has no owner, and receives nothing more.
        _ if row.process.is_none() && row.remote.port != 0 => false,
        _ if row.local.port != bound.local.port => false,
        _ if row.local == bound.local => row.remote.port != 0,
        // A socket at one address, beside the one at any.
        _ => bound.local.address.is_unspecified() && covers(asked.socket, row.local.address),
    };
    // UDP sockets have no connections that a lane could break.
    let counts = |row: &&EndpointRow| bound.protocol == Protocol::Tcp || row.remote.port == 0;
    if rows.iter().filter(counts).any(is_in_the_way) { Err(Reason::PortTaken) } else { Ok(()) }
}

/// Connections at a listener's port that no process has any more (TIME-WAIT): the kernel answers
/// for them.
pub(crate) fn left_behind(socket: &ProvenSocket, rows: &[EndpointRow]) -> Vec<(Endpoint, Endpoint)> {
    let bound = socket.bound;
    if bound.protocol != Protocol::Tcp || !socket.listens {
        return Vec::new();
    }
    let is_left = |row: &&EndpointRow| {
        let is_there = row.local == bound.local
            || bound.local.address.is_unspecified()
                && row.local.port == bound.local.port
                && covers(socket, row.local.address);
        row.process.is_none() && row.remote.port != 0 && is_there
    };
    rows.iter().filter(is_left).map(|row| (row.local, row.remote)).collect()
}

/// Whether a socket at any address receives what is for this one.
fn covers(socket: &ProvenSocket, address: Address) -> bool {
    !address.is_unspecified()
        && match (socket.bound.local.address.family(), address.family()) {
            (Family::V4, Family::V4) | (Family::V6, Family::V6) => true,
            (Family::V6, Family::V4) => socket.bound.dual,
            (Family::V4, Family::V6) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_registry::Bound;

    const ME: u32 = 100;
    const HERE: Address = Address::v4([10, 0, 0, 1]);
    const PEER: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 9000);

    fn row(process: u32, address: Address, remote: Endpoint) -> EndpointRow {
        EndpointRow { process: (process != 0).then_some(process), local: Endpoint::new(address, 80), remote }
    }

    fn socket(protocol: Protocol, address: Address) -> ProvenSocket {
        let local = Endpoint::new(address, 80);
        let bound = Bound { protocol, local, dual: address == Address::ANY, shares: false, reuses: false };
        ProvenSocket { bound, listens: true, idle: false }
    }

    fn may(kind: ClaimKind, socket: ProvenSocket, rows: &[EndpointRow]) -> bool {
        allow(&Asked { socket: &socket, kind, remote: PEER, process: ME }, rows).is_ok()
    }

    const NONE: Endpoint = Endpoint::new(Address::ANY, 0);

    #[test]
    fn a_port_at_any_address_is_not_claimed_over_a_socket_at_one() {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let (v4, v6) = (socket(protocol, Address::ANY_V4), socket(protocol, Address::ANY));
            let own = row(ME, Address::ANY_V4, NONE);
            assert!(may(ClaimKind::Bound, v4, &[own]));
            for other in [7, ME, 0] {
                assert!(!may(ClaimKind::Bound, v4, &[own, row(other, HERE, NONE)]));
                assert!(!may(ClaimKind::Bound, v6, &[row(ME, Address::ANY, NONE), row(other, HERE, NONE)]));
            }
            let elsewhere = Endpoint::new(HERE, 81);
            assert!(may(ClaimKind::Bound, v4, &[own, EndpointRow { local: elsewhere, ..row(7, HERE, NONE) }]));
        }
    }

    #[test]
    fn a_port_of_another_process_is_not_claimed() {
        let here = socket(Protocol::Tcp, HERE);
        assert!(!may(ClaimKind::Bound, here, &[row(7, HERE, NONE)]));
        assert!(may(ClaimKind::Bound, here, &[row(7, HERE, NONE), row(ME, HERE, NONE)]));
        assert!(may(ClaimKind::Bound, here, &[]), "Windows need not know");
        // A flow from a socket that is bound to any address.
        let own = row(ME, Address::ANY_V4, NONE);
        assert!(may(ClaimKind::Flow, here, &[own]));
        assert!(!may(ClaimKind::Flow, here, &[own, row(7, HERE, NONE)]));
    }

    #[test]
    fn connections_of_the_kernel_stay_with_it() {
        let (here, any) = (socket(Protocol::Tcp, HERE), socket(Protocol::Tcp, Address::ANY_V4));
        for process in [ME, 7] {
            let rows = [row(ME, HERE, NONE), row(process, HERE, PEER)];
            assert!(!may(ClaimKind::Bound, here, &rows) && !may(ClaimKind::Bound, any, &rows));
            assert!(!may(ClaimKind::Flow, here, &rows));
        }
        let left_behind = [row(ME, HERE, NONE), row(0, HERE, PEER)];
        assert!(may(ClaimKind::Bound, here, &left_behind));
        assert!(!may(ClaimKind::Flow, here, &left_behind), "its ends are not free yet");
        let old = (Endpoint::new(HERE, 80), PEER);
        for listener in [here, any] {
            assert_eq!(super::left_behind(&listener, &left_behind), [old]);
            assert_eq!(super::left_behind(&listener, &[row(ME, HERE, PEER), row(0, HERE, NONE)]), []);
        }
        assert_eq!(super::left_behind(&socket(Protocol::Udp, HERE), &left_behind), []);
        let other = Endpoint { port: 1, ..PEER };
        assert!(may(ClaimKind::Flow, here, &[row(ME, HERE, NONE), row(ME, HERE, other)]));
    }
}
