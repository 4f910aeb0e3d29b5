//! Error numbers as results of calls.

use tickwire_linux_abi::errno;
use tickwire_stack::StackError;
use tickwire_stack::epoll_sets::WatchError;

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// The result of a call.
pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// The call would block.
pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);

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
