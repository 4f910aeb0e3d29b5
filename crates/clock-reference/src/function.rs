//! The true time: UTC = f(T).
//!
//! f(T) = U0 + p (T - T0) + x(t) + walk(t) + steps, with t = p (T - T0). The first two terms are
//! integers; the others are small, and computed by operations that give the same bits in every
//! process. To start the client with a wrong rate, p is not the counter's true period: the client
//! cannot distinguish this from an oscillator with that rate error.

use crate::path::PathModel;
use crate::walk::{Table, Walk};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path as File;
use std::time::Duration;
use tickclock::{Count, CounterKind, Nanos, Scale};
use tickwire_stamping::cross_timestamp::CrossTimestamp;

/// The parameters of a run's truth, without its time of start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Lead of the truth over the system clock at the start, in us.
    pub ahead_us: f64,
    /// Rate of the truth relative to the system clock at the start, in ppm; positive is faster.
    pub rate_ppm: f64,
    /// A sinusoidal variation of the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wander: Option<SineWander>,
    /// A random walk of the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walk>,
    /// Steps of the true time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TimeStep>,
    /// The path to the server.
    pub path: PathModel,
}

/// A sinusoidal variation of the rate: amplitude x sin(2 pi t / period).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SineWander {
    /// Its amplitude.
    pub ppm: f64,
    /// Its period.
    pub period_s: f64,
}

impl SineWander {
    /// Its contribution to the time in ns: the integral of the rate.
    fn phase(self, t: f64) -> f64 {
        let omega = core::f64::consts::TAU / self.period_s;
        self.ppm * 1e3 / omega * (1.0 - libm::cos(omega * t))
    }
}

/// A step of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeStep {
    /// When, in s from the start.
    pub at_s: f64,
    /// By how much.
    pub ns: i64,
}

/// The content of the file: the origin of f, and its recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    counter: u64,
    origin: i64,
    utc_ns: i64,
    mult: i64,
    shift: u32,
    recipe: Recipe,
}

/// f.
#[derive(Clone, Debug)]
pub struct Truth {
    kind: CounterKind,
    origin: Count,
    utc: Nanos,
    scale: Scale,
    recipe: Recipe,
    walk: Option<Table>,
}

/// How long the system clock's rate is measured, for an accuracy of 0.05 ppm.
const MEASURE: Duration = Duration::from_secs(1);

impl Truth {
    /// Starts the truth of this recipe now. It starts at the system clock's time, so that other
    /// daemons that steer the system clock need not move it far.
    ///
    /// # Errors
    /// The rate of the counter cannot be measured, or the recipe is invalid.
    pub fn begin(recipe: Recipe) -> Result<Self> {
        let (kind, _) = tickwire_timekeeper::hardware::choose();
        let nominal = tickwire_timekeeper::hardware::nominal(kind).context("the counter has no usable period")?;
        let first = CrossTimestamp::take(kind, nominal.period());
        std::thread::sleep(MEASURE);
        let last = CrossTimestamp::take(kind, nominal.period());
        let period = (last.realtime - first.realtime) as f64 / last.count.since(first.count) as f64;
        let scale = Scale::from_period(period * (1.0 + recipe.rate_ppm * 1e-6)).context("no such rate")?;
        let utc = Nanos(last.realtime + (recipe.ahead_us * 1e3) as i64);
        Self::new(Parameters {
            counter: kind as u64,
            origin: last.count.0.try_into()?,
            utc_ns: utc.0,
            mult: scale.mult.try_into()?,
            shift: scale.shift,
            recipe,
        })
    }

    fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { counter, origin, utc_ns, mult, shift, recipe } = parameters;
        if recipe.wander.is_some_and(|wander| wander.period_s <= 0.0) {
            bail!("a wander's period must be positive");
        }
        Ok(Self {
            kind: CounterKind::from_number(counter).with_context(|| format!("counter {counter} is not known"))?,
            origin: Count(origin.try_into()?),
            utc: Nanos(utc_ns),
            scale: Scale { mult: mult.try_into()?, shift },
            walk: recipe.walk.map(Table::new),
            recipe,
        })
    }

    /// Reads f's file.
    ///
    /// # Errors
    /// It does not exist, or is not such a file.
    pub fn read(file: &File) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let parameters = toml::from_str(&text).with_context(|| format!("{} is no truth", file.display()))?;
        Self::new(parameters)
    }

    /// Writes f's file. The decimals in the TOML file are exact, so reading it gives the same bits.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &File) -> Result<()> {
        let parameters = Parameters {
            counter: self.kind as u64,
            origin: self.origin.0.try_into()?,
            utc_ns: self.utc.0,
            mult: self.scale.mult.try_into()?,
            shift: self.scale.shift,
            recipe: self.recipe.clone(),
        };
        std::fs::write(file, toml::to_string(&parameters)?).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The true time.
    #[must_use]
    pub fn at(&self, count: Count) -> Nanos {
        let linear = self.scale.nanos(count.since(self.origin));
        let t = linear as f64 * 1e-9;
        let cycle = self.recipe.wander.map_or(0.0, |wander| wander.phase(t));
        let walked = self.walk.as_ref().map_or(0.0, |walk| walk.phase(t));
        let stepped: i64 = self.recipe.steps.iter().filter(|step| t >= step.at_s).map(|step| step.ns).sum();
        self.utc.plus(linear + libm::round(cycle + walked) as i64 + stepped)
    }

    /// Seconds from the start, without wander.
    #[must_use]
    pub fn seconds(&self, count: Count) -> f64 {
        self.scale.nanos(count.since(self.origin)) as f64 * 1e-9
    }

    /// Converts ns to counts.
    #[must_use]
    pub const fn counts(&self, ns: i64) -> i64 {
        self.scale.counts(ns)
    }

    /// The counter's period in ns.
    #[must_use]
    pub fn period(&self) -> f64 {
        self.scale.period()
    }

    /// The counter of which f is a function.
    #[must_use]
    pub const fn kind(&self) -> CounterKind {
        self.kind
    }

    /// The recipe.
    #[must_use]
    pub const fn recipe(&self) -> &Recipe {
        &self.recipe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(recipe: Recipe) -> Truth {
        let scale = Scale::from_period(0.4).unwrap();
        let origin = 1 << 40;
        Truth::new(Parameters { counter: 1, origin, utc_ns: 7, mult: scale.mult as i64, shift: scale.shift, recipe })
            .unwrap()
    }

    fn after(seconds: f64) -> Count {
        Count((1 << 40) + (seconds * 2.5e9) as u64)
    }

    #[test]
    fn what_is_read_from_the_file_is_the_same_truth_to_the_last_bit() {
        let truth = truth(Recipe {
            ahead_us: 0.1,
            rate_ppm: 1.0 / 3.0,
            wander: Some(SineWander { ppm: 0.07, period_s: 601.3 }),
            walk: Some(Walk { ppm_per_s: 0.003, seed: 5 }),
            steps: vec![TimeStep { at_s: 3.25, ns: -1_000 }],
            path: PathModel::default(),
        });
        let file = std::env::temp_dir().join(format!("truth-{}", std::process::id()));
        truth.write(&file).unwrap();
        let read = Truth::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read.recipe, truth.recipe);
        for number in 0..10_000 {
            let count = after(f64::from(number) * 0.7193);
            assert_eq!(read.at(count), truth.at(count), "{number}");
        }
    }

    #[test]
    fn a_cycle_of_the_rate_is_ahead_most_in_its_middle() {
        let truth = truth(Recipe { wander: Some(SineWander { ppm: 0.05, period_s: 600.0 }), ..Recipe::default() });
        let ahead = |seconds: f64| truth.at(after(seconds)).0 - 7 - (seconds * 1e9) as i64;
        assert_eq!((ahead(0.0), ahead(600.0)), (0, 0));
        // 0.05 us/s x 600 s / pi.
        assert_eq!(ahead(300.0), 9_549);
    }

    #[test]
    fn steps_are_at_their_time() {
        let truth = truth(Recipe { steps: vec![TimeStep { at_s: 2.0, ns: 500 }], ..Recipe::default() });
        assert_eq!(truth.at(after(1.0)), Nanos(1_000_000_007));
        assert_eq!(truth.at(after(3.0)), Nanos(3_000_000_507));
    }
}
