//! How a thread polls the lane before it sleeps: in between it yields its processor, and checks for
//! signals and the kernel's descriptors.

use crate::base::config::Spin;
use crate::lane::{self, Access, Lane, crowd};
use crate::sys;
use crate::sys::cancellation;
use crate::sys::errno::{AGAIN, Errno, Result};
use crate::wait::change::SocketChange;
use crate::wait::plan::{KernelHint, LOOK, OWN, TIMED_OUT, WaitPlan};
use crate::wait::{budget, preemption};
use libc::sigset_t;
use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};

/// After this time of polling, signals are blocked and polled for, so that a handler that runs is
/// not overlooked. An earlier signal counts as one that arrived just before the call.
const UNWATCHED: Span = Span::from_micros(20);

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

thread_local! {
    /// When a kernel descriptor last ended a wait of the thread.
    static KERNEL_SPOKE: Cell<Instant> = const { Cell::new(Instant::NEVER) };
    /// The lane whose rings the thread polls for all threads, and its priority.
    static POLLS: Cell<Option<(&'static Lane, u32)>> = const { Cell::new(None) };
}

/// A kernel descriptor has ended a wait of the thread.
pub(super) fn kernel_spoke(now: Instant) {
    KERNEL_SPOKE.set(now);
}

/// Blocks signals; unblocks them when dropped.
struct Held(sigset_t);

impl Drop for Held {
    fn drop(&mut self) {
        sys::restore_signals(&self.0);
    }
}

/// Polls from now on for a time; [`AGAIN`] when it is time to sleep.
#[inline(never)]
pub(super) fn spin<T>(
    lane: &'static Lane,
    plan: &mut WaitPlan<'_>,
    (begin, budget): (Instant, Span),
    attempt: &mut impl FnMut(&mut Access<'_>, KernelHint) -> Result<T>,
) -> Result<T> {
    if budget.is_zero() {
        return Err(AGAIN);
    }
    let _polling = Polling::begins(lane, begin);
    let mut change = SocketChange::new(lane);
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
        if !lane.quiet() || due || kernel == KernelHint::Speaks || lane.due(now) || change.is_there(lane) {
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
    fn new(lane: &Lane, plan: &WaitPlan<'_>, begin: Instant) -> Self {
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
    fn notice_preemption(&mut self, plan: &WaitPlan<'_>, now: Instant) -> Result<()> {
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
    fn peek(&mut self, plan: &mut WaitPlan<'_>, now: Instant) -> KernelHint {
        if now.since(self.peeked) < self.peeks_every {
            return KernelHint::Unknown;
        }
        self.peeked = now;
        self.idle_since = None;
        let ready = sys::ppoll(plan.fds.get_mut(OWN..).unwrap_or_default(), Some(Span::ZERO), None);
        if !ready.is_ok_and(|ready| ready > 0) {
            return KernelHint::Unknown;
        }
        KERNEL_SPOKE.set(now);
        KernelHint::Speaks
    }

    /// Yields the processor, if it is time to. [`AGAIN`] if it is better to sleep.
    #[inline]
    fn offer_processor(&mut self, plan: &WaitPlan<'_>, now: Instant) -> Result<()> {
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
    fn look_for_signals(&mut self, plan: &WaitPlan<'_>, now: Instant) -> Result<()> {
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
fn peek(plan: &WaitPlan<'_>, now: Instant) -> Span {
    let descriptors = plan.fds.len().saturating_sub(OWN);
    let spoke = KERNEL_SPOKE.get();
    if descriptors == 0 || spoke.is_never() || now.since(spoke) >= SPOKE_LATELY {
        return Span::from_nanos(u64::MAX);
    }
    PEEK + PEEK_EACH.times(descriptors as u64)
}

/// Unblocks the signals that were blocked, if any are pending: the call ends with `EINTR` if a
/// handler has run that does not let it restart.
fn let_through(held: &mut Option<Held>, plan: &WaitPlan<'_>) -> Result<()> {
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
pub(super) fn ends_polling() -> Option<&'static Lane> {
    let (lane, priority) = POLLS.take()?;
    lane.poll_ends(priority);
    Some(lane)
}
