//! Where everything lies in a lane's region.
//!
//! ```text
//! frames | header page | counters | rows | the stack's pools
//!          \______ readable by others ___/
//! ```
//! The offsets follow from the limits alone, so both sides compute them and neither has to trust
//! the other.

use crate::duty::PollDuty;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use tickwire_stack::memory::{PAGE, SECTIONS};
use tickwire_stack::{Limits, Memory};
use zerocopy::FromBytes;

/// Version of the header page: to be raised when its layout or its meaning changes. For all that
/// the stack keeps in the region, table rows too, there is [`Memory::LAYOUT_HASH`].
pub const REGION_VERSION: u32 = 4;

/// First bytes of a header.
const MAGIC: u64 = 0x5449_434b_5749_5245; // "TICKWIRE"

/// Indices in the order of [`Memory::sections`]: frames, counters, rows, then what only the lane's
/// processes know.
const FRAMES: usize = 0;
const COUNTERS: usize = 1;
const ROWS: usize = 2;

/// Offsets in a region, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    limits: Limits,
    sections: [usize; SECTIONS],
    header: usize,
    public_end: usize,
    size: usize,
}

impl Layout {
    /// The layout for given limits; `None` if they are not [`Limits::valid`].
    #[must_use]
    pub fn new(limits: &Limits) -> Option<Self> {
        if !limits.valid() {
            return None;
        }
        let mut layout = Self { limits: *limits, sections: [0; SECTIONS], header: 0, public_end: 0, size: 0 };
        let mut end = 0usize;
        for (place, section) in Memory::sections(limits).iter().enumerate() {
            end = end.next_multiple_of(section.align);
            layout.sections[place] = end;
            end += section.bytes();
            if place == FRAMES {
                layout.header = end.next_multiple_of(PAGE);
                end = layout.header + PAGE;
            }
            if place == ROWS {
                // The next section starts on a page of its own, so that a view of the public part
                // shows nothing else.
                end = end.next_multiple_of(PAGE);
                layout.public_end = end;
            }
        }
        layout.size = end.next_multiple_of(PAGE);
        Some(layout)
    }

    /// The limits it was made for.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes of the whole region.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the frames, which begin at 0.
    #[must_use]
    pub fn umem(&self) -> usize {
        self.limits.frames as usize * tickwire_stack::frame::FRAME_SIZE
    }

    /// Where the header page is.
    #[must_use]
    pub const fn header(&self) -> usize {
        self.header
    }

    /// Where the part that other processes may read ends; it begins with the header.
    #[must_use]
    pub const fn public_end(&self) -> usize {
        self.public_end
    }

    /// Where each section of [`Memory::sections`] lies, in their order.
    #[must_use]
    pub const fn sections(&self) -> &[usize; SECTIONS] {
        &self.sections
    }

    /// Where the counters lie.
    #[must_use]
    pub const fn counters(&self) -> usize {
        self.sections[COUNTERS]
    }

    /// Where the rows lie.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.sections[ROWS]
    }
}

/// The shared state about waiting threads. All of it is a hint: nothing breaks if a word is wrong.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Waiting {
    /// When the rings were last polled, in nanoseconds of `CLOCK_MONOTONIC`.
    pub polled_at: AtomicU64,
    /// Not 0 after a call failed inside: no thread may use the stack any more.
    pub lost: AtomicU64,
    /// The secret that processes show each other when they wake each other's threads, 0 at first.
    pub wake_secret: [AtomicU64; 2],
    /// Which thread polls.
    pub duty: PollDuty,
    /// How often anything happened to any socket. Wraps.
    pub change: AtomicU32,
    /// How often anything happened to sockets of each bit of `Stack::change_mask`. Wraps.
    pub changes: [AtomicU32; 64],
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            polled_at: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            wake_secret: Default::default(),
            duty: PollDuty::default(),
            change: AtomicU32::new(0),
            changes: [const { AtomicU32::new(0) }; 64],
        }
    }
}

