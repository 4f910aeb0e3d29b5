//! The log of the service of Windows. Programs cause lines in it, as many as they like: it has a
//! bound, so that it does not fill the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

/// The longest log, in bytes. What comes before it is kept in a second file of the same size.
const MOST: u64 = 16 << 20;

/// A log file, and the one before it.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    old: PathBuf,
    file: File,
    /// The bytes for which there is room.
    room: u64,
    most: u64,
}

impl LogFile {
    /// Begins a log at `path`. One that is there becomes the old one.
    pub(super) fn begin(path: PathBuf, old: PathBuf) -> io::Result<Self> {
        Self::of(path, old, MOST)
    }

    fn of(path: PathBuf, old: PathBuf, most: u64) -> io::Result<Self> {
        // If it cannot be renamed its contents are lost.
        let _ = fs::rename(&path, &old);
        let file = File::create(&path)?;
        Ok(Self { path, old, file, room: most, most })
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if length > self.room {
            *self = Self::of(self.path.clone(), self.old.clone(), self.most)?;
        }
        self.file.write_all(bytes)?;
        self.room = self.room.saturating_sub(length);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_bound_and_what_came_before_is_kept_once() {
        let folder = tempfile::tempdir().unwrap();
        let [path, old] = ["service.log", "service.log.old"].map(|name| folder.path().join(name));
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        fs::write(&path, "of the last start").unwrap();
        let mut log = LogFile::of(path.clone(), old.clone(), 20).unwrap();
        assert_eq!((read(&path).as_str(), read(&old).as_str()), ("", "of the last start"));
        for line in ["one-----\n", "two-----\n", "three---\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        log.flush().unwrap();
        assert_eq!((read(&path).as_str(), read(&old).as_str()), ("three---\n", "one-----\ntwo-----\n"));
        let long = "x".repeat(100);
        log.write_all(long.as_bytes()).unwrap();
        log.write_all(b"next").unwrap();
        assert_eq!((read(&path).as_str(), read(&old)), ("next", long));
    }
}
