//! Validation of patterns. A fault names a value of a stream; the file readers add its position.

use super::{GREATEST_DATAGRAM, GREATEST_SIZE, LEAST_SIZE, MOST_STREAMS, Stream};
use crate::units::millis;
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// The shortest period: no program makes a million calls a second for each of its streams.
pub const LEAST_PERIOD: Duration = Duration::from_micros(1);
/// The longest period and deadline.
pub const GREATEST_TIME: Duration = Duration::from_secs(3600);

/// A value of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Its number.
    Id,
    /// Its producer's number.
    Producer,
    /// Message size in bytes.
    Size,
    /// Period of messages.
    Period,
    /// The deadline.
    Deadline,
    /// Due time within the period.
    Phase,
}

impl Field {
    /// Its key in TOML.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Producer => "producer",
            Self::Size => "size",
            Self::Period => "period_ms",
            Self::Deadline => "deadline_ms",
            Self::Phase => "phase_ms",
        }
    }
}

/// A fault of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFault {
    /// The faulty value.
    pub field: Field,
    /// What was found, and what was expected.
    pub message: String,
}

impl StreamFault {
    pub(super) fn new(field: Field, found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self { field, message: format!("{found}; expected {expected}") }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field.key(), self.message)
    }
}

impl std::error::Error for StreamFault {}

/// Checks one stream.
///
/// # Errors
/// One of its values is out of its range.
fn one(stream: &Stream) -> Result<(), StreamFault> {
    let size_limit = if stream.transport.is_tcp() { GREATEST_SIZE } else { GREATEST_DATAGRAM };
    let long = |time: Duration| format!("{} ms", millis(time));
    if stream.producer == 0 {
        return Err(StreamFault::new(Field::Producer, 0, "1 to 65535"));
    }
    if !(LEAST_SIZE..=size_limit).contains(&stream.size) {
        let expected = format!("{LEAST_SIZE} to {size_limit} bytes for {}", stream.transport);
        return Err(StreamFault::new(Field::Size, format!("{} bytes", stream.size), expected));
    }
    if !(LEAST_PERIOD..=GREATEST_TIME).contains(&stream.period) {
        return Err(StreamFault::new(Field::Period, long(stream.period), times(Field::Period)));
    }
    if stream.deadline.is_zero() || stream.deadline > GREATEST_TIME {
        return Err(StreamFault::new(Field::Deadline, long(stream.deadline), times(Field::Deadline)));
    }
    match stream.phase {
        Some(phase) if phase >= stream.period => {
            Err(StreamFault::new(Field::Phase, long(phase), format!("less than the period of {}", long(stream.period))))
        }
        _ => Ok(()),
    }
}

/// Checks the streams of a pattern.
///
/// # Errors
/// The index of the first invalid stream, and its fault; no index if there are no streams.
pub(super) fn all(streams: &[Stream]) -> Result<(), (Option<usize>, StreamFault)> {
    if streams.is_empty() {
        return Err((None, StreamFault::new(Field::Id, "there are no streams", "at least one")));
    }
    let mut ids = HashSet::new();
    for (number, stream) in streams.iter().enumerate() {
        let fault = if number == MOST_STREAMS {
            Err(StreamFault::new(Field::Id, "one stream too many", format!("at most {MOST_STREAMS}")))
        } else if !ids.insert(stream.id) {
            Err(StreamFault::new(Field::Id, format!("a second stream {}", stream.id), "each number once"))
        } else {
            one(stream)
        };
        fault.map_err(|fault| (Some(number), fault))?;
    }
    Ok(())
}

/// Converts a time of a file. Rejects negative values, NaN and values beyond all limits; the rest
/// is checked by [`all`].
pub(super) fn time(field: Field, ms: f64) -> Result<Duration, StreamFault> {
    // A thousand hours: below this, nanoseconds are exact in both f64 and u64.
    if (0.0..=3.6e9).contains(&ms) {
        return Ok(Duration::from_nanos((ms * 1e6).round() as u64));
    }
    let common = (1e-6..1e12).contains(&ms.abs());
    let found = if common { format!("{ms} ms") } else { format!("{ms:e} ms") };
    Err(StreamFault::new(field, found, times(field)))
}

