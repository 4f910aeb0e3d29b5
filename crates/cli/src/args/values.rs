//! Values that options of several commands take, and what is said of those that are none.

use std::ops::RangeInclusive;

/// A number of this range.
pub(super) fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
}

/// A whole number from `least` to `most`.
pub(super) fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
}

/// The same, of those that fit 32 bits.
pub(super) fn small(text: &str, least: u32, most: u32) -> Result<u32, String> {
    whole(text, least.into(), most.into()).map(|number| number as u32)
}

/// A time that a person may want to wait, or to be told the clock to; in seconds, or in microseconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    number(text, 1e-3..=1e9)
}

/// Seconds between requests to a time server, as in the configuration file.
pub(super) fn poll(text: &str) -> Result<f64, String> {
    number(text, 0.05..=86_400.0)
}

/// The longest spin that a person can mean, in microseconds: a quarter of an hour.
const LONGEST_SPIN: u64 = 1_000_000_000;

/// How a waiting thread waits.
pub(super) fn spin(text: &str) -> Result<String, String> {
    match text {
        "always" | "never" | "adaptive" => Ok(text.to_owned()),
        number if number.parse().is_ok_and(|us: u64| us <= LONGEST_SPIN) => Ok(text.to_owned()),
        _ => Err(format!("expected `always`, `never`, `adaptive` or microseconds up to {LONGEST_SPIN}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_range_is_told_the_range() {
        assert_eq!(["0.001", "1e9", "5"].map(seconds), [Ok(1e-3), Ok(1e9), Ok(5.0)]);
        for text in ["nan", "inf", "0", "1e10", "-1", "", "1 s"] {
            assert_eq!(seconds(text), Err("expected a number from 0.001 to 1000000000".to_owned()), "{text}");
        }
        assert_eq!(small("-1", 1, 9), Err("expected a whole number from 1 to 9".to_owned()));
    }
}
