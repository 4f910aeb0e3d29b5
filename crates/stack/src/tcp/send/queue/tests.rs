//! The queue's two orders and its counters after arbitrary steps.

use super::*;
use crate::memory::{Limits, OwnedMemory};
use crate::tcp::wire::options::SackBlock;
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
    Keep,
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
        1 => Just(Step::Keep),
        1 => Just(Step::Unmark),
        1 => Just(Step::ForgetSacks),
        1 => (0..6000u32).prop_map(Step::Around),
    ]
}

fn byte(seq: u32) -> u8 {
    (seq.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// The invariants, and that bytes keep their sequence numbers.
fn check(queue: &SendQueue, frames: &Frames<'_>) {
    queue.check_invariants(frames, |id| {
        let seq = frames.meta[id as usize].seq;
        let good = |(n, b): (usize, &u8)| *b == byte(seq.wrapping_add(n as u32));
        assert!(frames.data(id).iter().enumerate().all(good), "bytes of {seq}");
    });
    assert_eq!(frames.meta.len() - frames.available(), queue.frames as usize);
}

/// The end of the last selective acknowledgement is outdated once everything up to it is
/// acknowledged: its frame has another owner.
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
    // Other queues take the frames; then the sequence numbers wrap around.
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
        // Each byte must be reported as delivered once.
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
                Step::Keep => {
                    // The kernel keeps the first frame, and returns it after a copy has replaced
                    // it.
                    if let Some(id) = queue.first_lost(frames).filter(|&id| queue.head == PoolLink::to(id)) {
                        frames.meta[id as usize].flags |= flag::IN_KERNEL;
                        prop_assert_eq!(queue.released(frames, id, now), None);
                        let copied = queue.released(frames, id, now + crate::time::Span::from_secs(1));
                        let flags = core::mem::take(&mut frames.meta[id as usize].flags);
                        prop_assert_eq!(copied.is_some(), flags & flag::FREE_ON_COMPLETE != 0);
                        match copied {
                            Some(_) => frames.give(id),
                            None => frames.meta[id as usize].flags = flags & !flag::IN_KERNEL,
                        }
                    }
                }
                Step::Unmark => queue.unmark_lost(frames),
                Step::ForgetSacks => {
                    forgotten = true;
                    queue.forget_sacks(frames);
                }
                Step::Around(less) => {
                    // Nearly 4 GB are sent without a loss.
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
        // Partly acknowledged segments are reported whole, or not at all, when the rest is
        // acknowledged.
        if !forgotten {
            prop_assert!(delivered <= acknowledged + u64::from(queue.board.sacked));
        }
        queue.clear(frames);
        prop_assert_eq!(frames.available(), 256);
    }
}
