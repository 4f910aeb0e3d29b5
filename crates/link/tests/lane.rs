//! Lanes on the real kernel: two hosts (namespaces) on one cable, the BPF programs, bare frames.
//! Needs root; without it the tests say so and pass.

// Modules that are shared with the benchmark; not every test uses all of them.
#![allow(unreachable_pub, dead_code)]

mod common;
#[path = "../examples/floor/raw.rs"]
mod raw;
#[path = "../examples/floor/test_run.rs"]
mod test_run;
#[path = "../examples/floor/topology.rs"]
mod topology;

use common::have_root;
use raw::{HEADERS, Raw, packet};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use tickwire_lane::rx_ring::RING_BYTES;
use tickwire_link::bpf::{Refusal, program};
use tickwire_link::port::Port;
use tickwire_link::sys_packet::PacketSender;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::udp::UdpOptions;
use tickwire_stack::{Config, Limits, OwnedMemory};
use topology::{Divert, Guard, Host, Lane, PORT};

/// A host with a lane that owns [`PORT`], in use.
struct End {
    host: Host,
    lane: Lane,
    raw: Raw,
}

impl End {
    fn new(mut host: Host, divert: Divert, guard: Guard) -> Self {
        host.divert(divert).unwrap();
        let lane = host.lane(guard).unwrap();
        host.claim(&lane, PORT).unwrap();
        let raw = Raw::new(lane.open().unwrap());
        Self { host, lane, raw }
    }

    fn identity(&self) -> ([u8; 6], [u8; 4]) {
        (self.host.mac.0, self.host.address.octets())
    }

    fn send(&mut self, frame: &[u8]) {
        // A frame that is no Ethernet frame the device refuses.
        self.raw.send(frame);
    }

    /// Everything that comes, until `wanted` frames are there or nothing has come for a while.
    fn receive(&mut self, wanted: usize) -> Vec<Vec<u8>> {
        let end = Instant::now() + if wanted == 0 { Duration::from_millis(100) } else { Duration::from_secs(3) };
        let mut got = Vec::new();
        while Instant::now() < end && (wanted == 0 || got.len() < wanted) {
            self.raw.poll(|frame| got.push(frame.to_vec()));
        }
        got
    }

    fn refused(&mut self, why: Refusal) -> u64 {
        self.host.lane_counters(&self.lane).unwrap().refused[why as usize]
    }
}

fn pair(divert: Divert, guard: Guard) -> [End; 2] {
    topology::cable(1500, false).unwrap().map(|host| End::new(host, divert, guard))
}

fn udp(from: &End, to: &End, payload: usize) -> Vec<u8> {
    packet(from.identity(), to.identity(), PORT, payload)
}

/// The same datagram over IPv6, behind so many empty destination options.
fn udp6(from: &End, to: &End, payload: usize, options: usize) -> Vec<u8> {
    let v4 = udp(from, to, payload);
    let mut p = v4[..12].to_vec();
    p.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    p.extend((8 * options as u16 + 8 + payload as u16).to_be_bytes());
    p.extend([if options > 0 { 60 } else { 17 }, 64]);
    p.extend(from.host.addresses()[1].0);
    p.extend(to.host.addresses()[1].0);
    for i in 1..=options {
        p.extend([if i < options { 60 } else { 17 }, 0, 1, 4, 0, 0, 0, 0]);
    }
    p.extend(&v4[34..]);
    p
}

#[test]
fn frames_cross_lanes_in_every_attach_mode_that_a_veth_can_take() {
    if !have_root() {
        return;
    }
    for (divert, guard) in [(Divert::Native, Guard::Xdp), (Divert::Tc, Guard::Tc), (Divert::Native, Guard::Tc)] {
        let [mut a, mut b] = pair(divert, guard);
        for frame in [udp(&a, &b, 64), udp(&a, &b, 1472), udp6(&a, &b, 64, 0)] {
            a.send(&frame);
            assert_eq!(b.receive(1), [frame], "{divert:?} {guard:?}");
        }
        let sent = a.host.lane_counters(&a.lane).unwrap();
        let received = b.host.lane_counters(&b.lane).unwrap();
        assert_eq!((sent.out_packets, received.in_packets), (3, 3));
        assert_eq!(sent.out_bytes, received.in_bytes);
        assert_eq!(sent.refused, [0; 8]);
    }
}

