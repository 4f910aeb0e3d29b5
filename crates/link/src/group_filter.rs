//! A socket's source filter for a multicast group on an interface, as the kernel reports it:
//! `MCAST_MSFILTER` of RFC 3678 section 5.2, for both families.
//!
//! The kernel's own socket holds the memberships: service and program read them from it.

use crate::sys::answer;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use tickwire_stack::addr::{Address, Family};

/// The option's name, at the level of the group's family.
pub const MCAST_MSFILTER: c_int = 48;

/// As many sources as the kernel allows in one filter by default, of either family.
pub const MOST_SOURCES: usize = 64;

/// Bytes of a `struct sockaddr_storage`.
const STORAGE: usize = 128;

// Offsets in `struct group_filter`.
const INTERFACE: usize = 0;
const GROUP: usize = 8;
const MODE: usize = GROUP + STORAGE;
const COUNT: usize = MODE + 4;
const SOURCES: usize = COUNT + 4;

/// Bytes of the option's value with room for [`MOST_SOURCES`].
pub const VALUE_BYTES: usize = SOURCES + MOST_SOURCES * STORAGE;

const MODE_EXCLUDE: u32 = 0;

/// A socket's filter for a group on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFilter {
    /// All datagrams but those from these sources; otherwise only those.
    pub exclude: bool,
    /// The sources.
    pub sources: Vec<Address>,
}

/// The level of the option for a group.
#[must_use]
pub fn level(group: Address) -> c_int {
    match group.family() {
        Family::V4 => libc::IPPROTO_IP,
        Family::V6 => libc::IPPROTO_IPV6,
    }
}

/// The buffer of a query to the kernel, which answers in the same buffer. Not on the stack, of
/// which a program may have little.
#[must_use]
pub fn question(group: Address, interface: u32) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    value[INTERFACE..][..4].copy_from_slice(&interface.to_ne_bytes());
    put_address(&mut value[GROUP..], group);
    value[COUNT..][..4].copy_from_slice(&(MOST_SOURCES as u32).to_ne_bytes());
    value
}

/// The group that the option's value names, if it is one.
#[must_use]
pub fn group(value: &[u8]) -> Option<Address> {
    take_address(value.get(GROUP..)?)
}

/// The kernel's answer; `None` if it names more sources than there is room for.
#[must_use]
pub fn parse(value: &[u8]) -> Option<SourceFilter> {
    let number = |at: usize| value.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes);
    let exclude = number(MODE)? == MODE_EXCLUDE;
    let count = usize::try_from(number(COUNT)?).ok().filter(|&count| count <= MOST_SOURCES)?;
    let source = |n: usize| take_address(value.get(SOURCES + n * STORAGE..)?);
    let sources = (0..count).map(source).collect::<Option<_>>()?;
    Some(SourceFilter { exclude, sources })
}

/// Whether a socket has joined a group on an interface.
///
/// # Errors
/// The kernel's, except for the one that says that the socket has not.
pub fn has_joined(socket: BorrowedFd<'_>, group: Address, interface: u32) -> io::Result<bool> {
    let mut value = question(group, interface);
    value[COUNT..][..4].fill(0);
    let mut length = SOURCES as libc::socklen_t;
    // SAFETY: `value` is alive, writable, and longer than `length`.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level(group), MCAST_MSFILTER, value.as_mut_ptr().cast(), &raw mut length)
    };
    match answer(done.into()) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes an address as a `struct sockaddr_in` or `sockaddr_in6` without a port.
fn put_address(place: &mut [u8], address: Address) {
    match address.to_v4() {
        Some(octets) => {
            place[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            place[4..8].copy_from_slice(&octets);
        }
        None => {
            place[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            place[8..24].copy_from_slice(&address.0);
        }
    }
}

fn take_address(place: &[u8]) -> Option<Address> {
    match libc::c_int::from(u16::from_ne_bytes(*place.first_chunk()?)) {
        libc::AF_INET => place.get(4..8).and_then(|b| b.try_into().ok()).map(Address::v4),
        libc::AF_INET6 => place.get(8..24).and_then(|b| b.try_into().ok()).map(Address),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn what_the_kernel_answers_is_read() {
        let (group_v4, source) = (Address::v4([239, 1, 2, 3]), Address::v4([10, 0, 0, 9]));
        let mut value = question(group_v4, 7);
        assert_eq!((group(&value), level(group_v4)), (Some(group_v4), libc::IPPROTO_IP));
        value[MODE] = 1;
        value[COUNT..][..4].copy_from_slice(&1_u32.to_ne_bytes());
        put_address(&mut value[SOURCES..], source);
        assert_eq!(parse(&value), Some(SourceFilter { exclude: false, sources: vec![source] }));
        value[COUNT..][..4].copy_from_slice(&65_u32.to_ne_bytes());
        assert_eq!(parse(&value), None, "more than there is room for");
        assert_eq!((parse(&value[..100]), group(&value[..20])), (None, Some(group_v4)));
        let mut six = Address::ANY;
        (six.0[0], six.0[15]) = (0xff, 1);
        assert_eq!((group(&question(six, 7)), level(six)), (Some(six), libc::IPPROTO_IPV6));
    }

    #[test]
    fn the_kernel_says_where_a_socket_has_joined() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let group = Address::v4([239, 1, 2, 3]);
        assert!(!has_joined(socket.as_fd(), group, 1).unwrap());
        socket.join_multicast_v4(&Ipv4Addr::new(239, 1, 2, 3), &Ipv4Addr::LOCALHOST).unwrap();
        assert!(has_joined(socket.as_fd(), group, 1).unwrap());
        assert!(!has_joined(socket.as_fd(), group, 2).unwrap(), "another interface");
    }
}
