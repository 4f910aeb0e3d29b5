//! Frames: the packet buffers of the lane, and the stack's notes about each.
//!
//! A frame has one owner at a time: the free list, the receive reserve, a socket's queue, the
//! transmit queue, or the sender (a system call, or an asynchronous transmit ring). Received
//! payload stays in its frame until the program reads it; a sent TCP segment stays in its frame
//! until it is acknowledged (one copy each way).

use crate::addr::Endpoint;
use crate::pool::{FreeList, PoolLink, PoolSlot};
use crate::time::Instant;
use zerocopy::FromZeros;

/// Bytes of one frame, a power of two (half a page on the usual hosts).
pub const FRAME_SIZE: usize = 2048;

/// Where the payload of an outgoing frame starts. It leaves room for Ethernet (14), IPv6 (40), its
/// fragment header (8) and TCP with all options (60), and aligns the payload to a cache line.
pub const HEADROOM: usize = 128;

/// The largest payload of one outgoing frame.
pub const MAX_PAYLOAD: usize = FRAME_SIZE - HEADROOM;

/// Most frames of one outgoing packet: enough for 9000 bytes with a margin, and fewer than the
/// fragments of an skb.
pub const MOST_PIECES: usize = 8;

/// The index of a frame in the lane.
pub type FrameId = u32;

/// Bits of [`FrameMeta::flags`].
pub mod flag {
    /// Handed out for sending, not yet completed: its bytes must not change and it must not be
    /// reused.
    pub const IN_KERNEL: u16 = 1 << 0;
    /// To be freed when it is completed (it has no other holder).
    pub const FREE_ON_COMPLETE: u16 = 1 << 1;
    /// Waiting in the transmit queue.
    pub const QUEUED: u16 = 1 << 2;
    /// The packet continues in the next frame of the chain (jumbo frames, fragments).
    pub const MORE: u16 = 1 << 3;
    /// The TCP segment carries SYN.
    pub const SYN: u16 = 1 << 4;
    /// The TCP segment carries FIN.
    pub const FIN: u16 = 1 << 5;
    /// Selectively acknowledged (RFC 2018).
    pub const SACKED: u16 = 1 << 6;
    /// Deemed lost (RFC 6675, RFC 8985).
    pub const LOST: u16 = 1 << 7;
    /// Retransmitted at least once, so it gives no RTT sample (Karn).
    pub const RETRANSMITTED: u16 = 1 << 8;
    /// The segment should carry PSH.
    pub const PUSH: u16 = 1 << 9;
    /// In the receive reserve, waiting for a packet.
    pub const FILLED: u16 = 1 << 10;
    /// Deemed lost, and retransmitted since.
    pub const RESENT: u16 = 1 << 11;
    /// It was sent in one packet with the frame before it.
    pub const PIECE: u16 = 1 << 12;
    /// It is being sent by a synchronous call that completes it ([`crate::Stack::stream_begin`]),
    /// or was when last sent.
    pub const WRITING: u16 = 1 << 13;
    /// Received, and its transport checksum is known to be good.
    pub const CHECKED: u16 = 1 << 14;
    /// Received, and its transport checksum may have been left to a device that it never passed.
    pub const MAYBE_PARTIAL: u16 = 1 << 15;
}

/// The stack's notes about a frame.
#[derive(Debug, Default, FromZeros)]
#[repr(C, align(64))]
pub struct FrameMeta {
    /// The next frame of its list.
    pub next: PoolLink,
    /// The previous frame, on lists that are walked both ways. On TCP's send queue: a frame some
    /// way behind this one.
    pub prev: PoolLink,
    /// Where its bytes (payload on a queue, whole packet in the transmit queue) start in the frame.
    pub offset: u16,
    /// How many bytes.
    pub len: u16,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Where the IP header starts in a received frame.
    pub network: u16,
    /// TCP: sequence number of the first payload byte (or of SYN/FIN). UDP: how many datagrams its
    /// socket had dropped when this one was queued.
    pub seq: u32,
    /// TCP: how often it was sent.
    pub transmits: u16,
    /// UDP: traffic class (TOS) octet of the received packet.
    pub tos: u8,
    /// UDP: time to live (hop limit) of the received packet.
    pub ttl: u8,
    /// TCP: when it was last sent. UDP: when it was received.
    pub at: Instant,
    /// UDP and reassembly: length of the whole datagram, in its first frame.
    pub total: u32,
    /// UDP: the sender (the destination is read from the packet's own header).
    pub source: Endpoint,
    /// TCP: the outstanding segment that was sent next after this one (RACK walks segments in the
    /// order of sending).
    pub newer: PoolLink,
    /// TCP: the outstanding segment that was sent just before this one. UDP: see
    /// [`FrameMeta::interface`].
    pub older: PoolLink,
}

shared_layout! { FrameMeta {
    next, prev, offset, len, flags, network, seq, transmits, tos, ttl, at, total, source, newer,
    older,
} }

impl FrameMeta {
    /// UDP: the incoming interface, by the host's number; 0 if unknown.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.older.get().unwrap_or(0)
    }

    pub(crate) fn set_interface(&mut self, interface: u32) {
        self.older = if interface == 0 || interface == u32::MAX { PoolLink::NONE } else { PoolLink::to(interface) };
    }
}

impl PoolSlot for FrameMeta {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.next
    }
}

/// The frames of a lane: bytes, notes and free list.
pub struct Frames<'a> {
    /// The bytes of all frames, `FRAME_SIZE` each.
    pub bytes: &'a mut [u8],
    /// The notes, one a frame.
    pub meta: &'a mut [FrameMeta],
    /// The free frames.
    pub free: &'a mut FreeList<FrameMeta>,
}

