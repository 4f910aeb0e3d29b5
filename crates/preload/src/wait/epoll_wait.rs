//! Waiting on an `epoll` instance: what the set in the stack has ready and what the kernel's
//! instance has, as one list of events.

use crate::base::errno::{DEMOTED, Errno, Result};
use crate::base::few::Few;
use crate::c::sys;
use crate::lane::{self, Access, Lane};
use crate::table::desc::flag;
use crate::table::fd::{Entry, LIMIT, TABLE};
use crate::wait::epoll::{IN, errno, has_set};
use crate::wait::readiness;
use crate::wait::{self, AGAIN, Kernel, Plan, TIMED_OUT};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst, fence};
use libc::{epoll_event, sigset_t};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{Ready, SetId};

/// How many threads of this process sleep in the kernel's wait on each descriptor.
static ASLEEP: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];
/// One more than the highest descriptor that any thread ever slept on.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// What the event carries that rouses sleeping threads.
const MARK: u64 = u64::from_le_bytes(*b"tickwire");
/// How long a thread may take to wake up. (One that never does has left its wait by a jump out of a
/// signal handler.)
const AWAKENING: Span = Span::from_secs(1);
/// How often it is looked whether all have.
const LOOK_AGAIN: Span = Span::from_micros(20);

/// Before the kernel's wait on an instance without a set. False if it has one by now; whoever gives
/// it one later wakes the caller.
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

/// Wakes the threads that sleep in the kernel's wait on an instance that has just got a set:
/// nothing that comes by the lane would. A descriptor that is readable is put into the instance
/// until all have left.
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

/// The upper half of what the kernel's instance tells of a socket that the stack's set has, too. No
/// pointer of a program begins like it.
const SHADOW: u64 = 0x7469_636b << 32;

/// What the kernel's instance is given to tell, instead of the program's own data: which item of
/// the set it is for.
pub(crate) fn shadow_of(index: u32, fd: c_int) -> u64 {
    SHADOW | u64::from(index & 0xffff) << 16 | fd as u64 & 0xffff
}

/// The description and the descriptor of a [`shadow_of`].
fn from_shadow(data: u64) -> Option<(u32, u64)> {
    (data & !0xffff_ffff == SHADOW).then_some(((data >> 16) as u32 & 0xffff, data & 0xffff))
}

