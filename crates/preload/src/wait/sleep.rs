//! How a thread sleeps until something may have changed: on the lane's descriptors and the
//! program's own together.

use crate::lane::{Access, Asleep, Lane};
use crate::sys;
use crate::sys::errno::{AGAIN, Errno, Result};
use crate::sys::{NO_FD, readable};
use crate::wait::plan::{KernelHint, OWN, TIMED_OUT, WaitPlan};
use crate::wait::{budget, spin, watch};
use libc::pollfd;
use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{Expected, Stack};

/// How long to sleep while packets wait for the device.
const CROWDED: Span = Span::from_micros(200);

/// How long to sleep if the doorbell cannot wake the thread.
const DEAF: Span = Span::from_millis(1);

thread_local! {
    /// The lane on which the thread sleeps, its state of sleep, and whether it has armed the
    /// receive ring. Changed only inside the lane, where no handler runs.
    static ASLEEP: Cell<Option<(&'static Lane, Asleep, bool)>> = const { Cell::new(None) };
}

/// The result of a thread's attempt to sleep.
pub(super) enum Slept<T> {
    /// It has slept until there was a result, or something may have changed ([`AGAIN`]).
    Until(Result<T>),
    /// It has not slept: a message is expected soon.
    Not(Expected),
}

/// Sleeps until something may have changed; then one attempt.
#[inline(never)]
pub(super) fn sleep<T>(
    lane: &'static Lane,
    plan: &mut WaitPlan<'_>,
    again: bool,
    attempt: &mut impl FnMut(&mut Access<'_>, KernelHint) -> Result<T>,
) -> Slept<T> {
    let watch = watch::own(lane);
    let mut expected = None;
    let first = lane.with(|access| match attempt(access, KernelHint::Silent) {
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
    plan: &mut WaitPlan<'_>,
    (asleep, watch): (Asleep, Option<watch::Bell>),
    wake_up_at: Option<Instant>,
    attempt: &mut impl FnMut(&mut Access<'_>, KernelHint) -> Result<T>,
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
    let kernel = if spoke { KernelHint::Speaks } else { KernelHint::Silent };
    if spoke {
        spin::kernel_spoke(sys::now());
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

/// The calling thread, which is inside, does not count as asleep any more, if it did.
pub(super) fn awakes(lane: &'static Lane, stack: &mut Stack<'static>) {
    let Some((on, asleep, armed)) = ASLEEP.take() else { return };
    if armed {
        on.disarm();
    }
    if core::ptr::eq(on, lane) {
        lane.awakes(stack, asleep);
    }
}

/// The lane on which the calling thread counts as asleep.
pub(super) fn asleep_on() -> Option<&'static Lane> {
    ASLEEP.get().map(|(lane, ..)| lane)
}
