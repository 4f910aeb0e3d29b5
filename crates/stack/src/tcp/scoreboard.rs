//! The SACK scoreboard (RFC 2018, RFC 6675): marks on the frames of the send queue, with hints so
//! that an acknowledgement costs what is new in it and not what is under way.
//!
//! Whatever a peer sends, one acknowledgement costs no more than what is new in it, [`MOST_STEPS`],
//! and for each block a search that skips over all but a small part of the queue. What is left of
//! longer runs waits for the next acknowledgement that names them.

use super::options::{MAX_SACK_BLOCKS, SackBlock};
use super::send::{Delivered, SendQueue, end, length};
use super::seq::Seq;
use crate::frame::{FrameId, FrameMeta, Frames, flag};
use crate::pool::Link;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// Most marked segments that the blocks of one acknowledgement walk over.
const MOST_STEPS: u32 = 256;

/// A run of segments that are all marked, and the frame of the last of them: where a walk may
/// begin.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
struct Known {
    run: SackBlock,
    last: Link,
}

/// What the peer said it has, and what is deemed lost.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct Scoreboard {
    /// Bytes selectively acknowledged.
    pub(super) sacked: u32,
    /// Bytes deemed lost and not sent again since.
    pub(super) lost: u32,
    /// Bytes deemed lost that are under way again.
    pub(super) resent: u32,
    /// Bytes under way that were sent more than once: these, and what a probe repeated or what was
    /// only late after all.
    pub(super) again: u32,
    /// No lost segment lies before this one; none = search from the front.
    lost_hint: Link,
    /// The runs of the last acknowledgement.
    known: [Known; MAX_SACK_BLOCKS],
    /// Segments that were looked at in vain since the last acknowledgement with blocks began.
    steps: u32,
}

impl Scoreboard {
    /// A segment leaves the queue; `next` follows it.
    pub(super) fn forget(&mut self, id: FrameId, next: Link) {
        if self.lost_hint == Link::to(id) {
            self.lost_hint = next;
        }
    }
}

impl Scoreboard {
    /// A segment that was sent more than once is not under way any more.
    #[cold]
    pub(super) fn not_again(&mut self, meta: &mut FrameMeta) {
        self.again -= length(meta);
        if meta.flags & flag::RESENT != 0 {
            meta.flags &= !flag::RESENT;
            self.resent -= length(meta);
        }
    }
}

impl SendQueue {
    /// Marks what the blocks cover, telling `visit` of each segment that is new. Blocks that make
    /// no sense (outside of what is outstanding) are passed over. Returns how many there were.
    pub(super) fn sack(
        &mut self,
        frames: &mut Frames<'_>,
        blocks: &[SackBlock],
        mut visit: impl FnMut(Delivered),
    ) -> u64 {
        // Runs are known while segments are marked: the marks that they stand for lie in the queue,
        // so no more than a window ago. Without any they are from long ago, and their numbers may
        // have come around meanwhile.
        let known = if self.board.sacked == 0 { Default::default() } else { self.board.known };
        let mut seen = [Known::default(); MAX_SACK_BLOCKS];
        let mut senseless = 0;
        self.board.steps = 0;
        let mut left = MOST_STEPS;
        for (block, seen) in blocks.iter().zip(&mut seen) {
            let sane = block.start.lt(block.end) && block.start.ge(self.una) && block.end.le(self.nxt);
            if !sane {
                senseless += 1;
                continue;
            }
            let valid =
                known.iter().filter(|k| !k.last.is_none() && k.run.end.gt(self.una) && k.run.start.le(block.start));
            let mut from = self.head;
            let mut from_end = self.una;
            let mut covered = None;
            for k in valid {
                if k.run.end.ge(block.end) {
                    covered = Some(*k);
                } else if k.run.end.gt(from_end) {
                    (from, from_end) = (k.last, k.run.end);
                }
            }
            if let Some(k) = covered {
                *seen = k;
                continue;
            }
            let from = self.seek(frames, from, block.start);
            let last = self.mark_run(frames, from, *block, &known, &mut left, &mut visit);
            if let Some(id) = last.get() {
                *seen = Known { run: SackBlock { start: block.start, end: end(&frames.meta[id as usize]) }, last };
            }
        }
        self.board.known = seen;
        senseless
    }