/// Turns what the kernel told of our sockets into what the program is to hear: both sides of a
/// socket are one item, which is told once where once was asked for. Says how many events are left;
/// `strays` are the sockets that have become the kernel's without our knowing, whose events come
/// again once they are the program's own in the kernel's instance.
fn translate(access: &mut Access<'_>, set: SetId, events: &mut [epoll_event], strays: &mut Few<u32>) -> usize {
    let mut kept = 0;
    for at in 0..events.len() {
        let event = events[at];
        let told = match from_shadow(event.u64) {
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
        if let Some(told) = told {
            events[kept] = told;
            kept += 1;
        }
    }
    kept
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

/// Takes what is not for the program out of the events of an instance that is the kernel's alone.
/// Says how many are left.
pub(crate) fn for_program(events: &mut [epoll_event]) -> usize {
    without(events, |data| data == MARK || from_shadow(data).is_some())
}

/// What the kernel's instance has ready now.
fn take(epfd: c_int, events: &mut [epoll_event]) -> Result<usize> {
    let n = sys::epoll_take(epfd, events)?;
    Ok(without(&mut events[..n], |data| data == MARK))
}

/// What the program is told in one wait.
struct Told<'a> {
    events: &'a mut [epoll_event],
    count: usize,
}

impl Told<'_> {
    fn room(&self) -> usize {
        self.events.len() - self.count
    }

    /// Adds an event, or joins it with one of the first `others` that has the same data: a UDP
    /// socket that is ready on both sides is one descriptor, so one event. Descriptors that share
    /// their data cannot be told apart by the program either.
    fn add(&mut self, event: epoll_event, others: usize) {
        if let Some(same) = self.events[..others].iter_mut().find(|told| told.u64 == event.u64) {
            same.events |= event.events;
        } else if let Some(place) = self.events.get_mut(self.count) {
            *place = event;
            self.count += 1;
        }
    }

    /// Adds what the set has ready.
    fn add_ready(&mut self, access: &mut Access<'_>, set: SetId) -> Result<()> {
        let (room, others) = (self.room(), self.count);
        if room == 0 {
            return Ok(());
        }
        let add = |event: tickwire_stack::watch::Event| {
            self.add(epoll_event { events: event.ready.0, u64: event.data }, others);
        };
        access.stack.set_wait(set, room, add).map(drop).map_err(errno)
    }

    /// Adds what the kernel's instance has ready.
    fn add_kernels(
        &mut self,
        access: &mut Access<'_>,
        (epfd, set): (c_int, SetId),
        strays: &mut Few<u32>,
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
    let mut strays = Few::new(0);
    let mut own = None;
    loop {
        let known = strays.len();
        let answer = wait_for(lane, (epfd, index, &mut own), events, (until, mask), &mut strays);
        // Also beside other events: an edge, or what is told once, would not come again.
        for &stray in &strays[known..] {
            crate::socket::ops::catch_up(lane, stray);
        }
        if answer != Err(DEMOTED) {
            return answer;
        }
    }
}

/// As [`wait()`]. Ends with [`DEMOTED`] if nothing is ready but sockets that have become the
/// kernel's elsewhere; `strays` gets those that are not in it yet. `own` is the instance's set, as
/// the first attempt has found it.
fn wait_for(
    lane: &'static Lane,
    (epfd, index, own): (c_int, u32, &mut Option<SetId>),
    events: &mut [epoll_event],
    (until, mask): (Option<Instant>, Option<&sigset_t>),
    strays: &mut Few<u32>,
) -> Result<usize> {
    let mut looked = Instant::NEVER;
    let mut attempt = |access: &mut Access<'_>, kernel: Kernel| {
        // Another thread may close the instance, and its description be another's.
        let same = |&set: &SetId| own.map_or_else(|| TABLE.get(epfd) == Entry::Epoll(index), |own| own == set);
        let set = SetId::try_from(access.descriptions().get(index).socket()).ok().filter(same);
        let set = set.ok_or(Errno(libc::EBADF))?;
        *own = Some(set);
        let strict = looked.is_never() && *access.descriptions().get(index).claim() != 0;
        let mut told = Told { events: &mut *events, count: 0 };
        let looks = strict || kernel.wants_look(access.now, looked);
        // Kernel descriptors first, or a busy set would never let them through; but after they have
        // left no room for the set, it is the set's turn.
        let set_first = looks && access.descriptions().get(index).has(flag::SET_FIRST);
        if set_first {
            told.add_ready(access, set)?;
            access.descriptions().get(index).set(flag::SET_FIRST, false);
        }
        if looks && told.room() > 0 {
            looked = access.now;
            let known = strays.len();
            told.add_kernels(access, (epfd, set), strays)?;
            if told.count == 0 && strays.len() > known {
                return Err(DEMOTED);
            }
            if !set_first && told.room() == 0 {
                access.descriptions().get(index).set(flag::SET_FIRST, true);
            }
        }
        if !set_first {
            told.add_ready(access, set)?;
        }
        if told.count == 0 { Err(AGAIN) } else { Ok(told.count) }
    };
    let first = lane.with(|access| attempt(access, Kernel::Unknown));
    let answer = match first {
        Err(AGAIN) if until.is_some_and(|until| until <= sys::now()) => Ok(0),
        Err(AGAIN) => {
            let (on, mut fds) = ([index], wait::and(wait::readable(epfd)));
            let mut plan = Plan { mask, restart: false, ..Plan::new(&on, &mut fds, until) };
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
