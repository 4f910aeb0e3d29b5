//! What divert and guard cost a packet, in nanoseconds: the kernel runs them on one packet a million times (`BPF_PROG_TEST_RUN`), with everything
//! but the transfer itself. Needs root.

#![allow(unreachable_pub, dead_code, reason = "modules that are shared with the benchmark")]

#[path = "floor/bed.rs"]
mod bed;
#[path = "floor/raw.rs"]
mod raw;

use anyhow::{Result, ensure};
use bed::{Divert, Guard, PORT};
use std::os::fd::{AsRawFd, BorrowedFd};
use tickwire_link::bpf::program;
use tickwire_stack::Limits;
use tickwire_stack::addr::Address;

const REPEAT: u32 = 1_000_000;
const ROUNDS: usize = 5;
const ANY: u16 = PORT + 1;
const NOBODYS: u16 = PORT + 2;

/// `BPF_PROG_TEST_RUN` and its part of `union bpf_attr`.
const TEST_RUN: libc::c_int = 10;
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    verdict: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    rest: [u32; 4],
}

/// Nanoseconds of one run on a frame that comes by a device, and what the program says of it.
fn run(program: BorrowedFd<'_>, device: u32, frame: &[u8]) -> Result<(u32, u32)> {
    // `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    let context = [0, frame.len() as u32, 0, device, 0, 0];
    let mut test = TestRun {
        program: program.as_raw_fd() as u32,
        size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: REPEAT,
        context_size_in: size_of_val(&context) as u32,
        context_in: context.as_ptr() as u64,
        ..TestRun::default()
    };
    // SAFETY: `test` has the layout of the kernel's structure for this command and points at memory that lives for the call.
    let done = unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, &raw mut test, size_of::<TestRun>()) };
    ensure!(done == 0, "the kernel does not run it: {}", std::io::Error::last_os_error());
    Ok((test.duration_ns, test.verdict))
}

fn main() -> Result<()> {
    let limits = Limits { frames: 2048, tcp: 16, udp: 16, ..Limits::DEFAULT };
    let [mut a, b] = bed::cable(1500, false)?;
    a.divert(Divert::Native)?;
    let lane = a.lane(1500, Guard::Xdp, &limits)?;
    a.claim(&lane, PORT)?;
    a.claim_at(&lane, [Address::ANY_V4, Address::ANY], ANY)?;
    let (here, there) = ((a.mac.0, a.address.octets()), (b.mac.0, b.address.octets()));
    const PASS: u32 = 2;
    const REDIRECT: u32 = 4;
    for (what, name, port, verdict) in [
        ("divert, port of an address", program::DIVERT, PORT, REDIRECT),
        ("divert, port of any address", program::DIVERT, ANY, REDIRECT),
        ("divert, nobody's port", program::DIVERT, NOBODYS, PASS),
        ("guard, port of an address", program::GUARD, PORT, REDIRECT),
        ("guard, port of any address", program::GUARD, ANY, REDIRECT),
    ] {
        let incoming = name == program::DIVERT;
        let (from, to) = if incoming { (there, here) } else { (here, there) };
        let (device, frame) = (if incoming { a.nic } else { lane.host_end }, raw::packet(from, to, port, 64));
        let loaded = a.program(name)?;
        let times = a.ns.run(|| (0..ROUNDS).map(|_| run(loaded, device, &frame)).collect::<Result<Vec<_>>>())?;
        ensure!(times.iter().all(|&(_, said)| said == verdict), "{what}: {times:?}");
        println!("{what:30} {:4} ns", times.iter().map(|t| t.0).min().unwrap_or(0));
    }
    Ok(())
}
