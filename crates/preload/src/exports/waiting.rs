//! Exports that wait: poll, select, epoll.

use super::message::span_of;
use super::{answer, export, signal};
use crate::base::small_vec::SmallVec;
use crate::sys::errno::{Errno, Result};
use crate::sys::{guarded, real};
use crate::table::fd::{Entry, TABLE};
use crate::table::protect;
use crate::wait::NO_FD;
use crate::wait::epoll;
use crate::wait::epoll_wait;
use crate::wait::poll;
use core::cell::Cell;
use core::ffi::c_int;
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use tickwire_stack::time::Span;

fn millis(timeout: c_int) -> Option<Span> {
    u64::try_from(timeout).ok().map(Span::from_millis)
}

/// The program's list; empty if the kernel has to refuse it, and while there was never a lane.
///
/// # Safety
/// `fds` points to `count` entries, if it is accessible at all, unless they are more than the
/// process may have descriptors.
unsafe fn list<'a>(fds: *mut pollfd, count: nfds_t) -> &'a mut [pollfd] {
    if count == 0 || !signal::guards() || crate::sys::too_many_descriptors(count) {
        return &mut [];
    }
    // SAFETY: by the caller's promise; it is accessible, as checked.
    unsafe {
        if guarded::can_write(fds, count as usize) {
            core::slice::from_raw_parts_mut(fds, count as usize)
        } else {
            &mut []
        }
    }
}

/// The program's mask, if it gives one.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// It is null or points to a mask, if it is accessible at all.
unsafe fn mask_of<'a>(mask: *const sigset_t) -> Result<Option<&'a sigset_t>> {
    // The size that the kernel reads.
    if !mask.is_null() && !guarded::can_read(mask.cast::<u64>(), 1) {
        return Err(guarded::FAULT);
    }
    // SAFETY: by the caller's promise.
    Ok(unsafe { mask.as_ref() })
}

/// The most events that one wait returns. Programs may give room for many thousands, and each page
/// of it has to be checked; the next wait returns the rest.
const MOST_TOLD: usize = 512;

/// A wait on an epoll instance, as the program requests it.
struct EpollWait {
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    mask: *const sigset_t,
}

impl EpollWait {
    /// The wait with these arguments.
    ///
    /// # Safety
    /// `events` points to room for `max` entries, `mask` is null or a mask, if they are accessible
    /// at all, for as long as the value lives.
    unsafe fn new(epfd: c_int, events: *mut epoll_event, max: c_int, mask: *const sigset_t) -> Self {
        Self { epfd, events, max, mask }
    }

    /// The accessible part of the program's room for events, and its mask.
    fn places(&mut self) -> Result<(&mut [epoll_event], Option<&sigset_t>)> {
        let max = usize::try_from(self.max).ok().filter(|&n| n > 0).ok_or(Errno(libc::EINVAL))?.min(MOST_TOLD);
        // SAFETY: by the promise of `new`, and the check of it; entries are only written.
        unsafe {
            let room = guarded::writable(self.events, max);
            if room == 0 {
                return Err(guarded::FAULT);
            }
            Ok((core::slice::from_raw_parts_mut(self.events, room), mask_of(self.mask)?))
        }
    }

    /// Waits. On an instance without a set this is the C library's `call`, the same wait. `timeout`
    /// is for the others, and may read the program's memory: there is a lane then, and unmapped
    /// memory is an error.
    fn run(mut self, timeout: impl Fn() -> Result<Option<Span>>, call: impl FnOnce() -> c_int) -> c_int {
        match TABLE.get(self.epfd) {
            Entry::Epoll(index) => answer(|| self.on_set(index, timeout()?)),
            _ => self.on_kernels(timeout, call),
        }
    }

    /// On an instance with a set.
    fn on_set(&mut self, index: u32, timeout: Option<Span>) -> Result<c_int> {
        let epfd = self.epfd;
        let (events, mask) = self.places()?;
        epoll_wait::wait(epfd, index, events, timeout, mask).map(|n| n as c_int)
    }

