//! Several models of the oscillator in parallel, each weighted by how well it predicted the
//! exchanges.
//!
//! The weight of model m is w_m ∝ exp(L_m), where L_m = Σ -(e²/S + ln S)/2 over its forecast errors
//! e with variance S, with exponential forgetting (multiple-model estimation, Magill 1965). The
//! published clock is the weighted mean, and its variance includes the spread of the models.

use super::model::{Forecast, Model, Reading};
use super::periodic::PeriodicWander;
use super::random_walk::RandomWalk;

/// Strengths of the random walk of the rate, in (ns/s)² per second, in tenfold steps: from an
/// oven-controlled oscillator to a computer in a draught.
const WALKS: [f64; 8] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1];
/// Cycles in seconds: from that of a fan to nearly two hours, and the day. In steps of an eighth,
/// one of the shorter ones is within 6 percent of any period. Its forecast over a quarter of a
/// cycle is right to a fiftieth of the cycle's effect in that time.
const SHORTEST_CYCLE: f64 = 120.0;
const LONGEST_CYCLE: f64 = 7200.0;
const CYCLE_STEP: f64 = 1.125;
const DAY: f64 = 86_400.0;
/// (walk, change) of the cycle models, as in [`PeriodicWander`].
const STEADINESS: [(f64, f64); 2] = [(1e-4, 1e-3), (1e-2, 1e-1)];
/// Penalty of the cycle models in nats, because there are many of them.
const HANDICAP: f64 = 3.0;
/// Time constant of the forgetting, in exchanges.
const MEMORY: f64 = 256.0;
/// Exchanges farther apart than this part of a cycle cannot identify it, because of aliasing
/// (Nyquist, with a margin).
const SEEN: f64 = 0.3;
/// Number of exchanges over which their spacing is averaged.
const SPACINGS: f64 = 8.0;
/// An exchange is overdue after this many times the average spacing.
const OVERDUE: f64 = 1.5;
/// A model whose weight is below this is skipped.
const NOTHING: f64 = 1e-12;
/// Forecast errors are clipped to this many standard deviations.
const WORST: f64 = 5.0;
/// The log-likelihood in nats of a model whose forecast is not finite.
const NONSENSE: f64 = -1e6;

/// The models, and the time of their last update.
#[derive(Clone, Debug)]
pub(crate) struct ModelMixture {
    steady: Vec<RandomWalk>,
    cycles: Vec<PeriodicWander>,
    /// L_m, in the order of the models.
    scores: Vec<f64>,
    /// w_m; their sum is 1.
    weights: Vec<f64>,
    /// Average of recent intervals between exchanges, in seconds.
    spacing: f64,
    at: f64,
}

impl ModelMixture {
    /// The initial state: the rate is within `rate_error` ns/s (standard deviation) of nominal.
    pub(crate) fn new(at: f64, rate_error: f64) -> Self {
        let steady: Vec<_> = WALKS.map(|walk| RandomWalk::new(walk, rate_error)).into();
        let periods = core::iter::successors(Some(SHORTEST_CYCLE), |p| Some(p * CYCLE_STEP));
        let periods = periods.take_while(|&p| p <= LONGEST_CYCLE).chain([DAY]);
        let cycles: Vec<_> = periods
            .flat_map(|period| STEADINESS.map(|(walk, change)| PeriodicWander::new(period, walk, change, rate_error)))
            .collect();
        let scores = vec![0.0; steady.len() + cycles.len()];
        let mut bank = Self { steady, cycles, weights: vec![0.0; scores.len()], scores, spacing: 0.0, at };
        bank.weigh();
        bank
    }

    fn models(&self) -> impl Iterator<Item = &dyn Model> {
        let steady = self.steady.iter().map(|m| m as &dyn Model);
        steady.chain(self.cycles.iter().map(|m| m as &dyn Model))
    }

    fn models_mut(&mut self) -> impl Iterator<Item = (&mut dyn Model, &mut f64)> {
        let steady = self.steady.iter_mut().map(|m| m as &mut dyn Model);
        let all = steady.chain(self.cycles.iter_mut().map(|m| m as &mut dyn Model));
        all.zip(&mut self.scores)
    }

