//! One server: exchanges in, a clock out. No I/O, no clock; the same exchanges give the same clock,
//! bit for bit.
//!
//! | module | stage |
//! |---|---|
//! | `admission` | which exchanges are let in at all |
//! | `path`, `minimum`, `noise` | the shortest round trip, its noise, and when the path is another |
//! | `one_way` | what a long round trip tells all the same, if it was long in one direction only |
//! | `asymmetry` | how much longer one direction takes, on each of the paths that were seen |
//! | `certain` | between which two offsets the true one lies whatever is thought, and what the exchanges behind the estimate could be wrong by |
//! | `bank`, `model`, `steady`, `cycle` | offset and local period: models of the oscillator, weighted by their success |
//!
//! Each stage uses those before it only, so no failure can spread upstream: this is what makes
//! feed-forward clocks robust (Ridoux and Veitch 2012). Everything is reckoned from a nominal clock
//! C0(T) = S0 + p0 (T - T0), which is never steered; an estimate is what C0 lacks.

mod admission;
mod asymmetry;
mod bank;
mod certain;
mod cycle;
mod minimum;
mod model;
mod noise;
mod one_way;
mod path;
mod steady;

pub use admission::Refusal;

use crate::exchange::{Exchange, ServerState};
use crate::scale::Scale;
use crate::time::{Count, Nanos};
use asymmetry::Asymmetry;
use bank::Bank;
use certain::Certain;
use model::{Forecast, Reading};
use path::{Passage, Path, Seen};

/// What is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The counter's nominal period.
    pub nominal: Scale,
    /// How far the true period may be from it: standard deviation, relative.
    pub rate_error: f64,
    /// How much longer requests take than answers, in ns, as far as the user knows. Half of it
    /// corrects the clock.
    pub asymmetry: f64,
}

impl Config {
    /// A counter with this nominal period, of which a common quartz is the source.
    #[must_use]
    pub const fn new(nominal: Scale) -> Self {
        Self { nominal, rate_error: 100e-6, asymmetry: 0.0 }
    }
}

/// A clock: what a reader needs to turn counts into time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// The counter at [`Self::time`].
    pub at: Count,
    /// The time then.
    pub time: Nanos,
    /// Local period: nanoseconds per count from there on.
    pub period: f64,
    /// Estimated error of `time`: standard deviation in ns.
    pub error: f64,
    /// By how much `bound` may grow: ns per second.
    pub error_rate: f64,
    /// The most that `time` can be wrong by, in ns; it grows by [`Self::error_rate`].
    pub bound: f64,
}

/// How an exchange was used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It told offset and rate.
    Used {
        /// What it added to the shortest round trip, in ns.
        excess: f64,
    },
    /// It was the one that showed that the path is another; the asymmetry, in ns, is now thought to
    /// be greater by so much.
    PathChanged(f64),
    /// The server's clock has been set: the clock begins anew.
    ServerStepped,
}

/// How often an outlier must come in a row before it is believed.
const INSISTING: u32 = 8;
/// What makes an outlier: standard deviations of the forecast, and noise units.
const OUTLYING: f64 = 10.0;
const OUTLYING_UNITS: f64 = 20.0;
/// Bounds are so many standard deviations. Who keeps a bound and later takes it for what is known
/// beforehand, which is a standard deviation, divides by it.
pub const SURE: f64 = 6.0;
/// No oscillator's rate changes by more than this between two looks, relative: part of the bound's
/// growth.
const RATE_BOUND: f64 = 1e-7;

/// What no model foresaw, as a rate, relative: the bound grows by it while no exchange tells much.
/// Models are chosen by what has been, and a rate that begins to turn when nobody looks is in none
/// of them.
const UNFORESEEN: f64 = 3e-8;
/// What a temperature that begins to change does to a rate when nobody looks: up to so much,
/// relative, as 1 - exp(-t/tau) after t seconds of silence. A quartz turns by 0.1 ppm for each
/// kelvin, rarely by 0.3; a room or a case takes minutes to warm. A rate that turns by more is not
/// covered.
const TURN: f64 = 1e-6;
const TURN_TAU: f64 = 300.0;
/// It is reckoned so many seconds ahead: for as long as what is published is valid without being
/// published anew. So [`Clock::error_rate`] need not have it, which says how well the rate is
/// known.
const AHEAD: f64 = 5.0;
/// An exchange tells much if its standard deviation is within so many noise units.
const TELLING: f64 = 5.0;

/// So many exchanges are the warm-up.
const WARM_UP: usize = 30;

/// An exchange of the warm-up. What it is worth shows only later, when a shorter round trip tells
/// that this one was long: so with each further one all of them are taken anew. (RADclock, too,
/// reckons point errors anew over its whole window while it warms up.)
#[derive(Clone, Copy, Debug)]
struct Early {
    at: f64,
    naive: f64,
    round_trip: f64,
    stamp_error: f64,
    root: f64,
}

#[derive(Clone, Copy, Debug)]
struct Origin {
    count: Count,
    time: Nanos,
}

