//! How a call waits: it polls the lane for a while (`spin`), then sleeps (`sleep`), and so on until
//! there is a result.

use crate::base::deferred_signals;
use crate::base::realtime;
use crate::base::reentrancy::is_inside;
use crate::lane::{Access, Lane};
use crate::sys;
use crate::sys::cancellation;
use crate::sys::errno::{AGAIN, Errno, Result};
use crate::table::desc::{Description, flag};
use crate::wait::plan::{KernelHint, TIMED_OUT, WaitPlan};
use crate::wait::sleep::{self, Slept, sleep};
use crate::wait::spin::{self, spin};
use crate::wait::{Same, budget};
use core::ffi::c_int;
use libc::pollfd;
use tickwire_stack::time::Span;

/// After a first attempt returned [`AGAIN`]: repeats `attempt` under the lane's lock until it
/// returns anything else.
///
/// # Errors
/// The error of `attempt`; [`TIMED_OUT`]; `EINTR`.
pub(crate) fn wait<T>(
    lane: &'static Lane,
    plan: &mut WaitPlan<'_>,
    mut attempt: impl FnMut(&mut Access<'_>, KernelHint) -> Result<T>,
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
    plan: &mut WaitPlan<'_>,
    attempt: &mut impl FnMut(&mut Access<'_>, KernelHint) -> Result<T>,
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
/// non-blocking, for as long as the socket's own `timeout` allows. `fds` as in [`WaitPlan`].
///
/// # Errors
/// The error of `attempt`; [`AGAIN`] also when the time is over; `EINTR`; those of [`Same::check`].
pub(crate) fn transfer<T>(
    lane: &'static Lane,
    (fd, index): (c_int, u32),
    flags: c_int,
    timeout: fn(&Description<'_>) -> Option<Span>,
    fds: &mut [pollfd],
    mut attempt: impl FnMut(&mut Access<'_>, KernelHint) -> Result<T>,
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
        attempt(access, if nonblocking { KernelHint::Unknown } else { KernelHint::Silent })
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
    let mut plan = WaitPlan::new(&on, fds, until);
    match wait(lane, &mut plan, attempt) {
        Err(TIMED_OUT) => Err(AGAIN),
        done => done,
    }
}

/// A handler of the program is about to run in this thread. It may not return (`longjmp`), so the
/// thread stops to count as asleep or polling. Returns on which lane it was asleep.
pub(crate) fn disturb() -> Option<&'static Lane> {
    if let Some(lane) = spin::ends_polling() {
        lane.settle_duty();
    }
    let lane = sleep::asleep_on()?;
    let _ = lane.with_quietly(|access| {
        sleep::awakes(lane, access.stack);
        Ok(())
    });
    lane.settle_duty();
    Some(lane)
}
