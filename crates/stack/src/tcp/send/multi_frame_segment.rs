//! Segments longer than a frame: a run of consecutive frames of the send queue that is sent as one
//! packet.
//!
//! Marks, order and acknowledgement belong to the frames, so only the choice of what is sent
//! together deals with runs. There are none where the interface's MTU lets a segment fit into a
//! frame, nor where the kernel does not accept a packet in pieces.

use super::queue::{IN_FLIGHT, SendQueue, length};
use crate::frame::{FrameId, Frames, HEADROOM, MAX_PAYLOAD, MOST_PIECES, flag};

/// The part of a segment of `mss` bytes in one frame: equal parts, so that a queue of full frames
/// makes full segments.
pub(in crate::tcp) const fn part(mss: usize) -> usize {
    if mss <= MAX_PAYLOAD { mss } else { (mss / mss.div_ceil(MAX_PAYLOAD)) & !7 }
}

/// The largest segment size up to `mss` that consists of whole parts.
pub(in crate::tcp) fn whole_parts(mss: usize) -> usize {
    let mss = mss.min(MOST_PIECES * MAX_PAYLOAD);
    let parts = mss.div_ceil(MAX_PAYLOAD);
    // Slightly above a number of full frames, the full frames hold more.
    (part(mss) * parts).max((parts - 1) * MAX_PAYLOAD)
}

/// Consecutive frames that are sent as one segment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct MultiFrameSegment {
    /// The first frame.
    pub(in crate::tcp) first: FrameId,
    /// How many follow it.
    pub(in crate::tcp) rest: u16,
    /// Where the payload starts in the first frame.
    pub(in crate::tcp) offset: u16,
    /// Bytes of payload in the first frame.
    pub(in crate::tcp) len: u16,
    /// Bytes of payload in all frames.
    pub(in crate::tcp) total: u32,
    /// Sequence numbers taken: the payload, and FIN.
    pub(in crate::tcp) length: u32,
    /// [`flag::FIN`] and [`flag::PUSH`], if one of them has it.
    pub(in crate::tcp) flags: u16,
    /// It ends with the last frame of the queue.
    pub(in crate::tcp) is_tail: bool,
}

impl MultiFrameSegment {
    /// A frame for a segment without payload.
    pub(in crate::tcp) const fn bare(frame: FrameId) -> Self {
        let offset = HEADROOM as u16;
        Self { first: frame, rest: 0, offset, len: 0, total: 0, length: 0, flags: 0, is_tail: false }
    }

    /// One frame of the send queue.
    pub(in crate::tcp) fn of(frames: &Frames<'_>, id: FrameId) -> Self {
        let meta = &frames.meta[id as usize];
        let (offset, len, flags) = (meta.offset, meta.len, meta.flags & (flag::FIN | flag::PUSH));
        let is_tail = meta.next.is_none();
        Self { first: id, rest: 0, offset, len, total: len.into(), length: length(meta), flags, is_tail }
    }

    /// The frame `first` and those behind it that may be sent together with it, up to `most`
    /// sequence numbers: either all are lost, or none was ever sent. The first frame alone may
    /// exceed `most`.
    pub(in crate::tcp) fn from(frames: &Frames<'_>, first: FrameId, most: usize) -> Self {
        let mut run = Self::of(frames, first);
        if most <= MAX_PAYLOAD {
            return run;
        }
        let begin = &frames.meta[first as usize];
        let (lost, mut at) = (begin.flags & flag::LOST, begin.next);
        while let Some(id) = at.get().filter(|_| usize::from(run.rest) + 1 < MOST_PIECES) {
            let meta = &frames.meta[id as usize];
            let alike = meta.flags & flag::LOST == lost && (lost != 0 || meta.transmits == 0);
            let fits = run.length as usize + length(meta) as usize <= most;
            // A FIN in a frame of its own is sent alone: the kernel accepts no empty piece, and
            // never completes its frame.
            if !alike || !fits || meta.len == 0 || meta.flags & (IN_FLIGHT | flag::SACKED) != 0 {
                break;
            }
            run.rest += 1;
            run.total += u32::from(meta.len);
            run.length += length(meta);
            run.flags |= meta.flags & (flag::FIN | flag::PUSH);
            run.is_tail = meta.next.is_none();
            at = meta.next;
        }
        run
    }
}

impl SendQueue {
    /// The run at `first` of at most `most` bytes of payload; a longer frame is cut. `None` if
    /// there is no free frame for that.
    pub(in crate::tcp) fn cut_run(
        &mut self,
        frames: &mut Frames<'_>,
        first: FrameId,
        most: usize,
    ) -> Option<MultiFrameSegment> {
        self.split(frames, first, most).then(|| MultiFrameSegment::from(frames, first, most))
    }

