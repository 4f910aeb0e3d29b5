//! When a connection that a peer opens ends a lane's flow between the same ends.
//!
//! A program may declare flows in advance, or connections that it never had. So a segment that
//! opens a connection goes to the port's listener, in another lane or in the kernel, and so does
//! the rest of its handshake. The flow is removed when the handshake is complete. To complete it a
//! peer must have seen the answer to its SYN: forged segments take no connection from its lane (RFC
//! 9293 section 3.5, RFC 5961).

use crate::segment::{Role, Segment};
use crate::tables::{Flow, FlowKey, Handshake, LaneNumber};
use alloc::collections::BTreeMap;
use tickwire_stack::addr::Endpoint;

/// What a peer sends before an answer can reach it is at most this far after its SYN.
const EARLY: u32 = 1 << 20;

/// What the kernel knows about its sockets.
pub trait Kernel {
    /// The kernel's TCP connection between these ends, or else its listener for one. A connection
    /// that the kernel is opening counts as none: with a flow of ours between the same ends it
    /// cannot be established.
    fn tcp_socket(&self, local: Endpoint, remote: Endpoint) -> Option<KernelSocket>;
}

/// A TCP socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelSocket {
    /// A listener.
    Listener,
    /// A handshake whose SYN has been answered.
    Request,
    /// A connection whose SYN was enough, perhaps (RFC 7413).
    FastOpen,
    /// A connection that is over.
    TimeWait,
    /// A connection.
    Connection,
}

/// Whether a segment between the ends of a lane's flow belongs to a connection that the peer opens,
/// or has opened, to the port's listener: a lane, or the kernel (`None`). Removes the flow once it
/// has been opened.
pub(crate) fn is_listeners(
    flows: &mut BTreeMap<FlowKey, Flow>,
    key: &FlowKey,
    segment: &Segment,
    listener: Option<LaneNumber>,
    kernel: &dyn Kernel,
) -> bool {
    let socket = match listener {
        Some(_) => KernelSocket::Listener,
        None => match kernel.tcp_socket(key.local, key.remote) {
            Some(socket) => socket,
            None => return false,
        },
    };
    // The kernel knows which peers it has answered.
    if socket == KernelSocket::Connection {
        flows.remove(key);
        return true;
    }
    let Some(flow) = flows.get_mut(key) else { return false };
    let answer = match flow.handshake {
        Handshake::None | Handshake::Asked => None,
        Handshake::Followed { answer } | Handshake::Answered { answer } => Some(answer),
    };
    if segment.role == Role::Opens {
        // The guard sees a lane's answer. A SYN after the one that the kernel answers changes
        // nothing.
        let is_answered = socket == KernelSocket::Request && flow.handshake != Handshake::None;
        if listener.is_none() && !is_answered {
            flow.next = segment.sequence.wrapping_add(1);
            flow.handshake = Handshake::Asked;
        }
        return true;
    }
    if segment.role == Role::Quoted {
        return answer == Some(segment.sequence.wrapping_add(1));
    }
    let ahead = segment.sequence.wrapping_sub(flow.next);
    let fits = answer == Some(segment.acknowledged) && ahead < EARLY;
    if segment.role == Role::GoesOn {
        match (listener, flow.handshake) {
            (Some(_), Handshake::Answered { .. }) if fits => {
                flows.remove(key);
            }
            (None, _) if ahead == 0 => flow.handshake = Handshake::Followed { answer: segment.acknowledged },
            _ => {}
        }
    }
    fits || ahead == 0
}

