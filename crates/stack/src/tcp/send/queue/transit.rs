//! Segments in flight: from transmission to acknowledgement.

use super::{Delivered, SendQueue, end, length};
use crate::frame::{FrameId, Frames, flag};
use crate::pool::PoolLink;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;

impl SendQueue {
    /// A segment is being sent: the first unsent one, a lost one, or (a probe) one in flight.
    pub(in crate::tcp) fn sent(&mut self, frames: &mut Frames<'_>, id: FrameId, now: Instant) {
        let meta = &mut frames.meta[id as usize];
        if self.next == PoolLink::to(id) {
            self.nxt = end(meta);
            self.next = meta.next;
        } else {
            let lost = meta.flags & (flag::LOST | flag::RESENT) != 0;
            if meta.flags & flag::LOST != 0 {
                self.board.lost -= length(meta);
                meta.flags &= !flag::LOST;
            } else {
                self.unlink(frames, id);
            }
            let meta = &mut frames.meta[id as usize];
            meta.flags = (meta.flags & !flag::PIECE) | flag::RETRANSMITTED;
            self.board.again += length(meta);
            if lost {
                meta.flags |= flag::RESENT;
                self.board.resent += length(meta);
            }
        }
        let newest = self.newest;
        let meta = &mut frames.meta[id as usize];
        meta.at = now;
        meta.transmits = meta.transmits.saturating_add(1);
        meta.older = newest;
        meta.newer = PoolLink::NONE;
        self.pipe += length(meta);
        match newest.get() {
            Some(last) => frames.meta[last as usize].newer = PoolLink::to(id),
            None => self.oldest = PoolLink::to(id),
        }
        self.newest = PoolLink::to(id);
    }

    /// Removes a segment in flight from the list by time, and its bytes from the pipe.
    #[inline]
    pub(in crate::tcp) fn unlink(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        let meta = &mut frames.meta[id as usize];
        let (older, newer) = (core::mem::take(&mut meta.older), core::mem::take(&mut meta.newer));
        self.pipe -= length(meta);
        if meta.flags & flag::RETRANSMITTED != 0 {
            self.board.not_again(meta);
        }
        match older.get() {
            Some(other) => frames.meta[other as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer.get() {
            Some(other) => frames.meta[other as usize].older = older,
            None => self.newest = older,
        }
    }

    /// Frees the segments that `ack` covers, and passes each one not yet known to be delivered to
    /// `visit`. `ack` must lie between `una` and `nxt`. The cost is proportional to the segments
    /// acknowledged.
    pub(in crate::tcp) fn acknowledge(&mut self, frames: &mut Frames<'_>, ack: Seq, mut visit: impl FnMut(Delivered)) {
        while let Some(id) = self.head.get() {
            if self.head == self.next {
                break;
            }
            let meta = &frames.meta[id as usize];
            if end(meta).gt(ack) {
                self.acknowledge_part(frames, id, ack);
                break;
            }
            let (bytes, next) = (length(meta), meta.next);
            if meta.flags & flag::SACKED != 0 {
                self.board.sacked -= bytes;
            } else {
                visit(Delivered::of(meta));
                if meta.flags & flag::LOST != 0 { self.board.lost -= bytes } else { self.unlink(frames, id) }
            }
            self.board.forget(id, next);
            if self.trail == PoolLink::to(id) {
                (self.trail, self.behind) = (next, self.behind.saturating_sub(1));
            }
            self.head = next;
            self.frames -= 1;
            frames.give(id);
        }
        if self.head.is_none() {
            self.tail = PoolLink::NONE;
        }
        self.una = ack;
    }

    /// The peer acknowledged the front of a segment: its rest begins there.
    fn acknowledge_part(&mut self, frames: &mut Frames<'_>, id: FrameId, ack: Seq) {
        let meta = &mut frames.meta[id as usize];
        let cut = ack.since(Seq(meta.seq)).min(u32::from(meta.len));
        meta.seq = meta.seq.wrapping_add(cut);
        meta.offset += cut as u16;
        meta.len -= cut as u16;
        if meta.flags & flag::SACKED != 0 {
            self.board.sacked -= cut;
        } else if meta.flags & flag::LOST != 0 {
            self.board.lost -= cut;
        } else {
            self.pipe -= cut;
            if meta.flags & flag::RETRANSMITTED != 0 {
                self.board.again -= cut;
            }
            if meta.flags & flag::RESENT != 0 {
                self.board.resent -= cut;
            }
        }
    }
}
