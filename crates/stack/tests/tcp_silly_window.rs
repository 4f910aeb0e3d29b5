//! Silly windows (RFC 9293 §3.8.6.2): neither side fills or offers them.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;

/// RFC 9293 §3.8.6.2: a reader of single bytes does not cause silly windows.
#[test]
fn rfc9293_3_8_6_2_2_a_slow_reader_does_not_cause_small_segments() {
    let mut pair = SimulatedPair::seeded(2);
    let (client, server, _) = connected(&mut pair, 0);
    let now = pair.now();
    pair.stack(1).tcp_set(server, now, TcpSetting::ReceiveBuffer(10_000)).unwrap();
    let data = pattern(60_000, 1);
    let (mut sent, mut got) = (0, Vec::new());
    for _ in 0..2_000 {
        while sent < data.len() {
            match send(&mut pair, 0, client, &data[sent..]) {
                Ok(n) => sent += n,
                Err(_) => break,
            }
        }
        if let Ok(bytes) = recv(&mut pair, 1, server, 100) {
            got.extend(bytes);
        }
        pair.run_for(Span::from_micros(50));
    }
    assert!(got == data, "{} bytes", got.len());
    let segments = pair.link_stats(0).sent;
    assert!(segments < 140, "{segments} segments for 42 full ones");
}

/// RFC 9293 §3.8.6.2.1: a window that is small compared with its former size is used after 0.1 to 1
/// s, not at once. Otherwise one that opens by ten bytes at a time would be filled by hundreds of
/// segments a second.
#[test]
fn rfc9293_3_8_6_2_1_a_silly_window_is_not_filled_before_two_hundred_milliseconds() {
    let mut wire = Wire::new();
    let (id, mut ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).window(10));
    wire.send(id, &[1; 5_000]).unwrap();
    wire.nothing();
    for _ in 0..10 {
        wire.pass(Span::from_millis(199));
        wire.nothing();
        wire.pass(Span::from_millis(2));
        let tiny = wire.one();
        assert_eq!((tiny.seq, tiny.data.len()), (ours, 10));
        ours += 10;
        wire.put(Seg::new(ACK, theirs, ours).window(10));
    }
    wire.put(Seg::new(ACK, theirs, ours).window(2_000));
    assert_eq!(
        wire.taken().iter().map(|seg| seg.data.len()).collect::<Vec<_>>(),
        [900, 1000],
        "frames as they were queued"
    );
}
