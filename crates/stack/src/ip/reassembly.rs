//! Reassembly of fragmented datagrams (RFC 791 §3.2, RFC 8200 §4.5), in any order, in bounded
//! memory and time.
//!
//! The fragments' frames are kept unchanged, chained by offset. A datagram is complete when they
//! cover it from zero to the last fragment without a gap. Overlaps end the reassembly for both
//! families (RFC 5722; no legitimate sender makes any); exact duplicates are ignored.

use super::input::Fragment;
use super::packet::Packet;
use crate::Stack;
use crate::addr::{Address, Family};
use crate::frame::{FrameId, Frames, flag};
use crate::pool::{PoolLink, PoolSlot};
use crate::time::{Instant, Span};
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use zerocopy::FromZeros;

/// Reassembly timeout (RFC 1122 §3.3.2 asks for 60 to 120 s, RFC 8200 §4.5 for 60; Linux uses 30
/// for IPv4, which saves memory on a fast network).
const TIME_V4: Span = Span::from_secs(30);
const TIME_V6: Span = Span::from_secs(60);
/// Largest datagram: limited by the 16 bits of its length.
const MOST: u32 = 65_535;
/// Most fragments of one datagram: 65,535 bytes in pieces of 512 (routers with the least MTU make
/// pieces of 528 and more). Smaller fragments only serve to exhaust memory.
const MOST_FRAGMENTS: u32 = 128;

/// A datagram under reassembly.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Reassembly {
    /// Chain of the hash bucket, or of the free list.
    link: PoolLink,
    /// Neighbours in the list ordered by age.
    older: PoolLink,
    newer: PoolLink,
    source: Address,
    destination: Address,
    id: u32,
    protocol: u8,
    /// All further fragments of it are dropped: it had an overlap.
    spoilt: u8,
    /// Traffic class of the first fragment.
    class: u8,
    /// The ECN codepoints of its fragments, a bit for each.
    marks: u8,
    /// Frames, in order of offset.
    head: PoolLink,
    tail: PoolLink,
    /// The number of frames, and of the bytes in them.
    count: u32,
    bytes: u32,
    /// Length of the datagram, known from the last fragment; 0 until then.
    total: u32,
    expires: Instant,
}

shared_layout! { Reassembly {
    link, older, newer, source, destination, id, protocol, spoilt, class, marks, head, tail, count,
    bytes, total, expires,
} }

impl PoolSlot for Reassembly {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

/// The result of adding a fragment.
enum Added {
    Incomplete,
    Complete,
    /// Already there: the frames are to be freed.
    Duplicate,
    /// Contradicts earlier fragments.
    Overlap,
    /// Cannot be part of any datagram, or there are too many.
    Refused,
}

impl Stack<'_> {
    /// Adds a fragment; returns the datagram when it is complete. Takes ownership of the frames.
    pub(super) fn reassemble(&mut self, now: Instant, packet: &Packet, fragment: Fragment) -> Option<Packet> {
        let counters = self.mem.counters;
        counters.ip_reasm_reqds.inc();
        let end = fragment.offset + packet.total;
        // All but the last carry a multiple of eight bytes; empty ones would occupy frames without
        // limit.
        if packet.total == 0 || end > MOST || (fragment.more && packet.total & 7 != 0) {
            counters.ip_reasm_fails.inc();
            self.mem.frames.give_chain(packet.frame);
            return None;
        }
        let Some(index) = self.reassembly_of(now, packet, fragment.id) else {
            counters.ip_reasm_fails.inc();
            self.mem.frames.give_chain(packet.frame);
            return None;
        };
        let quota = self.mem.frames.meta.len() as u32 / 8;
        let frames = self.mem.frames.chain_frames(packet.frame);
        // Early datagrams must not keep out later ones: the oldest are evicted.
        while self.mem.core.reassembly_frames + frames > quota
            && let Some(oldest) = self.mem.core.reassembly_head.get().filter(|&oldest| oldest != index)
        {
            self.mem.counters.ip_reasm_fails.inc();
            self.reassembly_free(oldest);
        }
        let held = self.mem.core.reassembly_frames;
        let datagram = &mut self.mem.reassemblies[index as usize];
        let added = if datagram.spoilt != 0 || datagram.count + frames > MOST_FRAGMENTS || held + frames > quota {
            Added::Refused
        } else {
            let added = datagram.add(&mut self.mem.frames, packet, fragment, frames);
            if matches!(added, Added::Incomplete | Added::Complete) {
                datagram.note_class(packet.tos, fragment.offset);
            }
            added
        };
        match added {
            Added::Incomplete => self.mem.core.reassembly_frames += frames,
            Added::Complete => {
                self.mem.core.reassembly_frames += frames;
                return self.reassembly_finish(index, packet);
            }
            Added::Duplicate => self.mem.frames.give_chain(packet.frame),
            Added::Overlap => {
                counters.ip_reasm_overlaps.inc();
                self.mem.frames.give_chain(packet.frame);
                self.reassembly_empty(index);
                // The slot stays until its timeout, so that further fragments of the datagram
                // cannot start it anew.
                self.mem.reassemblies[index as usize].spoilt = 1;
            }
            Added::Refused => {
                counters.ip_reasm_fails.inc();
                self.mem.frames.give_chain(packet.frame);
            }
        }
        None
    }

