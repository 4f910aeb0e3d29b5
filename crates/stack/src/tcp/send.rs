//! The send queue: one frame per segment (or part of a segment that is longer than a frame), payload at [`HEADROOM`], from the oldest unacknowledged byte to the newest
//! byte that the program wrote.
//!
//! Two orders run through the frames. `next` links them by sequence number. `newer` and `older` link the ones that are
//! under way (sent, neither acknowledged nor deemed lost) by the time of sending, which is the order in which RACK
//! (RFC 8985) looks at them; the sum of their lengths is the `pipe` of RFC 6675.

use super::scoreboard::Scoreboard;
use super::seq::Seq;
use crate::frame::{FRAME_SIZE, FrameId, FrameMeta, Frames, HEADROOM, flag};
use crate::pool::Link;
use crate::time::Instant;
use zerocopy::FromZeros;

/// Flags that mean that the kernel or the transmit queue reads the frame's bytes.
pub(super) const IN_FLIGHT: u16 = flag::IN_KERNEL | flag::QUEUED;

/// How far behind a frame the one lies to which a search may skip.
pub(super) const STRIDE: u32 = 32;

/// How many sequence numbers a segment takes.
pub(super) fn length(meta: &FrameMeta) -> u32 {
    u32::from(meta.len) + u32::from(meta.flags & flag::FIN != 0)
}

/// The sequence number after a segment.
pub(super) fn end(meta: &FrameMeta) -> Seq {
    Seq(meta.seq) + length(meta)
}

/// What is told of a segment that the peer has got, by ACK or by SACK, for the first time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    /// When it was last sent.
    pub(super) at: Instant,
    /// The sequence number after it.
    pub(super) end: Seq,
    /// Bytes.
    pub(super) bytes: u32,
    /// Whether it was sent more than once.
    pub(super) retransmitted: bool,
}

impl Delivered {
    pub(super) fn of(meta: &FrameMeta) -> Self {
        Self { at: meta.at, end: end(meta), bytes: length(meta), retransmitted: meta.flags & flag::RETRANSMITTED != 0 }
    }
}

/// The send queue of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct SendQueue {
    /// The oldest segment.
    pub(super) head: Link,
    /// The newest segment.
    pub(super) tail: Link,
    /// The first segment that was never sent.
    pub(super) next: Link,
    /// The first frame that knows none to skip to yet, and how many frames lie behind it.
    trail: Link,
    behind: u32,
    /// The segment under way that was sent longest ago.
    pub(super) oldest: Link,
    /// The segment under way that was sent last.
    pub(super) newest: Link,
    /// SND.UNA: the oldest unacknowledged sequence number.
    pub(super) una: Seq,
    /// SND.NXT: the number after the last that was ever sent.
    pub(super) nxt: Seq,
    /// The number after the last that is queued.
    pub(super) end: Seq,
    /// Frames in the queue.
    pub(super) frames: u32,
    /// Bytes under way (RFC 6675 `pipe`).
    pub(super) pipe: u32,
    /// What the peer said it has, and what is deemed lost.
    pub(super) board: Scoreboard,
}

impl SendQueue {
    /// An empty queue whose first byte will be `first`.
    pub(super) fn new(first: Seq) -> Self {
        Self { una: first, nxt: first, end: first, ..Self::default() }
    }

    /// Bytes sent and not acknowledged, selectively acknowledged and lost ones included.
    pub(super) fn outstanding(&self) -> u32 {
        self.nxt - self.una
    }

    /// Bytes queued and never sent.
    pub(super) fn unsent(&self) -> u32 {
        self.end - self.nxt
    }

    /// Bytes queued, sent or not.
    pub(super) fn queued(&self) -> u32 {
        self.end - self.una
    }