    /// On an instance without a set; it may get one meanwhile.
    fn on_kernels(&mut self, timeout: impl Fn() -> Result<Option<Span>>, call: impl FnOnce() -> c_int) -> c_int {
        let epfd = self.epfd;
        let begin = crate::sys::now();
        if epoll_wait::falls_asleep(epfd) {
            let told = call();
            epoll_wait::awakes(epfd);
            if told <= 0 {
                return told;
            }
            // SAFETY: the kernel has just filled in as many.
            let events = unsafe { core::slice::from_raw_parts_mut(self.events, told as usize) };
            let left = epoll_wait::for_program(events);
            if left > 0 {
                return left as c_int;
            }
        }
        // It has got a set, or had one.
        answer(|| {
            let passed = crate::sys::now().since(begin);
            let timeout = timeout()?.map(|timeout| timeout - passed);
            if let Entry::Epoll(index) = TABLE.get(epfd) {
                return self.on_set(index, timeout);
            }
            let (events, mask) = self.places()?;
            epoll_wait::by_kernel(epfd, events, timeout, mask).map(|n| n as c_int)
        })
    }
}

/// The three sets of a `select`, as bytes: they may be longer than `fd_set`, as programs make them
/// for many descriptors, and two of them may be the same.
struct Sets<'a> {
    count: c_int,
    bits: [Option<&'a [Cell<u8>]>; 3],
}

impl Sets<'_> {
    /// The program's sets: to be read, to be written, exceptional. Like Linux, this reads no more
    /// of them than the program can have open descriptors. Some programs give the most that they
    /// may open (`getdtablesize`), a million perhaps, with sets of the ordinary size. The lane's
    /// own descriptors do not count.
    ///
    /// If one is not accessible, all are empty here, and the kernel refuses them. They are also
    /// empty while there was never a lane.
    ///
    /// # Safety
    /// Each is null or, if it is accessible at all, holds `count` descriptors, or as many as there
    /// can be open. It is the caller's alone for as long as the value lives.
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Self {
        let count = if count > libc::FD_SETSIZE as c_int { count.min(protect::room_of_program()) } else { count };
        let len = usize::try_from(count).unwrap_or(0).div_ceil(8);
        // SAFETY: by the caller's promise.
        let there = |set: &*mut fd_set| set.is_null() || unsafe { guarded::can_write(set.cast::<u8>(), len) };
        let seen = signal::guards() && sets.iter().all(there);
        // SAFETY: by the caller's promise, and the check of them; bytes have no alignment.
        let part = |set: *mut fd_set| unsafe { core::slice::from_raw_parts(set.cast(), len) };
        let bits = sets.map(|set| (seen && !set.is_null()).then(|| part(set)));
        Self { count, bits }
    }

    /// Whether a set has a descriptor.
    fn has(&self, set: usize, fd: c_int) -> bool {
        self.bits[set].is_some_and(|bits| bits[fd as usize / 8].get() & 1 << (fd % 8) != 0)
    }

    /// Removes a descriptor from a set that has it.
    fn remove(&self, set: usize, fd: c_int) {
        if let Some(byte) = self.bits[set].map(|bits| &bits[fd as usize / 8]) {
            byte.set(byte.get() & !(1 << (fd % 8)));
        }
    }

    /// Whether they concern this library.
    fn concern_us(&self) -> bool {
        (0..self.count).any(|fd| poll::concerns_one(fd) && (0..3).any(|set| self.has(set, fd)))
    }

    /// `select` by way of `poll`, with Linux's meaning of the three sets.
    fn select(&self, timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<c_int> {
        const READ: i16 = libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLIN | libc::POLLHUP | libc::POLLERR;
        const WRITE: i16 = libc::POLLWRBAND | libc::POLLWRNORM | libc::POLLOUT | libc::POLLERR;
        const EXCEPT: i16 = libc::POLLPRI;
        let meaning = [READ, WRITE, EXCEPT];
        let mut fds = SmallVec::new(NO_FD);
        for fd in 0..self.count {
            let events = (0..3).filter(|&set| self.has(set, fd)).fold(0, |events, set| events | meaning[set]);
            if events != 0 {
                fds.push(pollfd { fd, events, revents: 0 });
            }
        }
        poll::poll(&mut fds, timeout, mask)?;
        if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
            return Err(Errno(libc::EBADF));
        }
        let mut told = 0;
        for (set, meaning) in meaning.into_iter().enumerate() {
            for fd in fds.iter().filter(|fd| self.has(set, fd.fd)) {
                if fd.revents & meaning != 0 {
                    told += 1;
                } else {
                    self.remove(set, fd.fd);
                }
            }
        }
        Ok(told)
    }
}