/// A veth pair's kernel always says how many packets it has merged into one; a hypervisor's card
/// (virtio_net, xen-netfront) only how long the parts are.
#[test]
fn what_a_hypervisor_has_merged_is_counted_as_the_packets_that_it_was() {
    if !have_root() {
        return;
    }
    /// The first record of a ring wakes, since nothing is unread; after that something is.
    const VERDICTS: [u32; 5] = [7, 2, 2, 2, 2];
    /// Places of `ifindex`, `gso_segs` and `gso_size` among the 48 words of `struct __sk_buff`.
    const IFINDEX: usize = 10;
    const SEGMENTS: usize = 41;
    const SIZE: usize = 44;
    let [a, mut b] = pair(Divert::Tc, Guard::Tc);
    let cases = [(1000, 0, 0, 1), (2500, 1000, 0, 3), (2000, 1000, 0, 2), (2500, 1000, 3, 3), (0, 1000, 0, 1)];
    for ((payload, size, segments, packets), verdict) in cases.into_iter().zip(VERDICTS) {
        let frame = udp(&a, &b, payload);
        let mut context = [0; 48];
        (context[IFINDEX], context[SEGMENTS], context[SIZE]) = (b.host.nic, segments, size);
        let before = b.host.lane_counters(&b.lane).unwrap();
        let program = b.host.program(program::DIVERT_TC).unwrap();
        let ran = b.host.ns.run(|| test_run::run(program, &context, &frame, 1)).unwrap();
        assert_eq!(ran.verdict, verdict);
        let after = b.host.lane_counters(&b.lane).unwrap();
        let bytes = payload + packets as usize * HEADERS;
        assert_eq!(
            (after.in_packets - before.in_packets, after.in_bytes - before.in_bytes),
            (packets, bytes as u64),
            "{payload} bytes in parts of {size}"
        );
    }
}

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

#[test]
fn the_guard_refuses_and_counts_what_the_lane_does_not_own() {
    if !have_root() {
        return;
    }
    for (divert, guard) in [(Divert::Native, Guard::Xdp), (Divert::Tc, Guard::Tc)] {
        let [mut a, mut b] = pair(divert, guard);
        let good = udp(&a, &b, 64);
        let with = |at: usize, bytes: &[u8]| {
            let mut frame = good.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        let mut tagged = good.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        for (frame, why) in [
            (with(6, &[2, 9, 9, 9, 9, 9]), Refusal::Source),
            (with(26, &[10, 77, 0, 9]), Refusal::Source),
            (with(34, &[0, 53]), Refusal::Port),
            (with(23, &[1]), Refusal::Protocol),
            (with(12, &[8, 6]), Refusal::Protocol),
            (tagged, Refusal::Protocol),
            (with(14, &[0x41]), Refusal::Malformed),
            (with(20, &[0, 9]), Refusal::Fragment),
        ] {
            let before = a.refused(why);
            a.send(&frame);
            assert_eq!(a.refused(why), before + 1, "{why:?} {guard:?}");
        }
        assert_eq!(b.receive(0), [[]; 0], "nothing got out");
        a.send(&good);
        assert_eq!(b.receive(1), [good]);
        assert_eq!(a.host.lane_counters(&a.lane).unwrap().out_packets, 1);
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
            (padded, Refusal::Malformed),
            (behind, Refusal::Fragment),
            (nested, Refusal::Fragment),
            (endless, Refusal::Malformed),
            (short, Refusal::Malformed),
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
fn a_lane_whose_guard_has_gone_leaks_nothing() {
    if !have_root() {
        return;
    }
    let [mut a, mut b] = pair(Divert::Tc, Guard::Gone);
    let victim = a.host.ns.run(|| UdpSocket::bind(("0.0.0.0", 9))).unwrap();
    victim.set_nonblocking(true).unwrap();
    let out = udp(&a, &b, 64);
    let mut into_the_host = packet(b.identity(), a.identity(), 9, 64);
    into_the_host[..6].copy_from_slice(&[0xff; 6]);
    a.send(&out);
    a.send(&into_the_host);
    assert_eq!(b.receive(0), [[]; 0]);
    assert!(victim.recv(&mut [0; 64]).is_err());
}

#[test]
fn what_no_lane_claimed_goes_to_the_kernel() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [a, mut b] = pair(divert, Guard::Tc);
        let sender = a.host.ns.run(|| UdpSocket::bind((a.host.address, 0))).unwrap();
        let receiver = b.host.ns.run(|| UdpSocket::bind(("0.0.0.0", 9))).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        sender.send_to(b"kernel", (b.host.address, 9)).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 6);
        sender.send_to(b"lane", (b.host.address, PORT)).unwrap();
        let got = b.receive(1);
        assert_eq!(&got[0][HEADERS..HEADERS + 4], b"lane");
    }
}

