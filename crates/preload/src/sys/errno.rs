//! The C library's error number, and error numbers as results of calls.

use core::ffi::c_int;
use tickwire_linux_abi::errno;
use tickwire_stack::StackError;
use tickwire_stack::epoll_sets::WatchError;

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
}

impl From<StackError> for Errno {
    fn from(error: StackError) -> Self {
        Self(errno::of(error))
    }
}

impl From<WatchError> for Errno {
    fn from(error: WatchError) -> Self {
        Self(errno::of_watch(error))
    }
}
