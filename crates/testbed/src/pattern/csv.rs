//! The table of 2015: a row for each producer, with up to four streams, each a group of columns.

use super::check::{self, Field, StreamFault};
use super::{GREATEST_SIZE, LEAST_SIZE, Pattern, PatternError, Stream, Transport};
use csv::{ReaderBuilder, StringRecord, Trim};
use std::path::Path;

/// The groups of columns, in the order of message types 0 to 3 (Table 1 and slide 26: UDP is
/// multicast there).
const GROUPS: [(&str, Transport); 4] = [
    ("tcp0", Transport::Tcp),
    ("tcp1", Transport::Tcp),
    ("udp", Transport::UdpMulticast),
    ("lowlat", Transport::LowLatencyTcp),
];
/// The columns of each group; the last is optional.
const VALUES: [(&str, Field); 4] =
    [("kb", Field::Size), ("ms", Field::Period), ("max_ms", Field::Deadline), ("phase_ms", Field::Phase)];
const PRODUCER: &str = "producer";

/// Reads a table; `path` is named in errors and as the pattern's name.
///
/// # Errors
/// A line is invalid.
pub(super) fn parse(text: &str, path: &Path) -> Result<Pattern, PatternError> {
    let wrong = |(line, message)| PatternError::Line { path: path.into(), line, message };
    let mut reader =
        ReaderBuilder::new().flexible(true).trim(Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let mut lines = Lines { text, at: 0, line: 1 };
    let unreadable = |line, error: csv::Error| wrong((line, error.to_string()));

    let header = reader.headers().map_err(|error| unreadable(1, error))?;
    let header_line = lines.of(header);
    let table = Table::new(header).map_err(|message| wrong((header_line, message)))?;

    let mut streams = Vec::new();
    // The line and the group of each.
    let mut places = Vec::new();
    let mut row = StringRecord::new();
    while reader.read_record(&mut row).map_err(|error| unreadable(lines.line, error))? {
        let line = lines.of(&row);
        for (group, stream) in table.streams(&row).map_err(|message| wrong((line, message)))? {
            streams.push(stream);
            places.push((line, group));
        }
    }
    check::all(&streams).map_err(|(number, fault)| {
        wrong(match number.map(|number| places[number]) {
            Some((line, group)) => (line, of_column(group, &fault)),
            None => (header_line, fault.message),
        })
    })?;
    Ok(Pattern { name: path.display().to_string(), streams })
}

/// The positions of the values in a row.
struct Table {
    producer: usize,
    /// For each group of the table: the columns of [`VALUES`].
    groups: [Option<[Option<usize>; 4]>; 4],
    columns: usize,
}

impl Table {
    fn new(header: &StringRecord) -> Result<Self, String> {
        let find = |name: &str| header.iter().position(|cell| cell == name);
        for (number, cell) in header.iter().enumerate() {
            if cell != PRODUCER
                && !GROUPS.iter().any(|(group, _)| VALUES.iter().any(|(value, _)| is(cell, group, value)))
            {
                let expected =
                    "`producer` and `tcp0_`, `tcp1_`, `udp_` or `lowlat_` with `kb`, `ms`, `max_ms` or `phase_ms`";
                return Err(format!("unknown column {}; expected {expected}", shown(cell)));
            }
            if find(cell) != Some(number) {
                return Err(format!("a second column `{cell}`; expected each column once"));
            }
        }
        let producer = find(PRODUCER).ok_or("the column `producer` is missing")?;
        let mut groups = [None; 4];
        for (columns, (group, _)) in groups.iter_mut().zip(GROUPS) {
            let found = VALUES.map(|(value, _)| header.iter().position(|cell| is(cell, group, value)));
            if found == [None; 4] {
                continue;
            }
            for (column, (value, field)) in found.iter().zip(VALUES) {
                if column.is_none() && field != Field::Phase {
                    return Err(format!("the column `{group}_{value}` is missing beside others of `{group}`"));
                }
            }
            *columns = Some(found);
        }
        Ok(Self { producer, groups, columns: header.len() })
    }

    /// The streams of a row, each with the number of its group.
    fn streams(&self, row: &StringRecord) -> Result<Vec<(usize, Stream)>, String> {
        if row.iter().all(str::is_empty) {
            return Ok(Vec::new());
        }
        if row.len() != self.columns {
            return Err(format!("{} cells; expected {}, as many as there are columns", row.len(), self.columns));
        }
        let cell = &row[self.producer];
        let producer: u16 = cell
            .parse()
            .ok()
            .filter(|&number| number > 0)
            .ok_or_else(|| format!("{PRODUCER}: {}; expected 1 to 65535", shown(cell)))?;
        let mut streams = Vec::new();
        for (group, columns) in self.groups.iter().enumerate() {
            let Some(columns) = columns else { continue };
            let cells = columns.map(|column| column.map_or("", |column| &row[column]));
            if cells != [""; 4] {
                streams.push((group, stream(producer, group, cells).map_err(|fault| of_column(group, &fault))?));
            }
        }
        Ok(streams)
    }
}

/// A stream from its cells, at least one of which is filled.
fn stream(producer: u16, group: usize, cells: [&str; 4]) -> Result<Stream, StreamFault> {
    let number = |value: usize| {
        let (_, field) = VALUES[value];
        match (cells[value], cells[value].parse::<f64>()) {
            ("", _) => Err(StreamFault::new(field, "nothing", "a number, or no number in the whole group")),
            (text, Err(_)) => Err(StreamFault::new(field, shown(text), "a number")),
            (_, Ok(number)) => Ok(number),
        }
    };
    let time = |value: usize| check::time(VALUES[value].1, number(value)?);
    Ok(Stream {
        id: u32::from(producer) * 10 + group as u32,
        producer,
        transport: GROUPS[group].1,
        size: bytes(number(0)?, cells[0])?,
        period: time(1)?,
        deadline: time(2)?,
        phase: if cells[3].is_empty() { None } else { Some(time(3)?) },
    })
}

/// Converts `kb` thousand bytes to bytes. 0.01, the least of 2015, is 10.
fn bytes(kb: f64, text: &str) -> Result<u32, StreamFault> {
    let bytes = kb * 1000.0;
    if !(0.0..=f64::from(u32::MAX)).contains(&bytes) {
        let [least, greatest] = [LEAST_SIZE, GREATEST_SIZE].map(|bytes| f64::from(bytes) / 1000.0);
        return Err(StreamFault::new(Field::Size, format!("{} KB", shown(text)), format!("{least} to {greatest}")));
    }
    // The rounding error of a decimal fraction as f64 is far less than a thousandth of a byte.
    if (bytes - bytes.round()).abs() > 1e-3 {
        return Err(StreamFault::new(
            Field::Size,
            format!("{} KB", shown(text)),
            "whole bytes: at most three decimals",
        ));
    }
    Ok(bytes.round() as u32)
}

/// A fault with the name of the column.
fn of_column(group: usize, fault: &StreamFault) -> String {
    let name = GROUPS[group].0;
    match VALUES.iter().find(|(_, field)| *field == fault.field) {
        Some((value, _)) => format!("{name}_{value}: {}", fault.message),
        // Stream numbers have no column.
        None => format!("{name}: {}", fault.message),
    }
}

/// Whether a column is this value of this group.
fn is(column: &str, group: &str, value: &str) -> bool {
    column.strip_prefix(group).and_then(|rest| rest.strip_prefix('_')) == Some(value)
}

/// A cell's text for a message: truncated, without control characters.
fn shown(cell: &str) -> String {
    const MOST: usize = 40;
    let more = if cell.chars().count() > MOST { "..." } else { "" };
    format!("`{}{more}`", cell.chars().take(MOST).collect::<String>().escape_debug())
}

/// Counts lines. The reader's own line number is that of a blank line or comment before the record,
/// and one too low with CRLF.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The first line of a record; call it for each record in order.
    fn of(&mut self, record: &StringRecord) -> u64 {
        let start = record.position().map_or(0, |position| position.byte()) as usize;
        let bytes = self.text.as_bytes();
        let mut comment = false;
        while let Some(&byte) = bytes.get(self.at) {
            if self.at >= start {
                comment |= byte == b'#';
                if !comment && !matches!(byte, b'\n' | b'\r') {
                    break;
                }
            }
            if byte == b'\n' {
                self.line += 1;
                comment = false;
            }
            self.at += 1;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const HEADER: &str = "producer,tcp0_kb,tcp0_ms,tcp0_max_ms,udp_kb,udp_ms,udp_max_ms,udp_phase_ms\n";

    fn read(text: &str) -> Result<Pattern, String> {
        parse(text, Path::new("p.csv")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_table_of_2015_has_48_streams() {
        let pattern = Pattern::of_2015();
        assert_eq!(pattern.streams.len(), 48);
        assert_eq!(pattern.producers(), (1..=12).collect::<Vec<_>>());
        let of = |id| pattern.streams.iter().find(|stream| stream.id == id).unwrap();
        let ms = Duration::from_millis;
        let expected = Stream {
            id: 21,
            producer: 2,
            transport: Transport::Tcp,
            size: 640_000,
            period: ms(80),
            deadline: ms(40),
            phase: None,
        };
        assert_eq!(*of(21), expected);
        assert_eq!((of(13).size, of(13).transport, of(13).deadline), (10, Transport::LowLatencyTcp, ms(10)));
        assert_eq!((of(42).size, of(42).transport), (3200, Transport::UdpMulticast));
        assert_eq!((of(30).size, of(92).period), (750, ms(500)));
    }

    #[test]
    fn groups_may_be_empty_or_missing_and_columns_in_any_order() {
        let pattern = read(
            "\u{feff}udp_phase_ms , udp_ms,udp_kb,udp_max_ms,producer\r\n# none of 3\r\n\r\n,,,,3\r\n0.25,10,1.5,5,7\r\n,,,,\r\n",
        )
        .unwrap();
        let [stream] = pattern.streams.as_slice() else { panic!("{pattern:?}") };
        assert_eq!((stream.id, stream.producer, stream.size), (72, 7, 1500));
        assert_eq!(stream.phase, Some(Duration::from_micros(250)));
        assert_eq!(pattern.name, "p.csv");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (rows, expected) in [
            ("", "1: there are no streams; expected at least one"),
            ("1,1,2,3,4\n", "2: 5 cells; expected 8, as many as there are columns"),
            ("0,1,10,5,,,,\n", "2: producer: `0`; expected 1 to 65535"),
            ("x\u{1b}[2J,1,10,5,,,,\n", "2: producer: `x\\u{1b}[2J`; expected 1 to 65535"),
            ("1,,10,5,,,,\n", "2: tcp0_kb: nothing; expected a number, or no number in the whole group"),
            ("1,,,,,,,1\n", "2: udp_kb: nothing; expected a number, or no number in the whole group"),
            ("1,1,ten,5,,,,\n", "2: tcp0_ms: `ten`; expected a number"),
            ("1,0,10,5,,,,\n", "2: tcp0_kb: 0 bytes; expected 10 to 16777216 bytes for tcp"),
            ("1,-1,10,5,,,,\n", "2: tcp0_kb: `-1` KB; expected 0.01 to 16777.216"),
            ("1,1e308,10,5,,,,\n", "2: tcp0_kb: `1e308` KB; expected 0.01 to 16777.216"),
            ("1,NaN,10,5,,,,\n", "2: tcp0_kb: `NaN` KB; expected 0.01 to 16777.216"),
            ("1,0.0105,10,5,,,,\n", "2: tcp0_kb: `0.0105` KB; expected whole bytes: at most three decimals"),
            ("1,1,1e99,5,,,,\n", "2: tcp0_ms: 1e99 ms; expected 0.001 to 3600000 ms"),
            (
                "1,1,10,5,,,,\n\n# and\n\n2,1,10,0,,,,\n",
                "6: tcp0_max_ms: 0 ms; expected more than 0 and at most 3600000 ms",
            ),
            (
                "1,1,10,5,,,,\r\n\r\n2,,,,70,10,5,\r\n",
                "4: udp_kb: 70000 bytes; expected 10 to 65507 bytes for udp-multicast",
            ),
            ("1,,,,1,10,5,10\n", "2: udp_phase_ms: 10 ms; expected less than the period of 10 ms"),
            ("1,1,10,5,,,,\n1,1,10,5,,,,\n", "3: tcp0: a second stream 10; expected each number once"),
        ] {
            assert_eq!(read(&format!("{HEADER}{rows}")).unwrap_err(), format!("p.csv:{expected}"), "{rows}");
        }
        for (header, expected) in [
            ("", "1: the column `producer` is missing"),
            ("\n\ntcp0_kb\n", "3: the column `producer` is missing"),
            ("producer\n1\n", "1: there are no streams; expected at least one"),
            ("producer,tcp0_kb,tcp0_ms\n", "1: the column `tcp0_max_ms` is missing beside others of `tcp0`"),
            ("producer,producer\n", "1: a second column `producer`; expected each column once"),
            (
                "producer;tcp0_kb\n",
                "1: unknown column `producer;tcp0_kb`; expected `producer` and `tcp0_`, `tcp1_`, `udp_` or `lowlat_` with `kb`, `ms`, `max_ms` or `phase_ms`",
            ),
        ] {
            assert_eq!(read(header).unwrap_err(), format!("p.csv:{expected}"), "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in any::<String>(), rows in "[0-9,.\n\r# -]{0,200}") {
            let _ = read(&text);
            let _ = read(&format!("{HEADER}{text}"));
            if let Ok(pattern) = read(&format!("{HEADER}{rows}")) {
                prop_assert!(check::all(&pattern.streams).is_ok());
            }
        }

        #[test]
        fn every_stream_is_read_as_it_was_written(producer in 1u16.., size in 10u32..65_508, period in 1u64..1_000_000, phase in any::<prop::sample::Index>(), deadline in 1u64..1_000_000) {
            let phase = phase.index(period as usize) as u64;
            let ms = |us: u64| us as f64 / 1e3;
            let row = format!("{HEADER}{producer},,,,{},{},{},{}", f64::from(size) / 1e3, ms(period), ms(deadline), ms(phase));
            let us = Duration::from_micros;
            let stream = Stream {
                id: u32::from(producer) * 10 + 2,
                producer,
                transport: Transport::UdpMulticast,
                size,
                period: us(period),
                deadline: us(deadline),
                phase: Some(us(phase)),
            };
            prop_assert_eq!(read(&row).unwrap().streams, vec![stream]);
        }
    }
}
