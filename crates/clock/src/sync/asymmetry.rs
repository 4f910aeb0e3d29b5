//! How much longer requests take than replies, beyond the configured asymmetry, on each path that
//! was seen.
//!
//! A path that returns is recognised by its round trip, and its previous asymmetry is restored.
//! Summing the changes from shift to shift would accumulate their errors.

use std::collections::VecDeque;

/// Number of remembered paths.
const PATHS: usize = 8;
/// Two round trips belong to the same path if they differ by less than the larger limit, of noise
/// units and of ns.
const SAME_UNITS: f64 = 2.0;
const SAME_LEAST: f64 = 1_000.0;
/// The observed asymmetry matches a remembered one within this many standard deviations.
const AGREES: f64 = 4.0;

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    round_trip: f64,
    asymmetry: f64,
    /// Standard deviation of the asymmetry, relative to the first path.
    doubt: f64,
}

/// All in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asymmetry {
    now: Known,
    paths: VecDeque<Known>,
}

impl Asymmetry {
    /// The asymmetry of the current path.
    pub(crate) const fn get(&self) -> f64 {
        self.now.asymmetry
    }

    /// Records a path change. The round trip went from `from` to `to`; by the clock the asymmetry
    /// is now `seen`, with a standard deviation of `doubt`. No direction can have changed by more
    /// than `change`. Returns the change of the asymmetry.
    pub(crate) fn shift(&mut self, [from, to]: [f64; 2], seen: f64, change: f64, doubt: f64, noise: f64) -> f64 {
        let before = Known { round_trip: from, ..self.now };
        let near = (SAME_UNITS * noise).max(SAME_LEAST);
        let is = |round_trip: f64| move |known: &Known| (known.round_trip - round_trip).abs() < near;
        self.paths.retain(|known| !is(from)(known));
        self.paths.push_back(before);
        if self.paths.len() > PATHS {
            self.paths.pop_front();
        }
        // The error of the previous path is part of the error of this one.
        let doubt = libm::hypot(doubt, before.doubt);
        let agrees = |known: &&Known| (known.asymmetry - seen).abs() < AGREES * libm::hypot(doubt, known.doubt) + near;
        self.now = match self.paths.iter().filter(|known| is(to)(known)).find(agrees) {
            Some(known) => *known,
            None => {
                // Prior: the change is uniform within ±`change`, so its variance is change²/3. The
                // larger the clock's own error, the less weight the observation has.
                let prior = change * change / 3.0;
                let told = prior / (prior + doubt * doubt);
                let asymmetry = before.asymmetry + (seen - before.asymmetry).clamp(-change, change) * told;
                Known { round_trip: to, asymmetry: asymmetry.clamp(-to, to), doubt: libm::sqrt(told) * doubt }
            }
        };
        self.now.asymmetry - before.asymmetry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_comes_back_has_the_asymmetry_that_it_had() {
        let mut asymmetry = Asymmetry::default();
        assert!(
            (asymmetry.shift([30e3, 80e3], 50_300.0, 50e3, 100.0, 200.0) - 50e3).abs() < 1.0,
            "no more than the change"
        );
        assert!((asymmetry.shift([80e3, 130e3], 51_000.0, 50e3, 100.0, 200.0) - 1_000.0).abs() < 1.0);
        asymmetry.shift([130e3, 30_200.0], 400.0, 100e3, 100.0, 200.0);
        assert_eq!(asymmetry.get(), 0.0);
        asymmetry.shift([30_200.0, 80_100.0], -50e3, 50e3, 100.0, 200.0);
        assert!(asymmetry.get() < -49e3, "as long, but another path");
    }

    #[test]
    fn a_clock_that_knew_little_tells_little() {
        let mut asymmetry = Asymmetry::default();
        asymmetry.shift([30e3, 80e3], 50e3, 50e3, 500e3, 200.0);
        assert!(asymmetry.get().abs() < 500.0);
    }
}
