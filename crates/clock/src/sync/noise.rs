//! The noise unit: how much the quickest round trips differ among themselves.
//!
//! RADclock fixes it at 15 us, which filters nothing on a LAN with round trips of 30 to 100 us.
//! Here it is measured: delta = the median of RTT_i - Rhat over a window of exchanges, within 0.1
//! to 15 us, and of such windows the quietest of the last hours: congestion does not change what an
//! exchange is worth that was not congested. Every threshold is a multiple of it.

use super::minimum::Minimum;
use std::collections::VecDeque;

/// How many exchanges it is measured over.
const WINDOW: usize = 64;
/// How many tell something. Of fewer nobody knows whether the quickest of them was quick: then the
/// unit is at least the shortest round trip over their number.
const FEW: usize = 16;
/// For how long a quiet window is remembered, in seconds.
const HISTORY: f64 = 6.0 * 3600.0;
/// Least and most, in ns.
const LEAST: f64 = 100.0;
const MOST: f64 = 15_000.0;

/// The round trips of late, in ns, and what was measured of them.
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

    /// Takes in a round trip at `at` seconds, where the shortest is `minimum`.
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
