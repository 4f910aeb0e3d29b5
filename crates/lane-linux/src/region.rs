//! A lane's region: one sealed memfd, the same layout in every process of the lane.
//!
//! The service makes it ([`create`]) and keeps no mapping of it but, read-only, the public part
//! ([`View`]). The lane's processes map all of it. The file cannot shrink (it is sealed), so no
//! access can fault, whatever a program does to it.

use crate::mapping::Mapping;
use crate::pthread_mutex::{PthreadMutex, init_lock};
use crate::sys::answer;
use std::io;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use tickwire_lane::layout::{Layout, RegionIdentity, Waiting};
use tickwire_lane::lock::{LaneLock, RawLock};
use tickwire_lane::record_ring::RING_BYTES;
use tickwire_lane::stream_turn::StreamTurn;
use tickwire_stack::memory::{PAGE, Place, SECTIONS};
use tickwire_stack::table::{Counters, SocketRow};
use tickwire_stack::{Limits, Memory};
use zerocopy::FromZeros;

/// What every region's file is sealed against. (Not against writing: the lane's processes write.)
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// The header page. The service writes it once, before any other process has the region; afterwards
/// only lock, turn and waiting state change.
#[repr(C)]
struct Header {
    identity: RegionIdentity,
    lock: RawLock<PthreadMutex>,
    stream_turn: PthreadMutex,
    waiting: Waiting,
}

const _: () = assert!(size_of::<Header>() <= PAGE && offset_of!(Header, lock) % 64 == 0);

/// Why a descriptor is no region that can be used.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The limits are out of range.
    #[error("the lane's limits are out of range")]
    Limits,
    /// It is no sealed memfd of the size that the limits ask for.
    #[error(
        "the lane's region is not a sealed file of {expected} bytes: library and service may be of different versions"
    )]
    File {
        /// The size that the limits ask for.
        expected: usize,
    },
    /// Its header does not fit.
    #[error("the lane's region has another {0} than this library: restart the service and the program after an update")]
    Header(&'static str),
    /// The kernel refused.
    #[error("the lane's region: {0}")]
    Os(#[from] io::Error),
}

/// Whether `fd` is a file of exactly `size` bytes that can neither shrink nor grow.
fn check_file(fd: BorrowedFd<'_>, size: usize) -> Result<(), RegionError> {
    // SAFETY: no memory is passed.
    let seals = answer(unsafe { libc::syscall(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_GET_SEALS) });
    let sealed = seals.is_ok_and(|seals| seals & libc::c_long::from(SEALS) == libc::c_long::from(SEALS));
    // SAFETY: all-zero is a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` has room for what the call writes.
    answer(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) }.into())?;
    let size_fits = usize::try_from(stat.st_size).is_ok_and(|n| n == size);
    if sealed && size_fits { Ok(()) } else { Err(RegionError::File { expected: size }) }
}

