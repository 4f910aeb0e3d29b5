//! The oscillator that drives a counter: how its rate wanders, in virtual time.
//!
//! A read costs the same however long ago the last one was. Cycles and ageing are integrated in
//! closed form; the random parts over a span are drawn with the variances that they have over it.
//! Months therefore pass in seconds.

use crate::rng::Rng;
use core::f64::consts::TAU;
use tickwire_clockpage::Count;

/// The disturbances of a rate. All are relative: 1e-6 is 1 us per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct OscillatorWander {
    /// Constant frequency offset.
    pub skew: f64,
    /// Temperature cycles: amplitude, and period in seconds.
    pub cycles: &'static [(f64, f64)],
    /// Random walk: standard deviation of the change within a second.
    pub walk: f64,
    /// Noise of the rate itself: standard deviation of its mean over a second.
    pub white: f64,
    /// Ageing: rate change per second.
    pub ageing: f64,
}

impl OscillatorWander {
    /// A computer in an office: 10 ppm off, a half-hour cycle of the air conditioning, a walk of
    /// 0.1 ppm in a day, and 1 ns of noise in a second. The Allan deviation is near 1e-9 at 1 s and
    /// some 1e-8 at 1000 s, as in figure 12 of Ridoux, Veitch and Broomhead (2012).
    pub const OFFICE: Self = Self { skew: 10e-6, cycles: &[(2e-8, 1800.0)], walk: 3e-10, white: 1e-9, ageing: 1e-14 };

    /// The wander of the clock benchmark's reference clock: 0.05 ppm in ten minutes, an Allan
    /// deviation of some 3e-8 at 200 s, plus the office's noise.
    pub const TEN_MINUTES: Self = Self { cycles: &[(5e-8, 600.0)], walk: 5e-11, ..Self::OFFICE };

    /// A server in a tightly controlled room, with the bump of that figure at 200 s. The Allan
    /// deviation is 1e-8 there, and below 1e-9 at 1000 s, where only a walk of 0.015 ppm in a day
    /// is left.
    pub const SERVER_ROOM: Self = Self { cycles: &[(1e-8, 200.0), (5e-9, 86_400.0)], walk: 5e-11, ..Self::OFFICE };
}

/// A counter driven by such an oscillator.
#[derive(Clone, Debug)]
pub struct Oscillator {
    wander: OscillatorWander,
    frequency: f64,
    rng: Rng,
    /// Seconds since the beginning.
    now: f64,
    /// Phase in ns by which the random parts have advanced the counter over its nominal frequency.
    ahead: f64,
    walked: f64,
    start: u64,
}

impl Oscillator {
    /// A counter of this nominal frequency, in Hz.
    #[must_use]
    pub fn new(frequency: f64, wander: OscillatorWander, seed: u64) -> Self {
        Self { wander, frequency, rng: Rng::new(seed), now: 0.0, ahead: 0.0, walked: 0.0, start: 1 << 40 }
    }

    /// Time of the last read, in seconds.
    #[must_use]
    pub const fn now(&self) -> f64 {
        self.now
    }

    /// Steps the counter, as when a virtual machine migrates to another host.
    pub const fn jump(&mut self, counts: i64) {
        self.start = self.start.wrapping_add_signed(counts);
    }

    /// The counter at `at` seconds, which must not be before the last read.
    ///
    /// # Panics
    /// If it is.
    pub fn count(&mut self, at: f64) -> Count {
        assert!(at >= self.now, "time runs forwards");
        let dt = at - self.now;
        if dt > 0.0 {
            // A random walk's end and its integral: variances q dt and q dt³/3, covariance q dt²/2.
            let OscillatorWander { walk, white, .. } = self.wander;
            let (end, beside, noise) = (self.rng.normal(), self.rng.normal(), self.rng.normal());
            let root = libm::sqrt(dt);
            let integral = walk * dt * root * (end / 2.0 + beside / libm::sqrt(12.0));
            self.ahead += 1e9 * (self.walked * dt + integral + white * root * noise);
            self.walked += walk * root * end;
            self.now = at;
        }
        // In two parts: a double has too few digits for both.
        let whole = libm::floor(at);
        let seconds = (whole as u64).wrapping_mul(self.frequency as u64);
        let rest = (at - whole + (self.ahead + self.steady(at)) * 1e-9) * self.frequency;
        Count(self.start.wrapping_add(seconds).wrapping_add_signed(rest as i64))
    }

    /// Phase in ns that the deterministic parts have accumulated by `at`.
    fn steady(&self, at: f64) -> f64 {
        let OscillatorWander { skew, cycles, ageing, .. } = self.wander;
        let cycle = |&(height, period): &(f64, f64)| height * period / TAU * (1.0 - libm::cos(TAU * at / period));
        1e9 * (skew * at + ageing * at * at / 2.0 + cycles.iter().map(cycle).sum::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allan deviation at `tau` seconds of the phases, in ns, of an oscillator without skew.
    fn allan(wander: OscillatorWander, tau: f64, seed: u64) -> f64 {
        const SAMPLES: usize = 4000;
        let mut oscillator = Oscillator::new(1e9, OscillatorWander { skew: 0.0, ageing: 0.0, ..wander }, seed);
        let begun = oscillator.count(0.0);
        let phases: Vec<_> =
            (0..SAMPLES).map(|i| oscillator.count(i as f64 * tau).since(begun) as f64 - i as f64 * tau * 1e9).collect();
        let squares: f64 = phases.windows(3).map(|x| (x[2] - 2.0 * x[1] + x[0]).powi(2)).sum();
        (squares / (2.0 * (SAMPLES - 2) as f64)).sqrt() / (tau * 1e9)
    }

    #[test]
    fn its_stability_is_what_was_asked_for() {
        let walk = |walk| OscillatorWander { walk, ..OscillatorWander::default() };
        // White noise falls with the root of tau, a walk rises with it: sqrt(tau / 3).
        for (wander, tau, expected) in [
            (OscillatorWander { white: 1e-9, ..OscillatorWander::default() }, 16.0, 1e-9 / 4.0),
            (walk(3e-10), 300.0, 3e-9),
            (walk(3e-10), 30_000.0, 3e-8),
            (OscillatorWander::OFFICE, 1.0, 1.1e-9),
            (OscillatorWander::OFFICE, 1000.0, 1.2e-8),
            (OscillatorWander::SERVER_ROOM, 100.0, 9e-9),
            (OscillatorWander::SERVER_ROOM, 1000.0, 1e-9),
        ] {
            let found = allan(wander, tau, 1);
            assert!((0.75..1.33).contains(&(found / expected)), "{tau}: {found} instead of {expected}");
        }
    }

    #[test]
    fn the_walk_is_as_wide_in_many_steps_as_in_one() {
        let wander = OscillatorWander { walk: 1e-9, ..OscillatorWander::default() };
        let spread = |steps: u32| {
            let ends = (0..400).map(|seed| {
                let mut oscillator = Oscillator::new(1e9, wander, seed);
                let begun = oscillator.count(0.0);
                let last = (1..=steps).map(|i| oscillator.count(f64::from(i) * 900.0 / f64::from(steps))).last();
                (last.unwrap().since(begun) as f64 - 900e9).powi(2)
            });
            (ends.sum::<f64>() / 400.0).sqrt()
        };
        // sqrt(900³ / 3) ns.
        for steps in [1, 7, 900] {
            assert!((0.85..1.15).contains(&(spread(steps) / 15_588.0)), "{steps}: {}", spread(steps));
        }
    }
}
