//! Socket options that the service needs to verify a program's socket and that the usual safe
//! wrappers lack.

use crate::sys::answer;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use tickwire_linux_abi::option::{SO_BINDTOIFINDEX, SO_NETNS_COOKIE};

/// `SO_PASSRIGHTS` (Linux 6.16).
const SO_PASSRIGHTS: libc::c_int = 83;

/// Longest classic BPF program the kernel takes (`BPF_MAXINSNS`).
const MAX_INSTRUCTIONS: usize = 4096;

/// Reads an option of a fixed size at the `SOL_SOCKET` level.
fn option<T: Copy + Default>(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<T> {
    option_of(socket, libc::SOL_SOCKET, name)
}

pub(crate) fn option_of<T: Copy + Default>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    let mut value = T::default();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is a live, writable object of `length` bytes, and the callers below use
    // integer types only, for which every byte pattern that the kernel may write is a valid value.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    answer(done.into())?;
    if length as usize != size_of::<T>() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a socket option of unexpected length"));
    }
    Ok(value)
}

/// Sets an option whose value is a number, or consists of numbers without padding.
pub(crate) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is alive and `length` bytes long, all of which are initialised, as there is
    // no padding.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    answer(done.into()).map(drop)
}

/// The type of service that a socket gives its packets of IPv4.
///
/// # Errors
/// If the descriptor is no Internet socket.
pub fn type_of_service(socket: BorrowedFd<'_>) -> io::Result<u8> {
    option_of::<libc::c_int>(socket, libc::IPPROTO_IP, libc::IP_TOS).map(|tos| tos as u8)
}

/// The traffic class that a socket gives its packets of IPv6.
///
/// # Errors
/// If the descriptor is no socket of IPv6.
pub fn traffic_class(socket: BorrowedFd<'_>) -> io::Result<u8> {
    option_of::<libc::c_int>(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS).map(|class| class as u8)
}

/// `SO_PEERGROUPS` (Linux 4.13).
const SO_PEERGROUPS: libc::c_int = 59;
/// Most groups of one process (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;

/// The groups of the process that has connected to a Unix socket, as they were then, without its
/// own one (which `SO_PEERCRED` reports).
///
/// # Errors
/// If the descriptor is no connected Unix socket.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut room = 64;
    loop {
        let mut groups = vec![0_u32; room];
        let mut length = libc::socklen_t::try_from(room * size_of::<u32>()).map_err(io::Error::other)?;
        // SAFETY: `groups` has `length` writable bytes, and any bytes are numbers.
        let done = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        match answer(done.into()) {
            Ok(_) => {
                groups.truncate(length as usize / size_of::<u32>());
                return Ok(groups);
            }
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && room < MAX_GROUPS => room = MAX_GROUPS,
            Err(error) => return Err(error),
        }
    }
}

/// Sets whether descriptors may be passed to a Unix socket, and to those that connect to it from
/// now on. If not, sending them fails with `EPERM`.
///
/// # Errors
/// If the descriptor is no Unix socket, or the kernel is older than 6.16, where they may always.
pub fn take_descriptors(socket: BorrowedFd<'_>, whether: bool) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, &libc::c_int::from(whether))
}

/// Whether descriptors may be passed to a Unix socket (see [`take_descriptors`]).
///
/// # Errors
/// If the kernel is older than 6.16, where they may always.
pub fn takes_descriptors(socket: BorrowedFd<'_>) -> io::Result<bool> {
    option::<i32>(socket, SO_PASSRIGHTS).map(|on| on != 0)
}

/// The state of a TCP socket, as Linux numbers them (ESTABLISHED 1, CLOSE 7, LISTEN 10): the first
/// byte of `TCP_INFO`.
///
/// # Errors
/// If the descriptor is no TCP socket.
pub fn tcp_state(socket: BorrowedFd<'_>) -> io::Result<u8> {
    option_of(socket, libc::IPPROTO_TCP, libc::TCP_INFO)
}

/// A number that identifies the network namespace in which the socket was made. Equal numbers mean
/// the same namespace.
///
/// # Errors
/// If the descriptor is no socket, or the kernel is older than 5.14.
pub fn namespace_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    option(socket, SO_NETNS_COOKIE)
}

/// The socket's address family (`AF_INET`, `AF_INET6`, ...).
///
/// # Errors
/// If the descriptor is no socket.
pub fn domain(socket: BorrowedFd<'_>) -> io::Result<i32> {
    option(socket, libc::SO_DOMAIN)
}

