//! What a socket justifies: a program that shows a socket of the kernel gets the right to the
//! packets that are for it, and to no others.

use crate::Bound;
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_stack::addr::Endpoint;
use tickwire_steer::tables::Protocol;

/// What the operating system says about a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenSocket {
    /// Where it is bound.
    pub bound: Bound,
    /// It listens (TCP).
    pub listens: bool,
    /// It is bound and nothing else: it neither listens nor has, or ever asked for, a connection of
    /// the kernel's. TCP only: a UDP socket has no connections to be claimed.
    pub idle: bool,
}

/// Whether a socket justifies a claim of this kind. `remote`: the other end of a flow. `is_ours`:
/// whether its address is one of the accelerated network cards.
///
/// # Errors
/// Why it does not.
pub fn justifies(socket: &ProvenSocket, kind: ClaimKind, remote: Endpoint, is_ours: bool) -> Result<(), Reason> {
    let Bound { protocol, local, .. } = socket.bound;
    match kind {
        // The service binds such a port itself.
        ClaimKind::Ephemeral => Err(Reason::BadRequest),
        // A TCP socket that is bound but does not listen has no right to the packets to its port:
        // they may be for connections of other sockets.
        ClaimKind::Bound if protocol == Protocol::Tcp && !socket.listens => Err(Reason::NotBound),
        ClaimKind::Bound if local.address.is_loopback() => Err(Reason::BoundLoopback),
        ClaimKind::Bound if local.address.is_unspecified() || is_ours => Ok(()),
        ClaimKind::Bound if protocol == Protocol::Udp && local.address.is_multicast() => Ok(()),
        // A connection of the kernel's stays with the kernel; and its socket's port may be shared
        // with other connections.
        ClaimKind::Flow if !socket.idle => Err(Reason::BadRequest),
        ClaimKind::Flow if remote.port == 0 || remote.address.is_unspecified() => Err(Reason::BadRequest),
        ClaimKind::Flow if remote.address.family() != local.address.family() => Err(Reason::BadRequest),
        ClaimKind::Flow if remote.address.is_loopback() => Err(Reason::Loopback),
        ClaimKind::Flow if local.address.is_unspecified() => Err(Reason::NotBound),
        ClaimKind::Flow if is_ours => Ok(()),
        _ => Err(Reason::Address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Address;

    const HERE: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 1]), 80);
    const THERE: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 9000);

    fn socket(protocol: Protocol, local: Endpoint) -> ProvenSocket {
        let bound = Bound { protocol, local, dual: false, shares: false, reuses: false };
        ProvenSocket { bound, listens: false, idle: protocol == Protocol::Tcp }
    }

    #[test]
    fn a_port_is_for_listeners_and_udp_sockets() {
        let may = |socket| justifies(&socket, ClaimKind::Bound, Endpoint::default(), true);
        let idle = socket(Protocol::Tcp, HERE);
        assert_eq!(may(idle), Err(Reason::NotBound));
        assert_eq!(may(ProvenSocket { listens: true, idle: false, ..idle }), Ok(()));
        assert_eq!(may(socket(Protocol::Udp, HERE)), Ok(()));
        assert_eq!(justifies(&idle, ClaimKind::Ephemeral, THERE, true), Err(Reason::BadRequest));
    }

    #[test]
    fn only_addresses_of_accelerated_cards_count() {
        let at = |address, is_ours| {
            let socket = socket(Protocol::Udp, Endpoint::new(address, 80));
            justifies(&socket, ClaimKind::Bound, Endpoint::default(), is_ours)
        };
        assert_eq!(at(Address::v4([127, 0, 0, 1]), false), Err(Reason::BoundLoopback));
        assert_eq!(at(Address::v4([192, 168, 0, 1]), false), Err(Reason::Address));
        assert_eq!(at(Address::ANY_V4, false), Ok(()));
        assert_eq!(at(Address::v4([239, 1, 1, 1]), false), Ok(()), "a group");
    }

    #[test]
    fn a_flow_is_for_a_bound_tcp_socket_without_a_connection() {
        let may = |socket, remote| justifies(&socket, ClaimKind::Flow, remote, true);
        let idle = socket(Protocol::Tcp, HERE);
        assert_eq!(may(idle, THERE), Ok(()));
        assert_eq!(may(ProvenSocket { idle: false, ..idle }, THERE), Err(Reason::BadRequest));
        assert_eq!(may(socket(Protocol::Udp, HERE), THERE), Err(Reason::BadRequest));
        assert_eq!(may(idle, Endpoint { port: 0, ..THERE }), Err(Reason::BadRequest));
        assert_eq!(may(idle, Endpoint::new(Address::ANY, 9)), Err(Reason::BadRequest));
        assert_eq!(may(idle, Endpoint::new(Address::v4([127, 0, 0, 1]), 9)), Err(Reason::Loopback));
        assert_eq!(may(socket(Protocol::Tcp, Endpoint::new(Address::ANY_V4, 80)), THERE), Err(Reason::NotBound));
        assert_eq!(justifies(&idle, ClaimKind::Flow, THERE, false), Err(Reason::Address));
    }
}
