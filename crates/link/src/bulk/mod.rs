//! The way of streams out of a lane: trains of segments, each with one header for all, which the kernel or the network card takes apart (segmentation
//! offload), written to a TAP device of their own.
//!
//! The segments of a train are made and sent on together, for a fraction of what each costs by itself. A train leaves without a checksum of its own: the kernel makes
//! it when it takes the train apart. A header that leaves it to the device could name any place in the packet, behind the guard's back, and is refused.

mod train;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tickwire_stack::frame::MOST_PIECES;
use tickwire_stack::{Stack, Transmit};
use train::{HEADER, Train, VIRTIO};

/// The most frames that are handed over in one go: some trains. With fewer, acknowledgements are taken in between, each sends its
/// two segments, and trains get short: with 64 a message of 640 KB took a sixth longer.
const TOGETHER: usize = 128;

/// Packets on their way to the bulk device.
#[derive(Debug)]
pub struct Load {
    packets: [Transmit; TOGETHER],
    len: usize,
}

impl Load {
    pub(crate) fn new() -> Self {
        Self { packets: [Transmit { frame: 0, offset: 0, len: 0, more: false }; TOGETHER], len: 0 }
    }

    /// Puts in one packet, or a piece of one; `false` if there is no room for a whole one.
    pub(crate) fn put(&mut self, packet: Transmit) -> bool {
        let within = self.packets().last().is_some_and(|last| last.more);
        let room = self.len < if within { TOGETHER } else { TOGETHER - MOST_PIECES };
        if room {
            self.packets[self.len] = packet;
            self.len += 1;
        }
        room
    }

    pub(crate) fn packets(&self) -> &[Transmit] {
        &self.packets[..self.len]
    }
}

/// Of some packets the first, and how many frames can go with it or are pieces of it; and the train that they are, if it is one.
fn together(stack: &Stack<'_>, packets: &[Transmit]) -> (usize, Option<Train>) {
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
    /// By a device that [`crate::sys_tap::create`] has made.
    #[must_use]
    pub fn new(tap: OwnedFd) -> Self {
        Self { tap }
    }

    /// Sends whole packets in their order, those that can go together as one. Says how many frames have gone: all, or fewer, but not none, when `enough`
    /// says so. A packet that the guard or the device refuses has gone, as one that is lost on a wire.
    pub(crate) fn send(&self, stack: &Stack<'_>, packets: &[Transmit], enough: impl Fn() -> bool) -> usize {
        let mut gone = 0;
        while gone < packets.len() {
            gone += self.send_first(stack, &packets[gone..]);
            if enough() {
                break;
            }
        }
        gone
    }

    /// Sends the first packet of some, and what can go with it; of how many frames that was.
    fn send_first(&self, stack: &Stack<'_>, packets: &[Transmit]) -> usize {
        let (frames, train) = together(stack, packets);
        let mut header = [0; HEADER];
        // Without a train a packet goes as it is.
        let (len, from) = train
            .map_or((VIRTIO, 0), |train| (train.write_header(bytes(stack, packets[0]), &mut header), train.headers()));
        let mut parts = [IoSlice::new(&[]); 1 + TOGETHER];
        parts[0] = IoSlice::new(&header[..len]);
        for (part, &packet) in parts[1..].iter_mut().zip(&packets[..frames]) {
            *part = IoSlice::new(&bytes(stack, packet)[from..]);
        }
        let _ = write(self.tap.as_fd(), &parts[..=frames]);
        frames
    }
}

/// Writes one frame to a TAP device. A system call, not the C library's wrapper, for which the preload library stands in.
///
/// # Errors
/// If the device is down or there is no memory.
pub(crate) fn write(tap: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<()> {
    loop {
        let written = match parts {
            // SAFETY: what the part refers to lives for the call.
            [one] => unsafe { libc::syscall(libc::SYS_write, tap.as_raw_fd(), one.as_ptr(), one.len()) },
            // SAFETY: `IoSlice` has the layout of an `iovec`, and what the parts refer to lives for the call.
            _ => unsafe { libc::syscall(libc::SYS_writev, tap.as_raw_fd(), parts.as_ptr(), parts.len()) },
        };
        match crate::sys::answer(written) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes a frame off a TAP device that was sent to it. Whether there was one. A system call, as
/// in [`write()`].
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
