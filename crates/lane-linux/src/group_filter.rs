//! Whether a socket is a member of a multicast group on an interface: the kernel's own socket holds
//! the memberships, and the service reads them from it.

use crate::sys::answer;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use tickwire_linux_abi::membership::{filter_query, level};
use tickwire_stack::addr::Address;

/// Whether a socket has joined a group on an interface.
///
/// # Errors
/// The kernel's, except for the one that says that the socket has not.
pub fn has_joined(socket: BorrowedFd<'_>, group: Address, interface: u32) -> io::Result<bool> {
    let mut value = filter_query(group, interface, 0);
    let mut length = value.len() as libc::socklen_t;
    let (level, option) = (level(group), libc::MCAST_MSFILTER);
    // SAFETY: `value` is alive, writable, and as long as said.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut length) };
    match answer(done.into()) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd;

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
