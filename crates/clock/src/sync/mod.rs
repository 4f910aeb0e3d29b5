//! One server: exchanges in, a clock out. There is no I/O and no clock here: the same exchanges
//! give the same clock, bit for bit.
//!
//! | module | stage |
//! |---|---|
//! | `admission` | which exchanges are accepted |
//! | `path`, `minimum`, `noise` | the shortest round trip, its noise, and path changes |
//! | `one_way` | the offset from a round trip that was delayed in one direction only |
//! | `asymmetry` | the delay asymmetry of each path that was seen |
//! | `error_interval` | the interval of the true offset, without the models; the exchanges' error |
//! | `model`, `random_walk`, `periodic` | models of the oscillator: offset and local period |
//! | `model_mixture` | the models, weighted by their likelihood |
//!
//! Each stage uses only the stages before it, so a failure cannot spread upstream: this makes
//! feed-forward clocks robust (Ridoux and Veitch 2012). All estimates are relative to a nominal
//! clock C0(T) = S0 + p0 (T - T0), which is never steered: an offset is true time minus C0.

mod admission;
mod asymmetry;
mod error_interval;
mod minimum;
mod model;
mod model_mixture;
mod noise;
mod one_way;
mod path;
mod periodic;
mod random_walk;

pub use admission::ExchangeRefusal;

use crate::exchange::{Exchange, ServerState};
use asymmetry::Asymmetry;
use error_interval::ErrorInterval;
use model::{Forecast, Reading};
use model_mixture::ModelMixture;
use path::{Passage, Path, Seen};
use tickwire_clockpage::{Count, Nanos, Scale};

/// Configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyncConfig {
    /// The counter's nominal period.
    pub nominal: Scale,
    /// Relative standard deviation of the true period from the nominal one.
    pub rate_error: f64,
    /// How much longer requests take than replies, in ns, as configured by the user. Half of it
    /// corrects the clock.
    pub asymmetry: f64,
}

impl SyncConfig {
    /// The default for a counter with this nominal period that is driven by a common quartz.
    #[must_use]
    pub const fn new(nominal: Scale) -> Self {
        Self { nominal, rate_error: 100e-6, asymmetry: 0.0 }
    }
}

/// A clock: what a reader needs to turn counts into time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockEstimate {
    /// The counter at [`Self::time`].
    pub at: Count,
    /// The time at [`Self::at`].
    pub time: Nanos,
    /// Local period: nanoseconds per count from there on.
    pub period: f64,
    /// Estimated error of `time`: standard deviation in ns.
    pub error: f64,
    /// Growth of `bound` in ns per second.
    pub error_rate: f64,
    /// The maximum error of `time` in ns; it grows by [`Self::error_rate`].
    pub bound: f64,
}

/// How an exchange was used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It updated offset and rate.
    Used {
        /// Its round trip beyond the shortest one, in ns.
        excess: f64,
    },
    /// It revealed a path change; the value is the change of the estimated asymmetry, in ns.
    PathChanged(f64),
    /// The server's clock was stepped: the estimate restarts.
    ServerStepped,
}

/// How many outliers in a row are taken for a step of the server.
const INSISTING: u32 = 8;
/// The limit of an outlier: standard deviations of the forecast plus noise units.
const OUTLYING: f64 = 10.0;
const OUTLYING_UNITS: f64 = 20.0;
/// A bound in standard deviations. A caller that stores a bound and later uses it as a prior, which
/// is a standard deviation, must divide by this.
pub const SURE: f64 = 6.0;
/// Maximum relative change of an oscillator's rate between two readings of the clock: part of the
/// bound's growth.
const RATE_BOUND: f64 = 1e-7;

/// Relative rate error that no model predicts: the bound grows by it while no exchange is
/// informative. The models are weighted by past exchanges, so none of them includes a rate that
/// begins to change unobserved.
const UNFORESEEN: f64 = 3e-8;
/// Maximum relative change of the rate by an unobserved change of temperature, as 1 - exp(-t/tau)
/// after t seconds without exchanges. A quartz changes by 0.1 ppm for each kelvin, rarely by 0.3; a
/// room or a case takes minutes to warm. A larger change of the rate is not covered.
const TURN: f64 = 1e-6;
const TURN_TAU: f64 = 300.0;
/// [`TURN`] is computed this many seconds ahead, which is how long published parameters stay valid.
/// So [`ClockEstimate::error_rate`] need not include it and states only how well the rate is known.
const AHEAD: f64 = 5.0;
/// An exchange is informative if its standard deviation is within this many noise units.
const TELLING: f64 = 5.0;

