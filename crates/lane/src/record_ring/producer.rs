//! The producer of a ring of records, where that is a process. It keeps its position in its own
//! memory. Of what the reader can write it looks at the consumer position only, and a wrong one
//! makes the ring look full, or wakes a thread once too often.
//!
//! No record wraps: where the space behind the last one is too short, a discarded record fills it.

use super::{CHECKSUM_GOOD, CHECKSUM_MAYBE_PARTIAL, DISCARDED, HEADER, RECORD, WAKES_NONE, WAKES_STANDBY};
use tickwire_stack::{Checksum, ReceiveMetadata};

/// The memory of a ring in the process that fills it.
pub trait ProducerMemory {
    /// Bytes of data: a power of two.
    fn size(&self) -> u64;

    /// The consumer position, which the reader may set to anything. Sequentially consistent with
    /// [`ProducerMemory::publish`].
    fn consumer(&self) -> u64;

    /// Writes bytes into the data. They are inside of it.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Sets the producer position, after all that was written before (sequentially consistent).
    fn publish(&self, position: u64);
}

/// Which thread of the reader is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// None: one polls, or is about to look.
    None,
    /// Those that sleep on the ring.
    Waiters,
    /// The standby thread.
    Standby,
}

/// Fills a ring.
#[derive(Debug)]
pub struct RecordProducer<M> {
    memory: M,
    /// Where the next record begins.
    position: u64,
    /// Up to where the reader knows of records.
    published: u64,
}

impl<M: ProducerMemory> RecordProducer<M> {
    /// The producer of an empty ring, which has had none before.
    ///
    /// # Panics
    /// If its size is no power of two.
    #[must_use]
    pub fn new(memory: M) -> Self {
        assert!(memory.size().is_power_of_two(), "a ring's size is a power of two");
        Self { memory, position: 0, published: 0 }
    }

    /// Its memory.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Puts a frame into the ring, given in its pieces, to be seen by the reader after
    /// [`RecordProducer::publish`]. The length is that of the pieces together; that in `packet` is
    /// not used. Returns `false` if there is no room.
    #[must_use]
    pub fn put(&mut self, packet: &ReceiveMetadata, pieces: &[&[u8]]) -> bool {
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let Some(at) = self.reserve(RECORD + len) else { return false };
        let flags = match packet.checksum {
            Checksum::Good => CHECKSUM_GOOD,
            Checksum::MaybePartial => CHECKSUM_MAYBE_PARTIAL,
            Checksum::Unknown => 0,
        };
        let mut record = [0; HEADER as usize + RECORD];
        record[..4].copy_from_slice(&((RECORD + len) as u32).to_ne_bytes());
        record[8..16].copy_from_slice(&packet.at.as_nanos().to_ne_bytes());
        record[16..20].copy_from_slice(&(len as u32).to_ne_bytes());
        record[20..22].copy_from_slice(&packet.segment.to_ne_bytes());
        record[22..24].copy_from_slice(&flags.to_ne_bytes());
        record[24..28].copy_from_slice(&packet.interface.to_ne_bytes());
        self.memory.write(at, &record);
        let mut at = at + record.len();
        for piece in pieces {
            self.memory.write(at, piece);
            at += piece.len();
        }
        true
    }

    /// Whether a frame of so many bytes can be put into the ring now.
    #[must_use]
    pub fn has_room(&self, len: usize) -> bool {
        self.room(RECORD + len).is_some()
    }

    /// What a record of so many bytes beside its header takes: the bytes that are left out before
    /// it so that it does not wrap, and its own. `None` if there is no room.
    fn room(&self, len: usize) -> Option<(u64, u64)> {
        let size = self.memory.size();
        let whole = (len as u64 + HEADER + 7) & !7;
        let behind = size - (self.position & (size - 1));
        let filler = if whole > behind { behind } else { 0 };
        let used = self.position.wrapping_sub(self.memory.consumer() & !7);
        // A position that the reader cannot have leaves no room. (A record's length leaves the two
        // highest bits to flags.)
        let has_room = whole < size.min(1 << 30) && size.checked_sub(used)? >= filler + whole;
        has_room.then_some((filler, whole))
    }

    /// Takes room for a record of so many bytes beside its header. Returns where it begins in the
    /// data.
    fn reserve(&mut self, len: usize) -> Option<usize> {
        let (filler, whole) = self.room(len)?;
        let mask = self.memory.size() - 1;
        if filler > 0 {
            let header = DISCARDED | (filler - HEADER) as u32;
            self.memory.write((self.position & mask) as usize, &header.to_ne_bytes());
        }
        let begin = self.position.wrapping_add(filler);
        self.position = begin.wrapping_add(whole);
        Some((begin & mask) as usize)
    }

    /// Shows the reader all records that have been put. Returns which of its threads is to be woken
    /// for them.
    ///
    /// The consumer position is read twice. After the records are published: a thread that has
    /// armed the ring by then is either seen here, or sees the records before it sleeps. And
    /// before: another thread may read the records, and write that none is to be woken.
    #[must_use = "a thread that sleeps is to be woken"]
    pub fn publish(&mut self) -> Wakes {
        if self.published == self.position {
            return Wakes::None;
        }
        let before = self.wakes();
        self.memory.publish(self.position);
        let wakes = if before == Wakes::None { self.wakes() } else { before };
        self.published = self.position;
        wakes
    }

