//! The bulk path out of a lane: trains of segments, each with one header for all, which the kernel
//! or the network card segments (segmentation offload), written to a TAP device of their own.
//!
//! The segments of a train are made and forwarded together, for a fraction of what each costs by
//! itself. A train leaves without a checksum: the kernel computes those of the segments. A header
//! that leaves it to the device could name any place in the packet, behind the guard, and is
//! refused.

mod train;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tickwire_stack::{Stack, Transmit};
use train::Train;
pub(crate) use train::{HEADER, VIRTIO};

/// How many of these frames go together: the first and those that can join its train, or the pieces
/// of its packet. Also the train that they are, if it is one.
pub(crate) fn together(stack: &Stack<'_>, packets: &[Transmit]) -> (usize, Option<Train>) {
    let mut frames = 1;
    let first = bytes(stack, packets[0]);
    let Some(mut train) = Train::begin(first).filter(|_| !packets[0].more) else {
        while packets[frames - 1].more && frames < packets.len() {
            frames += 1;
        }
        return (frames, None);
    };
    while let Some(&next) = packets.get(frames)
        && !next.more
        && train.take(first, bytes(stack, next))
    {
        frames += 1;
    }
    (frames, Some(train))
}

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

/// Writes one frame to a TAP device. A direct system call, because the preload library interposes
/// the C library's wrapper.
///
/// # Errors
/// If the device is down or there is no memory.
///
/// # Safety
/// What the parts refer to must be readable for the call.
pub(crate) unsafe fn write(tap: BorrowedFd<'_>, parts: &[libc::iovec]) -> io::Result<()> {
    loop {
        let written = match parts {
            // SAFETY: by the caller's promise.
            [one] => unsafe { libc::syscall(libc::SYS_write, tap.as_raw_fd(), one.iov_base, one.iov_len) },
            // SAFETY: as above.
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

/// The bytes of a packet, or of a piece of one.
pub(crate) fn bytes<'s>(stack: &'s Stack<'_>, packet: Transmit) -> &'s [u8] {
    let from = usize::from(packet.offset);
    stack.frame(packet.frame).get(from..from + usize::from(packet.len)).unwrap_or_default()
}