/// Number of exchanges in the warm-up.
const WARM_UP: usize = 30;

/// An exchange of the warm-up. A later, shorter round trip can show that this one was long, so each
/// further exchange processes all of them again. (RADclock, too, recomputes point errors over its
/// whole window while it warms up.)
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

/// The clock of one server.
#[derive(Clone, Debug)]
pub struct Sync {
    config: SyncConfig,
    origin: Option<Origin>,
    path: Path,
    bank: ModelMixture,
    /// Asymmetry beyond the configured one, learnt from the least delays of each direction.
    learnt: Asymmetry,
    before: Option<Exchange>,
    certain: ErrorInterval,
    /// By how much the bound exceeds that of the models, in ns, because the certain interval at the
    /// last exchange was wider.
    lacking: f64,
    /// None once the warm-up is over.
    early: Option<Vec<Early>>,
    /// Time of the last informative exchange, in seconds.
    told: f64,
    outliers: u32,
    used: u64,
}

impl Sync {
    /// A new estimate, without any exchange.
    #[must_use]
    pub fn new(config: SyncConfig) -> Self {
        let bank = ModelMixture::new(0.0, config.rate_error * 1e9);
        Self {
            config,
            origin: None,
            path: Path::new(),
            bank,
            learnt: Asymmetry::default(),
            before: None,
            certain: ErrorInterval::new(),
            lacking: 0.0,
            early: Some(Vec::new()),
            told: 0.0,
            outliers: 0,
            used: 0,
        }
    }

