//! An oscillator whose rate follows a cycle of temperature: the heating, a fan, day and night. Where there is one, its past foretells hours in which
//! no server answers.
//!
//! State: offset x, rate f, and a rate (a, b) that turns with the cycle: x' = f + a, a' = -w b, b' = w a, each disturbed a little.

use super::model::{Forecast, Model, Reading};

const STATES: usize = 4;
type Square = [[f64; STATES]; STATES];

#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    /// Angular frequency in 1/s.
    omega: f64,
    /// Random walk of the rate, in (ns/s)² per second.
    walk: f64,
    /// How fast the cycle's height changes, in (ns/s)² per second.
    change: f64,
    state: [f64; STATES],
    spread: Square,
}

/// Standard deviation of a cycle's height before anything is known, in ns/s: what one or two degrees do.
const HEIGHT: f64 = 100.0;

impl Cycle {
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

fn product(a: &Square, b: &Square) -> Square {
    core::array::from_fn(|i| core::array::from_fn(|j| (0..STATES).map(|k| a[i][k] * b[k][j]).sum()))
}

impl Model for Cycle {
    fn advance(&mut self, dt: f64) {
        let (w, s, c) = (self.omega, libm::sin(self.omega * dt), libm::cos(self.omega * dt));
        let step: Square = [[1.0, dt, s / w, (c - 1.0) / w], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, c, -s], [0.0, 0.0, s, c]];
        let turned = core::array::from_fn(|i| core::array::from_fn(|j| step[j][i]));
        self.state = core::array::from_fn(|i| (0..STATES).map(|k| step[i][k] * self.state[k]).sum());
        self.spread = product(&product(&step, &self.spread), &turned);
        let (walk, change) = (self.walk * dt, self.change * dt);
        self.spread[0][0] += (walk + change) * dt * dt / 3.0;
        self.spread[0][1] += walk * dt / 2.0;
        self.spread[1][0] += walk * dt / 2.0;
        self.spread[1][1] += walk;
        self.spread[2][2] += change;
        self.spread[3][3] += change;
    }

    fn forecast(&self) -> Forecast {
        let [offset, rate, a, _] = self.state;
        let rate_variance = self.spread[1][1] + 2.0 * self.spread[1][2] + self.spread[2][2];
        Forecast { offset, rate: rate + a, variance: self.spread[0][0], rate_variance }
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
}
