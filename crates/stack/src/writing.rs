//! Packets taken from the stack by the thread that sends them.
//!
//! Packets of the prompt queue are copied, and count as sent when taken. Packets of streams are
//! sent from their frames, which must not change until the thread reports that they are sent: other
//! threads use the stack meanwhile.

use crate::Stack;
use crate::frame::{FrameId, flag};
use crate::queue::{Class, TransmitDescriptor};

impl Stack<'_> {
    /// Takes the next packet of the prompt queue, piece by piece, unless `sink` refuses the first.
    /// The caller must call [`Stack::prompt_gone`] for each piece taken, with the lock still held.
    pub fn prompt_next(&mut self, mut sink: impl FnMut(TransmitDescriptor) -> bool) {
        self.hand_out(Class::Prompt, 1, flag::IN_KERNEL, &mut sink);
    }

    /// A piece of a packet has been copied.
    pub fn prompt_gone(&mut self, piece: TransmitDescriptor) {
        self.gone(piece);
    }

    /// Takes packets of streams until `sink` refuses one. The caller must then call
    /// [`Stack::stream_end`]. If its process dies in between, the next caller of
    /// [`Stack::stream_recover`] does so instead. One thread at a time.
    pub fn stream_begin(&mut self, mut sink: impl FnMut(TransmitDescriptor) -> bool) {
        self.mem.core.writing = 1;
        self.hand_out(Class::Stream, usize::MAX, flag::IN_KERNEL | flag::WRITING, &mut sink);
    }

    /// All packets taken have been sent.
    pub fn stream_end(&mut self, gone: impl IntoIterator<Item = TransmitDescriptor>) {
        gone.into_iter().for_each(|piece| self.gone(piece));
        self.mem.core.writing = 0;
    }

    /// Whether a thread has taken packets of streams, and has not reported that they are sent.
    #[must_use]
    #[inline]
    pub fn stream_is_begun(&self) -> bool {
        self.mem.core.writing != 0
    }

    /// Completes the transmission of a process that has died. It is unknown whether its packets
    /// were sent; they are retransmitted if need be. Only if no living thread is sending.
    #[cold]
    pub fn stream_recover(&mut self) {
        let out = flag::IN_KERNEL | flag::WRITING;
        for id in 0..self.mem.frames.meta.len() as FrameId {
            if self.mem.frames.meta[id as usize].flags & out == out {
                self.completed(id);
            }
        }
        self.mem.core.writing = 0;
    }

    fn gone(&mut self, piece: TransmitDescriptor) {
        self.completed(piece.frame);
        self.mem.counters.tx_packets.add(u64::from(!piece.more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;
    use crate::queue::Queued;
    use crate::{Limits, OwnedMemory};

    const LIMITS: Limits = Limits { frames: 64, ..Limits::DEFAULT };

    /// Queued frames; the first `kept` stay allocated for retransmission, like TCP segments.
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
        stack.stream_begin(|packet| {
            taken.push(packet.frame);
            true
        });
        taken
    }

    fn packet(frame: FrameId) -> TransmitDescriptor {
        TransmitDescriptor { frame, offset: 0, len: 60, more: false }
    }

    fn in_use(frames: &Frames<'_>) -> usize {
        frames.meta.len() - frames.available()
    }

    #[test]
    fn what_a_dead_process_has_begun_is_ended_in_its_place() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = Stack::new(memory.memory());
        // One frame is in the ring as far as known, and stays there.
        let ring = queued(&mut stack, 1, 1)[0];
        stack.egress(crate::time::Instant::from_nanos(1), |_| true);
        let frames = queued(&mut stack, 1, 3);
        assert_eq!(taken(&mut stack), frames);
        stack.stream_recover();
        assert_eq!(in_use(&stack.mem.frames), 2);
        assert_eq!(stack.mem.frames.meta[ring as usize].flags & flag::IN_KERNEL, flag::IN_KERNEL);
        assert_eq!(stack.mem.frames.meta[frames[0] as usize].flags & flag::IN_KERNEL, 0);
        let before = stack.counters().eth_in_bad_frame.get();
        stack.completed(ring);
        assert_eq!(stack.counters().eth_in_bad_frame.get(), before);
        stack.stream_recover();
    }

    #[test]
    fn what_is_not_of_a_stream_is_taken_beside_a_thread_that_sends_a_stream() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = Stack::new(memory.memory());
        let frames = queued(&mut stack, 2, 4);
        assert!(!stack.stream_is_begun());
        assert_eq!(taken(&mut stack), frames);
        let prompt = stack.mem.frames.take().unwrap();
        let whole = Queued { frame: prompt, offset: 0, len: 60, rest: 0, class: Class::Prompt, behind: 0 };
        stack.enqueue(whole);
        stack.mem.frames.give(prompt);
        stack.prompt_next(|_| false);
        assert_eq!(stack.prompt_len(), 1, "it was refused");
        let mut pieces = Vec::new();
        stack.prompt_next(|piece| {
            pieces.push(piece);
            true
        });
        pieces.iter().for_each(|&piece| stack.prompt_gone(piece));
        assert_eq!((pieces, stack.prompt_len()), (vec![packet(prompt)], 0));
        assert_eq!(in_use(&stack.mem.frames), 4);
        assert!(stack.stream_is_begun());
        stack.stream_end(frames.iter().map(|&frame| packet(frame)));
        assert!(!stack.stream_is_begun());
        assert_eq!(in_use(&stack.mem.frames), 2, "those kept for sending again");
        assert_eq!(stack.counters().eth_in_bad_frame.get(), 0);
        assert_eq!(stack.counters().tx_packets.get(), 5, "each once");
    }
}
