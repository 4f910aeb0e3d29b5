//! Registrations in `epoll` instances: the kernel's instance watches kernel descriptors, a set in
//! the stack watches accelerated sockets, and a wait (`epoll_wait`) merges both.
//!
//! An instance gets its set when the first socket of ours is added to it; until then it is only a
//! kernel instance. All its descriptors get the set, and so do the instances that contain it.
//! Threads that are asleep in it at that moment are woken.

use crate::base::locked::{Lock, Locked, SignalDeferral};
use crate::lane::{self, Access, Lane};
use crate::sys;
use crate::sys::errno::{Errno, Result};
use crate::table::counts;
use crate::table::desc::flag;
use crate::table::fd::{Entry, LIMIT, TABLE};
use crate::wait::epoll_wait::{rouse, shadow_of};
use crate::wait::readiness;
use core::ffi::c_int;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::cell::Cell;
use std::collections::HashMap;
use tickwire_linux_abi::poll;
use tickwire_stack::{SetId, SocketKind};

/// A descriptor of ours in an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    epfd: c_int,
    events: u32,
    data: u64,
    /// The stack's set contains it (else only the kernel's instance does).
    in_stack: bool,
    /// The kernel's instance contains it too, for data that arrives through the kernel.
    in_kernel: bool,
}

/// Registrations by descriptor. The stack's items and the kernel's instances are authoritative;
/// this map keeps what is needed to move a registration between them.
type Map = HashMap<c_int, Vec<Registration>>;

/// What this process has registered.
static REGISTRY: Lock<Option<Map>> = Lock::new(None);

/// Whether the calling thread holds the registry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Free,
    Held,
    /// Held, and the lane has ended meanwhile: handled when the registry is released.
    Ended,
}

thread_local! {
    static HOLD: Cell<Hold> = const { Cell::new(Hold::Free) };
}

/// The registry, locked. Any call into the lane while it is held may find that the lane has ended,
/// which also affects the registry.
pub(crate) struct Registry {
    lock: Option<Locked<'static, Option<Map>>>,
    /// Kept until everything that happened meanwhile is handled.
    _holding: SignalDeferral,
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
    let holding = SignalDeferral::new();
    let lock = REGISTRY.lock();
    HOLD.set(Hold::Held);
    Registry { lock: Some(lock), _holding: holding }
}

/// Whether a change of an instance concerns this library: the descriptor is ours, or an instance.
pub(crate) fn concerns(fd: c_int) -> bool {
    let entry = TABLE.get(fd);
    entry.description().is_some() || matches!(entry, Entry::Instance(_) | Entry::CLOSING)
}

/// The next instance's number.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The program has made an instance.
pub(crate) fn created(epfd: c_int) {
    TABLE.set(epfd, Entry::Instance(NUMBER.fetch_add(1, Relaxed)));
}

/// Whether an instance has a set in the stack.
pub(crate) fn has_set(epfd: c_int) -> bool {
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
        // Perhaps an instance whose creation the library did not see: an instance answers that it
        // does not contain the doorbell.
        _ => match sys::epoll_ctl(epfd, libc::EPOLL_CTL_MOD, lane.descriptors().1, 0, 0) {
            Ok(()) | Err(Errno(libc::ENOENT)) => {}
            Err(error) => return Err(error),
        },
    }
    let index = lane.with(|access| {
        let slot = access.slot;
        let set = access.stack.set_create()?;
        let mut descriptions = access.descriptions();
        let index = descriptions.take(flag::EPOLL, slot).ok_or(Errno(libc::ENOSPC))?;
        let mut description = descriptions.get(index);
        description.set_socket(set.into());
        // Its present content is unknown: it counts as having kernel descriptors.
        *description.claim() = 1;
        Ok(index)
    })?;
    let all: Vec<c_int> = match before {
        Entry::Instance(_) => TABLE.each().filter(|&(_, entry)| entry == before).map(|(fd, _)| fd).collect(),
        _ => vec![epfd],
    };
    all.iter().for_each(|&fd| counts::enter(fd, Entry::Epoll(index)));
    rouse(&all);
    Ok(index)
}

/// Something to read.
pub(crate) const IN: u32 = libc::EPOLLIN as u32;
const MODES: u32 = (libc::EPOLLET | libc::EPOLLONESHOT) as u32;
/// What may be asked for together with `EPOLLEXCLUSIVE`.
const EXCLUSIVE_WITH: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLWAKEUP | libc::EPOLLET) as u32;

