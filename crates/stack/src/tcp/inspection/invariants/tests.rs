//! Connections broken on purpose: see [`crate::invariants`].

use crate::Stack;
use crate::invariants::tests::tells;
use crate::pool::{SlotLink, slot};
use crate::tcp::{Socket, TcpState};
use crate::time::{Instant, Span};

/// Connection 0 is closed, and its slot is not freed.
fn end(s: &mut Stack<'_>) {
    s.finish(slot(0));
    assert_eq!(s.mem.tcp[slot(0)].state, TcpState::Closed);
}

#[test]
fn a_connection_that_is_over_and_without_a_handle_is_found() {
    tells("0: its slot is never freed, in Closed", |s| {
        end(s);
        s.mem.tcp[slot(0)].orphan = true;
    });
}

#[test]
fn a_connection_that_is_over_and_found_by_packets_yet_is_found() {
    tells("places of connected", |s| {
        s.mem.tcp[slot(0)].state = TcpState::Closed;
        s.mem.tcp[slot(0)].at = Default::default();
    });
}

#[test]
fn a_connection_without_a_handle_and_without_a_timer_is_found() {
    tells("0: its slot is never freed, in FinWait2", |s| {
        let tcp = &mut s.mem.tcp[slot(0)];
        (tcp.state, tcp.orphan, tcp.mss) = (TcpState::FinWait2, true, 536);
        tcp.send.una = tcp.send.nxt;
        tcp.at = Default::default();
    });
}

#[test]
fn a_half_open_connection_without_a_listener_is_found() {
    tells("0: its slot is never freed, in SynReceived", |s| {
        (s.mem.tcp[slot(0)].state, s.mem.tcp[slot(0)].passive) = (TcpState::SynReceived, true);
    });
}

#[test]
fn a_connection_that_waits_on_no_list_is_found() {
    tells("to be accepted", |s| s.mem.tcp[slot(0)].queued = true);
    tells("is closed", |s| s.mem.tcp[slot(0)].listener = SlotLink::to(slot(1)));
}

#[test]
fn a_timer_of_a_free_slot_is_found() {
    tells("timer of 0, which is free", |s| {
        s.tcp_close(s.id_of(slot::<Socket>(0)).try_into().unwrap(), Instant::from_nanos(2)).unwrap();
        s.arm(slot(0), Instant::from_nanos(1) + Span::from_secs(1));
    });
}
