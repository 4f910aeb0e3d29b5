//! Fragments in any order, with loss and invalid contents: reassembly is bounded in memory and
//! time.

mod common;

use common::{counter, frame, ip, ip_v4, open, pattern, received, send, udp};
use proptest::prelude::*;
use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::checksum::plain;
use tickwire_stack::time::Span;
use tickwire_stack::{Limits, UdpId};

const MORE: u16 = 0x2000;

/// Offset, more-fragments flag, identification and bytes of a fragment.
struct Part<'a> {
    offset: usize,
    more: bool,
    id: u16,
    bytes: &'a [u8],
}

/// A host that receives fragments from its peer, in one family.
struct Target {
    pair: SimulatedPair,
    socket: UdpId,
    from: Endpoint,
    to: Endpoint,
}

impl Target {
    fn new(family: usize, limits: Limits) -> Self {
        let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
        let [own, peer] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let socket = open(&mut pair, 0, own, 1000);
        Self { pair, socket, from: Endpoint::new(peer, 9), to: Endpoint::new(own, 1000) }
    }

    fn datagram(&self, len: usize) -> (Vec<u8>, Vec<u8>) {
        let payload = pattern(len, 7);
        (udp(self.from, self.to, &payload), payload)
    }

    fn give(&mut self, part: &Part<'_>) {
        self.give_of(0, part);
    }

    /// Delivers a fragment with this traffic class.
    fn give_of(&mut self, class: u8, part: &Part<'_>) {
        let (from, to) = (self.from.address, self.to.address);
        let packet = if let (Some(from), Some(to)) = (from.to_v4(), to.to_v4()) {
            let field = (part.offset / 8) as u16 | if part.more { MORE } else { 0 };
            with_class(ip_v4(from, to, 17, part.id, field, part.bytes), class)
        } else {
            let field = part.offset as u16 | u16::from(part.more);
            let [o0, o1] = field.to_be_bytes();
            let [i0, i1] = part.id.to_be_bytes();
            with_class(ip(from, to, 44, &[&[17, 0, o0, o1, 0, 0, i0, i1][..], part.bytes].concat()), class)
        };
        let now = self.pair.now();
        assert!(self.pair.host_mut(0).receive(now, &frame(&packet)));
    }

    fn cut<'a>(&self, datagram: &'a [u8], size: usize, id: u16) -> Vec<Part<'a>> {
        let pieces = datagram.chunks(size).enumerate();
        pieces.map(|(i, bytes)| Part { offset: i * size, more: (i + 1) * size < datagram.len(), id, bytes }).collect()
    }

    fn received(&mut self) -> Vec<Vec<u8>> {
        received(&mut self.pair, 0, self.socket)
    }

    fn count(&mut self, name: &str) -> u64 {
        counter(&mut self.pair, 0, name)
    }
}

