//! `poll` and `select` over descriptors of ours and of the kernel together.

use crate::c::sys;
use crate::errno::Result;
use crate::fd::{Entry, TABLE};
use crate::lane::{self, Access};
use crate::open::DEMOTED;
use crate::readiness::{self, long, short};
use crate::wait::{self, AGAIN, NO_FD, Plan, TIMED_OUT};
use libc::{pollfd, sigset_t};
use tickwire_stack::time::{Instant, Span};

/// How often the kernel is asked while a thread polls the lane.
const LOOK: Span = Span::from_micros(50);

/// Whether any of these descriptors needs us.
pub(crate) fn concerns(fds: &[pollfd]) -> bool {
    fds.iter().any(|fd| matches!(TABLE.get(fd.fd), Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_) | Entry::Dead(_)))
}

/// One place of the kernel's list: where it is in the program's.
struct Asked {
    place: usize,
    entry: Entry,
}

/// `ppoll`; says how many descriptors have something to tell.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    let Some(lane) = lane::current() else { return by_kernel(fds, timeout, mask) };
    let until = timeout.map(|t| sys::now() + t);
    let mut kernel = vec![NO_FD];
    let mut asked: Vec<Asked> = Vec::new();
    let mut foreign = false;
    lane.with(|access| {
        for (place, fd) in fds.iter().enumerate() {
            let entry = TABLE.get(fd.fd);
            let events = match entry {
                Entry::Foreign | Entry::Lane | Entry::Kernel(_) => long(fd.events),
                Entry::Dead(_) => continue,
                _ => readiness::kernel_events(access, entry, long(fd.events)),
            };
            let ours = entry.description().is_some();
            if fd.fd >= 0 && (events != 0 || !ours) {
                foreign |= !ours;
                kernel.push(pollfd { fd: fd.fd, events: short(events), revents: 0 });
                asked.push(Asked { place, entry });
            }
        }
        Ok(())
    })?;
    let mut looked = Instant::NEVER;
    // The kernel's list is lent to the wait; attempts ask with a copy.
    let mut copy = kernel.clone();
    let mut attempt = |access: &mut Access<'_>, force: bool| {
        let mut ready = stack_part(access, fds)?;
        if (ready == 0 || foreign) && (force || access.now.since(looked) >= LOOK) && copy.len() > 1 {
            looked = access.now;
            sys::ppoll(&mut copy[1..], Some(Span::ZERO), None)?;
            for (fd, Asked { place, entry }) in copy[1..].iter().zip(&asked) {
                if fd.revents == 0 {
                    continue;
                }
                ready += usize::from(fds[*place].revents == 0);
                fds[*place].revents |= fd.revents;
                if let Some(index) = entry.description() {
                    readiness::kernel_has_some(access, index);
                }
            }
        }
        if ready == 0 { Err(AGAIN) } else { Ok(ready) }
    };
    let first = lane.with(|access| attempt(access, true));
    let answer = match first {
        Err(AGAIN) if timeout.is_some_and(|t| t.is_zero()) => Ok(0),
        Err(AGAIN) => {
            let mut plan = Plan { fds: &mut kernel, until, mask, restart: false };
            wait::wait(lane, &mut plan, attempt)
        }
        first => first,
    };
    match answer {
        Err(TIMED_OUT) => Ok(0),
        // The lane ended, or a socket went to the kernel: the rest of the time is the kernel's.
        Err(DEMOTED) => by_kernel(fds, until.map(|until| until.since(sys::now())), mask),
        answer => answer,
    }
}

/// Fills in what the stack knows.
fn stack_part(access: &mut Access<'_>, fds: &mut [pollfd]) -> Result<usize> {
    let mut ready = 0;
    for fd in fds {
        let entry = TABLE.get(fd.fd);
        let told = match entry {
            Entry::Udp(index) | Entry::Tcp(index) | Entry::Epoll(index) => {
                readiness::answer(readiness::in_stack(access, index)?, long(fd.events))
            }
            Entry::Dead(_) => dead(long(fd.events)),
            _ => 0,
        };
        fd.revents = short(told);
        ready += usize::from(told != 0);
    }
    Ok(ready)
}

/// A connection whose lane ended is readable, writable and broken.
fn dead(events: u32) -> u32 {
    (events & (libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP) as u32) | (libc::POLLERR | libc::POLLHUP) as u32
}

/// Without a lane: the kernel, but for connections whose lane ended.
fn by_kernel(fds: &mut [pollfd], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    let mut ready = 0;
    for fd in fds.iter_mut() {
        if let Entry::Dead(_) = TABLE.get(fd.fd) {
            fd.revents = short(dead(long(fd.events)));
            ready += 1;
        }
    }
    if ready > 0 { Ok(ready) } else { sys::ppoll(fds, timeout, mask) }
}
