//! Direct system calls (`syscall`). The library does not see them, except for those that common
//! programs make in this way.

use super::descriptor::{close, close_range};
use super::export;
use crate::sys::errno;
use crate::sys::real;
use core::ffi::{c_int, c_long, c_uint};

export! {
    /// `syscall(2)`.
    ///
    /// libuv closes its descriptors this way, sockets among them, because the C library's `close`
    /// is a cancellation point.
    ///
    /// The kernel's rings (`io_uring`) know nothing of sockets on the lane. A program that sends or
    /// receives through them, or passes an epoll instance's changes to them as libuv can, would
    /// wait for ever. So they are not available, as on a kernel without them, and programs fall
    /// back as they do there.
    fn syscall(number: c_long, first: c_long, second: c_long, third: c_long, fourth: c_long, fifth: c_long, sixth: c_long) -> c_long {
        match number {
            // The kernel, too, uses as many bits as the argument has.
            // SAFETY: plain numbers.
            libc::SYS_close => (unsafe { close(first as c_int) }).into(),
            // SAFETY: as above.
            libc::SYS_close_range => (unsafe { close_range(first as c_uint, second as c_uint, third as c_int) }).into(),
            libc::SYS_io_uring_setup => {
                errno::set(libc::ENOSYS);
                -1
            }
            // SAFETY: as the caller promises for this call. Arguments that were not passed are not
            // used.
            _ => unsafe { real::syscall(number, first, second, third, fourth, fifth, sixth) },
        }
    }
}
