//! Parsers for the values of options of several commands, with their errors.

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

/// A timeout in seconds, or a bound of the clock in microseconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    number(text, 1e-3..=1e9)
}

/// Seconds between requests to a time server, as in the configuration file.
pub(super) fn poll(text: &str) -> Result<f64, String> {
    number(text, 0.05..=86_400.0)
}

/// The longest sensible spin, in microseconds: a quarter of an hour.
const LONGEST_SPIN: u64 = 1_000_000_000;

/// How a waiting thread waits.
pub(super) fn spin(text: &str) -> Result<String, String> {
    match text {
        "always" | "never" | "adaptive" => Ok(text.to_owned()),
        number if number.parse().is_ok_and(|us: u64| us <= LONGEST_SPIN) => Ok(text.to_owned()),
        _ => Err(format!("expected `always`, `never`, `adaptive` or microseconds up to {LONGEST_SPIN}")),
    }
}

/// A scheduling policy.
pub(super) fn policy(text: &str) -> Result<String, String> {
    let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, number.parse::<i32>().ok()));
    let has_number = text.contains(':');
    match (name, number) {
        ("other" | "batch" | "idle", None) if !has_number => Ok(text.to_owned()),
        ("other", Some(-20..=19)) | ("fifo" | "rr", Some(1..=99)) => Ok(text.to_owned()),
        _ => Err(
            "expected `other`, `other:NICE` (-20 to 19), `batch`, `idle`, `fifo:PRIORITY` or `rr:PRIORITY` (1 to 99)"
                .to_owned(),
        ),
    }
}

/// The most processors that a list names.
const MOST_CPUS: usize = 1024;

/// A list of processors.
pub(super) fn cpus(text: &str) -> Result<String, String> {
    let is_range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        matches!((first.parse::<usize>(), last.parse::<usize>()), (Ok(first), Ok(last)) if first <= last && last < MOST_CPUS)
    };
    if text.split(',').all(is_range) { Ok(text.to_owned()) } else { Err("expected processors as `0-3,8`".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_would_not_understand_is_refused() {
        for text in ["other", "other:-5", "batch", "idle", "fifo:50", "rr:99"] {
            assert_eq!(policy(text), Ok(text.to_owned()));
        }
        for text in ["", "fifo", "fifo:0", "rr:100", "other:20", "idle:1", "fifo:", "other:x"] {
            assert!(policy(text).is_err(), "{text}");
        }
        assert!(["0", "0-3,8", "1023"].iter().all(|text| cpus(text).is_ok()));
        assert!(["", "3-1", "1024", "x", "0,", "-1"].iter().all(|text| cpus(text).is_err()));
    }

    #[test]
    fn what_is_no_number_of_the_range_is_told_the_range() {
        assert_eq!(["0.001", "1e9", "5"].map(seconds), [Ok(1e-3), Ok(1e9), Ok(5.0)]);
        for text in ["nan", "inf", "0", "1e10", "-1", "", "1 s"] {
            assert_eq!(seconds(text), Err("expected a number from 0.001 to 1000000000".to_owned()), "{text}");
        }
        assert_eq!(small("-1", 1, 9), Err("expected a whole number from 1 to 9".to_owned()));
    }
}
