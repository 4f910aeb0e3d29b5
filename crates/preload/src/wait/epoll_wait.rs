//! Waiting on an `epoll` instance: the ready items of the stack's set and of the kernel's instance,
//! as one list of events.

use crate::base::small_vec::SmallVec;
use crate::lane::{self, Access, Lane};
use crate::sys;
use crate::sys::errno::{DEMOTED, Errno, Result};
use crate::table::desc::flag;
use crate::table::fd::{Entry, LIMIT, TABLE};
use crate::wait::epoll::{IN, has_set};
use crate::wait::readiness;
use crate::wait::{self, AGAIN, KernelHint, TIMED_OUT, WaitPlan};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst, fence};
use libc::{epoll_event, sigset_t};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{Ready, SetId};

/// How many threads of this process sleep in the kernel's wait on each descriptor.
static ASLEEP: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];
/// One more than the highest descriptor that any thread ever slept on.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// The data of the event that wakes sleeping threads.
const MARK: u64 = u64::from_le_bytes(*b"tickwire");
/// How long a thread may take to wake up. (One that never does has left its wait by a jump out of a
/// signal handler.)
const AWAKENING: Span = Span::from_secs(1);
/// The interval of checks whether all have woken.
const LOOK_AGAIN: Span = Span::from_micros(20);

/// Before the kernel's wait on an instance without a set. False if it has one by now; a thread that
/// gives it one later wakes the caller.
pub(crate) fn falls_asleep(epfd: c_int) -> bool {
    let Some(count) = ASLEEP.get(epfd as usize) else { return true };
    HIGHEST.fetch_max(epfd as u32 + 1, Relaxed);
    count.fetch_add(1, Relaxed);
    // Either `rouse` sees the count, or this thread sees the set.
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

/// Wakes the threads that sleep in the kernel's wait on an instance that has just got a set:
/// packets of the lane would not wake them. A readable descriptor is added to the instance until
/// all have left.
pub(crate) fn rouse(all: &[c_int]) {
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

/// The upper half of the event data in the kernel's instance for a socket that the stack's set
/// contains, too. No pointer of a program begins with it.
const SHADOW: u64 = 0x7469_636b << 32;

/// The event data for the kernel's instance, instead of the program's own: it names the item of the
/// set.
pub(crate) fn shadow_of(index: u32, fd: c_int) -> u64 {
    SHADOW | u64::from(index & 0xffff) << 16 | fd as u64 & 0xffff
}

/// The description and the descriptor of a [`shadow_of`].
fn from_shadow(data: u64) -> Option<(u32, u64)> {
    (data & !0xffff_ffff == SHADOW).then_some(((data >> 16) as u32 & 0xffff, data & 0xffff))
}

/// Translates the kernel's events of our sockets into the program's events. Both sides of a socket
/// are one item, which is reported once if it is one-shot. Returns how many events are left.
/// `strays` are the sockets that have become kernel sockets without this process knowing it: their
/// events come again once they are registered with the program's own data in the kernel's instance.
fn translate(access: &mut Access<'_>, set: SetId, events: &mut [epoll_event], strays: &mut SmallVec<u32>) -> usize {
    let mut kept = 0;
    for at in 0..events.len() {
        let event = events[at];
        let reported = match from_shadow(event.u64) {
            None => Some(event),
            Some((index, key)) => {
                let mut descriptions = access.descriptions();
                let description = descriptions.get(index);
                if description.has(flag::KERNEL) && !strays.contains(&index) {
                    strays.push(index);
                }
                let socket = description.socket();
                let report = access.stack.item_report(set, socket, key, Ready(event.events)).ok().flatten();
                report.map(|event| epoll_event { events: event.ready.0, u64: event.data })
            }
        };
        if let Some(event) = reported {
            events[kept] = event;
            kept += 1;
        }
    }
    kept
}

/// Removes unwanted events. Returns how many are left.
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

/// Removes the events that are not for the program from those of an instance without a set. Returns
/// how many are left.
pub(crate) fn for_program(events: &mut [epoll_event]) -> usize {
    without(events, |data| data == MARK || from_shadow(data).is_some())
}

/// The ready events of the kernel's instance.
fn take(epfd: c_int, events: &mut [epoll_event]) -> Result<usize> {
    let n = sys::epoll_take(epfd, events)?;
    Ok(without(&mut events[..n], |data| data == MARK))
}

/// The events that one wait returns to the program.
struct ReadyEvents<'a> {
    events: &'a mut [epoll_event],
    count: usize,
}

impl ReadyEvents<'_> {
    fn room(&self) -> usize {
        self.events.len() - self.count
    }

    /// Adds an event, or merges it with one of the first `others` that has the same data: a UDP
    /// socket that is ready on both sides is one descriptor, so one event. The program cannot
    /// distinguish descriptors that share their data either.
    fn add(&mut self, event: epoll_event, others: usize) {
        if let Some(same) = self.events[..others].iter_mut().find(|added| added.u64 == event.u64) {
            same.events |= event.events;
        } else if let Some(place) = self.events.get_mut(self.count) {
            *place = event;
            self.count += 1;
        }
    }

    /// Adds the ready items of the set.
    fn add_ready(&mut self, access: &mut Access<'_>, set: SetId) -> Result<()> {
        let (room, others) = (self.room(), self.count);
        if room == 0 {
            return Ok(());
        }
        let add = |event: tickwire_stack::epoll_sets::Event| {
            self.add(epoll_event { events: event.ready.0, u64: event.data }, others);
        };
        access.stack.set_wait(set, room, add)?;
        Ok(())
    }

    /// Adds the ready events of the kernel's instance.
    fn add_kernels(
        &mut self,
        access: &mut Access<'_>,
        (epfd, set): (c_int, SetId),
        strays: &mut SmallVec<u32>,
    ) -> Result<()> {
        let others = self.count;
        let taken = take(epfd, &mut self.events[others..])?;
        if taken == 0 {
            return Ok(());
        }
        readiness::kernel_spoke(access.now);
        let kept = translate(access, set, &mut self.events[others..others + taken], strays);
        for at in others..others + kept {
            let event = self.events[at];
            self.add(event, others);
        }
        Ok(())
    }
}

