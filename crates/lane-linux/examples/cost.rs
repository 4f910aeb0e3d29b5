//! What divert and guard cost a packet, in nanoseconds: the kernel runs them on one packet a
//! million times (`BPF_PROG_TEST_RUN`), with everything but the transfer itself. Needs root.

#![allow(unreachable_pub, dead_code, reason = "modules that are shared with the benchmark")]

#[path = "floor/raw.rs"]
mod raw;
#[path = "floor/test_run.rs"]
mod test_run;
#[path = "floor/topology.rs"]
mod topology;

use anyhow::{Result, ensure};
use std::os::fd::BorrowedFd;
use test_run::Ran;
use tickwire_lane_linux::bpf::program;
use tickwire_stack::addr::Address;
use topology::{Divert, Guard, PORT};

const REPEAT: u32 = 1_000_000;
const ROUNDS: usize = 5;
const ANY: u16 = PORT + 1;
const NOBODYS: u16 = PORT + 2;

/// One run on a frame that comes by a device.
fn run(program: BorrowedFd<'_>, device: u32, frame: &[u8]) -> Result<Ran> {
    // `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    test_run::run(program, &[0, frame.len() as u32, 0, device, 0, 0], frame, REPEAT)
}

fn main() -> Result<()> {
    let [mut a, b] = topology::cable(1500, false)?;
    a.divert(Divert::Native)?;
    let lane = a.lane(Guard::Xdp)?;
    a.claim(&lane, PORT)?;
    a.claim_at(&lane, [Address::ANY_V4, Address::ANY], ANY)?;
    let (here, there) = ((a.mac.0, a.address.octets()), (b.mac.0, b.address.octets()));
    const PASS: u32 = 2;
    const DROP: u32 = 1;
    const REDIRECT: u32 = 4;
    for (what, name, port, verdict) in [
        ("divert, port of an address", program::DIVERT, PORT, DROP),
        ("divert, port of any address", program::DIVERT, ANY, DROP),
        ("divert, unclaimed port", program::DIVERT, NOBODYS, PASS),
        ("guard, port of an address", program::GUARD, PORT, REDIRECT),
        ("guard, port of any address", program::GUARD, ANY, REDIRECT),
    ] {
        let incoming = name == program::DIVERT;
        let (from, to) = if incoming { (there, here) } else { (here, there) };
        let (device, frame) = (if incoming { a.nic } else { lane.number }, raw::packet(from, to, port, 64));
        let loaded = a.program(name)?;
        let runs = a.ns.run(|| (0..ROUNDS).map(|_| run(loaded, device, &frame)).collect::<Result<Vec<_>>>())?;
        let said: Vec<u32> = runs.iter().map(|ran| ran.verdict).collect();
        ensure!(said.iter().all(|&said| said == verdict), "{what}: {said:?}");
        println!("{what:30} {:4} ns", runs.iter().map(|ran| ran.nanoseconds).min().unwrap_or(0));
    }
    Ok(())
}
