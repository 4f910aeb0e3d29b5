//! The host's table of leap seconds.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tickwire_clock::keeper::table::{Malformed, Table};
use tracing::{info, warn};

/// Where time zone data bring it.
const USUAL: [&str; 2] = ["/usr/share/zoneinfo/leap-seconds.list", "/usr/share/zoneinfo/leapseconds"];

/// Why a table cannot be used.
#[derive(Debug, Error)]
pub enum TableError {
    /// It cannot be read.
    #[error("cannot read the table of leap seconds {0}: {1}")]
    Read(PathBuf, io::Error),
    /// It is wrong.
    #[error("{0} is no table of leap seconds: {1}")]
    Wrong(PathBuf, Malformed),
}

/// The table that the user has named, else the host's, if it has one.
pub(crate) fn read(named: Option<&Path>) -> Result<Option<Table>, TableError> {
    if let Some(path) = named {
        return parse(path).map(Some);
    }
    for path in USUAL.map(Path::new) {
        match parse(path) {
            Ok(table) => {
                info!(path = %path.display(), "leap seconds are in a table");
                return Ok(Some(table));
            }
            Err(TableError::Read(..)) => {}
            Err(error) => warn!(%error, "the host's table of leap seconds is not used"),
        }
    }
    Ok(None)
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
        assert!(read(Some(&path)).unwrap_err().to_string().starts_with("cannot read the table of leap seconds"));
        std::fs::write(&path, "#@ 3991593600\n2272060800 ten\n").unwrap();
        assert!(read(Some(&path)).unwrap_err().to_string().ends_with("line 2: expected TAI - UTC in seconds"));
        std::fs::write(&path, "#@ 3991593600\n2272060800 10\n").unwrap();
        assert!(read(Some(&path)).unwrap().is_some());
    }
}
