//! The control law. Its inputs are the system clock's offset and the rate that the clock should
//! have; its output is the kernel's frequency. No I/O, no clock.
//!
//! Feed-forward does the work: the rate that the system clock should have is known from the clock
//! that is never steered. An offset decays over some seconds. The unknown part of the rate is
//! learnt from the difference between the clock's actual and expected course since the last turn:
//!
//! ```text
//! frequency = base + unknown - ahead / TAU
//! unknown  -= (ahead - (ahead before + (frequency - base - unknown) passed)) / passed / TURNS
//! ```
//!
//! So an offset, however large, does not bias the estimate, and the response does not overshoot.

/// Time in which an offset shrinks to 1/e, in s.
const TAU: f64 = 4.0;
/// Time constant of the estimate of the unknown part, in turns.
const TURNS: f64 = 64.0;
/// A clock that deviates so far in one turn, in ns, was set by another program.
const SET: f64 = 2_000.0;
/// Limit of the unknown part, in ppm: the base is measured.
const MOST_UNKNOWN: f64 = 1.0;
/// A turn that is later than this, in s, gives no information about the time since the last one.
const LATE: f64 = 8.0;

/// The inputs of the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    /// When, in ns of a monotonic clock.
    pub(super) at: i64,
    /// By how much the system clock is ahead, in ns.
    pub(super) ahead: f64,
    /// By how much faster it should run than it would by itself, in ppm.
    pub(super) base: f64,
}

/// The state of the law.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Law {
    unknown: f64,
    /// The inputs of the last turn, and the frequency that it gave.
    last: Option<(Seen, f64)>,
}

impl Law {
    /// The frequency for the kernel until the next turn, in ppm; clamped to `most` on both sides.
    pub(super) fn turn(&mut self, seen: &Seen, most: f64) -> f64 {
        if let Some((last, frequency)) = self.last {
            let passed = (seen.at - last.at) as f64 * 1e-9;
            // A ppm is 1000 ns per s.
            let foretold = last.ahead + (frequency - last.base - self.unknown) * passed * 1e3;
            let astray = seen.ahead - foretold;
            if passed > 0.0 && passed < LATE && astray.abs() < SET {
                let learnt = astray * 1e-3 / passed / TURNS;
                self.unknown = (self.unknown - learnt).clamp(-MOST_UNKNOWN, MOST_UNKNOWN);
            }
        }
        let frequency = (self.at_rest(seen.base) - seen.ahead * 1e-3 / TAU).clamp(-most, most);
        self.last = Some((*seen, frequency));
        frequency
    }

    /// The clock was not steered by this law meanwhile.
    pub(super) const fn pause(&mut self) {
        self.last = None;
    }

    /// The frequency without an offset to correct, in ppm: for a clock that is not steered any
    /// more.
    pub(super) const fn at_rest(&self, base: f64) -> f64 {
        base + self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: f64 = 500.0;

    /// Simulates a clock with this initial offset in ns and a rate error of `drift` ppm; the base
    /// is known except for `unknown` ppm. Returns the offset after each second.
    fn run(mut ahead: f64, drift: f64, unknown: f64, seconds: usize, noise: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut law = Law::default();
        (0..seconds)
            .map(|second| {
                let seen =
                    Seen { at: second as i64 * 1_000_000_000, ahead: ahead + noise(second), base: -drift + unknown };
                let frequency = law.turn(&seen, MOST);
                assert!(frequency.abs() <= MOST);
                ahead += (drift + frequency) * 1e3;
                ahead
            })
            .collect()
    }

    #[test]
    fn an_offset_shrinks_and_never_swings_over() {
        for ahead in [1e6, -1e6, 5e3, -300.0] {
            let course = run(ahead, 30.0, 0.0, 120, |_| 0.0);
            assert!(course[40].abs() < ahead.abs() / 500.0 + 20.0, "{ahead}: {}", course[40]);
            let over = course.iter().map(|now| -now * ahead.signum()).fold(0.0, f64::max);
            assert!(over < 1.0, "{ahead}: {over}");
        }
    }

    #[test]
    fn what_is_unknown_of_the_rate_is_found() {
        let course = run(0.0, -80.0, 0.3, 600, |_| 0.0);
        assert!(course.iter().all(|now| now.abs() < 1_300.0));
        assert!(course[599].abs() < 2.0, "{}", course[599]);
    }

    #[test]
    fn a_large_offset_is_slewed_at_the_limit_and_taught_nothing() {
        let course = run(50e6, 0.0, 0.0, 200, |_| 0.0);
        assert!((course[9] - (50e6 - 10.0 * 500e3)).abs() < 1.0, "500 us per second: {}", course[9]);
        assert!(course[199].abs() < 1.0 && course.iter().all(|&now| now > -1.0), "{}", course[199]);
    }

    #[test]
    fn noise_is_not_made_larger() {
        let noise = |second: usize| (second * 7919 % 201) as f64 - 100.0;
        let course = run(0.0, 10.0, 0.0, 2_000, noise);
        let squares: f64 = course[500..].iter().map(|now| now * now).sum();
        let rms = (squares / 1_500.0).sqrt();
        assert!(rms < 58.0 / 2.0, "half of the noise's own: {rms}");
    }

    #[test]
    fn a_late_turn_teaches_nothing() {
        let mut law = Law::default();
        law.turn(&Seen { at: 0, ahead: 0.0, base: 0.0 }, MOST);
        law.turn(&Seen { at: 3_600_000_000_000, ahead: 10_000.0, base: 0.0 }, MOST);
        assert_eq!(law.at_rest(5.0), 5.0);
    }
}
