//! How a call waits: it polls the lane for a while, then sleeps on the lane's descriptors and the
//! program's own together.

use crate::base::config::Spin;
use crate::base::deferred_signals;
use crate::base::realtime;
use crate::base::reentrancy::is_inside;
use crate::lane::{self, Access, Asleep, Lane, crowd};
use crate::sys;
use crate::sys::cancellation;
use crate::sys::errno::{AGAIN, Errno, Result};
use crate::sys::{NO_FD, readable};
use crate::table::desc::{Description, flag};
use crate::wait::{Same, budget, preemption, watch};
use core::ffi::c_int;
use libc::{pollfd, sigset_t};
use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{Expected, Stack};

/// After this time of polling, signals are blocked and polled for, so that a handler that runs is
/// not overlooked. An earlier signal counts as one that arrived just before the call.
const UNWATCHED: Span = Span::from_micros(20);
/// How often a polling thread checks for signals and the kernel's descriptors.
pub(crate) const LOOK: Span = Span::from_micros(50);

/// How often it checks the kernel's descriptors if one of them ended a wait of this thread lately.
/// For example, another thread of the program wakes it by an eventfd, message after message. A
/// check takes 0.2 us, and more for many descriptors.
const PEEK: Span = Span::from_micros(2);
/// The additional interval for each descriptor.
const PEEK_EACH: Span = Span::from_nanos(200);
/// What "lately" is for that.
const SPOKE_LATELY: Span = Span::from_millis(20);

/// How often a polling thread yields its processor, unless it is to poll for ever: the program that
/// it waits for may have to run there.
const OFFER: Span = Span::from_micros(10);

/// How long to sleep while packets wait for the device.
const CROWDED: Span = Span::from_micros(200);

/// How long to sleep if the doorbell cannot wake the thread.
const DEAF: Span = Span::from_millis(1);

/// The call's time is over. Never an error number of the system: `ETIMEDOUT` is the error of a
/// connection on which nothing gets through.
pub(crate) const TIMED_OUT: Errno = Errno(-3);

/// How a call wants to wait.
pub(crate) struct Plan<'a> {
    /// The descriptions of the sockets on which it waits; if empty, any event of the lane causes a
    /// new attempt.
    pub(crate) on: &'a [u32],
    /// It waits for an event that makes no socket ready, or while no other thread may enter: it
    /// watches the rings and the timers itself.
    pub(crate) watches: bool,
    /// The first [`OWN`] entries are the lane's; then the kernel descriptors whose readiness also
    /// ends a sleep.
    pub(crate) fds: &'a mut [pollfd],
    /// Until when; `None` without end.
    pub(crate) until: Option<Instant>,
    /// Signal mask during the wait (`ppoll`, `pselect`, `epoll_pwait`).
    pub(crate) mask: Option<&'a sigset_t>,
    /// Whether Linux restarts this call when a handler installed with `SA_RESTART` has run.
    pub(crate) restart: bool,
}

impl<'a> Plan<'a> {
    /// Waits on the sockets of these descriptions, and is restarted unless its time is limited, as
    /// Linux does with calls on one socket.
    pub(crate) fn new(on: &'a [u32], fds: &'a mut [pollfd], until: Option<Instant>) -> Self {
        Self { on, watches: false, fds, until, mask: None, restart: until.is_none() }
    }
}

/// How many entries of a list are the lane's: the TAP device and the receive ring (or the standby
/// ring), and the thread's wakeup instance.
pub(crate) const OWN: usize = 3;

/// Blocks signals; unblocks them when dropped.
struct Held(sigset_t);

impl Drop for Held {
    fn drop(&mut self) {
        sys::restore_signals(&self.0);
    }
}

/// What an attempt knows of the kernel's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Only what the attempt itself found at its last check.
    Unknown,
    /// One of them ended the sleep: check them.
    Speaks,
    /// The sleep has just ended without them, or their readiness ends the coming sleep.
    Silent,
}

/// A list with the lane's own entries and one other.
pub(crate) fn and(other: pollfd) -> [pollfd; OWN + 1] {
    let mut places = [NO_FD; OWN + 1];
    places[OWN] = other;
    places
}

impl Kernel {
    /// Whether they are to be checked now, after the last check at `looked`.
    pub(crate) fn wants_look(self, now: Instant, looked: Instant) -> bool {
        match self {
            Self::Unknown => now.since(looked) >= LOOK,
            Self::Speaks => true,
            Self::Silent => false,
        }
    }
}

