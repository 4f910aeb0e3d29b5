//! Limits of other processes.

use crate::sys::answer;
use std::io;

/// Raises the limit of the real-time priorities that a process may give its threads
/// (`RLIMIT_RTPRIO`, 1 to 99) to this one, unless it is higher.
///
/// # Errors
/// If there is no such process, or its limits are not the caller's to raise (`CAP_SYS_RESOURCE`).
pub fn allow_real_time(process: u32, priority: u32) -> io::Result<()> {
    let process = libc::pid_t::try_from(process).map_err(io::Error::other)?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of our own, which the kernel fills in.
    answer(unsafe { libc::prlimit(process, libc::RLIMIT_RTPRIO, std::ptr::null(), &raw mut limit) }.into())?;
    let wanted = libc::rlim_t::from(priority);
    if limit.rlim_cur >= wanted {
        return Ok(());
    }
    let raised = libc::rlimit { rlim_cur: wanted, rlim_max: limit.rlim_max.max(wanted) };
    // SAFETY: a structure of our own, which the kernel reads.
    answer(unsafe { libc::prlimit(process, libc::RLIMIT_RTPRIO, &raw const raised, std::ptr::null_mut()) }.into())?;
    Ok(())
}
