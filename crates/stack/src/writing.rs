//! Packets on their way out by calls that have sent them when they return: handed over and completed while nothing else changes.

use crate::Stack;
use crate::frame::{FrameId, flag};
use crate::queue::{Class, Transmit};

impl Stack<'_> {
    /// Hands out so many packets of one class at most, for a call that has sent them when it returns. [`Stack::write_end`] is to follow. If the calling
    /// process dies in between, the next caller of [`Stack::write_recover`] ends it in its place.
    pub fn write_begin(&mut self, class: Class, most: usize, mut sink: impl FnMut(Transmit) -> bool) {
        self.mem.core.writing = 1;
        self.hand_out(class, most, flag::IN_KERNEL | flag::WRITING, &mut sink);
    }

    /// So many frames of streams that were taken last, and have not gone, are at the head of their queue again.
    pub fn write_return(&mut self, frames: impl ExactSizeIterator<Item = FrameId>) {
        self.mem.core.queues.take_back(frames.len() as u32);
        for frame in frames {
            if let Some(meta) = self.mem.frames.meta.get_mut(frame as usize) {
                meta.flags = meta.flags & !(flag::IN_KERNEL | flag::WRITING) | flag::QUEUED;
            }
        }
    }

    /// These have gone.
    pub fn write_end(&mut self, gone: impl IntoIterator<Item = Transmit>) {
        for packet in gone {
            self.completed(packet.frame);
            self.mem.counters.tx_packets.add(u64::from(!packet.more));
        }
        self.mem.core.writing = 0;
    }

    /// Ends what a process that has died had begun: whether its packets have gone is not known, and they are sent again if need be.
    #[inline]
    pub fn write_recover(&mut self) {
        if self.mem.core.writing != 0 {
            self.recover();
        }
    }

    #[cold]
    fn recover(&mut self) {
        let out = flag::IN_KERNEL | flag::WRITING;
        for id in 0..self.mem.frames.meta.len() as FrameId {
            if self.mem.frames.meta[id as usize].flags & out == out {
                self.completed(id);
            }
        }
        self.mem.core.writing = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;
    use crate::queue::Queued;
    use crate::{Limits, OwnedMemory};

    const LIMITS: Limits = Limits { frames: 64, ..Limits::DEFAULT };

    /// Frames that wait to be sent; the first so many are kept for sending again, as a TCP segment is.
    fn queued(stack: &mut Stack<'_>, kept: usize, all: usize) -> Vec<FrameId> {
        let frames: Vec<FrameId> = (0..all).map(|_| stack.mem.frames.take().unwrap()).collect();
        for (place, &frame) in frames.iter().enumerate() {
            stack.enqueue(Queued { frame, offset: 0, len: 60, rest: 0, class: Class::Stream, behind: 0 });
            if place >= kept {
                stack.mem.frames.give(frame);
            }
        }
        frames
    }

    fn taken(stack: &mut Stack<'_>) -> Vec<FrameId> {
        let mut taken = Vec::new();
        stack.write_begin(Class::Stream, usize::MAX, |packet| {
            taken.push(packet.frame);
            true
        });
        taken
    }

    fn packet(frame: FrameId) -> Transmit {
        Transmit { frame, offset: 0, len: 60, more: false }
    }

    fn in_use(frames: &Frames<'_>) -> usize {
        frames.meta.len() - frames.available()
    }

    #[test]
    fn what_a_dead_process_has_begun_is_ended_in_its_place() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = Stack::new(memory.memory());
        // One is in the ring, as far as anybody knows, and stays there.
        let ring = queued(&mut stack, 1, 1)[0];
        stack.egress(crate::time::Instant::from_nanos(1), |_| true);
        let frames = queued(&mut stack, 1, 3);
        assert_eq!(taken(&mut stack), frames);
        stack.write_recover();
        assert_eq!(in_use(&stack.mem.frames), 2);
        assert_eq!(stack.mem.frames.meta[ring as usize].flags & flag::IN_KERNEL, flag::IN_KERNEL);
        assert_eq!(stack.mem.frames.meta[frames[0] as usize].flags & flag::IN_KERNEL, 0);
        let before = stack.counters().eth_in_bad_frame.get();
        stack.completed(ring);
        assert_eq!(stack.counters().eth_in_bad_frame.get(), before);
        stack.write_recover();
    }

    #[test]
    fn what_has_not_gone_is_at_the_head_of_its_queue_again() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = Stack::new(memory.memory());
        let frames = queued(&mut stack, 2, 4);
        assert_eq!(taken(&mut stack), frames);
        stack.write_return(frames[1..].iter().copied());
        stack.write_end([packet(frames[0])]);
        assert_eq!(stack.stream_len(), 3);
        let last = queued(&mut stack, 0, 1);
        let mut out = Vec::new();
        stack.egress(crate::time::Instant::from_nanos(1), |packet| {
            out.push(packet.frame);
            true
        });
        assert_eq!(out, [&frames[1..], &last[..]].concat());
        out.iter().for_each(|&frame| stack.completed(frame));
        assert_eq!(in_use(&stack.mem.frames), 2, "those kept for sending again");
        assert_eq!(stack.counters().eth_in_bad_frame.get(), 0);
        assert_eq!(stack.counters().tx_packets.get(), 5, "each once");
    }
}
