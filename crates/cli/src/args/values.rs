//! Parsers for the values of options of several commands, with their errors.

pub(super) use tickwire_commands::args::values::{number, poll, seconds, small, whole};

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
}
