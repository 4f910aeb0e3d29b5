//! `epoll`: the kernel's instance watches kernel descriptors, a set in the stack watches accelerated sockets, and a wait merges both.
//!
//! An instance gets its set when the first socket of ours is added to it; until then it is the kernel's alone. All its descriptors get
//! the set, and so do the instances that contain it; threads that are asleep in it by then are woken.

use crate::c::sys;
use crate::desc::flag;
use crate::errno::{Errno, Result};
use crate::fd::{Entry, LIMIT, TABLE};
use crate::lane::{self, Access, Lane};
use crate::locked::{Holding, Lock, Locked};
use crate::open::{self, DEMOTED};
use crate::readiness;
use crate::wait::{self, AGAIN, NO_FD, Plan, TIMED_OUT};
use core::ffi::c_int;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst, fence};
use libc::{epoll_event, sigset_t};
use std::cell::Cell;
use std::collections::HashMap;
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::watch::{Interest, WatchError};
use tickwire_stack::{Ready, SetId, SocketKind};

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

/// Registrations by descriptor. The stack's items and the kernel's instances are what counts; this remembers what is needed to move a
/// registration between them.
type Map = HashMap<c_int, Vec<Registration>>;

/// What this process has registered.
static REGISTRY: Lock<Option<Map>> = Lock::new(None);

/// What the calling thread has to do with the registry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Free,
    Held,
    /// Held, and the lane has ended meanwhile: to be dealt with when it is let go of.
    Ended,
}

thread_local! {
    static HOLD: Cell<Hold> = const { Cell::new(Hold::Free) };
}

/// The registry, locked. Any call into the lane while it is held may find that the lane has ended, which concerns the registry itself.
pub(crate) struct Registry {
    lock: Option<Locked<'static, Option<Map>>>,
    /// Until all has been dealt with that came meanwhile.
    _holding: Holding,
}

impl Registry {
    fn map(&mut self) -> &mut Map {
        self.get_or_insert_default()
    }
}

impl Deref for Registry {
    type Target = Option<Map>;
    fn deref(&self) -> &Option<Map> {
        self.lock.as_ref().map_or(&None, |guard| &**guard)
    }
}

impl DerefMut for Registry {
    fn deref_mut(&mut self) -> &mut Option<Map> {
        self.lock.get_or_insert_with(|| REGISTRY.lock())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.lock.take());
        if HOLD.replace(Hold::Free) == Hold::Ended {
            lane_ended();
        }
    }
}

/// Locks the registry; also held across fork.
pub(crate) fn registry() -> Registry {
    let holding = Holding::new();
    let lock = REGISTRY.lock();
    HOLD.set(Hold::Held);
    Registry { lock: Some(lock), _holding: holding }
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

/// Whether a change of an instance needs us: the descriptor is ours, or an instance.
pub(crate) fn concerns(fd: c_int) -> bool {
    matches!(TABLE.get(fd), Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_) | Entry::Instance(_))
}

/// The next instance's number.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The program has made an instance.
pub(crate) fn created(epfd: c_int) {
    TABLE.set(epfd, Entry::Instance(NUMBER.fetch_add(1, Relaxed)));
}

fn has_set(epfd: c_int) -> bool {
    matches!(TABLE.get(epfd), Entry::Epoll(_))
}

/// Whether two descriptors are of one instance.
fn same(a: c_int, b: c_int) -> bool {
    a == b
        || match TABLE.get(a) {
            entry @ (Entry::Epoll(_) | Entry::Instance(_)) => entry == TABLE.get(b),
            _ => false,
        }
}