impl Waiting {
    /// Something happened to the sockets of these bits. The caller has the lock.
    pub fn note_changes(&self, bits: u64) {
        let one_more = |count: &AtomicU32| count.store(count.load(Relaxed).wrapping_add(1), Release);
        let mut left = bits;
        while left != 0 {
            one_more(&self.changes[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
        // Last: a thread that sees this sees the others.
        one_more(&self.change);
    }

    /// A number that changes when something happens to a socket of these bits.
    #[must_use]
    pub fn change_of(&self, bits: u64) -> u32 {
        if bits == u64::MAX {
            return self.change.load(Acquire);
        }
        let (mut sum, mut left) = (0u32, bits);
        while left != 0 {
            sum = sum.wrapping_add(self.changes[left.trailing_zeros() as usize].load(Acquire));
            left &= left - 1;
        }
        sum
    }
}

/// The beginning of a region's header page: which region it is. The service writes it once, before
/// any other process has the region. What follows in the page (lock, stream turn, [`Waiting`]) is
/// the operating system's, in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct RegionIdentity {
    magic: u64,
    version: u32,
    lane: u32,
    layout: u64,
    size: u64,
    limits: Limits,
    /// Bytes of the receive ring, and room for more of its kind.
    ring: u64,
}

impl RegionIdentity {
    /// Of the region of a lane, with a receive ring of so many bytes.
    #[must_use]
    pub fn new(lane: u32, layout: &Layout, ring: u32) -> Self {
        Self {
            magic: MAGIC,
            version: REGION_VERSION,
            lane,
            layout: Memory::LAYOUT_HASH,
            size: layout.size() as u64,
            limits: *layout.limits(),
            ring: ring.into(),
        }
    }

    /// What the region of which this was read has otherwise than the expected one: a word for
    /// users. `None` if it is the expected one.
    #[must_use]
    pub fn differs(&self, expected: &Self) -> Option<&'static str> {
        let checks = [
            (self.magic == expected.magic, "kind"),
            (self.version == expected.version, "version"),
            (self.layout == expected.layout, "layout"),
            (self.size == expected.size, "size"),
            (self.limits == expected.limits, "set of limits"),
            (self.lane == expected.lane, "lane"),
            (self.ring == expected.ring, "ring size"),
        ];
        checks.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn sections_do_not_overlap_and_a_default_lane_stays_below_32_mib() {
        let layout = Layout::new(&Limits::DEFAULT).unwrap();
        assert!(layout.size() <= 32 << 20, "{}", layout.size());
        assert_eq!(layout.header() % PAGE, 0);
        assert!(layout.umem() <= layout.header());
        assert!(layout.header() + PAGE <= layout.counters() && layout.counters() < layout.rows());
        assert_eq!(layout.public_end() % PAGE, 0);
        let sections = Memory::sections(&Limits::DEFAULT);
        for (i, pair) in layout.sections.windows(2).enumerate() {
            assert!(pair[0] + sections[i].bytes() <= pair[1], "{}", sections[i].name);
            assert_eq!(pair[1] % sections[i + 1].align, 0);
        }
        assert!(layout.sections[ROWS + 1] >= layout.public_end());
    }

    #[test]
    fn a_change_is_seen_by_those_that_it_may_concern() {
        let waiting = Waiting::default();
        let sums = || [1, 1 << 63, 0b11, u64::MAX].map(|bits| waiting.change_of(bits));
        let before = sums();
        waiting.note_changes(0b10);
        let after = sums();
        assert_eq!([0, 1, 2, 3].map(|n| before[n] != after[n]), [false, false, true, true]);
        waiting.note_changes(u64::MAX);
        assert!((0..4).all(|n| sums()[n] != after[n]));
    }

    #[test]
    fn a_header_of_another_region_is_told_by_what_is_different() {
        let layout = Layout::new(&Limits::DEFAULT).unwrap();
        let expected = RegionIdentity::new(7, &layout, 4096);
        let differs = |other: RegionIdentity| other.differs(&expected);
        assert_eq!(differs(expected), None);
        assert_eq!(differs(RegionIdentity::new(8, &layout, 4096)), Some("lane"));
        assert_eq!(differs(RegionIdentity::new(7, &layout, 8192)), Some("ring size"));
        assert_eq!(differs(RegionIdentity { version: REGION_VERSION + 1, ..expected }), Some("version"));
        assert_eq!(
            differs(RegionIdentity { layout: 1, limits: Limits { tcp: 1, ..Limits::DEFAULT }, ..expected }),
            Some("layout")
        );
        assert_eq!(differs(RegionIdentity::new_zeroed()), Some("kind"));
    }

    #[test]
    fn odd_frame_counts_and_wild_limits() {
        let odd = Layout::new(&Limits { frames: 65, ..Limits::DEFAULT }).unwrap();
        assert_eq!(odd.header() % PAGE, 0);
        assert!(odd.header() >= odd.umem());
        assert_eq!(Layout::new(&Limits { frames: 0, ..Limits::DEFAULT }), None);
        assert_eq!(Layout::new(&Limits { udp: u32::MAX, ..Limits::DEFAULT }), None);
    }
}
