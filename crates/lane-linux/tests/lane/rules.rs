//! Which frames divert takes from the kernel and which ones the guard lets out.

use crate::common::have_root;
use crate::raw::{HEADERS, Raw, packet};
use crate::topology::{Divert, Guard, PORT};
use crate::{End, pair, udp, udp6};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;
use tickwire_lane_linux::bpf::GuardRefusal;
use tickwire_lane_linux::sys_packet::PacketSender;

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
            (with(6, &[2, 9, 9, 9, 9, 9]), GuardRefusal::Source),
            (with(26, &[10, 77, 0, 9]), GuardRefusal::Source),
            (with(34, &[0, 53]), GuardRefusal::Port),
            (with(23, &[1]), GuardRefusal::Protocol),
            (with(12, &[8, 6]), GuardRefusal::Protocol),
            (tagged, GuardRefusal::Protocol),
            (with(14, &[0x41]), GuardRefusal::Malformed),
            (with(20, &[0, 9]), GuardRefusal::Fragment),
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
                let before = a.refused(GuardRefusal::Port);
                a.send(&bad);
                assert_eq!(a.refused(GuardRefusal::Port), before + 1, "{request:#x} {guard:?}");
                a.send(&good);
                assert_eq!(b.receive(1), [&good[..]], "{request:#x} {guard:?}");
            }
        }
        assert_eq!(b.receive(0), [[]; 0]);
    }
}