    /// The segment that holds `seq`, which was sent, or an earlier one; searched from `from`, which
    /// lies before it.
    fn seek(&mut self, frames: &Frames<'_>, from: Link, seq: Seq) -> Link {
        let mut at = from;
        while let Some(id) = at.get() {
            self.board.steps += 1;
            let meta = &frames.meta[id as usize];
            let ahead = meta.prev.get().filter(|&ahead| Seq(frames.meta[ahead as usize].seq).le(seq));
            if ahead.is_none() && end(meta).gt(seq) {
                break;
            }
            at = ahead.map_or(meta.next, Link::to);
        }
        at
    }

    /// Marks the segments that lie wholly in `block`, walking from `from`. Returns the last of
    /// them.
    fn mark_run(
        &mut self,
        frames: &mut Frames<'_>,
        from: Link,
        block: SackBlock,
        known: &[Known],
        left: &mut u32,
        visit: &mut impl FnMut(Delivered),
    ) -> Link {
        let (mut at, mut last) = (from, Link::NONE);
        let mut before = 0;
        while let Some(id) = at.get() {
            if at == self.next || *left == 0 {
                break;
            }
            let meta = &frames.meta[id as usize];
            let (start, stop, next, bytes, flags) = (Seq(meta.seq), end(meta), meta.next, length(meta), meta.flags);
            if stop.gt(block.end) {
                break;
            }
            if start.ge(block.start) {
                if flags & flag::SACKED == 0 {
                    visit(Delivered::of(meta));
                    if flags & flag::LOST != 0 {
                        self.board.lost -= bytes
                    } else {
                        self.unlink(frames, id)
                    }
                    let meta = &mut frames.meta[id as usize];
                    meta.flags = (meta.flags | flag::SACKED) & !flag::LOST;
                    self.board.sacked += bytes;
                } else {
                    self.board.steps += 1;
                    *left -= 1;
                    // Into a run that the last acknowledgement named: what is marked is known up to
                    // its end.
                    let inside = |k: &&Known| k.run.start.le(start) && k.run.end.gt(stop) && k.run.end.le(block.end);
                    if before & flag::SACKED == 0
                        && let Some(k) = known.iter().find(|k| !k.last.is_none() && inside(k))
                    {
                        (at, before) = (k.last, flag::SACKED);
                        continue;
                    }
                }
                last = at;
            }
            (at, before) = (next, flags & flag::SACKED);
        }
        last
    }

    /// Deems a segment that is under way lost.
    pub(super) fn mark_lost(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        self.unlink(frames, id);
        let meta = &mut frames.meta[id as usize];
        meta.flags |= flag::LOST;
        let (seq, first) = (Seq(meta.seq), self.board.lost == 0);
        self.board.lost += length(meta);
        let hint = self.board.lost_hint.get();
        if first || hint.is_some_and(|hint| seq.lt(Seq(frames.meta[hint as usize].seq))) {
            self.board.lost_hint = Link::to(id);
        }
    }

    /// The retransmission timer expired: deems lost the first segment, and what was sent `allowed`
    /// ago or earlier (RFC 8985 §6.3).
    pub(super) fn mark_late_lost(&mut self, frames: &mut Frames<'_>, now: Instant, allowed: Span, mss: u32) {
        while let Some(id) = self.oldest.get() {
            if now.since(frames.meta[id as usize].at) < allowed {
                break;
            }
            self.mark_lost(frames, id);
        }
        self.mark_first_lost(frames, mss);
    }

