//! Processes and threads: their numbers, their namespaces and their rights.

use super::check;
use crate::sys::errno::Errno;
use core::ffi::CStr;
use core::mem::zeroed;

/// Makes the kernel clear a static in every child that does not share memory. The static fills its
/// pages alone and begins empty, so it is anonymous memory. Where pages are larger than its
/// alignment, this has no effect.
pub(crate) fn wipe_in_children<T>(place: &'static T) {
    // SAFETY: pages of ours; the advice changes nothing in this process.
    unsafe { libc::madvise(core::ptr::from_ref(place).cast_mut().cast(), size_of::<T>(), libc::MADV_WIPEONFORK) };
}

/// The calling process.
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// The calling thread, by the kernel's number.
pub(crate) fn thread() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() as u32 }
}

/// Whether this process has a thread with this number.
pub(crate) fn thread_lives(thread: u32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::syscall(libc::SYS_tgkill, process(), thread, 0) == 0 }
}

/// The name of the calling thread.
pub(crate) fn thread_name() -> String {
    let mut name = [0u8; 16];
    // SAFETY: the call writes 16 bytes at most, the last of them a zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    String::from_utf8_lossy(name.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

/// Whether the calling thread may confine itself by a filter: it has set `no_new_privs`, or has the
/// right.
pub(crate) fn may_filter_calls() -> bool {
    // SAFETY: plain numbers.
    let has_promised = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 };
    has_promised || is_administrator()
}

/// Whether the calling thread has `CAP_SYS_ADMIN`.
pub(crate) fn is_administrator() -> bool {
    const VERSION_3: u32 = 0x2008_0522;
    const SYS_ADMIN: u32 = 1 << 21;
    let header = [VERSION_3, 0];
    // Effective, permitted and inheritable rights, twice.
    let mut rights = [0u32; 6];
    // SAFETY: as many words as this version of the call reads and writes.
    let told = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), rights.as_mut_ptr()) == 0 };
    told && rights[0] & SYS_ADMIN != 0
}

/// Whether a process with this number exists and is not a zombie.
pub(crate) fn process_lives(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    if unsafe { libc::kill(pid as libc::pid_t, 0) } < 0 {
        return Errno::last() != Errno(libc::ESRCH);
    }
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state, which is the third field, and what follows; the second, the name in parentheses,
    // may contain anything.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return true };
    // A process whose first thread has ended looks dead, but may have other threads (the twentieth
    // field).
    let threads = rest.split(' ').nth(17).and_then(|n| n.parse::<u32>().ok());
    !rest.starts_with(['Z', 'X']) || threads.is_some_and(|n| n > 1)
}

/// Whether the calling thread has a filter of system calls, or is confined in another way, so that
/// any call may kill it.
pub(crate) fn is_filtered() -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) != 0 }
}

/// Whether the children of the calling thread are in another process namespace (`unshare`,
/// `setns`). Without `/proc` this is unknown: false. Uses no heap memory: `_Fork` may be called in
/// a signal handler.
pub(crate) fn children_are_elsewhere() -> bool {
    let identity = |name: &CStr| {
        // SAFETY: all-zero is a valid `stat`.
        let mut found: libc::stat = unsafe { zeroed() };
        // SAFETY: a C string, and room for the result.
        check(unsafe { libc::stat(name.as_ptr(), &raw mut found) }).map(|_| (found.st_dev, found.st_ino))
    };
    let Ok(own) = identity(c"/proc/thread-self/ns/pid") else { return false };
    match identity(c"/proc/thread-self/ns/pid_for_children") {
        Ok(of_children) => of_children != own,
        // The namespace has no process yet.
        Err(error) => error == Errno(libc::ENOENT),
    }
}

/// Whether the process that forked this one is in another process namespace, where this one cannot
/// see it.
pub(crate) fn parent_is_elsewhere() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::getppid() == 0 }
}
