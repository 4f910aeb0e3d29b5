//! Whether the preload library can be loaded into a program at all.

use super::elf::{self, Image};
use nix::unistd::{Gid, Uid};
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why it cannot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It has no dynamic loader.
    Static,
    /// It makes system calls without the C library.
    Go,
    /// The loader ignores `LD_PRELOAD`, because the program gains privileges.
    Privileged(&'static str),
    /// It is for another C library or another processor architecture.
    ForeignLoader(PathBuf),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("it is a static program, into which no library can be loaded"),
            Self::Go => f.write_str("it is a Go program, which makes its system calls without the C library"),
            Self::Privileged(what) => {
                write!(f, "it is a {what} program, into which no library of the caller's can be loaded")
            }
            Self::ForeignLoader(loader) => {
                write!(f, "it is loaded by {}, which is not the loader that Tickwire was built for", loader.display())
            }
        }
    }
}

/// An interpreter may be a script itself; the kernel follows four.
const MAX_INTERPRETERS: u32 = 4;

/// Checks a program, or the interpreter that runs it. A file that cannot be read counts as fit
/// unless it gains privileges: the kernel decides.
pub(super) fn check(program: &Path) -> Result<(), Unfit> {
    let mut path = program.to_path_buf();
    for _ in 0..=MAX_INTERPRETERS {
        match elf::inspect(&path) {
            Ok(Image::Script(interpreter)) => path = interpreter,
            Ok(Image::Static) => return Err(Unfit::Static),
            Ok(Image::Go(_)) => return Err(Unfit::Go),
            Ok(Image::Dynamic(loader)) => return check_loader(&loader).and_then(|()| check_rights(&path)),
            // A program that may be executed but not read is still checked for privileges.
            Ok(Image::Other) | Err(_) => return check_rights(&path),
        }
    }
    Ok(())
}

/// The interpreter or loader that a program needs and that does not exist.
pub(super) fn missing(program: &Path) -> Option<PathBuf> {
    let mut path = program.to_path_buf();
    for _ in 0..=MAX_INTERPRETERS {
        match elf::inspect(&path) {
            Ok(Image::Script(next) | Image::Dynamic(next) | Image::Go(next)) => path = next,
            Ok(Image::Static | Image::Other) => return None,
            Err(_) => return (!path.exists()).then_some(path),
        }
    }
    None
}

/// The loader must be the one of this program: the library is built for the same one.
fn check_loader(loader: &Path) -> Result<(), Unfit> {
    let Ok(Image::Dynamic(own)) = elf::inspect(Path::new("/proc/self/exe")) else { return Ok(()) };
    let same = own == loader || matches!((own.canonicalize(), loader.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same { Ok(()) } else { Err(Unfit::ForeignLoader(loader.to_path_buf())) }
}

fn check_rights(program: &Path) -> Result<(), Unfit> {
    let Ok(metadata) = program.metadata() else { return Ok(()) };
    let capabilities = xattr::get(program, "security.capability").is_ok_and(|value| value.is_some());
    gained(&metadata, capabilities, Uid::current(), Gid::current()).map_or(Ok(()), |what| Err(Unfit::Privileged(what)))
}

/// What makes the loader start in its secure mode (AT_SECURE, see ld.so(8)).
fn gained(metadata: &Metadata, capabilities: bool, user: Uid, group: Gid) -> Option<&'static str> {
    let mode = metadata.permissions().mode();
    if mode & 0o4000 != 0 && metadata.uid() != user.as_raw() {
        return Some("set-user-ID");
    }
    // Without the group's execute bit the flag means mandatory locking.
    if mode & 0o2010 == 0o2010 && metadata.gid() != group.as_raw() {
        return Some("set-group-ID");
    }
    (capabilities && !user.is_root()).then_some("privileged (file capabilities)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn ordinary_programs_and_scripts_are_fit() {
        assert_eq!(check(Path::new("/bin/sh")), Ok(()));
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(check(&script), Ok(()));
        assert_eq!(check(Path::new("/no/such/program")), Ok(()));
    }

    #[test]
    fn the_interpreter_that_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (script, between) = (directory.path().join("script"), directory.path().join("between"));
        std::fs::write(&script, format!("#!{}\n", between.display())).unwrap();
        assert_eq!(missing(&script), Some(between.clone()));
        std::fs::write(&between, "#!/bin/sh\r\n").unwrap();
        assert_eq!(missing(&script), Some("/bin/sh\r".into()));
        std::fs::write(&between, "#!/bin/sh\n").unwrap();
        assert_eq!(missing(&script), None);
    }

    #[test]
    fn another_loader_is_refused() {
        let refused = check_loader(Path::new("/lib/ld-musl-x86_64.so.1"));
        assert_eq!(refused, Err(Unfit::ForeignLoader("/lib/ld-musl-x86_64.so.1".into())));
    }

    #[test]
    fn rights_that_the_caller_lacks_are_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = |mode| {
            file.as_file().set_permissions(Permissions::from_mode(mode)).unwrap();
            file.path().metadata().unwrap()
        };
        let plain = metadata(0o755);
        let (owner, group) = (Uid::from_raw(plain.uid()), Gid::from_raw(plain.gid()));
        let (other, others) = (Uid::from_raw(plain.uid() + 7), Gid::from_raw(plain.gid() + 7));
        assert_eq!(gained(&plain, false, other, others), None);
        assert_eq!(gained(&plain, true, other, others), Some("privileged (file capabilities)"));
        assert_eq!(gained(&plain, true, Uid::from_raw(0), others), None);
        assert_eq!(gained(&metadata(0o4755), false, other, group), Some("set-user-ID"));
        assert_eq!(gained(&metadata(0o4755), false, owner, group), None);
        assert_eq!(gained(&metadata(0o2755), false, owner, others), Some("set-group-ID"));
        assert_eq!(gained(&metadata(0o2745), false, owner, others), None);
    }
}