    /// Takes the marks of loss back, also of what was sent again since: the segments were only
    /// late. Nearly always the order of sending is that of the numbers, so one walk over both lists
    /// puts them in their places.
    pub(super) fn unmark_lost(&mut self, frames: &mut Frames<'_>) {
        let (mut at, mut before) = (self.head, Link::NONE);
        while let Some(id) = at.get() {
            if at == self.next {
                break;
            }
            let meta = &mut frames.meta[id as usize];
            let this = core::mem::replace(&mut at, meta.next);
            if meta.flags & flag::RESENT != 0 {
                meta.flags &= !flag::RESENT;
                self.board.resent -= length(meta);
            }
            if meta.flags & flag::LOST == 0 {
                continue;
            }
            meta.flags &= !flag::LOST;
            self.board.lost -= length(meta);
            self.pipe += length(meta);
            if meta.flags & flag::RETRANSMITTED != 0 {
                self.board.again += length(meta);
            }
            let sent = meta.at;
            if before.get().is_some_and(|other| frames.meta[other as usize].at > sent) {
                before = Link::NONE;
            }
            let mut after = before.get().map_or(self.oldest, |other| frames.meta[other as usize].newer);
            while let Some(other) = after.get().filter(|&other| frames.meta[other as usize].at <= sent) {
                before = after;
                after = frames.meta[other as usize].newer;
            }
            match before.get() {
                Some(other) => frames.meta[other as usize].newer = this,
                None => self.oldest = this,
            }
            match after.get() {
                Some(other) => frames.meta[other as usize].older = this,
                None => self.newest = this,
            }
            (frames.meta[id as usize].older, frames.meta[id as usize].newer) = (before, after);
            before = this;
        }
        self.board.lost_hint = Link::NONE;
    }

    /// The lost segment with the lowest sequence number.
    pub(super) fn first_lost(&mut self, frames: &Frames<'_>) -> Option<FrameId> {
        if self.board.lost == 0 {
            self.board.lost_hint = Link::NONE;
            return None;
        }
        let mut at = if self.board.lost_hint.is_none() { self.head } else { self.board.lost_hint };
        while let Some(id) = at.get() {
            if at == self.next {
                break;
            }
            self.board.steps += 1;
            let meta = &frames.meta[id as usize];
            if meta.flags & flag::LOST != 0 {
                self.board.lost_hint = at;
                return Some(id);
            }
            at = meta.next;
        }
        self.board.lost_hint = Link::NONE;
        None
    }

    /// Whether the first segment is marked as received though it is not acknowledged: the peer
    /// threw it away (reneged).
    pub(super) fn reneged(&self, frames: &Frames<'_>) -> bool {
        self.head.get().is_some_and(|id| frames.meta[id as usize].flags & flag::SACKED != 0)
    }

