//! How the calling thread is scheduled: its policy and its processors.

use super::check;
use crate::sys::errno::{Errno, Result};
use crate::sys::scheduling::{CpuMask, Policy};
use core::ffi::{CStr, c_int};

/// The calling thread's real-time priority (`sched(7)`), 0 if it has no real-time policy.
pub(crate) fn real_time_priority() -> u32 {
    // SAFETY: a plain number.
    let policy = unsafe { libc::sched_getscheduler(0) };
    match policy & !libc::SCHED_RESET_ON_FORK {
        _ if policy <= 0 => 0,
        // Higher than all others.
        libc::SCHED_DEADLINE => 100,
        libc::SCHED_FIFO | libc::SCHED_RR => {
            let mut parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: a structure of our own.
            unsafe { libc::sched_getparam(0, &raw mut parameters) };
            parameters.sched_priority.clamp(1, 99) as u32
        }
        _ => 0,
    }
}

/// Whether the calling thread has the ordinary policy.
pub(crate) fn is_ordinary() -> bool {
    // SAFETY: a plain number.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK == libc::SCHED_OTHER }
}

/// Whether the calling thread has the policy that [`become_real_time`] sets.
pub(crate) fn is_granted_real_time() -> bool {
    // SAFETY: a plain number.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK }
}

/// Gives the calling thread `SCHED_FIFO` with a priority; its child processes and threads do not
/// inherit that.
pub(crate) fn become_real_time(priority: u32) -> Result<()> {
    set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority as libc::c_int)
}

/// Gives the calling thread the ordinary policy. Clearing the reset-on-fork flag needs a right;
/// without it the flag stays: with an ordinary policy it only affects a negative nice value.
pub(crate) fn become_ordinary() -> Result<()> {
    let entirely = set_scheduler(libc::SCHED_OTHER, 0);
    entirely.or_else(|_| set_scheduler(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0))
}

fn set_scheduler(policy: libc::c_int, priority: libc::c_int) -> Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: a structure of our own.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(drop)
}

/// Gives the calling thread a policy.
pub(crate) fn set_policy(policy: Policy) -> Result<()> {
    let (number, priority) = match policy {
        Policy::Other(_) => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    set_scheduler(number, priority)?;
    if let Policy::Other(nice) = policy {
        // On Linux a nice value belongs to the thread.
        // SAFETY: plain numbers.
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })?;
    }
    Ok(())
}

/// Opens a file to read. Not a cancellation point.
pub(crate) fn open_to_read(path: &CStr) -> Result<c_int> {
    // SAFETY: a terminated path.
    let fd =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 { Err(Errno::last()) } else { Ok(fd as c_int) }
}

/// Reads a file from its beginning. Not a cancellation point.
pub(crate) fn read_from_begin(fd: c_int, into: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is as long as said.
    let len = unsafe { libc::syscall(libc::SYS_pread64, fd, into.as_mut_ptr(), into.len(), 0_i64) };
    usize::try_from(len).map_err(|_| Errno::last())
}

/// How many processors are online.
pub(crate) fn processors_online() -> u32 {
    // SAFETY: a plain number.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.clamp(1, 1 << 16) as u32
}

/// The processor on which the calling thread runs.
pub(crate) fn current_processor() -> u64 {
    // SAFETY: a plain number.
    u64::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// The processors on which the calling thread may run.
pub(crate) fn affinity() -> Result<CpuMask> {
    let mut mask: CpuMask = [0; 16];
    // SAFETY: as many bytes as the mask has.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) }).map(|_| mask)
}

/// Confines the calling thread to these processors.
pub(crate) fn set_affinity(mask: &CpuMask) -> Result<()> {
    // SAFETY: as many bytes as the mask has.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(mask), mask.as_ptr().cast()) }).map(drop)
}
