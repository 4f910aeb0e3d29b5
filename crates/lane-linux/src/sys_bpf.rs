//! The commands of `bpf(2)` that the service needs for the rings and guards of lanes, and that its
//! loader does not offer, or not to a second thread.

use crate::sys::answer;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Commands and a map type (`linux/bpf.h`).
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;
/// The kind of a link, and its flag for a program in the driver (`linux/bpf.h`, `linux/if_link.h`).
const BPF_XDP: u32 = 37;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The first fields of `union bpf_attr` for [`BPF_MAP_CREATE`].
#[repr(C)]
struct Create {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

/// The first fields of `union bpf_attr` for commands about one element.
#[repr(C, align(8))]
struct Element {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The first fields of `union bpf_attr` for [`BPF_LINK_CREATE`].
#[repr(C)]
struct LinkCreate {
    program: u32,
    device: u32,
    kind: u32,
    flags: u32,
}

/// The first fields of `union bpf_attr` for [`BPF_OBJ_GET_INFO_BY_FD`].
#[repr(C, align(8))]
struct GetInfo {
    fd: u32,
    length: u32,
    info: u64,
}

/// The first fields of `struct bpf_map_info`.
#[repr(C, align(8))]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
}

/// The first fields of `union bpf_attr` for [`BPF_MAP_GET_FD_BY_ID`].
#[repr(C)]
struct GetById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    let attributes = std::ptr::from_ref(attributes);
    // SAFETY: `attributes` is alive and of the length given; what it points to is alive, as the
    // callers see to.
    answer(unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) })
}

/// Attaches an XDP program to the driver of a device, for as long as the link lives that is
/// returned.
///
/// # Errors
/// The kernel's: no privilege, no such device, another program is attached there, the driver has no
/// XDP.
pub fn attach_xdp(program: BorrowedFd<'_>, device: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd().cast_unsigned();
    let link = bpf(BPF_LINK_CREATE, &LinkCreate { program, device, kind: BPF_XDP, flags: XDP_FLAGS_DRV_MODE })?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(link as RawFd) })
}

/// Makes a ring buffer of so many bytes, a power of two and a multiple of the page size.
///
/// # Errors
/// The kernel's: no privilege, no memory.
pub fn create_ring(bytes: u32) -> io::Result<OwnedFd> {
    let create = Create {
        map_type: BPF_MAP_TYPE_RINGBUF,
        key_size: 0,
        value_size: 0,
        max_entries: bytes,
        map_flags: 0,
        inner_map_fd: 0,
        numa_node: 0,
        map_name: *b"tickwire_rx\0\0\0\0\0",
    };
    let fd = bpf(BPF_MAP_CREATE, &create)?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The kernel's id of a map.
///
/// # Errors
/// If the descriptor is of no map.
pub fn map_id(map: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = MapInfo::default();
    let info_at = std::ptr::from_mut(&mut info) as u64;
    let get = GetInfo { fd: map.as_raw_fd().cast_unsigned(), length: size_of::<MapInfo>() as u32, info: info_at };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &get)?;
    Ok(info.id)
}

/// Whether the map with this id is held: by a descriptor, by memory that is mapped, or in another
/// map. False where the kernel does not let the caller query that (`CAP_SYS_ADMIN`).
#[must_use]
pub fn map_exists(id: u32) -> bool {
    let Ok(map) = bpf(BPF_MAP_GET_FD_BY_ID, &GetById { id, next_id: 0, open_flags: 0 }) else { return false };
    // SAFETY: the descriptor was just made and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(map as RawFd) });
    true
}

/// Enters a map into an array of maps.
///
/// # Errors
/// If `index` is beyond its end, or `inner` is not of the kind that it holds.
pub fn set_inner(map: BorrowedFd<'_>, index: u32, inner: BorrowedFd<'_>) -> io::Result<()> {
    let (key, value) = (std::ptr::from_ref(&index) as u64, inner.as_raw_fd());
    let value = std::ptr::from_ref(&value) as u64;
    let element = Element { map_fd: map.as_raw_fd().cast_unsigned(), pad: 0, key, value, flags: 0 };
    bpf(BPF_MAP_UPDATE_ELEM, &element).map(drop)
}

/// Removes an entry from an array of maps, so that it names none.
///
/// # Errors
/// If there is none, or `map` is no such array.
pub fn remove_inner(map: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let key = std::ptr::from_ref(&index) as u64;
    let element = Element { map_fd: map.as_raw_fd().cast_unsigned(), pad: 0, key, value: 0, flags: 0 };
    bpf(BPF_MAP_DELETE_ELEM, &element).map(drop)
}