    /// Which thread is to be woken for records that begin where the published ones end: none if the
    /// reader has not come so far.
    fn wakes(&self) -> Wakes {
        let consumer = self.memory.consumer();
        let has_come = (consumer & !7).wrapping_sub(self.published) as i64 >= 0;
        match consumer {
            _ if !has_come || consumer & WAKES_NONE != 0 => Wakes::None,
            _ if consumer & WAKES_STANDBY != 0 => Wakes::Standby,
            _ => Wakes::Waiters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SIZE, frames};
    use super::super::{OwnedRing, RecordRing};
    use super::*;
    use std::sync::Arc;
    use tickwire_stack::time::Instant;

    const PACKET: ReceiveMetadata = ReceiveMetadata {
        len: 0,
        segment: 100,
        checksum: Checksum::MaybePartial,
        at: Instant::from_nanos(5),
        interface: 3,
    };

    fn pair() -> (RecordProducer<Arc<OwnedRing>>, RecordRing<Arc<OwnedRing>>) {
        let memory = OwnedRing::new(SIZE as usize);
        (RecordProducer::new(Arc::clone(&memory)), RecordRing::new(memory))
    }

    /// Puts a frame of so many bytes, all `n`, and publishes it.
    fn put(producer: &mut RecordProducer<Arc<OwnedRing>>, n: u8, len: usize) -> Option<Wakes> {
        let frame = vec![n; len];
        let (front, back) = frame.split_at(len / 3);
        producer.put(&PACKET, &[front, back]).then(|| producer.publish())
    }

    #[test]
    fn frames_are_read_as_they_were_put_wherever_the_ring_ends() {
        let (mut producer, ring) = pair();
        for n in 0..400 {
            let len = 14 + n * 37 % 900;
            assert!(put(&mut producer, n as u8, len).is_some());
            let mut seen = None;
            ring.read(4, |packet, read| {
                let mut frame = vec![0; packet.len as usize];
                read(0, &mut frame);
                seen = Some((packet, frame));
            });
            assert_eq!(seen, Some((ReceiveMetadata { len: len as u32, ..PACKET }, vec![n as u8; len])));
        }
    }

    #[test]
    fn a_full_ring_takes_no_more_until_something_has_been_read() {
        let (mut producer, ring) = pair();
        let mut count = 0;
        while put(&mut producer, count, 200).is_some() {
            count += 1;
        }
        assert_eq!(u64::from(count), SIZE / (200 + RECORD as u64 + HEADER));
        assert_eq!(frames(&ring).len(), usize::from(count));
        // The reader has not told all that it has read, so that nothing wakes it: but most.
        assert!(put(&mut producer, 1, 200).is_some());
        assert!(!producer.put(&PACKET, &[&vec![0; SIZE as usize]]), "longer than the ring");
        assert_eq!(frames(&ring), [[1; 200]]);
    }

    #[test]
    fn records_are_seen_together_when_they_are_published() {
        let (mut producer, ring) = pair();
        assert!(producer.put(&PACKET, &[&[1; 60]]) && producer.put(&PACKET, &[&[2; 60]]));
        assert!(ring.is_empty());
        assert_eq!(producer.publish(), Wakes::Waiters, "nothing has been read yet");
        assert_eq!(frames(&ring), [[1; 60], [2; 60]]);
        assert_eq!(producer.publish(), Wakes::None, "there is nothing new");
    }

    #[test]
    fn threads_are_woken_as_the_reader_says() {
        let (mut producer, ring) = pair();
        let mut wakes = || put(&mut producer, 0, 60).unwrap();
        wakes();
        for _ in 0..100 {
            frames(&ring);
            assert_eq!(wakes(), Wakes::None, "a thread polls");
        }
        frames(&ring);
        ring.arm(1);
        assert_eq!(wakes(), Wakes::Waiters);
        assert_eq!(wakes(), Wakes::None, "which have not read yet");
        frames(&ring);
        ring.disarm(1);
        assert!(ring.arm_standby());
        assert_eq!(wakes(), Wakes::Standby);
        frames(&ring);
        ring.disarm_standby();
        assert_eq!(wakes(), Wakes::None);
    }

    #[test]
    fn whatever_position_the_reader_sets_nothing_is_written_outside() {
        for position in [1, 7, 8, SIZE - 8, SIZE, SIZE + 8, 1 << 40, u64::MAX - 7, u64::MAX] {
            let (mut producer, ring) = pair();
            for n in 0..40 {
                ring.forge_consumer(position.wrapping_add(n * 8));
                put(&mut producer, n as u8, 100);
            }
            // What it reads afterwards may be missing, but it is what was put.
            for frame in frames(&ring) {
                assert!(frame.iter().all(|byte| *byte == frame[0]));
            }
        }
    }
}
