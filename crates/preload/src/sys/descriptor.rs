//! Descriptors, and their limits.

use super::check;
use crate::sys::errno::{Errno, Result};
use crate::sys::real;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// The size of the descriptor table: numbers from this one on are the kernel's.
pub(crate) const TABLE_LIMIT: usize = 65_536;

/// A descriptor of the program, borrowed for one call.
pub(crate) fn borrowed<'a>(fd: c_int) -> BorrowedFd<'a> {
    // SAFETY: the program called us with this descriptor; if it closes it meanwhile, another file
    // is passed, or none, which the service checks.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// A protected descriptor as an owned one, for the channel.
pub(crate) fn owned(fd: c_int) -> OwnedFd {
    // SAFETY: the number was just made by `protect::keep` and belongs to the channel from here on.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Closes a descriptor for good. Not by `libc::syscall` as elsewhere: that name's `close` is this
/// library's, and passes on to the C library's, in which a thread may be cancelled.
pub(crate) fn close(fd: c_int) {
    // SAFETY: a plain number; callers close what they own.
    unsafe { real::syscall(libc::SYS_close, fd.into(), 0, 0, 0, 0, 0) };
}

/// `fcntl` with a number as argument.
pub(crate) fn fcntl(fd: c_int, command: c_int, argument: c_int) -> Result<c_int> {
    // SAFETY: only commands that take a number.
    check(unsafe { real::fcntl(fd, command, argument as usize) })
}

/// Makes a descriptor refer to another one's file; its close-on-exec flag stays. (Not by the
/// library's own `dup3`.)
pub(crate) fn replace(fd: c_int, with: c_int) -> Result<()> {
    let cloexec = fcntl(fd, libc::F_GETFD, 0)? & libc::FD_CLOEXEC;
    let flags = if cloexec != 0 { libc::O_CLOEXEC } else { 0 };
    // SAFETY: plain numbers; callers replace what they own.
    let done = unsafe { real::syscall(libc::SYS_dup3, with.into(), fd.into(), flags.into(), 0, 0, 0) };
    if done < 0 { Err(Errno(crate::sys::errno::get())) } else { Ok(()) }
}

/// A file in memory with these bytes, sealed against shrinking.
pub(crate) fn memory_file(bytes: &[u8]) -> Result<c_int> {
    let name = c"tickwire-connection";
    let flags = i64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    // SAFETY: the name is a C string, which the kernel only reads.
    let made = unsafe { real::syscall(libc::SYS_memfd_create, name.as_ptr() as i64, flags, 0, 0, 0, 0) };
    let fd = c_int::try_from(made).ok().filter(|&fd| fd >= 0).ok_or(Errno(crate::sys::errno::get()))?;
    let mut done = 0;
    while let Some(left) = bytes.get(done..).filter(|left| !left.is_empty()) {
        let (start, len, at) = (left.as_ptr() as i64, left.len() as i64, done as i64);
        // SAFETY: `left` is alive and as long as said, and the kernel only reads it.
        let written = unsafe { real::syscall(libc::SYS_pwrite64, fd.into(), start, len, at, 0, 0) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => done += written,
            _ => {
                close(fd);
                return Err(Errno(libc::ENOMEM));
            }
        }
    }
    if let Err(error) = fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) {
        close(fd);
        return Err(error);
    }
    Ok(fd)
}

/// What the kernel says of a descriptor's file (`fstat`); `None` if there is none.
pub(crate) fn status(fd: c_int) -> Option<libc::stat> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a valid place, read only if it was filled in.
    unsafe { (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }
}

/// `FIONBIO`.
pub(crate) fn set_nonblocking(fd: c_int, on: bool) -> Result<()> {
    let number = c_int::from(on);
    // SAFETY: the kernel reads the number during the call.
    check(unsafe { real::ioctl(fd, libc::FIONBIO, &raw const number as usize) }).map(drop)
}

/// The open descriptors of this process, including the one that this uses to list them. `None`
/// without `/proc`.
pub(crate) fn open_descriptors() -> Option<impl Iterator<Item = c_int>> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    Some(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

fn limits() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: a valid place.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}

/// The descriptor limit of this process.
pub(crate) fn descriptor_limit() -> c_int {
    limits().rlim_cur.min(TABLE_LIMIT as u64) as c_int
}

/// Whether a list of descriptors is longer than this process's limit, which the kernel refuses
/// before it reads the list.
pub(crate) fn too_many_descriptors(count: libc::nfds_t) -> bool {
    // Hardly any process has a limit below 64 (the usual one is 1024), so short lists need no call.
    count > 64 && count > limits().rlim_cur
}

/// Changes the soft descriptor limit of this process.
pub(crate) fn set_descriptor_limit(limit: c_int) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: limit as libc::rlim_t, ..limits() };
    // SAFETY: a valid structure.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// Duplicates a descriptor to a number above the soft limit, close-on-exec. The limit is raised for
/// a moment, so one thread does this at a time.
///
/// # Errors
/// `EMFILE` if the hard limit, or our table, leaves no room.
pub(crate) fn duplicate_above_limit(fd: c_int) -> Result<c_int> {
    /// For all threads of a program.
    const ROOM: u64 = 4096;
    let libc::rlimit { rlim_cur: soft, rlim_max: hard } = limits();
    let most = hard.min(TABLE_LIMIT as u64).min(soft.saturating_add(ROOM));
    if most <= soft {
        return Err(Errno(libc::EMFILE));
    }
    set_descriptor_limit(most as c_int)?;
    let new = fcntl(fd, libc::F_DUPFD_CLOEXEC, soft as c_int);
    set_descriptor_limit(soft as c_int)?;
    new
}
