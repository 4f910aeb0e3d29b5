//! Acknowledgements for segments that arrived out of order, twice, or not at all, and how the
//! peer's own acknowledgements are processed meanwhile.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::time::Span;

/// RFC 2018 §4, RFC 2883 §4: every acknowledgement that does not cover all received data carries
/// SACK blocks, and a duplicate is reported at once. A full segment has no room for either.
#[test]
fn rfc2018_4_blocks_go_out_beside_full_segments() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, &[1; 30_000]).unwrap();
    assert_eq!(wire.taken().len(), 10);
    let block_beside_data = |wire: &mut Wire| {
        let (full, bare): (Vec<_>, Vec<_>) = wire.taken().into_iter().partition(|seg| !seg.data.is_empty());
        assert!(full.len() >= 2 && full.iter().all(|seg| seg.data.len() == 1000), "{full:?}");
        assert_eq!(bare.len(), 1, "{bare:?}");
        bare[0].blocks()
    };
    wire.put(Seg::new(ACK, theirs + 1000, ours + 2000).data(&[2; 100]));
    assert_eq!(block_beside_data(&mut wire), [(theirs + 1000, theirs + 1100)]);
    // The gap closes: the data carries the acknowledgement.
    wire.put(Seg::new(ACK, theirs, ours + 4000).data(&[2; 1000]));
    assert!(wire.taken().iter().all(|seg| seg.data.len() == 1000 && seg.ack == theirs + 1100));
    wire.put(Seg::new(ACK, theirs + 1050, ours + 6000).data(&[2; 100]));
    assert_eq!(block_beside_data(&mut wire), [(theirs + 1050, theirs + 1100)]);
}

/// Pending SACK blocks go with a segment that has room for them.
#[test]
fn rfc2018_4_blocks_go_with_data_that_leaves_room() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, &[1; 10_100]).unwrap();
    assert_eq!(wire.taken().len(), 10);
    wire.put(Seg::new(ACK, theirs + 1000, ours + 2000).data(&[2; 100]));
    let last = wire.one();
    assert_eq!((last.data.len(), last.blocks()), (100, vec![(theirs + 1000, theirs + 1100)]));
}

/// RFC 5681 §4.2: an out-of-order segment causes a duplicate acknowledgement, which has no data
/// (§2).
#[test]
fn rfc5681_4_2_duplicate_acknowledgements_go_out_beside_data() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    wire.send(id, &[1; 30_000]).unwrap();
    assert_eq!(wire.taken().len(), 10);
    for n in 1..4 {
        wire.put(Seg::new(ACK, theirs + 1000 * n, ours + 2000 * n).data(&[2; 1000]));
        let bare: Vec<_> = wire.taken().into_iter().filter(|seg| seg.data.is_empty()).collect();
        assert_eq!(bare.iter().map(|seg| seg.ack).collect::<Vec<_>>(), [theirs]);
    }
}

/// RFC 9293 §3.10.7.4: acknowledgements are accepted at a full window. Those of a peer that has
/// filled it carry the number of its right edge; behind a gap that is not RCV.NXT.
#[test]
fn rfc9293_3_10_7_4_what_is_acknowledged_from_the_edge_of_a_full_window_is_taken() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, &[1; 1000]).unwrap();
    let edge = theirs + u32::from(wire.one().window);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    let mut next = theirs + 1000;
    while next != edge {
        let len = (edge - next).min(1000);
        wire.put(Seg::new(ACK, next, ours + 1000).data(&vec![2; len as usize]));
        next += len;
    }
    let told = wire.taken();
    assert_eq!(told.last().unwrap().blocks(), [(theirs + 1000, edge)]);
    wire.send(id, &[1; 4000]).unwrap();
    assert_eq!(wire.taken().len(), 4);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, edge, ours + 1000).sack(&[(ours + 2000, ours + 5000)]));
    assert_eq!(wire.one().seq, ours + 1000, "what is missing is sent again");
    wire.put(Seg::new(ACK, edge, ours + 5000).window(0));
    wire.send(id, &[1; 1000]).unwrap();
    wire.nothing();
    wire.put(Seg::new(RST, edge, 0));
    wire.nothing();
    wire.put(Seg::new(ACK, edge, ours + 5000));
    assert_eq!(wire.one().data.len(), 1000);
}