    fn reassembly_finish(&mut self, index: u32, last: &Packet) -> Option<Packet> {
        let datagram = &mut self.mem.reassemblies[index as usize];
        let (total, class) = (datagram.total, datagram.class());
        let Some(tos) = class else {
            self.mem.counters.ip_reasm_fails.inc();
            self.reassembly_free(index);
            return None;
        };
        let head = core::mem::take(&mut datagram.head);
        datagram.tail = PoolLink::NONE;
        let count = core::mem::take(&mut datagram.count);
        self.mem.core.reassembly_frames -= count;
        self.reassembly_free(index);
        self.mem.counters.ip_reasm_oks.inc();
        let first = head.get()?;
        let meta = &self.mem.frames.meta[first as usize];
        Some(Packet { frame: first, offset: meta.offset, len: meta.len, total, tos, ..*last })
    }

    /// The reassembly to which a fragment belongs; created if there is none. When all are in use,
    /// the oldest is evicted.
    fn reassembly_of(&mut self, now: Instant, packet: &Packet, id: u32) -> Option<u32> {
        let bucket = self.reassembly_bucket(packet, id);
        let mut at = self.mem.reassembly_buckets[bucket];
        while let Some(index) = at.get() {
            let r = &self.mem.reassemblies[index as usize];
            let same_ends = r.source == packet.source && r.destination == packet.destination;
            if same_ends && r.id == id && r.protocol == packet.protocol {
                return Some(index);
            }
            at = r.link;
        }
        if self.mem.core.free_reassemblies.used() == self.mem.reassemblies.len()
            && let Some(oldest) = self.mem.core.reassembly_head.get()
        {
            self.mem.counters.ip_reasm_fails.inc();
            self.reassembly_free(oldest);
        }
        let index = self.mem.core.free_reassemblies.take(self.mem.reassemblies)?;
        let time = if packet.source.family() == Family::V4 { TIME_V4 } else { TIME_V6 };
        let older = core::mem::replace(&mut self.mem.core.reassembly_tail, PoolLink::to(index));
        match older.get() {
            Some(older) => self.mem.reassemblies[older as usize].newer = PoolLink::to(index),
            None => self.mem.core.reassembly_head = PoolLink::to(index),
        }
        let link = core::mem::replace(&mut self.mem.reassembly_buckets[bucket], PoolLink::to(index));
        self.mem.reassemblies[index as usize] = Reassembly {
            link,
            older,
            source: packet.source,
            destination: packet.destination,
            id,
            protocol: packet.protocol,
            expires: now + time,
            ..Reassembly::default()
        };
        Some(index)
    }

    fn reassembly_bucket(&self, packet: &Packet, id: u32) -> usize {
        self.reassembly_hash(packet.source, packet.destination, packet.protocol, id)
    }

    fn reassembly_hash(&self, source: Address, destination: Address, protocol: u8, id: u32) -> usize {
        let secret = self.mem.core.secret;
        let mut hasher = SipHasher13::new_with_keys(secret[2], secret[3]);
        hasher.write(&source.0);
        hasher.write(&destination.0);
        hasher.write(&id.to_be_bytes());
        hasher.write(&[protocol]);
        hasher.finish() as usize & (self.mem.reassembly_buckets.len() - 1)
    }

