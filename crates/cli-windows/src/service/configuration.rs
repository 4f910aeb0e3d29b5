//! The service's configuration file: the same format as on Linux, with what means the same.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use tickwire_settings::{Wrong, parse, text};
use tickwire_timekeeper::TimekeeperConfig;
use tickwire_timekeeper::config::default_file;

/// What is in it.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServiceFile {
    /// The clock. Unset: the service keeps none.
    pub(super) clock: Option<TimekeeperConfig>,
}

impl ServiceFile {
    fn check(&self) -> Result<(), Wrong> {
        let Some(clock) = &self.clock else { return Ok(()) };
        clock.check()?;
        if clock.servers.is_empty() {
            return Err(Wrong::new("clock", "the clock needs a server to ask: expected [[clock.servers]]"));
        }
        Ok(())
    }
}

/// Reads the file that was named, else the usual one, which need not exist. A usual one that
/// another user controls is not used, which the log says: it must not keep the service from
/// starting either.
pub(super) fn read(named: Option<&Path>) -> Result<ServiceFile> {
    let usual = default_file();
    let path = match named {
        Some(named) => named,
        None => match is_trusted(&usual) {
            Ok(true) => &usual,
            Ok(false) => return Ok(ServiceFile::default()),
            Err(error) => {
                tracing::error!("the configuration is not used: {error:#}");
                return Ok(ServiceFile::default());
            }
        },
    };
    let file: ServiceFile = parse(&text(path)?, path, ServiceFile::check)?;
    if let Some(clock) = &file.clock {
        clock.check_files()?;
    }
    Ok(file)
}

/// Whether there is such a file.
///
/// Every user may make files in the machine's folder for program data. It is an error if another
/// user has made this one, or can exchange it.
fn is_trusted(path: &Path) -> Result<bool> {
    if !is_there(path).with_context(|| format!("cannot look for {}", path.display()))? {
        return Ok(false);
    }
    trust(path).map(|()| true)
}

fn is_there(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fails if a file, or its folder, belongs to a user that is no administrator.
fn trust(path: &Path) -> Result<()> {
    /// Opens a folder like a file (winbase.h).
    const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
    /// Opens a link itself.
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
    for one in path.parent().into_iter().chain([path]) {
        let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(one);
        let owner = opened.and_then(|opened| tickclock::foreign_owner(&opened));
        if let Some(owner) = owner.with_context(|| format!("cannot tell the owner of {}", one.display()))? {
            bail!(
                "{} belongs to {owner}, which is no administrator: remove it, or name the configuration by --config",
                one.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(content: &str) -> Result<ServiceFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tickwire.toml");
        std::fs::write(&path, content).unwrap();
        assert!(is_trusted(&path).unwrap());
        read(Some(&path)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_has_the_clocks_settings_as_on_linux() {
        assert_eq!(reading("").unwrap(), ServiceFile::default());
        let clock = reading("[clock]\npoll = 2\n[[clock.servers]]\nhost = 'time.example'\n").unwrap().clock.unwrap();
        assert_eq!((clock.poll, clock.servers.len()), (2.0, 1));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_place() {
        for (content, what) in [
            ("[clok]\n", "tickwire.toml:1:2: unknown key `clok`, expected `clock`"),
            ("[clock]\npoll = 2\n", "tickwire.toml:1:1: the clock needs a server to ask"),
            ("[clock]\npoll = 0\n[[clock.servers]]\nhost = 'a'\n", "clock.poll must be 0.05 to 86400 seconds"),
            ("[clock]\nshm_unit = 1\n[[clock.servers]]\nhost = 'a'\n", "on Linux only; remove this line"),
        ] {
            let said = reading(content).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
        let missing = Path::new(r"C:\no such file");
        assert!(read(Some(missing)).is_err() && !is_trusted(missing).unwrap());
    }
}
