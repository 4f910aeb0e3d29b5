//! Urgent data as Linux implements it (RFC 6093).

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, StackError};

/// RFC 9293 §3.8.5, as Linux implements it (RFC 6093 §3).
#[test]
fn the_urgent_byte_is_taken_out_of_the_stream_and_reading_stops_at_its_place() {
    let mut pair = SimulatedPair::seeded(1);
    let (client, server, _) = connected(&mut pair, 0);
    send(&mut pair, 0, client, b"before").unwrap();
    let now = pair.now();
    assert_eq!(pair.stack(0).tcp_send_urgent(client, now, &mut &b"more!"[..]), Ok(5));
    send(&mut pair, 0, client, b"after").unwrap();
    pair.run_for(Span::from_millis(50));
    assert!(pair.stack(1).readiness(server.into()).unwrap().contains(Ready::PRI));
    assert_eq!(pair.stack(1).tcp_at_mark(server), Ok(false));
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"beforemore");
    assert_eq!(pair.stack(1).tcp_at_mark(server), Ok(true));
    assert_eq!(pair.stack(1).tcp_recv_urgent(server, true), Ok(b'!'));
    assert_eq!(pair.stack(1).tcp_recv_urgent(server, false), Ok(b'!'));
    assert_eq!(pair.stack(1).tcp_recv_urgent(server, false), Err(StackError::Invalid));
    assert!(!pair.stack(1).readiness(server.into()).unwrap().contains(Ready::PRI));
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"after");
    assert_eq!(pair.stack(1).tcp_at_mark(server), Ok(false));
}

/// RFC 6093 §6: `SO_OOBINLINE`.
#[test]
fn inline_the_byte_stays_in_the_stream() {
    let mut pair = SimulatedPair::seeded(2);
    let (client, server, _) = connected(&mut pair, 0);
    let now = pair.now();
    pair.stack(1).tcp_set(server, now, TcpSetting::OobInline(true)).unwrap();
    pair.stack(0).tcp_send_urgent(client, now, &mut &b"ab!"[..]).unwrap();
    send(&mut pair, 0, client, b"cd").unwrap();
    pair.run_for(Span::from_millis(50));
    assert_eq!(pair.stack(1).tcp_recv_urgent(server, false), Err(StackError::Invalid));
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"ab");
    assert_eq!(pair.stack(1).tcp_at_mark(server), Ok(true));
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"!cd");
}

/// RFC 9293 §3.10.7.4, sixth check.
#[test]
fn a_mark_that_is_announced_before_its_byte_waits_for_it() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let mut seg = Seg::new(ACK | URG, theirs, ours).data(b"ab");
    seg.urgent = 4;
    wire.put(seg);
    assert_eq!(wire.stack().tcp_recv_urgent(id, false), Err(StackError::WouldBlock));
    assert_eq!(wire.recv(id).unwrap(), b"ab");
    wire.put(Seg::new(ACK, theirs + 2, ours).data(b"c!d"));
    assert_eq!(wire.stack().tcp_recv_urgent(id, false), Ok(b'!'));
    assert_eq!(wire.recv(id).unwrap(), b"c");
    assert_eq!(wire.recv(id).unwrap(), b"d");
    // Only the urgent byte is left, which a read does not return.
    let mut seg = Seg::new(ACK | URG, theirs + 5, ours).data(b"?");
    seg.urgent = 1;
    wire.put(seg);
    let ready = wire.stack().readiness(id.into()).unwrap();
    assert!(ready.contains(Ready::PRI) && !ready.contains(Ready::IN));
    assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
}
