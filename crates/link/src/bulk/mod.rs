//! The bulk way out of a lane: a TAP device into which trains of segments are written, each with one header for all, which the kernel or the network card takes apart
//! (segmentation offload).
//!
//! AF_XDP hands the kernel packet by packet, and each is made, copied and sent on by itself. The segments of a train are made and sent on together, by the same devices and
//! through the same guard, for a third of it.
//! A port keeps no state of its own here either: what is written is sent when the call returns.

mod train;

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
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

    /// Whether so many of them go together that the system calls are fewer than half the packets.
    pub(crate) fn is_worth_it(&self, stack: &Stack<'_>) -> bool {
        let (mut left, mut calls) = (self.packets(), 0);
        while !left.is_empty() {
            left = &left[together(stack, left).0..];
            calls += 1;
        }
        calls * 2 < self.packets().iter().filter(|packet| !packet.more).count()
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

/// What became of a load.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// How many frames have gone.
    pub(crate) gone: usize,
    /// Whether the device refuses the next one.
    pub(crate) fails: bool,
}

impl Sent {
    /// How many frames have gone.
    #[must_use]
    pub fn gone(self) -> usize {
        self.gone
    }

    pub(crate) const NOTHING: Self = Self { gone: 0, fails: true };
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

    /// Sends whole packets in their order, those that can go together as one. Says how many frames have gone, all of them but for an error: what is left is to go
    /// by the rings. A packet that the guard refuses has gone. It ends early, but not before something has gone, when `enough` says so.
    pub(crate) fn send(&self, stack: &Stack<'_>, packets: &[Transmit], enough: impl Fn() -> bool) -> Sent {
        let mut gone = 0;
        while gone < packets.len() {
            let (frames, done) = self.send_first(stack, &packets[gone..]);
            if done.is_err() {
                return Sent { gone, fails: true };
            }
            gone += frames;
            if enough() {
                break;
            }
        }
        Sent { gone, fails: false }
    }

    /// Sends the first packet of some, and what can go with it; of how many frames that was.
    fn send_first(&self, stack: &Stack<'_>, packets: &[Transmit]) -> (usize, io::Result<()>) {
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
        (frames, self.write(&parts[..=frames]))
    }

    /// A system call, not the C library's wrapper, for which the preload library stands in.
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        loop {
            // SAFETY: `IoSlice` has the layout of an `iovec`, and what the parts refer to lives for the call.
            let written = unsafe { libc::syscall(libc::SYS_writev, self.tap.as_raw_fd(), parts.as_ptr(), parts.len()) };
            match crate::sys::answer(written) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The bytes of a packet, or of a piece of one.
fn bytes<'s>(stack: &'s Stack<'_>, packet: Transmit) -> &'s [u8] {
    let from = usize::from(packet.offset);
    stack.frame(packet.frame).get(from..from + usize::from(packet.len)).unwrap_or_default()
}
