//! Linux.

use libc::{O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use nix::unistd::geteuid;
use std::ffi::{CStr, OsStr, OsString, c_int};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::Duration;

/// The path of the service's page.
pub(crate) fn service_page() -> PathBuf {
    crate::DEFAULT_PATH.into()
}

/// An environment variable; `None` in a program that runs with more privileges than its user, as
/// for `secure_getenv(3)`.
pub(crate) fn secure_variable(name: &str) -> Option<OsString> {
    // SAFETY: reads the auxiliary vector of the process.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os(name).filter(|value| !secure && !value.is_empty())
}

/// The kernel's random UUID of this boot; empty if it cannot be read (no /proc).
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Sleeps, by a clock that is never set; a signal may end it.
pub(crate) fn nap(time: Duration) {
    match clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::empty(), &time.into()) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(_) => std::thread::yield_now(),
    }
}

/// Opens a page to be read. Does not wait for the other end of a FIFO.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(O_CLOEXEC | O_NONBLOCK).open(path)
}

/// Opens the file of a page to be written, or makes it. `None`: the path is a symbolic link.
pub(crate) fn open_to_write(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    match options.custom_flags(O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether an open file is still the one at this path.
pub(crate) fn has_name(file: &File, path: &Path) -> bool {
    let both = file.metadata().and_then(|file| Ok((file, std::fs::symlink_metadata(path)?)));
    both.is_ok_and(|(file, named)| (file.dev(), file.ino()) == (named.dev(), named.ino()))
}

/// The owner of a file, if it is neither this user nor the administrator.
pub(crate) fn stranger(file: &File) -> io::Result<Option<String>> {
    let owner = file.metadata()?.uid();
    Ok((owner != geteuid().as_raw() && owner != 0).then(|| owner.to_string()))
}

/// Makes a directory that all may enter, whatever the umask.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Lets all read a file, whatever the umask.
pub(crate) fn let_all_read(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Removes a file that programs have mapped.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Maps the first `size` bytes of a file that is so long.
pub(crate) fn map(file: &File, size: usize, writable: bool) -> io::Result<NonNull<u8>> {
    let size = NonZeroUsize::new(size).ok_or(io::ErrorKind::InvalidInput)?;
    let access = if writable { ProtFlags::PROT_READ | ProtFlags::PROT_WRITE } else { ProtFlags::PROT_READ };
    // SAFETY: a new mapping, at an address that the kernel chooses.
    Ok(unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, file, 0) }?.cast())
}

/// Removes a mapping.
///
/// # Safety
/// It is from [`map`] with this size, and nothing uses it any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, size: usize) {
    // SAFETY: as the caller promises. An error would only leak the mapping.
    let _ = unsafe { munmap(start.cast(), size) };
}

/// A path that a C program gives.
pub(crate) fn path(text: &CStr) -> PathBuf {
    OsStr::from_bytes(text.to_bytes()).into()
}

/// The C API's number of a system's error.
pub(crate) fn errno(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}