/// Registers a descriptor where it belongs at this moment: in the stack's set, the kernel's
/// instance, or both.
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
            access.stack.item_modify(set, socket, fd as u64, poll::interest(events), data)
        } else {
            access.stack.item_add(set, socket, fd as u64, poll::interest(events), data)
        };
        done?;
        Ok((kernel, true))
    })?;
    registration.in_stack = in_stack;
    // A placeholder must not be watched at all: it would report a hang-up, which cannot be masked.
    let shadow = if in_stack && kernel == 0 && !watches_kernel(entry) { None } else { Some(kernel | events & MODES) };
    match shadow {
        Some(wanted) => {
            let wanted = if in_stack { wanted } else { events };
            let op = if registration.in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
            let placed = sys::epoll_ctl(epfd, op, fd, wanted, if in_stack { shadow_of(index, fd) } else { data });
            // The kernel knows which instance contains which, also for instances without a set: it
            // refuses a cycle.
            if let Err(error) = placed
                && (!in_stack || matches!(entry, Entry::Epoll(_)))
            {
                if in_stack && !modify {
                    registration.in_stack = false;
                    let _ = lane.with(|access| remove(access, epfd, entry, fd));
                }
                return Err(error);
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

/// Whether the kernel socket can ever have an event while the stack has the socket.
fn watches_kernel(entry: Entry) -> bool {
    matches!(entry, Entry::Udp(_) | Entry::Epoll(_))
}

/// `epoll_ctl` for a descriptor of ours, or an instance.
pub(crate) fn control(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    let lane = lane::current();
    match control_now(epfd, op, fd, events, data) {
        // The lane has ended during the call.
        Err(Errno(libc::ENETDOWN)) if lane.is_some_and(Lane::is_over) => {
            lane::await_ending();
            control_now(epfd, op, fd, events, data)
        }
        done => done,
    }
}

fn control_now(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    if let Entry::Instance(_) = TABLE.open(fd)? {
        return nested(epfd, op, fd, events, data);
    }
    let Some(lane) = lane::current() else { return sys::epoll_ctl(epfd, op, fd, events, data) };
    if epfd == fd {
        return Err(Errno(libc::EINVAL));
    }
    let mut guard = registry();
    // Under the registry lock, or another thread could close it before it is registered.
    let entry = TABLE.open(fd)?;
    if entry.description().is_none() {
        drop(guard);
        sys::epoll_ctl(epfd, op, fd, events, data)?;
        if op == libc::EPOLL_CTL_ADD {
            kernel_added(epfd);
        }
        return Ok(());
    }
    let map = guard.map();
    let had_set = has_set(epfd);
    let done = change(lane, map.entry(fd).or_default(), op, fd, entry, (epfd, events, data));
    if !had_set && has_set(epfd) {
        rises(lane, map, epfd);
    }
    done
}

/// Whether `EPOLLEXCLUSIVE` is used as epoll_ctl(2) allows it: when a descriptor that is no
/// instance is added, with few other events, and without later changes. `before`: the events of the
/// previous registration.
fn is_exclusive_as_allowed(op: c_int, entry: Entry, events: u32, before: Option<u32>) -> bool {
    let exclusive = |events: u32| events & libc::EPOLLEXCLUSIVE as u32 != 0;
    match op {
        libc::EPOLL_CTL_ADD if exclusive(events) => {
            !matches!(entry, Entry::Epoll(_)) && events & !EXCLUSIVE_WITH & !(libc::EPOLLEXCLUSIVE as u32) == 0
        }
        libc::EPOLL_CTL_MOD => !exclusive(events) && !before.is_some_and(exclusive),
        _ => true,
    }
}

/// Changes one of a descriptor's registrations: its instance, events and data.
fn change(
    lane: &'static Lane,
    list: &mut Vec<Registration>,
    op: c_int,
    fd: c_int,
    entry: Entry,
    (epfd, events, data): (c_int, u32, u64),
) -> Result<()> {
    let known = list.iter().position(|r| same(r.epfd, epfd));
    if !is_exclusive_as_allowed(op, entry, events, known.map(|at| list[at].events)) {
        return Err(Errno(libc::EINVAL));
    }
    match (op, known) {
        (libc::EPOLL_CTL_ADD, Some(_)) => Err(Errno(libc::EEXIST)),
        (libc::EPOLL_CTL_ADD, None) => {
            let mut registration = Registration { epfd, events, data, in_stack: false, in_kernel: false };
            place(lane, fd, entry, &mut registration, false)?;
            list.push(registration);
            Ok(())
        }
        // It was added before it was ours, or by another process: only the kernel knows it.
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

/// `epoll_ctl` for an instance without a set: handled by the kernel, but recorded for the case that
/// it gets a set.
fn nested(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    sys::epoll_ctl(epfd, op, fd, events, data)?;
    if op == libc::EPOLL_CTL_ADD {
        kernel_added(epfd);
    }
    if lane::is_stray() {
        return Ok(());
    }
    let mut guard = registry();
    if !matches!(TABLE.get(fd), Entry::Instance(_) | Entry::Epoll(_)) {
        return Ok(()); // another thread has closed it
    }
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

/// An instance has got a set: the instances that contain it need one, too, and their sets contain
/// it.
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
    Ok(access.stack.item_delete(set, socket, fd as u64)?)
}

/// A kernel descriptor was added to an instance that has a set: each wait must check the kernel.
pub(crate) fn kernel_added(epfd: c_int) {
    if let (Entry::Epoll(index), Some(lane)) = (TABLE.get(epfd), lane::current()) {
        let _ = lane.with(|access| {
            *access.descriptions().get(index).claim() = 1;
            Ok(())
        });
    }
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

/// The socket is about to leave the stack for the kernel: a one-shot registration that has fired
/// (`EPOLLONESHOT`) stays disabled there until the program rearms it.
pub(crate) fn about_to_leave(lane: &'static Lane, index: u32) {
    each_of(index, |fd, _, registration| {
        let once = registration.events & libc::EPOLLONESHOT as u32 != 0;
        if registration.in_stack && once && is_quiet(lane, registration.epfd, index, fd) == Ok(true) {
            registration.events &= MODES;
        }
    });
}

fn is_quiet(lane: &'static Lane, epfd: c_int, index: u32, fd: c_int) -> Result<bool> {
    let set_index = instance(lane, epfd)?;
    lane.with(|access| {
        let set: SetId = access.descriptions().get(set_index).socket().try_into()?;
        let socket = access.descriptions().get(index).socket();
        Ok(access.stack.item_is_quiet(set, socket, fd as u64)?)
    })
}

/// The lane's stack does not have it any more; the kernel's instance watches it alone.
pub(crate) fn moved_to_kernel(lane: &'static Lane, index: u32) {
    each_of(index, |fd, _, registration| {
        // Otherwise the index may be that of a socket of the next lane, or of one that has been
        // made or connected since.
        let ending = lane::teardown::hold();
        if ending.is_some() && !lane.is_over() && lane.with(|access| Ok(is_in_stack(access, index))) != Ok(true) {
            to_kernel(fd, registration);
        }
    });
}

fn is_in_stack(access: &mut Access<'_>, index: u32) -> bool {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    !description.has(flag::KERNEL) && description.socket().kind != SocketKind::None
}

fn to_kernel(fd: c_int, registration: &mut Registration) {
    let Registration { epfd, events, data, in_kernel, .. } = *registration;
    let op = if in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
    let placed = match sys::epoll_ctl(epfd, op, fd, events, data) {
        // The instance contained another socket under this number, which this one has replaced.
        Err(Errno(libc::ENOENT)) => sys::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, events, data),
        done => done,
    };
    registration.in_kernel = placed.is_ok();
    registration.in_stack = false;
    kernel_added(epfd);
}

/// The lane has ended: all registrations move to the kernel.
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

/// Forgets everything, in a child that has no share in its parent's lane. The registry may have
/// been locked when the child was forked, and then stays so: returns false. (The kernel's instances
/// are shared with the parent.)
pub(crate) fn abandon() -> bool {
    REGISTRY.try_lock().map(|mut registry| *registry = None).is_some()
}

/// `change` makes a descriptor refer to something else, and returns what it referred to before.
/// This process forgets the registrations of that. If it was the last descriptor of an instance, it
/// also forgets the registrations with the instance. This is atomic for threads that register.
pub(crate) fn changing(fd: c_int, change: impl FnOnce() -> Option<Entry>) -> Option<Entry> {
    if HOLD.get() != Hold::Free || lane::is_stray() {
        // A signal handler that interrupted this thread here cannot wait for it; forgetting too
        // late does no harm. What a stray child inherited is its parent's, and is forgotten with
        // its first socket.
        return change();
    }
    let mut guard = registry();
    let before = change()?;
    let Some(map) = guard.as_mut() else { return Some(before) };
    // A signal handler that has interrupted the allocator may close it, so the list is not freed.
    if let Some(list) = map.get_mut(&fd) {
        list.clear();
    }
    if matches!(before, Entry::Epoll(_) | Entry::Instance(_)) {
        let other = TABLE.each().find(|&(other, of)| other != fd && of == before).map(|(other, _)| other);
        for list in map.values_mut() {
            match other {
                Some(other) => list.iter_mut().filter(|r| r.epfd == fd).for_each(|r| r.epfd = other),
                None => list.retain(|r| r.epfd != fd),
            }
        }
    }
    Some(before)
}
