//! The receive queue: received frames, in order for the program, and out of order until the gap
//! before them closes.
//!
//! Out-of-order frames are kept as ranges of adjoining bytes. A range is a ring of frames: its last
//! frame links to its first by `next`, and represents the range in the list of ranges (linked by
//! `prev`). So the costs of appending to a range, the usual case behind a loss, and of joining two
//! ranges do not depend on their lengths.

#[cfg(any(test, feature = "owned"))]
mod invariants;
mod ranges;
mod read;
#[cfg(test)]
mod tests;

use crate::frame::{FRAME_SIZE, FrameId, Frames};
use crate::pool::PoolLink;
use crate::tcp::wire::options::SackBlock;
use crate::tcp::wire::seq::Seq;
use zerocopy::FromZeros;

/// Most out-of-order ranges at one time; a segment that would open another is dropped.
pub(in crate::tcp) const MAX_RANGES: u16 = 128;

/// Segments up to this length are copied behind the last unread byte if its frame has room: a flood
/// of small segments must not occupy a whole frame each.
const COMPACT_BELOW: usize = 256;

/// The result of inserting a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Placed {
    /// It continued the stream; `filled`: queued ranges followed it.
    InOrder {
        /// Whether it closed a gap.
        filled: bool,
    },
    /// It waits for missing data before it.
    OutOfOrder,
    /// All of it had been received already.
    Duplicate,
    /// There was no room for another range.
    Dropped,
}

/// The receive queue of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct ReceiveQueue {
    head: PoolLink,
    tail: PoolLink,
    /// The last frame of the range with the lowest sequence numbers.
    ranges: PoolLink,
    /// RCV.NXT.
    pub(in crate::tcp) next: Seq,
    /// Bytes in order that the program has not read.
    pub(in crate::tcp) bytes: u32,
    /// Frames in order.
    pub(in crate::tcp) frames: u32,
    /// Bytes out of order.
    pub(in crate::tcp) waiting_bytes: u32,
    /// Frames out of order.
    pub(in crate::tcp) waiting_frames: u32,
    range_count: u16,
    /// The last segment ends a small message, whose acknowledgement may wait until the program has
    /// it.
    pub(in crate::tcp) ack_may_wait: bool,
    /// The position of the last out-of-order segment, for the first SACK block (RFC 2018 §4).
    recent: Seq,
    /// A duplicate to be reported (RFC 2883), if `start` and `end` differ.
    pub(in crate::tcp) duplicate: SackBlock,
}

shared_layout! { ReceiveQueue {
    head, tail, ranges, next, bytes, frames, waiting_bytes, waiting_frames, range_count,
    ack_may_wait, recent, duplicate,
} }

impl ReceiveQueue {
    /// An empty queue that expects `first`.
    pub(in crate::tcp) fn new(first: Seq) -> Self {
        Self { next: first, ..Self::default() }
    }

    /// Frames held in all.
    pub(in crate::tcp) fn held(&self) -> u32 {
        self.frames + self.waiting_frames
    }

    /// Whether any data waits out of order.
    pub(in crate::tcp) fn has_gap(&self) -> bool {
        !self.ranges.is_none()
    }

    /// Duplicate bytes were received: extends the duplicate to be reported by them if they adjoin
    /// (as Linux's `tcp_dsack_extend`).
    fn report(&mut self, start: Seq, end: Seq) {
        let known = &mut self.duplicate;
        if known.start == known.end {
            *known = SackBlock { start, end };
        } else if start.le(known.end) && known.start.le(end) {
            (known.start, known.end) = (known.start.min(start), known.end.max(end));
        }
    }

    /// Whether a duplicate is to be reported.
    pub(in crate::tcp) fn has_duplicate(&self) -> bool {
        self.duplicate.start != self.duplicate.end
    }

    /// Inserts the frame of a segment within the window; the frame's notes delimit the payload
    /// (`offset`, `len`, `seq`).
    pub(in crate::tcp) fn insert(&mut self, frames: &mut Frames<'_>, id: FrameId) -> Placed {
        let meta = &frames.meta[id as usize];
        let (start, end) = (Seq(meta.seq), Seq(meta.seq) + u32::from(meta.len));
        if end.le(self.next) {
            self.duplicate = SackBlock { start, end };
            frames.give(id);
            return Placed::Duplicate;
        }
        if start.gt(self.next) {
            return self.insert_waiting(frames, id);
        }
        if start.lt(self.next) {
            self.duplicate = SackBlock { start, end: self.next };
            trim_front(frames, id, self.next);
        }
        self.append(frames, id);
        let filled = self.has_gap();
        while self.absorb_range(frames) {}
        Placed::InOrder { filled }
    }

    /// Appends a frame that starts at `next`.
    fn append(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        let len = frames.meta[id as usize].len;
        self.next += u32::from(len);
        self.bytes += u32::from(len);
        if usize::from(len) <= COMPACT_BELOW && self.compact(frames, id) {
            return;
        }
        frames.meta[id as usize].next = PoolLink::NONE;
        match self.tail.get() {
            Some(tail) => frames.meta[tail as usize].next = PoolLink::to(id),
            None => self.head = PoolLink::to(id),
        }
        self.tail = PoolLink::to(id);
        self.frames += 1;
    }

    /// Copies a small segment behind the last frame's bytes and frees its frame. False if there is
    /// no room.
    fn compact(&self, frames: &mut Frames<'_>, id: FrameId) -> bool {
        let Some(tail) = self.tail.get() else { return false };
        let (last, meta) = (&frames.meta[tail as usize], &frames.meta[id as usize]);
        let at = usize::from(last.offset) + usize::from(last.len);
        let (from, len) = (usize::from(meta.offset), meta.len);
        if at + usize::from(len) > FRAME_SIZE {
            return false;
        }
        let from = id as usize * FRAME_SIZE + from;
        frames.bytes.copy_within(from..from + usize::from(len), tail as usize * FRAME_SIZE + at);
        // The later arrival time counts for both, as on Linux.
        let came = frames.meta[id as usize].at;
        let last = &mut frames.meta[tail as usize];
        (last.len, last.at) = (last.len + len, came);
        frames.give(id);
        true
    }

    /// Frees everything.
    pub(in crate::tcp) fn clear(&mut self, frames: &mut Frames<'_>) {
        self.prune(frames);
        while let Some(id) = self.head.get() {
            self.head = frames.meta[id as usize].next;
            frames.give(id);
        }
        (self.tail, self.bytes, self.frames) = (PoolLink::NONE, 0, 0);
    }
}

/// Cuts the data before `to` off the front of a segment.
fn trim_front(frames: &mut Frames<'_>, id: FrameId, to: Seq) {
    let meta = &mut frames.meta[id as usize];
    let cut = to.since(Seq(meta.seq)).min(u32::from(meta.len));
    meta.seq = meta.seq.wrapping_add(cut);
    meta.offset += cut as u16;
    meta.len -= cut as u16;
}