/// RFC 2018 §5: invalid blocks (of data never sent, empty, or reversed) are ignored and counted;
/// those beside them are used.
#[test]
fn rfc2018_5_blocks_that_cannot_be_are_counted_and_those_beside_them_taken() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, &[1; 4000]).unwrap();
    assert_eq!(wire.taken().len(), 4);
    let blocks = [(1000, 2000), (4000, 5000), (2500, 2500), (3000, 2000)].map(|(from, to)| (ours + from, ours + to));
    wire.put(Seg::new(ACK, theirs, ours).sack(&blocks));
    assert_eq!((wire.count("TcpExtTCPSackRecv"), wire.count("TcpExtTCPSACKDiscard")), (4, 3));
    wire.put(Seg::new(ACK, theirs, ours).sack(&[(ours + 1000, ours + 4000)]));
    assert!(wire.taken().iter().any(|seg| seg.seq == ours && seg.data.len() == 1000), "the first is sent again");
    assert_eq!(wire.count("TcpExtTCPSACKDiscard"), 3);
}

/// RFC 2883 §4: a segment that repeats part of the out-of-order data is reported by the repeated
/// bytes, before the block that contains them.
#[test]
fn rfc2883_4_a_partial_duplicate_of_what_waits_is_reported() {
    let mut wire = Wire::new();
    let (_id, ours, theirs) = wire.accepted();
    let at = |offset: u32| theirs + offset;
    let block = |from: u32, to: u32| (at(from), at(to));
    let mut told = |from: u32, to: u32| {
        wire.put(Seg::new(ACK, at(from), ours).data(&vec![2; (to - from) as usize]));
        wire.one().blocks()
    };
    assert_eq!(told(200, 300), [block(200, 300)]);
    assert_eq!(told(250, 350), [block(250, 300), block(200, 350)], "its end is new");
    assert_eq!(told(150, 250), [block(200, 250), block(150, 350)], "its beginning is new");
    assert_eq!(told(500, 600), [block(500, 600), block(150, 350)]);
    assert_eq!(told(400, 700), [block(500, 600), block(400, 700), block(150, 350)], "both are");
    assert_eq!(told(340, 410), [block(340, 350), block(150, 700)], "it meets two ranges, and the first counts");
    assert_eq!(told(0, 200), [block(150, 200)], "the gap closes, and all is acknowledged");
}

/// RFC 9293 §3.10.7.4, RFC 5681 §4.2: a FIN without data is treated like a data segment. Beyond a
/// gap it is answered at once; otherwise its sender would retransmit the lost data only after a
/// timeout.
#[test]
fn rfc5681_4_2_a_bare_fin_beyond_a_gap_is_acknowledged_at_once() {
    let mut wire = Wire::new();
    let (_id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK | FIN, theirs + 100, ours));
    let answer = wire.one();
    assert_eq!((answer.ack, answer.blocks()), (theirs, vec![]));
    wire.put(Seg::new(ACK, theirs + 50, ours).data(&[2; 50]));
    assert_eq!(wire.one().blocks(), [(theirs + 50, theirs + 100)]);
    for _ in 0..3 {
        wire.put(Seg::new(ACK | FIN, theirs + 100, ours));
        let answer = wire.one();
        assert_eq!((answer.ack, answer.blocks()), (theirs, vec![(theirs + 50, theirs + 100)]));
    }
    wire.put(Seg::new(ACK, theirs, ours).data(&[2; 50]));
    assert_eq!(wire.one().ack, theirs + 101, "the FIN had come");
}

/// RFC 9293 §3.10.7.4: a repeated FIN is answered each time, and reported as a duplicate (RFC
/// 2883), like data.
#[test]
fn rfc9293_3_10_7_4_a_bare_fin_that_comes_again_is_acknowledged_each_time() {
    let mut wire = Wire::new();
    let (_id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK | FIN, theirs, ours));
    assert_eq!(wire.one().ack, theirs + 1);
    for _ in 0..5 {
        wire.put(Seg::new(ACK | FIN, theirs, ours));
        let answer = wire.one();
        assert_eq!((answer.ack, answer.blocks()), (theirs + 1, vec![(theirs, theirs + 1)]));
    }
}

/// A FIN needs no buffer space: a peer that has filled the window may close.
#[test]
fn rfc9293_3_10_7_4_a_bare_fin_at_the_edge_of_a_full_window_is_taken() {
    let mut wire = Wire::new();
    let (_id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).data(&[2; 1]));
    let mut next = theirs + 1;
    let mut window = None;
    while window != Some(0) {
        let len = window.unwrap_or(1000).min(1000);
        wire.put(Seg::new(ACK, next, ours).data(&vec![2; len as usize]));
        next += len;
        wire.pass(Span::from_millis(50));
        let told = wire.taken();
        window = told.last().map(|seg| u32::from(seg.window) - (next - seg.ack));
    }
    wire.put(Seg::new(ACK | FIN, next, ours));
    assert_eq!(wire.one().ack, next + 1);
}
