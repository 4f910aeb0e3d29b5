//! A program's socket, in the service, which has pulled its handle out of the program's process:
//! what Windows says about it. Nothing that the program says counts.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::windows::io::{AsRawHandle, AsRawSocket, BorrowedHandle, BorrowedSocket, FromRawSocket, OwnedSocket};
use tickwire_stack::addr::Endpoint;
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Networking::WinSock::{
    FROM_PROTOCOL_INFO, INVALID_SOCKET, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, IPV6_V6ONLY, SO_ACCEPTCONN,
    SO_PROTOCOL_INFOW, SOCK_DGRAM, SOCK_STREAM, SOCKADDR_INET, SOCKET, SOL_SOCKET, WSA_FLAG_OVERLAPPED, WSADATA,
    WSADuplicateSocketW, WSAENOTCONN, WSAGetLastError, WSAPROTOCOL_INFOW, WSASocketW, WSAStartup, getpeername,
    getsockname, getsockopt,
};
use windows_sys::Win32::System::Threading::GetCurrentProcessId;

/// Version 2.2 of Winsock.
const VERSION: u16 = 0x0202;

/// Makes Winsock ready in this process; may be called again.
///
/// # Errors
/// If there is no Winsock.
pub fn start_winsock() -> io::Result<()> {
    // SAFETY: all-zero is a valid value, and room for what the call writes.
    let error = unsafe {
        let mut data: WSADATA = zeroed();
        WSAStartup(VERSION, &raw mut data)
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn winsock(result: i32) -> io::Result<()> {
    if result == 0 {
        return Ok(());
    }
    // SAFETY: no memory is passed.
    Err(io::Error::from_raw_os_error(unsafe { WSAGetLastError() }))
}

fn raw(socket: BorrowedSocket<'_>) -> SOCKET {
    socket.as_raw_socket() as SOCKET
}

/// A socket as a handle: to be passed to the service, for instance.
#[must_use]
pub fn handle_of(socket: BorrowedSocket<'_>) -> BorrowedHandle<'_> {
    let raw = std::ptr::with_exposed_provenance_mut(socket.as_raw_socket() as usize);
    // SAFETY: a socket is a handle, which lives for the same time.
    unsafe { BorrowedHandle::borrow_raw(raw) }
}

/// Makes the handle of another process's socket, which Winsock knows nothing of in this process,
/// one of its sockets: another handle of the same socket of the kernel.
///
/// # Errors
/// If the handle is none of a socket.
pub fn adopt(handle: BorrowedHandle<'_>) -> io::Result<OwnedSocket> {
    let raw = handle.as_raw_handle().expose_provenance();
    // SAFETY: all-zero is a valid value.
    let mut info: WSAPROTOCOL_INFOW = unsafe { zeroed() };
    // SAFETY: room for what the call writes.
    winsock(unsafe { WSADuplicateSocketW(raw, GetCurrentProcessId(), &raw mut info) })?;
    // SAFETY: what the call before has written, for this process.
    let socket = unsafe {
        WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &raw const info, 0, WSA_FLAG_OVERLAPPED)
    };
    if socket == INVALID_SOCKET {
        return Err(winsock(-1).err().unwrap_or_else(|| io::ErrorKind::Other.into()));
    }
    // SAFETY: the socket was just made and has no other owner.
    Ok(unsafe { OwnedSocket::from_raw_socket(socket as u64) })
}

/// An option of a socket that is a number.
fn option(socket: BorrowedSocket<'_>, level: i32, name: i32) -> io::Result<i32> {
    let (mut value, mut size) = (0_i32, size_of::<i32>() as i32);
    // SAFETY: room for so many bytes, and for their number.
    winsock(unsafe { getsockopt(raw(socket), level, name, (&raw mut value).cast(), &raw mut size) })?;
    Ok(value)
}

/// Whether a socket is one of TCP (or else of UDP); `None` if it is something else.
///
/// # Errors
/// If Windows does not say.
pub fn is_stream(socket: BorrowedSocket<'_>) -> io::Result<Option<bool>> {
    // SAFETY: all-zero is a valid value.
    let mut info: WSAPROTOCOL_INFOW = unsafe { zeroed() };
    let mut size = size_of::<WSAPROTOCOL_INFOW>() as i32;
    // SAFETY: room for so many bytes, and for their number.
    winsock(unsafe { getsockopt(raw(socket), SOL_SOCKET, SO_PROTOCOL_INFOW, (&raw mut info).cast(), &raw mut size) })?;
    Ok(match (info.iSocketType, info.iProtocol) {
        (SOCK_STREAM, IPPROTO_TCP) => Some(true),
        (SOCK_DGRAM, IPPROTO_UDP) => Some(false),
        _ => None,
    })
}

/// Whether a socket listens.
///
/// # Errors
/// As [`is_stream`].
pub fn listens(socket: BorrowedSocket<'_>) -> io::Result<bool> {
    option(socket, SOL_SOCKET, SO_ACCEPTCONN).map(|listens| listens != 0)
}

/// Whether a socket of IPv6 is one of IPv4, too.
///
/// # Errors
/// As [`is_stream`]; if it is one of IPv4.
pub fn is_dual(socket: BorrowedSocket<'_>) -> io::Result<bool> {
    option(socket, IPPROTO_IPV6, IPV6_V6ONLY).map(|only| only == 0)
}

/// Whether a socket has a peer.
///
/// # Errors
/// If Windows does not say.
pub fn is_connected(socket: BorrowedSocket<'_>) -> io::Result<bool> {
    let (mut name, mut size) = (sockaddr::none(), size_of::<SOCKADDR_INET>() as i32);
    // SAFETY: room for an address, and for its length.
    match winsock(unsafe { getpeername(raw(socket), (&raw mut name).cast(), &raw mut size) }) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(WSAENOTCONN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where a socket is bound; port 0: nowhere. `None` if it is of another family than IPv4 and IPv6.
///
/// # Errors
/// If Windows does not say.
pub fn local_name(socket: BorrowedSocket<'_>) -> io::Result<Option<Endpoint>> {
    let (mut name, mut size) = (sockaddr::none(), size_of::<SOCKADDR_INET>() as i32);
    // SAFETY: room for an address, and for its length.
    winsock(unsafe { getsockname(raw(socket), (&raw mut name).cast(), &raw mut size) })?;
    Ok(sockaddr::endpoint(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::windows::io::{AsHandle, AsSocket};
    use tickwire_stack::addr::Address;

    #[test]
    fn windows_says_what_a_socket_is_and_where_it_is_bound() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("[::1]:0").unwrap();
        assert!(!listens(udp.as_socket()).unwrap() && listens(tcp.as_socket()).unwrap());
        assert!(!is_connected(udp.as_socket()).unwrap());
        udp.connect("127.0.0.1:9").unwrap();
        assert!(is_connected(udp.as_socket()).unwrap());
        assert!(is_dual(udp.as_socket()).is_err());
        assert!(is_dual(tcp.as_socket()).is_ok());
        assert_eq!(is_stream(udp.as_socket()).unwrap(), Some(false));
        assert_eq!(is_stream(tcp.as_socket()).unwrap(), Some(true));
        let adopted = adopt(handle_of(tcp.as_socket())).unwrap();
        assert_eq!(local_name(adopted.as_socket()).unwrap(), local_name(tcp.as_socket()).unwrap());
        assert!(listens(adopted.as_socket()).unwrap());
        let port = udp.local_addr().unwrap().port();
        assert_eq!(local_name(udp.as_socket()).unwrap(), Some(Endpoint::new(Address::v4([127, 0, 0, 1]), port)));
        let port = tcp.local_addr().unwrap().port();
        let loopback = Address([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(local_name(tcp.as_socket()).unwrap(), Some(Endpoint::new(loopback, port)));
    }

    #[test]
    fn what_is_no_socket_is_an_error() {
        start_winsock().unwrap();
        let event = crate::event::WakeEvent::new().unwrap();
        assert!(adopt(event.as_handle()).is_err());
    }
}
