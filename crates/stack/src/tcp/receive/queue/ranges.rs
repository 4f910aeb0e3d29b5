//! Out-of-order data: ranges of adjoining bytes, each a ring of frames.

use super::{MAX_RANGES, Placed, ReceiveQueue, trim_front};
use crate::frame::{FrameId, Frames};
use crate::pool::PoolLink;
use crate::tcp::wire::options::SackBlock;
use crate::tcp::wire::seq::Seq;

impl ReceiveQueue {
    /// Moves the first range into the stream if it is contiguous with it.
    pub(super) fn absorb_range(&mut self, frames: &mut Frames<'_>) -> bool {
        let Some(last) = self.ranges.get() else { return false };
        let meta = &frames.meta[last as usize];
        let (start, end) = (Seq(meta.total), Seq(meta.seq) + u32::from(meta.len));
        if start.gt(self.next) {
            return false;
        }
        if start.lt(self.next) {
            self.report(start, end.min(self.next));
        }
        self.ranges = meta.prev;
        self.range_count -= 1;
        let mut at = meta.next;
        if end.le(self.next) {
            self.free_ring(frames, last);
            return true;
        }
        while let Some(id) = at.get() {
            let meta = &frames.meta[id as usize];
            at = if id == last { PoolLink::NONE } else { meta.next };
            self.waiting_frames -= 1;
            self.waiting_bytes -= u32::from(meta.len);
            let stop = Seq(meta.seq) + u32::from(meta.len);
            if stop.le(self.next) {
                frames.give(id);
                continue;
            }
            trim_front(frames, id, self.next);
            self.append(frames, id);
        }
        true
    }

    pub(super) fn insert_waiting(&mut self, frames: &mut Frames<'_>, id: FrameId) -> Placed {
        // The last range that starts at or before this segment, and the next one.
        let start = Seq(frames.meta[id as usize].seq);
        let (mut before, mut after) = (PoolLink::NONE, self.ranges);
        let mut before_that = PoolLink::NONE;
        while let Some(range) = after.get() {
            if Seq(frames.meta[range as usize].total).gt(start) {
                break;
            }
            before_that = before;
            before = after;
            after = frames.meta[range as usize].prev;
        }
        if let Some(range) = before.get() {
            let meta = &frames.meta[range as usize];
            let range_end = Seq(meta.seq) + u32::from(meta.len);
            let meta = &frames.meta[id as usize];
            let end = Seq(meta.seq) + u32::from(meta.len);
            if end.le(range_end) {
                self.duplicate = SackBlock { start, end };
                self.recent = start;
                frames.give(id);
                return Placed::Duplicate;
            }
            if range_end.gt(start) {
                self.duplicate = SackBlock { start, end: range_end };
                trim_front(frames, id, range_end);
            }
        }
        after = self.make_room(frames, id, after);
        let start = Seq(frames.meta[id as usize].seq);
        self.recent = start;
        let joins = before.get().filter(|&range| {
            let meta = &frames.meta[range as usize];
            Seq(meta.seq) + u32::from(meta.len) == start
        });
        if joins.is_none() && self.range_count >= MAX_RANGES {
            self.link_range(frames, before, after);
            frames.give(id);
            return Placed::Dropped;
        }
        self.waiting_frames += 1;
        self.waiting_bytes += u32::from(frames.meta[id as usize].len);
        let mut parent = before;
        if let Some(range) = joins {
            // The frame becomes the range's new last one.
            let meta = &frames.meta[range as usize];
            let (first, range_start) = (meta.next, meta.total);
            frames.meta[range as usize].next = PoolLink::to(id);
            let meta = &mut frames.meta[id as usize];
            (meta.next, meta.total) = (first, range_start);
            parent = before_that;
        } else {
            let meta = &mut frames.meta[id as usize];
            (meta.next, meta.total) = (PoolLink::to(id), meta.seq);
            self.range_count += 1;
        }
        self.link_range(frames, parent, PoolLink::to(id));
        frames.meta[id as usize].prev = after;
        self.join_next(frames, parent, id);
        Placed::OutOfOrder
    }