/// The instance's description, made if it has none yet.
fn instance(lane: &'static Lane, epfd: c_int) -> Result<u32> {
    let before = TABLE.get(epfd);
    match before {
        Entry::Epoll(index) => return Ok(index),
        _ if epfd >= LIMIT as c_int => return Err(Errno(libc::ENOSPC)),
        Entry::Instance(_) => {}
        // Perhaps an instance that we have not seen being made: one answers that it does not contain the doorbell.
        _ => match sys::epoll_ctl(epfd, libc::EPOLL_CTL_MOD, lane.descriptors().1, 0, 0) {
            Ok(()) | Err(Errno(libc::ENOENT)) => {}
            Err(error) => return Err(error),
        },
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
    let all: Vec<c_int> = match before {
        Entry::Instance(_) => TABLE.each().filter(|&(_, entry)| entry == before).map(|(fd, _)| fd).collect(),
        _ => vec![epfd],
    };
    all.iter().for_each(|&fd| open::enter(fd, Entry::Epoll(index)));
    rouse(&all);
    Ok(index)
}

/// How many threads of this process sleep in the kernel's wait on each descriptor.
static ASLEEP: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];
/// One more than the highest descriptor that any thread ever slept on.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// What the event carries that rouses sleeping threads.
const MARK: u64 = u64::from_le_bytes(*b"tickwire");
/// How long a thread may take to wake up. (One that never does has left its wait by a jump out of a signal handler.)
const AWAKENING: Span = Span::from_secs(1);
/// How often it is looked whether all have.
const LOOK_AGAIN: Span = Span::from_micros(20);

/// Before the kernel's wait on an instance without a set. False if it has one by now; whoever gives it one later wakes the caller.
pub(crate) fn falls_asleep(epfd: c_int) -> bool {
    let Some(count) = ASLEEP.get(epfd as usize) else { return true };
    HIGHEST.fetch_max(epfd as u32 + 1, Relaxed);
    count.fetch_add(1, Relaxed);
    // Either `rouse` sees the count, or we see the set.
    fence(SeqCst);
    if has_set(epfd) {
        awakes(epfd);
        return false;
    }
    true
}

/// After the kernel's wait.
pub(crate) fn awakes(epfd: c_int) {
    if let Some(count) = ASLEEP.get(epfd as usize) {
        let _ = count.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
    }
}

/// In a forked child, which has none of its parent's other threads.
pub(crate) fn forget_sleepers() {
    ASLEEP.iter().take(HIGHEST.load(Relaxed) as usize).for_each(|count| count.store(0, Relaxed));
}

/// Wakes the threads that sleep in the kernel's wait on an instance that has just got a set: nothing that comes by the lane would. A
/// descriptor that is readable is put into the instance until all have left.
fn rouse(all: &[c_int]) {
    fence(SeqCst);
    let asleep = || all.iter().any(|&fd| ASLEEP[fd as usize].load(Acquire) != 0);
    if !asleep() {
        return;
    }
    let Ok(bell) = sys::eventfd() else { return };
    sys::ring(bell);
    if sys::epoll_ctl(all[0], libc::EPOLL_CTL_ADD, bell, IN, MARK).is_ok() {
        let until = sys::now() + AWAKENING;
        while asleep() && sys::now() < until {
            let _ = sys::ppoll(&mut [], Some(LOOK_AGAIN), None);
        }
        let _ = sys::epoll_ctl(all[0], libc::EPOLL_CTL_DEL, bell, 0, 0);
    }
    sys::close(bell);
    all.iter().for_each(|&fd| ASLEEP[fd as usize].store(0, Relaxed));
}

/// The upper half of what the kernel's instance tells of a socket that the stack's set has, too. No pointer of a program begins like it.
const SHADOW: u64 = 0x7469_636b << 32;

/// What the kernel's instance is given to tell, instead of the program's own data: which item of the set it is for.
fn shadow_of(index: u32, fd: c_int) -> u64 {
    SHADOW | u64::from(index & 0xffff) << 16 | fd as u64 & 0xffff
}

/// The description and the descriptor of a [`shadow_of`].
fn from_shadow(data: u64) -> Option<(u32, u64)> {
    (data & !0xffff_ffff == SHADOW).then_some(((data >> 16) as u32 & 0xffff, data & 0xffff))
}

/// Turns what the kernel told of our sockets into what the program is to hear: both sides of a socket are one item, which is told once where once was
/// asked for. Says how many events are left, and which socket, if any, has become the kernel's without our knowing.
fn translate(access: &mut Access<'_>, set: SetId, events: &mut [epoll_event]) -> (usize, Option<u32>) {
    let (mut kept, mut demoted) = (0, None);
    for at in 0..events.len() {
        let event = events[at];
        let told = match from_shadow(event.u64) {
            None => Some(event),
            Some((index, key)) => {
                let mut descriptions = access.descriptions();
                let description = descriptions.get(index);
                if description.has(flag::KERNEL) {
                    demoted = Some(index);
                }
                let socket = description.socket();
                let report = access.stack.item_report(set, socket, key, Ready(event.events)).ok().flatten();
                report.map(|event| epoll_event { events: event.ready.0, u64: event.data })
            }
        };
        if let Some(told) = told {
            events[kept] = told;
            kept += 1;
        }
    }
    (kept, demoted)
}

