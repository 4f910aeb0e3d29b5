//! The stack's errors as error numbers.

use tickwire_stack::Error;
use tickwire_stack::epoll_sets::WatchError;

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// The result of a call.
pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// The call would block.
pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self(match error {
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
            Error::HostUnreachable | Error::NoPath | Error::NeedPath => libc::EHOSTUNREACH,
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
        })
    }
}

impl From<WatchError> for Errno {
    fn from(error: WatchError) -> Self {
        Self(match error {
            WatchError::Stale => libc::EBADF,
            WatchError::Exists => libc::EEXIST,
            WatchError::Missing => libc::ENOENT,
            WatchError::Loop => libc::ELOOP,
            WatchError::Full => libc::ENOSPC,
        })
    }
}
