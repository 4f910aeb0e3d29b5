//! Patterns with any streams: a table `[[streams]]` for each.

use super::check::{self, Field, StreamFault};
use super::{GREATEST_SIZE, LEAST_SIZE, Pattern, PatternError, Stream, Transport};
use serde::Deserialize;
use std::path::Path;
use tickwire_settings::Wrong;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    streams: Vec<Row>,
}

/// A stream as in the file. Numbers are wider than valid, so that this module reports their range.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: i64,
    producer: i64,
    transport: String,
    size: i64,
    period_ms: f64,
    deadline_ms: f64,
    phase_ms: Option<f64>,
}

/// Reads streams; `path` is named in errors and as the pattern's name.
///
/// # Errors
/// It cannot be parsed, or is invalid.
pub(super) fn parse(text: &str, path: &Path) -> Result<Pattern, PatternError> {
    let mut streams = Vec::new();
    tickwire_settings::parse(text, path, |file: &File| {
        for (number, row) in file.streams.iter().enumerate() {
            streams.push(row.stream().map_err(|(key, message)| wrong(number, key, &message))?);
        }
        check::all(&streams).map_err(|(number, fault)| match number {
            Some(number) => wrong(number, fault.field.key(), &fault.message),
            None => Wrong::new("streams", fault.message),
        })
    })?;
    Ok(Pattern { name: path.display().to_string(), streams })
}

fn wrong(number: usize, key: &str, message: &str) -> Wrong {
    Wrong::new(format!("streams.{number}.{key}"), format!("{key}: {message}"))
}

impl Row {
    /// The stream, or the faulty key and a message.
    fn stream(&self) -> Result<Stream, (&'static str, String)> {
        let whole = |field, number: i64, expected: &str| {
            u32::try_from(number).map_err(|_| told(StreamFault::new(field, number, expected)))
        };
        let time = |field, ms| check::time(field, ms).map_err(told);
        let producer = u16::try_from(self.producer)
            .map_err(|_| told(StreamFault::new(Field::Producer, self.producer, "1 to 65535")))?;
        let transport = Transport::ALL.into_iter().find(|transport| transport.name() == self.transport);
        let transport = transport.ok_or_else(|| {
            let names = Transport::ALL.map(|transport| format!("\"{transport}\"")).join(", ");
            let found: String = self.transport.chars().take(40).collect();
            ("transport", format!("no transport is called {found:?}; expected one of {names}"))
        })?;
        Ok(Stream {
            id: whole(Field::Id, self.id, "0 to 4294967295")?,
            producer,
            transport,
            size: whole(Field::Size, self.size, &format!("{LEAST_SIZE} to {GREATEST_SIZE} bytes"))?,
            period: time(Field::Period, self.period_ms)?,
            deadline: time(Field::Deadline, self.deadline_ms)?,
            phase: self.phase_ms.map(|ms| time(Field::Phase, ms)).transpose()?,
        })
    }
}

fn told(fault: StreamFault) -> (&'static str, String) {
    (fault.field.key(), fault.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn read(text: &str) -> Result<Pattern, String> {
        parse(text, Path::new("p.toml")).map_err(|error| error.to_string())
    }

    const STREAM: [&str; 7] = [
        "id = 5",
        "producer = 2",
        "transport = \"low-latency-tcp\"",
        "size = 100",
        "period_ms = 10",
        "deadline_ms = 2.5",
        "phase_ms = 0.125",
    ];

    /// A file of one stream, with one line replaced.
    fn with(line: usize, other: &str) -> String {
        let mut stream = STREAM;
        stream[line] = other;
        format!("[[streams]]\n{}\n", stream.join("\n"))
    }

    #[test]
    fn streams_are_read_as_they_are_written() {
        let expected = Stream {
            id: 5,
            producer: 2,
            transport: Transport::LowLatencyTcp,
            size: 100,
            period: Duration::from_millis(10),
            deadline: Duration::from_micros(2500),
            phase: Some(Duration::from_micros(125)),
        };
        let one = with(0, STREAM[0]);
        assert_eq!(read(&one).unwrap().streams, std::slice::from_ref(&expected));
        let two = format!("{one}\n# another\n{}", with(0, "id = 6").replace("phase_ms = 0.125", ""));
        let second = Stream { id: 6, phase: None, ..expected.clone() };
        assert_eq!(read(&two).unwrap().streams, [expected, second]);
        for transport in Transport::ALL {
            let text = with(2, &format!("transport = \"{transport}\""));
            assert_eq!(read(&text).unwrap().streams[0].transport, transport);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (line, other, expected) in [
            (0, "id = -1", "2:6: id: -1; expected 0 to 4294967295"),
            (1, "producer = 0", "3:12: producer: 0; expected 1 to 65535"),
            (1, "producer = 65536", "3:12: producer: 65536; expected 1 to 65535"),
            (
                2,
                "transport = \"sctp\"",
                "4:13: transport: no transport is called \"sctp\"; expected one of \"tcp\", \"low-latency-tcp\", \"udp\", \"udp-multicast\"",
            ),
            (2, "transport = 6", "4:13: streams.0.transport is the number 6; expected text in quotes"),
            (3, "size = 0", "5:8: size: 0 bytes; expected 10 to 16777216 bytes for low-latency-tcp"),
            (3, "size = 1.5", "5:8: streams.0.size is the number 1.5; expected a whole number"),
            (3, "size = 99999999999", "5:8: size: 99999999999; expected 10 to 16777216 bytes"),
            (4, "period_ms = -10", "6:13: period_ms: -10 ms; expected 0.001 to 3600000 ms"),
            (4, "period_ms = nan", "6:13: period_ms: NaN ms; expected 0.001 to 3600000 ms"),
            (4, "period_ms = \"10\"", "6:13: streams.0.period_ms is the text \"10\"; expected a number"),
            (5, "deadline_ms = 0", "7:15: deadline_ms: 0 ms; expected more than 0 and at most 3600000 ms"),
            (6, "phase_ms = 10", "8:12: phase_ms: 10 ms; expected less than the period of 10 ms"),
            (6, "phase_ms = -0.1", "8:12: phase_ms: -0.1 ms; expected 0 ms or more, and less than the period"),
            (5, "", "1:1: the key `deadline_ms` is missing"),
        ] {
            assert_eq!(read(&with(line, other)).unwrap_err(), format!("p.toml:{expected}"), "{other}");
        }
        let unknown = read(&with(6, "phase = 0")).unwrap_err();
        assert!(unknown.starts_with("p.toml:8:1: unknown key `phase`, expected one of `id`, "), "{unknown}");
        for (text, expected) in [
            ("", "1:1: there are no streams; expected at least one"),
            ("streams = []\n", "1:11: there are no streams; expected at least one"),
            ("stream = 1\n", "1:1: unknown key `stream`, expected `streams`"),
        ] {
            assert_eq!(read(text).unwrap_err(), format!("p.toml:{expected}"), "{text}");
        }
        let twice = with(0, STREAM[0]).repeat(2);
        assert_eq!(read(&twice).unwrap_err(), "p.toml:10:6: id: a second stream 5; expected each number once");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in any::<String>(), line in 0usize..7, value in "[-+0-9a-z.\"\\[{]{0,20}") {
            let _ = read(&text);
            let key = STREAM[line].split(' ').next().unwrap();
            let _ = read(&with(line, &format!("{key} = {text}")));
            if let Ok(pattern) = read(&with(line, &format!("{key} = {value}"))) {
                prop_assert!(check::all(&pattern.streams).is_ok());
            }
        }
    }
}
