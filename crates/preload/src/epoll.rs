//! `epoll`: the kernel's instance watches kernel descriptors, a set in the stack watches accelerated sockets, and a wait merges both.
//!
//! An instance gets its set when the first socket of ours is added to it; until then it is the kernel's alone.

use crate::c::sys;
use crate::desc::flag;
use crate::errno::{Errno, Result};
use crate::fd::{Entry, TABLE, Table};
use crate::lane::{self, Access, Lane};
use crate::open;
use crate::readiness;
use crate::wait::{self, AGAIN, NO_FD, Plan, TIMED_OUT};
use core::ffi::c_int;
use libc::{epoll_event, sigset_t};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::watch::{Interest, WatchError};
use tickwire_stack::{SetId, SocketKind};

/// How often the kernel is asked while a thread polls the lane.
const LOOK: Span = Span::from_micros(50);

/// A descriptor of ours in an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    epfd: c_int,
    events: u32,
    data: u64,
    /// The stack's set has it (else the kernel's instance alone).
    in_stack: bool,
    /// The kernel's instance has it too, for what comes by the kernel.
    in_kernel: bool,
}

/// What this process has registered, by descriptor. The stack's items and the kernel's instances are what counts; this remembers what
/// is needed to move a registration between them.
static REGISTRY: Mutex<Option<HashMap<c_int, Vec<Registration>>>> = Mutex::new(None);

/// The registry, locked; also held across fork.
pub(crate) fn registry() -> MutexGuard<'static, Option<HashMap<c_int, Vec<Registration>>>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(error: WatchError) -> Errno {
    Errno(match error {
        WatchError::Stale => libc::EBADF,
        WatchError::Exists => libc::EEXIST,
        WatchError::Missing => libc::ENOENT,
        WatchError::Loop => libc::ELOOP,
        WatchError::Full => libc::ENOSPC,
    })
}

/// Whether a change of an instance needs us: the descriptor is ours, or an instance with a set.
pub(crate) fn concerns(fd: c_int) -> bool {
    matches!(TABLE.get(fd), Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_))
}

/// The instance's description, made if it has none yet.
fn instance(lane: &'static Lane, epfd: c_int) -> Result<u32> {
    if let Entry::Epoll(index) = TABLE.get(epfd) {
        return Ok(index);
    }
    if !Table::fits(epfd) {
        return Err(Errno(libc::ENOSPC));
    }
    let index = lane.with(|access| {
        let slot = access.slot;
        let set = access.stack.set_create().map_err(errno)?;
        let mut descriptions = access.descriptions();
        let index = descriptions.take(flag::EPOLL, slot).ok_or(Errno(libc::ENOSPC))?;
        let mut description = descriptions.get(index);
        description.set_socket(set.into());
        // What is in it already is not known: it counts as having kernel descriptors.
        *description.claim() = 1;
        Ok(index)
    })?;
    open::enter(epfd, Entry::Epoll(index));
    Ok(index)
}

fn interest(events: u32) -> Interest {
    Interest {
        ready: readiness::interest(events),
        edge: events & libc::EPOLLET as u32 != 0,
        oneshot: events & libc::EPOLLONESHOT as u32 != 0,
    }
}

const MODES: u32 = (libc::EPOLLET | libc::EPOLLONESHOT) as u32;

/// Puts a descriptor where it belongs at this moment: into the stack's set, the kernel's instance, or both.
fn place(lane: &'static Lane, fd: c_int, entry: Entry, registration: &mut Registration, modify: bool) -> Result<()> {
    let Registration { epfd, events, data, .. } = *registration;
    let set_index = instance(lane, epfd)?;
    let index = entry.description().ok_or(Errno(libc::EBADF))?;
    let (kernel, in_stack) = lane.with(|access| {
        let set: SetId = access.descriptions().get(set_index).socket().try_into()?;
        let socket = access.descriptions().get(index).socket();
        let kernel = readiness::kernel_events(access, entry, events & !MODES);
        if socket.kind == SocketKind::None {
            return Ok((kernel, false));
        }
        let done = if modify {
            access.stack.item_modify(set, socket, fd as u64, interest(events), data)
        } else {
            access.stack.item_add(set, socket, fd as u64, interest(events), data)
        };
        done.map_err(errno)?;
        Ok((kernel, true))
    })?;
    registration.in_stack = in_stack;
    // A placeholder must not be watched at all: it would show a hang-up, which cannot be masked.
    let shadow = if in_stack && kernel == 0 && !watches_kernel(entry) { None } else { Some(kernel | events & MODES) };
    match shadow {
        Some(wanted) => {
            let wanted = if in_stack { wanted } else { events };
            let op = if registration.in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
            let placed = sys::epoll_ctl(epfd, op, fd, wanted, data);
            if !in_stack {
                placed?;
            }
            registration.in_kernel = true;
        }
        None if registration.in_kernel => {
            let _ = sys::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, 0, 0);
            registration.in_kernel = false;
        }
        None => {}
    }
    Ok(())
}

