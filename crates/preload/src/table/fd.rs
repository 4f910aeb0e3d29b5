//! Descriptor table of this process: which descriptors are ours, and what they refer to.
//!
//! Every intercepted call looks here first, so it is an array of words: for a descriptor that is
//! not ours the cost is one load and one branch.

use crate::sys::errno::{Errno, Result};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use tickwire_lane::control::Reason;

/// Descriptors from this number on are never accelerated.
pub(crate) const LIMIT: usize = crate::sys::TABLE_LIMIT;

/// What a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nothing of ours.
    Foreign,
    /// An accelerated UDP socket: the index of its description.
    Udp(u32),
    /// An accelerated TCP socket: the index of its description.
    Tcp(u32),
    /// An epoll instance with a set in the stack: the index of its description.
    Epoll(u32),
    /// An epoll instance without a set, known only to the kernel so far. The number tells it from
    /// others; its duplicates have the same.
    Instance(u32),
    /// A descriptor of the lane itself, which the program must not close.
    Lane,
    /// An IP socket that stays on the kernel: the row from which `tickwire stat` shows it.
    Kernel(u32),
    /// An IP socket that stays on the kernel, in no lane's rows: it was made on a lane that has
    /// ended, or there was no room. The number is the reason's code.
    Unlisted(u32),
    /// A socket whose lane ended, with the error to be returned, 0 once it has been: see
    /// `ops::take_error`.
    Dead(u32),
}

impl Entry {
    /// A descriptor that is closed for the program, and for the kernel only when its socket has
    /// finished: `SO_LINGER` may take a while.
    pub(crate) const CLOSING: Self = Self::Dead(libc::EBADF as u32);

    /// The description that this entry refers to.
    pub(crate) fn description(self) -> Option<u32> {
        match self {
            Self::Udp(index) | Self::Tcp(index) | Self::Epoll(index) => Some(index),
            Self::Foreign | Self::Instance(_) | Self::Lane | Self::Dead(_) | Self::Kernel(_) | Self::Unlisted(_) => {
                None
            }
        }
    }

    /// Whether this library handles socket calls on it.
    #[inline]
    pub(crate) fn is_socket(self) -> bool {
        matches!(self, Self::Udp(_) | Self::Tcp(_) | Self::Dead(_))
    }
}

const SHIFT: u32 = 28;
const MASK: u32 = (1 << SHIFT) - 1;

impl Entry {
    fn pack(self) -> u32 {
        match self {
            Self::Foreign => 0,
            Self::Udp(index) => 1 << SHIFT | index & MASK,
            Self::Tcp(index) => 2 << SHIFT | index & MASK,
            Self::Epoll(index) => 3 << SHIFT | index & MASK,
            Self::Lane => 4 << SHIFT,
            Self::Dead(errno) => 5 << SHIFT | errno & MASK,
            Self::Kernel(row) => 6 << SHIFT | row & MASK,
            Self::Instance(number) => 7 << SHIFT | number & MASK,
            Self::Unlisted(reason) => 8 << SHIFT | reason & MASK,
        }
    }

    fn unpack(word: u32) -> Self {
        match word >> SHIFT {
            1 => Self::Udp(word & MASK),
            2 => Self::Tcp(word & MASK),
            3 => Self::Epoll(word & MASK),
            4 => Self::Lane,
            5 => Self::Dead(word & MASK),
            6 => Self::Kernel(word & MASK),
            7 => Self::Instance(word & MASK),
            8 => Self::Unlisted(word & MASK),
            _ => Self::Foreign,
        }
    }
}

/// The table.
pub(crate) struct Table {
    words: [AtomicU32; LIMIT],
    /// One more than the highest descriptor ever entered, which bounds walks.
    top: AtomicU32,
}

/// The table of this process.
pub(crate) static TABLE: Table = Table::new();

impl Table {
    const fn new() -> Self {
        Self { words: [const { AtomicU32::new(0) }; LIMIT], top: AtomicU32::new(0) }
    }

    /// What `fd` refers to.
    #[inline]
    pub(crate) fn get(&self, fd: c_int) -> Entry {
        match self.words.get(fd as usize) {
            Some(word) => {
                let word = word.load(Ordering::Acquire);
                if word == 0 { Entry::Foreign } else { Entry::unpack(word) }
            }
            None => Entry::Foreign,
        }
    }

