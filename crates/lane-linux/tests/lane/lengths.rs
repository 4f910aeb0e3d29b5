//! Frames of every length, and those that the kernel has merged.

use crate::common::have_root;
use crate::raw::{HEADERS, packet};
use crate::test_run;
use crate::topology::{self, Divert, Guard, PORT};
use crate::{End, pair, udp};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tickwire_lane_linux::bpf::program;
use tickwire_lane_linux::port::Port;
use tickwire_lane_linux::sys_packet::PacketSender;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::udp::UdpOptions;
use tickwire_stack::{Limits, OwnedMemory, StackConfig};

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
    stack.init(&StackConfig::default());
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
    stack.init(&StackConfig::default());
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