/// The valid range of a time.
fn times(field: Field) -> String {
    let longest = millis(GREATEST_TIME);
    match field {
        Field::Period => format!("{} to {longest} ms", millis(LEAST_PERIOD)),
        Field::Phase => "0 ms or more, and less than the period".to_owned(),
        _ => format!("more than 0 and at most {longest} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Transport, sample};

    fn stream() -> Stream {
        sample(1)
    }

    #[test]
    fn each_value_has_a_range_and_its_ends_are_in_it() {
        let said = |change: &dyn Fn(&mut Stream)| {
            let mut stream = stream();
            change(&mut stream);
            one(&stream).map_err(|fault| fault.to_string())
        };
        type Change = fn(&mut Stream);
        let good: [Change; 9] = [
            |_| (),
            |s| s.size = LEAST_SIZE,
            |s| s.size = GREATEST_DATAGRAM,
            |s| (s.size, s.transport) = (GREATEST_SIZE, Transport::Tcp),
            |s| s.period = LEAST_PERIOD,
            |s| s.period = GREATEST_TIME,
            |s| s.deadline = Duration::from_nanos(1),
            |s| s.phase = Some(Duration::ZERO),
            |s| s.phase = Some(Duration::from_nanos(9_999_999)),
        ];
        for (number, change) in good.iter().enumerate() {
            assert_eq!(said(change), Ok(()), "{number}");
        }
        let bad: [(Change, &str); 10] = [
            (|s| s.producer = 0, "producer: 0; expected 1 to 65535"),
            (|s| s.size = 0, "size: 0 bytes; expected 10 to 65507 bytes for udp"),
            (|s| s.size = 9, "size: 9 bytes; expected 10 to 65507 bytes for udp"),
            (|s| s.size = 65_508, "size: 65508 bytes; expected 10 to 65507 bytes for udp"),
            (
                |s| (s.size, s.transport) = (GREATEST_SIZE + 1, Transport::LowLatencyTcp),
                "size: 16777217 bytes; expected 10 to 16777216 bytes for low-latency-tcp",
            ),
            (|s| s.period = Duration::ZERO, "period_ms: 0 ms; expected 0.001 to 3600000 ms"),
            (|s| s.period = Duration::MAX, "period_ms: 18446744073709552000000 ms; expected 0.001 to 3600000 ms"),
            (|s| s.deadline = Duration::ZERO, "deadline_ms: 0 ms; expected more than 0 and at most 3600000 ms"),
            (
                |s| s.deadline = GREATEST_TIME * 2,
                "deadline_ms: 7200000 ms; expected more than 0 and at most 3600000 ms",
            ),
            (|s| s.phase = Some(s.period), "phase_ms: 10 ms; expected less than the period of 10 ms"),
        ];
        for (change, expected) in bad {
            assert_eq!(said(&change), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_pattern_has_streams_not_too_many_and_each_number_once() {
        let many = |count: usize| (0..count).map(|id| Stream { id: id as u32, ..stream() }).collect::<Vec<_>>();
        assert_eq!(all(&many(MOST_STREAMS)), Ok(()));
        let said = |streams: &[Stream]| all(streams).map_err(|(number, fault)| (number, fault.message)).unwrap_err();
        assert_eq!(said(&[]), (None, "there are no streams; expected at least one".to_owned()));
        let beyond = (Some(MOST_STREAMS), "one stream too many; expected at most 1000".to_owned());
        assert_eq!(said(&many(MOST_STREAMS + 1)), beyond);
        let twice = [stream(), Stream { id: 2, ..stream() }, stream()];
        assert_eq!(said(&twice), (Some(2), "a second stream 1; expected each number once".to_owned()));
    }

    #[test]
    fn times_of_a_file_are_exact_or_refused() {
        assert_eq!(time(Field::Period, 0.01), Ok(Duration::from_micros(10)));
        assert_eq!(time(Field::Period, 3.6e6), Ok(GREATEST_TIME));
        for (ms, found) in [
            (-1.0, "-1 ms"),
            (f64::NAN, "NaN ms"),
            (f64::INFINITY, "inf ms"),
            (1e300, "1e300 ms"),
            (-1e-300, "-1e-300 ms"),
        ] {
            let expected = format!("{found}; expected 0.001 to 3600000 ms");
            assert_eq!(time(Field::Period, ms).unwrap_err().message, expected);
        }
    }
}
