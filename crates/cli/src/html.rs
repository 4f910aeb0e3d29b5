//! A report's file.

use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The report's file: opened before the work, so that a wrong name shows at once, and changed only when there is something to write.
pub(crate) struct Html {
    path: PathBuf,
    file: File,
    /// It was not there before, and nothing is in it yet.
    new: bool,
}

impl Html {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let new = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.into(), file, new })
    }

    pub(crate) fn write(mut self, text: &str) -> Result<()> {
        self.new = false;
        // A pipe or a terminal has no length to set.
        let written = self.file.set_len(0).or(Ok(())).and_then(|()| self.file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Html {
    fn drop(&mut self) {
        if self.new {
            // There was nothing to report.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
