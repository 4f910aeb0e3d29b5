//! What the kernel's own tables say about a claim: second to what Windows says about the socket,
//! some of which the program's own process may have set.
//!
//! On Windows a socket at any address may be bound over one that another process has at one
//! address, which keeps its packets. Sockets of several processes may have the very same address
//! and port (`SO_REUSEADDR`). A claim would take the packets of the others. And connections that
//! the kernel has stay with it: they are not known to a lane.
//!
//! Windows lists each UDP socket and each listener with its process. So one that is not listed is
//! none: its name is what the program's process has written into it. Windows does not list TCP
//! sockets that are bound and nothing else, from which flows begin.

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
/// connections there; [`Reason::NotBound`] if the kernel does not have the socket of a whole port.
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
        _ if row.local == bound.local => row.remote.port != 0 || !is_of(row, asked.process),
        // A socket at one address, beside the one at any.
        _ => bound.local.address.is_unspecified() && covers(asked.socket, row.local.address),
    };
    // UDP sockets have no connections that a lane could break.
    let counts = |row: &&EndpointRow| bound.protocol == Protocol::Tcp || row.remote.port == 0;
    if rows.iter().filter(counts).any(is_in_the_way) {
        return Err(Reason::PortTaken);
    }
    // (A process that has the port at any address has it at each. Wine lists all UDP sockets so.)
    let any = if bound.local.address.to_v4().is_some() { Address::ANY_V4 } else { Address::ANY };
    let is_it = |row: &EndpointRow| {
        let is_there = [bound.local.address, any].contains(&row.local.address);
        is_there && row.local.port == bound.local.port && row.remote.port == 0 && is_of(row, asked.process)
    };
    let is_whole = asked.kind != ClaimKind::Flow;
    if is_whole && !rows.iter().any(is_it) { Err(Reason::NotBound) } else { Ok(()) }
}

/// Whether a socket may be one of this process.
fn is_of(row: &EndpointRow, process: u32) -> bool {
    row.process.is_none_or(|owner| owner == process)
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
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let both = [row(7, HERE, NONE), row(ME, HERE, NONE)];
            assert!(!may(ClaimKind::Bound, socket(protocol, HERE), &both), "they have it together");
        }
        // A flow from a socket that is bound to any address.
        let own = row(ME, Address::ANY_V4, NONE);
        assert!(may(ClaimKind::Flow, here, &[own]));
        assert!(!may(ClaimKind::Flow, here, &[own, row(7, HERE, NONE)]));
    }

    #[test]
    fn a_socket_that_the_kernel_does_not_have_justifies_no_port() {
        for (protocol, address) in [(Protocol::Udp, HERE), (Protocol::Tcp, Address::ANY_V4)] {
            let forged = socket(protocol, address);
            let allowed =
                |kind, rows: &[EndpointRow]| allow(&Asked { socket: &forged, kind, remote: PEER, process: ME }, rows);
            assert_eq!(allowed(ClaimKind::Bound, &[]), Err(Reason::NotBound));
            let elsewhere = EndpointRow { local: Endpoint::new(address, 81), ..row(ME, address, NONE) };
            assert_eq!(allowed(ClaimKind::Bound, &[elsewhere]), Err(Reason::NotBound));
            assert_eq!(allowed(ClaimKind::Bound, &[row(0, address, PEER)]), Err(Reason::NotBound), "left behind");
            assert_eq!(allowed(ClaimKind::Bound, &[row(ME, address, NONE)]), Ok(()));
            assert_eq!(allowed(ClaimKind::Bound, &[row(ME, Address::ANY_V4, NONE)]), Ok(()), "it has all of the port");
            // (Under Wine the process may be unknown.)
            assert_eq!(allowed(ClaimKind::Bound, &[row(0, address, NONE)]), Ok(()));
            assert_eq!(allowed(ClaimKind::Flow, &[]), Ok(()), "such sockets are not listed");
        }
        let here = socket(Protocol::Udp, HERE);
        assert!(!may(ClaimKind::Bound, here, &[row(7, Address::ANY_V4, NONE)]), "another has it at any address");
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
