//! The receive queue: frames as they came, in order for the program and out of order until the gap before them closes.
//!
//! Out-of-order frames are kept as ranges of adjoining bytes. A range is a ring of frames: its last frame links to its
//! first by `next`, and is what the list of ranges (by `prev`) consists of, so that appending to a range, the usual case
//! behind a loss, and joining two ranges cost the same however long they are.

use super::options::SackBlock;
use super::seq::Seq;
use crate::frame::{FRAME_SIZE, FrameId, Frames};
use crate::pool::Link;
use zerocopy::FromZeros;

/// Most out-of-order ranges at one time; a segment that would open another is dropped.
pub(super) const MAX_RANGES: u16 = 128;

/// Segments up to this length are copied behind the last unread byte if its frame has room: a flood of small segments
/// must not hold a whole frame each.
const COMPACT_BELOW: usize = 256;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It continued the stream; `filled` says whether queued ranges followed behind it.
    InOrder {
        /// Whether it closed a gap.
        filled: bool,
    },
    /// It waits for what is missing before it.
    OutOfOrder,
    /// All of it was there already.
    Duplicate,
    /// There was no room for another range.
    Dropped,
}

/// The receive queue of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct ReceiveQueue {
    head: Link,
    tail: Link,
    /// The last frame of the range with the lowest sequence numbers.
    ranges: Link,
    /// RCV.NXT.
    pub(super) next: Seq,
    /// Bytes in order that the program has not read.
    pub(super) bytes: u32,
    /// Frames in order.
    pub(super) frames: u32,
    /// Bytes out of order.
    pub(super) waiting_bytes: u32,
    /// Frames out of order.
    pub(super) waiting_frames: u32,
    range_count: u16,
    /// Where the segment that came last out of order lies, for the first SACK block (RFC 2018 §4).
    recent: Seq,
    /// A duplicate to be reported (RFC 2883), if `start` and `end` differ.
    pub(super) duplicate: SackBlock,
}

impl ReceiveQueue {
    /// An empty queue that expects `first`.
    pub(super) fn new(first: Seq) -> Self {
        Self { next: first, ..Self::default() }
    }

    /// Frames held in all.
    pub(super) fn held(&self) -> u32 {
        self.frames + self.waiting_frames
    }

    /// Whether anything waits out of order.
    pub(super) fn has_gap(&self) -> bool {
        !self.ranges.is_none()
    }

    /// Takes the frame of a segment whose payload its notes delimit (`offset`, `len`, `seq`), and which lies within the
    /// window.
    pub(super) fn insert(&mut self, frames: &mut Frames<'_>, id: FrameId) -> Placed {
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

    /// Puts a frame that starts at `next` behind the others.
    fn append(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        let len = frames.meta[id as usize].len;
        self.next += u32::from(len);
        self.bytes += u32::from(len);
        if usize::from(len) <= COMPACT_BELOW && self.compact(frames, id) {
            return;
        }
        frames.meta[id as usize].next = Link::NONE;
        match self.tail.get() {
            Some(tail) => frames.meta[tail as usize].next = Link::to(id),
            None => self.head = Link::to(id),
        }
        self.tail = Link::to(id);
        self.frames += 1;
    }

    /// Copies a small segment behind the last frame's bytes and frees its frame. False if there is no room.
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
        frames.meta[tail as usize].len += len;
        frames.give(id);
        true
    }

