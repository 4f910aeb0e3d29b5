//! Making the TAP devices of a lane: one into which the program writes frames, and one for trains
//! of segments, each with one header for all (`IFF_VNET_HDR`).

use crate::sys::answer;
use std::ffi::CStr;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The bit by which the interface index of a lane's bulk device differs from the lane's number
/// (`BULK_DEVICE` of `bpf/guard.h`).
pub const BULK_DEVICE: u32 = 1 << 30;

const DEVICE: &CStr = c"/dev/net/tun";

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETIFINDEX: libc::c_ulong = 0x4004_54da;
/// The device must be new.
const IFF_TUN_EXCL: i32 = 0x8000;

/// Makes a TAP device of this name and interface index in the network namespace of the calling
/// thread, down. It lasts as long as the descriptor, or until it is removed; writing never blocks.
/// With `trains`, what is written begins with a `virtio_net_hdr`.
///
/// # Errors
/// If the name or index is taken (`EBUSY`, `EEXIST`), without the privilege, or where there are no
/// such devices (`ENOENT`, `ENXIO`).
pub fn create(name: &str, index: u32, trains: bool) -> io::Result<OwnedFd> {
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let header = if trains { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header | IFF_TUN_EXCL) as libc::c_short;
    let index = libc::c_int::try_from(index).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK) };
    answer(fd.into())?;
    // SAFETY: the descriptor was just made and nothing else owns it.
    let tap = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: this call reads one `int`, which lives for it.
    let done = unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETIFINDEX as _, &raw const index) };
    answer(done.into())?;
    // SAFETY: `request` is a whole `ifreq` and lives for the call.
    let done = unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
    answer(done.into())?;
    Ok(tap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_an_error() {
        assert!(create("a-name-that-is-far-too-long", 7, false).is_err());
    }
}
