//! The queue compared with a map of bytes.

use super::*;
use crate::memory::{Limits, OwnedMemory};
use proptest::prelude::*;

/// The byte of the stream at a sequence number.
fn byte(seq: u32) -> u8 {
    (seq.wrapping_mul(2_654_435_761) >> 24) as u8
}

fn segment(frames: &mut Frames<'_>, seq: u32, len: u16) -> FrameId {
    let id = frames.take().unwrap();
    for n in 0..usize::from(len) {
        frames.bytes_mut(id)[300 + n] = byte(seq.wrapping_add(n as u32));
    }
    let meta = &mut frames.meta[id as usize];
    (meta.offset, meta.len, meta.seq) = (300, len, seq);
    id
}

proptest! {
    /// For any segments in any order with any overlap: the stream is right, the SACK blocks are
    /// exactly the ranges held, and every frame is accounted for. A duplicate is reported of every
    /// segment that repeats bytes, and of no other.
    #[test]
    fn agrees_with_a_map_of_bytes(
        first in prop_oneof![Just(u32::MAX - 700), any::<u32>()],
        steps in prop::collection::vec((0..2000u32, 1..400u16, 0..6u8), 1..120),
    ) {
        const WINDOW: usize = 2500;
        let mut memory = OwnedMemory::new(&Limits { frames: 512, tcp: 4, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        let frames = &mut stack.mem.frames;
        let mut queue = ReceiveQueue::new(Seq(first));
        let mut have = [false; WINDOW];
        let (mut edge, mut read) = (0usize, 0usize);
        for (at, len, reading) in steps {
            let id = segment(frames, first.wrapping_add(at), len);
            queue.duplicate = SackBlock::default();
            let placed = queue.insert(frames, id);
            prop_assert_ne!(placed, Placed::Dropped);
            let [from, to] = [queue.duplicate.start, queue.duplicate.end].map(|seq| seq.0.wrapping_sub(first) as usize);
            let segment = at as usize..at as usize + usize::from(len);
            prop_assert_eq!(queue.has_duplicate(), have[segment.clone()].contains(&true));
            if queue.has_duplicate() {
                prop_assert!(segment.start <= from && from < to && to <= segment.end);
                prop_assert!(!have[from..to].contains(&false));
            }
            have[at as usize..at as usize + usize::from(len)].fill(true);
            while edge < WINDOW && have[edge] {
                edge += 1;
            }
            prop_assert_eq!(queue.next, Seq(first.wrapping_add(edge as u32)));
            prop_assert_eq!(queue.bytes as usize, edge - read);
            if reading == 0 {
                let mut ok = true;
                let peek = at % 2 == 0;
                let (taken, _) = queue.read(frames, usize::from(len), peek, |bytes| {
                    for (n, b) in bytes.iter().enumerate() {
                        ok &= *b == byte(first.wrapping_add((read + n) as u32));
                    }
                    if !peek {
                        read += bytes.len();
                    }
                    bytes.len()
                });
                prop_assert!(ok || peek, "the stream is right");
                prop_assert!(taken <= usize::from(len));
            }
            // The ranges, from the list itself.
            let mut ranges = Vec::new();
            let mut link = queue.ranges;
            while let Some(range) = link.get() {
                let meta = &frames.meta[range as usize];
                let offset = |seq: u32| seq.wrapping_sub(first) as usize;
                ranges.push((offset(meta.total), offset(meta.seq) + usize::from(meta.len)));
                link = meta.prev;
            }
            let mut expected = Vec::new();
            let mut n = edge;
            while n < WINDOW {
                if have[n] {
                    let start = n;
                    while n < WINDOW && have[n] {
                        n += 1;
                    }
                    expected.push((start, n));
                } else {
                    n += 1;
                }
            }
            prop_assert_eq!(&ranges, &expected);
            prop_assert_eq!(usize::from(queue.range_count), ranges.len());
            prop_assert_eq!(queue.waiting_bytes as usize, ranges.iter().map(|(a, b)| b - a).sum::<usize>());
            prop_assert_eq!(512 - frames.available(), queue.held() as usize);
        }
        queue.clear(frames);
        prop_assert_eq!(frames.available(), 512);
    }
}

#[test]
fn ranges_beyond_the_limit_are_dropped_and_the_rest_is_kept() {
    let mut memory = OwnedMemory::new(&Limits { frames: 512, tcp: 4, ..Limits::DEFAULT });
    let mut stack = memory.stack();
    let frames = &mut stack.mem.frames;
    let mut queue = ReceiveQueue::new(Seq(0));
    for n in 0..200 {
        let id = segment(frames, 10 + n * 10, 5);
        let expected = if n < u32::from(MAX_RANGES) { Placed::OutOfOrder } else { Placed::Dropped };
        assert_eq!(queue.insert(frames, id), expected);
    }
    assert_eq!(queue.held(), u32::from(MAX_RANGES));
    let mut blocks = Vec::new();
    queue.blocks(frames, 4, |block| blocks.push((block.start.0, block.end.0)));
    assert_eq!(blocks, [(1280, 1285), (1270, 1275), (1260, 1265), (1250, 1255)]);
}
