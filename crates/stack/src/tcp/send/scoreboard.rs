//! The SACK scoreboard (RFC 2018, RFC 6675): marks on the frames of the send queue. Hints keep the
//! cost of an acknowledgement proportional to the new information in it, not to the data in flight.
//!
//! Whatever a peer sends, the cost of an acknowledgement is bounded by the segments that it newly
//! covers, [`MOST_STEPS`], and a search per block that visits a small part of the queue. The rest
//! of longer runs waits for the next acknowledgement that covers them.

use super::queue::{Delivered, SendQueue, end, length};
use crate::frame::{FrameId, FrameMeta, Frames, flag};
use crate::pool::PoolLink;
use crate::tcp::wire::options::{MAX_SACK_BLOCKS, SackBlock};
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// Most already marked segments that the blocks of one acknowledgement may visit.
const MOST_STEPS: u32 = 256;

/// A run of segments that are all marked, and the frame of its last one: where a walk may begin.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
struct Known {
    run: SackBlock,
    last: PoolLink,
}

shared_layout! { Known { run, last } }

/// Which segments the peer has received, and which are deemed lost.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct Scoreboard {
    /// Bytes selectively acknowledged.
    pub(in crate::tcp) sacked: u32,
    /// Bytes deemed lost and not retransmitted since.
    pub(in crate::tcp) lost: u32,
    /// Bytes deemed lost that are in flight again.
    pub(in crate::tcp) resent: u32,
    /// Bytes in flight that were sent more than once: these, and those that a probe repeated or
    /// that were only late.
    pub(in crate::tcp) again: u32,
    /// No lost segment precedes this one; none = search from the front.
    lost_hint: PoolLink,
    /// The runs of the last acknowledgement.
    known: [Known; MAX_SACK_BLOCKS],
    /// Segments visited in vain since the last acknowledgement with blocks began.
    steps: u32,
}

shared_layout! { Scoreboard { sacked, lost, resent, again, lost_hint, known, steps } }

impl Scoreboard {
    /// A segment leaves the queue; `next` follows it.
    pub(in crate::tcp) fn forget(&mut self, id: FrameId, next: PoolLink) {
        if self.lost_hint == PoolLink::to(id) {
            self.lost_hint = next;
        }
    }
}

impl Scoreboard {
    /// A segment that was sent more than once is no longer in flight.
    #[cold]
    pub(in crate::tcp) fn not_again(&mut self, meta: &mut FrameMeta) {
        self.again -= length(meta);
        if meta.flags & flag::RESENT != 0 {
            meta.flags &= !flag::RESENT;
            self.resent -= length(meta);
        }
    }
}

