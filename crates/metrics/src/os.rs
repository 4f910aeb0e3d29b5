//! A socket that its owner lends to be waited for, in the operating system's own form.

#[cfg(unix)]
pub use std::os::fd::BorrowedFd as BorrowedSocket;
#[cfg(windows)]
pub use std::os::windows::io::BorrowedSocket;

#[cfg(unix)]
pub(crate) fn borrow(socket: &impl std::os::fd::AsFd) -> BorrowedSocket<'_> {
    socket.as_fd()
}

#[cfg(windows)]
pub(crate) fn borrow(socket: &impl std::os::windows::io::AsSocket) -> BorrowedSocket<'_> {
    socket.as_socket()
}