/// After a first attempt returned [`AGAIN`]: repeats `attempt` under the lane's lock until it
/// returns anything else.
///
/// # Errors
/// The error of `attempt`; [`TIMED_OUT`]; `EINTR`.
pub(crate) fn wait<T>(
    lane: &'static Lane,
    plan: &mut Plan<'_>,
    mut attempt: impl FnMut(&mut Access<'_>, Kernel) -> Result<T>,
) -> Result<T> {
    if is_inside() || lane.gate().admits().is_err() {
        // A signal handler interrupted this very thread inside the lane, or at the program's end:
        // it cannot wait for itself.
        return Err(Errno(libc::EINTR));
    }
    realtime::take_up();
    let answer = until_answered(lane, plan, &mut attempt);
    lane.settle_duty();
    answer
}

fn until_answered<T>(
    lane: &'static Lane,
    plan: &mut Plan<'_>,
    attempt: &mut impl FnMut(&mut Access<'_>, Kernel) -> Result<T>,
) -> Result<T> {
    let mut ran = deferred_signals::ran();
    let mut again = false;
    loop {
        cancellation::check()?;
        if ran != deferred_signals::ran() {
            // A deferred handler has run, or one that came in between.
            if !(plan.restart && sys::handlers_restart()) {
                return Err(Errno(libc::EINTR));
            }
            ran = deferred_signals::ran();
        }
        // A spuriously woken thread (for others' packets, or a timer of the stack) leaves the
        // processor to the thread whose packets they are.
        if !(again && lane.asleep() > 0) {
            let begin = sys::now();
            match spin(lane, plan, (begin, budget::budget(lane, begin)), attempt) {
                Err(AGAIN) => {}
                done => return done,
            }
        }
        match sleep(lane, plan, again, attempt) {
            Slept::Until(Err(AGAIN)) => again = true,
            Slept::Until(done) => return done,
            Slept::Not(_) if plan.until.is_some_and(|until| sys::now() >= until) => return Err(TIMED_OUT),
            Slept::Not(expected) => {
                again = false;
                let begin = sys::now();
                let polled = spin(lane, plan, (begin, expected.until.since(begin)), attempt);
                budget::has_polled(sys::now().since(begin));
                match polled {
                    Err(AGAIN) => {}
                    done => return done,
                }
            }
        }
    }
}

/// How a call that moves data waits: tries once, then, unless the call or the socket is
/// non-blocking, for as long as the socket's own `timeout` allows. `fds` as in [`Plan`].
///
/// # Errors
/// The error of `attempt`; [`AGAIN`] also when the time is over; `EINTR`; those of [`Same::check`].
pub(crate) fn transfer<T>(
    lane: &'static Lane,
    (fd, index): (c_int, u32),
    flags: c_int,
    timeout: fn(&Description<'_>) -> Option<Span>,
    fds: &mut [pollfd],
    mut attempt: impl FnMut(&mut Access<'_>, Kernel) -> Result<T>,
) -> Result<T> {
    let mut nonblocking = flags & libc::MSG_DONTWAIT != 0;
    let mut time = None;
    let mut same = None;
    let first = lane.with(|access| {
        same = Some(Same::of(access, fd, index)?);
        let mut descriptions = access.descriptions();
        let description = descriptions.get(index);
        nonblocking |= description.has(flag::NONBLOCK);
        time = timeout(&description);
        attempt(access, if nonblocking { Kernel::Unknown } else { Kernel::Silent })
    });
    if nonblocking || !matches!(first, Err(AGAIN)) {
        return first;
    }
    let attempt = |access: &mut Access<'_>, kernel| {
        match same {
            Some(same) => same.check(access)?,
            // A signal handler could not check yet.
            None => same = Some(Same::of(access, fd, index)?),
        }
        attempt(access, kernel)
    };
    let until = time.map(|t| sys::now() + t);
    let on = [index];
    let mut plan = Plan::new(&on, fds, until);
    match wait(lane, &mut plan, attempt) {
        Err(TIMED_OUT) => Err(AGAIN),
        done => done,
    }
}

/// Polls from now on for a time; [`AGAIN`] when it is time to sleep.
#[inline(never)]
fn spin<T>(
    lane: &'static Lane,
    plan: &mut Plan<'_>,
    (begin, budget): (Instant, Span),
    attempt: &mut impl FnMut(&mut Access<'_>, Kernel) -> Result<T>,
) -> Result<T> {
    if budget.is_zero() {
        return Err(AGAIN);
    }
    let _polling = Polling::begins(lane, begin);
    let mut change = Change::new(lane);
    let mut spinning = Spinning::new(lane, plan, begin);
    spinning.yield_to_crowd()?;
    loop {
        if lane.quiet() {
            // Nothing in the rings: stay out of the lock, so that other threads get it.
            core::hint::spin_loop();
        }
        let now = sys::now();
        spinning.notice_preemption(plan, now)?;
        let due = now.since(spinning.looked) >= LOOK;
        let kernel = spinning.peek(plan, now);
        if !lane.quiet() || due || kernel == Kernel::Speaks || lane.due(now) || change.is_there(lane) {
            let answer = lane.with_at(now, |access| {
                change.about_to_look(lane, access, plan.on);
                attempt(access, kernel)
            });
            spinning.idle_since = None;
            match answer {
                Err(AGAIN) => change.looked(lane),
                done => {
                    budget::was_of_use();
                    return done;
                }
            }
        }
        if plan.until.is_some_and(|until| now >= until) {
            return Err(TIMED_OUT);
        }
        let spent = now.since(begin);
        if spent >= budget {
            budget::was_spent_in_vain();
            let_through(&mut spinning.held, plan)?;
            return Err(AGAIN);
        }
        spinning.offer_processor(plan, now)?;
        if due {
            spinning.look_for_signals(plan, now)?;
        }
        if spinning.held.is_none() && plan.mask.is_none() && spent >= UNWATCHED {
            spinning.held = Some(Held(sys::block_signals()));
        }
    }
}

/// When a thread that polls last did what it does now and then.
struct Spinning {
    /// Whether it yields its processor.
    offers: bool,
    /// When it last yielded it.
    offered: Instant,
    /// When it last checked for signals.
    looked: Instant,
    /// When it last checked the kernel's descriptors, and how often it does.
    peeked: Instant,
    peeks_every: Span,
    /// When the clock was last read, if nothing that takes time has been done since.
    idle_since: Option<Instant>,
    /// Signals are blocked for as long as this is held.
    held: Option<Held>,
}

impl Spinning {
    fn new(lane: &Lane, plan: &Plan<'_>, begin: Instant) -> Self {
        Self {
            offers: lane.settings().spin != Spin::Always,
            offered: begin,
            looked: begin,
            peeked: begin,
            peeks_every: peek(plan, begin),
            idle_since: None,
            held: None,
        }
    }

    /// Before the first attempt: where threads compete for processors, the program that the thread
    /// waits for may have to run here first. [`AGAIN`] if it is better to sleep.
    fn yield_to_crowd(&mut self) -> Result<()> {
        let begin = self.offered;
        if self.offers && crowd::is_there(begin) {
            std::thread::yield_now();
            self.offered = sys::now();
            if preemption::offered(Span::ZERO, begin, self.offered) {
                return Err(AGAIN);
            }
        }
        Ok(())
    }

    /// Notices that the thread was preempted: it did not yield. [`AGAIN`] if it is better to sleep.
    #[inline]
    fn notice_preemption(&mut self, plan: &Plan<'_>, now: Instant) -> Result<()> {
        if let Some(before) = self.idle_since.replace(now)
            && self.offers
            && preemption::is_long(now.since(before))
        {
            let polled = before.since(self.offered);
            self.offered = now;
            if preemption::offered(polled, before, now) {
                let_through(&mut self.held, plan)?;
                return Err(AGAIN);
            }
        }
        Ok(())
    }

    /// Checks the kernel's descriptors, if it is time to.
    #[inline]
    fn peek(&mut self, plan: &mut Plan<'_>, now: Instant) -> Kernel {
        if now.since(self.peeked) < self.peeks_every {
            return Kernel::Unknown;
        }
        self.peeked = now;
        self.idle_since = None;
        let ready = sys::ppoll(plan.fds.get_mut(OWN..).unwrap_or_default(), Some(Span::ZERO), None);
        if !ready.is_ok_and(|ready| ready > 0) {
            return Kernel::Unknown;
        }
        KERNEL_SPOKE.set(now);
        Kernel::Speaks
    }

    /// Yields the processor, if it is time to. [`AGAIN`] if it is better to sleep.
    #[inline]
    fn offer_processor(&mut self, plan: &Plan<'_>, now: Instant) -> Result<()> {
        if !(self.offers && now.since(self.offered) >= OFFER) {
            return Ok(());
        }
        let from = sys::now(); // The attempt may have taken its time.
        self.idle_since = None;
        std::thread::yield_now();
        let polled = from.since(self.offered);
        self.offered = sys::now();
        if preemption::offered(polled, from, self.offered) {
            let_through(&mut self.held, plan)?;
            return Err(AGAIN);
        }
        Ok(())
    }

    /// Ends the call if the thread has been cancelled, or if a handler has run that does not let it
    /// restart.
    fn look_for_signals(&mut self, plan: &Plan<'_>, now: Instant) -> Result<()> {
        cancellation::check()?;
        self.looked = now;
        if plan.mask.is_some() {
            // With its own mask the call receives signals only through that.
            sys::ppoll(&mut [], Some(Span::ZERO), plan.mask)?;
            Ok(())
        } else {
            let_through(&mut self.held, plan)
        }
    }
}

/// How often a polling thread is to check the kernel's descriptors alone.
fn peek(plan: &Plan<'_>, now: Instant) -> Span {
    let descriptors = plan.fds.len().saturating_sub(OWN);
    let spoke = KERNEL_SPOKE.get();
    if descriptors == 0 || spoke.is_never() || now.since(spoke) >= SPOKE_LATELY {
        return Span::from_nanos(u64::MAX);
    }
    PEEK + PEEK_EACH.times(descriptors as u64)
}

/// Detects that something happened to the sockets of a polling thread, which another thread took
/// in.
struct Change {
    /// [`Lane::change`] at the thread's last check.
    seen: u32,
    /// The bits of its sockets, once it has checked them, and their number before.
    own: Option<(u64, u32)>,
}

impl Change {
    fn new(lane: &Lane) -> Self {
        // The value at the thread's last check, before it began to poll.
        Self { seen: lane.change().1, own: None }
    }

    #[inline]
    fn is_there(&mut self, lane: &Lane) -> bool {
        let (now, _) = lane.change();
        if now == self.seen {
            return false;
        }
        let changed = self.own.is_none_or(|(bits, number)| lane.change_of(bits) != number);
        if !changed {
            // To others' sockets.
            self.seen = now;
        }
        changed
    }

    /// The thread checks its sockets, with the lock. What it takes in itself is seen as a change
    /// once more.
    fn about_to_look(&mut self, lane: &Lane, access: &mut Access<'_>, on: &[u32]) {
        let bits = self.own.map_or_else(|| access.change_bits(on), |(bits, _)| bits);
        self.own = Some((bits, lane.change_of(bits)));
    }

    /// The check found nothing.
    fn looked(&mut self, lane: &Lane) {
        if self.own.is_some_and(|(bits, number)| lane.change_of(bits) == number) {
            self.seen = lane.change().1;
        }
    }
}

/// Unblocks the signals that were blocked, if any are pending: the call ends with `EINTR` if a
/// handler has run that does not let it restart.
fn let_through(held: &mut Option<Held>, plan: &Plan<'_>) -> Result<()> {
    let Some(signals) = held else { return Ok(()) };
    let waiting = sys::waiting_signals(&signals.0);
    if waiting != sys::Signals::None {
        drop(held.take());
    }
    match waiting {
        sys::Signals::Handled { restart } if !(restart && plan.restart) => Err(Errno(libc::EINTR)),
        _ => Ok(()),
    }
}

/// The result of a thread's attempt to sleep.
enum Slept<T> {
    /// It has slept until there was a result, or something may have changed ([`AGAIN`]).
    Until(Result<T>),
    /// It has not slept: a message is expected soon.
    Not(Expected),
}

/// Sleeps until something may have changed; then one attempt.
#[inline(never)]
fn sleep<T>(
    lane: &'static Lane,
    plan: &mut Plan<'_>,
    again: bool,
    attempt: &mut impl FnMut(&mut Access<'_>, Kernel) -> Result<T>,
) -> Slept<T> {
    let watch = watch::own(lane);
    let mut expected = None;
    let first = lane.with(|access| match attempt(access, Kernel::Silent) {
        Err(AGAIN) => {
            expected = budget::expected(lane, access, plan.on);
            if expected.is_some_and(|expected| budget::wake_up_at(expected) <= access.now) {
                return Err(AGAIN);
            }
            access.stack.acknowledge_held(access.now);
            // It may still count as asleep, if a handler that the library does not know of jumped
            // out of the sleep.
            awakes(lane, access.stack);
            let bell = (watch.map(|bell| bell.fd), watch.map_or(0, |bell| bell.address));
            let asleep = lane.falls_asleep(access, plan.on, bell, again);
            let armed = plan.watches || asleep.watches();
            if armed {
                lane.arm();
            }
            ASLEEP.set(Some((lane, asleep, armed)));
            Ok(Err(asleep))
        }
        done => done.map(Ok),
    });
    let asleep = match (first, expected) {
        (Ok(Err(asleep)), _) => asleep,
        (Ok(Ok(done)), _) => return Slept::Until(Ok(done)),
        (Err(AGAIN), Some(expected)) => return Slept::Not(expected),
        (Err(error), _) => return Slept::Until(Err(error)),
    };
    let wake_up_at = expected.map(budget::wake_up_at);
    Slept::Until(until_woken(lane, plan, (asleep, watch), wake_up_at, attempt))
}

/// The thread counts as asleep. Sleeps until something may have changed, or it has to be awake for
/// a message; then one attempt.
#[inline(never)]
fn until_woken<T>(
    lane: &'static Lane,
    plan: &mut Plan<'_>,
    (asleep, watch): (Asleep, Option<watch::Bell>),
    wake_up_at: Option<Instant>,
    attempt: &mut impl FnMut(&mut Access<'_>, Kernel) -> Result<T>,
) -> Result<T> {
    // Either a thread that has just stopped polling sees this one, or this one sees that no thread
    // polls.
    lane.settle_duty();
    // Read only now: packets sent meanwhile may have set timers.
    let mut deadline = if plan.watches { lane.deadline() } else { lane.timer_of(asleep) };
    if let Some(places) = plan.fds.first_chunk_mut::<OWN>() {
        let [wakes, rings] = if plan.watches { lane.rings() } else { lane.watched(asleep) };
        *places = [wakes, rings, watch.map_or(NO_FD, |bell| readable(bell.fd))];
    }
    if let Some((_, asleep, true)) = ASLEEP.get() {
        lane.take_wake_frame(asleep);
    }
    // No event tells when the device has room again, and the doorbell cannot wake a thread without
    // a descriptor for it: check again soon.
    let crowded = lane.crowded().then_some(CROWDED);
    if let Some(span) = crowded.or((watch.is_none() || !asleep.is_known()).then_some(DEAF)) {
        let soon = sys::now() + span;
        deadline = Some(deadline.map_or(soon, |at: Instant| at.min(soon)));
    }
    let until = [plan.until, deadline, wake_up_at].into_iter().flatten().min();
    let begin = sys::now();
    let mut timeout = until.map(|until| until.since(begin));
    let mut slept = sys::ppoll(plan.fds, timeout, plan.mask);
    while slept == Ok(1) && plan.fds.first_chunk().is_some_and(|&rings: &[pollfd; 2]| lane.are_left_over(rings)) {
        timeout = until.map(|until| until.since(sys::now()));
        slept = sys::ppoll(plan.fds, timeout, plan.mask);
    }
    if slept == Err(Errno(libc::EINVAL)) {
        // With the lane's entries the list exceeds the limit of descriptors. So it sleeps without
        // them, and without wakeups from the lane.
        let places = plan.fds.get_mut(OWN..).unwrap_or_default();
        slept = sys::ppoll(places, Some(timeout.map_or(DEAF, |timeout| timeout.min(DEAF))), plan.mask);
    }
    // If the wait failed, the state of all descriptors is unknown.
    let showed = |fd: &pollfd| slept.is_err() || fd.revents != 0;
    if let Some(watch) = watch
        && plan.fds.get(OWN - 1).is_none_or(showed)
    {
        watch::hush(watch);
    }
    let spoke = plan.fds.iter().skip(OWN).any(showed);
    let kernel = if spoke { Kernel::Speaks } else { Kernel::Silent };
    if spoke {
        KERNEL_SPOKE.set(sys::now());
    }
    let mut end = begin;
    if let Some(wanted) = wake_up_at {
        budget::was_awake(wanted, sys::now());
    }
    let answer = lane.with_awake(
        |stack| awakes(lane, stack),
        |access| {
            end = access.now;
            attempt(access, kernel)
        },
    );
    if !matches!(answer, Err(AGAIN)) {
        budget::has_slept(end.since(begin));
        return answer;
    }
    if slept == Err(Errno(libc::EINTR)) && !(plan.restart && sys::handlers_restart()) {
        return Err(Errno(libc::EINTR));
    }
    if plan.until.is_some_and(|until| sys::now() >= until) { Err(TIMED_OUT) } else { Err(AGAIN) }
}

thread_local! {
    /// The lane on which the thread sleeps, its state of sleep, and whether it has armed the
    /// receive ring. Changed only inside the lane, where no handler runs.
    static ASLEEP: Cell<Option<(&'static Lane, Asleep, bool)>> = const { Cell::new(None) };
    /// When a kernel descriptor last ended a wait of the thread.
    static KERNEL_SPOKE: Cell<Instant> = const { Cell::new(Instant::NEVER) };
    /// The lane whose rings the thread polls for all threads, and its priority.
    static POLLS: Cell<Option<(&'static Lane, u32)>> = const { Cell::new(None) };
}

/// The calling thread polls for all threads, until this is dropped.
struct Polling;

impl Polling {
    fn begins(lane: &'static Lane, now: Instant) -> Self {
        // Ends a poll that a handler has jumped out of.
        ends_polling();
        let priority = lane::priority(now);
        POLLS.set(Some((lane, priority)));
        lane.poll_begins(priority);
        Self
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        ends_polling();
    }
}

/// The calling thread stops polling, if it did. Returns for which lane it polled.
fn ends_polling() -> Option<&'static Lane> {
    let (lane, priority) = POLLS.take()?;
    lane.poll_ends(priority);
    Some(lane)
}

/// The calling thread, which is inside, does not count as asleep any more, if it did.
fn awakes(lane: &'static Lane, stack: &mut Stack<'static>) {
    let Some((on, asleep, armed)) = ASLEEP.take() else { return };
    if armed {
        on.disarm();
    }
    if core::ptr::eq(on, lane) {
        lane.awakes(stack, asleep);
    }
}

/// A handler of the program is about to run in this thread. It may not return (`longjmp`), so the
/// thread stops to count as asleep or polling. Returns on which lane it was asleep.
pub(crate) fn disturb() -> Option<&'static Lane> {
    if let Some(lane) = ends_polling() {
        lane.settle_duty();
    }
    let (lane, ..) = ASLEEP.get()?;
    let _ = lane.with_quietly(|access| {
        awakes(lane, access.stack);
        Ok(())
    });
    lane.settle_duty();
    Some(lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::desc::flag;
    use crate::testing;
    use tickwire_stack::StackError;
    use tickwire_stack::udp::UdpOptions;

    #[test]
    fn a_polling_thread_sees_at_once_what_another_took_in_for_it_and_nothing_of_others_sockets() {
        let (lane, _service) = testing::another();
        let [(own, index), (other, _)] = [(); 2].map(|()| {
            let opened = lane.with(|access| {
                let id = access.stack.udp_open(UdpOptions::default())?;
                let index = access.descriptions().take(flag::UDP, 0).unwrap();
                access.descriptions().get(index).set_socket(id.into());
                Ok((id, index))
            });
            opened.unwrap()
        });
        let happens = |id| {
            std::thread::scope(|scope| {
                let work = || lane.with(|access| Ok(access.stack.udp_keep_error(id, StackError::Refused)?)).unwrap();
                scope.spawn(work).join().unwrap();
            });
        };
        let look = |change: &mut Change| {
            let looked = lane.with(|access| {
                change.about_to_look(lane, access, &[index]);
                Ok(())
            });
            looked.unwrap();
            change.looked(lane);
        };
        // Since its first look, with which every call begins.
        lane.with(|_| Ok(())).unwrap();
        happens(own);
        let mut change = Change::new(lane);
        assert!(change.is_there(lane) && change.is_there(lane));
        look(&mut change);
        assert!(!change.is_there(lane));
        happens(other);
        assert!(!change.is_there(lane));
        happens(own);
        assert!(change.is_there(lane));
        look(&mut change);
        assert!(!change.is_there(lane));
        // Between its look and the check after it.
        lane.with(|access| {
            change.about_to_look(lane, access, &[index]);
            Ok(())
        })
        .unwrap();
        happens(own);
        change.looked(lane);
        assert!(change.is_there(lane));
    }
}
