//! Parsers for the values of options of several commands, with their errors.

use std::ops::RangeInclusive;

/// A number of this range.
///
/// # Errors
/// It is none; the text says what was expected.
pub fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
}

/// A whole number from `least` to `most`.
///
/// # Errors
/// It is none; the text says what was expected.
pub fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
}

/// The same, of those that fit 32 bits.
///
/// # Errors
/// It is none; the text says what was expected.
pub fn small(text: &str, least: u32, most: u32) -> Result<u32, String> {
    whole(text, least.into(), most.into()).map(|number| number as u32)
}

/// A timeout in seconds, or a bound of the clock in microseconds.
///
/// # Errors
/// It is none; the text says what was expected.
pub fn seconds(text: &str) -> Result<f64, String> {
    number(text, 1e-3..=1e9)
}

/// Seconds between requests to a time server, as in the configuration file.
///
/// # Errors
/// It is none; the text says what was expected.
pub fn poll(text: &str) -> Result<f64, String> {
    number(text, 0.05..=86_400.0)
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
