//! The file that a program's name stands for, as the command processor finds it: in the current
//! folder, then in those of `PATH`. `.exe` may be left out.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// If this variable is set, the current folder is not searched (as with
/// `NeedCurrentDirectoryForExePathW`).
pub const NO_CURRENT_FOLDER: &str = "NoDefaultCurrentDirectoryInExePath";

/// The first file of [`candidates`] that is there.
#[must_use]
pub fn find(program: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let searches_here = std::env::var_os(NO_CURRENT_FOLDER).is_none();
    candidates(program, &path, searches_here).into_iter().find(|file| is_file(file))
}

/// Whether something is there that may be a program. An alias of a program from the Store is a file
/// that cannot be followed.
fn is_file(path: &Path) -> bool {
    let target = path.metadata().or_else(|_| path.symlink_metadata());
    target.is_ok_and(|target| !target.is_dir())
}

/// The files that a name may stand for, the preferred one first.
#[must_use]
pub fn candidates(program: &OsStr, path: &OsStr, searches_here: bool) -> Vec<PathBuf> {
    if program.is_empty() {
        return Vec::new();
    }
    let names = file_names(program);
    // Separators are ASCII, so they are what they are in the encoding, too.
    let has_folder = program.as_encoded_bytes().iter().any(|byte| b"\\/:".contains(byte));
    if has_folder {
        return names.map(PathBuf::from).into();
    }
    let here = searches_here.then(|| PathBuf::from("."));
    let folders = std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty());
    here.into_iter().chain(folders).flat_map(|folder| names.each_ref().map(|name| folder.join(name))).collect()
}

/// The name, and the name with `.exe` appended: the other way round if it has no extension.
fn file_names(program: &OsStr) -> [OsString; 2] {
    let mut appended = program.to_os_string();
    appended.push(".exe");
    let bytes = program.as_encoded_bytes();
    let file = bytes.rsplit(|byte| b"\\/:".contains(byte)).next().unwrap_or(bytes);
    if file.contains(&b'.') { [program.to_os_string(), appended] } else { [appended, program.to_os_string()] }
}

/// Whether Windows would run the command processor for this file. It ignores dots and spaces at the
/// end of a name.
#[must_use]
pub fn is_batch(file: &Path) -> bool {
    let name = file.as_os_str().as_encoded_bytes();
    let end = name.iter().rposition(|byte| !b". ".contains(byte)).map_or(0, |last| last + 1);
    let extension = name.get(..end).and_then(|name| name.last_chunk::<4>());
    extension.is_some_and(|extension| [b".bat", b".cmd"].iter().any(|batch| extension.eq_ignore_ascii_case(*batch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(program: &str, searches_here: bool) -> Vec<PathBuf> {
        let path = std::env::join_paths(["", "one", "two"]).unwrap();
        candidates(OsStr::new(program), &path, searches_here)
    }

    fn joined(names: &[[&str; 2]]) -> Vec<PathBuf> {
        names.iter().map(|[folder, name]| Path::new(folder).join(name)).collect()
    }

    #[test]
    fn a_name_is_looked_up_along_the_path() {
        let both = joined(&[["one", "p.exe"], ["one", "p"], ["two", "p.exe"], ["two", "p"]]);
        assert_eq!(found("p", false), both);
        assert_eq!(found("p.1", true)[..2], joined(&[[".", "p.1"], [".", "p.1.exe"]]));
        assert!(found("", true).is_empty());
    }

    #[test]
    fn a_path_is_taken_as_it_is() {
        assert_eq!(found(r".\p", true), [PathBuf::from(r".\p.exe"), PathBuf::from(r".\p")]);
        assert_eq!(found("a.b/p", true), [PathBuf::from("a.b/p.exe"), PathBuf::from("a.b/p")]);
        assert_eq!(found("c:p.exe", true), [PathBuf::from("c:p.exe"), PathBuf::from("c:p.exe.exe")]);
    }

    #[test]
    fn only_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("p.exe");
        std::fs::create_dir(folder.path().join("p")).unwrap();
        let name = folder.path().join("p").into_os_string();
        assert_eq!(find(&name), None);
        std::fs::write(&program, "").unwrap();
        assert_eq!(find(&name), Some(program));
        assert_eq!(find(OsStr::new("no-such-program-anywhere")), None);
    }

    #[test]
    fn batch_files_are_known_by_their_names() {
        for name in ["a.bat", "A.CMD", r"c:\x.y\a.Bat", "a.bat. .", "a.cmd "] {
            assert!(is_batch(Path::new(name)), "{name}");
        }
        for name in ["a.exe", "bat", "a.bat.exe", "", ".", "a.ba"] {
            assert!(!is_batch(Path::new(name)), "{name}");
        }
    }
}