    /// Processes an exchange.
    ///
    /// # Errors
    /// Why it was not used; the clock is as it was.
    pub fn exchange(&mut self, exchange: &Exchange) -> Result<Outcome, ExchangeRefusal> {
        let whole = self.config.nominal.nanos(exchange.round_trip());
        let admitted = admission::check(exchange, self.before.as_ref(), whole);
        if matches!(admitted, Ok(()) | Err(ExchangeRefusal::ServerChanged)) {
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
        // Rounding could make it negative.
        let round_trip = (forth + back).max(0.0);
        let mut passage = Passage { round_trip, forth: forth - known_offset, back: back + known_offset };
        let before = self.path.round_trip();
        let stamp_error = f64::from(exchange.stamp_error);
        let root = exchange.server.distance();
        // The error of a program's own timestamps need not show in the round trip.
        let open = root + stamp_error;
        let (excess, outcome) = match self.path.take(at, passage) {
            Seen::Unclear => return Err(ExchangeRefusal::PathChanging),
            Seen::Excess(excess) => (excess, Outcome::Used { excess }),
            Seen::Shifted { least: [forth, back], change } => {
                if forth.min(back) < -(open + SURE * libm::sqrt(known.variance)) {
                    // By this clock a direction took negative time: the clock was wrong by more
                    // than its error, which the previous path hid.
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
                return Err(ExchangeRefusal::Outlier);
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
        let one = Early { at, naive, round_trip: passage.round_trip, stamp_error, root };
        self.learn(one, reading, matches!(outcome, Outcome::PathChanged(_)));
        self.certain.moved(self.bank.forecast(at).offset - known_offset);
        self.keep_certain(at);
        Ok(outcome)
    }

    /// Takes an exchange into the estimate. During the warm-up, which ends when the path changes,
    /// all of its exchanges are taken in anew.
    fn learn(&mut self, exchange: Early, reading: Reading, path_changed: bool) {
        let Some(mut early) = self.early.take().filter(|early| early.len() < WARM_UP && !path_changed) else {
            self.absorb(exchange.at, reading, exchange.root);
            return;
        };
        early.push(exchange);
        self.bank = ModelMixture::new(0.0, self.config.rate_error * 1e9);
        self.certain.anew(0.0);
        for one in &early {
            let excess = one.round_trip - self.path.round_trip();
            self.absorb(one.at, self.reading(one.naive, excess, one.stamp_error), one.root);
        }
        self.early = Some(early);
    }

    /// Corrects the offset by `by` ns; the true one lies in the interval `certain`. The estimate of
    /// the rate stays.
    fn begin_anew(&mut self, at: f64, certain: [f64; 2], by: f64, root: f64) {
        let noise = self.path.noise();
        self.bank.displace(by, noise * noise);
        self.learnt = Asymmetry::default();
        self.certain = ErrorInterval::new();
        self.certain.take(certain);
        self.certain.moved(by);
        self.certain.anew(self.distance(root));
        self.keep_certain(at);
    }

    /// Maximum error of an exchange that its variance does not include: half of the round trip,
    /// half of the learnt asymmetry, and its root distance.
    fn distance(&self, root: f64) -> f64 {
        self.path.round_trip() / 2.0 + self.learnt.get().abs() / 2.0 + root
    }

    /// Raises the bound to the certain interval.
    fn keep_certain(&mut self, at: f64) {
        let estimated = self.estimated_bound(at, &self.bank.forecast(at));
        self.lacking = (self.certain.farthest() - estimated).max(0.0);
    }

    /// Updates the models with a reading, and the error distance with that of the reading.
    fn absorb(&mut self, at: f64, reading: Reading, root: f64) {
        let share = self.bank.take(at, reading);
        self.certain.absorb(self.distance(root), share);
    }

    /// The maximum error of the forecast for `at`, if the models are right.
    fn estimated_bound(&self, at: f64, forecast: &Forecast) -> f64 {
        let unforeseen = UNFORESEEN * 1e9 * (at - self.told).max(0.0);
        // Readings within a noise unit count as unbiased. If all the noise is in one direction,
        // half of it is a bias.
        let one_sided = self.noise() / 2.0;
        SURE * libm::sqrt(forecast.variance) + self.certain.distance() + one_sided + unforeseen
    }

    /// The reading of an exchange whose round trip exceeds the shortest one by `excess`.
    fn reading(&self, naive: f64, excess: f64, stamp_error: f64) -> Reading {
        let noise = self.path.noise().max(stamp_error);
        let beyond = (excess - noise).max(0.0);
        Reading {
            offset: naive - self.asymmetry() / 2.0,
            // The noise of the offset is half that of the round trip. What exceeds the noise may be
            // all in one direction.
            variance: noise * noise / 4.0 + beyond * beyond,
        }
    }

    fn nominal(&self, origin: Origin, count: Count) -> Nanos {
        origin.time.plus(self.config.nominal.nanos(count.since(origin.count)))
    }

    /// The estimate of how much longer requests take than replies, in ns.
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

    /// The server state of the last valid exchange, whether it was used or not.
    #[must_use]
    pub fn server(&self) -> Option<ServerState> {
        self.before.map(|exchange| exchange.server)
    }

    /// The clock at a count that is not before the last exchange; `None` before the first.
    #[must_use]
    pub fn clock(&self, now: Count) -> Option<ClockEstimate> {
        let origin = self.origin.filter(|_| self.used > 0)?;
        let nominal = self.nominal(origin, now);
        let at = nominal.since(origin.time) as f64 * 1e-9;
        let forecast = self.bank.forecast(at);
        Some(ClockEstimate {
            at: now,
            time: nominal.plus(libm::round(forecast.offset) as i64),
            period: self.config.nominal.period() * (1.0 + forecast.rate * 1e-9),
            error: libm::sqrt(forecast.variance),
            error_rate: rate_error(&forecast),
            bound: self.estimated_bound(at, &forecast) + self.lacking + turned(self.bank.silent(at)),
        })
    }
}

/// Maximum error of the rate, in ns/s.
fn rate_error(forecast: &Forecast) -> f64 {
    SURE * libm::sqrt(forecast.rate_variance) + RATE_BOUND * 1e9
}

/// Time error in ns from a rate that changes after the last exchange, after `silent` seconds
/// without one: the integral of [`TURN`].
fn turned(silent: f64) -> f64 {
    let seconds = if silent > 0.0 { silent + AHEAD } else { 0.0 };
    TURN * 1e9 * (seconds + TURN_TAU * libm::expm1(-seconds / TURN_TAU))
}

/// The middle of two times, without overflow.
fn middle(a: Nanos, b: Nanos) -> Nanos {
    a.plus(b.since(a) / 2)
}
