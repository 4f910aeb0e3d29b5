//! Transmission: from the protocols through the transmit queues to the sender, and back on
//! completion.

use crate::Stack;
use crate::frame::{FRAME_SIZE, FrameId, Frames, flag};
use crate::time::Instant;
use zerocopy::FromZeros;

/// The most packets that one queue hands out before the other one's turn.
const TURN: usize = 32;

/// The transmit queue of a packet. Packets of a bulk stream in one common queue would delay all
/// others of the lane: those of a thread that sends one message a millisecond, for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u16)]
pub enum Class {
    /// Sent first: datagrams, and connections that have little in flight.
    #[default]
    Prompt = 0,
    /// Sent behind those: connections that have much in flight.
    Stream = 1,
}

shared_layout! { enum Class { Prompt, Stream } }

/// Head and tail of a queue, in a ring of a power of two; both run freely.
#[derive(Debug, FromZeros)]
#[repr(C)]
struct Ends {
    /// Index of the next packet to take.
    head: u32,
    /// Index of the next free entry.
    tail: u32,
}

shared_layout! { Ends { head, tail } }

/// The two transmit queues, each with its own ring ([`Queues::of`]).
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct Queues {
    prompt: Ends,
    stream: Ends,
    /// Which one to hand out first: the one that the sender did not refuse last, or the one with a
    /// cut packet.
    turn: Class,
    /// Whether the rest of that queue's last packet is still at its head.
    cut: u16,
}

shared_layout! { Queues { prompt, stream, turn, cut } }

impl Queues {
    fn of(&mut self, class: Class) -> &mut Ends {
        match class {
            Class::Prompt => &mut self.prompt,
            Class::Stream => &mut self.stream,
        }
    }

    /// How many frames wait.
    pub(crate) fn len(&self) -> u32 {
        self.prompt.len() + self.stream.len()
    }

    /// Whether a packet has been taken only in part.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut != 0
    }
}

impl Ends {
    fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }
}

/// A packet on its way to the transmit queue, or a piece of one in it. It has bounds of its own,
/// because the notes of a TCP segment's frame continue to describe the payload, of which the peer
/// may acknowledge a part meanwhile.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Queued {
    pub(crate) frame: FrameId,
    pub(crate) offset: u16,
    pub(crate) len: u16,
    /// The number of further frames of the packet. Before it is queued they are chained by `next`
    /// and delimited by their notes.
    pub(crate) rest: u16,
    /// Its queue.
    pub(crate) class: Class,
    /// In the stream queue: the tail of the other queue at the time of queueing. Earlier packets
    /// there are sent first, since they may belong to the same connection.
    pub(crate) behind: u32,
}

shared_layout! { Queued { frame, offset, len, rest, class, behind } }

impl Queued {
    /// The next piece of the packet.
    pub(crate) fn continued(&self, frames: &Frames<'_>) -> Option<Self> {
        let rest = self.rest.checked_sub(1)?;
        let frame = frames.meta[self.frame as usize].next.get()?;
        let meta = &frames.meta[frame as usize];
        Some(Self { frame, offset: meta.offset, len: meta.len, rest, class: self.class, behind: 0 })
    }
}

/// A packet, or a piece of one, to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitDescriptor {
    /// The frame.
    pub frame: FrameId,
    /// Where the packet (its Ethernet header), or the piece, starts in the frame.
    pub offset: u16,
    /// The length of the packet or piece in bytes, never 0.
    pub len: u16,
    /// Whether the packet continues in the next frame handed out. Only where the interface's MTU
    /// requires it.
    pub more: bool,
}

