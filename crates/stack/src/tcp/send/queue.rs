//! The send queue, from the oldest unacknowledged byte to the newest byte that the program wrote.
//! It has one frame per segment (or part of a segment that is longer than a frame), with the
//! payload at [`HEADROOM`](crate::frame::HEADROOM).
//!
//! The frames are linked in two orders. `next` links them by sequence number. `newer` and `older`
//! link those in flight (sent, neither acknowledged nor deemed lost) by send time, the order in
//! which RACK (RFC 8985) visits them. The sum of their lengths is the `pipe` of RFC 6675.

mod append;
mod in_transmission;
#[cfg(any(test, feature = "owned"))]
mod invariants;
mod split;
#[cfg(test)]
mod tests;
mod transit;

pub(in crate::tcp) use in_transmission::is_leaving;

use super::scoreboard::Scoreboard;
use crate::frame::{FrameMeta, Frames, flag};
use crate::pool::PoolLink;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use zerocopy::FromZeros;

/// Flags of a frame whose bytes the sender or the transmit queue still needs.
pub(in crate::tcp) const IN_FLIGHT: u16 = flag::IN_KERNEL | flag::QUEUED;

/// The distance to the later frame to which a search may skip.
pub(in crate::tcp) const STRIDE: u32 = 32;

/// How many sequence numbers a segment takes.
pub(in crate::tcp) fn length(meta: &FrameMeta) -> u32 {
    u32::from(meta.len) + u32::from(meta.flags & flag::FIN != 0)
}

/// The sequence number after a segment.
pub(in crate::tcp) fn end(meta: &FrameMeta) -> Seq {
    Seq(meta.seq) + length(meta)
}

/// A segment that the peer has received, by ACK or by SACK, for the first time.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Delivered {
    /// When it was last sent.
    pub(in crate::tcp) at: Instant,
    /// The sequence number after it.
    pub(in crate::tcp) end: Seq,
    /// Bytes.
    pub(in crate::tcp) bytes: u32,
    /// Whether it was sent more than once.
    pub(in crate::tcp) retransmitted: bool,
    /// Whether it is the first frame of a packet.
    pub(in crate::tcp) begins: bool,
}

impl Delivered {
    pub(in crate::tcp) fn of(meta: &FrameMeta) -> Self {
        let has = |mark: u16| meta.flags & mark != 0;
        let (retransmitted, begins) = (has(flag::RETRANSMITTED), !has(flag::PIECE));
        Self { at: meta.at, end: end(meta), bytes: length(meta), retransmitted, begins }
    }
}

/// The send queue of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct SendQueue {
    /// The oldest segment.
    pub(in crate::tcp) head: PoolLink,
    /// The newest segment.
    pub(in crate::tcp) tail: PoolLink,
    /// The first segment that was never sent.
    pub(in crate::tcp) next: PoolLink,
    /// The first frame without a frame to skip to yet, and how many frames follow it.
    trail: PoolLink,
    behind: u32,
    /// The segment in flight that was sent first.
    pub(in crate::tcp) oldest: PoolLink,
    /// The segment in flight that was sent last.
    pub(in crate::tcp) newest: PoolLink,
    /// SND.UNA: the oldest unacknowledged sequence number.
    pub(in crate::tcp) una: Seq,
    /// SND.NXT: the number after the last that was ever sent.
    pub(in crate::tcp) nxt: Seq,
    /// The number after the last that is queued.
    pub(in crate::tcp) end: Seq,
    /// Frames in the queue.
    pub(in crate::tcp) frames: u32,
    /// Bytes in flight (RFC 6675 `pipe`).
    pub(in crate::tcp) pipe: u32,
    /// Which segments the peer has received, and which are deemed lost.
    pub(in crate::tcp) board: Scoreboard,
}

shared_layout! { SendQueue {
    head, tail, next, trail, behind, oldest, newest, una, nxt, end, frames, pipe, board,
} }

impl SendQueue {
    /// An empty queue whose first byte will be `first`.
    pub(in crate::tcp) fn new(first: Seq) -> Self {
        Self { una: first, nxt: first, end: first, ..Self::default() }
    }

    /// Bytes sent and not acknowledged, including selectively acknowledged and lost ones.
    pub(in crate::tcp) fn outstanding(&self) -> u32 {
        self.nxt - self.una
    }

    /// Bytes queued and never sent.
    pub(in crate::tcp) fn unsent(&self) -> u32 {
        self.end - self.nxt
    }

    /// Bytes queued, sent or not.
    pub(in crate::tcp) fn queued(&self) -> u32 {
        self.end - self.una
    }

    /// Frees everything.
    pub(in crate::tcp) fn clear(&mut self, frames: &mut Frames<'_>) {
        while let Some(id) = self.head.get() {
            self.head = frames.meta[id as usize].next;
            frames.give(id);
        }
        *self = Self { una: self.una, nxt: self.nxt, end: self.nxt, ..Self::default() };
    }
}
