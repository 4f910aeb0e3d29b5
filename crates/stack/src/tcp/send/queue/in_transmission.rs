//! Frames that the kernel does not return. A device that is reset, or loses a queue, never
//! completes its frames: the segment must be sent in another frame.

use super::{IN_FLIGHT, SendQueue};
use crate::frame::{FRAME_SIZE, FrameId, FrameMeta, Frames, HEADROOM, flag};
use crate::pool::PoolLink;
use crate::time::{Instant, Span};

/// A frame that is not completed after this long never will be. No transmit queue takes as long, so
/// a frame that is only late is not copied.
const KEPT: Span = Span::from_secs(1);

/// Whether a segment may still be waiting to leave this host: then no loss is assumed.
pub(in crate::tcp) fn is_leaving(meta: &FrameMeta, now: Instant) -> bool {
    meta.flags & IN_FLIGHT != 0 && now.since(meta.at) < KEPT
}

impl SendQueue {
    /// Frame `id`, which is deemed lost, or a copy in its place if the kernel keeps it. `None` if
    /// it cannot be sent now: it has not left this host yet, there is no free frame for the copy,
    /// or it is not the first. (Only the first can be replaced, since no other frame refers to it.
    /// The others become the first as soon as everything before them is acknowledged.)
    pub(in crate::tcp) fn released(&mut self, frames: &mut Frames<'_>, id: FrameId, now: Instant) -> Option<FrameId> {
        let meta = &frames.meta[id as usize];
        if meta.flags & IN_FLIGHT == 0 {
            return Some(id);
        }
        // A frame in our own queue would only wait again.
        if is_leaving(meta, now) || meta.flags & flag::QUEUED != 0 || self.head != PoolLink::to(id) {
            return None;
        }
        self.copy_head(frames, id)
    }

    /// A copy replaces the first frame, which is freed if the kernel returns it after all.
    fn copy_head(&mut self, frames: &mut Frames<'_>, id: FrameId) -> Option<FrameId> {
        let copy = frames.take()?;
        let meta = &frames.meta[id as usize];
        let from = id as usize * FRAME_SIZE + usize::from(meta.offset);
        let (len, flags) = (usize::from(meta.len), meta.flags & !(IN_FLIGHT | flag::FREE_ON_COMPLETE));
        frames.meta[copy as usize] = FrameMeta { offset: HEADROOM as u16, flags, ..*meta };
        frames.bytes.copy_within(from..from + len, copy as usize * FRAME_SIZE + HEADROOM);
        self.head = PoolLink::to(copy);
        for link in [&mut self.tail, &mut self.trail] {
            if *link == PoolLink::to(id) {
                *link = PoolLink::to(copy);
            }
        }
        self.board.forget(id, PoolLink::to(copy));
        frames.give(id);
        Some(copy)
    }
}
