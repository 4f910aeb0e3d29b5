//! Extension headers, padding and fragments.

use crate::common::have_root;
use crate::raw::packet;
use crate::topology::{self, Divert, Guard, PORT};
use crate::{End, pair, udp, udp6};
use std::net::UdpSocket;
use std::time::Duration;
use tickwire_lane_linux::bpf::GuardRefusal;
use tickwire_lane_linux::sys_packet::PacketSender;

#[test]
fn extension_headers_are_followed_so_far_and_no_further() {
    if !have_root() {
        return;
    }
    // The guard is not asked: the frames come from the wire.
    let [a, mut b] = pair(Divert::Tc, Guard::Tc);
    let wire = a.host.ns.run(|| PacketSender::open(a.host.nic)).unwrap();
    for (options, arrives) in [(3, true), (4, true), (5, false)] {
        let frame = udp6(&a, &b, 8, options);
        wire.send(&frame).unwrap();
        assert_eq!(b.receive(usize::from(arrives)).len(), usize::from(arrives), "{options} headers");
    }
}

/// An IPv6 packet of so many bytes, as its header says, of which the given ones follow the header.
fn v6(from: &End, to: &End, next: u8, length: usize, payload: &[u8]) -> Vec<u8> {
    let mut p = udp6(from, to, 0, 0)[..54].to_vec();
    p[18..20].copy_from_slice(&(length as u16).to_be_bytes());
    p[20] = next;
    p.extend(payload);
    p
}

#[test]
fn the_guard_reads_ports_inside_of_the_packet_only() {
    if !have_root() {
        return;
    }
    const OPTIONS: [u8; 8] = [17, 0, 1, 4, 0, 0, 0, 0];
    const FIRST: [u8; 8] = [60, 0, 0, 1, 0, 0, 0, 7];
    for guard in [Guard::Xdp, Guard::Tc] {
        let [mut a, mut b] = pair(Divert::Native, guard);
        let ports = udp6(&a, &b, 8, 0)[54..].to_vec();
        let padded = v6(&a, &b, 44, 16, &[&FIRST[..], &OPTIONS, &ports].concat());
        let behind = v6(&a, &b, 44, 16 + ports.len(), &[&FIRST[..], &OPTIONS, &ports].concat());
        let nested = v6(&a, &b, 44, 16 + ports.len(), &[&[44, 0, 0, 1, 0, 0, 0, 7], &FIRST_UDP[..], &ports].concat());
        let endless = v6(&a, &b, 17, 0, &ports);
        let mut short = udp(&a, &b, 64);
        short[16..18].copy_from_slice(&22u16.to_be_bytes());
        for (frame, why) in [
            (padded, GuardRefusal::Malformed),
            (behind, GuardRefusal::Fragment),
            (nested, GuardRefusal::Fragment),
            (endless, GuardRefusal::Malformed),
            (short, GuardRefusal::Malformed),
        ] {
            let before = a.refused(why);
            a.send(&frame);
            assert_eq!(a.refused(why), before + 1, "{why:?} {guard:?}");
        }
        let later = v6(&a, &b, 44, 8 + ports.len(), &[&[17, 0, 0, 8, 0, 0, 0, 7], &ports[..]].concat());
        a.send(&later);
        assert_eq!(b.receive(0), [[]; 0], "no first fragment was let out, so no later one is");
    }
}

/// The header of a whole datagram (RFC 6946).
const FIRST_UDP: [u8; 8] = [17, 0, 0, 0, 0, 0, 0, 7];

#[test]
fn padding_is_no_part_of_a_packet() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [a, mut b] = pair(divert, Guard::Tc);
        let wire = a.host.ns.run(|| PacketSender::open(a.host.nic)).unwrap();
        let mut short = udp(&a, &b, 64);
        short[16..18].copy_from_slice(&22u16.to_be_bytes());
        wire.send(&short).unwrap();
        assert_eq!(b.receive(0), [[]; 0], "{divert:?}");
    }
}

#[test]
fn fragments_follow_their_first_both_ways() {
    if !have_root() {
        return;
    }
    for (divert, guard) in [(Divert::Native, Guard::Xdp), (Divert::Tc, Guard::Tc)] {
        let [mut a, mut b] = pair(divert, guard);
        // The kernel of A cuts a datagram of 4000 bytes in three.
        let sender = a.host.ns.run(|| UdpSocket::bind((a.host.address, 0))).unwrap();
        sender.send_to(&[7; 4000], (b.host.address, PORT)).unwrap();
        let got = b.receive(3);
        assert_eq!(got.iter().map(|f| f.len() - 34).sum::<usize>(), 4008, "{divert:?}");

        // The lane of A sends a datagram in two pieces: the later one may go because the first
        // went.
        let mut first = udp(&a, &b, 64);
        first[18..22].copy_from_slice(&[0x12, 0x34, 0x20, 0]);
        let mut later = first.clone();
        later[20..22].copy_from_slice(&[0, 9]);
        let mut other = later.clone();
        other[18] = 0x99;
        a.send(&other);
        a.send(&first);
        a.send(&later);
        assert_eq!(b.receive(2), [first, later]);
        assert_eq!(a.refused(GuardRefusal::Fragment), 1);
    }
}

