//! When the system clock is steered. Other programs may steer it, too, so:
//!
//! * the steering ends when another program is known to steer the clock, or changes how it runs,
//!   until the clock has been left untouched for a while;
//! * it is stepped at a start only, and only if it is far off; from then on it is slewed;
//! * it is not steered toward our own clock while that does not know the time, or may be off by a
//!   second, and at leap seconds.
//!
//! Time comes in as an argument, and the kernel is behind a trait: tests run in virtual time and
//! touch no clock.

use super::competing_daemons::CompetingDaemon;
use super::kernel::Kernel;
use super::law::{Law, Seen};
use crate::report::SystemClockReport;
use nix::errno::Errno;
use tickclock::{Leap, Reading, Status};
use tickwire_osclock::adjtime::{self, KernelClockState, KernelStatus, MOST_PPM, UNITS_PER_PPM};

const SECOND: i64 = 1_000_000_000;
/// The clock must have been untouched by other programs for so long before it is steered, in ns.
/// Each later change by another program multiplies the time by `LONGER`, up to `QUIET_MOST`.
const QUIET: i64 = 8 * SECOND;
const QUIET_MOST: i64 = 24 * 3600 * SECOND;
const LONGER: i64 = 8;
/// Intervals of the search for programs that are known to steer, in ns. While the clock is steered
/// (`LOOK_LATER`), their changes reveal them as well.
const LOOK: i64 = QUIET / 2;
const LOOK_LATER: i64 = 64 * SECOND;
/// If the clock is off by so much later on, in ns, it was set, or the servers were: that needs the
/// administrator.
const FAR: f64 = 10e9;
/// Around a leap second the two clocks may mean different seconds: the clock is not corrected for
/// so many ns before and after.
const GREY: i64 = 2 * SECOND;
/// A leap second is announced to the kernel on its day, in ns.
const DAY: i64 = 86_400 * SECOND;
/// The kernel may return a frequency rounded by so many units.
const ROUNDED: u64 = 2;

/// The inputs of the steering, each second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// When, in ns of a monotonic clock.
    pub(super) at: i64,
    /// By how much the system clock is ahead of ours, in ns.
    pub(super) ahead: f64,
    /// By how much faster it should run than it would by itself, in ppm.
    pub(super) base: f64,
    /// Our clock.
    pub(super) reading: Reading,
    pub(super) leap: Leap,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Watches since then for other programs that steer; `before` is how the kernel ran the clock
    /// at the last look.
    Watching { since: i64, before: Option<KernelClockState> },
    /// Steers; `set` is the frequency that the kernel was given.
    Steering { set: i64 },
}

/// The steering of one clock.
#[derive(Debug)]
pub(super) struct Steering<K> {
    kernel: K,
    law: Law,
    phase: Phase,
    /// Offset in ns beyond which the clock is stepped at the start; `None` once it has been
    /// steered.
    threshold: Option<f64>,
    quiet: i64,
    looked: Option<i64>,
    tai: Option<i32>,
    why: Option<String>,
    ahead: Option<f64>,
    base: f64,
}

impl<K: Kernel> Steering<K> {
    /// Prepares to steer; an offset beyond `threshold` ns is stepped at the start.
    pub(super) fn new(kernel: K, threshold: f64) -> Self {
        Self {
            kernel,
            law: Law::default(),
            phase: Phase::Watching { since: i64::MIN, before: None },
            threshold: Some(threshold),
            quiet: QUIET,
            looked: None,
            tai: None,
            why: None,
            ahead: None,
            base: 0.0,
        }
    }

    /// The work of each second; `rival` looks for programs that are known to steer.
    pub(super) fn turn(&mut self, now: &Now, rival: impl FnOnce() -> Option<CompetingDaemon>) {
        let known = now.reading.bound < super::USELESS && !now.reading.status.contains(Status::STALE);
        self.ahead = known.then_some(now.ahead);
        if known {
            self.base = now.base;
        }
        if let Err(errno) = self.attempt(now, known, rival) {
            self.leave(now.at, format!("the kernel refuses: {errno}"));
        }
    }

    fn attempt(
        &mut self,
        now: &Now,
        known: bool,
        rival: impl FnOnce() -> Option<CompetingDaemon>,
    ) -> Result<(), Errno> {
        let state = self.kernel.look()?;
        let every = if matches!(self.phase, Phase::Steering { .. }) { LOOK_LATER } else { LOOK };
        if self.looked.is_none_or(|looked| now.at - looked >= every) {
            self.looked = Some(now.at);
            if let Some(CompetingDaemon { name, process }) = rival() {
                self.leave(now.at, format!("{name} (process {process}) is there to steer it"));
                return Ok(());
            }
        }
        match self.phase {
            Phase::Watching { since, before } => {
                let since = if since == i64::MIN { now.at } else { since };
                self.phase = Phase::Watching { since, before: Some(state) };
                let ready = known && !now.reading.status.contains(Status::WARMING_UP) && !near_leap(now);
                if before.is_some_and(|before| touched(&before, &state)) {
                    self.leave(now.at, "another program steers it".into());
                } else if ready && now.at - since >= self.quiet {
                    self.begin(now)?;
                }
                Ok(())
            }
            Phase::Steering { set } => {
                if state.frequency.abs_diff(set) > ROUNDED || state.tick != self.kernel.usual_tick() || state.looped {
                    self.quiet = self.quiet.saturating_mul(LONGER).min(QUIET_MOST);
                    self.leave(now.at, "another program has changed how it runs".into());
                    return Ok(());
                }
                self.steer(now, known)
            }
        }
    }

