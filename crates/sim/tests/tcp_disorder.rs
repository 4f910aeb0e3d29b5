//! What a peer is told of its segments that came out of order, twice, or not at all, and what its own acknowledgements are worth meanwhile.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::time::Span;

/// RFC 2018 §4, RFC 2883 §4: blocks are for every acknowledgement that does not cover all that came, and a duplicate is reported at once. A full segment has no
/// room for either.
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
    // The gap closes: that goes with the data.
    wire.put(Seg::new(ACK, theirs, ours + 4000).data(&[2; 1000]));
    assert!(wire.taken().iter().all(|seg| seg.data.len() == 1000 && seg.ack == theirs + 1100));
    wire.put(Seg::new(ACK, theirs + 1050, ours + 6000).data(&[2; 100]));
    assert_eq!(block_beside_data(&mut wire), [(theirs + 1050, theirs + 1100)]);
}

/// What is to be told goes with a segment that has room for it.
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

/// RFC 5681 §4.2: out of order is answered by a duplicate acknowledgement, which has no data (§2).
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

/// RFC 9293 §3.10.7.4: a full window does not stop acknowledgements from being taken. Those of a peer that has filled it come from its right edge; with a gap
/// before it that is not RCV.NXT.
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

/// RFC 2018 §5: blocks that cannot be (of what was never sent, of nothing, the wrong way round) are passed over, and counted; those beside them are taken.
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
