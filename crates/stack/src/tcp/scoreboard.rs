//! The SACK scoreboard (RFC 2018, RFC 6675): marks on the frames of the send queue, with hints so that an
//! acknowledgement costs what is new in it and not what is under way.

use super::options::{MAX_SACK_BLOCKS, SackBlock};
use super::send::{Delivered, SendQueue, end, length};
use super::seq::Seq;
use crate::frame::{FrameId, Frames, flag};
use crate::pool::Link;
use zerocopy::FromZeros;

/// A run of segments that are all marked, and the frame of the last of them: where a walk may begin.
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
    /// No lost segment lies before this one; none = search from the front.
    lost_hint: Link,
    /// The runs of the last acknowledgement.
    known: [Known; MAX_SACK_BLOCKS],
}

impl Scoreboard {
    /// A segment leaves the queue; `next` follows it.
    pub(super) fn forget(&mut self, id: FrameId, next: Link) {
        if self.lost_hint == Link::to(id) {
            self.lost_hint = next;
        }
    }
}

impl SendQueue {
    /// Marks what the blocks cover, telling `visit` of each segment that is new. Blocks that make no sense (outside
    /// of what is outstanding) are passed over. Returns whether anything was new.
    pub(super) fn sack(
        &mut self,
        frames: &mut Frames<'_>,
        blocks: &[SackBlock],
        mut visit: impl FnMut(Delivered),
    ) -> bool {
        // Runs are known while segments are marked: the marks that they stand for lie in the queue, so no more than a window ago.
        // Without any they are from long ago, and their numbers may have come around meanwhile.
        let known = if self.board.sacked == 0 { Default::default() } else { self.board.known };
        let mut seen = [Known::default(); MAX_SACK_BLOCKS];
        let mut news = false;
        for (block, seen) in blocks.iter().zip(&mut seen) {
            let sane = block.start.lt(block.end) && block.start.ge(self.una) && block.end.le(self.nxt);
            if !sane {
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
            let (last, new) = self.mark_run(frames, from, *block, &mut visit);
            news |= new;
            if let Some(id) = last.get() {
                *seen = Known { run: SackBlock { start: block.start, end: end(&frames.meta[id as usize]) }, last };
            }
        }
        self.board.known = seen;
        news
    }

    /// Marks the segments that lie wholly in `block`, walking from `from`. Returns the last of them.
    fn mark_run(
        &mut self,
        frames: &mut Frames<'_>,
        from: Link,
        block: SackBlock,
        visit: &mut impl FnMut(Delivered),
    ) -> (Link, bool) {
        let (mut at, mut last, mut news) = (from, Link::NONE, false);
        while let Some(id) = at.get() {
            if at == self.next {
                break;
            }
            let meta = &frames.meta[id as usize];
            let (start, stop, next, bytes, flags) = (Seq(meta.seq), end(meta), meta.next, length(meta), meta.flags);
            if stop.gt(block.end) {
                break;
            }
            if start.ge(block.start) {
                if flags & flag::SACKED == 0 {
                    news = true;
                    visit(Delivered::of(meta));
                    if flags & flag::LOST != 0 {
                        self.board.lost -= bytes
                    } else {
                        self.unlink(frames, id)
                    }
                    let meta = &mut frames.meta[id as usize];
                    meta.flags = (meta.flags | flag::SACKED) & !flag::LOST;
                    self.board.sacked += bytes;
                }
                last = at;
            }
            at = next;
        }
        (last, news)
    }

    /// Deems a segment that is under way lost.
    pub(super) fn mark_lost(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        self.unlink(frames, id);
        let meta = &mut frames.meta[id as usize];
        meta.flags |= flag::LOST;
        self.board.lost += length(meta);
        let seq = Seq(meta.seq);
        if let Some(hint) = self.board.lost_hint.get()
            && seq.lt(Seq(frames.meta[hint as usize].seq))
        {
            self.board.lost_hint = Link::to(id);
        }
    }

    /// Deems everything lost that is under way: the retransmission timer expired (RFC 5681 §3.1, RFC 6675 §5.1).
    pub(super) fn mark_all_lost(&mut self, frames: &mut Frames<'_>) {
        while let Some(id) = self.oldest.get() {
            self.mark_lost(frames, id);
        }
    }

    /// Takes the marks of loss back: the segments were only late. Nearly always the order of sending is that of the
    /// numbers, so one walk over both lists puts them in their places.
    pub(super) fn unmark_lost(&mut self, frames: &mut Frames<'_>) {
        let (mut at, mut before) = (self.head, Link::NONE);
        while let Some(id) = at.get() {
            if at == self.next {
                break;
            }
            let meta = &mut frames.meta[id as usize];
            let this = core::mem::replace(&mut at, meta.next);
            if meta.flags & flag::LOST == 0 {
                continue;
            }
            meta.flags &= !flag::LOST;
            self.board.lost -= length(meta);
            self.pipe += length(meta);
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

    /// Whether the first segment is marked as received though it is not acknowledged: the peer threw it away (reneged).
    pub(super) fn reneged(&self, frames: &Frames<'_>) -> bool {
        self.head.get().is_some_and(|id| frames.meta[id as usize].flags & flag::SACKED != 0)
    }

    /// Takes all marks of reception back (RFC 2018 §8, after a timeout); the segments count as lost.
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