#[test]
fn a_tagged_packet_is_not_ours() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [a, mut b] = pair(divert, Guard::Tc);
        let mut tagged = udp(&a, &b, 8);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        a.host.ns.run(|| PacketSender::open(a.host.nic)).unwrap().send(&tagged).unwrap();
        assert_eq!(b.receive(0), [[]; 0], "{divert:?}");
    }
}

/// IEEE 802.1Q: such a tag carries a priority alone, as controllers send it. To Linux the packet is
/// untagged.
#[test]
fn a_packet_with_the_tag_of_no_vlan_is_ours_without_it() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [a, mut b] = pair(divert, Guard::Tc);
        let untagged = udp(&a, &b, 8);
        let mut tagged = untagged.clone();
        tagged.splice(12..12, [0x81, 0, 0xc0, 0]);
        a.host.ns.run(|| PacketSender::open(a.host.nic)).unwrap().send(&tagged).unwrap();
        assert_eq!(b.receive(1), [untagged], "{divert:?}");
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
        assert_eq!(a.refused(Refusal::Fragment), 1);
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
fn at_tc_packets_that_the_kernel_has_merged_reach_the_lane_whole() {
    if !have_root() {
        return;
    }
    // Segmentation and checksums stay "offloaded" on this cable, as a real interface's receive path
    // merges packets.
    let [a, b] = topology::cable(1500, true).unwrap();
    let mut b = End::new(b, Divert::Tc, Guard::Tc);
    let sender = a.ns.run(|| UdpSocket::bind((a.address, 0))).unwrap();
    let segment: libc::c_int = 1000;
    // SAFETY: the option's value is an integer, alive for the call.
    let set = unsafe {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(sender.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const segment).cast(), size)
    };
    assert_eq!(set, 0);
    sender.send_to(&[7; 9_500], (b.host.address, PORT)).unwrap();
    // A stack takes them apart.
    let mut memory = OwnedMemory::new(&Limits { frames: 64, ..Limits::DEFAULT });
    let mut stack = memory.stack();
    stack.init(&Config::default());
    let id = stack.udp_open(UdpOptions::default()).unwrap();
    stack.udp_bind(id, Endpoint::new(b.host.address.into(), PORT)).unwrap();
    let port = Port::new(b.lane.open().unwrap().0, b.lane.tap.try_clone().unwrap());
    let end = Instant::now() + Duration::from_secs(3);
    while port.poll(&mut stack, now()) == 0 && Instant::now() < end {}
    let mut buffer = [0; 2000];
    let lengths: Vec<_> =
        std::iter::from_fn(|| stack.udp_recv(id, false, &mut &mut buffer[..]).ok()).map(|got| got.len).collect();
    assert_eq!(lengths, [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 500]);
    assert_eq!(b.host.lane_counters(&b.lane).unwrap().in_packets, 10);
}

fn now() -> tickwire_stack::time::Instant {
    tickwire_stack::time::Instant::from_nanos(1)
}

