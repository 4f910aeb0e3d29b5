//! The page: one clock for every program of a machine, in 4096 bytes of shared memory.
//!
//! All words are native 64-bit integers: the page never leaves the machine. Words 0 to 4 are the
//! header and are written once. Word 8 is the sequence number, alone in its cache line. The buffers
//! begin at words 16 and 32, and the status is the first word of each.
//!
//! These offsets, the protocol and the meaning of the status bits are the same in all versions and
//! must not change. A daemon of any version replaces a page of any other version and notifies its
//! readers ([`Page::retire`]).

use crate::double::Places;
use crate::parameters::{Parameters, Status};
use crate::reading::Reading;
use crate::time::Count;
use core::sync::atomic::{AtomicU64, Ordering};

/// The page's size in bytes.
pub const SIZE: usize = 4096;
/// Its size in words.
pub const WORDS: usize = SIZE / 8;
/// The first word: "TICKCLCK" in memory on a little-endian machine.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TICKCLCK");
/// Increments when the meaning of any word changes.
pub const VERSION: u64 = 4;

const WORD_MAGIC: usize = 0;
const WORD_VERSION: usize = 1;
const WORD_SIZE: usize = 2;
const WORD_COUNTER: usize = 3;
const WORD_BOOT: usize = 4;
const PLACES: Places = Places { sequence: 8, buffers: [16, 32] };
/// How often a read restarts before it gives up. It restarts only if the writer published twice
/// within the few nanoseconds of the read.
const TRIES: u32 = 16;

/// The counters that a page can describe, by their number in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CounterKind {
    /// x86's time stamp counter.
    Tsc = 1,
    /// The virtual counter of aarch64.
    Cntvct = 2,
    /// The operating system's `CLOCK_MONOTONIC_RAW`, which is not steered; in nanoseconds.
    MonotonicRaw = 3,
}

impl CounterKind {
    /// Converts from the number in the page.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Tsc),
            2 => Some(Self::Cntvct),
            3 => Some(Self::MonotonicRaw),
            _ => None,
        }
    }

    /// The display name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsc => "TSC",
            Self::Cntvct => "CNTVCT",
            Self::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
        }
    }
}

/// Why this program cannot read a piece of memory as a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// Smaller or larger than a page.
    Size(u64),
    /// The magic number is wrong.
    Magic,
    /// The magic number is zero: the page is not initialised yet, or is none.
    Blank,
    /// It was made before this boot: the counter has restarted since.
    Boot,
    /// It is of another version of Tickwire.
    Version(u64),
    /// It describes a counter that this program does not know.
    Counter(u64),
}

impl core::fmt::Display for PageFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Size(size) => write!(f, "it has {size} bytes instead of {SIZE}"),
            Self::Magic | Self::Blank => f.write_str("it is no clock page"),
            Self::Boot => f.write_str("it is from before this machine was started"),
            Self::Version(version) => {
                write!(
                    f,
                    "it is of version {version}, this program reads version {VERSION}: they belong to different Tickwires"
                )
            }
            Self::Counter(number) => write!(f, "it is about a counter that this program does not know ({number})"),
        }
    }
}

impl core::error::Error for PageFault {}

/// A page in any memory.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    words: &'a [AtomicU64; WORDS],
}

impl<'a> Page<'a> {
    /// Creates a page in these words, which are all zero. `boot` is a random number that identifies
    /// this boot of the machine; 0 if there is none.
    #[must_use]
    pub fn create(words: &'a [AtomicU64; WORDS], counter: CounterKind, boot: u64) -> Self {
        words[WORD_VERSION].store(VERSION, Ordering::Relaxed);
        words[WORD_SIZE].store(SIZE as u64, Ordering::Relaxed);
        words[WORD_COUNTER].store(counter as u64, Ordering::Relaxed);
        words[WORD_BOOT].store(boot, Ordering::Relaxed);
        words[WORD_MAGIC].store(MAGIC, Ordering::Release);
        Self { words }
    }

    /// Opens the page in these words and returns it with its counter. `boot` as for
    /// [`Self::create`].
    ///
    /// # Errors
    /// Why this page cannot be read.
    pub fn open(words: &'a [AtomicU64; WORDS], boot: u64) -> Result<(Self, CounterKind), PageFault> {
        match words[WORD_MAGIC].load(Ordering::Acquire) {
            MAGIC => {}
            0 => return Err(PageFault::Blank),
            _ => return Err(PageFault::Magic),
        }
        let word = |index: usize| words[index].load(Ordering::Relaxed);
        if word(WORD_VERSION) != VERSION {
            return Err(PageFault::Version(word(WORD_VERSION)));
        }
        if word(WORD_SIZE) != SIZE as u64 {
            return Err(PageFault::Size(word(WORD_SIZE)));
        }
        if word(WORD_BOOT) != boot && word(WORD_BOOT) != 0 && boot != 0 {
            return Err(PageFault::Boot);
        }
        let counter = CounterKind::from_number(word(WORD_COUNTER)).ok_or(PageFault::Counter(word(WORD_COUNTER)))?;
        Ok((Self { words }, counter))
    }

