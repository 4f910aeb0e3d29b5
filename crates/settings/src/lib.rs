//! Configuration files: TOML, read and checked. Errors have the form `file:line:column: what is
//! wrong; expected what`. Service, clock daemon and time server share one file, and so its errors.
//!
//! | module | purpose |
//! |---|---|
//! | `wording` | the TOML reader's errors, without the names of Rust types |
//! | `words` | words that lack their quotes |
//!
//! It does not know the settings themselves.
#![forbid(unsafe_code)]

mod wording;
mod words;

use serde::de::DeserializeOwned;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest file that is read, in bytes. It is more than a configuration needs, and a wrong name
/// (a disk, `/dev/zero`) does not fill memory.
const LONGEST: u64 = 1 << 20;

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The content of the file is invalid.
    #[error("{path}:{line}:{column}: {message}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and what was expected.
        message: String,
    },
}

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its key, from the top: `clock.poll`, or `clock.servers.0.host`.
    pub key: String,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Wrong {
    /// The value of this key is invalid.
    #[must_use]
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

/// Reads a file, and validates its settings by `check`.
///
/// # Errors
/// It cannot be read, is longer than 1 MiB, is no valid TOML of this type, or `check` refuses it.
pub fn read<T: DeserializeOwned>(path: &Path, check: impl FnOnce(&T) -> Result<(), Wrong>) -> Result<T, SettingsError> {
    parse(&text(path)?, path, check)
}

/// The text of a file.
///
/// # Errors
/// It cannot be read, is longer than 1 MiB, or is no text.
pub fn text(path: &Path) -> Result<String, SettingsError> {
    let unreadable = |source| SettingsError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    let wrong = |bytes: &[u8], offset, message: &str| {
        let (line, column) = place(bytes, offset);
        SettingsError::Content { path: path.to_owned(), line, column, message: message.to_owned() }
    };
    if bytes.len() as u64 > LONGEST {
        return Err(wrong(&bytes, bytes.len(), "the file is too long; expected at most 1 MiB"));
    }
    String::from_utf8(bytes)
        .map_err(|error| wrong(error.as_bytes(), error.utf8_error().valid_up_to(), "this is no text; expected UTF-8"))
}

/// Reads settings from `text`, and validates them by `check`; `path` is only named in errors.
///
/// # Errors
/// It is no valid TOML of this type, or `check` refuses it.
pub fn parse<T: DeserializeOwned>(
    text: &str,
    path: &Path,
    check: impl FnOnce(&T) -> Result<(), Wrong>,
) -> Result<T, SettingsError> {
    let wrong = |text: &str, offset, message| {
        let (line, column) = place(text.as_bytes(), offset);
        SettingsError::Content { path: path.to_owned(), line, column, message }
    };
    let misread = |text: &str, error: toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        wrong(text, offset, wording::of_person(error.message(), key_at(text, offset).as_deref()))
    };
    let settings: T = toml::from_str(text).map_err(|error| {
        // To the TOML reader a word without quotes is no value. With quotes around it, the reader's
        // error says which type is expected there.
        let Some((first, quoted)) = words::with_quotes(text) else { return misread(text, error) };
        match toml::from_str::<T>(&quoted) {
            Err(error) => misread(&quoted, error),
            Ok(_) => {
                let key = key_at(&quoted, first.start).map(|key| key + " is ").unwrap_or_default();
                wrong(text, first.start, format!("{key}text without quotes; expected \"{}\"", &text[first]))
            }
        }
    })?;
    check(&settings).map_err(|Wrong { key, message }| wrong(text, offset_of(text, &key).unwrap_or(0), message))?;
    Ok(settings)
}

/// The key (`limits.lanes`) of the value that begins at an offset; of the innermost one if several
/// begin there.
fn key_at(text: &str, offset: usize) -> Option<String> {
    fn within(around: &DeValue<'_>, offset: usize) -> Option<String> {
        let one = |name: String, value: &Spanned<DeValue<'_>>| match within(value.get_ref(), offset) {
            Some(rest) => Some(format!("{name}.{rest}")),
            None => (value.span().start == offset).then_some(name),
        };
        match around {
            DeValue::Table(table) => table.iter().find_map(|(key, value)| one(key.get_ref().to_string(), value)),
            DeValue::Array(list) => list.iter().enumerate().find_map(|(number, value)| one(number.to_string(), value)),
            _ => None,
        }
    }
    within(&DeValue::Table(DeTable::parse(text).ok()?.into_inner()), offset)
}

