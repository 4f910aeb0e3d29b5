//! A copy of the public part of a lane's memory: counters, and the rows of its sockets. The service
//! makes it for a tool that shows lanes (`tickwire stat`). The lane's own sections hold packets of
//! its program, which are not for others.
//!
//! ```text
//! number of rows | counters | rows in use
//! ```

use crate::lane_memory::{LIMITS, LaneMemory};
use crate::section::{PROGRAM_READS, SectionView, SharedSection};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tickwire_stack::memory::PAGE;
use tickwire_stack::table::{Counters, SocketRow, kind};

/// The rights to a copy that a tool gets.
pub const TOOL_READS: u32 = PROGRAM_READS;

const COUNTERS: usize = PAGE;
const ROWS: usize = COUNTERS + size_of::<Counters>().next_multiple_of(PAGE);

/// A copy, in a process that shows it.
#[derive(Debug)]
pub struct LaneSnapshot {
    view: SectionView,
    rows: usize,
}

impl LaneSnapshot {
    /// Copies what a lane's program has written. It may write at any time, so the copy of a row may
    /// be torn, or be nonsense.
    ///
    /// # Errors
    /// If there is no memory left.
    ///
    /// # Panics
    /// If this process is the lane's program.
    pub fn take(lane: &LaneMemory) -> io::Result<SharedSection> {
        let used: Vec<usize> =
            (0..).zip(lane.rows()).filter(|(_, row)| row.kind.get() != kind::FREE).map(|(n, _)| n).collect();
        let size = ROWS + used.len() * size_of::<SocketRow>();
        let section = SharedSection::create(size)?;
        let copy = section.view_writable(size)?;
        copy.copy_in(0, &(used.len() as u64).to_ne_bytes());
        let mut bytes = vec![0; size_of::<Counters>()];
        lane.copy_counters(&mut bytes);
        copy.copy_in(COUNTERS, &bytes);
        let mut bytes = vec![0; size_of::<SocketRow>()];
        for (place, &number) in used.iter().enumerate() {
            lane.copy_row(number, &mut bytes);
            copy.copy_in(ROWS + place * size_of::<SocketRow>(), &bytes);
        }
        Ok(section)
    }

    /// Maps a copy that the service has made.
    ///
    /// # Errors
    /// If it is none.
    pub fn open(section: &SharedSection) -> io::Result<Self> {
        let head = section.view(ROWS)?;
        // SAFETY: inside of the view and aligned (checked by `at`), an atomic, valid for any bytes.
        let rows = unsafe { head.at::<AtomicU64>(0).as_ref() }.load(Relaxed);
        let rows = usize::try_from(rows).ok().filter(|rows| *rows <= LIMITS.rows());
        let rows = rows.ok_or(io::ErrorKind::InvalidData)?;
        let view = section.view(ROWS + rows * size_of::<SocketRow>())?;
        Ok(Self { view, rows })
    }

    /// The counters of the program's stack.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        // SAFETY: inside of the view and aligned (checked by `at`), all atomics, valid for any
        // bytes; it stays mapped for as long as the view lives.
        unsafe { self.view.at::<Counters>(COUNTERS).as_ref() }
    }

    /// The rows in use.
    #[must_use]
    pub fn rows(&self) -> &[SocketRow] {
        let rows = self.view.array::<SocketRow>(ROWS, self.rows);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(rows.as_ptr(), self.rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_memory::{self, LaneSide, SECTION_BYTES};
    use crate::section::WritableView;

    /// A lane of which a program has written the section, as the test does.
    fn lane() -> (WritableView, std::sync::Arc<LaneMemory>) {
        let sections = [SharedSection::create(SECTION_BYTES).unwrap(), SharedSection::create(SECTION_BYTES).unwrap()];
        let programs = sections[1].view_writable(SECTION_BYTES).unwrap();
        (programs, LaneMemory::map(LaneSide::Service, &sections[0], &sections[1]).unwrap())
    }

    #[test]
    fn a_copy_has_the_rows_in_use_and_the_counters_and_nothing_else() {
        let (programs, lane) = lane();
        let rows = programs.reading().array::<SocketRow>(lane_memory::ROWS, LIMITS.rows());
        // SAFETY: inside of the view, which is writable here; all atomics, valid for any bytes.
        let rows = unsafe { std::slice::from_raw_parts(rows.as_ptr(), LIMITS.rows()) };
        let (first, last) = (&rows[3], rows.last().unwrap());
        first.kind.set(kind::UDP);
        first.rx_packets.set(7);
        last.kind.set(kind::KERNEL_TCP);
        // SAFETY: as above.
        unsafe { programs.reading().at::<Counters>(lane_memory::COUNTERS).as_ref() }.ip_in_receives.set(5);
        let copy = LaneSnapshot::open(&LaneSnapshot::take(&lane).unwrap()).unwrap();
        let kinds: Vec<u32> = copy.rows().iter().map(|row| row.kind.get()).collect();
        assert_eq!(kinds, [kind::UDP, kind::KERNEL_TCP]);
        assert_eq!((copy.rows()[0].rx_packets.get(), copy.counters().ip_in_receives.get()), (7, 5));
        first.kind.set(kind::FREE);
        assert_eq!(copy.rows().len(), 2, "it is a copy");
    }

    #[test]
    fn nonsense_in_every_byte_is_copied_and_shown_without_harm() {
        let (programs, lane) = lane();
        programs.copy_in(0, &vec![0xff; SECTION_BYTES]);
        let copy = LaneSnapshot::open(&LaneSnapshot::take(&lane).unwrap()).unwrap();
        assert_eq!(copy.rows().len(), LIMITS.rows());
        assert!(copy.counters().iter().all(|(_, value)| value == u64::MAX));
    }

    #[test]
    fn what_is_no_copy_is_refused() {
        let short = SharedSection::create(PAGE).unwrap();
        assert!(LaneSnapshot::open(&short).is_err());
        let section = SharedSection::create(ROWS + size_of::<SocketRow>()).unwrap();
        let view = section.view_writable(ROWS).unwrap();
        for count in [u64::MAX, LIMITS.rows() as u64 + 1, 1000] {
            view.copy_in(0, &count.to_ne_bytes());
            assert!(LaneSnapshot::open(&section).is_err(), "{count} rows");
        }
        for count in [0, 1] {
            view.copy_in(0, &(count as u64).to_ne_bytes());
            assert_eq!(LaneSnapshot::open(&section).unwrap().rows().len(), count);
        }
    }
}