/// Takes events out that are not wanted. Says how many are left.
fn without(events: &mut [epoll_event], unwanted: impl Fn(u64) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..events.len() {
        let event = events[at];
        if !unwanted(event.u64) {
            events[kept] = event;
            kept += 1;
        }
    }
    kept
}

/// Takes what is not for the program out of the events of an instance that is the kernel's alone. Says how many are left.
pub(crate) fn for_program(events: &mut [epoll_event]) -> usize {
    without(events, |data| data == MARK || from_shadow(data).is_some())
}

/// What the kernel's instance has ready now.
fn take(epfd: c_int, events: &mut [epoll_event]) -> Result<usize> {
    let n = sys::epoll_take(epfd, events)?;
    Ok(without(&mut events[..n], |data| data == MARK))
}

fn interest(events: u32) -> Interest {
    Interest {
        ready: readiness::interest(events),
        edge: events & libc::EPOLLET as u32 != 0,
        oneshot: events & libc::EPOLLONESHOT as u32 != 0,
    }
}

const IN: u32 = libc::EPOLLIN as u32;
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
            let placed = sys::epoll_ctl(epfd, op, fd, wanted, if in_stack { shadow_of(index, fd) } else { data });
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

/// `epoll_ctl` for a descriptor of ours, or an instance.
pub(crate) fn control(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    let entry = TABLE.get(fd);
    if let Entry::Instance(_) = entry {
        return nested(epfd, op, fd, events, data);
    }
    let Some(lane) = lane::current() else { return sys::epoll_ctl(epfd, op, fd, events, data) };
    if epfd == fd {
        return Err(Errno(libc::EINVAL));
    }
    let mut guard = registry();
    let map = guard.map();
    let had_set = has_set(epfd);
    let done = change(lane, map.entry(fd).or_default(), op, fd, entry, (epfd, events, data));
    if !had_set && has_set(epfd) {
        rises(lane, map, epfd);
    }
    done
}