export! {
    /// `poll(2)`.
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        // SAFETY: the program's list.
        let fds_of_program = unsafe { list(fds, count) };
        if !poll::concerns(fds_of_program) {
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::poll(fds, count, timeout) };
        }
        answer(|| poll::poll(fds_of_program, millis(timeout), None).map(|n| n as c_int))
    }

    /// The fortified `poll`.
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, _room: size_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { poll(fds, count, timeout) }
    }

    /// `ppoll(2)`.
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: the program's list.
        let fds_of_program = unsafe { list(fds, count) };
        if !poll::concerns(fds_of_program) {
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::ppoll(fds, count, timeout, mask) };
        }
        answer(|| {
            // SAFETY: null or the program's structures.
            let (timeout, mask) = unsafe { (guarded::load_any(timeout)?, mask_of(mask)?) };
            poll::poll(fds_of_program, timeout.as_ref().map(span_of).transpose()?, mask).map(|n| n as c_int)
        })
    }

    /// The fortified `ppoll`.
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, _room: size_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { ppoll(fds, count, timeout, mask) }
    }

    /// `select(2)`. Like Linux, it writes the remaining time back, also when a signal ends the
    /// wait.
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int {
        // SAFETY: null or the program's sets.
        let sets = unsafe { Sets::new(count, [read, write, except]) };
        if !sets.concern_us() {
            // SAFETY: the program's arguments.
            return unsafe { real::select(sets.count, read, write, except, timeout) };
        }
        answer(|| {
            // SAFETY: null or the program's structure.
            let limit = unsafe { guarded::load_any(timeout) }?
                .map(|t| span_of(&timespec { tv_sec: t.tv_sec + t.tv_usec / 1_000_000, tv_nsec: t.tv_usec % 1_000_000 * 1000 }))
                .transpose()?;
            let begin = crate::sys::now();
            let told = sets.select(limit, None);
            if let Some(limit) = limit {
                let rest = (limit - crate::sys::now().since(begin)).as_micros();
                let left = timeval { tv_sec: (rest / 1_000_000) as _, tv_usec: (rest % 1_000_000) as _ };
                // As in Linux, a failure to write it back changes nothing.
                // SAFETY: the program's structure.
                let _ = unsafe { guarded::store(left, timeout) };
            }
            told
        })
    }

    /// `pselect(2)`.
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: null or the program's sets.
        let sets = unsafe { Sets::new(count, [read, write, except]) };
        if !sets.concern_us() {
            // SAFETY: the program's arguments.
            return unsafe { real::pselect(sets.count, read, write, except, timeout, mask) };
        }
        answer(|| {
            // SAFETY: null or the program's structures.
            let (timeout, mask) = unsafe { (guarded::load_any(timeout)?, mask_of(mask)?) };
            sets.select(timeout.as_ref().map(span_of).transpose()?, mask)
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
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::epoll_ctl(epfd, op, fd, event) };
        }
        answer(|| {
            let (events, data) = if op == libc::EPOLL_CTL_DEL {
                (0, 0)
            } else {
                // SAFETY: any bytes are such a structure.
                let event = unsafe { guarded::load(event) }?;
                (event.events, event.u64)
            };
            epoll::control(epfd, op, fd, events, data).map(|()| 0)
        })
    }

    /// `epoll_wait(2)`.
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        // SAFETY: the program's arguments, which are also passed on unchanged.
        unsafe {
            let wait = EpollWait::new(epfd, events, max, core::ptr::null());
            wait.run(|| Ok(millis(timeout)), || real::epoll_wait(epfd, events, max, timeout))
        }
    }

    /// `epoll_pwait(2)`.
    fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int {
        // SAFETY: the program's arguments, which are also passed on unchanged.
        unsafe {
            let wait = EpollWait::new(epfd, events, max, mask);
            wait.run(|| Ok(millis(timeout)), || real::epoll_pwait(epfd, events, max, timeout, mask))
        }
    }

    /// `epoll_pwait2(2)`.
    fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: null or the program's structure.
        let limit = || unsafe { guarded::load_any(timeout) }?.as_ref().map(span_of).transpose();
        // SAFETY: the program's arguments, which are also passed on unchanged.
        unsafe {
            let wait = EpollWait::new(epfd, events, max, mask);
            wait.run(limit, || real::epoll_pwait2(epfd, events, max, timeout, mask))
        }
    }
}
