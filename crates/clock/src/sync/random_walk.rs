//! An oscillator whose rate is a random walk: a Kalman filter for offset and local period.
//!
//! RADclock takes the offset as a weighted mean over a fixed window (1024 s) and the local period
//! over another (5120 s). The filter of Kalman (1960) computes both for an oscillator whose rate is
//! a random walk. The strength of that walk is a parameter, and [`super::model_mixture`] selects
//! the one that fits. So the windows adapt to the oscillator.

use super::model::{Forecast, Model, Reading};

/// Offset in ns, rate in ns/s, and their covariance.
#[derive(Clone, Debug)]
pub(crate) struct RandomWalk {
    /// Strength of the random walk of the rate, in (ns/s)² per second.
    walk: f64,
    offset: f64,
    rate: f64,
    /// Covariance: of the offset, of offset and rate, of the rate.
    spread: [f64; 3],
}

impl RandomWalk {
    /// The initial state: the rate is within `rate_error` ns/s (standard deviation) of nominal.
    pub(crate) fn new(walk: f64, rate_error: f64) -> Self {
        Self { walk, offset: 0.0, rate: 0.0, spread: [super::model::UNKNOWN_OFFSET, 0.0, rate_error * rate_error] }
    }
}

impl Model for RandomWalk {
    fn advance(&mut self, dt: f64) {
        let b = self.spread[1] + self.spread[2] * dt + self.walk * dt * dt / 2.0;
        let Forecast { offset, variance, rate_variance, .. } = self.forecast(dt);
        self.offset = offset;
        self.spread = [variance, b, rate_variance];
    }

    fn forecast(&self, dt: f64) -> Forecast {
        let [a, b, c] = self.spread;
        Forecast {
            offset: self.offset + self.rate * dt,
            rate: self.rate,
            variance: a + 2.0 * b * dt + c * dt * dt + self.walk * dt * dt * dt / 3.0,
            rate_variance: c + self.walk * dt,
        }
    }

    fn period(&self) -> Option<f64> {
        None
    }

    fn update(&mut self, reading: Reading) {
        let [a, b, c] = self.spread;
        let total = a + reading.variance;
        let innovation = reading.offset - self.offset;
        let (k_offset, k_rate) = (a / total, b / total);
        self.offset += k_offset * innovation;
        self.rate += k_rate * innovation;
        self.spread = [a - k_offset * a, b - k_offset * b, c - k_rate * b];
    }

    fn displace(&mut self, by: f64, variance: f64) {
        self.offset += by;
        self.spread[0] += variance;
    }
}
