//! Which descriptor becomes readable when a packet arrives for a lane, on the real kernel. Needs
//! root; without it the tests say so and pass.

// Modules that are shared with the benchmark; not every test uses all of them.
#![allow(unreachable_pub, dead_code)]

mod common;
#[path = "../examples/floor/raw.rs"]
mod raw;
#[path = "../examples/floor/topology.rs"]
mod topology;

use common::have_root;
use raw::{Raw, packet};
use std::os::fd::{AsFd, AsRawFd};
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_linux::mapped_ring::MappedRing;
use tickwire_lane_linux::standby_ring::StandbyRing;
use topology::{Divert, Guard, Host, Lane, PORT};

fn with_lane(mut host: Host, divert: Divert) -> (Host, Lane) {
    host.divert(divert).unwrap();
    let lane = host.lane(Guard::Tc).unwrap();
    host.claim(&lane, PORT).unwrap();
    (host, lane)
}

/// Which of these becomes readable within so many milliseconds.
fn readable<const N: usize>(fds: [&dyn AsFd; N], timeout: libc::c_int) -> [bool; N] {
    let mut fds = fds.map(|fd| libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
    // SAFETY: as many entries as are said, alive for the call.
    unsafe { libc::poll(fds.as_mut_ptr(), N as libc::nfds_t, timeout) };
    fds.map(|fd| fd.revents != 0)
}

/// Waits until so many packets have arrived, which are taken out of the ring.
fn take(ring: &RecordRing<MappedRing>, wanted: u32) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(3);
    let mut got = 0;
    while got < wanted {
        got += ring.read(64, |_, _| ());
        assert!(std::time::Instant::now() < end, "{got} of {wanted} packets");
    }
}

/// A packet wakes the standby thread, which takes it in.
fn wakes(ring: &RecordRing<MappedRing>, standby: &StandbyRing, send: &mut dyn FnMut()) {
    send();
    assert_eq!(readable([standby], 3000), [true]);
    take(ring, 1);
    standby.drain();
}

/// A packet wakes a thread that sleeps for packets; another one takes it in.
fn wakes_sleepers(ring: &RecordRing<MappedRing>, tap: &dyn AsFd, send: &mut dyn FnMut()) {
    send();
    let [device, packets] = readable([tap, ring.memory()], 3000);
    assert!(device || packets);
    take(ring, 1);
    take_wake_frames(tap);
}

fn take_wake_frames(tap: &dyn AsFd) {
    while readable([tap], 0) == [true] {
        let mut byte = [0u8];
        // SAFETY: room for one byte.
        assert!(unsafe { libc::read(tap.as_fd().as_raw_fd(), byte.as_mut_ptr().cast(), 1) } > 0);
    }
}

/// A lane and what sends to it, in each of the ways in which packets come.
fn each_way(test: impl Fn(&RecordRing<MappedRing>, &StandbyRing, &dyn AsFd, &mut dyn FnMut())) {
    for (divert, frames) in [(Divert::Tc, true), (Divert::Native, true), (Divert::Native, false)] {
        let [(a, from), (mut b, to)] = topology::cable(1500, false).unwrap().map(|host| with_lane(host, divert));
        if frames {
            b.set_wake_frames().unwrap();
        }
        let [sender, receiver] = [&a, &b].map(|host| (host.mac.0, host.address.octets()));
        let frame = packet(sender, receiver, PORT, 64);
        let mut raw = Raw::new(from.open().unwrap());
        let (ring, tap) = to.open().unwrap();
        test(&ring, &to.standby().unwrap(), &tap, &mut || assert!(raw.send(&frame)));
    }
}

#[test]
fn a_packet_wakes_the_thread_that_stands_by_while_none_polls_and_none_sleeps_for_it() {
    if !have_root() {
        return;
    }
    each_way(|ring, standby, tap, send| {
        assert_eq!(readable([standby], 0), [false]);
        for _ in 0..3 {
            assert!(ring.arm_standby() && ring.standby_is_armed());
            send();
            assert_eq!(readable([standby, tap], 3000), [true, false], "it, and not one that sleeps on the device");
            // Once until it is drained.
            send();
            take(ring, 2);
            standby.drain();
            assert_eq!(readable([standby], 0), [false]);
            // Still armed, and what it has read is known.
            wakes(ring, standby, send);
            ring.disarm_standby();
            send();
            take(ring, 1);
            assert_eq!(readable([standby, tap], 0), [false; 2], "a thread polls");
        }
    });
}

#[test]
fn a_thread_that_sleeps_for_packets_is_woken_and_the_one_that_stands_by_is_not() {
    if !have_root() {
        return;
    }
    each_way(|ring, standby, tap, send| {
        assert!(ring.arm_standby());
        for _ in 0..3 {
            ring.arm(0);
            send();
            let [device, packets, other] = readable([tap, ring.memory(), standby], 3000);
            assert!((device || packets) && !other);
            take(ring, 1);
            take_wake_frames(tap);
            // Awake: from here on the other is.
            ring.disarm(0);
            send();
            assert_eq!(readable([standby, tap], 3000), [true, false]);
            take(ring, 1);
            standby.drain();
        }
        ring.disarm_standby();
    });
}

#[test]
fn a_thread_killed_in_its_sleep_is_not_woken_in_the_place_of_others() {
    if !have_root() {
        return;
    }
    each_way(|ring, standby, tap, send| {
        assert!(ring.arm_standby());
        ring.arm(3);
        ring.arm(3);
        ring.arm(0);
        ring.disarm(0);
        ring.forget_process(3);
        send();
        assert_eq!(readable([standby, tap], 3000), [true, false]);
        take(ring, 1);
        standby.drain();
        // It has counted no sleepers of others, and does not do so later.
        ring.disarm(3);
        ring.arm(0);
        wakes_sleepers(ring, tap, send);
        ring.disarm(0);
        ring.disarm_standby();
    });
}

#[test]
fn a_thread_that_has_been_woken_is_woken_once_whatever_others_take_in_before_it_is_awake() {
    if !have_root() {
        return;
    }
    each_way(|ring, _, tap, send| {
        for _ in 0..3 {
            ring.arm(0);
            wakes_sleepers(ring, tap, send);
            send();
            take(ring, 1);
            assert_eq!(readable([tap], 0), [false]);
            // What it looks at before it sleeps tells it that something has come.
            assert_eq!(readable([ring.memory()], 0), [true]);
            // Another one sleeps.
            ring.arm(0);
            assert_eq!(readable([tap, ring.memory()], 0), [false; 2]);
            wakes_sleepers(ring, tap, send);
            ring.disarm(0);
            ring.disarm(0);
        }
    });
}

#[test]
fn while_something_waits_to_be_read_no_thread_is_promised_to_be_woken() {
    if !have_root() {
        return;
    }
    each_way(|ring, standby, _, send| {
        for sleeps in [false, true] {
            if sleeps {
                // For packets, beside the one that stands by.
                assert!(ring.arm_standby());
                ring.arm(0);
            }
            send();
            while ring.is_empty() {
                std::thread::yield_now();
            }
            if sleeps {
                ring.disarm(0);
            } else {
                assert!(!ring.arm_standby());
            }
            assert!(!ring.standby_is_armed());
            send();
            take(ring, 2);
            assert!(ring.arm_standby() && ring.standby_is_armed());
            assert_eq!(readable([standby], 0), [false]);
            wakes(ring, standby, send);
            ring.disarm_standby();
        }
    });
}
