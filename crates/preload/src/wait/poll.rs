//! `poll` and `select` over descriptors of ours and of the kernel together.

use crate::base::small_vec::SmallVec;
use crate::lane::{self, Access, Lane};
use crate::sys;
use crate::sys::errno::{DEMOTED, Result};
use crate::table::fd::{Entry, TABLE};
use crate::wait::readiness::{self, long, short};
use crate::wait::{self, AGAIN, KernelHint, NO_FD, OWN, TIMED_OUT, WaitPlan};
use core::ffi::c_int;
use libc::{pollfd, sigset_t};
use tickwire_linux_abi::poll::reported;
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{Ready, SocketKind};

/// Whether any of these descriptors concerns this library.
pub(crate) fn concerns(fds: &[pollfd]) -> bool {
    fds.iter().any(|fd| concerns_one(fd.fd))
}

/// Whether this one does.
pub(crate) fn concerns_one(fd: c_int) -> bool {
    match TABLE.get(fd) {
        Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_) | Entry::Dead(_) => true,
        // It may get its first socket of ours while the call waits, which the kernel would not
        // report.
        Entry::Instance(_) => lane::current().is_some(),
        Entry::Foreign | Entry::Lane | Entry::Kernel(_) | Entry::Unlisted(_) => false,
    }
}

/// One entry of the kernel's list: its index in the program's.
#[derive(Clone, Copy)]
struct Asked {
    place: u32,
    entry: Entry,
}

/// What one call asks the kernel, and what it sleeps on.
struct Lists {
    /// For the kernel: the lane's own entries, then those of the program that concern the kernel.
    kernel: SmallVec<pollfd>,
    /// Where these are in the program's list.
    asked: SmallVec<Asked>,
    /// The descriptions of the sockets and sets to sleep on.
    ours: SmallVec<u32>,
    /// An instance may get its first socket of ours, which would be a further one to sleep on.
    may_come: bool,
    /// Whether the kernel's list has a descriptor that is not of the lane.
    foreign: bool,
    /// How many sockets of a present or former lane are kernel sockets.
    kernels: usize,
}

impl Lists {
    fn new() -> Self {
        let mut kernel = SmallVec::new(NO_FD);
        (0..OWN).for_each(|_| kernel.push(NO_FD));
        let asked = SmallVec::new(Asked { place: 0, entry: Entry::Foreign });
        Self { kernel, asked, ours: SmallVec::new(0), may_come: false, foreign: false, kernels: 0 }
    }

    /// Enters the program's list.
    fn enter(&mut self, access: &mut Access<'_>, fds: &[pollfd]) {
        for (place, fd) in fds.iter().enumerate() {
            let entry = TABLE.get(fd.fd);
            let events = match entry {
                Entry::Foreign | Entry::Instance(_) | Entry::Lane | Entry::Kernel(_) | Entry::Unlisted(_) => {
                    long(fd.events)
                }
                Entry::Dead(_) => continue,
                _ => readiness::kernel_events(access, entry, long(fd.events)),
            };
            let description = entry.description();
            description.into_iter().for_each(|index| self.ours.push(index));
            self.may_come |= matches!(entry, Entry::Instance(_));
            self.kernels += usize::from(matches!(entry, Entry::Kernel(_) | Entry::Unlisted(_)));
            // The kernel reports more than the requested events: a socket that was never connected
            // has hung up.
            if fd.fd >= 0 && (events != 0 || readiness::is_kernels(access, entry)) {
                self.foreign |= description.is_none();
                self.kernel.push(pollfd { fd: fd.fd, events: short(events), revents: 0 });
                self.asked.push(Asked { place: place as u32, entry });
            }
        }
    }
}

/// `ppoll`; returns how many descriptors are ready.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    let Some(lane) = lane::current() else { return by_kernel(fds, timeout, mask) };
    let until = timeout.map(|t| sys::now() + t);
    let mut lists = Lists::new();
    let listed = lane.with(|access| {
        lists.enter(access, fds);
        Ok(())
    });
    match listed {
        Err(_) if lane.is_over() => return without(fds, timeout, mask),
        other => other?,
    }
    let kernels = lists.kernels;
    let mut looked = Instant::NEVER;
    // The wait borrows the kernel's list; attempts use a copy.
    let mut copy = lists.kernel.clone();
    let mut attempt = |access: &mut Access<'_>, kernel: KernelHint| {
        let mut ready = stack_part(access, fds, kernels)?;
        if (ready == 0 || lists.foreign) && kernel.wants_look(access.now, looked) && copy.len() > OWN {
            looked = access.now;
            ready += kernel_part(access, fds, &mut copy[OWN..], &lists.asked)?;
        }
        if ready == 0 { Err(AGAIN) } else { Ok(ready) }
    };
    let first = lane.with(|access| attempt(access, KernelHint::Speaks));
    let answer = match first {
        Err(AGAIN) if timeout.is_some_and(|t| t.is_zero()) => Ok(0),
        Err(AGAIN) => {
            let on: &[u32] = if lists.may_come { &[] } else { &lists.ours };
            let mut plan = WaitPlan { mask, restart: false, ..WaitPlan::new(on, &mut lists.kernel, until) };
            wait::wait(lane, &mut plan, attempt)
        }
        first => first,
    };
    match answer {
        Err(TIMED_OUT) => Ok(0),
        // A socket went to the kernel: the table is read again, and the other sockets stay with the
        // stack.
        Err(DEMOTED) if catch_up(lane, fds) || kernels_among(fds) > kernels => {
            poll(fds, until.map(|until| until.since(sys::now())), mask)
        }
        // The rest of the time is spent in the kernel.
        Err(_) if lane.is_over() => without(fds, until.map(|until| until.since(sys::now())), mask),
        answer => answer,
    }
}

