//! Errors of Winsock.

use crate::hook::boundary::WinsockError;
use tickwire_stack::StackError;
use tickwire_windows_abi::error;
use windows_sys::Win32::Networking::WinSock::{
    WSAEACCES, WSAEADDRINUSE, WSAEADDRNOTAVAIL, WSAEALREADY, WSAECONNABORTED, WSAECONNRESET, WSAEFAULT, WSAEINVAL,
    WSAEISCONN, WSAEMSGSIZE, WSAENETDOWN, WSAENOTCONN, WSAENOTSOCK, WSAEOPNOTSUPP, WSAESHUTDOWN, WSAETIMEDOUT,
    WSAEWOULDBLOCK,
};

impl WinsockError {
    /// There is nothing now, and the socket does not block.
    pub(crate) const WOULD_BLOCK: Self = Self(WSAEWOULDBLOCK);
    /// The socket's timeout is over; or a peer does not answer.
    pub(crate) const TIMED_OUT: Self = Self(WSAETIMEDOUT);
    /// The call does not fit.
    pub(crate) const INVALID: Self = Self(WSAEINVAL);
    /// The program's memory is not accessible.
    pub(crate) const FAULT: Self = Self(WSAEFAULT);
    /// It has no peer.
    pub(crate) const NOT_CONNECTED: Self = Self(WSAENOTCONN);
    /// It has a peer.
    pub(crate) const IS_CONNECTED: Self = Self(WSAEISCONN);
    /// A connect is under way.
    pub(crate) const ALREADY: Self = Self(WSAEALREADY);
    /// The datagram is longer than the buffer.
    pub(crate) const MESSAGE_SIZE: Self = Self(WSAEMSGSIZE);
    /// The peer has reset the connection.
    pub(crate) const RESET: Self = Self(WSAECONNRESET);
    /// The connection has been aborted.
    pub(crate) const ABORTED: Self = Self(WSAECONNABORTED);
    /// The program has shut that direction.
    pub(crate) const SHUT: Self = Self(WSAESHUTDOWN);
    /// The handle is no socket's any more.
    pub(crate) const NOT_A_SOCKET: Self = Self(WSAENOTSOCK);
    /// Sockets of this kind do not know the call.
    pub(crate) const NOT_SUPPORTED: Self = Self(WSAEOPNOTSUPP);
    /// Another socket has the port.
    pub(crate) const IN_USE: Self = Self(WSAEADDRINUSE);
    /// Another socket has the port for itself alone, or Windows has reserved it.
    pub(crate) const NO_ACCESS: Self = Self(WSAEACCES);
    /// No host has this address.
    pub(crate) const NOT_AVAILABLE: Self = Self(WSAEADDRNOTAVAIL);
    /// The lane is lost.
    pub(crate) const NETWORK_DOWN: Self = Self(WSAENETDOWN);
}

impl From<StackError> for WinsockError {
    fn from(error: StackError) -> Self {
        Self(error::of(error))
    }
}