/// The socket's type (`SOCK_STREAM`, `SOCK_DGRAM`, ...).
///
/// # Errors
/// If the descriptor is no socket.
pub fn kind(socket: BorrowedFd<'_>) -> io::Result<i32> {
    option(socket, libc::SO_TYPE)
}

/// The socket's protocol (`IPPROTO_TCP`, `IPPROTO_UDP`, `IPPROTO_MPTCP`, ...).
///
/// # Errors
/// If the descriptor is no socket.
pub fn protocol(socket: BorrowedFd<'_>) -> io::Result<i32> {
    option(socket, libc::SO_PROTOCOL)
}

/// The interface to which the socket is bound (`SO_BINDTODEVICE`), 0 if to none.
///
/// # Errors
/// If the descriptor is no socket.
pub fn bound_interface(socket: BorrowedFd<'_>) -> io::Result<u32> {
    option::<i32>(socket, SO_BINDTOIFINDEX).map(|index| u32::try_from(index).unwrap_or(0))
}

/// Whether the socket listens (`SO_ACCEPTCONN`).
///
/// # Errors
/// If the descriptor is no socket.
pub fn listens(socket: BorrowedFd<'_>) -> io::Result<bool> {
    option::<i32>(socket, libc::SO_ACCEPTCONN).map(|on| on != 0)
}

/// Whether `SO_REUSEPORT` is on.
///
/// # Errors
/// If the descriptor is no socket.
pub fn reuses_port(socket: BorrowedFd<'_>) -> io::Result<bool> {
    option::<i32>(socket, libc::SO_REUSEPORT).map(|on| on != 0)
}

/// One instruction of a classic BPF program (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Jump if true, in instructions.
    pub jt: u8,
    /// Jump if false, in instructions.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Attaches a classic BPF filter to a socket, in place of an earlier one (`SO_ATTACH_FILTER`).
///
/// # Errors
/// If the program is empty or too long, or the kernel refuses it.
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    if program.is_empty() || program.len() > MAX_INSTRUCTIONS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut instructions: Vec<libc::sock_filter> =
        program.iter().map(|i| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect();
    let description = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(io::Error::other)?,
        filter: instructions.as_mut_ptr(),
    };
    let length = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).map_err(io::Error::other)?;
    // SAFETY: `description` and the instructions it points to live until the call returns; the
    // kernel copies both.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const description).cast(),
            length,
        )
    };
    answer(done.into()).map(drop)
}

/// Removes a filter; a missing one is no error.
///
/// # Errors
/// If the descriptor is no socket, or its filter is locked.
pub fn detach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Its value is ignored.
    match set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &libc::c_int::default()) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_tells_what_it_is() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("[::1]:0").unwrap();
        assert_eq!(domain(udp.as_fd()).unwrap(), libc::AF_INET);
        assert_eq!(domain(tcp.as_fd()).unwrap(), libc::AF_INET6);
        assert_eq!(kind(udp.as_fd()).unwrap(), libc::SOCK_DGRAM);
        assert_eq!(protocol(tcp.as_fd()).unwrap(), libc::IPPROTO_TCP);
        assert!(listens(tcp.as_fd()).unwrap() && !listens(udp.as_fd()).unwrap());
        assert_eq!(tcp_state(tcp.as_fd()).unwrap(), 10);
        assert!(tcp_state(udp.as_fd()).is_err());
        assert!(!reuses_port(udp.as_fd()).unwrap());
        assert_eq!(bound_interface(udp.as_fd()).unwrap(), 0);
        assert_eq!(namespace_cookie(udp.as_fd()).unwrap(), namespace_cookie(tcp.as_fd()).unwrap());
        assert!(domain(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }

    #[test]
    fn a_filter_that_drops_everything_drops() {
        const RETURN_NOTHING: Instruction = Instruction { code: 0x06, jt: 0, jf: 0, k: 0 };
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        attach_filter(receiver.as_fd(), &[RETURN_NOTHING]).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
        assert_eq!(receiver.recv(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        detach_filter(receiver.as_fd()).unwrap();
        detach_filter(receiver.as_fd()).unwrap();
        sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
        assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 1);
        assert!(attach_filter(receiver.as_fd(), &[]).is_err());
    }
}