impl Frames<'_> {
    /// Takes a free frame and clears its notes.
    pub fn take(&mut self) -> Option<FrameId> {
        let id = self.free.take(self.meta)?;
        self.meta[id as usize] = FrameMeta::default();
        Some(id)
    }

    /// Frees a frame, at once or, if it is queued or being sent, when it is completed.
    pub fn give(&mut self, id: FrameId) {
        let meta = &mut self.meta[id as usize];
        if meta.flags & (flag::IN_KERNEL | flag::QUEUED) != 0 {
            meta.flags |= flag::FREE_ON_COMPLETE;
        } else {
            self.free.give(self.meta, id);
        }
    }

    /// Frees every frame that is not in an asynchronous transmit ring; those are freed on
    /// completion.
    pub(crate) fn rebuild(&mut self) {
        self.free.zero();
        let all = self.meta.len();
        // Taking all and giving back the free ones leaves exactly the others taken.
        for _ in 0..all {
            self.free.take(self.meta);
        }
        for id in (0..all as FrameId).rev() {
            let flags = self.meta[id as usize].flags;
            self.meta[id as usize] = FrameMeta::default();
            if flags & (flag::IN_KERNEL | flag::WRITING) == flag::IN_KERNEL {
                self.meta[id as usize].flags = flag::IN_KERNEL | flag::FREE_ON_COMPLETE;
            } else {
                self.free.give(self.meta, id);
            }
        }
    }

    /// Frees a frame and all that are chained to it by [`flag::MORE`].
    pub fn give_chain(&mut self, first: FrameId) {
        let mut at = Some(first);
        while let Some(id) = at {
            let meta = &self.meta[id as usize];
            at = if meta.flags & flag::MORE != 0 { meta.next.get() } else { None };
            self.give(id);
        }
    }

    /// How many bytes the notes of a chain of frames delimit together.
    #[must_use]
    pub fn chain_len(&self, first: FrameId) -> u32 {
        let (mut at, mut total) = (first, 0);
        loop {
            let meta = &self.meta[at as usize];
            total += u32::from(meta.len);
            match meta.next.get() {
                Some(next) if meta.flags & flag::MORE != 0 => at = next,
                _ => return total,
            }
        }
    }

    /// Cuts a chain of frames to `len` bytes: shortens the notes of the frame where it ends, and
    /// frees the frames behind. Returns the remaining length (less than `len` if the chain was
    /// shorter).
    pub fn truncate_chain(&mut self, first: FrameId, len: u32) -> u32 {
        let (mut at, mut total) = (first, 0);
        loop {
            let meta = &mut self.meta[at as usize];
            let here = u32::from(meta.len).min(len - total);
            meta.len = here as u16;
            total += here;
            let next = if meta.flags & flag::MORE != 0 { meta.next.get() } else { None };
            let Some(next) = next else { return total };
            if total == len {
                meta.flags &= !flag::MORE;
                meta.next = PoolLink::NONE;
                self.give_chain(next);
                return total;
            }
            at = next;
        }
    }

    /// The number of frames of a chain.
    #[must_use]
    pub fn chain_frames(&self, first: FrameId) -> u32 {
        let (mut at, mut count) = (first, 1);
        loop {
            let meta = &self.meta[at as usize];
            match meta.next.get() {
                Some(next) if meta.flags & flag::MORE != 0 => (at, count) = (next, count + 1),
                _ => return count,
            }
        }
    }

    /// Copies a chain of frames, notes and bytes. `None`, with nothing taken, if there are too few
    /// free frames.
    pub fn copy_chain(&mut self, first: FrameId) -> Option<FrameId> {
        let (mut from, mut copy, mut last) = (first, None, None);
        loop {
            let Some(to) = self.take() else {
                copy.into_iter().for_each(|copy| self.give_chain(copy));
                return None;
            };
            let (source, target) = (from as usize * FRAME_SIZE, to as usize * FRAME_SIZE);
            self.bytes.copy_within(source..source + FRAME_SIZE, target);
            let original = &self.meta[from as usize];
            let (next, more) = (original.next.get(), original.flags & flag::MORE != 0);
            self.meta[to as usize] = FrameMeta { next: PoolLink::NONE, prev: PoolLink::NONE, flags: 0, ..*original };
            match last {
                None => copy = Some(to),
                Some(last) => {
                    let last: &mut FrameMeta = &mut self.meta[last as usize];
                    last.next = PoolLink::to(to);
                    last.flags |= flag::MORE;
                }
            }
            last = Some(to);
            match next {
                Some(next) if more => from = next,
                _ => return copy,
            }
        }
    }

    /// How many frames are free.
    #[must_use]
    pub fn available(&self) -> usize {
        self.meta.len() - self.free.used()
    }

    /// The whole frame.
    #[must_use]
    pub fn bytes(&self, id: FrameId) -> &[u8] {
        &self.bytes[id as usize * FRAME_SIZE..][..FRAME_SIZE]
    }

    /// The whole frame, to write.
    pub fn bytes_mut(&mut self, id: FrameId) -> &mut [u8] {
        &mut self.bytes[id as usize * FRAME_SIZE..][..FRAME_SIZE]
    }

    /// The bytes that the notes of the frame delimit (`offset`, `len`).
    #[must_use]
    pub fn data(&self, id: FrameId) -> &[u8] {
        let meta = &self.meta[id as usize];
        &self.bytes(id)[usize::from(meta.offset)..][..usize::from(meta.len)]
    }
}