    /// Frees the frames of a reassembly.
    fn reassembly_empty(&mut self, index: u32) {
        let datagram = &mut self.mem.reassemblies[index as usize];
        self.mem.core.reassembly_frames -= core::mem::take(&mut datagram.count);
        datagram.tail = PoolLink::NONE;
        if let Some(first) = core::mem::take(&mut datagram.head).get() {
            self.mem.frames.give_chain(first);
        }
    }

    /// Frees a reassembly: its frames, its places in the bucket and in the list by age, its slot.
    fn reassembly_free(&mut self, index: u32) {
        self.reassembly_empty(index);
        let Reassembly { link, older, newer, source, destination, id, protocol, .. } =
            self.mem.reassemblies[index as usize];
        match older.get() {
            Some(older) => self.mem.reassemblies[older as usize].newer = newer,
            None => self.mem.core.reassembly_head = newer,
        }
        match newer.get() {
            Some(newer) => self.mem.reassemblies[newer as usize].older = older,
            None => self.mem.core.reassembly_tail = older,
        }
        let bucket = self.reassembly_hash(source, destination, protocol, id);
        let mut at = self.mem.reassembly_buckets[bucket];
        if at.get() == Some(index) {
            self.mem.reassembly_buckets[bucket] = link;
        } else {
            while let Some(i) = at.get() {
                let r = &mut self.mem.reassemblies[i as usize];
                if r.link.get() == Some(index) {
                    r.link = link;
                    break;
                }
                at = r.link;
            }
        }
        self.mem.core.free_reassemblies.give(self.mem.reassemblies, index);
    }

    /// The timeout of the oldest reassembly.
    pub(crate) fn reassembly_deadline(&self) -> Option<Instant> {
        let oldest = self.mem.core.reassembly_head.get()?;
        Some(self.mem.reassemblies[oldest as usize].expires)
    }

    /// Drops reassemblies whose timeout has expired. (An IPv6 one in front may delay later IPv4
    /// ones by half a minute.)
    pub(crate) fn reassembly_on_time(&mut self, now: Instant) {
        while let Some(oldest) = self.mem.core.reassembly_head.get() {
            let datagram = &self.mem.reassemblies[oldest as usize];
            if datagram.expires > now {
                return;
            }
            if datagram.spoilt == 0 {
                self.mem.counters.ip_reasm_timeout.inc();
            }
            self.mem.counters.ip_reasm_fails.inc();
            self.reassembly_free(oldest);
        }
    }
}

impl Reassembly {
    /// Records the traffic class of a fragment at `offset`.
    fn note_class(&mut self, class: u8, offset: u32) {
        self.marks |= 1 << (class & 3);
        if offset == 0 {
            self.class = class;
        }
    }

    /// The traffic class of the datagram (RFC 3168 §5.3): a mark on one fragment marks the
    /// datagram. `None` if the fragments mix ECN-capable and not-capable codepoints: no legitimate
    /// sender does that, and a mark could get lost.
    fn class(&self) -> Option<u8> {
        const NOT_CAPABLE: u8 = 1;
        const MARKED: u8 = 1 << 3;
        match self.marks {
            marks if marks & NOT_CAPABLE != 0 && marks != NOT_CAPABLE => None,
            marks if marks & MARKED != 0 => Some(self.class | 3),
            _ => Some(self.class),
        }
    }

    /// Links a fragment's frames in at their position. During reassembly, `total` of a frame is its
    /// offset in the datagram.
    fn add(&mut self, frames: &mut Frames<'_>, packet: &Packet, fragment: Fragment, count: u32) -> Added {
        let (start, end) = (fragment.offset, fragment.offset + packet.total);
        if !fragment.more {
            if self.total != 0 && self.total != end {
                return Added::Overlap;
            }
            // Data lies beyond the reported end.
            if self.tail.get().is_some_and(|tail| end_of(frames, tail) > end) {
                return Added::Overlap;
            }
        } else if self.total != 0 && end > self.total {
            return Added::Overlap;
        }
        // Most fragments arrive in order: search from the end.
        let before = match self.tail.get() {
            Some(tail) if end_of(frames, tail) <= start => Some(tail),
            Some(_) => match self.place(frames, start, end) {
                Ok(before) => before,
                Err(refused) => return refused,
            },
            None => None,
        };
        let last = note_offsets(frames, packet.frame, start);
        let after = match before {
            Some(before) => core::mem::replace(&mut frames.meta[before as usize].next, PoolLink::to(packet.frame)),
            None => core::mem::replace(&mut self.head, PoolLink::to(packet.frame)),
        };
        if let Some(before) = before {
            frames.meta[before as usize].flags |= flag::MORE;
        }
        let meta = &mut frames.meta[last as usize];
        meta.next = after;
        if after.is_none() {
            meta.flags &= !flag::MORE;
            self.tail = PoolLink::to(last);
        } else {
            meta.flags |= flag::MORE;
        }
        self.count += count;
        self.bytes += packet.total;
        if !fragment.more {
            self.total = end;
        }
        // Nothing overlaps, so the datagram is complete when the number of bytes equals its length.
        if self.total != 0 && self.bytes == self.total { Added::Complete } else { Added::Incomplete }
    }