/// What a device leaves unfinished (`CHECKSUM_PARTIAL`), a wire would have finished.
#[test]
fn a_checksum_that_never_met_a_wire_is_taken_at_its_word_and_a_wrong_one_is_not() {
    if !have_root() {
        return;
    }
    let [a, b] = topology::cable(1500, true).unwrap();
    let mut b = End::new(b, Divert::Tc, Guard::Tc);
    let mut memory = OwnedMemory::new(&Limits { frames: 64, ..Limits::DEFAULT });
    let mut stack = memory.stack();
    stack.init(&Config::default());
    let id = stack.udp_open(UdpOptions::default()).unwrap();
    stack.udp_bind(id, Endpoint::new(b.host.address.into(), PORT)).unwrap();
    let port = Port::new(b.lane.open().unwrap().0, b.lane.tap.try_clone().unwrap());
    let sender = a.ns.run(|| UdpSocket::bind((a.address, 0))).unwrap();
    sender.send_to(b"partial", (b.host.address, PORT)).unwrap();
    let wire = a.ns.run(|| PacketSender::open(a.nic)).unwrap();
    let mut wrong = packet((a.mac.0, a.address.octets()), b.identity(), PORT, 8);
    wrong[40] = 1;
    wire.send(&wrong).unwrap();
    let end = Instant::now() + Duration::from_secs(3);
    while b.host.lane_counters(&b.lane).unwrap().in_packets < 2 && Instant::now() < end {}
    while port.poll(&mut stack, now()) > 0 {}
    let mut buffer = [0; 2000];
    let got = stack.udp_recv(id, false, &mut &mut buffer[..]).unwrap();
    assert_eq!(&buffer[..got.len], b"partial");
    assert!(stack.udp_recv(id, false, &mut &mut buffer[..]).is_err());
    assert_eq!(stack.counters().udp_in_csum_errors.get(), 1);
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

#[test]
fn a_jumbo_frame_comes_whole() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [a, b] = topology::cable(9000, false).unwrap();
        let mut b = End::new(b, divert, Guard::Tc);
        let sender = a.ns.run(|| UdpSocket::bind((a.address, 0))).unwrap();
        sender.send_to(&[7; 8000], (b.host.address, PORT)).unwrap();
        let got = b.receive(1);
        assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [HEADERS + 8000], "{divert:?}");
    }
}

#[test]
fn frames_of_every_size_come_as_they_were() {
    if !have_root() {
        return;
    }
    for divert in [Divert::Native, Divert::Tc] {
        let [mut a, mut b] = {
            let hosts = topology::cable(9000, false).unwrap();
            hosts.map(|host| End::new(host, divert, Guard::Tc))
        };
        for size in [0, 1, 61, 62, 63, 189, 190, 191, 700, 702, 703, 1472, 1534, 1535, 3005, 3006, 3007, 8958] {
            let mut frame = udp(&a, &b, size);
            frame[HEADERS..].iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at * 7) as u8);
            a.send(&frame);
            assert_eq!(b.receive(1), [frame], "{size} bytes, {divert:?}");
        }
    }
}

/// Not every driver pads what XDP redirects to the least length of a frame.
#[test]
fn the_guard_in_xdp_fills_short_frames() {
    if !have_root() {
        return;
    }
    let [mut a, mut b] = pair(Divert::Native, Guard::Xdp);
    for size in [0, 1, 17, 18, 19] {
        let frame = udp(&a, &b, size);
        a.send(&frame);
        let mut filled = frame.clone();
        filled.resize(frame.len().max(60), 0);
        assert_eq!(b.receive(1), [filled], "{size} bytes");
    }
}

/// More than the ring holds is lost, and counted; what comes after there is room again is not.
#[test]
fn an_unread_ring_loses_new_packets_and_counts_them() {
    if !have_root() {
        return;
    }
    let [mut a, mut b] = pair(Divert::Native, Guard::Xdp);
    let frame = udp(&a, &b, 1400);
    let sent = 3000;
    for _ in 0..sent {
        a.send(&frame);
    }
    let end = Instant::now() + Duration::from_secs(3);
    let counted = |b: &mut End| {
        let c = b.host.lane_counters(&b.lane).unwrap();
        (c.in_packets, c.lost_packets)
    };
    while counted(&mut b).0 < sent && Instant::now() < end {}
    let (came, lost) = counted(&mut b);
    let got = u64::from(RING_BYTES) / 1600;
    assert_eq!((came, came - lost), (sent, got), "as many as fit");
    assert_eq!(b.receive(got as usize).len() as u64, got);
    a.send(&frame);
    assert_eq!(b.receive(1), [frame]);
}