    /// Deems the first segment lost: as much of a segment of `mss` bytes as was sent together with
    /// its first frame.
    pub(in crate::tcp) fn mark_first_lost(&mut self, frames: &mut Frames<'_>, mss: u32) {
        let (mut at, mut marked, mut sent) = (self.head, 0, None);
        while let Some(id) = at.get().filter(|_| at != self.next) {
            let meta = &frames.meta[id as usize];
            (at, marked) = (meta.next, marked + length(meta));
            let together = *sent.get_or_insert(meta.at) == meta.at && (marked <= mss || self.head.get() == Some(id));
            if !together || meta.flags & (flag::LOST | flag::SACKED) != 0 {
                return;
            }
            self.mark_lost(frames, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Limits, OwnedMemory};
    use crate::tcp::wire::seq::Seq;
    use crate::time::{Instant, Span};

    #[test]
    fn parts_are_equal_fit_a_frame_and_make_whole_segments() {
        for mss in 32..=MOST_PIECES * MAX_PAYLOAD + 100 {
            let whole = whole_parts(mss);
            assert!(whole <= mss && part(whole) <= MAX_PAYLOAD && whole.is_multiple_of(part(whole)), "{mss}");
            assert!(whole / part(whole) <= MOST_PIECES && whole_parts(whole) == whole, "{mss}");
            assert!(mss > MOST_PIECES * MAX_PAYLOAD || mss - whole < 64, "{mss} loses {}", mss - whole);
        }
        assert_eq!((whole_parts(1448), part(1448)), (1448, 1448));
        assert_eq!((whole_parts(8948), part(8920)), (8920, 1784));
    }

    #[test]
    fn a_run_holds_what_is_lost_or_what_was_never_sent() {
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = SendQueue::new(Seq(1));
        queue.append(frames, 1784, 12 * 1784 + 5, 16, |into| into.len());
        let ids: Vec<_> = {
            let mut at = queue.head;
            core::iter::from_fn(|| {
                let id = at.get()?;
                at = frames.meta[id as usize].next;
                Some(id)
            })
            .collect()
        };
        let whole = MultiFrameSegment::from(frames, ids[0], 8920);
        assert_eq!((whole.rest, whole.total, whole.is_tail), (4, 8920, false));
        assert_eq!(MultiFrameSegment::from(frames, ids[0], 8919).rest, 3, "whole frames only");
        assert_eq!(MultiFrameSegment::from(frames, ids[0], 1784).rest, 0);
        let end = MultiFrameSegment::from(frames, ids[10], 8920);
        assert_eq!((end.rest, end.total, end.is_tail), (2, 2 * 1784 + 5, true));
        for &id in &ids[..7] {
            queue.sent(frames, id, Instant::from_nanos(1));
        }
        assert_eq!(MultiFrameSegment::from(frames, ids[7], 8920).rest, 4);
        for &id in &ids[..4] {
            queue.mark_lost(frames, id);
        }
        assert_eq!(MultiFrameSegment::from(frames, ids[1], 8920).rest, 2, "what is under way is not sent again");
        frames.meta[ids[2] as usize].flags |= flag::QUEUED;
        assert_eq!(MultiFrameSegment::from(frames, ids[1], 8920).rest, 0, "what has not left yet ends it");
        frames.meta[ids[2] as usize].flags &= !flag::QUEUED;
        queue.clear(frames);
    }

    #[test]
    fn fin_in_a_frame_of_its_own_goes_alone() {
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = SendQueue::new(Seq(1));
        queue.append(frames, 1784, 2 * 1784, 16, |into| into.len());
        while let Some(id) = queue.next.get() {
            queue.sent(frames, id, Instant::from_nanos(1));
        }
        assert!(queue.append_fin(frames));
        let fin = queue.tail.get().unwrap();
        queue.sent(frames, fin, Instant::from_nanos(1));
        queue.mark_late_lost(frames, Instant::from_nanos(2), Span::ZERO, 8920);
        let run = MultiFrameSegment::from(frames, queue.head.get().unwrap(), 8920);
        assert_eq!((run.rest, run.length, run.flags & flag::FIN, run.is_tail), (1, 2 * 1784, 0, false));
        let run = MultiFrameSegment::from(frames, fin, 8920);
        assert_eq!((run.rest, run.length, run.flags & flag::FIN, run.is_tail), (0, 1, flag::FIN, true));
        queue.clear(frames);
    }

    #[test]
    fn without_sack_the_whole_first_segment_is_deemed_lost() {
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        for (part, mss, lost) in [(1784, 8920, 8920), (1448, 1448, 1448)] {
            let mut queue = SendQueue::new(Seq(1));
            queue.append(frames, part, 12 * part, 16, |into| into.len());
            while let Some(id) = queue.next.get() {
                queue.sent(frames, id, Instant::from_nanos(1));
            }
            queue.mark_first_lost(frames, mss);
            assert_eq!(queue.board.lost, lost);
            queue.clear(frames);
        }
    }
}
