//! A report's file.

use anyhow::{Context, Result};
use std::fs::{File, OpenOptions, canonicalize, metadata, remove_file};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tickwire_show::output;

/// The report's file. It is opened before the work, so that a wrong name is an error at once, but
/// created or changed only when the report is written. However the work ends, no empty file is
/// left.
pub(crate) struct Html {
    path: PathBuf,
    destination: Destination,
}

/// Where the report goes.
enum Destination {
    /// The same file as standard output: the report is written to it before the printed text.
    Stdout,
    /// It exists: a file, a pipe, a device.
    Existing(File),
    /// It does not exist yet, and can be created.
    New,
}

impl Html {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let destination = match OpenOptions::new().write(true).open(path) {
            _ if is_output(path) => Ok(Destination::Stdout),
            Ok(file) => Ok(Destination::Existing(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => made_and_removed(path).map(|()| Destination::New),
            Err(error) => Err(error),
        };
        let destination = destination.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.into(), destination })
    }

    pub(crate) fn write(self, text: &str) -> Result<()> {
        let written = match self.destination {
            Destination::Stdout => return output::print(text).map(|_| ()),
            // A pipe or a terminal cannot be truncated.
            Destination::Existing(mut file) => {
                file.set_len(0).or(Ok(())).and_then(|()| file.write_all(text.as_bytes()))
            }
            Destination::New => File::create(&self.path).and_then(|mut file| file.write_all(text.as_bytes())),
        };
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Whether a file is the same as standard output. A second open file description would have an
/// offset of its own, so that the two would overwrite each other.
fn is_output(path: &Path) -> bool {
    let what = |path: &Path| metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    what(path).is_some_and(|file| what("/dev/stdout".as_ref()) == Some(file))
}

/// Checks that a file of this name can be created, by doing so. The name may be a dangling symbolic
/// link: the link stays.
fn made_and_removed(path: &Path) -> io::Result<()> {
    let _made = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    remove_file(canonicalize(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read_dir, read_to_string, write};

    #[test]
    fn a_report_is_made_when_it_is_written_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.html");
        let report = Html::open(&path).unwrap();
        assert_eq!(read_dir(directory.path()).unwrap().count(), 0, "a study that is killed now leaves nothing");
        report.write("new").unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "new");
        write(&path, "the report before").unwrap();
        let report = Html::open(&path).unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "the report before");
        report.write("newer").unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "newer");
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_yet_stays_one() {
        let directory = tempfile::tempdir().unwrap();
        let [link, file] = ["latest.html", "r.html"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink("r.html", &link).unwrap();
        let report = Html::open(&link).unwrap();
        assert!(link.is_symlink() && !file.exists());
        report.write("x").unwrap();
        assert!(link.is_symlink() && read_to_string(&file).unwrap() == "x");
    }

    #[test]
    fn what_cannot_be_written_shows_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let said = |path: &Path| format!("{:#}", Html::open(path).map(|_| ()).unwrap_err());
        assert!(said(directory.path()).contains("Is a directory"), "{}", said(directory.path()));
        let nowhere = directory.path().join("no/r.html");
        let why = said(&nowhere);
        assert!(why.starts_with(&format!("cannot write {}: No such file", nowhere.display())), "{why}");
    }
}
