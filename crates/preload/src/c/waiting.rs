//! Exports that wait: poll, select, epoll.

use super::message::span_of;
use super::{answer, export, real};
use crate::base::errno::{Errno, Result};
use crate::base::few::Few;
use crate::table::fd::{Entry, TABLE};
use crate::wait::NO_FD;
use crate::wait::epoll;
use crate::wait::epoll_wait;
use crate::wait::poll;
use core::ffi::c_int;
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use tickwire_stack::time::Span;

fn millis(timeout: c_int) -> Option<Span> {
    u64::try_from(timeout).ok().map(Span::from_millis)
}

/// The program's list.
///
/// # Safety
/// `fds` points to `count` entries.
unsafe fn list<'a>(fds: *mut pollfd, count: nfds_t) -> &'a mut [pollfd] {
    if count == 0 || fds.is_null() {
        return &mut [];
    }
    // SAFETY: by the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }
}

/// The program's events.
///
/// # Safety
/// `events` points to room for `max` entries.
unsafe fn room<'a>(events: *mut epoll_event, max: c_int) -> Result<&'a mut [epoll_event]> {
    let max = usize::try_from(max).ok().filter(|&n| n > 0).ok_or(Errno(libc::EINVAL))?;
    if events.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: by the caller's promise; entries are only written.
    Ok(unsafe { core::slice::from_raw_parts_mut(events, max) })
}

/// Waits on an instance with a set.
unsafe fn epoll_any(
    epfd: c_int,
    index: u32,
    events: *mut epoll_event,
    max: c_int,
    timeout: Option<Span>,
    mask: *const sigset_t,
) -> c_int {
    answer(|| {
        // SAFETY: the program's place, and null or the program's mask.
        let (events, mask) = unsafe { (room(events, max)?, mask.as_ref()) };
        epoll_wait::wait(epfd, index, events, timeout, mask).map(|n| n as c_int)
    })
}

/// Waits on an instance that is the kernel's alone, by the C library's `call`; it may get a set meanwhile.
///
/// # Safety
/// `events` points to room for `max` entries, `mask` is null or a mask.
unsafe fn epoll_kernels(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: Option<Span>,
    mask: *const sigset_t,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let until = timeout.map(|timeout| super::sys::now() + timeout);
    if epoll_wait::falls_asleep(epfd) {
        let told = call();
        epoll_wait::awakes(epfd);
        if told <= 0 {
            return told;
        }
        // SAFETY: the kernel has just filled in as many.
        let left = epoll_wait::for_program(unsafe { core::slice::from_raw_parts_mut(events, told as usize) });
        if left > 0 {
            return left as c_int;
        }
    }
    let timeout = until.map(|until| until.since(super::sys::now()));
    match TABLE.get(epfd) {
        // SAFETY: by the caller's promise.
        Entry::Epoll(index) => unsafe { epoll_any(epfd, index, events, max, timeout, mask) },
        _ => answer(|| {
            // SAFETY: by the caller's promise.
            let (events, mask) = unsafe { (room(events, max)?, mask.as_ref()) };
            epoll_wait::by_kernel(epfd, events, timeout, mask).map(|n| n as c_int)
        }),
    }
}

fn is_set(set: *const fd_set, fd: c_int) -> bool {
    // SAFETY: null or the program's set, which the caller checked to hold `fd`.
    !set.is_null() && unsafe { bits(set).wrapping_add(fd as usize / 8).read() } & 1 << (fd % 8) != 0
}

/// The bits as bytes: sets may be longer than `fd_set`, as programs make them for many descriptors.
fn bits(set: *const fd_set) -> *const u8 {
    set.cast()
}

/// Whether a `select` needs us.
fn select_concerns(count: c_int, sets: [*const fd_set; 3]) -> bool {
    (0..count).any(|fd| {
        matches!(TABLE.get(fd), Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_) | Entry::Dead(_))
            && sets.iter().any(|&set| is_set(set, fd))
    })
}

/// `select` by way of `poll`, with Linux's meaning of the three sets.
unsafe fn select_any(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: Option<Span>,
    mask: Option<&sigset_t>,
) -> Result<c_int> {
    const READ: i16 = libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLIN | libc::POLLHUP | libc::POLLERR;
    const WRITE: i16 = libc::POLLWRBAND | libc::POLLWRNORM | libc::POLLOUT | libc::POLLERR;
    const EXCEPT: i16 = libc::POLLPRI;
    let meaning = [READ, WRITE, EXCEPT];
    let mut fds = Few::new(NO_FD);
    for fd in 0..count {
        let events = (0..3).filter(|&i| is_set(sets[i], fd)).fold(0, |events, i| events | meaning[i]);
        if events != 0 {
            fds.push(pollfd { fd, events, revents: 0 });
        }
    }
    poll::poll(&mut fds, timeout, mask)?;
    if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
        return Err(Errno(libc::EBADF));
    }
    let mut told = 0;
    for (i, &set) in sets.iter().enumerate() {
        if set.is_null() {
            continue;
        }
        for fd in fds.iter().filter(|fd| is_set(set, fd.fd)) {
            let byte = set.cast::<u8>().wrapping_add(fd.fd as usize / 8);
            let bit = 1u8 << (fd.fd % 8);
            // SAFETY: the program's set holds this descriptor, as it was set there.
            unsafe {
                if fd.revents & meaning[i] != 0 {
                    told += 1;
                } else {
                    *byte &= !bit;
                }
            }
        }
    }
    Ok(told)
}

