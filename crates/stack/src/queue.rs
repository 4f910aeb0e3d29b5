//! Packets on their way out: from the protocols through the transmit queue to the kernel's ring and back as completed.

use crate::Stack;
use crate::frame::{FRAME_SIZE, FrameId, Frames, flag};
use crate::time::Instant;
use zerocopy::FromZeros;

/// A packet on its way to the transmit queue, or a piece of one in it. It keeps its own bounds, because the notes of a TCP
/// segment's frame go on describing the payload, of which the peer may acknowledge a part meanwhile.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Queued {
    pub(crate) frame: FrameId,
    pub(crate) offset: u16,
    pub(crate) len: u16,
    /// In how many further frames the packet goes on. On the way to the queue they follow by `next`, delimited by their notes.
    pub(crate) rest: u16,
}

impl Queued {
    /// The piece of the packet that follows this one.
    pub(crate) fn continued(&self, frames: &Frames<'_>) -> Option<Self> {
        let rest = self.rest.checked_sub(1)?;
        let frame = frames.meta[self.frame as usize].next.get()?;
        let meta = &frames.meta[frame as usize];
        Some(Self { frame, offset: meta.offset, len: meta.len, rest })
    }
}

/// A packet, or a piece of one, to be put into the kernel's transmit ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The frame.
    pub frame: FrameId,
    /// Where the packet (its Ethernet header), or the piece, starts in the frame.
    pub offset: u16,
    /// Its length in bytes, never 0.
    pub len: u16,
    /// Whether the packet goes on in the next frame handed out. Only where the interface's MTU asks for it.
    pub more: bool,
}

impl Stack<'_> {
    /// Puts a packet at the end of the transmit queue. None of its frames may be on it already.
    pub(crate) fn enqueue(&mut self, packet: Queued) {
        let mut piece = Some(packet);
        while let Some(item) = piece {
            piece = item.continued(&self.mem.frames);
            self.enqueue_piece(item);
        }
    }

    /// Puts one piece of a packet at the end of the transmit queue.
    pub(crate) fn enqueue_piece(&mut self, item: Queued) {
        let core = &mut *self.mem.core;
        let mask = self.mem.queue.len() as u32 - 1;
        // There are at least as many entries as frames, and a frame is queued at most once.
        debug_assert!(core.queue_tail.wrapping_sub(core.queue_head) <= mask);
        self.mem.queue[(core.queue_tail & mask) as usize] = item;
        core.queue_tail = core.queue_tail.wrapping_add(1);
        self.mem.frames.meta[item.frame as usize].flags |= flag::QUEUED;
    }

    /// Whether packets wait to be handed to the kernel.
    #[must_use]
    pub fn has_egress(&self) -> bool {
        self.mem.core.queue_head != self.mem.core.queue_tail
    }

    /// Hands out the packets that wait, in order, until there are no more or `sink` says `false` (the ring is full; that packet
    /// stays, or what is left of it). Every frame taken comes back through [`Stack::completed`]. Says how many packets were taken
    /// to their ends.
    pub fn egress(&mut self, _now: Instant, sink: impl FnMut(Transmit) -> bool) -> usize {
        self.hand_out(flag::IN_KERNEL, sink)
    }

    /// As [`Stack::egress`]; the frames are marked so.
    pub(crate) fn hand_out(&mut self, mark: u16, mut sink: impl FnMut(Transmit) -> bool) -> usize {
        let mask = self.mem.queue.len() as u32 - 1;
        let core = &mut *self.mem.core;
        let mut sent = 0;
        while core.queue_head != core.queue_tail {
            let Queued { frame, offset, len, rest } = self.mem.queue[(core.queue_head & mask) as usize];
            let meta = &mut self.mem.frames.meta[frame as usize];
            // Marked before the kernel can see it; a refusal takes the mark back.
            let before = meta.flags;
            meta.flags = before & !(flag::QUEUED | flag::BULK) | mark;
            if !sink(Transmit { frame, offset, len, more: rest > 0 }) {
                meta.flags = before;
                break;
            }
            core.queue_head = core.queue_head.wrapping_add(1);
            core.queue_cut = u32::from(rest > 0);
            sent += usize::from(rest == 0);
        }
        self.mem.counters.tx_packets.add(sent as u64);
        self.udp_write_space();
        sent
    }

    /// The kernel is done with a frame that [`Stack::egress`] handed out.
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

    /// A poll begins, and so many packets wait in the kernel's ring: whether the fill ring holds enough frames follows from it. Until
    /// [`Stack::batch_end`] received packets count as having come together.
    #[inline]
    pub fn batch_begin(&mut self, waiting: u32) {
        let core = &mut *self.mem.core;
        core.fill.backlog(waiting, core.free_tcp.used() + core.free_udp.used());
        self.tcp_batch_begin();
    }

    /// The packets of a poll have all been given to [`Stack::ingress`]: answers those that were to be answered together.
    #[inline]
    pub fn batch_end(&mut self, now: Instant) {
        self.tcp_batch_end(now);
    }

    /// A free frame for the kernel's fill ring, `None` when the ring holds its share or frames are needed elsewhere.
    pub fn refill(&mut self) -> Option<FrameId> {
        // Called at every poll: frames may have run out, or come back, by other ways than UDP's.
        self.udp_note_room();
        self.udp_write_space();
        let core = &mut *self.mem.core;
        // The last sixteenth is kept for transmitting: acknowledgements free memory. A ring that is half full takes no more than leaves enough for who has nothing queued yet.
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

    /// The bytes of a frame, for whoever plays the kernel's part over memory of his own.
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

    /// Frames that are not free, those in the fill ring among them.
    #[must_use]
    pub fn frames_in_use(&self) -> usize {
        self.mem.frames.meta.len() - self.mem.frames.available()
    }

    /// How many frames [`Stack::egress`] would hand out now.
    #[must_use]
    pub fn egress_len(&self) -> usize {
        self.mem.core.queue_tail.wrapping_sub(self.mem.core.queue_head) as usize
    }
}

/// Bounds of a received packet inside its frame, checked.
pub(crate) fn in_frame(offset: usize, len: usize) -> bool {
    offset.checked_add(len).is_some_and(|end| end <= FRAME_SIZE)
}
