//! The C library's error number, and the stack's errors as such numbers.

use core::ffi::c_int;
use tickwire_stack::Error;

/// An error number as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// Not yet: an attempt returns it to continue waiting.
pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);

/// The socket is a kernel socket now: the caller repeats the call on the kernel. Never an error
/// number of the system.
pub(crate) const DEMOTED: Errno = Errno(-2);

/// The descriptor refers to another socket now (`dup2` and `close` by other threads): the caller
/// repeats the call with that. Never an error number of the system.
pub(crate) const ANEW: Errno = Errno(-5);

/// The calling thread has been cancelled: a wait returns this, so that the call ends. Never an
/// error number of the system.
pub(crate) const CANCELLED: Errno = Errno(-4);

/// The result of a call.
pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// The calling thread's error number.
pub(crate) fn get() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sets the calling thread's error number.
pub(crate) fn set(value: c_int) {
    crate::sys::set_errno(value);
}

impl Errno {
    /// The error of the call that just failed.
    pub(crate) fn last() -> Self {
        Self(get())
    }

    /// The stack's error behind this number, if it comes from the network or the peer and not from
    /// the call itself.
    pub(crate) fn told_by_socket(self) -> Option<Error> {
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
        ALL.into_iter().find(|&error| Self::from(error) == self)
    }
}

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
            // Code that can ask the service resolves these before they reach the program.
            Error::NoPath | Error::NeedPath => libc::EHOSTUNREACH,
        })
    }
}