export! {
    /// `poll(2)`.
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        // SAFETY: the program's list.
        let fds_of_program = unsafe { list(fds, count) };
        if !poll::concerns(fds_of_program) {
            // SAFETY: the program's arguments go on unchanged.
            return unsafe { real::poll(fds, count, timeout) };
        }
        answer(|| poll::poll(fds_of_program, millis(timeout), None).map(|n| n as c_int))
    }

    /// The fortified `poll`.
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, _room: size_t) -> c_int {
        // SAFETY: the program's arguments go on unchanged.
        unsafe { poll(fds, count, timeout) }
    }

    /// `ppoll(2)`.
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: the program's list.
        let fds_of_program = unsafe { list(fds, count) };
        if !poll::concerns(fds_of_program) {
            // SAFETY: the program's arguments go on unchanged.
            return unsafe { real::ppoll(fds, count, timeout, mask) };
        }
        answer(|| {
            // SAFETY: null or the program's structures.
            let (timeout, mask) = unsafe { (timeout.as_ref(), mask.as_ref()) };
            poll::poll(fds_of_program, timeout.map(span_of).transpose()?, mask).map(|n| n as c_int)
        })
    }

    /// The fortified `ppoll`.
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, _room: size_t) -> c_int {
        // SAFETY: the program's arguments go on unchanged.
        unsafe { ppoll(fds, count, timeout, mask) }
    }

    /// `select(2)`. Linux writes the time that is left back, also when a signal ends the wait; so do we.
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int {
        if !select_concerns(count, [read, write, except]) {
            // SAFETY: the program's arguments go on unchanged.
            return unsafe { real::select(count, read, write, except, timeout) };
        }
        answer(|| {
            // SAFETY: null or the program's structure.
            let mut timeout = unsafe { timeout.as_mut() };
            let limit = timeout
                .as_ref()
                .map(|t| span_of(&timespec { tv_sec: t.tv_sec + t.tv_usec / 1_000_000, tv_nsec: t.tv_usec % 1_000_000 * 1000 }))
                .transpose()?;
            let begin = super::sys::now();
            // SAFETY: the program's sets.
            let told = unsafe { select_any(count, [read, write, except], limit, None) };
            if let (Some(left), Some(limit)) = (&mut timeout, limit) {
                let rest = limit - super::sys::now().since(begin);
                left.tv_sec = (rest.as_micros() / 1_000_000) as _;
                left.tv_usec = (rest.as_micros() % 1_000_000) as _;
            }
            told
        })
    }

    /// `pselect(2)`.
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        if !select_concerns(count, [read, write, except]) {
            // SAFETY: the program's arguments go on unchanged.
            return unsafe { real::pselect(count, read, write, except, timeout, mask) };
        }
        answer(|| {
            // SAFETY: null or the program's structures.
            unsafe {
                let limit = timeout.as_ref().map(span_of).transpose()?;
                select_any(count, [read, write, except], limit, mask.as_ref())
            }
        })
    }

    /// `epoll_create(2)`.
    fn epoll_create(size: c_int) -> c_int {
        // SAFETY: a plain number.
        let epfd = unsafe { real::epoll_create(size) };
        epoll::created(epfd);
        epfd
    }

    /// `epoll_create1(2)`.
    fn epoll_create1(flags: c_int) -> c_int {
        // SAFETY: a plain number.
        let epfd = unsafe { real::epoll_create1(flags) };
        epoll::created(epfd);
        epfd
    }

    /// `epoll_ctl(2)`.
    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        if !epoll::concerns(fd) {
            if op == libc::EPOLL_CTL_ADD {
                epoll::kernel_added(epfd);
            }
            // SAFETY: the program's arguments go on unchanged.
            return unsafe { real::epoll_ctl(epfd, op, fd, event) };
        }
        answer(|| {
            // SAFETY: null or the program's structure.
            let (events, data) = match unsafe { event.as_ref() } {
                Some(event) => (event.events, event.u64),
                None if op == libc::EPOLL_CTL_DEL => (0, 0),
                None => return Err(Errno(libc::EFAULT)),
            };
            epoll::control(epfd, op, fd, events, data).map(|()| 0)
        })
    }

    /// `epoll_wait(2)`.
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        match TABLE.get(epfd) {
            // SAFETY: the program's arguments.
            Entry::Epoll(index) => unsafe { epoll_any(epfd, index, events, max, millis(timeout), core::ptr::null()) },
            // SAFETY: the program's arguments go on unchanged.
            _ => unsafe {
                epoll_kernels(epfd, events, max, millis(timeout), core::ptr::null(), || real::epoll_wait(epfd, events, max, timeout))
            },
        }
    }

    /// `epoll_pwait(2)`.
    fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int {
        match TABLE.get(epfd) {
            // SAFETY: the program's arguments.
            Entry::Epoll(index) => unsafe { epoll_any(epfd, index, events, max, millis(timeout), mask) },
            // SAFETY: the program's arguments go on unchanged.
            _ => unsafe {
                epoll_kernels(epfd, events, max, millis(timeout), mask, || real::epoll_pwait(epfd, events, max, timeout, mask))
            },
        }
    }

    /// `epoll_pwait2(2)`.
    fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: null or the program's structure.
        let limit = match unsafe { timeout.as_ref() }.map(span_of).transpose() {
            Ok(limit) => limit,
            Err(error) => return answer(|| Err(error)),
        };
        match TABLE.get(epfd) {
            // SAFETY: the program's arguments.
            Entry::Epoll(index) => unsafe { epoll_any(epfd, index, events, max, limit, mask) },
            // SAFETY: the program's arguments go on unchanged.
            _ => unsafe {
                epoll_kernels(epfd, events, max, limit, mask, || real::epoll_pwait2(epfd, events, max, timeout, mask))
            },
        }
    }
}
