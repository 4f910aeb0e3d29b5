//! The host's table of leap seconds.

use crate::os::LEAP_TABLES;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tickclock::Nanos;
use tickwire_clock::ensemble::calendar::civil;
use tickwire_clock::ensemble::table::{MalformedTable, Table};
use tracing::{info, warn};

/// In ns.
const DAY: i64 = 86_400 * 1_000_000_000;

/// Why a table cannot be used.
#[derive(Debug, Error)]
pub enum TableError {
    /// It cannot be read.
    #[error("cannot read the table of leap seconds {0}: {1}")]
    Read(PathBuf, io::Error),
    /// It is malformed.
    #[error("{0} is no table of leap seconds: {1}")]
    Wrong(PathBuf, MalformedTable),
}

/// The configured table, else the host's, if it has one. `now` is the system clock's time, at which
/// it may have expired.
pub(crate) fn read(named: Option<&Path>, now: Nanos) -> Result<Option<Table>, TableError> {
    if let Some(path) = named {
        let table = parse(path)?;
        tell(path, &table, now);
        return Ok(Some(table));
    }
    for path in LEAP_TABLES.map(Path::new) {
        match parse(path) {
            Ok(table) => {
                tell(path, &table, now);
                return Ok(Some(table));
            }
            Err(TableError::Read(..)) => {}
            Err(error) => warn!(%error, "the host's table of leap seconds is not used"),
        }
    }
    Ok(None)
}

/// Logs which table there is. An expired one does not give TAI any more, and only the log shows
/// why.
fn tell(path: &Path, table: &Table, now: Nanos) {
    let (path, until) = (path.display(), date(table.expires()));
    if has_expired(table, now) {
        warn!(%path, since = %until, "the table of leap seconds has expired, and is not believed any more: a newer one is in the package tzdata, or at IERS");
    } else {
        info!(%path, %until, "leap seconds are in a table");
    }
}

fn has_expired(table: &Table, now: Nanos) -> bool {
    table.expires() <= now
}

/// The day of a Unix time.
fn date(time: Nanos) -> String {
    let (year, month, day) = civil(time.0.div_euclid(DAY));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Reads a table.
pub(crate) fn parse(path: &Path) -> Result<Table, TableError> {
    let text = std::fs::read_to_string(path).map_err(|error| TableError::Read(path.into(), error))?;
    Table::parse(&text).map_err(|error| TableError::Wrong(path.into(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_named_must_be_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leaps");
        assert!(
            read(Some(&path), Nanos(0)).unwrap_err().to_string().starts_with("cannot read the table of leap seconds")
        );
        std::fs::write(&path, "#@ 3991593600\n2272060800 ten\n").unwrap();
        assert!(
            read(Some(&path), Nanos(0)).unwrap_err().to_string().ends_with("line 2: expected TAI - UTC in seconds")
        );
        std::fs::write(&path, "#@ 3991593600\n2272060800 10\n").unwrap();
        assert!(read(Some(&path), Nanos(0)).unwrap().is_some());
    }

    #[test]
    fn a_table_expires_on_its_day() {
        let table = Table::parse("#@ 3991593600\n2272060800 10\n").unwrap();
        assert_eq!(date(table.expires()), "2026-06-28");
        let second = Nanos(1_782_604_799_000_000_000);
        assert!(!has_expired(&table, second) && has_expired(&table, second.plus(1_000_000_000)));
    }
}