/// Notes that a lane answers a SYN between the ends of another lane's flow, which stays that lane's
/// until the peer has seen this answer. Returns whether it does.
pub(crate) fn note_answer(
    flows: &mut BTreeMap<FlowKey, Flow>,
    key: &FlowKey,
    lane: LaneNumber,
    segment: &Segment,
) -> bool {
    let Some(flow) = flows.get_mut(key) else { return false };
    if flow.owner.is_none_or(|owner| owner == lane) {
        return false;
    }
    flow.next = segment.acknowledged;
    flow.handshake = Handshake::Answered { answer: segment.sequence.wrapping_add(1) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Protocol;
    use crate::testing::{HERE, NoSockets, PEER, Sockets, ends};

    const KEY: FlowKey = FlowKey { protocol: Protocol::Tcp, local: ends(HERE, 7), remote: ends(PEER, 5) };

    fn flows() -> BTreeMap<FlowKey, Flow> {
        [(KEY, Flow::new(Some(77)))].into()
    }

    fn segment(role: Role, sequence: u32, acknowledged: u32) -> Segment {
        Segment { role, sequence, acknowledged }
    }

    #[test]
    fn without_a_listener_the_flow_keeps_everything() {
        let mut flows = flows();
        assert!(!is_listeners(&mut flows, &KEY, &segment(Role::Opens, 100, 0), None, &NoSockets));
        assert_eq!(flows[&KEY], Flow::new(Some(77)));
    }

    #[test]
    fn a_connection_of_the_kernels_ends_the_flow() {
        let mut flows = flows();
        let kernel = Sockets(KernelSocket::Connection);
        assert!(is_listeners(&mut flows, &KEY, &segment(Role::GoesOn, 1, 1), None, &kernel));
        assert!(flows.is_empty());
    }

    #[test]
    fn a_handshake_with_the_kernel_is_told_by_its_numbers_and_ends_no_flow() {
        let mut flows = flows();
        let mut ask = |segment| is_listeners(&mut flows, &KEY, &segment, None, &Sockets(KernelSocket::Listener));
        assert!(ask(segment(Role::Opens, 100, 0)));
        assert!(!ask(segment(Role::GoesOn, 500, 9)), "the flow's own");
        assert!(ask(segment(Role::GoesOn, 101, 901)), "the peer goes on");
        assert!(ask(segment(Role::GoesOn, 150, 901)));
        assert!(!ask(segment(Role::GoesOn, 150, 902)));
        assert!(ask(segment(Role::Quoted, 900, 0)), "an error about the answer");
        assert_eq!(flows[&KEY].handshake, Handshake::Followed { answer: 901 });
    }

    #[test]
    fn a_syn_after_the_one_that_the_kernel_answers_changes_nothing() {
        let mut flows = flows();
        let ask = |flows: &mut _, n| {
            is_listeners(flows, &KEY, &segment(Role::Opens, n, 0), None, &Sockets(KernelSocket::Request))
        };
        assert!(ask(&mut flows, 100) && ask(&mut flows, 200));
        assert_eq!(flows[&KEY].next, 101);
    }

    #[test]
    fn a_handshake_with_a_lane_ends_the_flow_when_the_peer_has_seen_the_answer() {
        let mut flows = flows();
        let ask = |flows: &mut _, segment| is_listeners(flows, &KEY, &segment, Some(78), &NoSockets);
        assert!(ask(&mut flows, segment(Role::Opens, 100, 0)));
        assert!(!ask(&mut flows, segment(Role::GoesOn, 101, 901)), "there is no answer yet");
        assert!(!note_answer(&mut flows, &KEY, 77, &segment(Role::Answers, 900, 101)), "its own");
        assert!(note_answer(&mut flows, &KEY, 78, &segment(Role::Answers, 900, 101)));
        assert!(!ask(&mut flows, segment(Role::GoesOn, 102 + EARLY, 901)), "too far ahead");
        assert!(ask(&mut flows, segment(Role::GoesOn, 101, 900)), "it may be forged");
        assert!(flows.contains_key(&KEY));
        assert!(ask(&mut flows, segment(Role::GoesOn, 101, 901)));
        assert!(flows.is_empty());
    }

    #[test]
    fn a_flow_of_the_kernels_is_the_kernels() {
        let mut flows = [(KEY, Flow::new(None))].into();
        assert!(!note_answer(&mut flows, &KEY, 78, &segment(Role::Answers, 900, 101)));
    }
}
