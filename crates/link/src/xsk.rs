//! AF_XDP sockets: made and bound by the service, used by the program.
//!
//! The service makes the socket in the namespace of the lane's device, registers the region's frames as its UMEM, sizes the rings and hands
//! it over; whoever has the descriptor can map the rings, without privilege. Only then the service binds it: before Linux 6.4
//! nobody can map the rings of a bound socket.
//! System calls are made directly, not through the C library's wrappers, for which the preload library stands in.

use crate::sys::answer;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use tickwire_stack::Limits;
use tickwire_stack::frame::FRAME_SIZE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries of the four rings, each a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RingSizes {
    /// Free frames on their way to the kernel.
    pub fill: u32,
    /// Sent frames on their way back.
    pub completion: u32,
    /// Received packets.
    pub rx: u32,
    /// Packets to send.
    pub tx: u32,
}

impl RingSizes {
    /// The sizes of a lane. As many packets can wait to be received as are in the fill ring, and no frame handed to the
    /// kernel for sending can find the completion ring full.
    pub const DEFAULT: Self = Self { fill: 4096, completion: 4096, rx: 4096, tx: 2048 };

    /// Whether all are powers of two that the kernel takes.
    #[must_use]
    pub fn valid(&self) -> bool {
        [self.fill, self.completion, self.rx, self.tx].iter().all(|n| n.is_power_of_two() && *n <= 1 << 16)
    }
}

/// What the kernel counts about a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskStatistics {
    /// Dropped for other reasons (too long for a frame).
    pub rx_dropped: u64,
    /// Descriptors from us that the kernel did not take.
    pub rx_invalid: u64,
    /// The same for sending.
    pub tx_invalid: u64,
    /// Dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// Times the fill ring was empty.
    pub fill_ring_empty: u64,
    /// Times there was nothing to send.
    pub tx_ring_empty: u64,
}

fn set_option<T>(fd: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let value = std::ptr::from_ref(value);
    // SAFETY: `value` is alive and of the length given; the kernel only reads it.
    answer(unsafe { libc::syscall(libc::SYS_setsockopt, fd.as_raw_fd(), libc::SOL_XDP, name, value, size_of::<T>()) })?;
    Ok(())
}

/// Reads an option into `value`, which must be a type of plain numbers.
fn get_option<T>(fd: BorrowedFd<'_>, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_mut(value);
    // SAFETY: `value` and `len` are alive and writable; the types used below are plain numbers.
    answer(unsafe { libc::syscall(libc::SYS_getsockopt, fd.as_raw_fd(), libc::SOL_XDP, name, value, &raw mut len) })?;
    if len as usize == size_of::<T>() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Makes an AF_XDP socket in the calling thread's network namespace, with the frames of `region` as its UMEM. Needs
/// `CAP_NET_RAW`, and memory locked by the service's limit (`RLIMIT_MEMLOCK`) or `CAP_IPC_LOCK`.
///
/// # Errors
/// What the kernel says; `InvalidInput` for limits or sizes out of range.
pub fn create(region: BorrowedFd<'_>, limits: &Limits, sizes: RingSizes) -> io::Result<OwnedFd> {
    if !limits.valid() || !sizes.valid() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: no memory is passed.
    let fd = answer(unsafe { libc::syscall(libc::SYS_socket, libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let fd = std::os::fd::AsFd::as_fd(&socket);
    let len = limits.frames as usize * FRAME_SIZE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let frames = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, region.as_raw_fd(), 0) };
    if frames == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero is a valid `xdp_umem_reg`.
    let mut umem: libc::xdp_umem_reg = unsafe { zeroed() };
    umem.addr = frames as u64;
    umem.len = len as u64;
    umem.chunk_size = FRAME_SIZE as u32;
    let registered = set_option(fd, libc::XDP_UMEM_REG, &umem);
    // The kernel has pinned the pages themselves; the mapping is not needed any more.
    // SAFETY: the range was mapped above and nothing refers to it.
    unsafe { libc::munmap(frames, len) };
    registered?;
    set_option(fd, libc::XDP_UMEM_FILL_RING, &sizes.fill)?;
    set_option(fd, libc::XDP_UMEM_COMPLETION_RING, &sizes.completion)?;
    set_option(fd, libc::XDP_RX_RING, &sizes.rx)?;
    set_option(fd, libc::XDP_TX_RING, &sizes.tx)?;
    Ok(socket)
}

/// The longest frame, Ethernet header included, that the kernel puts into one frame of the UMEM: it keeps `XDP_PACKET_HEADROOM`
/// in front. Longer ones need [`takes_long_frames`].
pub const LONGEST_PIECE: u32 = FRAME_SIZE as u32 - 256;

/// Whether this kernel hands out frames longer than [`LONGEST_PIECE`] in pieces (Linux 6.6). Tried, not read off a version: a
/// kernel that knows the flag goes on to miss the device. Needs `CAP_NET_RAW`.
///
/// # Errors
/// What the kernel says, if it makes no AF_XDP socket or answers neither way.
pub fn takes_long_frames() -> io::Result<bool> {
    // SAFETY: no memory is passed.
    let fd = answer(unsafe { libc::syscall(libc::SYS_socket, libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let Err(error) = bind_with(std::os::fd::AsFd::as_fd(&socket), i32::MAX.cast_unsigned(), 0, libc::XDP_USE_SG) else {
        return Ok(true);
    };
    match error.raw_os_error() {
        Some(libc::ENODEV) => Ok(true),
        Some(libc::EINVAL) => Ok(false),
        _ => Err(error),
    }
}

fn bind_with(socket: BorrowedFd<'_>, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: `address` is alive and of the length given.
    answer(unsafe {
        libc::syscall(libc::SYS_bind, socket.as_raw_fd(), &raw const address, size_of::<libc::sockaddr_xdp>())
    })?;
    Ok(())
}

/// Binds a socket to a queue of a device in its namespace. Copy mode (a lane's device has no other); packets longer than a frame
/// come in pieces where the kernel can (Linux 6.6).
///
/// # Errors
/// What the kernel says; `ResourceBusy` if another socket has the queue.
pub fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32) -> io::Result<()> {
    let flags = libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP;
    match bind_with(socket, interface, queue, flags | libc::XDP_USE_SG) {
        // An older kernel does not know the flag.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => bind_with(socket, interface, queue, flags),
        done => done,
    }
}

/// Where the rings are.
pub(crate) fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero is a valid `xdp_mmap_offsets`.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
    get_option(socket, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    Ok(offsets)
}

/// What the kernel has counted.
///
/// # Errors
/// If the descriptor is no AF_XDP socket.
pub fn statistics(socket: BorrowedFd<'_>) -> io::Result<XskStatistics> {
    // SAFETY: all-zero is a valid `xdp_statistics`.
    let mut s: libc::xdp_statistics = unsafe { zeroed() };
    get_option(socket, libc::XDP_STATISTICS, &mut s)?;
    Ok(XskStatistics {
        rx_dropped: s.rx_dropped,
        rx_invalid: s.rx_invalid_descs,
        tx_invalid: s.tx_invalid_descs,
        rx_ring_full: s.rx_ring_full,
        fill_ring_empty: s.rx_fill_ring_empty_descs,
        tx_ring_empty: s.tx_ring_empty_descs,
    })
}
