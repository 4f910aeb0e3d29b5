//! The offset from a long round trip: under load a packet often queues in one direction only. The
//! other direction then has its least delay and gives the offset alone.
//!
//! A direction counts as free if its delay by the clock is the least one, within the clock's own
//! error. A very short queue looks the same. It makes the offset wrong by no more than that error,
//! with opposite signs for the two directions, and such a reading has little weight. So the clock
//! follows its oscillator through congestion without reinforcing its own error.

use super::model::{Forecast, Reading};
use super::path::Passage;

/// A direction was free if its delay is within this many standard deviations of the least.
const FREE: f64 = 2.0;
/// A direction was busy if its delay exceeds the least by this many times the sum of standard
/// deviation and noise unit.
const BUSY: f64 = 4.0;

/// The offset from the free direction, if one was free and the other busy. All in ns.
pub(crate) fn reading(
    passage: Passage,
    round_trip: f64,
    asymmetry: f64,
    known: Forecast,
    noise: f64,
) -> Option<Reading> {
    let deviation = libm::sqrt(known.variance + noise * noise);
    let forth = passage.forth - (round_trip + asymmetry) / 2.0;
    let back = passage.back - (round_trip - asymmetry) / 2.0;
    let free = |excess: f64| excess.abs() < FREE * deviation;
    let busy = |excess: f64| excess > BUSY * (deviation + noise);
    let lead = match () {
        () if free(forth) && busy(back) => forth,
        () if free(back) && busy(forth) => -back,
        () => return None,
    };
    Some(Reading { offset: known.offset + lead, variance: FREE * FREE * deviation * deviation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_that_was_free_tells_the_offset() {
        let known = Forecast { offset: 1e6, rate: 0.0, variance: 300.0 * 300.0, rate_variance: 0.0 };
        let told = |forth: f64, back: f64| {
            let passage = Passage { round_trip: forth + back, forth, back };
            reading(passage, 40e3, 10e3, known, 100.0).map(|reading| reading.offset - 1e6)
        };
        // At least 25 us there and 15 us back.
        assert_eq!(told(25_200.0, 5e6), Some(200.0));
        assert_eq!(told(5e6, 15_300.0), Some(-300.0));
        assert_eq!(told(5e6, 5e6), None, "both waited");
        assert_eq!(told(25_100.0, 15_100.0), None, "none waited");
        assert_eq!(told(24_000.0, 5e6), None, "sooner than possible: the clock is wrong, or the path another");
    }
}
