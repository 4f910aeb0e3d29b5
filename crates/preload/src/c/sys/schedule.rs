//! How the calling thread is scheduled: its policy and its processors.

use super::check;
use crate::base::errno::Result;
use crate::base::scheduling::{CpuMask, Policy};

/// Whether the calling thread is of one of the real-time policies (`sched(7)`).
pub(crate) fn is_real_time() -> bool {
    // SAFETY: a plain number.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy > 0
        && matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE)
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
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: a structure of our own.
    check(unsafe { libc::sched_setscheduler(0, number, &raw const parameters) })?;
    if let Policy::Other(nice) = policy {
        // On Linux a nice value is the thread's own.
        // SAFETY: plain numbers.
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })?;
    }
    Ok(())
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
