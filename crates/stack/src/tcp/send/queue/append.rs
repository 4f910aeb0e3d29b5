//! Appending the program's data to the queue.

use super::{IN_FLIGHT, STRIDE, SendQueue};
use crate::frame::{FRAME_SIZE, FrameId, Frames, HEADROOM, flag};
use crate::pool::PoolLink;

impl SendQueue {
    /// The unsent tail and the bytes it can still take, up to a length of `part`.
    fn tail_room(&self, frames: &Frames<'_>, part: usize) -> Option<(FrameId, usize)> {
        if self.next.is_none() {
            return None;
        }
        let id = self.tail.get()?;
        let meta = &frames.meta[id as usize];
        if meta.flags & (IN_FLIGHT | flag::FIN) != 0 {
            return None;
        }
        let in_frame = FRAME_SIZE - usize::from(meta.offset) - usize::from(meta.len);
        let room = part.saturating_sub(usize::from(meta.len)).min(in_frame);
        (room > 0).then_some((id, room))
    }

    fn append_frame(&mut self, frames: &mut Frames<'_>) -> Option<FrameId> {
        let id = frames.take()?;
        let meta = &mut frames.meta[id as usize];
        meta.offset = HEADROOM as u16;
        meta.seq = self.end.0;
        match self.tail.get() {
            Some(tail) => frames.meta[tail as usize].next = PoolLink::to(id),
            None => self.head = PoolLink::to(id),
        }
        self.extend_trail(frames, id);
        self.tail = PoolLink::to(id);
        if self.next.is_none() {
            self.next = PoolLink::to(id);
        }
        self.frames += 1;
        Some(id)
    }

    /// Frame `id` is appended behind the tail: the tail, which stays, becomes the skip target of an
    /// earlier frame.
    fn extend_trail(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        let Some(trail) = self.trail.get() else {
            (self.trail, self.behind) = (PoolLink::to(id), 0);
            return;
        };
        self.behind += 1;
        if self.behind > STRIDE {
            let meta = &mut frames.meta[trail as usize];
            meta.prev = self.tail;
            (self.trail, self.behind) = (meta.next, self.behind - 1);
        }
    }

    /// Queues up to `limit` bytes: first into the unsent tail, then into new frames of at most
    /// `part` bytes each. `fill` writes into the buffer that it gets and returns how much; less
    /// than the whole buffer means that it has no more. Stops when the free frames would fall to
    /// `reserve`. Returns the bytes taken.
    pub(in crate::tcp) fn append(
        &mut self,
        frames: &mut Frames<'_>,
        part: usize,
        mut limit: usize,
        reserve: usize,
        mut fill: impl FnMut(&mut [u8]) -> usize,
    ) -> usize {
        let mut total = 0;
        let mut room = self.tail_room(frames, part);
        while limit > 0 {
            let (id, space) = match room.take() {
                Some(room) => room,
                None if frames.available() > reserve => match self.append_frame(frames) {
                    Some(id) => (id, part.min(FRAME_SIZE - HEADROOM)),
                    None => break,
                },
                None => break,
            };
            let space = space.min(limit);
            let meta = &frames.meta[id as usize];
            let start = usize::from(meta.offset) + usize::from(meta.len);
            let taken = fill(&mut frames.bytes_mut(id)[start..start + space]).min(space);
            frames.meta[id as usize].len += taken as u16;
            self.end += taken as u32;
            total += taken;
            limit -= taken;
            if taken < space {
                if frames.meta[id as usize].len == 0 {
                    self.drop_empty_tail(frames, id);
                }
                break;
            }
        }
        total
    }

    /// Frees a frame that was just appended and got no byte.
    fn drop_empty_tail(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        if self.head == PoolLink::to(id) {
            (self.head, self.tail) = (PoolLink::NONE, PoolLink::NONE);
        } else {
            let mut at = self.head;
            while let Some(before) = at.get() {
                at = frames.meta[before as usize].next;
                if at == PoolLink::to(id) {
                    frames.meta[before as usize].next = PoolLink::NONE;
                    self.tail = PoolLink::to(before);
                    break;
                }
            }
        }
        if self.next == PoolLink::to(id) {
            self.next = PoolLink::NONE;
        }
        if self.trail == PoolLink::to(id) {
            self.trail = PoolLink::NONE;
        }
        self.behind = self.behind.saturating_sub(1);
        self.frames -= 1;
        frames.give(id);
    }

    /// Queues FIN: on the unsent tail, or in a frame of its own. False if there is no free frame
    /// for it.
    pub(in crate::tcp) fn append_fin(&mut self, frames: &mut Frames<'_>) -> bool {
        let tail = if self.next.is_none() { None } else { self.tail.get() };
        let Some(id) = tail.or_else(|| self.append_frame(frames)) else { return false };
        frames.meta[id as usize].flags |= flag::FIN | flag::PUSH;
        self.end += 1;
        true
    }

    /// Marks the last unsent segment to carry PSH.
    pub(in crate::tcp) fn push_tail(&self, frames: &mut Frames<'_>) {
        if let (Some(_), Some(id)) = (self.next.get(), self.tail.get()) {
            frames.meta[id as usize].flags |= flag::PUSH;
        }
    }
}
