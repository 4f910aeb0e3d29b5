//! An oscillator whose rate follows a cycle of temperature: the heating, a fan, day and night. With
//! such a cycle the model can predict hours in which no server replies.
//!
//! State: offset x, rate f, and a rate (a, b) that turns with the cycle: x' = f + a, a' = -w b, b'
//! = w a, with process noise on f, a and b. Over a time step u
//!
//! ```text
//!     | 1  u  sin(w u)/w  (cos(w u) - 1)/w |
//! F = | 0  1      0               0        |
//!     | 0  0  cos(w u)       -sin(w u)     |
//!     | 0  0  sin(w u)        cos(w u)     |
//!
//! covariance: F P F' + the integral of F diag(0, walk, change, change) F' over the step
//! ```

use super::model::{Forecast, Model, Reading};

const STATES: usize = 4;
type Square = [[f64; STATES]; STATES];

#[derive(Clone, Debug)]
pub(crate) struct PeriodicWander {
    /// Angular frequency in 1/s.
    omega: f64,
    /// Random walk of the rate, in (ns/s)² per second.
    walk: f64,
    /// Random walk of the cycle's amplitude, in (ns/s)² per second.
    change: f64,
    state: [f64; STATES],
    spread: Square,
}

/// Prior standard deviation of a cycle's amplitude in ns/s: the effect of one or two degrees.
const HEIGHT: f64 = 100.0;

impl PeriodicWander {
    /// A cycle of `period` seconds.
    pub(crate) fn new(period: f64, walk: f64, change: f64, rate_error: f64) -> Self {
        let mut spread = [[0.0; STATES]; STATES];
        spread[0][0] = super::model::UNKNOWN_OFFSET;
        spread[1][1] = rate_error * rate_error;
        spread[2][2] = HEIGHT * HEIGHT;
        spread[3][3] = HEIGHT * HEIGHT;
        Self { omega: core::f64::consts::TAU / period, walk, change, state: [0.0; STATES], spread }
    }
}

/// The transition of a time step, and the covariance that the process noise adds in it.
struct Step {
    dt: f64,
    /// Sine and cosine of the angle by which the cycle turns.
    sin: f64,
    cos: f64,
    /// What (a, b) add to the offset: sin / w, (cos - 1) / w.
    a: f64,
    b: f64,
}

impl Step {
    fn of(omega: f64, dt: f64) -> Self {
        let (sin, cos) = (libm::sin(omega * dt), libm::cos(omega * dt));
        Self { dt, sin, cos, a: sin / omega, b: (cos - 1.0) / omega }
    }

    /// F v.
    fn of_state(&self, v: [f64; STATES]) -> [f64; STATES] {
        [self.offset(v), v[1], self.cos * v[2] - self.sin * v[3], self.sin * v[2] + self.cos * v[3]]
    }

    /// The first row of F v.
    fn offset(&self, v: [f64; STATES]) -> f64 {
        v[0] + self.dt * v[1] + self.a * v[2] + self.b * v[3]
    }

    /// What the process noise of the cycle adds to the variance of the offset: the integral of 2 (1
    /// - cos w u) / w² over the step.
    fn wobble(&self, omega: f64) -> f64 {
        2.0 * (self.dt - self.a) / (omega * omega)
    }
}

impl Model for PeriodicWander {
    fn advance(&mut self, dt: f64) {
        let Self { omega, walk, change, .. } = *self;
        let step = Step::of(omega, dt);
        self.state = step.of_state(self.state);
        // F P F', where P is symmetric.
        let half = self.spread.map(|row| step.of_state(row));
        let column = |j: usize| step.of_state(core::array::from_fn(|i| half[i][j]));
        self.spread = core::array::from_fn(column);
        let disturb = |at: &mut Square, i: usize, j: usize, by: f64| {
            at[i][j] += by;
            if i != j {
                at[j][i] += by;
            }
        };
        let spread = &mut self.spread;
        disturb(spread, 0, 0, walk * dt * dt * dt / 3.0 + change * step.wobble(omega));
        disturb(spread, 0, 1, walk * dt * dt / 2.0);
        disturb(spread, 1, 1, walk * dt);
        disturb(spread, 0, 2, -change * step.b / omega);
        disturb(spread, 0, 3, change * (dt - step.a) / omega);
        disturb(spread, 2, 2, change * dt);
        disturb(spread, 3, 3, change * dt);
    }

    fn forecast(&self, dt: f64) -> Forecast {
        let Self { omega, walk, change, ref state, ref spread } = *self;
        let step = Step::of(omega, dt);
        let form = |row: [f64; STATES]| -> f64 {
            (0..STATES).map(|i| row[i] * (0..STATES).map(|j| spread[i][j] * row[j]).sum::<f64>()).sum()
        };
        Forecast {
            offset: step.offset(*state),
            rate: state[1] + step.cos * state[2] - step.sin * state[3],
            variance: form([1.0, dt, step.a, step.b]) + walk * dt * dt * dt / 3.0 + change * step.wobble(omega),
            rate_variance: form([0.0, 1.0, step.cos, -step.sin]) + (walk + change) * dt,
        }
    }

    fn period(&self) -> Option<f64> {
        Some(core::f64::consts::TAU / self.omega)
    }

    fn update(&mut self, reading: Reading) {
        let row = self.spread[0];
        let total = row[0] + reading.variance;
        let innovation = reading.offset - self.state[0];
        let gain: [f64; STATES] = core::array::from_fn(|i| self.spread[i][0] / total);
        for ((state, spread), gain) in self.state.iter_mut().zip(&mut self.spread).zip(gain) {
            *state += gain * innovation;
            spread.iter_mut().zip(row).for_each(|(entry, first)| *entry -= gain * first);
        }
    }

    fn displace(&mut self, by: f64, variance: f64) {
        self.state[0] += by;
        self.spread[0][0] += variance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_what_comes_of_time_passing() {
        let mut cycle = PeriodicWander::new(600.0, 1e-3, 1e-2, 1e5);
        let truth = |at: f64| 30.0 * at + 9.0 * libm::sin(at / 95.0);
        for second in (0..1200).step_by(7) {
            let at = f64::from(second);
            cycle.advance(if second == 0 { 0.0 } else { 7.0 });
            cycle.update(Reading { offset: truth(at), variance: 100.0 });
        }
        for dt in [0.0, 1.0, 200.0, 5000.0] {
            let foretold = cycle.forecast(dt);
            // The process noise adds up to the same in many steps as in one.
            let mut then = cycle.clone();
            (0..10).for_each(|_| then.advance(dt / 10.0));
            let came = then.forecast(0.0);
            for (a, b) in [
                (foretold.offset, came.offset),
                (foretold.rate, came.rate),
                (foretold.variance, came.variance),
                (foretold.rate_variance, came.rate_variance),
            ] {
                assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{dt}: {foretold:?} {came:?}");
            }
        }
    }
}
