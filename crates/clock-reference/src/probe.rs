//! Reads a clock together with the counter, and compares it with the truth.

use crate::Truth;
use anyhow::{Context, Result};
use clock_bound::ClockStatus;
use nix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::{Duration, Instant};
use tickclock::{Clock, Count, Reading, Status, counter};
use tickwire_bench::error::{ClockError, Point, spread};

/// Attempts for one reading; the one with the narrowest interval counts.
const TRIES: usize = 8;
/// Interval between groups of reads.
const PERIOD: Duration = Duration::from_millis(10);
/// A clock has converged when its error stays below this, in ns, for `STAYS` periods.
const CONVERGED: i64 = 10_000;
const STAYS: u32 = 100;
/// Timeout for a page to appear.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The same for ClockBound, which publishes nothing before a few polls at 16 s.
const CLOCKBOUND_TIMEOUT: Duration = Duration::from_secs(120);

/// A clock to be probed.
pub enum Probed {
    /// Tickwire's.
    Page(Clock),
    /// Tickwire's, read without waiting for earlier instructions.
    Unordered(Clock),
    /// The kernel's.
    System,
    /// ClockBound's, read by its own library.
    ClockBound(Box<clock_bound::Client>),
}

/// The reading of a clock: Unix time in ns, and its maximum error if the clock reports it.
#[derive(Clone, Copy, Debug)]
struct Shown {
    utc: i64,
    bound: Option<i64>,
}

impl Shown {
    /// From a reading of Tickwire's clock.
    fn by(reading: &Reading) -> Option<Self> {
        let bound = i64::try_from(reading.bound).ok();
        reading.status.contains(Status::SYNCHRONISED).then_some(Self { utc: reading.utc().0, bound })
    }
}

