//! Traffic patterns: streams of messages from producers to the consumer.
//!
//! | module | purpose |
//! |---|---|
//! | `csv` | the table of 2015: a row for each producer |
//! | `toml` | any streams, one table each |
//! | `check` | validation of patterns |

mod check;
mod csv;
mod toml;

pub use check::{Field, GREATEST_TIME, LEAST_PERIOD, StreamFault};
pub use tickwire_node::stream::{GREATEST_DATAGRAM, GREATEST_SIZE, LEAST_SIZE, MOST_STREAMS, Stream, Transport};

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// All streams of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// Its source, for reports.
    pub name: String,
    /// In the order of the file; at least one, with unique numbers.
    pub streams: Vec<Stream>,
}

/// Why a pattern cannot be used.
#[derive(Debug, Error)]
pub enum PatternError {
    /// A line is invalid.
    #[error("{path}:{line}: {message}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// The same for TOML, with column; or the file cannot be read.
    #[error(transparent)]
    Settings(#[from] tickwire_settings::SettingsError),
}

impl Pattern {
    /// Table 1 of Shafer et al. (2015): 12 producers with four streams each.
    #[must_use]
    pub fn of_2015() -> Self {
        csv::parse(include_str!("../../patterns/2015.csv"), Path::new("2015"))
            .expect("the built-in pattern is a pattern")
    }

    /// Reads a pattern: TOML by its file extension, else CSV.
    ///
    /// # Errors
    /// It cannot be read, or a line is invalid.
    pub fn read(path: &Path) -> Result<Self, PatternError> {
        let text = tickwire_settings::text(path)?;
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
            toml::parse(&text, path)
        } else {
            csv::parse(&text, path)
        }
    }

    /// The numbers of the producers, in order, each once.
    #[must_use]
    pub fn producers(&self) -> Vec<u16> {
        let mut all: Vec<u16> = self.streams.iter().map(|stream| stream.producer).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A stream for tests: small messages by UDP, one each 10 ms, within 5 ms, from producer 1.
#[cfg(test)]
pub(crate) fn sample(id: u32) -> Stream {
    Stream {
        id,
        producer: 1,
        transport: Transport::Udp,
        size: 100,
        period: std::time::Duration::from_millis(10),
        deadline: std::time::Duration::from_millis(5),
        phase: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_by_its_name_and_never_endlessly() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let place = format!("{}/", folder.path().display());
            Pattern::read(&path).map(|pattern| pattern.streams).map_err(|error| error.to_string().replace(&place, ""))
        };
        let example = include_bytes!("../../../../examples/cell.csv");
        assert_eq!(said("cell.csv", example).map(|streams| streams.len()), Ok(12));
        let table = include_bytes!("../../patterns/2015.csv");
        assert_eq!(said("p.csv", table), Ok(Pattern::of_2015().streams));
        assert_eq!(said("P.TOML", table).unwrap_err().split(':').next(), Some("P.TOML"));
        let toml =
            b"[[streams]]\nid = 1\nproducer = 1\ntransport = \"udp\"\nsize = 10\nperiod_ms = 1\ndeadline_ms = 1\n";
        assert_eq!(said("P.TOML", toml).unwrap().len(), 1);
        assert_eq!(said("b.csv", b"producer\n\xff\n").unwrap_err(), "b.csv:2:1: this is no text; expected UTF-8");
        let long = said("l.csv", &vec![b'\n'; (1 << 20) + 1]).unwrap_err();
        assert_eq!(long, "l.csv:1048578:1: the file is too long; expected at most 1 MiB");
        let nowhere = Pattern::read(Path::new("/nonexistent/p.csv")).unwrap_err();
        assert_eq!(nowhere.to_string(), "cannot read /nonexistent/p.csv");
    }
}