    /// Seconds since the last exchange.
    pub(crate) fn age(&self, at: f64) -> f64 {
        (at - self.at).max(0.0)
    }

    /// Advances the models to `at` seconds.
    fn advance(&mut self, at: f64) {
        let dt = self.age(at);
        self.at = self.at.max(at);
        self.models_mut().for_each(|(model, _)| model.advance(dt));
    }

    /// Seconds since the last exchange; 0 as long as the next one is not overdue.
    pub(crate) fn silent(&self, at: f64) -> f64 {
        let age = self.age(at);
        if age > OVERDUE * self.spacing { age } else { 0.0 }
    }

    /// Corrects the offset by `by` ns and adds `variance` to its variance; the rate is unchanged.
    pub(crate) fn displace(&mut self, by: f64, variance: f64) {
        self.models_mut().for_each(|(model, _)| model.displace(by, variance));
    }

    /// Updates the models with the offset of an exchange at `at` seconds. Returns its weight, the
    /// share of the new estimate that comes from it.
    pub(crate) fn take(&mut self, at: f64, reading: Reading) -> f64 {
        let gap = self.age(at);
        self.spacing += (gap - self.spacing) / SPACINGS;
        self.advance(at);
        let weights = self.weights.clone();
        let (mut best_steady, mut absorbed) = (f64::NEG_INFINITY, 0.0);
        for ((model, score), weight) in self.models_mut().zip(weights) {
            let forecast = model.forecast(0.0);
            let total = forecast.variance + reading.variance;
            absorbed += weight * forecast.variance / total;
            let error = reading.offset - forecast.offset;
            let squares = (error * error / total).min(WORST * WORST);
            let foretells = error.is_finite() && total.is_finite() && total > 0.0;
            let mut success = if foretells { -0.5 * (squares + libm::log(total)) } else { NONSENSE };
            match model.period() {
                None => best_steady = best_steady.max(success),
                Some(period) if gap > SEEN * period => success = success.min(best_steady),
                Some(_) => {}
            }
            *score = *score * (1.0 - 1.0 / MEMORY) + success;
            model.update(reading);
        }
        self.weigh();
        absorbed
    }

    fn weigh(&mut self) {
        let spacing = self.spacing;
        let handicap = |model: &dyn Model| match model.period() {
            None => 0.0,
            Some(period) if spacing > SEEN * period => f64::INFINITY,
            Some(_) => HANDICAP,
        };
        let scores: Vec<_> = self.models().zip(&self.scores).map(|(model, score)| score - handicap(model)).collect();
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut whole = 0.0;
        for (weight, score) in self.weights.iter_mut().zip(scores) {
            *weight = libm::exp(score - best);
            whole += *weight;
        }
        self.weights.iter_mut().for_each(|weight| *weight /= whole);
    }

    /// The forecast for `at` seconds, which is not before the last exchange.
    pub(crate) fn forecast(&self, at: f64) -> Forecast {
        let dt = self.age(at);
        let mut all = self.models().zip(&self.weights).filter(|(_, weight)| **weight > NOTHING);
        // Moments are taken about the first model's forecast: about zero they would be lost in the
        // rounding of an offset of seconds.
        let (first, &weight) = all.next().expect("one of them is the best");
        let about = first.forecast(dt);
        let (mut whole, mut variance, mut rate_variance) =
            (weight, weight * about.variance, weight * about.rate_variance);
        let (mut offset, mut rate) = (0.0, 0.0);
        for (model, &weight) in all {
            let forecast = model.forecast(dt);
            let (x, f) = (forecast.offset - about.offset, forecast.rate - about.rate);
            whole += weight;
            offset += weight * x;
            rate += weight * f;
            variance += weight * (forecast.variance + x * x);
            rate_variance += weight * (forecast.rate_variance + f * f);
        }
        let (offset, rate) = (offset / whole, rate / whole);
        Forecast {
            offset: about.offset + offset,
            rate: about.rate + rate,
            variance: positive(variance / whole - offset * offset),
            rate_variance: positive(rate_variance / whole - rate * rate),
        }
    }
}

/// A variance that rounding has made negative becomes 0, and NaN becomes infinity: unknown.
const fn positive(variance: f64) -> f64 {
    if variance.is_nan() { f64::INFINITY } else { variance.max(0.0) }
}
