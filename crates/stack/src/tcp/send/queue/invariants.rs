//! Invariants of a send queue: see [`crate::Stack::check_invariants`].

use super::{SendQueue, end, length};
use crate::frame::{FrameId, Frames, flag};
use crate::pool::PoolLink;
use crate::pool::invariants::walk;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use std::collections::BTreeSet;

impl SendQueue {
    /// Checks that the queue's two orders, its counters and its frames agree; passes each frame to
    /// `visit`.
    pub(in crate::tcp) fn check_invariants(&self, frames: &Frames<'_>, mut visit: impl FnMut(FrameId)) {
        let (mut seq, mut last, mut unsent) = (self.una, PoolLink::NONE, false);
        let (mut pipe, mut lost, mut sacked, mut under_way) = (0, 0, 0, 0);
        let (mut resent, mut again) = (0, 0);
        let mut skips = BTreeSet::new();
        let count = walk(self.head, self.frames as usize, |id| {
            let meta = &frames.meta[id as usize];
            visit(id);
            unsent |= PoolLink::to(id) == self.next;
            assert_eq!(Seq(meta.seq), seq, "segments adjoin");
            assert!(length(meta) > 0, "a frame without a number");
            let marks = meta.flags & (flag::SACKED | flag::LOST);
            match marks {
                _ if unsent => assert_eq!((marks, meta.transmits), (0, 0), "what was never sent is not marked"),
                flag::SACKED => sacked += length(meta),
                flag::LOST => lost += length(meta),
                _ => {
                    assert_eq!(marks, 0, "what has arrived is not lost");
                    pipe += length(meta);
                    under_way += 1;
                    let sent_twice = meta.flags & flag::RETRANSMITTED != 0;
                    again += if sent_twice { length(meta) } else { 0 };
                    resent += if meta.flags & flag::RESENT != 0 { length(meta) } else { 0 };
                }
            }
            if let Some(ahead) = meta.prev.get() {
                let far = Seq(frames.meta[ahead as usize].seq).gt(seq);
                assert!(far && skips.insert(ahead), "skips go ahead");
            }
            skips.remove(&id);
            (seq, last) = (end(meta), PoolLink::to(id));
            meta.next
        });
        assert!(skips.is_empty(), "skips end in the queue");
        assert_eq!((last, count), (self.tail, self.frames as usize), "the queue's end and frames");
        if count > 0 {
            assert_eq!(seq, self.end, "the last number");
            let marked = (pipe, lost, sacked);
            assert_eq!(marked, (self.pipe, self.board.lost, self.board.sacked), "under way, lost, arrived");
            let told = (self.board.resent, self.board.again);
            assert_eq!((resent, again), told, "under way again after a loss, and for whatever reason");
            assert_eq!(pipe + lost + sacked, self.nxt - self.una, "all that is outstanding");
        }
        self.check_times(frames, under_way);
    }

    fn check_times(&self, frames: &Frames<'_>, under_way: usize) {
        let (mut before, mut time) = (PoolLink::NONE, Instant::NEVER);
        let count = walk(self.oldest, under_way, |id| {
            let meta = &frames.meta[id as usize];
            assert_eq!(meta.older, before, "the order of sending, backwards");
            assert!(meta.at >= time, "the order of sending");
            (time, before) = (meta.at, PoolLink::to(id));
            meta.newer
        });
        assert_eq!((before, count), (self.newest, under_way), "what is under way");
    }
}