/// Makes a new region, all zero but for its header, and returns its descriptor.
///
/// # Errors
/// [`RegionError::Limits`], or that there is no memory.
pub fn create(lane: u32, limits: &Limits) -> Result<OwnedFd, RegionError> {
    let layout = Layout::new(limits).ok_or(RegionError::Limits)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let make = |flags: libc::c_uint| {
        // SAFETY: the name is a C string.
        answer(unsafe { libc::syscall(libc::SYS_memfd_create, c"tickwire-lane".as_ptr(), flags) })
    };
    // Kernels before 6.3 do not know that a file is not for execution.
    let fd = make(flags | libc::MFD_NOEXEC_SEAL).or_else(|_| make(flags))?;
    // SAFETY: the descriptor was just made and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let size = libc::off_t::try_from(layout.size()).map_err(io::Error::other)?;
    // SAFETY: no memory is passed.
    answer(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }.into())?;
    // Only its owner may open it again by way of /proc: a reader with a read-only descriptor stays
    // one.
    // SAFETY: no memory is passed.
    answer(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) }.into())?;
    // SAFETY: no memory is passed.
    answer(unsafe { libc::syscall(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;

    let page = Mapping::new(fd.as_fd(), layout.header(), PAGE, libc::PROT_READ | libc::PROT_WRITE, 0)?;
    let header = page.at::<Header>(0, 1).as_ptr();
    // SAFETY: a writable page of our own that no other process has yet; each field is written in
    // place.
    unsafe {
        (&raw mut (*header).identity).write(RegionIdentity::new(lane, &layout, RING_BYTES));
        (&raw mut (*header).waiting).write(Waiting::default());
        init_lock(&raw mut (*header).lock);
        PthreadMutex::init(&raw mut (*header).stream_turn, libc::PTHREAD_PRIO_NONE);
    }
    Ok(fd)
}

/// Frees a region's memory, for a lane that is not used any more. A process that has it mapped, and
/// may never unmap it, reads zeros there, which take no memory.
///
/// # Errors
/// The kernel's error.
pub fn empty(region: BorrowedFd<'_>, limits: &Limits) -> Result<(), RegionError> {
    let layout = Layout::new(limits).ok_or(RegionError::Limits)?;
    let size = libc::off_t::try_from(layout.size()).map_err(io::Error::other)?;
    let whole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory is passed. What is mapped stays mapped, and zeros are as valid there as
    // what any other process of the lane may write.
    answer(unsafe { libc::fallocate(region.as_raw_fd(), whole, 0, size) }.into())?;
    Ok(())
}

/// The same file, to be read only: for tools.
///
/// # Errors
/// If `/proc` is not there, or there are no descriptors left.
pub fn read_only(region: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    std::fs::File::open(format!("/proc/self/fd/{}", region.as_raw_fd())).map(OwnedFd::from)
}

/// A region in a process of its lane.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    layout: Layout,
    ring: u32,
    lane: u32,
}

impl Region {
    /// Maps a region. Its memory is allocated as it is used, so that a program pays for no more
    /// than that, and for nothing at first. A program that locks its memory (`mlockall`) has all of
    /// it present from the start. `lane` and `limits` are what the service said.
    ///
    /// # Errors
    /// [`RegionError`]: if the file or its header is not what the limits ask for.
    pub fn map(fd: BorrowedFd<'_>, lane: u32, limits: &Limits) -> Result<Self, RegionError> {
        let layout = Layout::new(limits).ok_or(RegionError::Limits)?;
        check_file(fd, layout.size())?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // Not populated: a page is allocated when it is first used.
        let mapping = Mapping::new(fd, 0, layout.size(), protection, 0)?;
        let header = mapping.at::<Header>(layout.header(), 1).as_ptr();
        // SAFETY: the header page is inside the mapping. This part of it does not change after the
        // region was made; every bit pattern is valid for it.
        let found = unsafe { (&raw const (*header).identity).read() };
        match found.differs(&RegionIdentity::new(lane, &layout, RING_BYTES)) {
            Some(what) => Err(RegionError::Header(what)),
            None => Ok(Self { mapping, layout, ring: RING_BYTES, lane }),
        }
    }

    /// The lane's number.
    #[must_use]
    pub const fn lane(&self) -> u32 {
        self.lane
    }

    /// The limits it was made for.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        self.layout.limits()
    }

    /// Bytes of the receive ring that goes with it.
    #[must_use]
    pub const fn ring(&self) -> u32 {
        self.ring
    }

    /// The lane's lock.
    #[must_use]
    pub fn lock(&self) -> LaneLock<'_, PthreadMutex> {
        // SAFETY: the header is inside the mapping, the lock was initialised when the region was
        // made, and it is only ever used through shared references.
        LaneLock::new(unsafe { &(*self.mapping.at::<Header>(self.layout.header(), 1).as_ptr()).lock })
    }

    /// The turn to send packets of streams.
    #[must_use]
    pub fn stream_turn(&self) -> StreamTurn<'_, PthreadMutex> {
        // SAFETY: as for the lock.
        StreamTurn::new(unsafe { &(*self.mapping.at::<Header>(self.layout.header(), 1).as_ptr()).stream_turn })
    }

    /// The shared state about waiting threads.
    #[must_use]
    pub fn waiting(&self) -> &Waiting {
        // SAFETY: as for the lock; all atomics.
        unsafe { &(*self.mapping.at::<Header>(self.layout.header(), 1).as_ptr()).waiting }
    }

    /// The stack's memory.
    ///
    /// # Safety
    /// The memory, and what is made of it, may only be used by a thread that holds
    /// [`Region::lock`], by one such value at a time in this process, and not after the region was
    /// dropped (which the lifetime that the caller chooses must see to).
    #[must_use]
    pub unsafe fn memory<'a>(&self) -> Memory<'a> {
        let mut placer = Placer { region: self, next: 0, life: PhantomData };
        Memory::place(self.layout.limits(), &mut placer)
    }
}

/// Places the stack's sections.
struct Placer<'r, 'a> {
    region: &'r Region,
    next: usize,
    life: PhantomData<&'a mut ()>,
}

impl<'a> Place<'a> for Placer<'_, 'a> {
    fn slice<T: FromZeros>(&mut self, count: usize) -> &'a mut [T] {
        assert!(self.next < SECTIONS, "one slice per section");
        let start = self.region.mapping.at::<T>(self.region.layout.sections()[self.next], count);
        self.next += 1;
        // SAFETY: the range is inside the mapping and aligned (checked by `at`); the sections of a
        // layout do not overlap (tested), and each is handed out once per placer; the bytes are
        // zero or what an earlier holder of the lock left, of the same type, as the layout hash
        // says. The caller of `Region::memory` promises that nothing else uses them meanwhile.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), count) }
    }
}

/// The public part of another process's region, read-only and untrusted.
#[derive(Debug)]
pub struct View {
    mapping: Mapping,
    layout: Layout,
}