impl Stack<'_> {
    /// Puts a packet at the end of its transmit queue. None of its frames may be queued already.
    pub(crate) fn enqueue(&mut self, packet: Queued) {
        let mut piece = Some(packet);
        while let Some(item) = piece {
            piece = item.continued(&self.mem.frames);
            self.enqueue_piece(item);
        }
    }

    /// A queue's head and tail, and its ring.
    fn transmit_queue(&mut self, class: Class) -> (&mut Ends, &mut [Queued]) {
        let ring = match class {
            Class::Prompt => &mut *self.mem.queue,
            Class::Stream => &mut *self.mem.streams,
        };
        (self.mem.core.queues.of(class), ring)
    }

    /// Puts one piece of a packet at the end of its transmit queue.
    pub(crate) fn enqueue_piece(&mut self, item: Queued) {
        let behind = self.mem.core.queues.prompt.tail;
        let (ends, ring) = self.transmit_queue(item.class);
        let mask = ring.len() as u32 - 1;
        // There are at least as many entries as frames, and a frame is queued at most once.
        debug_assert!(ends.len() <= mask);
        ring[(ends.tail & mask) as usize] = Queued { behind, ..item };
        ends.tail = ends.tail.wrapping_add(1);
        self.mem.frames.meta[item.frame as usize].flags |= flag::QUEUED;
    }

    /// Whether packets wait to be sent.
    #[must_use]
    pub fn has_egress(&self) -> bool {
        self.mem.core.queues.len() != 0
    }

    /// How many frames wait in the stream queue.
    #[must_use]
    pub fn stream_len(&self) -> usize {
        self.mem.core.queues.stream.len() as usize
    }

    /// How many frames wait in the prompt queue.
    #[must_use]
    pub fn prompt_len(&self) -> usize {
        self.mem.core.queues.prompt.len() as usize
    }

    /// Hands out the waiting packets, of each queue in order, until there are none or `sink`
    /// returns `false`. Then it has no room, and that packet, or the rest of it, stays. Every frame
    /// handed out returns through [`Stack::completed`]. Returns how many packets were handed out
    /// completely.
    pub fn egress(&mut self, _now: Instant, mut sink: impl FnMut(TransmitDescriptor) -> bool) -> usize {
        let first = self.mem.core.queues.turn;
        let second = if first == Class::Prompt { Class::Stream } else { Class::Prompt };
        let mut sent = 0;
        'full: while self.has_egress() {
            for (class, other) in [(first, second), (second, first)] {
                let (packets, is_full) = self.hand_out(class, TURN, flag::IN_KERNEL, &mut sink);
                sent += packets;
                if is_full {
                    let queues = &mut self.mem.core.queues;
                    queues.turn = if queues.is_cut() { class } else { other };
                    break 'full;
                }
            }
        }
        self.mem.counters.tx_packets.add(sent as u64);
        self.udp_write_space();
        sent
    }

    /// Hands out at most `most` packets of a queue, and none of a stream before the packets it is
    /// behind; sets `mark` in their frames. Returns how many were handed out completely, and
    /// whether `sink` refused one.
    pub(crate) fn hand_out(
        &mut self,
        class: Class,
        most: usize,
        mark: u16,
        sink: &mut impl FnMut(TransmitDescriptor) -> bool,
    ) -> (usize, bool) {
        let ring = match class {
            Class::Prompt => &*self.mem.queue,
            Class::Stream => &*self.mem.streams,
        };
        let mask = ring.len() as u32 - 1;
        let queues = &mut self.mem.core.queues;
        let (mut sent, mut is_full) = (0, false);
        while queues.of(class).len() != 0 && sent < most {
            let Queued { frame, offset, len, rest, behind, .. } = ring[(queues.of(class).head & mask) as usize];
            // Both counters run freely, and never differ by more than the length of a queue.
            if class == Class::Stream && (queues.prompt.head.wrapping_sub(behind) as i32) < 0 {
                break;
            }
            let meta = &mut self.mem.frames.meta[frame as usize];
            // Set before the sender can see the frame; undone on a refusal.
            let before = meta.flags;
            meta.flags = before & !(flag::QUEUED | flag::WRITING) | mark;
            if !sink(TransmitDescriptor { frame, offset, len, more: rest > 0 }) {
                meta.flags = before;
                is_full = true;
                break;
            }
            let ends = queues.of(class);
            ends.head = ends.head.wrapping_add(1);
            queues.cut = u16::from(rest > 0);
            sent += usize::from(rest == 0);
        }
        (sent, is_full)
    }

    /// A frame that [`Stack::egress`] handed out has been sent.
    pub fn completed(&mut self, frame: FrameId) {
        match self.mem.frames.meta.get_mut(frame as usize) {
            Some(meta) if meta.flags & flag::IN_KERNEL != 0 => {
                meta.flags &= !flag::IN_KERNEL;
                if meta.flags & (flag::FREE_ON_COMPLETE | flag::QUEUED) == flag::FREE_ON_COMPLETE {
                    self.mem.frames.give(frame);
                    self.udp_write_space();
                }
            }
            _ => self.mem.counters.eth_in_bad_frame.inc(),
        }
    }

    /// A poll begins that has found packets. Those received until [`Stack::batch_end`] count as
    /// having arrived together.
    #[inline]
    pub fn batch_begin(&mut self) {
        let core = &mut *self.mem.core;
        core.fill.polled(core.free_tcp.used() + core.free_udp.used());
        self.tcp_batch_begin();
    }

    /// All packets of a poll have been passed to [`Stack::receive`]: sends the acknowledgements
    /// that were deferred to this point.
    #[inline]
    pub fn batch_end(&mut self, now: Instant) {
        self.tcp_batch_end(now);
    }

    /// A free frame for the receive reserve, `None` when that has enough or the frames are needed
    /// elsewhere.
    pub(crate) fn refill(&mut self) -> Option<FrameId> {
        // Called at every poll: frames are taken and freed in other ways than by UDP, too.
        self.udp_note_room();
        self.udp_write_space();
        let core = &mut *self.mem.core;
        // The last sixteenth is kept for transmission: acknowledgements free memory. A half full
        // reserve also leaves frames for connections with nothing queued.
        let all = self.mem.frames.meta.len();
        let reserve = if core.filled >= core.fill.wanted / 2 { all / 8 } else { all / 16 };
        if core.filled >= core.fill.wanted || self.mem.frames.available() <= reserve {
            return None;
        }
        let id = self.mem.frames.take()?;
        self.mem.frames.meta[id as usize].flags = flag::FILLED;
        core.filled += 1;
        Some(id)
    }

    /// The bytes of a frame, for callers that emulate the device.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn frame(&self, frame: FrameId) -> &[u8] {
        self.mem.frames.bytes(frame)
    }

    /// The bytes of a frame, to write.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn frame_mut(&mut self, frame: FrameId) -> &mut [u8] {
        self.mem.frames.bytes_mut(frame)
    }

    /// Frames that are not free, including the receive reserve.
    #[must_use]
    pub fn frames_in_use(&self) -> usize {
        self.mem.frames.meta.len() - self.mem.frames.available()
    }
}