/// Changes one of a descriptor's registrations: with which instance, for what, and what it is told by.
fn change(
    lane: &'static Lane,
    list: &mut Vec<Registration>,
    op: c_int,
    fd: c_int,
    entry: Entry,
    (epfd, events, data): (c_int, u32, u64),
) -> Result<()> {
    let known = list.iter().position(|r| same(r.epfd, epfd));
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

/// `epoll_ctl` for an instance without a set: the kernel's, but remembered for the day on which it gets one.
fn nested(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    sys::epoll_ctl(epfd, op, fd, events, data)?;
    if op == libc::EPOLL_CTL_ADD {
        kernel_added(epfd);
    }
    let mut guard = registry();
    let list = guard.map().entry(fd).or_default();
    match (op, list.iter().position(|r| same(r.epfd, epfd))) {
        (libc::EPOLL_CTL_ADD, None) => {
            list.push(Registration { epfd, events, data, in_stack: false, in_kernel: true });
        }
        (libc::EPOLL_CTL_MOD, Some(at)) => (list[at].events, list[at].data) = (events, data),
        (libc::EPOLL_CTL_DEL, Some(at)) => drop(list.swap_remove(at)),
        _ => {}
    }
    Ok(())
}

/// An instance has got a set: those that contain it need one, too, and theirs contain it.
fn rises(lane: &'static Lane, map: &mut Map, epfd: c_int) {
    let mut work = vec![epfd];
    while let Some(inner) = work.pop() {
        for (&fd, list) in map.iter_mut().filter(|(fd, _)| same(**fd, inner)) {
            for registration in list.iter_mut().filter(|r| !r.in_stack) {
                let outer = registration.epfd;
                let had_set = has_set(outer);
                let _ = place(lane, fd, TABLE.get(fd), registration, false);
                if !had_set && has_set(outer) {
                    work.push(outer);
                }
            }
        }
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
    let mut stray = None;
    let answer = wait_for(lane, (epfd, index), events, (until, mask), Some(&mut stray));
    match (answer, stray) {
        (Err(DEMOTED), Some(demoted)) => {
            crate::ops::catch_up(demoted);
            wait_for(lane, (epfd, index), events, (until, mask), None)
        }
        (answer, _) => answer,
    }
}

/// As [`wait()`]. Ends with [`DEMOTED`] if nothing is ready but a socket that has become the kernel's elsewhere, if the caller wants to know which.
fn wait_for(
    lane: &'static Lane,
    (epfd, index): (c_int, u32),
    events: &mut [epoll_event],
    (until, mask): (Option<Instant>, Option<&sigset_t>),
    mut stray: Option<&mut Option<u32>>,
) -> Result<usize> {
    let mut looked = Instant::NEVER;
    let mut attempt = |access: &mut Access<'_>, force: bool| {
        let set: SetId = access.descriptions().get(index).socket().try_into()?;
        let strict = looked.is_never() && *access.descriptions().get(index).claim() != 0;
        let mut n = 0;
        // Kernel descriptors first when it is their turn, or a busy set would never let them through.
        if force || strict || access.now.since(looked) >= wait::LOOK {
            looked = access.now;
            n = take(epfd, events)?;
            if n > 0 {
                readiness::kernel_spoke(access.now);
                let (told, demoted) = translate(access, set, &mut events[..n]);
                n = told;
                if let (0, Some(_), Some(stray)) = (n, demoted, &mut stray) {
                    **stray = demoted;
                    return Err(DEMOTED);
                }
            }
        }
        let from_kernel = n;
        let room = events.len() - n;
        if room > 0 {
            access
                .stack
                .set_wait(set, room, |event| {
                    // A UDP socket that is ready on both sides is one descriptor, so one event. Descriptors that share their data
                    // cannot be told apart by the program either.
                    let (before, _) = events.split_at_mut(from_kernel);
                    if let Some(same) = before.iter_mut().find(|told| told.u64 == event.data) {
                        same.events |= event.ready.0;
                    } else if let Some(place) = events.get_mut(n) {
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
        Err(AGAIN) if until.is_some_and(|until| until <= sys::now()) => Ok(0),
        Err(AGAIN) => {
            let mut fds = [NO_FD, NO_FD, wait::readable(epfd)];
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

/// A wait in the kernel's instance alone.
pub(crate) fn by_kernel(
    epfd: c_int,
    events: &mut [epoll_event],
    timeout: Option<Span>,
    mask: Option<&sigset_t>,
) -> Result<usize> {
    let n = sys::ppoll(&mut [wait::readable(epfd)], timeout, mask)?;
    if n == 0 {
        return Ok(0);
    }
    let n = take(epfd, events)?;
    Ok(for_program(&mut events[..n]))
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
    if HOLD.get() != Hold::Free {
        return HOLD.set(Hold::Ended);
    }
    let mut guard = registry();
    let Some(map) = guard.as_mut() else { return };
    for (&fd, list) in map.iter_mut() {
        list.iter_mut().filter(|r| r.in_stack).for_each(|registration| to_kernel(fd, registration));
    }
    map.clear();
}

/// Forgets everything, in a child that has no part in its parent's lane, and before whose birth the registry may have been locked for
/// ever. (The kernel's instances are the parent's, too.)
pub(crate) fn abandon() {
    if let Some(mut registry) = REGISTRY.try_lock() {
        *registry = None;
    }
}

/// A descriptor is being closed: this process forgets what it registered with it, and with it as an instance's last.
pub(crate) fn closing(fd: c_int) {
    if HOLD.get() != Hold::Free {
        // A signal handler that interrupted us in here cannot wait for us; what is forgotten too late harms nobody.
        return;
    }
    let mut guard = registry();
    let Some(map) = guard.as_mut() else { return };
    map.remove(&fd);
    let entry = TABLE.get(fd);
    if matches!(entry, Entry::Epoll(_) | Entry::Instance(_)) {
        let other = TABLE.each().find(|&(other, of)| other != fd && of == entry).map(|(other, _)| other);
        for list in map.values_mut() {
            match other {
                Some(other) => list.iter_mut().filter(|r| r.epfd == fd).for_each(|r| r.epfd = other),
                None => list.retain(|r| r.epfd != fd),
            }
        }
    }
}
