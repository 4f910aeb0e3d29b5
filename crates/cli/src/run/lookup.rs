//! Finding and executing a program as a shell does.

use crate::args::run::Run;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why there is nothing to execute.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// No file of this name.
    Missing,
    /// There is one, but it may not be executed.
    NotExecutable,
}

impl NotFound {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Missing => super::EXIT_NOT_FOUND,
            Self::NotExecutable => super::EXIT_NOT_EXECUTABLE,
        }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "not found",
            Self::NotExecutable => "is there, but is not an executable file",
        })
    }
}

/// What the kernel and libc use when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file that a shell would execute for this name.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, NotFound> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    find_in(program, &path)
}

fn find_in(program: &OsStr, path: &OsStr) -> Result<PathBuf, NotFound> {
    if program.as_bytes().contains(&b'/') {
        return executable(Path::new(program)).map(|()| PathBuf::from(program));
    }
    let mut worst = NotFound::Missing;
    for directory in std::env::split_paths(path) {
        let candidate =
            if directory.as_os_str().is_empty() { Path::new(".").join(program) } else { directory.join(program) };
        match executable(&candidate) {
            Ok(()) if !program.is_empty() => return Ok(candidate),
            Err(NotFound::NotExecutable) if candidate.is_file() => worst = NotFound::NotExecutable,
            _ => {}
        }
    }
    Err(worst)
}

fn executable(path: &Path) -> Result<(), NotFound> {
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(NotFound::NotExecutable),
        Err(_) => Err(NotFound::Missing),
        Ok(metadata) if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 => {
            Err(NotFound::NotExecutable)
        }
        Ok(_) => Ok(()),
    }
}

/// Replaces this process; the shell runs a file without any magic number, as with execvp(3).
/// Returns only on failure.
pub(super) fn execute(mut command: Command, path: &Path, arguments: &Run) -> std::io::Error {
    let error = command.exec();
    if error.raw_os_error() != Some(Errno::ENOEXEC as i32) {
        return error;
    }
    let mut shell = Command::new("/bin/sh");
    shell.arg(path).args(&arguments.arguments);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_along_the_path_and_a_path_is_taken_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let path = std::env::join_paths([directory.path(), Path::new("/bin")]).unwrap();
        let found = |name: &str| find_in(OsStr::new(name), &path);
        assert_eq!(found("sh"), Ok("/bin/sh".into()));
        assert_eq!(found("/bin/sh"), Ok("/bin/sh".into()));
        assert_eq!(found("no-such-program"), Err(NotFound::Missing));
        assert_eq!(found("plain"), Err(NotFound::NotExecutable));
        assert_eq!(found("/bin"), Err(NotFound::NotExecutable));
        assert_eq!(found(""), Err(NotFound::Missing));
        assert_eq!(find_in(plain.as_os_str(), &path), Err(NotFound::NotExecutable));
    }
}