/// Whether bounds lie inside a frame.
pub(crate) fn in_frame(offset: usize, len: usize) -> bool {
    offset.checked_add(len).is_some_and(|end| end <= FRAME_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, OwnedMemory};

    const LIMITS: Limits = Limits { frames: 256, ..Limits::DEFAULT };

    /// Queues a frame of a packet of which `rest` more frames follow.
    fn queued(stack: &mut Stack<'_>, class: Class, rest: u16) -> FrameId {
        let frame = stack.mem.frames.take().unwrap();
        stack.enqueue_piece(Queued { frame, offset: 0, len: 60, rest, class, behind: 0 });
        stack.mem.frames.give(frame);
        frame
    }

    /// The frames handed out to a ring with room for `room`.
    fn handed_out(stack: &mut Stack<'_>, room: usize) -> Vec<FrameId> {
        let mut frames = Vec::new();
        stack.egress(Instant::from_nanos(1), |packet| {
            let is_room = frames.len() < room;
            frames.extend(is_room.then_some(packet.frame));
            is_room
        });
        frames.iter().for_each(|&frame| stack.completed(frame));
        frames
    }

    #[test]
    fn what_is_not_of_streams_goes_first_and_each_queue_keeps_its_order() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = memory.stack();
        let mut wanted = [Vec::new(), Vec::new()];
        for place in 0..6 {
            let class = [Class::Stream, Class::Prompt][place % 2];
            wanted[place % 2].push(queued(&mut stack, class, 0));
        }
        assert_eq!((stack.stream_len(), stack.prompt_len()), (3, 3));
        assert_eq!(handed_out(&mut stack, 100), [&wanted[1][..], &wanted[0][..]].concat());
        assert!(!stack.has_egress());
    }

    #[test]
    fn neither_queue_keeps_the_other_waiting_where_the_ring_is_always_full() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = memory.stack();
        let mut out = [0, 0];
        for _ in 0..100 {
            while stack.prompt_len() < 50 {
                queued(&mut stack, Class::Prompt, 0);
            }
            while stack.stream_len() < 50 {
                queued(&mut stack, Class::Stream, 0);
            }
            let before = [stack.prompt_len(), stack.stream_len()];
            assert_eq!(handed_out(&mut stack, 3).len(), 3);
            out[0] += before[0] - stack.prompt_len();
            out[1] += before[1] - stack.stream_len();
        }
        assert!(out.iter().all(|&frames| frames > 100), "{out:?} of 300");
    }

    #[test]
    fn what_was_there_before_a_streams_packet_goes_before_it() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = memory.stack();
        // The ring was full during this queue's turn.
        queued(&mut stack, Class::Prompt, 0);
        assert!(handed_out(&mut stack, 0).is_empty());
        let before: Vec<_> = (0..TURN + 9).map(|_| queued(&mut stack, Class::Prompt, 0)).collect();
        let stream = queued(&mut stack, Class::Stream, 0);
        let after = queued(&mut stack, Class::Prompt, 0);
        let mut load = Vec::new();
        stack.stream_begin(|packet| {
            load.push(packet);
            true
        });
        stack.stream_end([]);
        assert!(load.is_empty(), "nor by a call");
        let out = handed_out(&mut stack, 100);
        let place = |frame| out.iter().position(|&other| other == frame).unwrap();
        assert_eq!(out.len(), before.len() + 3);
        assert!(before.iter().all(|&frame| place(frame) < place(stream)));
        assert!(place(after) > place(before[TURN]));
    }

    #[test]
    fn a_packet_of_which_a_part_is_in_the_ring_is_ended_before_anything_else() {
        let mut memory = OwnedMemory::new(&LIMITS);
        let mut stack = memory.stack();
        let packet = [2, 1, 0].map(|rest| queued(&mut stack, Class::Stream, rest));
        let next = queued(&mut stack, Class::Stream, 0);
        assert_eq!(handed_out(&mut stack, 2), packet[..2]);
        assert!(stack.mem.core.queues.is_cut());
        let prompt = queued(&mut stack, Class::Prompt, 0);
        assert_eq!(handed_out(&mut stack, 1), packet[2..]);
        assert!(!stack.mem.core.queues.is_cut());
        assert_eq!(handed_out(&mut stack, 100), [prompt, next]);
    }
}