/// Whatever a program writes into the page of the ring that it may write affects its own packets
/// only.
#[test]
fn a_hostile_consumer_position_loses_its_own_packets_only() {
    if !have_root() {
        return;
    }
    let [mut a, mut b] = pair(Divert::Tc, Guard::Tc);
    let frame = udp(&a, &b, 64);
    let (ring, _) = b.lane.open().unwrap();
    for position in [1, 7, 8, 1 << 12, u64::from(RING_BYTES) - 8, 1 << 40, u64::MAX - 7, u64::MAX] {
        ring.forge_consumer(position);
        for _ in 0..50 {
            a.send(&frame);
        }
        b.receive(0);
    }
    ring.forge_consumer(0);
    // Sane again: from where the kernel is.
    let other = b.host.ns.run(|| UdpSocket::bind(("0.0.0.0", 9))).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let sender = a.host.ns.run(|| UdpSocket::bind((a.host.address, 0))).unwrap();
    sender.send_to(b"kernel", (b.host.address, 9)).unwrap();
    assert_eq!(other.recv(&mut [0; 16]).unwrap(), 6, "others notice nothing");
}

#[test]
fn what_is_read_while_armed_wakes_a_sleeper_and_what_is_polled_does_not() {
    if !have_root() {
        return;
    }
    let [mut a, b] = pair(Divert::Native, Guard::Xdp);
    let frame = udp(&a, &b, 64);
    let (ring, _) = b.lane.open().unwrap();
    let readable = |time: libc::c_int| {
        let mut fd = libc::pollfd { fd: ring.memory().as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, alive for the call.
        unsafe { libc::poll(&raw mut fd, 1, time) == 1 }
    };
    let take = |wanted: u32| {
        let end = Instant::now() + Duration::from_secs(3);
        let mut got = 0;
        while got < wanted && Instant::now() < end {
            got += ring.read(64, |_, _| ());
        }
        got
    };
    for _ in 0..3 {
        a.send(&frame);
        assert_eq!(take(1), 1);
        // What was read is held back from the kernel, which therefore sees a consumer that is
        // behind.
        assert!(readable(0));
        ring.arm(0);
        assert!(ring.is_empty() && !readable(0), "nothing is left to be read");
        a.send(&frame);
        assert!(readable(3000), "a sleeper is woken");
        assert_eq!(take(1), 1);
        assert!(readable(0), "it is on its way, and would not hear of the next one");
        ring.disarm(0);
        ring.arm(0);
        assert!(!readable(0), "nothing is left to be read");
        ring.disarm(0);
    }
}

#[test]
fn a_frame_to_the_device_wakes_a_thread_that_sleeps_on_device_and_ring() {
    if !have_root() {
        return;
    }
    for (divert, payload) in [(Divert::Tc, 64), (Divert::Tc, 1400), (Divert::Native, 64), (Divert::Native, 1400)] {
        let [mut a, mut b] = pair(divert, Guard::Tc);
        b.host.set_wake_frames().unwrap();
        let frame = udp(&a, &b, payload);
        let (ring, tap) = b.lane.open().unwrap();
        let own_tap = tap.try_clone().unwrap();
        let port = Port::new(ring, tap);
        let polled = |timeout| {
            let of = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut fds = [of(own_tap.as_raw_fd()), of(port.as_fd().as_raw_fd())];
            // SAFETY: two entries, alive for the call.
            let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, timeout) };
            (ready, fds.map(|fd| fd.revents == libc::POLLIN))
        };
        for round in 0..3 {
            port.rx().arm(0);
            port.take_wake_frame();
            let slept = std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| {
                    let begun = Instant::now();
                    let woken = polled(5000);
                    // The packet is in the ring before its wake frame comes, which only some kinds
                    // of divert send.
                    assert!(woken.0 >= 1 && woken.1[1], "{divert:?}, {payload} bytes, round {round}: {woken:?}");
                    begun.elapsed()
                });
                // For the kernel to have put the thread to sleep: what comes before is found at
                // once, and shows nothing.
                std::thread::sleep(Duration::from_millis(50));
                a.send(&frame);
                sleeper.join().unwrap()
            });
            assert!(slept < Duration::from_secs(4), "{divert:?}, {payload} bytes, round {round}: not woken");
            assert_eq!(port.rx().read(64, |_, _| ()), 1);
            port.rx().disarm(0);
        }
        // What is left behind is told from what has come: the ring is empty.
        for _ in 0..3 {
            port.rx().arm(0);
            a.send(&frame);
            assert!(polled(5000).1[1]);
            assert_eq!(port.rx().read(64, |_, _| ()), 1);
            port.rx().disarm(0);
        }
        port.rx().arm(0);
        assert_eq!(polled(0), (1, [true, false]), "{divert:?}");
        port.take_wake_frames();
        assert_eq!(polled(0), (0, [false, false]), "{divert:?}");
        port.rx().disarm(0);
    }
}

