//! The noise unit: the spread of the quickest round trips.
//!
//! RADclock fixes it at 15 us, which filters nothing on a LAN with round trips of 30 to 100 us.
//! Here it is measured: delta = the median of RTT_i - Rhat over a window of exchanges, clamped to
//! 0.1 to 15 us. The quietest window of the last hours counts, because congestion does not degrade
//! an exchange that met none. The thresholds are multiples of the noise unit, some with a minimum
//! in ns.

use super::minimum::Minimum;
use std::collections::VecDeque;

/// Exchanges in a window.
const WINDOW: usize = 64;
/// Exchanges that a measurement needs. With fewer it is unknown whether the quickest of them was
/// quick, so the unit is at least the shortest round trip divided by their number.
const FEW: usize = 16;
/// For how long a quiet window is remembered, in seconds.
const HISTORY: f64 = 6.0 * 3600.0;
/// Least and most, in ns.
const LEAST: f64 = 100.0;
const MOST: f64 = 15_000.0;

/// The recent round trips in ns, and the measured unit.
#[derive(Clone, Debug)]
pub(crate) struct Noise {
    last: VecDeque<f64>,
    unit: f64,
    quietest: Minimum,
}

impl Noise {
    pub(crate) fn new() -> Self {
        Self { last: VecDeque::new(), unit: MOST, quietest: Minimum::new(HISTORY) }
    }

    /// Adds a round trip at `at` seconds; the shortest is `minimum`.
    pub(crate) fn take(&mut self, at: f64, round_trip: f64, minimum: f64) {
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(round_trip);
        let mut excess: Vec<_> = self.last.iter().map(|round_trip| round_trip - minimum).collect();
        let middle = excess.len() / 2;
        let (_, median, _) = excess.select_nth_unstable_by(middle, f64::total_cmp);
        self.unit = median.clamp(LEAST, MOST);
        if self.last.len() < FEW {
            self.unit = self.unit.max(minimum / self.last.len() as f64);
        } else {
            self.quietest.take(at, self.unit);
        }
    }

    /// The unit, in ns.
    pub(crate) fn unit(&self) -> f64 {
        self.quietest.get().min(self.unit)
    }
}
