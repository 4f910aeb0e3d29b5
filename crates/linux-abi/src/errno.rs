//! The stack's errors as Linux's error numbers (`asm-generic/errno.h`).

use core::ffi::c_int;
use tickwire_stack::StackError;
use tickwire_stack::epoll_sets::WatchError;

/// The error number of a call on a socket.
#[must_use]
#[inline]
pub const fn of(error: StackError) -> c_int {
    match error {
        StackError::WouldBlock => libc::EAGAIN,
        StackError::Stale => libc::EBADF,
        StackError::NoBuffers => libc::ENOBUFS,
        StackError::MessageTooLong => libc::EMSGSIZE,
        StackError::NotConnected => libc::ENOTCONN,
        StackError::AlreadyConnected => libc::EISCONN,
        StackError::InProgress => libc::EINPROGRESS,
        StackError::Refused => libc::ECONNREFUSED,
        StackError::Reset => libc::ECONNRESET,
        StackError::Aborted => libc::ECONNABORTED,
        StackError::TimedOut => libc::ETIMEDOUT,
        StackError::HostUnreachable => libc::EHOSTUNREACH,
        StackError::NetworkUnreachable => libc::ENETUNREACH,
        StackError::ProtocolUnreachable => libc::ENOPROTOOPT,
        StackError::HostDown => libc::EHOSTDOWN,
        StackError::Isolated => libc::ENONET,
        StackError::SourceRoute => libc::EOPNOTSUPP,
        StackError::Malformed => libc::EPROTO,
        StackError::Prohibited => libc::EACCES,
        StackError::NetworkDown => libc::ENETDOWN,
        StackError::Pipe => libc::EPIPE,
        StackError::AddressInUse => libc::EADDRINUSE,
        StackError::Invalid => libc::EINVAL,
        StackError::Fault => libc::EFAULT,
        // Code that can ask the host resolves these before they reach the program.
        StackError::NoPath | StackError::NeedPath => libc::EHOSTUNREACH,
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
pub fn from_network(number: c_int) -> Option<StackError> {
    StackError::OF_NETWORK.into_iter().find(|&error| of(error) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from `asm-generic/errno-base.h` and `asm-generic/errno.h`; whether the error comes
    /// from the network.
    const TABLE: [(StackError, c_int, bool); 26] = [
        (StackError::Stale, 9, false),
        (StackError::WouldBlock, 11, false),
        (StackError::Prohibited, 13, true),
        (StackError::Fault, 14, false),
        (StackError::Invalid, 22, false),
        (StackError::Pipe, 32, false),
        (StackError::Isolated, 64, true),
        (StackError::Malformed, 71, true),
        (StackError::MessageTooLong, 90, true),
        (StackError::ProtocolUnreachable, 92, true),
        (StackError::SourceRoute, 95, true),
        (StackError::AddressInUse, 98, false),
        (StackError::NetworkDown, 100, true),
        (StackError::NetworkUnreachable, 101, true),
        (StackError::Aborted, 103, true),
        (StackError::Reset, 104, true),
        (StackError::NoBuffers, 105, false),
        (StackError::AlreadyConnected, 106, false),
        (StackError::NotConnected, 107, false),
        (StackError::TimedOut, 110, true),
        (StackError::Refused, 111, true),
        (StackError::HostDown, 112, true),
        (StackError::HostUnreachable, 113, true),
        (StackError::NoPath, 113, false),
        (StackError::NeedPath, 113, false),
        (StackError::InProgress, 115, false),
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
