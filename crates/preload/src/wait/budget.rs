//! How long a thread polls before it sleeps.

use crate::base::config::Spin;
use crate::lane::{self, Access, Lane};
use crate::wait::preemption;
use std::cell::Cell;
use tickwire_stack::Expected;
use tickwire_stack::time::{Instant, Span};

/// Adaptive: how long, if there was traffic lately.
const ADAPTIVE: Span = Span::from_micros(100);
/// Adaptive: what "lately" is.
const LATELY: Span = Span::from_millis(5);

/// Adaptive: after this many fruitless polls a thread polls again only if it has slept for less
/// than [`ADAPTIVE`], so that polling would have helped, or if a message is expected.
const IN_VAIN: u8 = 4;

/// How long before an expected message a thread is to be awake.
const LEAD: Span = Span::from_micros(20);

/// Upper bound of a timer's lateness in the estimate. A longer delay is another program's time
/// slice.
const LATEST: Span = Span::from_millis(1);

/// The part of a stretch of time in which a thread polls for expected messages, at most: there may
/// be many, and they may not arrive.
const STRETCH: Span = Span::from_millis(100);
const MOST_OF_STRETCH: Span = Span::from_millis(33);

thread_local! {
    /// When the stretch began, and for how long the thread has polled in it.
    static POLLED: Cell<(Instant, Span)> = const { Cell::new((Instant::NEVER, Span::ZERO)) };
    /// How many fruitless polls there were since the last useful one.
    static VAIN: Cell<u8> = const { Cell::new(0) };
    /// How late the thread runs after a timer has expired: the timers of ordinary threads are up to
    /// 50 us late by themselves, and an idle processor takes time to wake up. The estimate is an
    /// upper bound in four of five cases.
    static LATENESS: Cell<Span> = const { Cell::new(Span::from_micros(100)) };
}

/// How long the thread polls before it sleeps, from now on.
pub(super) fn budget(lane: &Lane, now: Instant) -> Span {
    match lane.settings().spin {
        Spin::Never => Span::ZERO,
        Spin::Always => Span::from_nanos(u64::MAX),
        _ if preemption::are_there(now) => Span::ZERO,
        Spin::For(time) => time,
        // A real-time thread cannot yield its processor to the thread it waits for, and runs at
        // once when it is woken.
        Spin::Adaptive if lane::priority(now) > 0 => Span::ZERO,
        Spin::Adaptive if now.since(lane.last_traffic()) < LATELY && VAIN.get() < IN_VAIN => ADAPTIVE,
        Spin::Adaptive => Span::ZERO,
    }
}

/// The thread has polled for its whole budget without a result.
pub(super) fn was_spent_in_vain() {
    VAIN.set(VAIN.get().saturating_add(1));
}

/// The thread has polled and found what it waited for.
pub(super) fn was_of_use() {
    VAIN.set(0);
}

/// The thread has slept for `time` until what it waited for was there.
pub(super) fn has_slept(time: Span) {
    if time < ADAPTIVE {
        was_of_use();
    }
}

/// When the first message is expected on the sockets of these descriptions, if the thread is to be
/// awake for it. It polls from [`wake_up_at`] on.
pub(super) fn expected(lane: &Lane, access: &mut Access<'_>, on: &[u32]) -> Option<Expected> {
    let now = access.now;
    if lane.settings().spin != Spin::Adaptive
        || !access.stack.expects_any()
        || preemption::are_there(now)
        || lane::priority(now) > 0
    {
        return None;
    }
    let (begin, polled) = POLLED.get();
    if now.since(begin) >= STRETCH {
        POLLED.set((now, Span::ZERO));
    } else if polled >= MOST_OF_STRETCH {
        return None;
    }
    let mask = access.change_bits(on);
    access.stack.expected(mask, now)
}

/// The thread has polled for an expected message for `time`.
pub(super) fn has_polled(time: Span) {
    let (begin, polled) = POLLED.get();
    POLLED.set((begin, polled + time));
}

/// When the thread has to be awake for a message.
pub(super) fn wake_up_at(expected: Expected) -> Instant {
    let lead = LEAD + LATENESS.get();
    Instant::from_nanos(expected.from.as_nanos().saturating_sub(lead.as_nanos()))
}

/// The thread should have been awake at `wanted`, and is awake at `now`.
pub(super) fn was_awake(wanted: Instant, now: Instant) {
    let late = now.since(wanted);
    if late > Span::ZERO {
        LATENESS.set(later(LATENESS.get(), late.min(LATEST)));
    }
}

/// The new estimate after a timer was `late`.
fn later(estimate: Span, late: Span) -> Span {
    estimate + (late - estimate).over(4) - (estimate - late).over(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_five_times_a_timer_is_less_late_than_the_estimate() {
        let us = Span::from_micros;
        let (mut estimate, mut less) = (us(100), 0);
        for n in 0..1000_u64 {
            // From 50 to 149 us in a mixed order.
            let late = us(50 + n * 37 % 100);
            less += u32::from(n >= 100 && late <= estimate);
            estimate = later(estimate, late);
        }
        assert!((670..800).contains(&less), "{less} of 900");
        // A quieter host.
        (0..600).for_each(|_| estimate = later(estimate, us(10)));
        assert!(estimate < us(20), "{estimate:?}");
    }
}