impl Probed {
    /// Opens the clock of a page, and waits for a daemon that was just started to create it.
    ///
    /// # Errors
    /// It did not appear in time.
    pub fn page(path: &Path) -> Result<Self> {
        let begin = Instant::now();
        loop {
            match Clock::open(path) {
                Ok(clock) => return Ok(Self::Page(clock)),
                Err(error) if begin.elapsed() > TIMEOUT => return Err(error).context("the page never came"),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Opens the clock of ClockBound's daemon, which was just started.
    ///
    /// # Errors
    /// It did not appear in time.
    pub fn clockbound() -> Result<Self> {
        let begin = Instant::now();
        loop {
            match clock_bound::Client::new() {
                Ok(client) => return Ok(Self::ClockBound(Box::new(client))),
                Err(error) if begin.elapsed() > CLOCKBOUND_TIMEOUT => {
                    anyhow::bail!("ClockBound never came: {error:?}")
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Reads the clock; `None` if it does not know the time.
    fn show(&mut self) -> Option<Shown> {
        match self {
            Self::Page(clock) => Shown::by(&clock.now()),
            Self::Unordered(clock) => Shown::by(&clock.now_unordered()),
            Self::ClockBound(client) => {
                let window = client.now().ok()?;
                matches!(window.clock_status, ClockStatus::Synchronized | ClockStatus::FreeRunning).then(|| {
                    let ns =
                        |time: &clock_bound::nix::sys::time::TimeSpec| time.tv_sec() * 1_000_000_000 + time.tv_nsec();
                    let (earliest, latest) = (ns(&window.earliest), ns(&window.latest));
                    let bound = (latest - earliest) / 2;
                    Shown { utc: earliest + bound, bound: Some(bound) }
                })
            }
            Self::System => {
                let now = clock_gettime(ClockId::CLOCK_REALTIME).ok()?;
                Some(Shown { utc: now.tv_sec() * 1_000_000_000 + now.tv_nsec(), bound: None })
            }
        }
    }
}

/// How much to read, and which reads count.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// How long.
    pub seconds: f64,
    /// The start of each part with figures of its own, in order. Reads before the first part count
    /// only for its convergence and bounds.
    pub parts: Vec<f64>,
    /// Reads per second.
    pub rate: u32,
}

/// One read.
struct Read {
    before: Count,
    shown: Option<Shown>,
    after: Count,
}

/// Probes a clock by a plan whose time starts at `begin`. Returns the figures of each part.
#[must_use]
pub fn probe(truth: &Truth, probed: &mut Probed, plan: &ProbePlan, begin: Instant) -> Vec<ClockError> {
    let at_once = (f64::from(plan.rate) * PERIOD.as_secs_f64()).ceil() as usize;
    let mut record = Record::default();
    let mut next = Instant::now();
    let mut parts = plan.parts.iter().copied().peekable();
    let mut settled = parts.next().unwrap_or_default();
    let mut figures = Vec::new();
    loop {
        let at = begin.elapsed().as_secs_f64();
        if at >= plan.seconds {
            figures.push(record.finish());
            return figures;
        }
        if let Some(part) = parts.next_if(|part| at >= *part) {
            let later = record.next();
            figures.push(std::mem::replace(&mut record, later).finish());
            settled = part;
        }
        for _ in 0..at_once {
            let read = (0..TRIES).map(|_| once(truth, probed)).min_by_key(|read| read.after.since(read.before));
            record.take(truth, &read.expect("tries"), at >= settled);
        }
        record.end_of_period(at);
        next += PERIOD;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn once(truth: &Truth, probed: &mut Probed) -> Read {
    let before = counter::read(truth.kind());
    let shown = probed.show();
    let after = counter::read(truth.kind());
    Read { before, shown, after }
}

#[derive(Default)]
struct Record {
    errors: Vec<i32>,
    bounds: Vec<i32>,
    widths: Vec<i32>,
    figures: ClockError,
    /// Errors of this second.
    second: Vec<i32>,
    bound: Option<i64>,
    /// Whether a read of this period was beyond `CONVERGED`, or gave no time.
    far: bool,
    /// Successive periods without such a read.
    near: u32,
}

impl Record {
    /// The record of the next part, which inherits the time of convergence.
    fn next(&self) -> Self {
        let figures = ClockError { converged_s: self.figures.converged_s, ..ClockError::default() };
        Self { figures, near: self.near, far: self.far, ..Self::default() }
    }

    fn take(&mut self, truth: &Truth, read: &Read, settled: bool) {
        let Some(shown) = read.shown else {
            self.far = true;
            return;
        };
        let earliest = truth.at(read.before);
        let latest = truth.at(read.after);
        let width = latest.since(earliest);
        let error = shown.utc - earliest.plus(width / 2).0;
        self.far |= error.abs() >= CONVERGED;
        self.second.push(clamp(error));
        self.bound = shown.bound;
        if let Some(bound) = shown.bound {
            self.figures.bounded += 1;
            // The clock was read at an unknown moment between the two.
            let outside = shown.utc + bound < earliest.0 || shown.utc - bound > latest.0;
            self.figures.outside += u64::from(outside);
        }
        if settled {
            self.errors.push(clamp(error));
            self.widths.push(clamp(width));
            self.bounds.extend(shown.bound.map(clamp));
        }
    }

    fn end_of_period(&mut self, at: f64) {
        self.near = if self.far { 0 } else { self.near + 1 };
        self.far = false;
        if self.near == STAYS && self.figures.converged_s.is_none() {
            self.figures.converged_s = Some((at - f64::from(STAYS) * PERIOD.as_secs_f64()).max(0.0));
        }
        let second = at.floor();
        if self.figures.series.last().is_none_or(|last| last.at_s < second) && !self.second.is_empty() {
            let worst = self.second.iter().copied().max_by_key(|error| error.unsigned_abs()).map_or(0, i64::from);
            let median = spread(&mut self.second).map_or(0, |[median, ..]| median);
            let point = Point { at_s: second, median_ns: median, worst_ns: worst, bound_ns: self.bound };
            self.figures.series.push(point);
            self.second.clear();
        }
    }

    fn finish(mut self) -> ClockError {
        let [median_ns, iqr_ns, p99_ns, max_ns] = spread(&mut self.errors).unwrap_or_default();
        let middle = |values: &mut [i32]| spread(values).map_or(0, |[median, ..]| median);
        ClockError {
            reads: self.errors.len() as u64,
            median_ns,
            iqr_ns,
            p99_ns,
            max_ns,
            bound_ns: middle(&mut self.bounds),
            width_ns: middle(&mut self.widths),
            ..self.figures
        }
    }
}

fn clamp(ns: i64) -> i32 {
    ns.clamp(i64::from(-i32::MAX), i64::from(i32::MAX)) as i32
}