impl View {
    /// Maps the public part. The limits come from the service, never from the region.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn map(fd: BorrowedFd<'_>, limits: &Limits) -> Result<Self, RegionError> {
        let layout = Layout::new(limits).ok_or(RegionError::Limits)?;
        check_file(fd, layout.size())?;
        let len = layout.public_end() - layout.header();
        let mapping = Mapping::new(fd, layout.header(), len, libc::PROT_READ, 0)?;
        Ok(Self { mapping, layout })
    }

    /// The lane's counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        let at = self.mapping.at::<Counters>(self.layout.counters() - self.layout.header(), 1);
        // SAFETY: inside the mapping and aligned; atomics only, for which every bit pattern is
        // valid at any time.
        unsafe { at.as_ref() }
    }

    /// One row per socket.
    #[must_use]
    pub fn rows(&self) -> &[SocketRow] {
        let count = self.layout.limits().rows();
        let at = self.mapping.at::<SocketRow>(self.layout.rows() - self.layout.header(), count);
        // SAFETY: as for the counters.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::{Stack, StackConfig};

    fn small() -> Limits {
        Limits { frames: 128, tcp: 16, udp: 16, ..Limits::DEFAULT }
    }

    #[test]
    fn two_mappings_show_the_same_stack() {
        let fd = create(7, &small()).unwrap();
        let a = Region::map(fd.as_fd(), 7, &small()).unwrap();
        let b = Region::map(fd.as_fd(), 7, &small()).unwrap();
        {
            let _guard = a.lock().lock().unwrap();
            // SAFETY: the lock is held, the value does not leave this block.
            let mut stack = Stack::new(unsafe { a.memory() });
            stack.init(&StackConfig::default());
            stack.user()[3] = 77;
        }
        {
            let _guard = b.lock().lock().unwrap();
            assert!(a.lock().lock().is_err(), "one lock for both");
            // SAFETY: as above.
            assert_eq!(Stack::new(unsafe { b.memory() }).user()[3], 77);
        }
        a.waiting().polled_at.store(5, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(b.waiting().polled_at.load(std::sync::atomic::Ordering::Relaxed), 5);
    }

    #[test]
    fn a_view_sees_rows_and_cannot_write() {
        let fd = create(1, &small()).unwrap();
        let region = Region::map(fd.as_fd(), 1, &small()).unwrap();
        let reader = read_only(fd.as_fd()).unwrap();
        let view = View::map(reader.as_fd(), &small()).unwrap();
        // SAFETY: nothing else uses this region.
        let memory: Memory<'_> = unsafe { region.memory() };
        memory.rows[2].pid.set(1234);
        memory.counters.tx_packets.add(3);
        assert_eq!(view.rows()[2].pid.get(), 1234);
        assert_eq!(view.rows().len(), small().rows());
        assert_eq!(view.counters().tx_packets.get(), 3);
        assert!(Region::map(reader.as_fd(), 1, &small()).is_err(), "read-only means read-only");
    }

    #[test]
    fn an_empty_region_takes_no_memory() {
        let fd = create(7, &small()).unwrap();
        let pages = || {
            // SAFETY: all-zero is a valid `stat`.
            let mut stat: libc::stat = unsafe { std::mem::zeroed() };
            // SAFETY: `stat` has room for what the call writes.
            assert_eq!(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) }, 0);
            stat.st_blocks
        };
        let region = Region::map(fd.as_fd(), 7, &small()).unwrap();
        // The frames lie at the beginning.
        let file = std::fs::File::from(fd.try_clone().unwrap());
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 128 * 2048], 0).unwrap();
        let all = pages();
        assert!(all * 512 >= 128 * 2048, "{all} blocks");
        empty(fd.as_fd(), &small()).unwrap();
        assert_eq!(pages(), 0);
        // SAFETY: nothing else uses this region.
        assert_eq!(Stack::new(unsafe { region.memory() }).user()[3], 0);
        assert!(Region::map(fd.as_fd(), 7, &small()).is_err(), "no lane's any more");
    }

    #[test]
    fn the_file_is_sealed() {
        let fd = create(1, &small()).unwrap();
        for size in [0, 1 << 30] {
            // SAFETY: no memory is passed.
            assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }, -1, "size {size}");
        }
    }

    #[test]
    fn strangers_files_and_headers_are_refused() {
        let plain = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(View::map(plain.as_fd(), &small()), Err(RegionError::File { .. })));
        let fd = create(1, &small()).unwrap();
        let other = Limits { frames: 256, ..small() };
        assert!(matches!(Region::map(fd.as_fd(), 1, &other), Err(RegionError::File { .. })));
        assert!(matches!(View::map(fd.as_fd(), &other), Err(RegionError::File { .. })));
        assert!(matches!(Region::map(fd.as_fd(), 2, &small()), Err(RegionError::Header("lane"))));
        assert!(matches!(Region::map(fd.as_fd(), 1, &Limits { tcp: 0, ..small() }), Err(RegionError::Limits)));
    }
}
