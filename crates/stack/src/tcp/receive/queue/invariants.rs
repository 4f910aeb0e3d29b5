//! Invariants of a receive queue: see [`crate::Stack::check_invariants`].

use super::{MAX_RANGES, ReceiveQueue};
use crate::frame::{FrameId, Frames};
use crate::pool::PoolLink;
use crate::pool::invariants::walk;
use crate::tcp::wire::seq::Seq;

impl ReceiveQueue {
    /// Checks that the queue's lists and counters agree; passes each frame to `visit`.
    pub(in crate::tcp) fn check_invariants(&self, frames: &Frames<'_>, mut visit: impl FnMut(FrameId)) {
        let (mut bytes, mut last) = (0, PoolLink::NONE);
        let count = walk(self.head, self.frames as usize, |id| {
            let meta = &frames.meta[id as usize];
            visit(id);
            bytes += u32::from(meta.len);
            last = PoolLink::to(id);
            meta.next
        });
        assert_eq!((count, bytes), (self.frames as usize, self.bytes), "frames and bytes in order");
        assert!(count == 0 || last == self.tail, "the end of what is in order");
        let (mut waiting, mut waiting_bytes, mut edge) = (0, 0, self.next);
        let ranges = walk(self.ranges, MAX_RANGES.into(), |range| {
            let meta = &frames.meta[range as usize];
            assert!(Seq(meta.total).gt(edge), "ranges are in order, with gaps between them");
            edge = Seq(meta.total);
            let mut at = meta.next;
            loop {
                let id = at.get().expect("a range is a ring");
                let piece = &frames.meta[id as usize];
                visit(id);
                assert_eq!(Seq(piece.seq), edge, "the frames of a range adjoin");
                edge += u32::from(piece.len);
                waiting += 1;
                waiting_bytes += u32::from(piece.len);
                assert!(waiting <= self.waiting_frames, "a range that does not end");
                if id == range {
                    break;
                }
                at = piece.next;
            }
            meta.prev
        });
        assert_eq!(ranges, usize::from(self.range_count), "ranges");
        assert_eq!((waiting, waiting_bytes), (self.waiting_frames, self.waiting_bytes), "what is out of order");
    }
}
