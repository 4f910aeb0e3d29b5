//! Device settings for which there is only the old `SIOCETHTOOL` call.

use crate::sys::answer;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// `ETHTOOL_STXCSUM`: whether the device computes transmit checksums.
const SET_TRANSMIT_CHECKSUMS: u32 = 0x17;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Makes the kernel compute transport checksums itself before it passes packets to a device, in the
/// network namespace of the calling thread.
///
/// Virtual devices "offload" checksums by leaving them out, which a reader of bare frames (AF_XDP)
/// takes for corruption.
///
/// # Errors
/// If there is no such device, or without the privilege.
pub fn switch_transmit_checksums_off(device: &str) -> io::Result<()> {
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    let mut value = Value { command: SET_TRANSMIT_CHECKSUMS, data: 0 };
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    answer(fd.into())?;
    // SAFETY: the descriptor was just made and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `request` and the `value` it points to live for the call, and this command reads and
    // writes no more than `Value`.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    answer(done.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_is_an_error() {
        assert!(switch_transmit_checksums_off("no-such-dev0").is_err());
        assert!(switch_transmit_checksums_off("a-name-that-is-far-too-long").is_err());
    }
}