/// `epoll_wait` and its variants on an instance with a set.
pub(crate) fn wait(
    epfd: c_int,
    index: u32,
    events: &mut [epoll_event],
    timeout: Option<Span>,
    mask: Option<&sigset_t>,
) -> Result<usize> {
    let Some(lane) = lane::current() else { return by_kernel(epfd, events, timeout, mask) };
    let until = timeout.map(|t| sys::now() + t);
    let mut strays = SmallVec::new(0);
    let mut own = None;
    loop {
        let known = strays.len();
        let answer = wait_for(lane, (epfd, index, &mut own), events, (until, mask), &mut strays);
        // Also if there are other events: an edge, or a one-shot event, would not come again.
        for &stray in &strays[known..] {
            (lane::observer().is_kernels)(lane, stray);
        }
        if answer != Err(DEMOTED) {
            return answer;
        }
    }
}

/// As [`wait()`]. Returns [`DEMOTED`] if the only ready sockets have become kernel sockets in
/// another process; `strays` gets those that it does not contain yet. `own` is the instance's set,
/// as the first attempt found it.
fn wait_for(
    lane: &'static Lane,
    (epfd, index, own): (c_int, u32, &mut Option<SetId>),
    events: &mut [epoll_event],
    (until, mask): (Option<Instant>, Option<&sigset_t>),
    strays: &mut SmallVec<u32>,
) -> Result<usize> {
    let mut looked = Instant::NEVER;
    let mut attempt = |access: &mut Access<'_>, kernel: KernelHint| {
        // Another thread may close the instance, and the description may be reused.
        let same = |&set: &SetId| own.map_or_else(|| TABLE.get(epfd) == Entry::Epoll(index), |own| own == set);
        let set = SetId::try_from(access.descriptions().get(index).socket()).ok().filter(same);
        let set = set.ok_or(Errno(libc::EBADF))?;
        *own = Some(set);
        let strict = looked.is_never() && *access.descriptions().get(index).claim() != 0;
        let mut ready = ReadyEvents { events: &mut *events, count: 0 };
        let looks = strict || kernel.wants_look(access.now, looked);
        // Kernel descriptors first, or a busy set would starve them; but after they have left no
        // room for the set, the set goes first.
        let set_first = looks && access.descriptions().get(index).has(flag::SET_FIRST);
        if set_first {
            ready.add_ready(access, set)?;
            access.descriptions().get(index).set(flag::SET_FIRST, false);
        }
        if looks && ready.room() > 0 {
            looked = access.now;
            let known = strays.len();
            ready.add_kernels(access, (epfd, set), strays)?;
            if ready.count == 0 && strays.len() > known {
                return Err(DEMOTED);
            }
            if !set_first && ready.room() == 0 {
                access.descriptions().get(index).set(flag::SET_FIRST, true);
            }
        }
        if !set_first {
            ready.add_ready(access, set)?;
        }
        if ready.count == 0 { Err(AGAIN) } else { Ok(ready.count) }
    };
    let first = lane.with(|access| attempt(access, KernelHint::Unknown));
    let answer = match first {
        Err(AGAIN) if until.is_some_and(|until| until <= sys::now()) => Ok(0),
        Err(AGAIN) => {
            let (on, mut fds) = ([index], wait::and(wait::readable(epfd)));
            let mut plan = WaitPlan { mask, restart: false, ..WaitPlan::new(&on, &mut fds, until) };
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