proptest! {
    #![proptest_config(common::proptest_config(200))]

    /// RFC 791 §3.2, RFC 8200 §4.5.
    #[test]
    fn fragments_come_together_in_any_order_and_twice(
        family in 0..2usize,
        len in 1..20_000usize,
        units in 64..180usize,
        order in any::<u64>(),
        twice in any::<u64>(),
    ) {
        let mut target = Target::new(family, Limits { frames: 1024, ..Limits::DEFAULT });
        let (datagram, payload) = target.datagram(len);
        let mut parts = target.cut(&datagram, units * 8, 3);
        let mut rng = tickwire_sim::Rng::new(order);
        for i in (1..parts.len()).rev() {
            parts.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let last = parts.len() - 1;
        for (i, part) in parts.iter().enumerate() {
            target.give(part);
            // Duplicates, but not after the datagram is complete: then they would start a new
            // reassembly.
            if i < last && twice >> (i % 64) & 1 == 1 {
                target.give(part);
            }
        }
        prop_assert_eq!(target.received(), [payload]);
        prop_assert_eq!(target.pair.frames_held(0), 0);
        prop_assert_eq!(target.count("IpReasmFails"), 0);
    }

    /// RFC 791 §3.2, RFC 8200 §4.5.
    #[test]
    fn whatever_the_link_does_a_datagram_arrives_whole_or_not_at_all(
        seed in any::<u64>(),
        family in 0..2usize,
        loss in 0..100_000u32,
        corrupt in 0..50_000u32,
    ) {
        let link = LinkConfig {
            loss, corrupt,
            duplicate: 50_000,
            reorder: 200_000,
            jitter: Span::from_micros(5),
            ..LinkConfig::default()
        };
        let mut pair = SimulatedPair::new(&PairConfig::default().with_link(link).with_seed(seed));
        let [from, to] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let a = open(&mut pair, 0, from, 1000);
        let b = open(&mut pair, 1, to, 2000);
        let sent: Vec<_> = (0..40u8).map(|i| pattern(usize::from(i) * 211, i)).collect();
        let mut got = Vec::new();
        for bytes in &sent {
            send(&mut pair, 0, a, Endpoint::new(to, 2000), bytes).unwrap();
            pair.run_for(Span::from_millis(2));
            got.extend(received(&mut pair, 1, b));
        }
        for bytes in &got {
            // Two flipped bits in one datagram can cancel out in its checksum; a single one cannot.
            let single = bytes.len() <= 1452;
            prop_assert!(sent.contains(bytes) || (corrupt > 0 && !single), "{} bytes that were never sent", bytes.len());
        }
        if loss == 0 && corrupt == 0 {
            prop_assert!(sent.iter().all(|bytes| got.contains(bytes)));
        }
        pair.run_for(Span::from_secs(61));
        prop_assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
    }
}

/// RFC 5722 §4, RFC 8200 §4.5; IPv4 likewise.
#[test]
fn overlapping_fragments_end_their_datagram() {
    for family in 0..2 {
        let (long, tail, early_end) = ([1; 1000], [2; 400], [3; 100]);
        let overlaps = [
            vec![(0, true, &long[..]), (800, false, &tail[..])],
            vec![(800, false, &tail[..]), (0, true, &long[..])],
            vec![(0, true, &long[..]), (0, true, &tail[..])],
            vec![(200, true, &tail[..]), (0, true, &long[..])],
            vec![(800, true, &tail[..]), (80, false, &early_end[..])],
            vec![(80, false, &early_end[..]), (800, true, &tail[..])],
            vec![(800, false, &tail[..]), (1600, false, &tail[..])],
        ];
        for (number, overlap) in overlaps.iter().enumerate() {
            let mut target = Target::new(family, Limits::DEFAULT);
            for &(offset, more, bytes) in overlap {
                target.give(&Part { offset, more, id: 3, bytes });
            }
            assert_eq!(target.count("IpReasmOverlaps"), 1, "family {family}, case {number}");
            assert_eq!(target.pair.frames_held(0), 0);
            // Its remaining fragments do not start a new reassembly.
            let (datagram, _) = target.datagram(1500);
            let rest: Vec<_> = target.cut(&datagram, 1000, 3);
            rest.iter().for_each(|part| target.give(part));
            assert_eq!(target.received().len(), 0);
            target.pair.run_for(Span::from_secs(61));
            assert_eq!(target.pair.frames_held(0), 0);
        }
    }
}

/// RFC 1122 §3.3.2, RFC 8200 §4.5.
#[test]
fn what_is_not_completed_in_time_is_given_up() {
    for (family, seconds) in [(0, 30), (1, 60)] {
        let mut target = Target::new(family, Limits::DEFAULT);
        let (datagram, payload) = target.datagram(3000);
        let parts = target.cut(&datagram, 1000, 3);
        target.give(&parts[0]);
        target.pair.run_for(Span::from_secs(seconds - 1));
        assert_eq!(target.pair.frames_held(0), 1);
        target.pair.run_for(Span::from_secs(2));
        assert_eq!(target.pair.frames_held(0), 0);
        assert_eq!(target.count("IpReasmTimeout"), 1);
        // Its identification can be used again.
        parts.iter().for_each(|part| target.give(part));
        assert_eq!(target.received(), [payload]);
    }
}

#[test]
fn a_flood_of_fragments_takes_a_bounded_share_of_memory_and_lets_honest_ones_through() {
    for family in 0..2 {
        let mut target = Target::new(family, Limits { frames: 1024, ..Limits::DEFAULT });
        // Many datagrams that are never completed, then many fragments of one.
        for id in 0..2000 {
            target.give(&Part { offset: 0, more: true, id, bytes: &[0; 64] });
            assert!(target.pair.frames_held(0) <= 1024 / 8);
        }
        for piece in 0..1000 {
            target.give(&Part { offset: piece * 16, more: true, id: 5000, bytes: &[0; 8] });
            assert!(target.pair.frames_held(0) <= 1024 / 8 + 1);
        }
        for offset in [65_528, 65_512] {
            target.give(&Part { offset, more: false, id: 6000, bytes: &[0; 64] });
        }
        target.give(&Part { offset: 0, more: true, id: 6001, bytes: &[0; 63] });
        target.give(&Part { offset: 0, more: true, id: 6002, bytes: &[] });
        let (datagram, payload) = target.datagram(2000);
        target.pair.run_for(Span::from_secs(61));
        assert_eq!(target.pair.frames_held(0), 0);
        for part in target.cut(&datagram, 1000, 7000) {
            target.give(&part);
        }
        assert_eq!(target.received(), [payload]);
    }
}

/// A few datagrams in many small fragments exhaust the quota before the reassembly slots.
#[test]
fn a_datagram_arrives_while_a_flood_holds_all_the_memory() {
    let mut target = Target::new(0, Limits { frames: 1024, ..Limits::DEFAULT });
    for id in 0..9 {
        for piece in 0..100 {
            target.give(&Part { offset: piece * 16, more: true, id, bytes: &[0; 8] });
        }
    }
    let (datagram, payload) = target.datagram(2000);
    for part in target.cut(&datagram, 1000, 7000) {
        target.give(&part);
    }
    assert_eq!(target.received(), [payload]);
}

/// RFC 8200 §4.5: the network may duplicate a packet, even one that takes several frames.
#[test]
fn a_duplicate_of_a_jumbo_fragment_does_no_harm() {
    for family in 0..2 {
        let mut target = Target::new(family, Limits::DEFAULT);
        let (datagram, payload) = target.datagram(20_000);
        let parts = target.cut(&datagram, 8000, 9);
        for part in [0, 0, 1, 0, 1, 2] {
            target.give(&parts[part]);
        }
        assert_eq!(target.received(), [payload]);
        assert_eq!(target.pair.frames_held(0), 0);
    }
}

#[test]
fn a_datagram_arrives_while_a_flood_holds_every_place() {
    let mut target = Target::new(0, Limits { frames: 1024, ..Limits::DEFAULT });
    for id in 0..500 {
        target.give(&Part { offset: 0, more: true, id, bytes: &[0; 64] });
    }
    let (datagram, payload) = target.datagram(2000);
    for part in target.cut(&datagram, 1000, 7000) {
        target.give(&part);
    }
    assert_eq!(target.received(), [payload]);
}

/// An IP packet with another traffic class.
fn with_class(mut packet: Vec<u8>, class: u8) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[1] = class;
        packet[10..12].fill(0);
        let sum = plain(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        (packet[0], packet[1]) = (0x60 | class >> 4, class << 4);
    }
    packet
}