    /// The frame after which bytes `start..end` belong; an error if they are duplicate or overlap.
    fn place(&self, frames: &Frames<'_>, start: u32, end: u32) -> Result<Option<FrameId>, Added> {
        let (mut before, mut at) = (None, self.head.get());
        while let Some(frame) = at {
            let (here, here_end) = (frames.meta[frame as usize].total, end_of(frames, frame));
            if here >= end {
                break;
            }
            if here_end > start {
                return Err(if run_is(frames, frame, start, end) { Added::Duplicate } else { Added::Overlap });
            }
            before = Some(frame);
            at = frames.meta[frame as usize].next.get();
        }
        Ok(before)
    }
}

/// Whether the consecutive frames from `frame` on are exactly the bytes `start..end`: a fragment
/// larger than a frame occupies several.
fn run_is(frames: &Frames<'_>, frame: FrameId, start: u32, end: u32) -> bool {
    let (mut at, mut next) = (Some(frame), start);
    while let Some(frame) = at
        && next < end
        && frames.meta[frame as usize].total == next
    {
        next = end_of(frames, frame);
        at = frames.meta[frame as usize].next.get();
    }
    next == end
}

fn end_of(frames: &Frames<'_>, frame: FrameId) -> u32 {
    let meta = &frames.meta[frame as usize];
    meta.total + u32::from(meta.len)
}

/// Sets the offset in the datagram in each frame of a fragment; returns the last frame.
fn note_offsets(frames: &mut Frames<'_>, first: FrameId, start: u32) -> FrameId {
    let (mut at, mut offset) = (first, start);
    loop {
        let meta = &mut frames.meta[at as usize];
        meta.total = offset;
        offset += u32::from(meta.len);
        match meta.next.get() {
            Some(next) if meta.flags & flag::MORE != 0 => at = next,
            _ => return at,
        }
    }
}

#[cfg(any(test, feature = "owned"))]
impl Stack<'_> {
    /// See [`Stack::check_invariants`].
    pub(crate) fn check_reassemblies(&self, holders: &mut crate::invariants::Holders) {
        let core = &self.mem.core;
        let taken = core.free_reassemblies.taken("reassemblies", self.mem.reassemblies, |datagram| datagram.link);
        let (mut held, mut before) = (0, PoolLink::NONE);
        let count =
            crate::pool::invariants::walk(self.mem.core.reassembly_head, self.mem.reassemblies.len(), |index| {
                let datagram = &self.mem.reassemblies[index as usize];
                assert!(taken.has(index), "reassembly {index} has an age, and is free");
                assert_eq!(datagram.older, before, "reassemblies by age");
                before = PoolLink::to(index);
                let frames = &self.mem.frames;
                let count = datagram.head.get().map_or(0, |head| holders.note_chain(frames, head, "a reassembly"));
                assert_eq!(count, datagram.count, "frames of a reassembly");
                held += count;
                datagram.newer
            });
        assert_eq!((held, before), (self.mem.core.reassembly_frames, self.mem.core.reassembly_tail), "reassemblies");
        let in_table = crate::pool::invariants::chains(
            self.mem.reassembly_buckets,
            self.mem.reassemblies.len(),
            |index, bucket| {
                let Reassembly { link, source, destination, id, protocol, .. } = self.mem.reassemblies[index as usize];
                assert!(taken.has(index), "reassembly {index} is found, and free");
                assert_eq!(self.reassembly_hash(source, destination, protocol, id), bucket, "where {index} is found");
                link
            },
        );
        let used = core.free_reassemblies.used();
        assert_eq!((count, in_table), (used, used), "reassemblies by age, and those that are found");
    }
}