    /// How much the unsent tail can still take, so that it is at most `part` long.
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
            Some(tail) => frames.meta[tail as usize].next = Link::to(id),
            None => self.head = Link::to(id),
        }
        self.extend_trail(frames, id);
        self.tail = Link::to(id);
        if self.next.is_none() {
            self.next = Link::to(id);
        }
        self.frames += 1;
        Some(id)
    }

    /// Frame `id` comes behind the tail: the tail, which stays, is what an earlier frame may skip to.
    fn extend_trail(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        let Some(trail) = self.trail.get() else {
            (self.trail, self.behind) = (Link::to(id), 0);
            return;
        };
        self.behind += 1;
        if self.behind > STRIDE {
            let meta = &mut frames.meta[trail as usize];
            meta.prev = self.tail;
            (self.trail, self.behind) = (meta.next, self.behind - 1);
        }
    }

    /// Queues up to `limit` bytes: first into the unsent tail, then into new frames of at most `part` bytes each. `fill`
    /// writes into the buffer it is given and says how much; less than the whole buffer means it has no more. Stops
    /// when the free frames would fall to `reserve`. Returns the bytes taken.
    pub(super) fn append(
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

    /// Takes back a frame that was appended just now and got no byte.
    fn drop_empty_tail(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        if self.head == Link::to(id) {
            (self.head, self.tail) = (Link::NONE, Link::NONE);
        } else {
            let mut at = self.head;
            while let Some(before) = at.get() {
                at = frames.meta[before as usize].next;
                if at == Link::to(id) {
                    frames.meta[before as usize].next = Link::NONE;
                    self.tail = Link::to(before);
                    break;
                }
            }
        }
        if self.next == Link::to(id) {
            self.next = Link::NONE;
        }
        if self.trail == Link::to(id) {
            self.trail = Link::NONE;
        }
        self.behind = self.behind.saturating_sub(1);
        self.frames -= 1;
        frames.give(id);
    }

    /// Queues FIN: on the unsent tail, or in a frame of its own. False if there is no frame for it now.
    pub(super) fn append_fin(&mut self, frames: &mut Frames<'_>) -> bool {
        let tail = if self.next.is_none() { None } else { self.tail.get() };
        let Some(id) = tail.or_else(|| self.append_frame(frames)) else { return false };
        frames.meta[id as usize].flags |= flag::FIN | flag::PUSH;
        self.end += 1;
        true
    }

    /// Marks the newest unsent segment to carry PSH.
    pub(super) fn push_tail(&self, frames: &mut Frames<'_>) {
        if let (Some(_), Some(id)) = (self.next.get(), self.tail.get()) {
            frames.meta[id as usize].flags |= flag::PUSH;
        }
    }

    /// Notes that a segment is being sent now: the first unsent one, a lost one, or (a probe) one under way.
    pub(super) fn sent(&mut self, frames: &mut Frames<'_>, id: FrameId, now: Instant) {
        let meta = &mut frames.meta[id as usize];
        if self.next == Link::to(id) {
            self.nxt = end(meta);
            self.next = meta.next;
        } else {
            if meta.flags & flag::LOST != 0 {
                self.board.lost -= length(meta);
                meta.flags &= !flag::LOST;
            } else {
                self.unlink(frames, id);
            }
            frames.meta[id as usize].flags |= flag::RETRANSMITTED;
        }
        let newest = self.newest;
        let meta = &mut frames.meta[id as usize];
        meta.at = now;
        meta.transmits = meta.transmits.saturating_add(1);
        meta.older = newest;
        meta.newer = Link::NONE;
        self.pipe += length(meta);
        match newest.get() {
            Some(last) => frames.meta[last as usize].newer = Link::to(id),
            None => self.oldest = Link::to(id),
        }
        self.newest = Link::to(id);
    }

    /// Takes a segment that is under way off the list by time, and its bytes out of the pipe.
    pub(super) fn unlink(&mut self, frames: &mut Frames<'_>, id: FrameId) {
        let meta = &mut frames.meta[id as usize];
        let (older, newer) = (core::mem::take(&mut meta.older), core::mem::take(&mut meta.newer));
        self.pipe -= length(meta);
        match older.get() {
            Some(other) => frames.meta[other as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer.get() {
            Some(other) => frames.meta[other as usize].older = older,
            None => self.newest = older,
        }
    }

    /// Frees what `ack` covers, telling `visit` of each segment that was not known to be delivered before. `ack` must lie
    /// between `una` and `nxt`. Costs as much as there are segments acknowledged.
    pub(super) fn acknowledge(&mut self, frames: &mut Frames<'_>, ack: Seq, mut visit: impl FnMut(Delivered)) {
        while let Some(id) = self.head.get() {
            if self.head == self.next {
                break;
            }
            let meta = &frames.meta[id as usize];
            if end(meta).gt(ack) {
                self.acknowledge_part(frames, id, ack);
                break;
            }
            let (bytes, next) = (length(meta), meta.next);
            if meta.flags & flag::SACKED != 0 {
                self.board.sacked -= bytes;
            } else {
                visit(Delivered::of(meta));
                if meta.flags & flag::LOST != 0 { self.board.lost -= bytes } else { self.unlink(frames, id) }
            }
            self.board.forget(id, next);
            if self.trail == Link::to(id) {
                (self.trail, self.behind) = (next, self.behind.saturating_sub(1));
            }
            self.head = next;
            self.frames -= 1;
            frames.give(id);
        }
        if self.head.is_none() {
            self.tail = Link::NONE;
        }
        self.una = ack;
    }

    /// The peer acknowledged the front of a segment: what is left starts there.
    fn acknowledge_part(&mut self, frames: &mut Frames<'_>, id: FrameId, ack: Seq) {
        let meta = &mut frames.meta[id as usize];
        let cut = ack.since(Seq(meta.seq)).min(u32::from(meta.len));
        meta.seq = meta.seq.wrapping_add(cut);
        meta.offset += cut as u16;
        meta.len -= cut as u16;
        if meta.flags & flag::SACKED != 0 {
            self.board.sacked -= cut;
        } else if meta.flags & flag::LOST != 0 {
            self.board.lost -= cut;
        } else {
            self.pipe -= cut;
        }
    }

    /// Cuts a segment that is not under way (unsent or lost) after `at` bytes; the rest moves to a new frame behind it.
    /// False if there is no frame for it.
    pub(super) fn split(&mut self, frames: &mut Frames<'_>, id: FrameId, at: usize) -> bool {
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
        meta.next = Link::to(new);
        if self.tail == Link::to(id) {
            self.tail = Link::to(new);
        }
        self.frames += 1;
        true
    }

    /// Frees everything.
    pub(super) fn clear(&mut self, frames: &mut Frames<'_>) {
        while let Some(id) = self.head.get() {
            self.head = frames.meta[id as usize].next;
            frames.give(id);
        }
        *self = Self { una: self.una, nxt: self.nxt, end: self.nxt, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::SackBlock;
    use super::*;
    use crate::memory::{Limits, OwnedMemory};
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize),
        Send(u8),
        Sack(u32, u32),
        Acknowledge(u32),
        Lose(u8),
        Resend(u8),
        Split(usize),
        Unmark,
        ForgetSacks,
        Around(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => prop_oneof![1..4000usize, 1..60_000usize].prop_map(Step::Append),
            5 => (1..6u8).prop_map(Step::Send),
            4 => (0..6000u32, 1..3000u32).prop_map(|(at, len)| Step::Sack(at, len)),
            3 => (0..4000u32).prop_map(Step::Acknowledge),
            2 => (1..4u8).prop_map(Step::Lose),
            3 => (1..4u8).prop_map(Step::Resend),
            1 => (1..700usize).prop_map(Step::Split),
            1 => Just(Step::Unmark),
            1 => Just(Step::ForgetSacks),
            1 => (0..6000u32).prop_map(Step::Around),
        ]
    }

    fn byte(seq: u32) -> u8 {
        (seq.wrapping_mul(2_654_435_761) >> 24) as u8
    }

    /// Everything that must hold between the queue's two orders, its counters and its frames.
    fn check(queue: &SendQueue, frames: &Frames<'_>) {
        let (mut at, mut seq, mut count) = (queue.head, queue.una, 0);
        let (mut pipe, mut lost, mut sacked, mut under_way) = (0, 0, 0, 0);
        let mut unsent = false;
        let mut ahead_ends = std::collections::BTreeSet::new();
        let mut last = Link::NONE;
        while let Some(id) = at.get() {
            let meta = &frames.meta[id as usize];
            unsent |= at == queue.next;
            assert_eq!(Seq(meta.seq), seq, "segments adjoin");
            assert!(length(meta) > 0);
            for (n, b) in frames.data(id).iter().enumerate() {
                assert_eq!(*b, byte(meta.seq.wrapping_add(n as u32)), "bytes stay with their numbers");
            }
            if unsent {
                assert_eq!(meta.flags & (flag::SACKED | flag::LOST), 0);
                assert_eq!(meta.transmits, 0);
            } else if meta.flags & flag::SACKED != 0 {
                assert_eq!(meta.flags & flag::LOST, 0);
                sacked += length(meta);
            } else if meta.flags & flag::LOST != 0 {
                lost += length(meta);
            } else {
                pipe += length(meta);
                under_way += 1;
            }
            if let Some(ahead) = meta.prev.get() {
                assert!(Seq(frames.meta[ahead as usize].seq).gt(seq) && ahead_ends.insert(ahead), "skips go ahead");
            }
            ahead_ends.remove(&id);
            seq = end(meta);
            count += 1;
            last = at;
            at = meta.next;
        }
        assert!(ahead_ends.is_empty(), "skips end in the queue");
        assert_eq!((seq, last, count), (queue.end, queue.tail, queue.frames));
        assert_eq!((pipe, lost, sacked), (queue.pipe, queue.board.lost, queue.board.sacked));
        let (mut at, mut before, mut time) = (queue.oldest, Link::NONE, Instant::NEVER);
        while let Some(id) = at.get() {
            let meta = &frames.meta[id as usize];
            assert_eq!(meta.older, before);
            assert!(meta.at >= time, "in the order of sending");
            time = meta.at;
            under_way -= 1;
            before = at;
            at = meta.newer;
        }
        assert_eq!((before, under_way), (queue.newest, 0));
        assert_eq!(frames.meta.len() - frames.available(), queue.frames as usize);
    }

    /// Where the last selective acknowledgement ended is of no use once everything up to there is acknowledged: its frame is another's.
    #[test]
    fn no_mark_is_made_on_a_frame_that_was_given_back_a_whole_sequence_space_ago() {
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = SendQueue::new(Seq(1000));
        let now = Instant::from_nanos(1);
        let send = |queue: &mut SendQueue, frames: &mut Frames<'_>| {
            let mut seq = queue.end.0;
            queue.append(frames, 700, 2800, 16, |into| {
                into.iter_mut().for_each(|b| (*b, seq) = (byte(seq), seq.wrapping_add(1)));
                into.len()
            });
            while let Some(id) = queue.next.get() {
                queue.sent(frames, id, now);
            }
        };
        send(&mut queue, frames);
        queue.sack(frames, &[SackBlock { start: Seq(2400), end: Seq(3100) }], |_| {});
        queue.acknowledge(frames, Seq(3800), |_| {});
        // Somebody else has the frames; then the numbers come around.
        let others: Vec<_> = (0..4).map(|_| frames.take().unwrap()).collect();
        for &id in &others {
            (frames.meta[id as usize].seq, frames.meta[id as usize].len) = (2500, 100);
        }
        (queue.una, queue.nxt, queue.end) = (Seq(1000), Seq(1000), Seq(1000));
        send(&mut queue, frames);
        queue.sack(frames, &[SackBlock { start: Seq(2400), end: Seq(3800) }], |_| {});
        assert!(others.iter().all(|&id| frames.meta[id as usize].flags == 0));
        others.into_iter().for_each(|id| frames.give(id));
        check(&queue, frames);
        assert_eq!(queue.board.sacked, 1400);
    }

    proptest! {
        #[test]
        fn both_orders_and_all_counters_agree_after_any_steps(
            first in prop_oneof![Just(u32::MAX - 5000), any::<u32>()],
            steps in prop::collection::vec(step(), 1..150),
        ) {
            let mut memory = OwnedMemory::new(&Limits { frames: 256, tcp: 4, ..Limits::DEFAULT });
            let mut stack = memory.stack();
            let frames = &mut stack.mem.frames;
            let mut queue = SendQueue::new(Seq(first));
            let mut now = Instant::from_nanos(1);
            // What has been told as delivered must be told once.
            let mut delivered = 0u64;
            let mut acknowledged = 0u64;
            let mut forgotten = false;
            for step in steps {
                now += crate::time::Span::from_nanos(1);
                match step {
                    Step::Append(mut len) => {
                        let mut seq = queue.end.0;
                        let before = queue.end;
                        let taken = queue.append(frames, 700, len, 16, |into| {
                            let n = into.len().min(len);
                            into[..n].iter_mut().for_each(|b| {
                                *b = byte(seq);
                                seq = seq.wrapping_add(1);
                            });
                            len -= n;
                            n
                        });
                        prop_assert_eq!(queue.end - before, taken as u32);
                    }
                    Step::Send(n) => {
                        for _ in 0..n {
                            if let Some(id) = queue.next.get() {
                                queue.sent(frames, id, now);
                            }
                        }
                    }
                    Step::Sack(at, len) => {
                        let start = queue.una + at;
                        let block = SackBlock { start, end: start + len };
                        queue.sack(frames, &[block], |s| delivered += u64::from(s.bytes));
                    }
                    Step::Acknowledge(bytes) => {
                        let ack = queue.una + bytes.min(queue.outstanding());
                        let before = queue.una;
                        queue.acknowledge(frames, ack, |s| delivered += u64::from(s.bytes));
                        acknowledged += u64::from(queue.una - before);
                    }
                    Step::Lose(n) => {
                        for _ in 0..n {
                            if let Some(id) = queue.oldest.get() {
                                queue.mark_lost(frames, id);
                            }
                        }
                    }
                    Step::Resend(n) => {
                        for _ in 0..n {
                            if let Some(id) = queue.first_lost(frames) {
                                queue.sent(frames, id, now);
                            }
                        }
                        prop_assert_eq!(queue.board.lost > 0, queue.first_lost(frames).is_some());
                    }
                    Step::Split(at) => {
                        if let Some(id) = queue.first_lost(frames).or(queue.next.get()) {
                            queue.split(frames, id, at);
                        }
                    }
                    Step::Unmark => queue.unmark_lost(frames),
                    Step::ForgetSacks => {
                        forgotten = true;
                        queue.forget_sacks(frames);
                    }
                    Step::Around(less) => {
                        // Nearly 4 GB go through without a loss.
                        while let Some(id) = queue.next.get() {
                            queue.sent(frames, id, now);
                        }
                        acknowledged += u64::from(queue.outstanding());
                        queue.acknowledge(frames, queue.nxt, |s| delivered += u64::from(s.bytes));
                        let begin = queue.una - less;
                        (queue.una, queue.nxt, queue.end) = (begin, begin, begin);
                    }
                }
                check(&queue, frames);
            }
            // Partly acknowledged segments are told whole, or not at all, when the rest arrives.
            if !forgotten {
                prop_assert!(delivered <= acknowledged + u64::from(queue.board.sacked));
            }
            queue.clear(frames);
            prop_assert_eq!(frames.available(), 256);
        }
    }
}
