//! The disk load: one block of 8 MB, small enough for the disk's own cache, read repeatedly with
//! direct I/O. And the load of a serial line, to which the paper's `dd` wrote its report.

use crate::going::Going;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::{O_NOCTTY, O_NONBLOCK, O_TMPFILE};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thiserror::Error;

/// Size of one read, in bytes.
const BLOCK: usize = 8 << 20;
/// Alignment of the memory for direct I/O, sufficient for every disk.
const ALIGN: usize = 4096;

/// An unlinked file of one block.
#[derive(Debug)]
pub(crate) struct Disk {
    file: File,
    memory: Vec<u8>,
}

impl Disk {
    /// Creates the file on the disk of this directory.
    ///
    /// # Errors
    /// The directory is not writable, the disk is full, or the file system does not support direct
    /// I/O.
    pub(crate) fn prepare(directory: &Path) -> io::Result<Self> {
        let file = unnamed(directory)?;
        let mut disk = Self { file, memory: vec![0x5a; BLOCK + ALIGN] };
        let range = disk.block();
        disk.file.write_all_at(&disk.memory[range], 0)?;
        disk.file.sync_all()?;
        disk.once()?;
        Ok(disk)
    }

    /// The range of the aligned block in the memory.
    fn block(&self) -> std::ops::Range<usize> {
        let address = self.memory.as_ptr().addr();
        let start = address.next_multiple_of(ALIGN) - address;
        start..start + BLOCK
    }

    fn once(&mut self) -> io::Result<()> {
        let range = self.block();
        self.file.read_exact_at(&mut self.memory[range], 0)
    }

    /// Reads and counts blocks, and reports each on the serial line, until it is stopped.
    ///
    /// # Errors
    /// The disk or the line fails.
    pub(crate) fn read(mut self, mut serial: Option<Serial>, going: &Going, blocks: &AtomicU64) -> io::Result<()> {
        while going.on() {
            let begun = Instant::now();
            self.once()?;
            blocks.fetch_add(1, Ordering::Relaxed);
            if let Some(serial) = &mut serial {
                serial.tell(begun.elapsed().as_secs_f64(), going)?;
            }
        }
        Ok(())
    }
}

/// Creates a file without a name, which is gone with this program. It is opened for direct I/O.
fn unnamed(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let file = options.clone().custom_flags(O_TMPFILE).open(directory).or_else(|_| {
        // The file system does not support O_TMPFILE.
        let path = directory.join(format!(".tickwire-jitter-{}", std::process::id()));
        let file = options.create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        io::Result::Ok(file)
    })?;
    if fstatfs(&file)?.filesystem_type() == TMPFS_MAGIC {
        return Err(io::Error::new(ErrorKind::Unsupported, "it is memory (tmpfs)"));
    }
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_DIRECT))?;
    Ok(file)
}

/// A serial line.
#[derive(Debug)]
pub(crate) struct Serial {
    file: File,
}

/// Why a device cannot be used as a serial line.
#[derive(Debug, Error)]
pub(crate) enum SerialError {
    /// It cannot be opened.
    #[error("cannot open {0}: {1}")]
    Open(PathBuf, io::Error),
    /// It is not a terminal.
    #[error("{0} is no serial line: expected a terminal device such as /dev/ttyS0")]
    Kind(PathBuf),
}

impl Serial {
    /// Opens the line for writing, with its current settings.
    ///
    /// # Errors
    /// It does not exist, may not be opened, or is not a terminal.
    pub(crate) fn open(device: &Path) -> Result<Self, SerialError> {
        // The open neither waits for a carrier nor makes it the controlling terminal.
        let file = OpenOptions::new().write(true).custom_flags(O_NOCTTY | O_NONBLOCK).open(device);
        let file = file.map_err(|error| SerialError::Open(device.into(), error))?;
        if !file.is_terminal() {
            return Err(SerialError::Kind(device.into()));
        }
        Ok(Self { file })
    }

    /// Writes the report of `dd` for a block, about 100 characters. It returns early if the load
    /// stops while the line is blocked.
    fn tell(&mut self, seconds: f64, going: &Going) -> io::Result<()> {
        let text = said(seconds);
        let mut rest = text.as_bytes();
        while !rest.is_empty() && going.on() {
            match self.file.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = poll(&mut [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(50_u8));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn said(seconds: f64) -> String {
    let rate = BLOCK as f64 / 1e6 / seconds.max(1e-9);
    format!(
        "1+0 records in\r\n1+0 records out\r\n{BLOCK} bytes (8.4 MB, 8.0 MiB) copied, {seconds:.6} s, {rate:.0} MB/s\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_block_is_read_from_a_file_without_a_name() {
        // On the disk of the build, because the temporary directory may be a tmpfs.
        let here = tempfile::tempdir_in(".").unwrap();
        match Disk::prepare(here.path()) {
            Ok(disk) => {
                assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
                let blocks = AtomicU64::new(0);
                let going = Going::new(Duration::from_millis(200));
                disk.read(None, &going, &blocks).unwrap();
                assert!(blocks.into_inner() > 0);
            }
            // A build on a file system without direct I/O, or in a tmpfs.
            Err(error) => assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported), "{error}"),
        }
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
    }

    #[test]
    fn memory_is_no_disk() {
        let memory = Path::new("/dev/shm");
        if nix::sys::statfs::statfs(memory).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC) {
            assert_eq!(Disk::prepare(memory).unwrap_err().to_string(), "it is memory (tmpfs)");
        }
    }

    #[test]
    fn what_the_line_is_told_is_about_a_hundred_characters() {
        for seconds in [1e-4, 0.0137, 2.5] {
            assert!((90..=115).contains(&said(seconds).len()), "{}", said(seconds));
        }
    }

    #[test]
    fn what_is_no_line_is_named() {
        let said = |device: &str| Serial::open(Path::new(device)).unwrap_err().to_string();
        assert_eq!(said("/dev/null"), "/dev/null is no serial line: expected a terminal device such as /dev/ttyS0");
        assert!(said("/nonexistent/tty").starts_with("cannot open /nonexistent/tty: No such file"));
    }
}
