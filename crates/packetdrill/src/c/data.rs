//! The calls that move data.

use super::memory::{MOST, gather, given, parts, put, room, scatter};
use super::{answer, last_error};
use crate::errno::Errno;
use crate::machine::Machine;
use core::ffi::{c_int, c_uint, c_void};
use libc::{iovec, loff_t, msghdr, sockaddr, socklen_t};

pub(super) unsafe extern "C" fn read(machine: *const Machine, fd: c_int, to: *mut c_void, len: usize) -> isize {
    // SAFETY: as `recv` without flags.
    unsafe { recv(machine, fd, to, len, 0) }
}

pub(super) unsafe extern "C" fn readv(machine: *const Machine, fd: c_int, iov: *const iovec, count: c_int) -> isize {
    answer(machine, |m| {
        // SAFETY: as `readv` promises.
        let parts = unsafe { parts(iov, usize::try_from(count).unwrap_or(usize::MAX)) }?;
        let got = m.receive(fd, room(parts), 0)?;
        // SAFETY: the same.
        unsafe { scatter(&got.bytes, parts) };
        Ok(got.len)
    })
}

pub(super) unsafe extern "C" fn recv(
    machine: *const Machine,
    fd: c_int,
    to: *mut c_void,
    len: usize,
    flags: c_int,
) -> isize {
    answer(machine, |m| {
        let got = m.receive(fd, len.min(MOST), flags)?;
        // SAFETY: as `recv` promises.
        unsafe { put(&got.bytes, to, len) };
        Ok(got.len)
    })
}

pub(super) unsafe extern "C" fn recvfrom(
    machine: *const Machine,
    fd: c_int,
    to: *mut c_void,
    len: usize,
    flags: c_int,
    _address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> isize {
    if !address_len.is_null() {
        // SAFETY: as `recvfrom` promises. A stream's message has no sender of its own.
        unsafe { *address_len = 0 };
    }
    // SAFETY: as `recvfrom` promises.
    unsafe { recv(machine, fd, to, len, flags) }
}

pub(super) unsafe extern "C" fn recvmsg(
    machine: *const Machine,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> isize {
    answer(machine, |m| {
        // SAFETY: as `recvmsg` promises.
        let message = unsafe { message.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        // SAFETY: the same.
        let parts = unsafe { parts(message.msg_iov, message.msg_iovlen) }?;
        let got = m.receive(fd, room(parts), flags)?;
        // SAFETY: the same.
        unsafe { scatter(&got.bytes, parts) };
        message.msg_namelen = 0;
        message.msg_flags = got.flags;
        let mut control = Vec::new();
        if let Some(left) = got.left {
            let words = [libc::IPPROTO_TCP, libc::TCP_INQ, left.min(i32::MAX as u32) as i32, 0];
            control.extend(20usize.to_ne_bytes()); // header and four bytes of data
            control.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }
        if message.msg_controllen < control.len() {
            message.msg_flags |= libc::MSG_CTRUNC;
            control.clear();
        }
        // SAFETY: the same; there is as much room as was looked at.
        unsafe { put(&control, message.msg_control, message.msg_controllen) };
        message.msg_controllen = control.len();
        Ok(got.len)
    })
}

pub(super) unsafe extern "C" fn write(machine: *const Machine, fd: c_int, from: *const c_void, len: usize) -> isize {
    // SAFETY: as `send` without flags.
    unsafe { send(machine, fd, from, len, 0) }
}

pub(super) unsafe extern "C" fn writev(machine: *const Machine, fd: c_int, iov: *const iovec, count: c_int) -> isize {
    answer(machine, |m| {
        // SAFETY: as `writev` promises.
        let bytes = unsafe { gather(parts(iov, usize::try_from(count).unwrap_or(usize::MAX))?) }?;
        m.send(fd, &bytes, 0, None)
    })
}

pub(super) unsafe extern "C" fn send(
    machine: *const Machine,
    fd: c_int,
    from: *const c_void,
    len: usize,
    flags: c_int,
) -> isize {
    // SAFETY: as `sendto` without an address.
    unsafe { sendto(machine, fd, from, len, flags, core::ptr::null(), 0) }
}

pub(super) unsafe extern "C" fn sendto(
    machine: *const Machine,
    fd: c_int,
    from: *const c_void,
    len: usize,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> isize {
    answer(machine, |m| {
        // SAFETY: as `sendto` promises.
        let bytes = unsafe { given(from, len.min(MOST)) }?;
        // SAFETY: the same.
        let address = unsafe { given(address.cast(), address_len as usize) }?;
        m.send(fd, bytes, flags, (!address.is_empty()).then_some(address))
    })
}

pub(super) unsafe extern "C" fn sendmsg(
    machine: *const Machine,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> isize {
    answer(machine, |m| {
        // SAFETY: as `sendmsg` promises.
        let message = unsafe { message.as_ref() }.ok_or(Errno(libc::EFAULT))?;
        // SAFETY: the same.
        let bytes = unsafe { gather(parts(message.msg_iov, message.msg_iovlen)?) }?;
        // SAFETY: the same.
        let address = unsafe { given(message.msg_name, message.msg_namelen as usize) }?;
        m.send(fd, &bytes, flags, (!address.is_empty()).then_some(address))
    })
}

/// Between one of the stack's sockets and a pipe; a pipe's content fits into a buffer.
pub(super) unsafe extern "C" fn splice(
    machine: *const Machine,
    from: c_int,
    from_at: *mut loff_t,
    to: c_int,
    to_at: *mut loff_t,
    len: usize,
    _flags: c_uint,
) -> isize {
    answer(machine, |m| {
        if !from_at.is_null() || !to_at.is_null() {
            return Err(Errno(libc::ESPIPE));
        }
        let len = len.min(65_536);
        if m.call(|state| state.table.get(from).is_ok()) {
            let got = m.receive(from, len, 0)?;
            // SAFETY: the buffer is as long as is said.
            let put = unsafe { libc::write(to, got.bytes.as_ptr().cast(), got.bytes.len()) };
            return if put == got.bytes.len() as isize { Ok(got.len) } else { Err(last_error()) };
        }
        let mut bytes = vec![0u8; len];
        // SAFETY: the buffer is as long as is said.
        let got = unsafe { libc::read(from, bytes.as_mut_ptr().cast(), len) };
        let got = usize::try_from(got).map_err(|_| last_error())?;
        m.send(to, &bytes[..got], 0, None)
    })
}
