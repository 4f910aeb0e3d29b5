//! Lanes on the real kernel: two hosts (namespaces) on one cable, the BPF programs, bare frames.
//! Needs root; without it the tests say so and pass.
//!
//! | file | scenes |
//! |---|---|
//! | `rules` | what divert takes from the kernel, and what the guard lets out |
//! | `headers` | extension headers, padding, fragments, ICMP errors |
//! | `lengths` | frames of every length, and what the kernel has merged |
//! | `ring` | the receive ring, and what wakes its readers |

// Modules that are shared with the benchmark; not every test uses all of them.
#![allow(unreachable_pub, dead_code)]

#[path = "../common/mod.rs"]
mod common;
mod headers;
mod lengths;
#[path = "../../examples/floor/raw.rs"]
mod raw;
mod ring;
mod rules;
#[path = "../../examples/floor/test_run.rs"]
mod test_run;
#[path = "../../examples/floor/topology.rs"]
mod topology;

use raw::{Raw, packet};
use std::time::{Duration, Instant};
use tickwire_lane_linux::bpf::GuardRefusal;
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

    fn refused(&mut self, why: GuardRefusal) -> u64 {
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
