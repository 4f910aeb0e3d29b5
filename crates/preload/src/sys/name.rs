//! Socket addresses between the C structures and [`Endpoint`].

use super::guarded;
use crate::sys::errno::{Errno, Result};
use core::ffi::c_int;
use libc::{sockaddr, socklen_t};
use tickwire_stack::addr::{Address, Endpoint};

/// The longest socket address that the library reads (`sockaddr_in6`).
pub(crate) const MAX: usize = 28;

/// The longest possible one (`sockaddr_storage`).
pub(crate) const LONGEST: socklen_t = size_of::<libc::sockaddr_storage>() as socklen_t;

/// An address that the program gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// `AF_UNSPEC`: dissolve the association.
    Unspecified,
    /// An IPv4 or IPv6 address; `scope` is the interface of a link-local address, or 0.
    Inet { endpoint: Endpoint, scope: u32, v6: bool },
    /// Another family, for the kernel to refuse.
    Other,
}

/// Whether the kernel, for which a length is signed, refuses it before it reads any of the data.
pub(crate) fn is_negative(len: socklen_t) -> bool {
    len > i32::MAX as socklen_t
}

/// Reads a socket address as it is, cut to what an IP address can have; `None` for a null pointer.
///
/// # Errors
/// `EINVAL` if the length is negative, as the kernel sees it, or longer than any address; `EFAULT`
/// if it is not accessible.
///
/// # Safety
/// `address` is the program's to give.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<Option<([u8; MAX], usize)>> {
    if address.is_null() {
        return Ok(None);
    }
    if len > LONGEST {
        return Err(Errno(libc::EINVAL));
    }
    let mut bytes = [0u8; MAX];
    let n = (len as usize).min(MAX);
    // SAFETY: there is room for `n`.
    if !unsafe { guarded::copy(address.cast(), bytes.as_mut_ptr(), n) } {
        return Err(guarded::FAULT);
    }
    Ok(Some((bytes, n)))
}

impl Name {
    /// The address in these bytes, if there are as many as the kernel wants (`sizeof(struct
    /// sockaddr_in)`, `SIN6_LEN_RFC2133`).
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let [f0, f1, ..] = *bytes else { return Self::Other };
        match c_int::from(u16::from_ne_bytes([f0, f1])) {
            libc::AF_UNSPEC => Self::Unspecified,
            libc::AF_INET if bytes.len() >= 16 => {
                let port = u16::from_be_bytes([bytes[2], bytes[3]]);
                let address = Address::v4([bytes[4], bytes[5], bytes[6], bytes[7]]);
                Self::Inet { endpoint: Endpoint::new(address, port), scope: 0, v6: false }
            }
            libc::AF_INET6 if bytes.len() >= 24 => {
                let port = u16::from_be_bytes([bytes[2], bytes[3]]);
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[8..24]);
                let scope = bytes.get(24..28).map_or(0, |s| u32::from_ne_bytes([s[0], s[1], s[2], s[3]]));
                Self::Inet { endpoint: Endpoint::new(Address(octets), port), scope, v6: true }
            }
            _ => Self::Other,
        }
    }
}

/// The C form of an endpoint for a socket of the given family: its bytes and their number.
pub(crate) fn emit(endpoint: Endpoint, v6: bool, scope: u32) -> ([u8; MAX], usize) {
    let mut bytes = [0u8; MAX];
    bytes[2..4].copy_from_slice(&endpoint.port.to_be_bytes());
    if v6 {
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[8..24].copy_from_slice(&endpoint.address.0);
        if endpoint.address.is_link_local() {
            bytes[24..28].copy_from_slice(&scope.to_ne_bytes());
        }
        (bytes, 28)
    } else {
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&endpoint.address.to_v4().unwrap_or_default());
        (bytes, 16)
    }
}

/// Stores a name in the program's memory, cut to its room, and returns the whole length there.
///
/// # Errors
/// `EINVAL` if the room is negative, as the kernel sees it; `EFAULT` if a location is not
/// accessible.
///
/// # Safety
/// The locations are the program's to give.
pub(crate) unsafe fn store(name: &[u8], address: *mut sockaddr, len: *mut socklen_t) -> Result<()> {
    if address.is_null() {
        return Ok(());
    }
    // SAFETY: by the caller's promise.
    let room = unsafe { guarded::load(len) }?;
    if is_negative(room) {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: by the caller's promise; at most `room` bytes are written.
    unsafe {
        if !guarded::copy(name.as_ptr(), address.cast(), name.len().min(room as usize)) {
            return Err(guarded::FAULT);
        }
        guarded::store(name.len() as socklen_t, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_there_and_back() {
        let v4 = Endpoint::new(Address::v4([10, 0, 0, 7]), 4660);
        let (bytes, len) = emit(v4, false, 0);
        assert_eq!(Name::parse(&bytes[..len]), Name::Inet { endpoint: v4, scope: 0, v6: false });
        let link_local = Endpoint::new(Address([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]), 7);
        let (bytes, len) = emit(link_local, true, 3);
        assert_eq!(Name::parse(&bytes[..len]), Name::Inet { endpoint: link_local, scope: 3, v6: true });
        let (bytes, len) = emit(v4, true, 0);
        assert_eq!(Name::parse(&bytes[..len]), Name::Inet { endpoint: v4, scope: 0, v6: true });
    }

    #[test]
    fn short_and_foreign_names_are_left_to_the_kernel() {
        assert_eq!(Name::parse(&[]), Name::Other);
        assert_eq!(Name::parse(&[2, 0, 1]), Name::Other);
        assert_eq!(Name::parse(&[2, 0, 0, 7, 10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]), Name::Other);
        assert_eq!(Name::parse(&[1, 0, b'/', b'x', 0, 0, 0, 0]), Name::Other);
        assert_eq!(Name::parse(&[0, 0]), Name::Unspecified);
    }
}
