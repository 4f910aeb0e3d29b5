//! The program's side of a lane, coupled to a stack: frames in from the receive ring, frames out into the TAP device.
//!
//! Everything but [`Port::quiet`] and the taking of wake frames is to be called under the lane's lock. A port keeps no state of its own (the ring and the stack
//! have it), so a forked child goes on with its copy.

use crate::bulk::{self, Bulk, Load};
use crate::rx_ring::RxRing;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use tickwire_stack::frame::MOST_PIECES;
use tickwire_stack::time::Instant;
use tickwire_stack::{Class, Stack, Transmit};

/// The most packets that one poll takes in, so that a flood leaves time for sending.
const RX_BATCH: u32 = 64;

/// More than the device has room for by default.
const MOST_WAKE_FRAMES: u32 = 512;

/// From how many frames on packets of streams go as trains. None of a train's packets arrives before all have been made, and short messages wait for that.
const BULK_FROM: usize = 24;

/// A lane's ring and TAP device in one process.
#[derive(Debug)]
pub struct Port {
    rx: RxRing,
    tap: OwnedFd,
    bulk: OnceLock<Bulk>,
}

impl Port {
    /// A port over a lane's receive ring and the TAP device that [`crate::sys_tap::create`] has made.
    #[must_use]
    pub fn new(rx: RxRing, tap: OwnedFd) -> Self {
        Self { rx, tap, bulk: OnceLock::new() }
    }

    /// Sends trains of segments by this device from now on. Only the first counts.
    pub fn set_bulk(&self, bulk: Bulk) {
        let _ = self.bulk.set(bulk);
    }

    /// Whether there is a use for a device for trains of segments, and none yet.
    #[must_use]
    pub fn wants_bulk(&self, stack: &Stack<'_>) -> bool {
        stack.stream_len() >= BULK_FROM && self.bulk.get().is_none()
    }

    /// The receive ring.
    #[must_use]
    pub fn rx(&self) -> &RxRing {
        &self.rx
    }

    /// Takes a wake frame off the TAP device: that of the last sleep, before the next one. Needs no lock.
    ///
    /// More may wait there. They show when the device is polled, and are no reason to wake up: the ring shows nothing then
    /// ([`Port::take_wake_frames`]).
    pub fn take_wake_frame(&self) {
        bulk::discard(self.tap.as_fd());
    }

    /// Takes all wake frames off. Needs no lock.
    pub fn take_wake_frames(&self) {
        let _ = (0..MOST_WAKE_FRAMES).find(|_| !bulk::discard(self.tap.as_fd()));
    }

    /// Whether nothing has been received. A guess without the lock, for polling threads.
    #[must_use]
    #[inline]
    pub fn quiet(&self) -> bool {
        self.rx.is_empty()
    }

    /// Takes in what has come. Says how many packets that was.
    pub fn poll(&self, stack: &mut Stack<'_>, now: Instant) -> u32 {
        stack.write_recover();
        if self.rx.is_empty() {
            return 0;
        }
        stack.batch_begin(1);
        let received = self.rx.read(RX_BATCH, |packet, read| stack.receive(now, packet, read));
        stack.batch_end(now);
        stack.fill();
        received
    }

    /// Takes the next packet out of the stack that is not of a stream, to be sent by [`Port::send`]; [`Port::sent`] is to follow.
    pub fn next(&self, stack: &mut Stack<'_>) -> Option<Packet> {
        let mut packet = Packet::new();
        stack.write_begin(Class::Prompt, 1, |piece| packet.put(piece));
        if packet.len == 0 {
            stack.write_end([]);
            return None;
        }
        Some(packet)
    }

    /// Sends a packet: one system call. What the guard or the device refuses has gone, as on a wire.
    pub fn send(&self, stack: &Stack<'_>, packet: &Packet) {
        let _ = match packet.pieces() {
            &[piece] => bulk::write(self.tap.as_fd(), &[IoSlice::new(bulk::bytes(stack, piece))]),
            pieces => {
                let mut parts = [IoSlice::new(&[]); MOST_PIECES];
                for (part, &piece) in parts.iter_mut().zip(pieces) {
                    *part = IoSlice::new(bulk::bytes(stack, piece));
                }
                bulk::write(self.tap.as_fd(), &parts[..pieces.len()])
            }
        };
    }

    /// Tells the stack that a packet has gone.
    pub fn sent(&self, stack: &mut Stack<'_>, packet: &Packet) {
        stack.write_end(packet.pieces().iter().copied());
    }

    /// Takes packets of streams out of the stack, to be sent by [`Port::carry`]; [`Port::carried`] is to follow. None before all that is not of streams.
    pub fn load(&self, stack: &mut Stack<'_>) -> Load {
        let mut load = Load::new();
        stack.write_begin(Class::Stream, usize::MAX, |packet| load.put(packet));
        load
    }

    /// Sends what was taken, until `enough`. Says how many frames have gone.
    #[must_use]
    pub fn carry(&self, stack: &Stack<'_>, load: &Load, enough: impl Fn() -> bool) -> usize {
        if let Some(bulk) = self.bulk.get().filter(|_| load.packets().len() >= BULK_FROM) {
            return bulk.send(stack, load.packets(), enough);
        }
        let mut gone = 0;
        while let Some(packet) = Packet::first_of(&load.packets()[gone..]) {
            self.send(stack, &packet);
            gone += packet.len;
            if enough() {
                break;
            }
        }
        gone
    }

    /// Tells the stack what has gone. What has not is where it was.
    pub fn carried(&self, stack: &mut Stack<'_>, load: &Load, gone: usize) {
        let (gone, left) = load.packets().split_at(gone);
        stack.write_return(left.iter().map(|packet| packet.frame));
        stack.write_end(gone.iter().copied());
    }
}

impl AsFd for Port {
    /// The receive ring: readable when something was received.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rx.as_fd()
    }
}

/// One packet on its way out, in one piece or several.
#[derive(Debug)]
pub struct Packet {
    pieces: [Transmit; MOST_PIECES],
    len: usize,
}

impl Packet {
    fn new() -> Self {
        Self { pieces: [Transmit { frame: 0, offset: 0, len: 0, more: false }; MOST_PIECES], len: 0 }
    }

    fn pieces(&self) -> &[Transmit] {
        &self.pieces[..self.len]
    }

    /// Takes a piece, unless the packet is complete.
    fn put(&mut self, piece: Transmit) -> bool {
        let room = self.len < MOST_PIECES && self.pieces().last().is_none_or(|last| last.more);
        if room {
            self.pieces[self.len] = piece;
            self.len += 1;
        }
        room
    }

    /// The first packet of some pieces.
    fn first_of(pieces: &[Transmit]) -> Option<Self> {
        let mut packet = Self::new();
        pieces.iter().find(|&&piece| !packet.put(piece));
        (packet.len > 0).then_some(packet)
    }
}
