//! The oscillator behind a counter: how its rate wanders, in virtual time.

use crate::rng::Rng;
use tickwire_clock::Count;

/// What disturbs a rate. All relative: 1e-6 is 1 us in a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wander {
    /// How far it is off from the beginning.
    pub skew: f64,
    /// Height of a cycle of temperature, and its period in seconds.
    pub cycle: Option<(f64, f64)>,
    /// Random walk: standard deviation of the change within a second.
    pub walk: f64,
    /// Noise of the rate itself: standard deviation of its mean over a second.
    pub white: f64,
    /// Ageing: change per second.
    pub ageing: f64,
}

impl Wander {
    /// A computer in an office: 10 ppm off, the air conditioning's half hour, a walk of 0.1 ppm in a day, and 1 ns of noise in a second. The Allan
    /// deviation is near 1e-9 at 1 s and some 1e-8 at 1000 s, as in figure 7 of Ridoux and Veitch (2012).
    pub const OFFICE: Self = Self { skew: 10e-6, cycle: Some((2e-8, 1800.0)), walk: 3e-10, white: 1e-9, ageing: 1e-14 };
}

/// A counter that such an oscillator drives.
#[derive(Clone, Debug)]
pub struct Oscillator {
    wander: Wander,
    frequency: f64,
    rng: Rng,
    /// Seconds since the beginning.
    now: f64,
    /// How many nanoseconds the counter is ahead of its nominal frequency.
    ahead: f64,
    walked: f64,
    start: u64,
}

/// Into what steps time is cut, in seconds.
const STEP: f64 = 0.25;

impl Oscillator {
    /// A counter of this nominal frequency, in Hz.
    #[must_use]
    pub fn new(frequency: f64, wander: Wander, seed: u64) -> Self {
        Self { wander, frequency, rng: Rng::new(seed), now: 0.0, ahead: 0.0, walked: 0.0, start: 1 << 40 }
    }

    /// The counter at `at` seconds, which is not before the last look.
    ///
    /// # Panics
    /// If it is.
    pub fn count(&mut self, at: f64) -> Count {
        assert!(at >= self.now, "time runs forwards");
        while self.now < at {
            let dt = STEP.min(at - self.now);
            let Wander { skew, cycle, walk, white, ageing } = self.wander;
            let cyclic = cycle.map_or(0.0, |(height, period)| {
                height * libm::sin(core::f64::consts::TAU * (self.now + dt / 2.0) / period)
            });
            self.walked += walk * libm::sqrt(dt) * self.rng.normal();
            let rate = skew + cyclic + self.walked + ageing * self.now;
            self.ahead += 1e9 * (rate * dt + white * libm::sqrt(dt) * self.rng.normal());
            self.now += dt;
        }
        // In two parts, for a double has not enough digits for both.
        let whole = libm::floor(self.now);
        let seconds = (whole as u64).wrapping_mul(self.frequency as u64);
        let rest = (self.now - whole + self.ahead * 1e-9) * self.frequency;
        Count(self.start.wrapping_add(seconds).wrapping_add_signed(rest as i64))
    }
}