/// RFC 3168 §5.3: a CE mark on one fragment marks the datagram; the rest of the class is the first
/// fragment's.
#[test]
fn a_mark_on_one_fragment_marks_the_datagram() {
    const ECT: u8 = 2;
    const CE: u8 = 3;
    for family in 0..2 {
        for (classes, expected) in [
            ([0xb8, 0x20, 0x20], Some(0xb8)),
            ([0xb8 | ECT, ECT, ECT], Some(0xb8 | ECT)),
            ([0xb8 | ECT, CE, ECT], Some(0xb8 | CE)),
            ([0xb8 | CE, ECT, ECT], Some(0xb8 | CE)),
            ([0xb8 | ECT, ECT, CE], Some(0xb8 | CE)),
            ([ECT, 0, ECT], None),
            ([0, CE, 0], None),
        ] {
            let mut target = Target::new(family, Limits::DEFAULT);
            let (datagram, payload) = target.datagram(3000);
            let parts = target.cut(&datagram, 1200, 5);
            for order in [2, 0, 1] {
                target.give_of(classes[order], &parts[order]);
            }
            let mut bytes = Vec::new();
            let socket = target.socket;
            let got = target.pair.stack(0).udp_recv(socket, false, &mut bytes);
            assert_eq!(got.as_ref().ok().map(|d| d.tos), expected, "{classes:x?}");
            assert_eq!(got.is_ok(), bytes == payload);
            assert_eq!(target.count("IpReasmFails"), u64::from(expected.is_none()));
            assert_eq!(target.pair.frames_held(0), 0);
        }
    }
}