impl SendQueue {
    /// Marks the segments that the blocks cover, and passes each newly marked one to `visit`.
    /// Invalid blocks (outside of the outstanding data) are ignored. Returns their number.
    pub(in crate::tcp) fn sack(
        &mut self,
        frames: &mut Frames<'_>,
        blocks: &[SackBlock],
        mut visit: impl FnMut(Delivered),
    ) -> u64 {
        // Runs are known only while segments are marked: those marks are in the queue, so the runs
        // are no older than a window. Without marks they are outdated, and the sequence numbers may
        // have wrapped since.
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

    /// The segment that contains `seq`, which was sent, or an earlier one; the search starts at
    /// `from`, which precedes it.
    fn seek(&mut self, frames: &Frames<'_>, from: PoolLink, seq: Seq) -> PoolLink {
        let mut at = from;
        while let Some(id) = at.get() {
            self.board.steps += 1;
            let meta = &frames.meta[id as usize];
            let ahead = meta.prev.get().filter(|&ahead| Seq(frames.meta[ahead as usize].seq).le(seq));
            if ahead.is_none() && end(meta).gt(seq) {
                break;
            }
            at = ahead.map_or(meta.next, PoolLink::to);
        }
        at
    }

    /// Marks the segments that lie completely in `block`, starting from `from`. Returns the last of
    /// them.
    fn mark_run(
        &mut self,
        frames: &mut Frames<'_>,
        from: PoolLink,
        block: SackBlock,
        known: &[Known],
        left: &mut u32,
        visit: &mut impl FnMut(Delivered),
    ) -> PoolLink {
        let (mut at, mut last) = (from, PoolLink::NONE);
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
                    // Inside of a run of the last acknowledgement: everything up to its end is
                    // marked.
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

    /// Deems a segment in flight lost.
    pub(in crate::tcp) fn mark_lost(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        self.unlink(frames, id);
        let meta = &mut frames.meta[id as usize];
        meta.flags |= flag::LOST;
        let (seq, first) = (Seq(meta.seq), self.board.lost == 0);
        self.board.lost += length(meta);
        let hint = self.board.lost_hint.get();
        if first || hint.is_some_and(|hint| seq.lt(Seq(frames.meta[hint as usize].seq))) {
            self.board.lost_hint = PoolLink::to(id);
        }
    }

    /// The retransmission timer expired: deems lost the first segment, and those sent `allowed` ago
    /// or earlier (RFC 8985 §6.3).
    pub(in crate::tcp) fn mark_late_lost(&mut self, frames: &mut Frames<'_>, now: Instant, allowed: Span, mss: u32) {
        while let Some(id) = self.oldest.get() {
            if now.since(frames.meta[id as usize].at) < allowed {
                break;
            }
            self.mark_lost(frames, id);
        }
        self.mark_first_lost(frames, mss);
    }

    /// Undoes the marks of loss, also of segments retransmitted since: they were only late. The
    /// order of transmission is nearly always that of the sequence numbers, so one walk over both
    /// lists restores their positions.
    pub(in crate::tcp) fn unmark_lost(&mut self, frames: &mut Frames<'_>) {
        let (mut at, mut before) = (self.head, PoolLink::NONE);
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
                before = PoolLink::NONE;
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
        self.board.lost_hint = PoolLink::NONE;
    }

    /// The lost segment with the lowest sequence number.
    pub(in crate::tcp) fn first_lost(&mut self, frames: &Frames<'_>) -> Option<FrameId> {
        if self.board.lost == 0 {
            self.board.lost_hint = PoolLink::NONE;
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
        self.board.lost_hint = PoolLink::NONE;
        None
    }

    /// Whether the first segment is marked as received but is not acknowledged: the peer discarded
    /// it (reneged).
    pub(in crate::tcp) fn reneged(&self, frames: &Frames<'_>) -> bool {
        self.head.get().is_some_and(|id| frames.meta[id as usize].flags & flag::SACKED != 0)
    }

    /// Undoes all SACK marks (RFC 2018 §8, after a timeout); the segments count as lost.
    pub(in crate::tcp) fn forget_sacks(&mut self, frames: &mut Frames<'_>) {
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
        self.board.lost_hint = PoolLink::NONE;
        self.board.known = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::STRIDE;
    use super::*;
    use crate::memory::{Limits, OwnedMemory};
    use proptest::prelude::*;

    const SEGMENTS: u32 = 3000;
    const LEN: u32 = 100;
    /// Most visits of a search: the frames that it skips to, and those between the last of them and
    /// its target.
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

        /// Whatever blocks a peer sends, in any order, with acknowledgements, losses and
        /// retransmissions in between.
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

    /// The peer has every other segment and reports them from the end to the front: knowledge of
    /// earlier blocks does not help.
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

    /// A run that is too long for one acknowledgement is continued where the last one stopped.
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
        // The part of a run that an earlier acknowledgement covered is skipped at once.
        let more = block(&queue, 8, 2103);
        queue.sack(frames, &[more], |_| {});
        assert_eq!(queue.board.sacked, 2104 * LEN);
        assert!(queue.board.steps <= SEARCH + 2, "{} steps", queue.board.steps);
    }

    /// Each loss is retransmitted before the next one is found: the search for it does not start at
    /// the front.
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
