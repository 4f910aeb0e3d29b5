//! The bulk path out of a lane: trains of segments ([`tickwire_lane::train`]), each with one header
//! for all, which the kernel or the network card segments (segmentation offload), written to a TAP
//! device of their own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tickwire_lane::tx_batch::PacketPart;

/// A lane's bulk device in one process.
#[derive(Debug)]
pub struct Bulk {
    tap: OwnedFd,
}

impl Bulk {
    /// For a device that [`crate::sys_tap::create`] has made.
    #[must_use]
    pub fn new(tap: OwnedFd) -> Self {
        Self { tap }
    }
}

impl AsFd for Bulk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}

/// A part of a packet, as the kernel takes it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct IoPart(libc::iovec);

impl PacketPart for IoPart {
    #[inline]
    fn of(bytes: &[u8]) -> Self {
        Self(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() })
    }
}

/// Writes one frame to a TAP device. A direct system call, because the preload library interposes
/// the C library's wrapper.
///
/// # Errors
/// If the device is down or there is no memory.
///
/// # Safety
/// What the parts refer to must be readable for the call.
pub(crate) unsafe fn write(tap: BorrowedFd<'_>, parts: &[IoPart]) -> io::Result<()> {
    loop {
        let written = match parts {
            // SAFETY: by the caller's promise.
            [one] => unsafe { libc::syscall(libc::SYS_write, tap.as_raw_fd(), one.0.iov_base, one.0.iov_len) },
            // SAFETY: as above; a part is an `iovec` in memory.
            _ => unsafe { libc::syscall(libc::SYS_writev, tap.as_raw_fd(), parts.as_ptr(), parts.len()) },
        };
        match crate::sys::answer(written) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes a frame that was sent to a TAP device. Returns whether there was one. A direct system
/// call, as in `write`.
pub(crate) fn discard(tap: BorrowedFd<'_>) -> bool {
    let mut byte = 0u8;
    // SAFETY: the byte is writable and lives for the call.
    unsafe { libc::syscall(libc::SYS_read, tap.as_raw_fd(), &raw mut byte, 1) > 0 }
}