#[test]
fn a_process_without_privilege_uses_the_lane_and_another_takes_over() {
    if !have_root() {
        return;
    }
    let [a, mut b] = pair(Divert::Tc, Guard::Tc);
    let frame = udp(&a, &b, 64);
    let End { host: _host, lane, raw } = a;
    drop(raw);
    std::thread::scope(|s| {
        s.spawn(|| {
            // SAFETY: no memory is passed; the bare system call concerns this thread only.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
            let mut raw = Raw::new(lane.open().unwrap());
            assert!(raw.send(&frame));
        });
    });
    assert_eq!(b.receive(1), [frame]);
}

/// What a holder of the TAP device's descriptor may do to it changes nothing about what the guard
/// lets out.
#[test]
fn the_guard_holds_whatever_is_done_to_the_device() {
    if !have_root() {
        return;
    }
    const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
    const TUNSETSNDBUF: libc::c_ulong = 0x4004_54d4;
    const TUNSETVNETHDRSZ: libc::c_ulong = 0x4004_54d8;
    const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
    const TUNSETVNETLE: libc::c_ulong = 0x4004_54dc;
    const TUNSETSTEERINGEBPF: libc::c_ulong = 0x8004_54e0;
    const TUNSETFILTEREBPF: libc::c_ulong = 0x8004_54e1;
    for (divert, guard) in [(Divert::Native, Guard::Xdp), (Divert::Tc, Guard::Tc)] {
        let [mut a, mut b] = pair(divert, guard);
        let good = udp(&a, &b, 64);
        let mut bad = good.clone();
        bad[34..36].copy_from_slice(&[0, 53]);
        let fd = a.lane.tap.as_raw_fd();
        // SAFETY: all-zero is a valid `ifreq`.
        let mut mac: libc::ifreq = unsafe { std::mem::zeroed() };
        mac.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: 1, sa_data: [2, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0] };
        let number = |n: libc::c_int| Box::into_raw(Box::new(n)).cast::<libc::c_void>();
        let changes: [(libc::c_ulong, *mut libc::c_void); 9] = [
            (TUNSETOFFLOAD, std::ptr::without_provenance_mut(1)),
            (TUNSETSNDBUF, number(1)),
            (TUNSETVNETHDRSZ, number(12)),
            (TUNSETVNETLE, number(1)),
            (TUNSETPERSIST, std::ptr::without_provenance_mut(1)),
            (TUNSETSTEERINGEBPF, number(-1)),
            (TUNSETFILTEREBPF, number(-1)),
            (libc::SIOCSIFHWADDR, (&raw mut mac).cast()),
            (TUNSETPERSIST, std::ptr::without_provenance_mut(0)),
        ];
        for (request, argument) in changes {
            // SAFETY: each request reads a number, or the structure that lives until the end of
            // this block.
            unsafe { libc::ioctl(fd, request as _, argument) };
            // With a blocking descriptor frames go another way through the kernel.
            for flags in [libc::O_RDWR, libc::O_RDWR | libc::O_NONBLOCK] {
                // SAFETY: no memory is passed.
                unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
                let before = a.refused(Refusal::Port);
                a.send(&bad);
                assert_eq!(a.refused(Refusal::Port), before + 1, "{request:#x} {guard:?}");
                a.send(&good);
                assert_eq!(b.receive(1), [&good[..]], "{request:#x} {guard:?}");
            }
        }
        assert_eq!(b.receive(0), [[]; 0]);
    }
}
