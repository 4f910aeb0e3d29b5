//! The stack's errors as Winsock's.

use tickwire_stack::StackError;
use windows_sys::Win32::Networking::WinSock::{
    WSAEACCES, WSAEADDRINUSE, WSAEALREADY, WSAECONNABORTED, WSAECONNREFUSED, WSAECONNRESET, WSAEFAULT, WSAEHOSTDOWN,
    WSAEHOSTUNREACH, WSAEINVAL, WSAEISCONN, WSAEMSGSIZE, WSAENETDOWN, WSAENETUNREACH, WSAENOBUFS, WSAENOPROTOOPT,
    WSAENOTCONN, WSAENOTSOCK, WSAEOPNOTSUPP, WSAESHUTDOWN, WSAETIMEDOUT, WSAEWOULDBLOCK,
};

/// The error of Winsock for an error of the stack.
#[must_use]
pub const fn of(error: StackError) -> i32 {
    match error {
        StackError::WouldBlock => WSAEWOULDBLOCK,
        StackError::Stale => WSAENOTSOCK,
        StackError::NoBuffers => WSAENOBUFS,
        StackError::MessageTooLong => WSAEMSGSIZE,
        StackError::NotConnected => WSAENOTCONN,
        StackError::AlreadyConnected => WSAEISCONN,
        StackError::InProgress => WSAEALREADY,
        StackError::Refused => WSAECONNREFUSED,
        StackError::Reset => WSAECONNRESET,
        StackError::Aborted => WSAECONNABORTED,
        StackError::TimedOut => WSAETIMEDOUT,
        StackError::HostUnreachable | StackError::NoPath | StackError::NeedPath => WSAEHOSTUNREACH,
        StackError::NetworkUnreachable | StackError::Isolated => WSAENETUNREACH,
        StackError::ProtocolUnreachable => WSAENOPROTOOPT,
        StackError::HostDown => WSAEHOSTDOWN,
        StackError::SourceRoute => WSAEOPNOTSUPP,
        StackError::Malformed | StackError::Invalid => WSAEINVAL,
        StackError::Prohibited => WSAEACCES,
        StackError::NetworkDown => WSAENETDOWN,
        StackError::Pipe => WSAESHUTDOWN,
        StackError::AddressInUse => WSAEADDRINUSE,
        StackError::Fault => WSAEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_the_one_of_windows() {
        for (error, number) in [
            (StackError::WouldBlock, 10035),
            (StackError::Refused, 10061),
            (StackError::Reset, 10054),
            (StackError::TimedOut, 10060),
            (StackError::NotConnected, 10057),
            (StackError::Pipe, 10058),
            (StackError::NeedPath, 10065),
        ] {
            assert_eq!(of(error), number, "{error}");
        }
    }
}
