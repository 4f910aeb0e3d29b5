//! Exports that move data: read and write, send and receive, in all their forms.

use super::{answer, answer_len, export, message};
use crate::socket::ops;
use crate::sys;
use crate::sys::Extras;
use crate::sys::errno::{Errno, Result};
use crate::sys::iov::{Buffers, one};
use crate::sys::name;
use crate::sys::real;
use crate::table::fd::TABLE;
use core::ffi::{c_int, c_uint, c_void};
use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// Receives into one buffer.
unsafe fn receive_one(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let iov = one(buffer, len);
    answer_len(|| {
        // SAFETY: the program's buffer, as long as it says.
        let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
        ops::receive(fd, &mut buffers, flags, &mut Extras::default())
    })
}

/// No destination address: the data goes to the connected peer.
const NOBODY: (*const sockaddr, socklen_t) = (core::ptr::null(), 0);

/// Sends one buffer.
unsafe fn send_one(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    to: (*const sockaddr, socklen_t),
) -> ssize_t {
    let iov = one(buffer, len);
    answer_len(|| {
        let mut extras = Extras::default();
        // SAFETY: the program's address, or none.
        let name = unsafe { extras.name_to_send(to.0, to.1) }?;
        // SAFETY: the program's buffer, as long as it says.
        let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
        ops::send(fd, &mut buffers, flags, name, &mut extras)
    })
}

unsafe fn receive_vector(fd: c_int, iov: *const iovec, count: c_int, flags: c_int) -> ssize_t {
    answer_len(|| {
        let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: the program's list.
        let mut buffers = unsafe { Buffers::new(iov, count) }?;
        ops::receive(fd, &mut buffers, message_flags(flags)?, &mut Extras::default())
    })
}

unsafe fn send_vector(fd: c_int, iov: *const iovec, count: c_int, flags: c_int) -> ssize_t {
    answer_len(|| {
        let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: the program's list.
        let mut buffers = unsafe { Buffers::new(iov, count) }?;
        ops::send(fd, &mut buffers, message_flags(flags)?, None, &mut Extras::default())
    })
}

/// The flags of `preadv2` and `pwritev2` as those of `recvmsg` and `sendmsg`, as Linux maps them
/// for sockets.
fn message_flags(flags: c_int) -> Result<c_int> {
    if flags & !(libc::RWF_HIPRI | libc::RWF_NOWAIT) != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    Ok(if flags & libc::RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 })
}

