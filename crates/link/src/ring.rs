//! The four rings of an AF_XDP socket, as one side of each.
//!
//! One writer per index: of the receive and completion rings we own the consumer index, of the transmit and fill rings the
//! producer index. All our processes map the same rings and use them under the lane's lock, so nothing is kept here: indices are read
//! from the ring each time. A wild index (a program can overwrite its own rings) yields an empty or full ring, never an access
//! outside.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A ring in this process's memory, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    start: NonNull<u8>,
    len: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
}

// SAFETY: the ring's memory is shared with the kernel and other processes anyway; indices are atomics and entries are accessed as
// atomics, too.
unsafe impl<T> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Ring<T> {}

/// An entry of the receive or transmit ring (`struct xdp_desc`): accessed word by word, since the other side writes it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DescCell {
    address: AtomicU64,
    len: AtomicU32,
    options: AtomicU32,
}

/// A packet, or a piece of one, in the UMEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Desc {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) options: u32,
}

/// What a ring holds.
pub(crate) trait Entry {
    type Value;
    fn load(&self) -> Self::Value;
    fn store(&self, value: Self::Value);
}

impl Entry for AtomicU64 {
    type Value = u64;
    fn load(&self) -> u64 {
        AtomicU64::load(self, Relaxed)
    }
    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Relaxed);
    }
}

impl Entry for DescCell {
    type Value = Desc;
    fn load(&self) -> Desc {
        Desc {
            address: AtomicU64::load(&self.address, Relaxed),
            len: AtomicU32::load(&self.len, Relaxed),
            options: AtomicU32::load(&self.options, Relaxed),
        }
    }
    fn store(&self, value: Desc) {
        AtomicU64::store(&self.address, value.address, Relaxed);
        AtomicU32::store(&self.len, value.len, Relaxed);
        AtomicU32::store(&self.options, value.options, Relaxed);
    }
}

