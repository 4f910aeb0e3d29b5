//! The kernel runs a loaded program on a frame of ours (`BPF_PROG_TEST_RUN`), with everything but
//! the transfer itself. Needs root.

use anyhow::{Result, ensure};
use std::os::fd::{AsRawFd, BorrowedFd};

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

/// What a program said of a frame, how long the frame was then, and how long one run took.
pub struct Ran {
    pub verdict: u32,
    pub length: usize,
    pub nanoseconds: u32,
}

/// Runs a program so many times; the words of `context` are those of `struct xdp_md`, or of `struct
/// __sk_buff`.
pub fn run(program: BorrowedFd<'_>, context: &[u32], frame: &[u8], repeat: u32) -> Result<Ran> {
    run_into(program, context, frame, repeat, &mut [])
}

/// The same; what the program has made of the frame comes into `output`, unless that is empty.
pub fn run_into(program: BorrowedFd<'_>, context: &[u32], frame: &[u8], repeat: u32, output: &mut [u8]) -> Result<Ran> {
    let mut test = TestRun {
        program: program.as_raw_fd() as u32,
        size_in: frame.len() as u32,
        size_out: output.len() as u32,
        data_in: frame.as_ptr() as u64,
        data_out: if output.is_empty() { 0 } else { output.as_mut_ptr() as u64 },
        repeat,
        context_size_in: size_of_val(context) as u32,
        context_in: context.as_ptr() as u64,
        ..TestRun::default()
    };
    // SAFETY: `test` has the layout of the kernel's structure for this command and points at memory
    // that lives for the call, writable where the kernel writes, and as long as is said.
    let done = unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, &raw mut test, size_of::<TestRun>()) };
    ensure!(done == 0, "the kernel does not run it: {}", std::io::Error::last_os_error());
    Ok(Ran { verdict: test.verdict, length: test.size_out as usize, nanoseconds: test.duration_ns })
}