export! {
    /// `read(2)`.
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { if TABLE.get(fd).is_socket() { receive_one(fd, buffer, len, 0) } else { real::read(fd, buffer, len) } }
    }

    /// The fortified `read`.
    fn __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        fortify(len, room);
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { read(fd, buffer, len) }
    }

    /// `readv(2)`.
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { if TABLE.get(fd).is_socket() { receive_vector(fd, iov, count, 0) } else { real::readv(fd, iov, count) } }
    }

    /// `preadv2(2)`: with offset -1 it is `readv`.
    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe {
            if offset == -1 && TABLE.get(fd).is_socket() { receive_vector(fd, iov, count, flags) } else { real::preadv2(fd, iov, count, offset, flags) }
        }
    }

    /// `preadv2(2)` under its other name.
    fn preadv64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { preadv2(fd, iov, count, offset, flags) }
    }

    /// `recv(2)`.
    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { if TABLE.get(fd).is_socket() { receive_one(fd, buffer, len, flags) } else { real::recv(fd, buffer, len, flags) } }
    }

    /// The fortified `recv`.
    fn __recv_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
        fortify(len, room);
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { recv(fd, buffer, len, flags) }
    }

    /// `recvfrom(2)`.
    fn recvfrom(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, alen: *mut socklen_t) -> ssize_t {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::recvfrom(fd, buffer, len, flags, address, alen) };
        }
        let iov = one(buffer, len);
        answer_len(|| {
            // SAFETY: the program's buffer, as long as it says.
            let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
            let mut extras = Extras::default();
            let len = ops::receive(fd, &mut buffers, flags, &mut extras)?;
            // A stream has no name to return, as in Linux: its length is 0, if the program has room
            // for one.
            // SAFETY: the program's place for the name.
            unsafe { name::store(&extras.name[..extras.name_len], address, alen) }?;
            Ok(len)
        })
    }

    /// The fortified `recvfrom`.
    fn __recvfrom_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t, flags: c_int, address: *mut sockaddr, alen: *mut socklen_t) -> ssize_t {
        fortify(len, room);
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { recvfrom(fd, buffer, len, flags, address, alen) }
    }

    /// `recvmsg(2)`.
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { message::note_passed(real::recvmsg(fd, message, flags), message) };
        }
        // SAFETY: the program's structure.
        answer_len(|| unsafe { message::receive(fd, message, flags) })
    }

    /// `recvmmsg(2)`.
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: the program's arguments are passed on unchanged.
            let got = unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
            for done in 0..got.max(0) as usize {
                // SAFETY: so many messages were received.
                unsafe { message::note_passed(0, &raw mut (*messages.wrapping_add(done)).msg_hdr) };
            }
            return got;
        }
        // SAFETY: the program's structures.
        answer(|| unsafe { message::receive_many(fd, messages, count, flags, timeout) }.map(|n| n as c_int))
    }

    /// `write(2)`.
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { if TABLE.get(fd).is_socket() { send_one(fd, buffer, len, 0, NOBODY) } else { real::write(fd, buffer, len) } }
    }

    /// `writev(2)`.
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { if TABLE.get(fd).is_socket() { send_vector(fd, iov, count, 0) } else { real::writev(fd, iov, count) } }
    }

    /// `pwritev2(2)`: with offset -1 it is `writev`.
    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe {
            if offset == -1 && TABLE.get(fd).is_socket() { send_vector(fd, iov, count, flags) } else { real::pwritev2(fd, iov, count, offset, flags) }
        }
    }

    /// `pwritev2(2)` under its other name.
    fn pwritev64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { pwritev2(fd, iov, count, offset, flags) }
    }

    /// `send(2)`.
    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { if TABLE.get(fd).is_socket() { send_one(fd, buffer, len, flags, NOBODY) } else { real::send(fd, buffer, len, flags) } }
    }

    /// `sendto(2)`.
    fn sendto(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, alen: socklen_t) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe {
            if TABLE.get(fd).is_socket() {
                send_one(fd, buffer, len, flags, (address, alen))
            } else {
                real::sendto(fd, buffer, len, flags, address, alen)
            }
        }
    }

    /// `sendmsg(2)`.
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: the program's structure.
            if let Err(error) = unsafe { message::before_passing(fd, message) } {
                return answer_len(|| Err(error));
            }
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::sendmsg(fd, message, flags) };
        }
        // SAFETY: the program's structure.
        answer_len(|| unsafe { message::send(fd, message, flags) })
    }

    /// `sendmmsg(2)`.
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        if !TABLE.get(fd).is_socket() {
            for i in 0..(count as usize).min(crate::sys::iov::MAX_BUFFERS) {
                // SAFETY: the program's array has `count` entries.
                match unsafe { message::before_passing(fd, &raw const (*messages.wrapping_add(i)).msg_hdr) } {
                    Ok(()) => {}
                    Err(error) if i == 0 => return answer(|| Err(error)),
                    // As many as can be sent.
                    // SAFETY: the program's arguments, except for the number.
                    Err(_) => return unsafe { real::sendmmsg(fd, messages, i as c_uint, flags) },
                }
            }
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::sendmmsg(fd, messages, count, flags) };
        }
        // SAFETY: the program's structures.
        answer(|| unsafe { message::send_many(fd, messages, count, flags) }.map(|n| n as c_int))
    }
}

/// The check of the fortified forms: that the buffer is not longer than the object it is in.
fn fortify(len: size_t, room: size_t) {
    if len > room {
        sys::say("buffer overflow detected by a fortified receive call; the program is stopped");
        std::process::abort();
    }
}