/// The clock that one server gives.
#[derive(Clone, Debug)]
pub struct Sync {
    config: Config,
    origin: Option<Origin>,
    path: Path,
    bank: Bank,
    /// What the least delays of each direction say beyond the configured asymmetry.
    learnt: Asymmetry,
    before: Option<Exchange>,
    certain: Certain,
    /// By how much the bound is more than the models say, in ns: what was certain at the last
    /// exchange was worse.
    lacking: f64,
    /// None once the warm-up is over.
    early: Option<Vec<Early>>,
    /// When an exchange told much, last.
    told: f64,
    outliers: u32,
    used: u64,
}

impl Sync {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let bank = Bank::new(0.0, config.rate_error * 1e9);
        Self {
            config,
            origin: None,
            path: Path::new(),
            bank,
            learnt: Asymmetry::default(),
            before: None,
            certain: Certain::new(),
            lacking: 0.0,
            early: Some(Vec::new()),
            told: 0.0,
            outliers: 0,
            used: 0,
        }
    }

    /// Takes in an exchange.
    ///
    /// # Errors
    /// Why it was not used; the clock is as it was.
    pub fn exchange(&mut self, exchange: &Exchange) -> Result<Outcome, Refusal> {
        let whole = self.config.nominal.nanos(exchange.round_trip());
        let admitted = admission::check(exchange, self.before.as_ref(), whole);
        if matches!(admitted, Ok(()) | Err(Refusal::ServerChanged)) {
            self.before = Some(*exchange);
        }
        admitted?;
        let origin = *self.origin.get_or_insert_with(|| Origin {
            count: exchange.sent.plus(exchange.round_trip() / 2),
            time: middle(exchange.server_received, exchange.server_sent),
        });
        let here = [exchange.sent, exchange.received].map(|count| self.nominal(origin, count));
        let at = (here[0].since(origin.time) as f64 / 2.0 + here[1].since(origin.time) as f64 / 2.0) * 1e-9;
        let forth = exchange.server_received.since(here[0]) as f64;
        let back = here[1].since(exchange.server_sent) as f64;
        let naive = (forth - back) / 2.0;
        let mut known = self.bank.forecast(at);
        let mut known_offset = if self.used == 0 { naive } else { known.offset };
        // Rounding must not make it negative.
        let round_trip = (forth + back).max(0.0);
        let mut passage = Passage { round_trip, forth: forth - known_offset, back: back + known_offset };
        let before = self.path.round_trip();
        let stamp_error = f64::from(exchange.stamp_error);
        let root = exchange.server.distance();
        // What a program's stamps are wrong by need not show in the round trip.
        let open = root + stamp_error;
        let (excess, outcome) = match self.path.take(at, passage) {
            Seen::Unclear => return Err(Refusal::PathChanging),
            Seen::Excess(excess) => (excess, Outcome::Used { excess }),
            Seen::Shifted { least: [forth, back], change } => {
                if forth.min(back) < -(open + SURE * libm::sqrt(known.variance)) {
                    // By the clock a direction took less than no time: the clock was wrong by more
                    // than it could know, for the path before hid it.
                    let (grown, by) = (-self.learnt.get(), (forth - back - self.config.asymmetry) / 2.0);
                    self.begin_anew(at, [-back - open, forth + open], by, root);
                    known = self.bank.forecast(at);
                    known_offset += by;
                    passage = Passage { forth: passage.forth - by, back: passage.back + by, ..passage };
                    (passage.round_trip - self.path.round_trip(), Outcome::PathChanged(grown))
                } else {
                    let (from, to) = (before, self.path.round_trip());
                    let seen = forth - back - self.config.asymmetry;
                    let grown =
                        self.learnt.shift([from, to], seen, change, 2.0 * libm::sqrt(known.variance), self.noise());
                    (passage.round_trip - to, Outcome::PathChanged(grown))
                }
            }
        };
        let (noise, mut reading) = (self.path.noise().max(stamp_error), self.reading(naive, excess, stamp_error));
        if self.early.is_none() && matches!(outcome, Outcome::Used { .. }) {
            let told = one_way::reading(passage, self.path.round_trip(), self.asymmetry(), known, noise);
            reading = told.filter(|told| told.variance < reading.variance).unwrap_or(reading);
        }
        let spread = libm::sqrt(known.variance + reading.variance);
        if self.used > 0 && (reading.offset - known.offset).abs() > OUTLYING * spread + OUTLYING_UNITS * noise {
            self.outliers += 1;
            if self.outliers < INSISTING {
                return Err(Refusal::Outlier);
            }
            *self = Self::new(self.config);
            self.exchange(exchange)?;
            return Ok(Outcome::ServerStepped);
        }
        self.outliers = 0;
        self.used += 1;
        self.certain.drift(rate_error(&known) * self.bank.age(at));
        self.certain.take([-passage.back - open, passage.forth + open]);
        if reading.variance <= TELLING * TELLING * noise * noise {
            self.told = at;
        }
        match self.early.take().filter(|early| early.len() < WARM_UP && !matches!(outcome, Outcome::PathChanged(_))) {
            Some(mut early) => {
                early.push(Early { at, naive, round_trip: passage.round_trip, stamp_error, root });
                self.bank = Bank::new(0.0, self.config.rate_error * 1e9);
                self.certain.anew(0.0);
                for one in &early {
                    let excess = one.round_trip - self.path.round_trip();
                    self.absorb(one.at, self.reading(one.naive, excess, one.stamp_error), one.root);
                }
                self.early = Some(early);
            }
            None => self.absorb(at, reading, root),
        }
        self.certain.moved(self.bank.forecast(at).offset - known_offset);
        self.keep_certain(at);
        Ok(outcome)
    }

    /// The time was wrong `by` so much, in ns, for the true one lies between these two. What is
    /// known of the oscillator's rate stays.
    fn begin_anew(&mut self, at: f64, certain: [f64; 2], by: f64, root: f64) {
        let noise = self.path.noise();
        self.bank.displace(by, noise * noise);
        self.learnt = Asymmetry::default();
        self.certain = Certain::new();
        self.certain.take(certain);
        self.certain.moved(by);
        self.certain.anew(self.distance(root));
        self.keep_certain(at);
    }

    /// What an exchange that is worth its weight may be wrong by all the same: half of the round
    /// trip and of the asymmetry that was learnt, and its root distance.
    fn distance(&self, root: f64) -> f64 {
        self.path.round_trip() / 2.0 + self.learnt.get().abs() / 2.0 + root
    }

    /// The bound is not less than what is certain now.
    fn keep_certain(&mut self, at: f64) {
        let estimated = self.estimated_bound(at, &self.bank.forecast(at));
        self.lacking = (self.certain.farthest() - estimated).max(0.0);
    }

    /// The models take in a reading, and with it what it may be wrong by all the same.
    fn absorb(&mut self, at: f64, reading: Reading, root: f64) {
        let share = self.bank.take(at, reading);
        self.certain.absorb(self.distance(root), share);
    }

    /// The most that the forecast for `at` can be wrong by, if the models are right.
    fn estimated_bound(&self, at: f64, forecast: &Forecast) -> f64 {
        let unforeseen = UNFORESEEN * 1e9 * (at - self.told).max(0.0);
        // Readings within a noise unit count as unbiased. If all the noise is in one direction,
        // half of it is a bias.
        let one_sided = self.noise() / 2.0;
        SURE * libm::sqrt(forecast.variance) + self.certain.distance() + one_sided + unforeseen
    }

    /// What an exchange tells whose round trip was by so much longer than the shortest.
    fn reading(&self, naive: f64, excess: f64, stamp_error: f64) -> Reading {
        let noise = self.path.noise().max(stamp_error);
        let beyond = (excess - noise).max(0.0);
        Reading {
            offset: naive - self.asymmetry() / 2.0,
            // Half the noise of a round trip is that of the offset; what is beyond may be all in
            // one direction.
            variance: noise * noise / 4.0 + beyond * beyond,
        }
    }

    fn nominal(&self, origin: Origin, count: Count) -> Nanos {
        origin.time.plus(self.config.nominal.nanos(count.since(origin.count)))
    }

    /// How much longer requests are thought to take than answers, in ns.
    #[must_use]
    pub fn asymmetry(&self) -> f64 {
        self.config.asymmetry + self.learnt.get()
    }

    /// The noise unit, in ns.
    #[must_use]
    pub fn noise(&self) -> f64 {
        self.path.noise()
    }

    /// The shortest round trip, in ns; infinite before the first exchange.
    #[must_use]
    pub fn round_trip(&self) -> f64 {
        self.path.round_trip()
    }

    /// What the server said of itself last, whether that exchange was used or not.
    #[must_use]
    pub fn server(&self) -> Option<ServerState> {
        self.before.map(|exchange| exchange.server)
    }

    /// The clock at a count that is not before the last exchange; `None` before the first.
    #[must_use]
    pub fn clock(&self, now: Count) -> Option<Clock> {
        let origin = self.origin.filter(|_| self.used > 0)?;
        let nominal = self.nominal(origin, now);
        let at = nominal.since(origin.time) as f64 * 1e-9;
        let forecast = self.bank.forecast(at);
        Some(Clock {
            at: now,
            time: nominal.plus(libm::round(forecast.offset) as i64),
            period: self.config.nominal.period() * (1.0 + forecast.rate * 1e-9),
            error: libm::sqrt(forecast.variance),
            error_rate: rate_error(&forecast),
            bound: self.estimated_bound(at, &forecast) + self.lacking + turned(self.bank.silent(at)),
        })
    }
}

/// What the rate can be wrong by, in ns/s.
fn rate_error(forecast: &Forecast) -> f64 {
    SURE * libm::sqrt(forecast.rate_variance) + RATE_BOUND * 1e9
}

/// By how much a rate that turns after the last exchange moves the time, in ns, after so many
/// seconds of silence: its integral.
fn turned(silent: f64) -> f64 {
    let seconds = if silent > 0.0 { silent + AHEAD } else { 0.0 };
    TURN * 1e9 * (seconds + TURN_TAU * libm::expm1(-seconds / TURN_TAU))
}

/// The middle of two times, without overflow.
fn middle(a: Nanos, b: Nanos) -> Nanos {
    a.plus(b.since(a) / 2)
}
