//! The error of a clock, over many reads.

use serde::{Deserialize, Serialize};

/// The result of a probe, which it prints as one line of JSON. Times in ns; errors are clock -
/// truth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockError {
    /// Reads that count for the error: those after settling at which the clock knew the time.
    pub reads: u64,
    /// Median of the error.
    pub median_ns: i64,
    /// Interquartile range of the error.
    pub iqr_ns: i64,
    /// Of the error's size.
    pub p99_ns: i64,
    /// Of the error's size.
    pub max_ns: i64,
    /// Seconds from the probe's start until the error stayed below 10 us for a second; none: never.
    pub converged_s: Option<f64>,
    /// Reads that had a bound, settled or not.
    pub bounded: u64,
    /// Of those, the reads whose truth was not between earliest and latest.
    pub outside: u64,
    /// Median of the bound, after settling.
    pub bound_ns: i64,
    /// Median width of the cross timestamps. The measured error is accurate to half of it.
    pub width_ns: i64,
    /// The course of the run, one point per second.
    pub series: Vec<Point>,
}

/// The result of a clock in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Virtual {
    /// The scenario's name.
    pub scenario: String,
    /// Its length in virtual time.
    pub seconds: f64,
    /// What was promised, and whether that was kept. The bound is always promised.
    pub promise: String,
    /// See `promise`.
    pub kept: bool,
    /// Least and greatest error.
    pub range_ns: [i64; 2],
    /// The figures.
    pub error: ClockError,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Seconds since the probe's start.
    pub at_s: f64,
    /// Median of the error.
    pub median_ns: i64,
    /// The error with the largest size.
    pub worst_ns: i64,
    /// The bound at the end of the second; none if the clock had none.
    pub bound_ns: Option<i64>,
}

/// Median and interquartile range, then the 99th percentile and maximum of the absolute value.
/// Overwrites `errors` with absolute values in another order.
#[must_use]
pub fn spread(errors: &mut [i32]) -> Option<[i64; 4]> {
    if errors.is_empty() {
        return None;
    }
    let rank = |errors: &mut [i32], percent: usize| {
        let place = (errors.len() - 1) * percent / 100;
        i64::from(*errors.select_nth_unstable(place).1)
    };
    let [low, median, high] = [25, 50, 75].map(|percent| rank(errors, percent));
    for error in errors.iter_mut() {
        *error = error.saturating_abs();
    }
    let [p99, max] = [99, 100].map(|percent| rank(errors, percent));
    Some([median, high - low, p99, max])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_known_errors() {
        let mut errors: Vec<i32> = (-100..=300).rev().collect();
        assert_eq!(spread(&mut errors), Some([100, 200, 296, 300]));
        assert_eq!(spread(&mut [-7]), Some([-7, 0, 7, 7]));
        assert_eq!(spread(&mut []), None);
    }
}
