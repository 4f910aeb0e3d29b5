//! The library beside this program.

use std::path::{Path, PathBuf};
use tickwire_lane::build_mark::{BuildMark, MARK_BYTES};
use tickwire_launcher_windows::library_file::{LibraryError, read_exported};

/// Its file.
pub(crate) const LIBRARY: &str = "tickwire_winsock.dll";

/// The data by which it says of which build it is.
const MARK: &str = "tickwire_winsock_build";

/// Why the library cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// It is not beside this program.
    Missing(PathBuf),
    /// Its file is damaged, or for another processor.
    File(LibraryError),
    /// It is of another build.
    Other(PathBuf, String),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let own = env!("CARGO_PKG_VERSION");
        match self {
            Self::Missing(path) => {
                write!(f, "the library {} is missing: unpack it from the zip, beside tickwire.exe", path.display())
            }
            Self::File(error) => {
                write!(f, "the library cannot be used ({error}): unpack it from the zip again, beside tickwire.exe")
            }
            Self::Other(path, version) => write!(
                f,
                "{} is of version {version} and of another build than this program ({own}): unpack both from one zip",
                path.display()
            ),
        }
    }
}

/// Warns of the folder of a program that starts as a service, if users may write there.
pub(crate) fn warn_of_place(program: &Path) {
    if let Some(warning) = warning_of_place(program) {
        println!("{warning}");
    }
}

fn warning_of_place(program: &Path) -> Option<String> {
    let folder = std::env::var_os("ProgramFiles").map(PathBuf::from);
    let is_safe = folder.is_some_and(|folder| program.starts_with(folder));
    let what = "is not in Program Files: users that can write there get the rights of the service";
    (!is_safe).then(|| format!("warning: {} {what}", program.display()))
}

/// The library's path.
pub(crate) fn library() -> Result<PathBuf, Unusable> {
    let program = std::env::current_exe().unwrap_or_default();
    let path = program.with_file_name(LIBRARY);
    check(&path).map(|()| path)
}

fn check(path: &Path) -> Result<(), Unusable> {
    if !path.is_file() {
        return Err(Unusable::Missing(path.into()));
    }
    let mut bytes = [0; MARK_BYTES];
    let has_mark = read_exported(path, MARK, &mut bytes).map_err(Unusable::File)?;
    let mark = BuildMark::from_bytes(bytes);
    if has_mark && mark == BuildMark::OWN {
        return Ok(());
    }
    let version = if has_mark { mark.version() } else { "unknown".into() };
    Err(Unusable::Other(path.into(), version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_users_could_replace_is_warned_of() {
        let folder = std::env::var("ProgramFiles").unwrap();
        assert_eq!(warning_of_place(&Path::new(&folder).join(r"Tickwire\tickwire.exe")), None);
        let warning = warning_of_place(Path::new(r"C:\Users\a\tickwire.exe")).unwrap();
        assert!(warning.contains(r"C:\Users\a\tickwire.exe is not in Program Files"), "{warning}");
    }

    #[test]
    fn a_library_that_cannot_be_used_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LIBRARY);
        let said = || check(&path).unwrap_err().to_string();
        assert!(said().contains("is missing: unpack it from the zip"), "{}", said());
        std::fs::write(&path, "text").unwrap();
        assert!(said().contains("cannot be used"), "{}", said());
        // A library of Windows has no mark.
        std::fs::copy(r"C:\windows\system32\kernel32.dll", &path).unwrap();
        assert!(said().contains("of version unknown"), "{}", said());
    }
}