/// A datagram from the wire to a port, in two pieces of which the later has eight bytes.
fn in_two_pieces(from: &End, to: &End, port: u16, id: u16) -> [Vec<u8>; 2] {
    let mut first = packet(from.identity(), to.identity(), port, 8);
    first[38..40].copy_from_slice(&24u16.to_be_bytes());
    let mut later = first.clone();
    for (piece, fragment) in [(&mut first, 0x2000u16), (&mut later, 2)] {
        piece[18..20].copy_from_slice(&id.to_be_bytes());
        piece[20..22].copy_from_slice(&fragment.to_be_bytes());
        piece[24..26].fill(0);
        let sum: u32 = piece[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        piece[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    }
    // Eight bytes of data more; the kernel refuses pieces that are longer than they say.
    later.truncate(14 + 20 + 8);
    later[16..18].copy_from_slice(&28u16.to_be_bytes());
    later[24..26].fill(0);
    let sum: u32 = later[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    later[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    [first, later]
}

#[test]
fn an_identification_that_is_used_again_does_not_take_the_kernels_fragments() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [a, mut b] = pair(divert, Guard::Tc);
        let wire = a.host.ns.run(|| PacketSender::open(a.host.nic)).unwrap();
        let receiver = b.host.ns.run(|| UdpSocket::bind(("0.0.0.0", 9))).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let ours = in_two_pieces(&a, &b, PORT, 7);
        let kernels = in_two_pieces(&a, &b, 9, 7);
        wire.send(&ours[0]).unwrap();
        wire.send(&ours[1]).unwrap();
        assert_eq!(b.receive(2), ours);
        wire.send(&kernels[0]).unwrap();
        wire.send(&kernels[1]).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 16, "{divert:?}");
        // A later fragment goes to no lane long after its first one.
        wire.send(&ours[0]).unwrap();
        assert_eq!(b.receive(1), [&ours[0][..]]);
        std::thread::sleep(Duration::from_millis(1100));
        wire.send(&ours[1]).unwrap();
        assert_eq!(b.receive(0), [[]; 0], "{divert:?}");
    }
}

#[test]
fn an_icmp_error_finds_the_lane_whose_packet_it_quotes() {
    if !have_root() {
        return;
    }
    let [a, b] = topology::cable(1500, false).unwrap();
    let mut a = End::new(a, Divert::Tc, Guard::Tc);
    // B is a host without Tickwire, and no socket listens there.
    let frame = packet(a.identity(), (b.mac.0, b.address.octets()), PORT, 64);
    a.send(&frame);
    let got = a.receive(1);
    assert_eq!((got[0][23], got[0][34], got[0][35]), (1, 3, 3), "ICMP port unreachable");
}

#[test]
fn an_icmpv6_error_and_ipv6_fragments_find_their_lane() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [a, mut b] = pair(divert, Guard::Tc);
        let wire = a.host.ns.run(|| PacketSender::open(a.host.nic)).unwrap();
        let datagram = udp6(&a, &b, 64, 0);
        let with = |next: u8, payload: &[u8]| {
            let mut p = datagram[..54].to_vec();
            p[18..20].copy_from_slice(&(payload.len() as u16).to_be_bytes());
            p[20] = next;
            p.extend(payload);
            p
        };
        // Packet too big, about a datagram that B sent; and about one that it cannot have sent.
        let mut error = vec![2, 0, 0, 0, 0, 0, 5, 0];
        error.extend(&udp6(&b, &a, 64, 0)[14..]);
        let too_big = with(58, &error);
        let mut strange = too_big.clone();
        strange[62 + 40] ^= 1;
        wire.send(&strange).unwrap();
        wire.send(&too_big).unwrap();
        assert_eq!(b.receive(1), [too_big], "{divert:?}");
        // A datagram in two pieces, with a stray one before.
        let piece = |offset_more: [u8; 2], id: u8, bytes: &[u8]| {
            let mut fragment = vec![17, 0, offset_more[0], offset_more[1], 0, 0, 0, id];
            fragment.extend(bytes);
            with(44, &fragment)
        };
        let first = piece([0, 1], 1, &datagram[54..54 + 40]);
        let later = piece([0, 40], 1, &datagram[54 + 40..]);
        wire.send(&piece([0, 40], 2, &datagram[54 + 40..])).unwrap();
        wire.send(&first).unwrap();
        wire.send(&later).unwrap();
        assert_eq!(b.receive(2), [first, later], "{divert:?}");
        assert_eq!(b.receive(0), [[]; 0]);
    }
}
