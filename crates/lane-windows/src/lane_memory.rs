//! The rings of a lane, in two sections of the same layout. Each side writes one section and has
//! the other to be read only, so neither can change what the other relies on.
//!
//! ```text
//! producer position, ring to fill | consumer page, ring to read | data of the ring to fill
//! ```
//!
//! Behind that the program's section has the public part of its stack's memory, which the service
//! reads: counters, and a row for each socket. All else of the stack is the program's own, because
//! no other process has the lane.

use crate::section::{SectionView, SharedSection, WritableView};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use tickwire_lane::record_ring::{ConsumerPage, ProducerMemory, RING_BYTES, RecordProducer, RecordRing, RingMemory};
use tickwire_stack::Limits;
use tickwire_stack::memory::PAGE;
use tickwire_stack::table::{Counters, SocketRow};

const PRODUCER: usize = 0;
const CONSUMER: usize = PAGE;
const DATA: usize = 2 * PAGE;

/// What a lane's stack has room for.
pub const LIMITS: Limits = Limits::DEFAULT;

/// Where the counters begin in the program's section.
pub(crate) const COUNTERS: usize = (DATA + RING_BYTES as usize).next_multiple_of(PAGE);

/// And its rows.
pub(crate) const ROWS: usize = COUNTERS + size_of::<Counters>().next_multiple_of(PAGE);

/// Bytes of each of a lane's two sections.
pub const SECTION_BYTES: usize = ROWS + LIMITS.rows() * size_of::<SocketRow>();

/// Which side of a lane a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneSide {
    /// The program.
    Program,
    /// The service.
    Service,
}

/// Both sections in one process.
#[derive(Debug)]
pub struct LaneMemory {
    side: LaneSide,
    own: WritableView,
    others: SectionView,
    /// The public part of the program's section is a stack's.
    has_stack: AtomicBool,
}

impl LaneMemory {
    /// Maps both: `own` is written by this side.
    ///
    /// # Errors
    /// If a handle is none of a section of this size, or does not permit its use.
    pub fn map(side: LaneSide, own: &SharedSection, others: &SharedSection) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            side,
            own: own.view_writable(SECTION_BYTES)?,
            others: others.view(SECTION_BYTES)?,
            has_stack: false.into(),
        }))
    }

    /// The counters of the program's stack, as that has written them.
    ///
    /// # Panics
    /// If this side is the program: there they are the stack's.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        // SAFETY: inside of the view and aligned (checked by `at`), all atomics, valid for any
        // bytes; it stays mapped for as long as the view lives.
        unsafe { self.programs().at::<Counters>(COUNTERS).as_ref() }
    }

    /// The rows of its sockets, as it has written them.
    ///
    /// # Panics
    /// As [`LaneMemory::counters`].
    #[must_use]
    pub fn rows(&self) -> &[SocketRow] {
        let rows = self.programs().array::<SocketRow>(ROWS, LIMITS.rows());
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(rows.as_ptr(), LIMITS.rows()) }
    }

    /// Copies the bytes of the counters.
    pub(crate) fn copy_counters(&self, to: &mut [u8]) {
        self.programs().copy_out(COUNTERS, to);
    }

    /// Copies the bytes of a row, which is one of [`LaneMemory::rows`].
    pub(crate) fn copy_row(&self, number: usize, to: &mut [u8]) {
        self.programs().copy_out(ROWS + number * size_of::<SocketRow>(), to);
    }

    /// The program's section, on the other side.
    fn programs(&self) -> &SectionView {
        assert_eq!(self.side, LaneSide::Service, "a program's public memory is its stack's");
        &self.others
    }

    /// The program's own section, for the public part of its stack's memory. `None` if this side is
    /// not the program, or the second time.
    pub(crate) fn take_public(&self) -> Option<&SectionView> {
        let is_first = self.side == LaneSide::Program && !self.has_stack.swap(true, SeqCst);
        is_first.then(|| self.own.reading())
    }

    fn consumer_page(view: &SectionView) -> &ConsumerPage {
        // SAFETY: inside of the view and aligned (checked by `at`), all atomics, valid for any
        // bytes; it stays mapped for as long as the view lives.
        unsafe { view.at::<ConsumerPage>(CONSUMER).as_ref() }
    }

    fn producer(view: &SectionView) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { view.at::<AtomicU64>(PRODUCER).as_ref() }
    }
}

