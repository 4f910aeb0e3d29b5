//! Damaged packets and random frames: no panic, no endless loop, no frame lost.

mod common;

use common::{frame, icmp, ip, ip_v4, open, udp};
use proptest::prelude::*;
use tickwire_sim::{PairConfig, SimulatedPair};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::time::Span;
use tickwire_stack::{InUse, Limits, UdpId};

fn target() -> (SimulatedPair, Vec<UdpId>) {
    let limits = Limits { frames: 512, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
    let peers = pair.host(1).addresses;
    let mut sockets = vec![open(&mut pair, 0, Address::ANY, 1000)];
    for (port, peer) in [(1001, peers[0]), (1002, peers[1])] {
        let id = open(&mut pair, 0, Address::ANY, port);
        let now = pair.now();
        pair.stack(0).udp_connect(id, now, Some(Endpoint::new(peer, 9)), 0).unwrap();
        sockets.push(id);
    }
    (pair, sockets)
}

/// Valid packets of every kind, to be damaged.
fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for family in 0..2 {
        let pair = SimulatedPair::seeded(1);
        let [own, peer] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let (to, from) = (Endpoint::new(own, 1001 + family as u16), Endpoint::new(peer, 9));
        let datagram = udp(from, to, &[1; 90]);
        all.push(ip(peer, own, 17, &datagram));
        let quoted = ip(own, peer, 17, &udp(to, from, &[2; 30]));
        for (kind, code) in [(3, 3), (3, 4), (11, 0), (1, 4), (2, 0), (3, 0)] {
            all.push(icmp(peer, own, kind, code, 1300, &quoted));
        }
        all.push(ip(peer, own, 6, &[0x50; 60]));
        if let (Some(from), Some(to)) = (peer.to_v4(), own.to_v4()) {
            all.push(ip_v4(from, to, 17, 5, 0x2000, &datagram[..64]));
            all.push(ip_v4(from, to, 17, 5, 8, &datagram[64..]));
        } else {
            for (field, part) in [(1u16, &datagram[..64]), (64, &datagram[64..])] {
                let [a, b] = field.to_be_bytes();
                all.push(ip(peer, own, 44, &[&[17, 0, a, b, 0, 0, 0, 9][..], part].concat()));
            }
            all.push(ip(peer, own, 0, &[&[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 5, 2, 0, 0, 1, 0][..], &datagram].concat()));
            all.push(ip(peer, own, 43, &[&[17, 2, 0, 0, 0, 0, 0, 0][..], &[0; 16], &datagram].concat()));
        }
    }
    all
}

#[derive(Clone, Debug)]
enum Damage {
    None,
    Set(usize, u8),
    Cut(usize),
    Grow(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        1 => Just(Damage::None),
        6 => (0..120usize, any::<u8>()).prop_map(|(at, value)| Damage::Set(at, value)),
        1 => (0..200usize).prop_map(Damage::Cut),
        1 => (0..3000usize).prop_map(Damage::Grow),
    ]
}

fn settle(pair: &mut SimulatedPair, sockets: &[UdpId]) {
    pair.run_for(Span::from_secs(61));
    for &id in sockets {
        pair.stack(0).udp_close(id).unwrap();
    }
    pair.run_for(Span::from_secs(300));
    assert_eq!((pair.frames_held(0), pair.stack(0).in_use()), (0, InUse::default()));
}

proptest! {
    #![proptest_config(common::proptest_config(100))]

    #[test]
    fn damaged_packets_do_no_harm(
        steps in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(damage(), 0..4)), 1..80),
    ) {
        let (mut pair, sockets) = target();
        let seeds = seeds();
        for (which, damages) in steps {
            let mut packet = which.get(&seeds).clone();
            for damage in damages {
                match damage {
                    Damage::None => {}
                    Damage::Set(at, value) => {
                        let at = at % packet.len().max(1);
                        packet.iter_mut().skip(at).take(1).for_each(|byte| *byte = value);
                    }
                    Damage::Cut(len) => packet.truncate(len),
                    Damage::Grow(by) => packet.extend(std::iter::repeat_n(0, by)),
                }
            }
            // A wrong header checksum would keep the rest of the packet from being parsed.
            if packet.len() >= 20 && packet[0] == 0x45 {
                packet[10..12].fill(0);
                let sum = tickwire_stack::checksum::plain(&packet[..20]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            let now = pair.now();
            let bytes = if packet.is_empty() { vec![0; 5] } else { frame(&packet) };
            pair.host_mut(0).receive(now, &bytes);
            pair.run_for(Span::from_millis(1));
        }
        settle(&mut pair, &sockets);
    }

    #[test]
    fn noise_does_no_harm(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..60)) {
        let (mut pair, sockets) = target();
        for (number, mut bytes) in frames.into_iter().enumerate() {
            // Mostly with an EtherType that is parsed.
            if bytes.len() >= 15 && number % 4 != 0 {
                let (kind, version) = if number % 2 == 0 { ([0x08, 0x00], 0x45) } else { ([0x86, 0xdd], 0x60) };
                bytes[12..14].copy_from_slice(&kind);
                bytes[14] = version;
            }
            let now = pair.now();
            pair.host_mut(0).receive(now, &bytes);
        }
        settle(&mut pair, &sockets);
    }
}

/// Frames are in memory that other processes may write: their descriptors are not trusted.
#[test]
fn impossible_frames_are_counted_and_ignored() {
    let (mut pair, sockets) = target();
    let now = pair.now();
    let mut stack = pair.stack(0);
    for id in [u32::MAX, 512, 511] {
        stack.completed(id);
    }
    assert_eq!(stack.counters().eth_in_bad_frame.get(), 3);
    // A packet longer than any valid one.
    stack.receive_bytes(now, &vec![0; 40 * 2048]);
    assert_eq!(stack.counters().eth_in_bad_frame.get(), 4);
    settle(&mut pair, &sockets);
}