/// Whether the kernel's side of a socket can ever have something while the stack has the socket.
fn watches_kernel(entry: Entry) -> bool {
    matches!(entry, Entry::Udp(_) | Entry::Epoll(_))
}

/// `epoll_ctl` for a descriptor of ours.
pub(crate) fn control(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    let Some(lane) = lane::current() else { return sys::epoll_ctl(epfd, op, fd, events, data) };
    if epfd == fd {
        return Err(Errno(libc::EINVAL));
    }
    let entry = TABLE.get(fd);
    let mut guard = registry();
    let list = guard.get_or_insert_default().entry(fd).or_default();
    let known = list.iter().position(|r| r.epfd == epfd);
    match (op, known) {
        (libc::EPOLL_CTL_ADD, Some(_)) => Err(Errno(libc::EEXIST)),
        (libc::EPOLL_CTL_ADD, None) => {
            let mut registration = Registration { epfd, events, data, in_stack: false, in_kernel: false };
            place(lane, fd, entry, &mut registration, false)?;
            list.push(registration);
            Ok(())
        }
        // It was added before it was ours, or by another process: the kernel knows.
        (_, None) => sys::epoll_ctl(epfd, op, fd, events, data),
        (libc::EPOLL_CTL_MOD, Some(at)) => {
            let registration = &mut list[at];
            (registration.events, registration.data) = (events, data);
            place(lane, fd, entry, registration, registration.in_stack)
        }
        (libc::EPOLL_CTL_DEL, Some(at)) => {
            let registration = list.swap_remove(at);
            if registration.in_stack {
                let _ = lane.with(|access| remove(access, epfd, entry, fd));
            }
            if registration.in_kernel {
                sys::epoll_ctl(epfd, op, fd, 0, 0)?;
            }
            Ok(())
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn remove(access: &mut Access<'_>, epfd: c_int, entry: Entry, fd: c_int) -> Result<()> {
    let (Entry::Epoll(set), Some(index)) = (TABLE.get(epfd), entry.description()) else {
        return Err(Errno(libc::ENOENT));
    };
    let set: SetId = access.descriptions().get(set).socket().try_into()?;
    let socket = access.descriptions().get(index).socket();
    access.stack.item_delete(set, socket, fd as u64).map_err(errno)
}

/// A kernel descriptor was added to an instance that has a set: waits must ask the kernel every time.
pub(crate) fn kernel_added(epfd: c_int) {
    if let (Entry::Epoll(index), Some(lane)) = (TABLE.get(epfd), lane::current()) {
        let _ = lane.with(|access| {
            *access.descriptions().get(index).claim() = 1;
            Ok(())
        });
    }
}

/// `epoll_wait` and its kin on an instance with a set.
pub(crate) fn wait(
    epfd: c_int,
    index: u32,
    events: &mut [epoll_event],
    timeout: Option<Span>,
    mask: Option<&sigset_t>,
) -> Result<usize> {
    let Some(lane) = lane::current() else { return by_kernel(epfd, events, timeout, mask) };
    let until = timeout.map(|t| sys::now() + t);
    let mut looked = Instant::NEVER;
    let mut attempt = |access: &mut Access<'_>, force: bool| {
        let set: SetId = access.descriptions().get(index).socket().try_into()?;
        let strict = looked.is_never() && *access.descriptions().get(index).claim() != 0;
        let mut n = 0;
        // Kernel descriptors first when it is their turn, or a busy set would never let them through.
        if force || strict || access.now.since(looked) >= LOOK {
            looked = access.now;
            n = sys::epoll_take(epfd, events)?;
        }
        let room = events.len() - n;
        if room > 0 {
            access
                .stack
                .set_wait(set, room, |event| {
                    if let Some(place) = events.get_mut(n) {
                        *place = epoll_event { events: event.ready.0, u64: event.data };
                        n += 1;
                    }
                })
                .map_err(errno)?;
        }
        if n == 0 { Err(AGAIN) } else { Ok(n) }
    };
    let first = lane.with(|access| attempt(access, false));
    let answer = match first {
        Err(AGAIN) if timeout.is_some_and(|t| t.is_zero()) => Ok(0),
        Err(AGAIN) => {
            let mut fds = [NO_FD, wait::readable(epfd)];
            let mut plan = Plan { fds: &mut fds, until, mask, restart: false };
            wait::wait(lane, &mut plan, attempt)
        }
        first => first,
    };
    match answer {
        Err(TIMED_OUT) => Ok(0),
        Err(_) if lane.is_over() => by_kernel(epfd, events, until.map(|until| until.since(sys::now())), mask),
        answer => answer,
    }
}

fn by_kernel(epfd: c_int, events: &mut [epoll_event], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    let n = sys::ppoll(&mut [wait::readable(epfd)], timeout, mask)?;
    if n == 0 { Ok(0) } else { sys::epoll_take(epfd, events) }
}

/// Every registration of a description's descriptors, to be moved.
fn each_of(index: u32, mut change: impl FnMut(c_int, Entry, &mut Registration)) {
    let mut guard = registry();
    let Some(map) = guard.as_mut() else { return };
    for (&fd, list) in map.iter_mut() {
        let entry = TABLE.get(fd);
        if entry.description() == Some(index) {
            list.iter_mut().for_each(|registration| change(fd, entry, registration));
        }
    }
}

/// The stack has the socket from now on (`connect`, `listen`).
pub(crate) fn moved_to_stack(lane: &'static Lane, index: u32) {
    each_of(index, |fd, entry, registration| {
        if !registration.in_stack {
            let _ = place(lane, fd, entry, registration, false);
        }
    });
}

/// The stack has it no more; the kernel's instance watches all of it.
pub(crate) fn moved_to_kernel(index: u32) {
    each_of(index, |fd, _, registration| to_kernel(fd, registration));
}

fn to_kernel(fd: c_int, registration: &mut Registration) {
    let Registration { epfd, events, data, in_kernel, .. } = *registration;
    let op = if in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
    registration.in_kernel = sys::epoll_ctl(epfd, op, fd, events, data).is_ok();
    registration.in_stack = false;
}

/// The lane has ended: everything is the kernel's.
pub(crate) fn lane_ended() {
    let mut guard = registry();
    let Some(map) = guard.as_mut() else { return };
    for (&fd, list) in map.iter_mut() {
        list.iter_mut().filter(|r| r.in_stack).for_each(|registration| to_kernel(fd, registration));
    }
    map.clear();
}

/// A descriptor is being closed: this process forgets what it registered with it, and with it as an instance.
pub(crate) fn closing(fd: c_int) {
    let mut guard = registry();
    let Some(map) = guard.as_mut() else { return };
    map.remove(&fd);
    if matches!(TABLE.get(fd), Entry::Epoll(_)) {
        map.values_mut().for_each(|list| list.retain(|r| r.epfd != fd));
    }
}

/// An instance was duplicated: what is registered in it can be changed by either descriptor.
pub(crate) fn duplicated(old: c_int, new: c_int) {
    if !matches!(TABLE.get(old), Entry::Epoll(_)) {
        return;
    }
    let mut guard = registry();
    let Some(map) = guard.as_mut() else { return };
    for list in map.values_mut() {
        let copies: Vec<Registration> =
            list.iter().filter(|r| r.epfd == old).map(|r| Registration { epfd: new, ..*r }).collect();
        list.extend(copies);
    }
}