/// Removes the sockets from the table that another process or thread has turned into kernel
/// sockets. Returns whether there were any.
fn catch_up(lane: &'static Lane, fds: &[pollfd]) -> bool {
    let mut any = false;
    for index in fds.iter().filter_map(|fd| TABLE.get(fd.fd).description()) {
        any |= (lane::observer().is_kernels)(lane, index);
    }
    any
}

/// How many of these are kernel sockets in the table.
fn kernels_among(fds: &[pollfd]) -> usize {
    fds.iter().filter(|fd| matches!(TABLE.get(fd.fd), Entry::Kernel(_) | Entry::Unlisted(_))).count()
}

/// Fills in the stack's readiness. [`DEMOTED`] if more of them are kernel sockets now than when the
/// call began (`kernels`): the kernel has not been asked about a connection that was handed over
/// meanwhile.
fn stack_part(access: &mut Access<'_>, fds: &mut [pollfd], kernels: usize) -> Result<usize> {
    let (mut ready, mut now_kernels) = (0, 0);
    for fd in fds {
        let entry = TABLE.get(fd.fd);
        let told = match entry {
            Entry::Udp(index) | Entry::Tcp(index) | Entry::Epoll(index) => {
                let (kind, ready) = readiness::in_stack(access, index)?;
                reported(kind, ready, long(fd.events))
            }
            Entry::Dead(error) => dead(error, long(fd.events)),
            Entry::Kernel(_) | Entry::Unlisted(_) => {
                now_kernels += 1;
                0
            }
            _ => 0,
        };
        fd.revents = short(told);
        ready += usize::from(told != 0);
    }
    if now_kernels > kernels {
        return Err(DEMOTED);
    }
    Ok(ready)
}

/// Fills in the kernel's readiness: `kernel` is its list, with what was `asked`. Returns how many
/// descriptors are ready that were not before.
fn kernel_part(access: &mut Access<'_>, fds: &mut [pollfd], kernel: &mut [pollfd], asked: &[Asked]) -> Result<usize> {
    sys::ppoll(kernel, Some(Span::ZERO), None)?;
    let mut ready = 0;
    for (fd, Asked { place, entry }) in kernel.iter().zip(asked) {
        if fd.revents == 0 {
            continue;
        }
        let told = &mut fds[*place as usize].revents;
        ready += usize::from(*told == 0);
        *told |= fd.revents;
        if let Some(index) = entry.description() {
            readiness::kernel_has_some(access, index);
        }
    }
    Ok(ready)
}

/// A connection whose lane ended is readable, writable and has an error; it is hung up without an
/// error once that has been returned. A descriptor that is being closed is invalid.
fn dead(error: u32, events: u32) -> u32 {
    if Entry::Dead(error) == Entry::CLOSING {
        return libc::POLLNVAL as u32;
    }
    let over = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP;
    reported(SocketKind::Tcp, if error == 0 { over } else { over | Ready::ERR }, events)
}

/// The lane has ended during the call.
#[cold]
fn without(fds: &mut [pollfd], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    crate::lane::await_ending();
    by_kernel(fds, timeout, mask)
}

/// Without a lane: the kernel's answer, except for connections whose lane ended.
fn by_kernel(fds: &mut [pollfd], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    let dead_error = |fd: &pollfd| match TABLE.get(fd.fd) {
        Entry::Dead(error) => Some(error),
        _ => None,
    };
    if !fds.iter().any(|fd| dead_error(fd).is_some()) {
        return sys::ppoll(fds, timeout, mask);
    }
    let mut others = SmallVec::new(NO_FD);
    fds.iter().for_each(|fd| others.push(if dead_error(fd).is_some() { NO_FD } else { *fd }));
    sys::ppoll(&mut others, Some(Span::ZERO), mask)?;
    for (fd, other) in fds.iter_mut().zip(&*others) {
        fd.revents = dead_error(fd).map_or(other.revents, |error| short(dead(error, long(fd.events))));
    }
    Ok(fds.iter().filter(|fd| fd.revents != 0).count())
}
