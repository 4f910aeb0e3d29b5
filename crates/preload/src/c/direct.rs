//! Direct system calls (`syscall`). What a program does by them is not seen here, but for those
//! that common programs do in this way.

use super::descriptor::{close, close_range};
use super::{export, real};
use crate::base::errno;
use core::ffi::{c_int, c_long, c_uint};

export! {
    /// `syscall(2)`.
    ///
    /// libuv closes its descriptors so, sockets among them, because the C library's `close` is a
    /// point at which a thread can be cancelled.
    ///
    /// The kernel's rings (`io_uring`) know nothing of sockets on the lane: a program that sends or
    /// receives by them, or hands an epoll instance's changes to them as libuv can, would wait for
    /// ever. There are none here, as on a kernel without them, and programs do what they do there.
    fn syscall(number: c_long, first: c_long, second: c_long, third: c_long, fourth: c_long, fifth: c_long, sixth: c_long) -> c_long {
        match number {
            // The kernel, too, looks at as many bits as the argument has.
            // SAFETY: plain numbers.
            libc::SYS_close => (unsafe { close(first as c_int) }).into(),
            // SAFETY: as above.
            libc::SYS_close_range => (unsafe { close_range(first as c_uint, second as c_uint, third as c_int) }).into(),
            libc::SYS_io_uring_setup => {
                errno::set(libc::ENOSYS);
                -1
            }
            // SAFETY: as the caller promises for this call. Arguments that were not passed are not
            // looked at.
            _ => unsafe { real::syscall(number, first, second, third, fourth, fifth, sixth) },
        }
    }
}
