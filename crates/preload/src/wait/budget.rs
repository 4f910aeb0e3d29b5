//! For how long a thread polls before it sleeps.

use crate::base::config::Spin;
use crate::lane::{self, Access, Lane};
use crate::wait::rivals;
use std::cell::Cell;
use tickwire_stack::Expected;
use tickwire_stack::time::{Instant, Span};

/// Adaptive: for how long, if there was traffic lately.
const ADAPTIVE: Span = Span::from_micros(100);
/// Adaptive: what "lately" is.
const LATELY: Span = Span::from_millis(5);

/// Adaptive: a thread that polled so many times in vain polls again when it has slept for less than
/// [`ADAPTIVE`], so that polling would have been of use, or when a message is expected.
const IN_VAIN: u8 = 4;

/// How long before a message is expected a thread is to be awake.
const LEAD: Span = Span::from_micros(20);

/// A timer is taken to wake a thread so late at most. What is longer is another program's turn.
const LATEST: Span = Span::from_millis(1);

/// For which part of a stretch of time a thread polls for expected messages, at most: there may be
/// many, and they may not come.
const STRETCH: Span = Span::from_millis(100);
const MOST_OF_STRETCH: Span = Span::from_millis(33);

thread_local! {
    /// When the stretch began, and for how long the thread has polled in it.
    static POLLED: Cell<(Instant, Span)> = const { Cell::new((Instant::NEVER, Span::ZERO)) };
    /// How many times the thread polled in vain since it was of use.
    static VAIN: Cell<u8> = const { Cell::new(0) };
    /// How late the thread runs after a timer was to wake it: the timers of ordinary threads are up
    /// to 50 us late by themselves, and a processor that sleeps takes its time to wake up. Four of
    /// five times it is less.
    static LATENESS: Cell<Span> = const { Cell::new(Span::from_micros(100)) };
}

/// For how long the thread polls before it sleeps, from now on.
pub(super) fn budget(lane: &Lane, now: Instant) -> Span {
    match lane.settings().spin {
        Spin::Never => Span::ZERO,
        Spin::Always => Span::from_nanos(u64::MAX),
        _ if rivals::are_there(now) => Span::ZERO,
        Spin::For(time) => time,
        // A real-time thread cannot offer its processor to what it waits for, and gets it at once
        // when it is woken.
        Spin::Adaptive if lane::priority(now) > 0 => Span::ZERO,
        Spin::Adaptive if now.since(lane.last_traffic()) < LATELY && VAIN.get() < IN_VAIN => ADAPTIVE,
        Spin::Adaptive => Span::ZERO,
    }
}

/// The thread has polled for its whole budget in vain.
pub(super) fn was_spent_in_vain() {
    VAIN.set(VAIN.get().saturating_add(1));
}

/// The thread has polled and found what it waited for.
pub(super) fn was_of_use() {
    VAIN.set(0);
}

/// The thread has slept for that long until there was what it waited for.
pub(super) fn has_slept(time: Span) {
    if time < ADAPTIVE {
        was_of_use();
    }
}

/// When the first message is expected on the sockets of these descriptions, if the thread is to be
/// awake for it. It is to poll from [`wake_up_at`] on.
pub(super) fn expected(lane: &Lane, access: &mut Access<'_>, on: &[u32]) -> Option<Expected> {
    let now = access.now;
    if lane.settings().spin != Spin::Adaptive
        || !access.stack.expects_any()
        || rivals::are_there(now)
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

/// The thread has polled for an expected message for so long.
pub(super) fn has_polled(time: Span) {
    let (begin, polled) = POLLED.get();
    POLLED.set((begin, polled + time));
}

/// When the thread is to be awake for a message.
pub(super) fn wake_up_at(expected: Expected) -> Instant {
    let lead = LEAD + LATENESS.get();
    Instant::from_nanos(expected.from.as_nanos().saturating_sub(lead.as_nanos()))
}

/// The thread was to be awake at `wanted`, and is at `now`.
pub(super) fn was_awake(wanted: Instant, now: Instant) {
    let late = now.since(wanted);
    if late > Span::ZERO {
        LATENESS.set(later(LATENESS.get(), late.min(LATEST)));
    }
}

/// The estimate after one that was so `late`.
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
