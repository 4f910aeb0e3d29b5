//! The stack's errors as Linux's error numbers (`asm-generic/errno.h`).

use core::ffi::c_int;
use tickwire_stack::Error;
use tickwire_stack::epoll_sets::WatchError;

/// The error number of a call on a socket.
#[must_use]
#[inline]
pub const fn of(error: Error) -> c_int {
    match error {
        Error::WouldBlock => libc::EAGAIN,
        Error::Stale => libc::EBADF,
        Error::NoBuffers => libc::ENOBUFS,
        Error::MessageTooLong => libc::EMSGSIZE,
        Error::NotConnected => libc::ENOTCONN,
        Error::AlreadyConnected => libc::EISCONN,
        Error::InProgress => libc::EINPROGRESS,
        Error::Refused => libc::ECONNREFUSED,
        Error::Reset => libc::ECONNRESET,
        Error::Aborted => libc::ECONNABORTED,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::HostUnreachable => libc::EHOSTUNREACH,
        Error::NetworkUnreachable => libc::ENETUNREACH,
        Error::ProtocolUnreachable => libc::ENOPROTOOPT,
        Error::HostDown => libc::EHOSTDOWN,
        Error::Isolated => libc::ENONET,
        Error::SourceRoute => libc::EOPNOTSUPP,
        Error::Malformed => libc::EPROTO,
        Error::Prohibited => libc::EACCES,
        Error::NetworkDown => libc::ENETDOWN,
        Error::Pipe => libc::EPIPE,
        Error::AddressInUse => libc::EADDRINUSE,
        Error::Invalid => libc::EINVAL,
        Error::Fault => libc::EFAULT,
        // Code that can ask the host resolves these before they reach the program.
        Error::NoPath | Error::NeedPath => libc::EHOSTUNREACH,
    }
}

/// The error number of a change of an epoll instance, as `epoll_ctl` returns it.
#[must_use]
pub const fn of_watch(error: WatchError) -> c_int {
    match error {
        WatchError::Stale => libc::EBADF,
        WatchError::Exists => libc::EEXIST,
        WatchError::Missing => libc::ENOENT,
        WatchError::Loop => libc::ELOOP,
        WatchError::Full => libc::ENOSPC,
    }
}

/// The stack's error behind a number, if it comes from the network or the peer and not from the
/// call itself.
#[must_use]
pub fn from_network(number: c_int) -> Option<Error> {
    const ALL: [Error; 14] = [
        Error::Refused,
        Error::Reset,
        Error::Aborted,
        Error::TimedOut,
        Error::HostUnreachable,
        Error::NetworkUnreachable,
        Error::ProtocolUnreachable,
        Error::HostDown,
        Error::Isolated,
        Error::SourceRoute,
        Error::Malformed,
        Error::Prohibited,
        Error::NetworkDown,
        Error::MessageTooLong,
    ];
    ALL.into_iter().find(|&error| of(error) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from `asm-generic/errno-base.h` and `asm-generic/errno.h`; whether the error comes
    /// from the network.
    const TABLE: [(Error, c_int, bool); 26] = [
        (Error::Stale, 9, false),
        (Error::WouldBlock, 11, false),
        (Error::Prohibited, 13, true),
        (Error::Fault, 14, false),
        (Error::Invalid, 22, false),
        (Error::Pipe, 32, false),
        (Error::Isolated, 64, true),
        (Error::Malformed, 71, true),
        (Error::MessageTooLong, 90, true),
        (Error::ProtocolUnreachable, 92, true),
        (Error::SourceRoute, 95, true),
        (Error::AddressInUse, 98, false),
        (Error::NetworkDown, 100, true),
        (Error::NetworkUnreachable, 101, true),
        (Error::Aborted, 103, true),
        (Error::Reset, 104, true),
        (Error::NoBuffers, 105, false),
        (Error::AlreadyConnected, 106, false),
        (Error::NotConnected, 107, false),
        (Error::TimedOut, 110, true),
        (Error::Refused, 111, true),
        (Error::HostDown, 112, true),
        (Error::HostUnreachable, 113, true),
        (Error::NoPath, 113, false),
        (Error::NeedPath, 113, false),
        (Error::InProgress, 115, false),
    ];

    #[test]
    fn every_error_has_linux_number() {
        for (error, number, _) in TABLE {
            assert_eq!(of(error), number, "{error}");
        }
    }

    #[test]
    fn only_numbers_of_the_network_lead_back() {
        for (error, number, is_of_network) in TABLE {
            if is_of_network {
                assert_eq!(from_network(number), Some(error));
            } else if number != 113 {
                assert_eq!(from_network(number), None, "{error}");
            }
        }
        for number in [i32::MIN, -11, -2, 0, 1, 133, i32::MAX] {
            assert_eq!(from_network(number), None, "{number}");
        }
    }

    #[test]
    fn changes_of_epoll_instances_fail_as_on_linux() {
        for (error, number) in [
            (WatchError::Missing, 2),
            (WatchError::Stale, 9),
            (WatchError::Exists, 17),
            (WatchError::Full, 28),
            (WatchError::Loop, 40),
        ] {
            assert_eq!(of_watch(error), number, "{error}");
        }
    }
}