    /// The page in words for which [`Self::open`] or [`Self::create`] has already succeeded.
    #[inline]
    #[must_use]
    pub const fn assume(words: &'a [AtomicU64; WORDS]) -> Self {
        Self { words }
    }

    /// Publishes parameters. There must be one writer only.
    pub fn publish(self, parameters: &Parameters) {
        PLACES.publish(self.words, &parameters.to_words());
    }

    /// Marks the page as replaced by another one, for readers of any version. They get no time from
    /// it any more, and readers of this version no spans either. There must be one writer only.
    pub fn retire(self) {
        if self.words[WORD_VERSION].load(Ordering::Relaxed) == VERSION {
            self.publish(&Parameters { status: Status::RETIRED, ..Parameters::UNKNOWN });
        } else {
            // The layout of the buffer's other words in that version is unknown, so they are left
            // as they are.
            PLACES.publish(self.words, &[u64::from(Status::RETIRED.0)]);
        }
    }

    /// Reads `counter` and converts its value by the newest parameters. Returns both. `None` as for
    /// [`Self::read`].
    #[inline]
    pub fn time(self, counter: impl FnMut() -> Count) -> Option<(Count, Reading)> {
        let (words, count) = PLACES.read(self.words, TRIES, counter)?;
        Some((count, Parameters::for_time(&words).reading_near(count)))
    }

    /// The newest parameters, and the value of `counter`, read while they are the newest.
    ///
    /// `None` if every attempt raced with the writer, which only a faulty writer causes.
    #[inline]
    pub fn read<T>(self, counter: impl FnMut() -> T) -> Option<(Parameters, T)> {
        let (words, beside) = PLACES.read(self.words, TRIES, counter)?;
        Some((Parameters::from_words(&words), beside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> [AtomicU64; WORDS] {
        [const { AtomicU64::new(0) }; WORDS]
    }

    #[test]
    fn a_retired_page_gives_its_status_and_neither_time_nor_spans() {
        let memory = words();
        let page = Page::create(&memory, CounterKind::Tsc, 7);
        let difference = crate::scale::Scale::from_period(1.0).unwrap();
        let known = Parameters { status: Status::SYNCHRONISED, bound: 5, difference, ..Parameters::UNKNOWN };
        for publications in 0..4 {
            (0..publications).for_each(|_| page.publish(&known));
            page.retire();
            let (_, reading) = page.time(|| Count(9)).unwrap();
            assert!(reading.status.contains(Status::RETIRED) && !reading.is_known(), "{publications}: {reading:?}");
            let (parameters, ()) = page.read(|| ()).unwrap();
            assert_eq!(parameters.elapsed(Count(0), Count(9)), None, "{publications}");
        }
    }

    /// What readers of other versions rely on.
    #[test]
    fn the_places_by_which_any_version_tells_any_other_stay() {
        let memory = words();
        let page = Page::create(&memory, CounterKind::Tsc, 7);
        let word = |index: usize| memory[index].load(Ordering::Relaxed);
        assert_eq!([word(0), word(1), word(2), word(3)], [MAGIC, VERSION, 4096, 1]);
        for (version, sequence, buffer) in [(VERSION, 2, 32), (VERSION + 1, 4, 16), (VERSION + 1, 6, 32)] {
            memory[WORD_VERSION].store(version, Ordering::Relaxed);
            memory[buffer + 1].store(99, Ordering::Relaxed);
            page.retire();
            assert_eq!((word(8), word(buffer)), (sequence, 1 << 8));
            assert_eq!(word(buffer + 1) == 99, version != VERSION, "only the status is every version's");
        }
    }

    #[test]
    fn what_is_no_page_is_told_from_one() {
        let memory = words();
        assert_eq!(Page::open(&memory, 7).unwrap_err(), PageFault::Blank);
        let page = Page::create(&memory, CounterKind::Tsc, 7);
        assert_eq!(Page::open(&memory, 7).unwrap().1, CounterKind::Tsc);
        assert!(page.read(|| ()).unwrap().0.status.is_empty(), "nothing is published yet");
        assert_eq!(Page::open(&memory, 8).unwrap_err(), PageFault::Boot);
        assert!(Page::open(&memory, 0).is_ok(), "a reader without a boot ID accepts it");
        memory[WORD_COUNTER].store(77, Ordering::Relaxed);
        assert_eq!(Page::open(&memory, 7).unwrap_err(), PageFault::Counter(77));
        memory[WORD_SIZE].store(12, Ordering::Relaxed);
        assert_eq!(Page::open(&memory, 7).unwrap_err(), PageFault::Size(12));
        memory[WORD_VERSION].store(9, Ordering::Relaxed);
        assert_eq!(Page::open(&memory, 7).unwrap_err(), PageFault::Version(9));
        memory[WORD_MAGIC].store(1, Ordering::Relaxed);
        assert_eq!(Page::open(&memory, 7).unwrap_err(), PageFault::Magic);
    }
}