/// The offset at which the value of a key (`limits.lanes`) begins. Without such a value, that of
/// the innermost table or list around it that exists.
fn offset_of(text: &str, key: &str) -> Option<usize> {
    let mut around = DeValue::Table(DeTable::parse(text).ok()?.into_inner());
    let mut offset = None;
    for name in key.split('.') {
        let value: Option<Spanned<DeValue<'_>>> = match around {
            DeValue::Table(table) => table.into_iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value),
            DeValue::Array(list) => name.parse().ok().and_then(|number| list.into_iter().nth(number)),
            _ => None,
        };
        let Some(value) = value else { break };
        offset = Some(value.span().start);
        around = value.into_inner();
    }
    offset
}

/// Line and column (both from 1, the column in characters) of a byte offset.
fn place(text: &[u8], offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        #[serde(default)]
        servers: Vec<Server>,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Server {
        port: u16,
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let said = |text: &str, key: &str| {
            let check = |_: &Settings| if key.is_empty() { Ok(()) } else { Err(Wrong::new(key, "no")) };
            parse(text, Path::new("t.toml"), check).map(|settings| settings.servers.iter().map(|s| s.port).sum::<u16>())
        };
        let text = "[[servers]]\nport = 1\n\n[[servers]]\n  port = 2\n";
        assert_eq!(said(text, "").unwrap(), 3);
        for (text, key, expected) in [
            (text, "servers.1.port", "t.toml:5:10: no"),
            (text, "servers.1.host", "t.toml:4:1: no"),
            (text, "nothing", "t.toml:1:1: no"),
            ("serves = 1", "", "t.toml:1:1: unknown key `serves`, expected `servers`"),
            ("[[servers]]\n", "", "t.toml:1:1: the key `port` is missing"),
            (
                "servers = 1",
                "",
                "t.toml:1:11: servers is the number 1; expected a list in brackets, such as [\"a\", \"b\"]",
            ),
            (
                "[[servers]]\nport = 1\n[[servers]]\nport = true",
                "",
                "t.toml:4:8: servers.1.port is the truth value true; expected a whole number from 0 to 65535",
            ),
        ] {
            assert_eq!(said(text, key).unwrap_err().to_string(), expected, "{text}");
        }
        let none = |_: &Settings| Ok(());
        let error = read(Path::new("/nonexistent/t.toml"), none).unwrap_err().to_string();
        assert_eq!(error, "cannot read /nonexistent/t.toml");
    }

    #[test]
    fn what_no_person_has_written_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.toml");
        let said = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            let read = read(&file, |_: &Settings| Ok(()));
            let folder = format!("{}{}", directory.path().display(), std::path::MAIN_SEPARATOR);
            read.map(|_| ()).map_err(|error| error.to_string().replace(&folder, ""))
        };
        let longest = usize::try_from(LONGEST).unwrap();
        assert_eq!(said(&vec![b'\n'; longest]), Ok(()));
        let long = said(&vec![b'\n'; longest + 1]);
        assert_eq!(long, Err("t.toml:1048578:1: the file is too long; expected at most 1 MiB".to_owned()));
        assert_eq!(said(b"# a\n# \xff"), Err("t.toml:2:3: this is no text; expected UTF-8".to_owned()));
    }

    /// There is no such file on Windows.
    #[cfg(unix)]
    #[test]
    fn a_file_without_an_end_is_not_read() {
        let endless = read(Path::new("/dev/zero"), |_: &Settings| Ok(())).unwrap_err().to_string();
        assert!(endless.starts_with("/dev/zero:1:") && endless.contains("too long"), "{endless}");
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Words {
        steer: Option<bool>,
        name: Option<String>,
        seconds: Option<f64>,
        names: Option<Vec<String>>,
    }

    #[test]
    fn a_word_without_quotes_is_told_by_what_is_wanted_there() {
        for (text, expected) in [
            ("steer = \"yes\"", "1:9: steer is the text \"yes\"; expected true or false"),
            ("steer = yes", "1:9: steer is the text \"yes\"; expected true or false"),
            ("steer = True # as in other languages\n", "1:9: steer is the text \"True\"; expected true or false"),
            ("\nsteer = no", "2:9: steer is the text \"no\"; expected true or false"),
            ("seconds = never", "1:11: seconds is the text \"never\"; expected a number"),
            ("name = ntp.example", "1:8: name is text without quotes; expected \"ntp.example\""),
            ("name = no", "1:8: name is text without quotes; expected \"no\""),
            ("names = [\"a\", b-c, d]", "1:15: names.1 is text without quotes; expected \"b-c\""),
            ("name = eth0\nsteer = on", "2:9: steer is the text \"on\"; expected true or false"),
            ("ever = yes", "1:1: unknown key `ever`, expected one of `steer`, `name`, `seconds`, `names`"),
        ] {
            let error = parse(text, Path::new("t.toml"), |words: &Words| {
                unreachable!("{text}: {:?}", (&words.steer, &words.name, &words.seconds, &words.names))
            });
            assert_eq!(error.unwrap_err().to_string(), format!("t.toml:{expected}"), "{text}");
        }
    }
}