    /// Takes the clock over.
    fn begin(&mut self, now: &Now) -> Result<(), Errno> {
        self.kernel.take_over()?;
        if self.threshold.is_some_and(|threshold| now.ahead.abs() > threshold) {
            tracing::warn!(by_s = -now.ahead * 1e-9, "the system clock is set");
            self.kernel.step(-now.ahead as i64)?;
        }
        self.threshold = None;
        self.law = Law::default();
        self.why = None;
        self.tai = None;
        self.set(now.base)?;
        tracing::info!(ahead_us = now.ahead * 1e-3, frequency_ppm = now.base, "the system clock is steered");
        Ok(())
    }

    fn steer(&mut self, now: &Now, known: bool) -> Result<(), Errno> {
        let far = known && now.ahead.abs() > FAR;
        let hold = !known || far || near_leap(now);
        if far && self.why.is_none() {
            let why = format!(
                "it has come to be {:.1} s {}, because it was set, or the servers were; it is set right when the daemon starts anew",
                now.ahead.abs() * 1e-9,
                if now.ahead > 0.0 { "ahead" } else { "back" }
            );
            tracing::error!("the system clock is not followed up: {why}");
            self.why = Some(why);
        } else if !far {
            self.why = None;
        }
        let ppm = if hold {
            self.law.pause();
            self.law.at_rest(self.base)
        } else {
            self.law.turn(&Seen { at: now.at, ahead: now.ahead, base: now.base }, MOST_PPM)
        };
        self.set(ppm)?;
        self.tell(now, known && !far)
    }

    fn set(&mut self, ppm: f64) -> Result<(), Errno> {
        let units = (ppm.clamp(-MOST_PPM, MOST_PPM) * UNITS_PER_PPM).round() as i64;
        self.kernel.set_frequency(units)?;
        self.phase = Phase::Steering { set: units };
        Ok(())
    }

    /// Gives the kernel the clock's quality and leap second, for programs that read them there.
    fn tell(&mut self, now: &Now, synchronised: bool) -> Result<(), Errno> {
        let Reading { status, error, bound, offset, tai, .. } = now.reading;
        let us = |ns: u64| (ns.saturating_add(now.ahead.abs() as u64) / 1000).min(i64::MAX as u64 / 4) as i64 + 1;
        let until = now.leap.at.since(tai);
        let leap = match now.leap.step {
            1 if (0..DAY).contains(&until) => adjtime::KernelLeap::Insert,
            -1 if (0..DAY).contains(&until) => adjtime::KernelLeap::Delete,
            _ => adjtime::KernelLeap::None,
        };
        if synchronised {
            self.kernel.tell(KernelStatus { synchronised, error: us(error), most_error: us(bound), leap })?;
        } else {
            self.kernel.tell(KernelStatus { synchronised, error: 16_000_000, most_error: 16_000_000, leap })?;
        }
        let known = status.contains(Status::TAI_KNOWN).then_some(offset);
        if let Some(offset) = known.filter(|_| known != self.tai && synchronised) {
            self.kernel.set_tai(offset)?;
            self.tai = known;
        }
        Ok(())
    }

    /// Stops steering, and watches the clock again.
    fn leave(&mut self, at: i64, why: String) {
        self.phase = Phase::Watching { since: at, before: None };
        if self.why.as_ref() != Some(&why) {
            tracing::error!("the system clock is not steered: {why}");
            self.why = Some(why);
        }
    }

    /// The daemon ends: the clock continues at the best known rate.
    pub(super) fn end(&mut self) {
        let Phase::Steering { set } = self.phase else { return };
        let untouched = self.kernel.look().is_ok_and(|state| state.frequency.abs_diff(set) <= ROUNDED);
        if untouched && let Err(errno) = self.set(self.law.at_rest(self.base)) {
            tracing::error!(%errno, "the system clock goes on as it was steered last");
        }
    }

    pub(super) fn report(&self) -> SystemClockReport {
        let set = if let Phase::Steering { set } = self.phase { Some(set) } else { None };
        let waits = || "waiting for the time, and checking whether another program steers it".to_owned();
        SystemClockReport {
            steered: set.is_some(),
            why: self.why.clone().or_else(|| set.is_none().then(waits)),
            ahead_ns: self.ahead,
            frequency_ppm: set.map(|set| set as f64 / UNITS_PER_PPM),
        }
    }
}

fn near_leap(now: &Now) -> bool {
    now.leap.step != 0 && now.leap.at.since(now.reading.tai).abs() < GREY
}

/// Whether another program has changed the kernel's state between two looks. The kernel by itself
/// only increases the maximum error.
fn touched(before: &KernelClockState, now: &KernelClockState) -> bool {
    (before.frequency, before.tick) != (now.frequency, now.tick) || now.most_error < before.most_error
}

#[cfg(test)]
mod tests;