impl<T: Entry> Ring<T> {
    /// Maps a ring of `size` entries (a power of two) that lies at `place` in the socket's address space, as `offsets` says.
    pub(crate) fn map(fd: BorrowedFd<'_>, place: i64, offsets: &libc::xdp_ring_offset, size: u32) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "a ring that does not make sense");
        let offset = |value: u64| usize::try_from(value).ok().filter(|&at| at <= 1 << 20).ok_or_else(bad);
        let (entries, producer, consumer, flags) =
            (offset(offsets.desc)?, offset(offsets.producer)?, offset(offsets.consumer)?, offset(offsets.flags)?);
        let len = entries + size as usize * size_of::<T>();
        let indices = [producer, consumer, flags];
        let aligned = entries % align_of::<T>() == 0 && indices.iter().all(|at| at % align_of::<AtomicU32>() == 0);
        if !size.is_power_of_two() || !aligned || indices.iter().any(|at| at + size_of::<AtomicU32>() > entries) {
            return Err(bad());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flag = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing. A length beyond the ring's is refused.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flag, fd.as_raw_fd(), place) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or_else(bad)?;
        // SAFETY: all offsets were just found to lie inside the mapping.
        let at = |offset: usize| unsafe { start.add(offset) };
        Ok(Self {
            start,
            len,
            producer: at(producer).cast(),
            consumer: at(consumer).cast(),
            flags: at(flags).cast(),
            entries: at(entries).cast(),
            mask: size - 1,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned (checked by `map`); lives as long as `self`.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    fn entry(&self, index: u32) -> &T {
        // SAFETY: masked, so inside the entries; every bit pattern is valid for them.
        unsafe { self.entries.add((index & self.mask) as usize).as_ref() }
    }

    /// Entries between the indices; a distance that no ring can have counts as none.
    fn distance(&self, producer: u32, consumer: u32) -> u32 {
        let n = producer.wrapping_sub(consumer);
        if n <= self.mask + 1 { n } else { 0 }
    }

    /// How many entries are in the ring: for the consumer to take, or for the producer that the other side has not taken.
    pub(crate) fn filled(&self, order: Ordering) -> u32 {
        self.distance(self.producer().load(order), self.consumer().load(order))
    }

    /// As consumer: takes up to `most` entries, oldest first.
    pub(crate) fn consume(&self, most: u32, mut take: impl FnMut(T::Value)) -> u32 {
        let begin = self.consumer().load(Relaxed);
        // Acquire: the entries, and the frames they name, are read after the index.
        let n = self.distance(self.producer().load(Acquire), begin).min(most);
        for i in 0..n {
            take(self.entry(begin.wrapping_add(i)).load());
        }
        if n > 0 {
            // Release: the other side reuses the entries after they were read.
            self.consumer().store(begin.wrapping_add(n), Release);
        }
        n
    }

    /// As producer: puts in what `next` yields until it yields nothing or the ring is full.
    pub(crate) fn produce(&self, mut next: impl FnMut() -> Option<T::Value>) -> u32 {
        let mut writer = self.writer();
        while writer.room > 0 {
            let Some(value) = next() else { break };
            writer.put(value);
        }
        writer.submit()
    }

    /// As producer: a place to put entries that become visible together.
    pub(crate) fn writer(&self) -> Writer<'_, T> {
        let begin = self.producer().load(Relaxed);
        // Acquire: entries are overwritten only after the other side has read them.
        let used = begin.wrapping_sub(self.consumer().load(Acquire));
        Writer { ring: self, begin, at: begin, room: (self.mask + 1).saturating_sub(used) }
    }

    /// Whether the kernel wants to be woken for this ring.
    pub(crate) fn wants_kick(&self) -> bool {
        // SAFETY: as for the producer.
        unsafe { self.flags.as_ref() }.load(Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Entries being put into a ring.
pub(crate) struct Writer<'r, T> {
    ring: &'r Ring<T>,
    begin: u32,
    at: u32,
    room: u32,
}

impl<T: Entry> Writer<'_, T> {
    /// Puts one entry; `false` if the ring is full.
    pub(crate) fn put(&mut self, value: T::Value) -> bool {
        if self.room == 0 {
            return false;
        }
        self.ring.entry(self.at).store(value);
        self.at = self.at.wrapping_add(1);
        self.room -= 1;
        true
    }

    /// Makes the entries visible and says how many there were.
    pub(crate) fn submit(self) -> u32 {
        let n = self.at.wrapping_sub(self.begin);
        if n > 0 {
            // Release: entries and frames are written before the index.
            self.ring.producer().store(self.at, Release);
        }
        n
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and nothing that refers to it outlives the value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    const OFFSETS: libc::xdp_ring_offset = libc::xdp_ring_offset { producer: 0, consumer: 64, desc: 192, flags: 128 };

    /// The same ring twice: our side and the kernel's.
    fn pair(size: u32) -> (Ring<AtomicU64>, Ring<AtomicU64>) {
        // SAFETY: plain system calls on a new file.
        let fd = unsafe {
            let fd = libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0 && libc::ftruncate(fd, 8192) == 0);
            OwnedFd::from_raw_fd(fd)
        };
        (Ring::map(fd.as_fd(), 0, &OFFSETS, size).unwrap(), Ring::map(fd.as_fd(), 0, &OFFSETS, size).unwrap())
    }

    #[test]
    fn entries_go_through_in_order_and_the_ring_can_be_full() {
        let (ours, theirs) = pair(4);
        for round in 0..10 {
            let mut next = round * 10..round * 10 + 6;
            assert_eq!(ours.produce(|| next.next()), 4, "full");
            let mut got = Vec::new();
            assert_eq!(theirs.consume(3, |v| got.push(v)), 3);
            assert_eq!(theirs.consume(9, |v| got.push(v)), 1);
            assert_eq!(got, (round * 10..round * 10 + 4).collect::<Vec<_>>());
            assert_eq!(theirs.filled(Relaxed), 0);
        }
    }

    #[test]
    fn wild_indices_do_no_harm() {
        let (ours, theirs) = pair(4);
        for wild in [5, 1000, u32::MAX, 1 << 31] {
            theirs.producer().store(wild, Relaxed);
            theirs.consumer().store(0, Relaxed);
            assert_eq!(ours.consume(64, |_| ()), 0, "{wild}");
            let mut writer = ours.writer();
            assert!(!writer.put(1));
            assert_eq!(writer.submit(), 0);
        }
    }

    #[test]
    fn nonsense_offsets_are_refused() {
        let file = std::fs::File::open("/dev/zero").unwrap();
        for offsets in [
            libc::xdp_ring_offset { desc: 1 << 40, ..OFFSETS },
            libc::xdp_ring_offset { producer: 190, ..OFFSETS },
            libc::xdp_ring_offset { consumer: 200, ..OFFSETS },
            libc::xdp_ring_offset { desc: 193, ..OFFSETS },
        ] {
            let kind = Ring::<AtomicU64>::map(file.as_fd(), 0, &offsets, 4).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidData);
        }
        assert!(Ring::<AtomicU64>::map(file.as_fd(), 0, &OFFSETS, 3).is_err());
    }
}
