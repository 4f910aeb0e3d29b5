//! When queued data is sent (Nagle, `TCP_CORK`, `TCP_NODELAY`), and how much may be queued.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::epoll_sets::Interest;
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, SetId, StackError};

/// RFC 9293 §3.7.4 with Minshall's variant, as on Linux.
#[test]
fn nagle_holds_a_second_small_segment_and_nodelay_does_not() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, b"one").unwrap();
    assert_eq!(wire.one().data, b"one");
    wire.send(id, b"two").unwrap();
    wire.send(id, b"three").unwrap();
    wire.nothing();
    wire.put(Seg::new(ACK, theirs, ours + 3));
    assert_eq!(wire.one().data, b"twothree");
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
    wire.send(id, b"four").unwrap();
    wire.send(id, b"five").unwrap();
    assert_eq!(wire.taken().iter().map(|s| s.data.clone()).collect::<Vec<_>>(), [b"four", b"five"]);
}

/// `TCP_CORK`, and `MSG_MORE`.
#[test]
fn a_cork_holds_incomplete_segments_for_two_hundred_milliseconds() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::Cork(true)).unwrap();
    wire.send(id, &[1; 1500]).unwrap();
    assert_eq!(wire.one().data.len(), 1000);
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    wire.pass(Span::from_millis(190));
    wire.nothing();
    wire.pass(Span::from_millis(12));
    assert_eq!(wire.one().data.len(), 500);
    wire.put(Seg::new(ACK, theirs, ours + 1500));
    wire.send(id, b"header").unwrap();
    wire.nothing();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::Cork(false)).unwrap();
    assert_eq!(wire.one().data, b"header");
    wire.put(Seg::new(ACK, theirs, ours + 1506));
    let now = wire.now;
    wire.stack().tcp_send(id, now, true, &mut &b"more"[..]).unwrap();
    wire.nothing();
    wire.send(id, b"!").unwrap();
    assert_eq!(wire.one().data, b"more!");
}

/// RFC 9293 §3.7.4 (Nagle's algorithm can be disabled), and Linux's tcp(7): `TCP_NODELAY` flushes
/// queued data, even if corked; the cork holds data written afterwards.
#[test]
fn nodelay_flushes_what_a_cork_or_more_holds() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::Cork(true)).unwrap();
    wire.send(id, b"corked").unwrap();
    wire.nothing();
    wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
    assert_eq!(wire.one().data, b"corked");
    wire.send(id, b"later").unwrap();
    wire.nothing();
    wire.stack().tcp_set(id, now, TcpSetting::Cork(false)).unwrap();
    assert_eq!(wire.one().data, b"later");
    wire.put(Seg::new(ACK, theirs, ours + 11));
    let now = wire.now;
    wire.stack().tcp_send(id, now, true, &mut &b"more"[..]).unwrap();
    wire.nothing();
    wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
    assert_eq!(wire.one().data, b"more");
}

#[test]
fn a_send_buffer_that_was_set_is_kept_to() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::SendBuffer(20_000)).unwrap();
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    assert_eq!(wire.send(id, &[1; 100_000]), Ok(20_000));
    assert_eq!(wire.send(id, &[1; 10]), Err(StackError::WouldBlock));
    // Room for a single byte is not worth a wakeup.
    wire.put(Seg::new(ACK, theirs, ours).window(60_000));
    let sent: u32 = wire.taken().iter().map(|s| s.data.len() as u32).sum();
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    assert!(!wire.stack().readiness(id.into()).unwrap().contains(Ready::OUT));
    wire.put(Seg::new(ACK, theirs, ours + sent));
    assert!(wire.stack().readiness(id.into()).unwrap().contains(Ready::OUT));
}

/// What an epoll set reports about a connection that it watches for send room.
fn room_told(wire: &mut Wire, set: SetId) -> bool {
    wire.stack().set_wait(set, 1, |event| assert_eq!(event.ready, Ready::OUT)).unwrap() == 1
}

/// As on Linux, which notes the wish for room when the program learns that there is none, not only
/// when a send fails.
#[test]
fn room_is_told_also_when_all_was_taken_that_was_sent() {
    for mode in [false, true] {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        let now = wire.now;
        wire.stack().tcp_set(id, now, TcpSetting::SendBuffer(20_000)).unwrap();
        let set = wire.stack().set_create().unwrap();
        let interest = Interest { edge: mode, ..Interest::level(Ready::OUT) };
        wire.stack().item_add(set, id.into(), 0, interest, 0).unwrap();
        assert!(room_told(&mut wire, set));
        wire.put(Seg::new(ACK, theirs, ours).window(0));
        assert_eq!(wire.send(id, &[1; 15_000]), Ok(15_000));
        assert!(!room_told(&mut wire, set), "a quarter is little");
        wire.put(Seg::new(ACK, theirs, ours).window(60_000));
        let sent: u32 = wire.taken().iter().map(|s| s.data.len() as u32).sum();
        wire.put(Seg::new(ACK, theirs, ours + sent));
        assert!(room_told(&mut wire, set));
    }
}

/// `TCP_NOTSENT_LOWAT`: a program that decides late what it sends wants little data queued.
#[test]
fn little_is_kept_unsent_where_a_mark_is_set_and_room_is_told_as_it_goes_out() {
    const MARK: u32 = 10_000;
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::NotSentLowat(MARK)).unwrap();
    let set = wire.stack().set_create().unwrap();
    let interest = Interest { edge: true, ..Interest::level(Ready::OUT) };
    wire.stack().item_add(set, id.into(), 0, interest, 0).unwrap();
    assert!(room_told(&mut wire, set));
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    let queued = wire.send(id, &[1; 100_000]).unwrap() as u32;
    assert_eq!(queued, MARK);
    assert_eq!(wire.send(id, &[1; 10]), Err(StackError::WouldBlock));
    assert!(!room_told(&mut wire, set));
    // Unsent data counts, not unacknowledged data.
    wire.put(Seg::new(ACK, theirs, ours).window(60_000));
    let sent = wire.taken().iter().map(|s| s.data.len() as u32).sum::<u32>();
    assert_eq!(sent, queued);
    assert!(room_told(&mut wire, set));
    wire.put(Seg::new(ACK, theirs, ours + sent).window(60_000));
    // One send continues while its own data leaves.
    let more = wire.send(id, &[1; 100_000]).unwrap() as u32;
    let out = wire.taken().iter().map(|s| s.data.len() as u32).sum::<u32>();
    assert!(out > 0 && (MARK..MARK + 1500).contains(&(more - out)), "{out} of {more}");
    assert!(!wire.stack().readiness(id.into()).unwrap().contains(Ready::OUT));
}
