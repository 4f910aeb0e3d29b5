//! What must hold between the parts of a stack between any two calls. Simulations, the endurance test and fuzzers look at it at every step; nothing else does: it
//! takes as long as there are frames and sockets.
//!
//! Only a defect of ours can break any of it, whatever peers and programs do, so what is broken is told by a panic.

use crate::Stack;
use crate::frame::{FrameId, Frames, flag};
use crate::pool::Link;

/// The holder of free frames.
const FREE: &str = "the free list";

/// Who holds which frame.
#[derive(Debug)]
pub(crate) struct Holders {
    of: Vec<Option<&'static str>>,
}

impl Holders {
    /// Notes that a frame is held.
    #[track_caller]
    pub(crate) fn note(&mut self, frame: FrameId, holder: &'static str) {
        let before = self.of[frame as usize].replace(holder);
        assert_eq!(before, None, "frame {frame} has two holders, the other is {holder}");
    }

    /// Notes that a packet's frames are held: the first, and those chained to it.
    pub(crate) fn note_chain(&mut self, frames: &Frames<'_>, first: FrameId, holder: &'static str) -> u32 {
        let (mut at, mut count) = (first, 0);
        loop {
            self.note(at, holder);
            count += 1;
            let meta = &frames.meta[at as usize];
            match meta.next.get() {
                Some(next) if meta.flags & flag::MORE != 0 => at = next,
                _ => return count,
            }
        }
    }
}

impl Stack<'_> {
    /// Looks whether every frame has one holder, every list ends, every count is right, and every connection keeps to the laws of its numbers and has a
    /// timer for what it waits for.
    ///
    /// # Panics
    /// If anything is wrong, with what.
    pub fn audit(&self) {
        let mut holders = Holders { of: vec![None; self.mem.frames.meta.len()] };
        let (free, frames) = (&self.mem.frames.free, &self.mem.frames);
        free.each(frames.meta.len(), |id| frames.meta[id as usize].next, |id| holders.note(id, FREE));
        self.audit_connections(&mut holders);
        self.audit_datagrams(&mut holders);
        self.audit_reassemblies(&mut holders);
        if let Some(first) = self.mem.core.partial_head.get() {
            let count = holders.note_chain(&self.mem.frames, first, "a packet that is coming in");
            assert!(count <= self.mem.core.partial_len);
        }
        self.audit_rings(&holders);
    }

    /// Frames that nobody holds are on their way out, and are freed afterwards; what the rings are said to hold they hold.
    fn audit_rings(&self, holders: &Holders) {
        let core = &self.mem.core;
        let (mut filled, mut queued) = (0, 0);
        for (id, (meta, holder)) in self.mem.frames.meta.iter().zip(&holders.of).enumerate() {
            match holder {
                Some(FREE) => continue,
                Some(holder) => {
                    let stray = meta.flags & (flag::FILLED | flag::FREE_ON_COMPLETE);
                    assert_eq!(stray, 0, "frame {id} of {holder} is someone else's, too: {:#x}", meta.flags);
                }
                None if meta.flags & flag::FILLED != 0 => filled += 1,
                None => {
                    let leaves = meta.flags & (flag::QUEUED | flag::IN_KERNEL) != 0;
                    assert!(
                        leaves && meta.flags & flag::FREE_ON_COMPLETE != 0,
                        "frame {id} is lost: {:#x}",
                        meta.flags
                    );
                }
            }
            queued += u32::from(meta.flags & flag::QUEUED != 0);
        }
        assert_eq!(filled, core.filled, "frames in the fill ring");
        let waiting: u32 = self.mem.paths.iter().map(|path| path.waiting).sum();
        assert_eq!(queued, core.queue_tail.wrapping_sub(core.queue_head) + waiting, "frames queued to be sent");
        assert_eq!(waiting as usize, core.free_waiting.used(), "frames that wait for neighbours");
    }
}

/// Follows a list, which may be no longer than `most`; says how long it is.
#[track_caller]
pub(crate) fn walk(mut at: Link, most: usize, mut next: impl FnMut(u32) -> Link) -> usize {
    let mut count = 0;
    while let Some(index) = at.get() {
        count += 1;
        assert!(count <= most, "a list is longer than it can be");
        at = next(index);
    }
    count
}