    /// Moves the first range into the stream if it continues it.
    fn absorb_range(&mut self, frames: &mut Frames<'_>) -> bool {
        let Some(last) = self.ranges.get() else { return false };
        let meta = &frames.meta[last as usize];
        let (start, end) = (Seq(meta.total), Seq(meta.seq) + u32::from(meta.len));
        if start.gt(self.next) {
            return false;
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
            at = if id == last { Link::NONE } else { meta.next };
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

    fn insert_waiting(&mut self, frames: &mut Frames<'_>, id: FrameId) -> Placed {
        // The last range that starts at or before this segment, and the one after it.
        let start = Seq(frames.meta[id as usize].seq);
        let (mut before, mut after) = (Link::NONE, self.ranges);
        let mut before_that = Link::NONE;
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
            frames.meta[range as usize].next = Link::to(id);
            let meta = &mut frames.meta[id as usize];
            (meta.next, meta.total) = (first, range_start);
            parent = before_that;
        } else {
            let meta = &mut frames.meta[id as usize];
            (meta.next, meta.total) = (Link::to(id), meta.seq);
            self.range_count += 1;
        }
        self.link_range(frames, parent, Link::to(id));
        frames.meta[id as usize].prev = after;
        self.join_next(frames, parent, id);
        Placed::OutOfOrder
    }

    fn link_range(&mut self, frames: &mut Frames<'_>, parent: Link, range: Link) {
        match parent.get() {
            Some(parent) => frames.meta[parent as usize].prev = range,
            None => self.ranges = range,
        }
    }

    /// Drops the ranges from `after` on that the new segment covers, and trims it where the next one begins. Returns the
    /// first range that is left.
    fn make_room(&mut self, frames: &mut Frames<'_>, id: FrameId, mut after: Link) -> Link {
        while let Some(range) = after.get() {
            let meta = &frames.meta[id as usize];
            let (start, end) = (Seq(meta.seq), Seq(meta.seq) + u32::from(meta.len));
            let meta = &frames.meta[range as usize];
            let (range_start, range_end) = (Seq(meta.total), Seq(meta.seq) + u32::from(meta.len));
            if range_start.ge(end) {
                break;
            }
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

    /// Joins the range that ends with `id` and the one behind it, if they adjoin.
    fn join_next(&mut self, frames: &mut Frames<'_>, parent: Link, id: FrameId) {
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
        self.link_range(frames, parent, Link::to(range));
    }

    /// Frees the frames of a range that is no longer on the list.
    fn free_ring(&mut self, frames: &mut Frames<'_>, last: FrameId) {
        let mut at = frames.meta[last as usize].next;
        while let Some(id) = at.get() {
            let meta = &frames.meta[id as usize];
            at = if id == last { Link::NONE } else { meta.next };
            self.waiting_frames -= 1;
            self.waiting_bytes -= u32::from(meta.len);
            frames.give(id);
        }
    }

    /// Gives up everything that waits out of order: frames run low (RFC 2018 §8 allows it).
    pub(super) fn prune(&mut self, frames: &mut Frames<'_>) {
        while let Some(last) = self.ranges.get() {
            self.ranges = frames.meta[last as usize].prev;
            self.free_ring(frames, last);
        }
        self.range_count = 0;
    }

    /// Hands SACK blocks to `add`: a duplicate first (RFC 2883), then the range that changed last, then the others from the
    /// highest down, until `add` takes no more.
    pub(super) fn blocks(&self, frames: &Frames<'_>, most: usize, mut add: impl FnMut(SackBlock)) {
        let mut left = most;
        if self.duplicate.start != self.duplicate.end && left > 0 {
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

    /// Hands up to `limit` unread bytes to `take`, which says how many it took. Unless `peek`, what was taken is gone.
    /// Returns the bytes taken.
    pub(super) fn read(
        &mut self,
        frames: &mut Frames<'_>,
        limit: usize,
        peek: bool,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> usize {
        let (mut at, mut total) = (self.head, 0);
        while let Some(id) = at.get() {
            if total == limit {
                break;
            }
            let data = frames.data(id);
            let most = data.len().min(limit - total);
            let taken = take(&data[..most]).min(most);
            total += taken;
            at = frames.meta[id as usize].next;
            if !peek {
                self.consume(frames, taken);
            }
            if taken < most {
                break;
            }
        }
        total
    }

    /// Drops the first `bytes` of the first frame, which holds that many.
    fn consume(&mut self, frames: &mut Frames<'_>, bytes: usize) {
        let Some(id) = self.head.get() else { return };
        let meta = &mut frames.meta[id as usize];
        meta.offset += bytes as u16;
        meta.len -= bytes as u16;
        self.bytes -= bytes as u32;
        if meta.len == 0 {
            self.head = meta.next;
            if self.head.is_none() {
                self.tail = Link::NONE;
            }
            self.frames -= 1;
            frames.give(id);
        }
    }

    /// Drops up to `bytes` unread bytes.
    pub(super) fn skip(&mut self, frames: &mut Frames<'_>, bytes: usize) {
        self.read(frames, bytes, false, <[u8]>::len);
    }

    /// Frees everything.
    pub(super) fn clear(&mut self, frames: &mut Frames<'_>) {
        self.prune(frames);
        while let Some(id) = self.head.get() {
            self.head = frames.meta[id as usize].next;
            frames.give(id);
        }
        (self.tail, self.bytes, self.frames) = (Link::NONE, 0, 0);
    }
}

/// Cuts what lies before `to` off the front of a segment.
fn trim_front(frames: &mut Frames<'_>, id: FrameId, to: Seq) {
    let meta = &mut frames.meta[id as usize];
    let cut = to.since(Seq(meta.seq)).min(u32::from(meta.len));
    meta.seq = meta.seq.wrapping_add(cut);
    meta.offset += cut as u16;
    meta.len -= cut as u16;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Limits, OwnedMemory};
    use proptest::prelude::*;

    /// The byte of the stream at a sequence number.
    fn byte(seq: u32) -> u8 {
        (seq.wrapping_mul(2_654_435_761) >> 24) as u8
    }

    fn segment(frames: &mut Frames<'_>, seq: u32, len: u16) -> FrameId {
        let id = frames.take().unwrap();
        for n in 0..usize::from(len) {
            frames.bytes_mut(id)[300 + n] = byte(seq.wrapping_add(n as u32));
        }
        let meta = &mut frames.meta[id as usize];
        (meta.offset, meta.len, meta.seq) = (300, len, seq);
        id
    }

    proptest! {
        /// Whatever comes in whatever order, with whatever overlap: the stream is right, the SACK blocks are exactly the
        /// runs that are held, and every frame is accounted for.
        #[test]
        fn agrees_with_a_map_of_bytes(
            first in prop_oneof![Just(u32::MAX - 700), any::<u32>()],
            steps in prop::collection::vec((0..2000u32, 1..400u16, 0..6u8), 1..120),
        ) {
            const WINDOW: usize = 2500;
            let mut memory = OwnedMemory::new(&Limits { frames: 512, tcp: 4, ..Limits::DEFAULT });
            let mut stack = memory.stack();
            let frames = &mut stack.mem.frames;
            let mut queue = ReceiveQueue::new(Seq(first));
            let mut have = [false; WINDOW];
            let (mut edge, mut read) = (0usize, 0usize);
            for (at, len, reading) in steps {
                let id = segment(frames, first.wrapping_add(at), len);
                let placed = queue.insert(frames, id);
                prop_assert_ne!(placed, Placed::Dropped);
                have[at as usize..at as usize + usize::from(len)].fill(true);
                while edge < WINDOW && have[edge] {
                    edge += 1;
                }
                prop_assert_eq!(queue.next, Seq(first.wrapping_add(edge as u32)));
                prop_assert_eq!(queue.bytes as usize, edge - read);
                if reading == 0 {
                    let mut ok = true;
                    let peek = at % 2 == 0;
                    let taken = queue.read(frames, usize::from(len), peek, |bytes| {
                        for (n, b) in bytes.iter().enumerate() {
                            ok &= *b == byte(first.wrapping_add((read + n) as u32));
                        }
                        if !peek {
                            read += bytes.len();
                        }
                        bytes.len()
                    });
                    prop_assert!(ok || peek, "the stream is right");
                    prop_assert!(taken <= usize::from(len));
                }
                // The ranges, from the list itself.
                let mut ranges = Vec::new();
                let mut link = queue.ranges;
                while let Some(range) = link.get() {
                    let meta = &frames.meta[range as usize];
                    let offset = |seq: u32| seq.wrapping_sub(first) as usize;
                    ranges.push((offset(meta.total), offset(meta.seq) + usize::from(meta.len)));
                    link = meta.prev;
                }
                let mut expected = Vec::new();
                let mut n = edge;
                while n < WINDOW {
                    if have[n] {
                        let start = n;
                        while n < WINDOW && have[n] {
                            n += 1;
                        }
                        expected.push((start, n));
                    } else {
                        n += 1;
                    }
                }
                prop_assert_eq!(&ranges, &expected);
                prop_assert_eq!(usize::from(queue.range_count), ranges.len());
                prop_assert_eq!(queue.waiting_bytes as usize, ranges.iter().map(|(a, b)| b - a).sum::<usize>());
                prop_assert_eq!(512 - frames.available(), queue.held() as usize);
            }
            queue.clear(frames);
            prop_assert_eq!(frames.available(), 512);
        }
    }

    #[test]
    fn ranges_beyond_the_limit_are_dropped_and_the_rest_is_kept() {
        let mut memory = OwnedMemory::new(&Limits { frames: 512, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = ReceiveQueue::new(Seq(0));
        for n in 0..200 {
            let id = segment(frames, 10 + n * 10, 5);
            let expected = if n < u32::from(MAX_RANGES) { Placed::OutOfOrder } else { Placed::Dropped };
            assert_eq!(queue.insert(frames, id), expected);
        }
        assert_eq!(queue.held(), u32::from(MAX_RANGES));
        let mut blocks = Vec::new();
        queue.blocks(frames, 4, |block| blocks.push((block.start.0, block.end.0)));
        assert_eq!(blocks, [(1280, 1285), (1270, 1275), (1260, 1265), (1250, 1255)]);
    }
}