    /// What `fd` refers to, unless a thread is closing it.
    ///
    /// # Errors
    /// `EBADF` if it is being closed: the kernel's answer would be that of a socket without an
    /// owner.
    pub(crate) fn open(&self, fd: c_int) -> Result<Entry> {
        match self.get(fd) {
            Entry::CLOSING => Err(Errno(libc::EBADF)),
            entry => Ok(entry),
        }
    }

    /// Whether a descriptor can be entered at all.
    pub(crate) fn fits(fd: c_int) -> bool {
        usize::try_from(fd).is_ok_and(|fd| fd < LIMIT)
    }

    /// Sets what `fd` refers to, and returns the previous entry.
    pub(crate) fn set(&self, fd: c_int, entry: Entry) -> Entry {
        let Some(word) = self.words.get(fd as usize) else { return Entry::Foreign };
        if entry != Entry::Foreign {
            self.top.fetch_max(fd as u32 + 1, Ordering::AcqRel);
        }
        Entry::unpack(word.swap(entry.pack(), Ordering::AcqRel))
    }

    /// Sets what `fd` refers to if it still refers to `from`: another thread may have closed it,
    /// and the number may be reused. Returns whether it did.
    pub(crate) fn replace(&self, fd: c_int, from: Entry, to: Entry) -> bool {
        let Some(word) = self.words.get(fd as usize) else { return false };
        if to != Entry::Foreign {
            self.top.fetch_max(fd as u32 + 1, Ordering::AcqRel);
        }
        word.compare_exchange(from.pack(), to.pack(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Begins to close `fd`, and returns what it referred to. `None` if that is not ours, or
    /// another thread is closing it.
    pub(crate) fn begin_to_close(&self, fd: c_int) -> Option<Entry> {
        loop {
            match self.get(fd) {
                Entry::Foreign | Entry::CLOSING => return None,
                entry if self.replace(fd, entry, Entry::CLOSING) => return Some(entry),
                _ => {}
            }
        }
    }

    /// Every descriptor that is ours, with what it refers to.
    pub(crate) fn each(&self) -> impl Iterator<Item = (c_int, Entry)> + '_ {
        (0..self.top.load(Ordering::Acquire) as c_int)
            .map(|fd| (fd, self.get(fd)))
            .filter(|(_, e)| *e != Entry::Foreign)
    }

    /// The sockets of this process that no lane shows, because their lane has ended or had no room,
    /// each with the reason why it is on the kernel.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = (c_int, Reason)> + '_ {
        self.each().filter_map(|(fd, entry)| match entry {
            Entry::Unlisted(code) => Some((fd, Reason::from_code(code).unwrap_or_default())),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_the_table_and_strange_numbers_are_foreign() {
        static OWN: Table = Table::new();
        let numbered = [Entry::Udp(7), Entry::Tcp(8), Entry::Epoll(9), Entry::Instance(10), Entry::Dead(104)];
        for entry in numbered.into_iter().chain([Entry::Lane, Entry::Unlisted(39)]) {
            assert_eq!(OWN.set(12, entry), Entry::Foreign);
            assert_eq!(OWN.get(12), entry);
            assert_eq!(OWN.each().collect::<Vec<_>>(), [(12, entry)]);
            assert_eq!(OWN.set(12, Entry::Foreign), entry);
        }
        assert!(OWN.replace(12, Entry::Foreign, Entry::Unlisted(39)));
        assert!(!OWN.replace(12, Entry::Unlisted(15), Entry::Kernel(1)), "it is another's by now");
        assert_eq!(OWN.set(12, Entry::Foreign), Entry::Unlisted(39));
        assert!(!OWN.replace(-1, Entry::Foreign, Entry::Lane));
        assert_eq!(OWN.begin_to_close(12), None);
        OWN.set(12, Entry::Tcp(8));
        assert_eq!([OWN.begin_to_close(12), OWN.begin_to_close(12)], [Some(Entry::Tcp(8)), None], "one closes it");
        assert_eq!(OWN.set(12, Entry::Foreign), Entry::CLOSING);
        assert_eq!(OWN.get(-1), Entry::Foreign);
        assert_eq!(OWN.get(c_int::MAX), Entry::Foreign);
        assert_eq!(OWN.set(-1, Entry::Lane), Entry::Foreign);
    }
}