    /// Takes all marks of reception back (RFC 2018 §8, after a timeout); the segments count as
    /// lost.
    pub(super) fn forget_sacks(&mut self, frames: &mut Frames<'_>) {
        let mut at = self.head;
        while let Some(id) = at.get() {
            if at == self.next {
                break;
            }
            let meta = &mut frames.meta[id as usize];
            at = meta.next;
            if meta.flags & flag::SACKED != 0 {
                meta.flags = (meta.flags & !flag::SACKED) | flag::LOST;
                self.board.sacked -= length(meta);
                self.board.lost += length(meta);
            }
        }
        self.board.lost_hint = Link::NONE;
        self.board.known = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::send::STRIDE;
    use super::*;
    use crate::memory::{Limits, OwnedMemory};
    use proptest::prelude::*;

    const SEGMENTS: u32 = 3000;
    const LEN: u32 = 100;
    /// What a search may look at: frames that it skips to, and those between the last of them and
    /// its aim.
    const SEARCH: u32 = SEGMENTS / STRIDE + 2 * STRIDE + 4;

    fn under_way(frames: &mut Frames<'_>) -> SendQueue {
        let mut queue = SendQueue::new(Seq(1000));
        queue.append(frames, LEN as usize, (SEGMENTS * LEN) as usize, 0, |into| into.len());
        let mut now = Instant::from_nanos(1);
        while let Some(id) = queue.next.get() {
            queue.sent(frames, id, now);
            now += Span::from_nanos(1);
        }
        queue
    }

    fn block(queue: &SendQueue, first: u32, count: u32) -> SackBlock {
        let start = queue.una + first * LEN;
        SackBlock { start, end: start + count * LEN }
    }

    proptest! {
        #![proptest_config(crate::testing::proptest_config(64))]

        /// Whatever blocks a peer sends, in whatever order, with and without what is acknowledged,
        /// lost and sent again in between.
        #[test]
        fn an_acknowledgement_costs_no_more_than_what_is_new_and_a_search_for_each_block(
            acks in prop::collection::vec(
                (prop::collection::vec((0..SEGMENTS, prop_oneof![1..4u32, 1..SEGMENTS]), 1..=MAX_SACK_BLOCKS), 0..40u32, 0..3u8),
                1..60,
            ),
        ) {
            let mut memory = OwnedMemory::new(&Limits { frames: 4096, tcp: 4, ..Limits::DEFAULT });
            let mut stack = memory.stack();
            let frames = &mut stack.mem.frames;
            let mut queue = under_way(frames);
            let mut now = Instant::from_nanos(1 << 32);
            for (blocks, acked, lost) in acks {
                now += Span::from_nanos(1);
                let left = queue.outstanding() / LEN;
                let blocks: Vec<_> = blocks
                    .into_iter()
                    .filter(|(first, _)| *first < left)
                    .map(|(first, count)| block(&queue, first, count.min(left - first)))
                    .collect();
                queue.sack(frames, &blocks, |_| {});
                prop_assert!(queue.board.steps <= blocks.len() as u32 * SEARCH + MOST_STEPS, "{} steps", queue.board.steps);
                for _ in 0..lost {
                    if let Some(id) = queue.oldest.get() {
                        queue.mark_lost(frames, id);
                    }
                }
                if lost == 1 && let Some(id) = queue.first_lost(frames) {
                    queue.sent(frames, id, now);
                }
                let to = queue.una + acked.min(queue.outstanding() / LEN) * LEN;
                queue.acknowledge(frames, to, |_| {});
            }
            queue.clear(frames);
            prop_assert_eq!(frames.available(), 4096);
        }
    }

    /// The peer has every other segment and tells so from the end to the front, which no memory of
    /// earlier blocks helps against.
    #[test]
    fn blocks_from_the_end_to_the_front_are_found_by_skipping() {
        let mut memory = OwnedMemory::new(&Limits { frames: 4096, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = under_way(frames);
        for first in (0..SEGMENTS).rev().step_by(2) {
            let block = block(&queue, first, 1);
            queue.sack(frames, &[block], |_| {});
            assert!(queue.board.steps <= SEARCH, "{} steps for segment {first}", queue.board.steps);
        }
        assert_eq!(queue.board.sacked, SEGMENTS / 2 * LEN);
    }

    /// A run that is longer than one acknowledgement may walk over is taken up where the last one
    /// stopped.
    #[test]
    fn what_is_left_of_a_long_run_is_done_by_later_acknowledgements() {
        let mut memory = OwnedMemory::new(&Limits { frames: 4096, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = under_way(frames);
        let [run, elsewhere, all] = [(10, 2000), (2500, 1), (10, 2100)].map(|(at, n)| block(&queue, at, n));
        queue.sack(frames, &[run], |_| {});
        queue.sack(frames, &[elsewhere], |_| {});
        let mut acknowledgements = 0;
        while queue.board.sacked < 2101 * LEN {
            queue.sack(frames, &[all], |_| {});
            assert!(queue.board.steps <= SEARCH + MOST_STEPS);
            acknowledgements += 1;
            assert!(acknowledgements <= 2000 / (MOST_STEPS - 1) + 2);
        }
        // What a run that is named again covers is stepped over at once.
        let more = block(&queue, 8, 2103);
        queue.sack(frames, &[more], |_| {});
        assert_eq!(queue.board.sacked, 2104 * LEN);
        assert!(queue.board.steps <= SEARCH + 2, "{} steps", queue.board.steps);
    }

    /// One loss after the other, each sent again before the next one is found: the first is not
    /// searched for from the front.
    #[test]
    fn the_lost_segment_is_at_hand() {
        let mut memory = OwnedMemory::new(&Limits { frames: 4096, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = under_way(frames);
        for n in 0..SEGMENTS {
            let id = queue.oldest.get().unwrap();
            queue.mark_lost(frames, id);
            queue.board.steps = 0;
            assert_eq!(queue.first_lost(frames), Some(id));
            assert_eq!(queue.board.steps, 1, "loss {n}");
            queue.sent(frames, id, Instant::from_nanos(1 << 32));
        }
    }
}
