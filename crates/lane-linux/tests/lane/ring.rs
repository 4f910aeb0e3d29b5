//! The receive ring, and what wakes its readers.

use crate::common::have_root;
use crate::topology::{Divert, Guard};
use crate::{End, pair, udp};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use tickwire_lane::record_ring::RING_BYTES;
use tickwire_lane_linux::port::Port;

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