    fn link_range(&mut self, frames: &mut Frames<'_>, parent: PoolLink, range: PoolLink) {
        match parent.get() {
            Some(parent) => frames.meta[parent as usize].prev = range,
            None => self.ranges = range,
        }
    }

    /// Drops the ranges from `after` on that the new segment covers, and cuts the segment where the
    /// next one begins. Returns the first remaining range.
    fn make_room(&mut self, frames: &mut Frames<'_>, id: FrameId, mut after: PoolLink) -> PoolLink {
        while let Some(range) = after.get() {
            let meta = &frames.meta[id as usize];
            let (start, end) = (Seq(meta.seq), Seq(meta.seq) + u32::from(meta.len));
            let meta = &frames.meta[range as usize];
            let (range_start, range_end) = (Seq(meta.total), Seq(meta.seq) + u32::from(meta.len));
            if range_start.ge(end) {
                break;
            }
            self.report(range_start, range_end.min(end));
            if range_end.gt(end) {
                frames.meta[id as usize].len = range_start.since(start) as u16;
                break;
            }
            after = meta.prev;
            self.range_count -= 1;
            self.free_ring(frames, range);
        }
        after
    }

    /// Joins the range that ends with `id` and the next one, if they adjoin.
    fn join_next(&mut self, frames: &mut Frames<'_>, parent: PoolLink, id: FrameId) {
        let meta = &frames.meta[id as usize];
        let (first, start, end) = (meta.next, meta.total, Seq(meta.seq) + u32::from(meta.len));
        let Some(range) = meta.prev.get() else { return };
        if Seq(frames.meta[range as usize].total) != end {
            return;
        }
        let second = frames.meta[range as usize].next;
        frames.meta[id as usize].next = second;
        let last = &mut frames.meta[range as usize];
        (last.next, last.total) = (first, start);
        self.range_count -= 1;
        self.link_range(frames, parent, PoolLink::to(range));
    }

    /// Frees the frames of a range that is no longer on the list.
    fn free_ring(&mut self, frames: &mut Frames<'_>, last: FrameId) {
        let mut at = frames.meta[last as usize].next;
        while let Some(id) = at.get() {
            let meta = &frames.meta[id as usize];
            at = if id == last { PoolLink::NONE } else { meta.next };
            self.waiting_frames -= 1;
            self.waiting_bytes -= u32::from(meta.len);
            frames.give(id);
        }
    }

    /// Drops all out-of-order data: frames run low (RFC 2018 §8 allows it).
    pub(in crate::tcp) fn prune(&mut self, frames: &mut Frames<'_>) {
        while let Some(last) = self.ranges.get() {
            self.ranges = frames.meta[last as usize].prev;
            self.free_ring(frames, last);
        }
        self.range_count = 0;
    }

    /// Passes at most `most` SACK blocks to `add`: a duplicate first (RFC 2883), then the range
    /// that changed last, then the others from the highest down.
    pub(in crate::tcp) fn blocks(&self, frames: &Frames<'_>, most: usize, mut add: impl FnMut(SackBlock)) {
        let mut left = most;
        if self.has_duplicate() && left > 0 {
            add(self.duplicate);
            left -= 1;
        }
        let mut latest = None;
        let mut others = [SackBlock::default(); 4];
        let mut count = 0usize;
        let mut at = self.ranges;
        while let Some(range) = at.get() {
            let meta = &frames.meta[range as usize];
            let block = SackBlock { start: Seq(meta.total), end: Seq(meta.seq) + u32::from(meta.len) };
            if latest.is_none() && self.recent.ge(block.start) && self.recent.lt(block.end) {
                latest = Some(block);
            } else {
                others[count % 4] = block;
                count += 1;
            }
            at = meta.prev;
        }
        if let Some(block) = latest
            && left > 0
        {
            add(block);
            left -= 1;
        }
        for n in 0..left.min(count).min(4) {
            add(others[(count - 1 - n) % 4]);
        }
    }
}