/// The ring that this side reads.
#[derive(Debug)]
pub struct ReadRing(Arc<LaneMemory>);

/// The ring that this side fills.
#[derive(Debug)]
pub struct WriteRing(Arc<LaneMemory>);

/// The rings of a lane, for the side that has this memory: the one it reads, and the one it fills.
#[must_use]
pub fn rings(memory: Arc<LaneMemory>) -> (RecordRing<ReadRing>, RecordProducer<WriteRing>) {
    (RecordRing::new(ReadRing(Arc::clone(&memory))), RecordProducer::new(WriteRing(memory)))
}

impl ReadRing {
    /// The same ring: it has no state but in its memory.
    pub(crate) fn again(&self) -> RecordRing<Self> {
        RecordRing::new(Self(Arc::clone(&self.0)))
    }
}

impl RingMemory for ReadRing {
    fn size(&self) -> u64 {
        RING_BYTES.into()
    }

    #[inline]
    fn consumer_page(&self) -> &ConsumerPage {
        LaneMemory::consumer_page(self.0.own.reading())
    }

    #[inline]
    fn producer(&self) -> &AtomicU64 {
        LaneMemory::producer(&self.0.others)
    }

    #[inline]
    fn readable(&self) -> u64 {
        RING_BYTES.into()
    }

    #[inline]
    fn header(&self, at: usize) -> u32 {
        // SAFETY: inside of the view and aligned (checked by `at`), an atomic, valid for any bytes.
        unsafe { self.0.others.at::<AtomicU32>(DATA + at).as_ref() }.load(Acquire)
    }

    #[inline]
    fn copy(&self, at: usize, to: &mut [u8]) {
        if at + to.len() <= RING_BYTES as usize {
            self.0.others.copy_out(DATA + at, to);
        }
    }
}

impl ProducerMemory for WriteRing {
    fn size(&self) -> u64 {
        RING_BYTES.into()
    }

    #[inline]
    fn consumer(&self) -> u64 {
        LaneMemory::consumer_page(&self.0.others).consumer()
    }

    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0.own.copy_in(DATA + at, bytes);
    }

    #[inline]
    fn publish(&self, position: u64) {
        LaneMemory::producer(self.0.own.reading()).store(position, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_lane::record_ring::Wakes;
    use tickwire_stack::time::Instant;
    use tickwire_stack::{Checksum, ReceiveMetadata};

    fn packet(len: usize) -> ReceiveMetadata {
        let at = Instant::from_nanos(5);
        ReceiveMetadata { len: len as u32, segment: 0, checksum: Checksum::Good, at, interface: 3 }
    }

    #[test]
    fn frames_cross_between_two_mappings_in_both_directions() {
        let sections = [SharedSection::create(SECTION_BYTES).unwrap(), SharedSection::create(SECTION_BYTES).unwrap()];
        let service = LaneMemory::map(LaneSide::Service, &sections[0], &sections[1]).unwrap();
        let program = LaneMemory::map(LaneSide::Program, &sections[1], &sections[0]).unwrap();
        let (service_reads, mut service_writes) = rings(service);
        let (program_reads, mut program_writes) = rings(program);
        // Several times around the ring.
        for n in 0..5000_usize {
            let frame = vec![n as u8; 60 + n % 1454];
            for (writes, reads) in [(&mut service_writes, &program_reads), (&mut program_writes, &service_reads)] {
                assert!(writes.put(&packet(frame.len()), &[&frame]));
                let wakes = writes.publish();
                assert_eq!(wakes, if n == 0 { Wakes::Waiters } else { Wakes::None });
                let mut seen = None;
                reads.read(2, |packet, read| {
                    let mut bytes = vec![0; packet.len as usize];
                    read(0, &mut bytes);
                    seen = Some((packet, bytes));
                });
                assert_eq!(seen, Some((packet(frame.len()), frame.clone())));
            }
        }
    }
}
