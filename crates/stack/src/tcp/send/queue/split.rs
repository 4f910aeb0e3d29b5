//! Splitting a segment that must be sent in smaller ones.

use super::{IN_FLIGHT, SendQueue};
use crate::frame::{FRAME_SIZE, FrameId, Frames, HEADROOM, flag};
use crate::pool::PoolLink;

impl SendQueue {
    /// Splits a segment that is not in flight (unsent or lost) after `at` bytes; the rest moves to
    /// a new frame behind it. False if there is no free frame.
    pub(in crate::tcp) fn split(&mut self, frames: &mut Frames<'_>, id: FrameId, at: usize) -> bool {
        let meta = &frames.meta[id as usize];
        if at == 0 || at >= usize::from(meta.len) {
            return true;
        }
        let (offset, len, next) = (usize::from(meta.offset), usize::from(meta.len), meta.next);
        let flags = meta.flags & !(IN_FLIGHT | flag::FREE_ON_COMPLETE);
        let (seq, transmits, sent) = (meta.seq.wrapping_add(at as u32), meta.transmits, meta.at);
        let Some(new) = frames.take() else { return false };
        let from = id as usize * FRAME_SIZE + offset;
        frames.bytes.copy_within(from + at..from + len, new as usize * FRAME_SIZE + HEADROOM);
        let meta = &mut frames.meta[new as usize];
        meta.offset = HEADROOM as u16;
        meta.len = (len - at) as u16;
        (meta.seq, meta.flags, meta.next, meta.transmits, meta.at) = (seq, flags, next, transmits, sent);
        let meta = &mut frames.meta[id as usize];
        meta.len = at as u16;
        meta.flags &= !(flag::FIN | flag::PUSH);
        meta.next = PoolLink::to(new);
        if self.tail == PoolLink::to(id) {
            self.tail = PoolLink::to(new);
        }
        self.frames += 1;
        true
    }
}
