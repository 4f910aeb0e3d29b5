//! The program's messages (`msghdr`) as a checked view, and calls that move them, one or many at a
//! time.

use super::signal;
use crate::socket::{ops, rights};
use crate::sys::errno::{self, Errno, Result};
use crate::sys::guarded;
use crate::sys::iov::{Buffers, MAX_BUFFERS};
use crate::sys::name;
use crate::sys::{self, ControlBuffer, Extras};
use crate::table::fd::{Entry, TABLE};
use core::ffi::{c_int, c_uint};
use libc::{mmsghdr, msghdr, timespec};
use tickwire_stack::time::Span;

/// A message of the program's.
struct Message<'a> {
    header: &'a mut msghdr,
}

impl<'a> Message<'a> {
    /// The message at an address.
    ///
    /// # Errors
    /// `EFAULT` if it is not accessible, or cannot be written although `written` is set; `EMSGSIZE`
    /// if it has more buffers than a call may have.
    ///
    /// # Safety
    /// It points to a message, if it is accessible at all, that stays for `'a`. What that points to
    /// is the program's to give.
    unsafe fn at(header: *mut msghdr, written: bool) -> Result<Self> {
        // SAFETY: by the caller's promise.
        let there = unsafe { if written { guarded::can_write(header, 1) } else { guarded::can_read(header, 1) } };
        // SAFETY: by the caller's promise, and the check of it.
        let header = unsafe { header.as_mut() }.filter(|_| there).ok_or(guarded::FAULT)?;
        if header.msg_iovlen > MAX_BUFFERS {
            return Err(Errno(libc::EMSGSIZE));
        }
        Ok(Self { header })
    }

    fn buffers(&self) -> Result<Buffers<'a>> {
        // SAFETY: the program's list, by the promise of `at`.
        unsafe { Buffers::new(self.header.msg_iov, self.header.msg_iovlen) }
    }

    fn control(&self) -> ControlBuffer<'a> {
        // SAFETY: the program's control messages, or its buffer for them, by the promise of `at`.
        unsafe { ControlBuffer::new(self.header.msg_control, self.header.msg_controllen) }
    }

    fn receive(&mut self, fd: c_int, flags: c_int) -> Result<usize> {
        if !self.header.msg_name.is_null() && name::is_negative(self.header.msg_namelen) {
            return Err(Errno(libc::EINVAL));
        }
        let mut buffers = self.buffers()?;
        let mut extras = Extras { control: Some(self.control()), ..Extras::default() };
        let len = ops::receive(fd, &mut buffers, flags, &mut extras)?;
        let header = &mut *self.header;
        if header.msg_name.is_null() || extras.name_len == 0 {
            header.msg_namelen = 0;
        } else {
            let room = &raw mut header.msg_namelen;
            // SAFETY: the program's buffer for the name, by the promise of `at`.
            unsafe { name::store(&extras.name[..extras.name_len], header.msg_name.cast(), room) }?;
        }
        header.msg_controllen = extras.control.map_or(0, |c| c.len()) as _;
        header.msg_flags = extras.flags | flags & libc::MSG_CMSG_CLOEXEC;
        Ok(len)
    }

    fn send(&self, fd: c_int, flags: c_int) -> Result<usize> {
        let mut extras = Extras { control: Some(self.control()), ..Extras::default() };
        let (name, len) = (self.header.msg_name.cast(), self.header.msg_namelen);
        // As in Linux (`__copy_msghdr`) a name of zero length is none, and one that is too long is
        // cut.
        let len = if name::is_negative(len) { len } else { len.min(name::LONGEST) };
        // SAFETY: the program's name, by the promise of `at`.
        let to = if len == 0 { None } else { unsafe { extras.name_to_send(name, len) }? };
        let mut buffers = self.buffers()?;
        self.control_is_there()?;
        ops::send(fd, &mut buffers, flags, to, &mut extras)
    }

    /// # Errors
    /// `ENOBUFS` if there is more control data than a call may have; `EFAULT` if it is not
    /// accessible.
    fn control_is_there(&self) -> Result<()> {
        let (start, len) = (self.header.msg_control, self.header.msg_controllen);
        match len {
            0 => Ok(()),
            _ if len > i32::MAX as usize => Err(Errno(libc::ENOBUFS)),
            _ if start.is_null() || !self.control().is_there() => Err(guarded::FAULT),
            _ => Ok(()),
        }
    }
}

/// Receives one message.
pub(super) unsafe fn receive(fd: c_int, message: *mut msghdr, flags: c_int) -> Result<usize> {
    // SAFETY: the program's message.
    unsafe { Message::at(message, true) }?.receive(fd, flags)
}

/// Sends one message.
pub(super) unsafe fn send(fd: c_int, message: *const msghdr, flags: c_int) -> Result<usize> {
    // SAFETY: the program's message, which is only read.
    unsafe { Message::at(message.cast_mut(), false) }?.send(fd, flags)
}

/// Before a message goes to a socket that is not ours: sockets of ours may be passed with it. (On a
/// descriptor of the lane the message goes to the service.)
pub(super) unsafe fn before_passing(fd: c_int, message: *const msghdr) -> Result<()> {
    if !signal::guards() {
        return Ok(()); // there was never a lane, so there is nothing to pass
    }
    // SAFETY: the program's message, which is only read. The kernel refuses an invalid one.
    let Ok(message) = (unsafe { Message::at(message.cast_mut(), false) }) else { return Ok(()) };
    if message.header.msg_controllen == 0 || TABLE.get(fd) == Entry::Lane {
        return Ok(());
    }
    super::caught(|| rights::before_passing(&message.control().passed()))
}

/// After a message was received from a socket that is not ours (`got` is the kernel's result):
/// sockets may have been passed with it.
pub(super) unsafe fn note_passed(got: isize, message: *mut msghdr) -> isize {
    if got < 0 {
        return got;
    }
    // SAFETY: the program's message, which is only read.
    let Ok(message) = (unsafe { Message::at(message, false) }) else { return got };
    if message.header.msg_controllen == 0 {
        return got;
    }
    let passed = message.control().passed();
    if !passed.is_empty() {
        let kept = errno::get();
        let _ = super::caught(|| {
            rights::have_come(&passed);
            Ok(())
        });
        errno::set(kept);
    }
    got
}

/// Receives many messages. As in Linux the time is checked only after each message, and the
/// remaining time is written back; an error after the first message is kept for the next call.
pub(super) unsafe fn receive_many(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Result<usize> {
    // SAFETY: any bytes are such a structure.
    let limit = unsafe { guarded::load_any(timeout) }?.as_ref().map(span_of).transpose()?;
    let begin = sys::now();
    let one_only = flags & libc::MSG_WAITFORONE != 0;
    let mut flags = flags & !libc::MSG_WAITFORONE;
    for done in 0..count as usize {
        let entry = messages.wrapping_add(done);
        // SAFETY: the program's message, which is checked before it is used, and its location for a
        // length.
        let received = unsafe {
            receive(fd, &raw mut (*entry).msg_hdr, flags)
                .and_then(|len| guarded::store(len as c_uint, &raw mut (*entry).msg_len))
        };
        match received {
            Ok(()) => {}
            Err(error) if done == 0 => return Err(error),
            Err(error) => {
                ops::keep_error(fd, error);
                return Ok(done);
            }
        }
        if one_only {
            flags |= libc::MSG_DONTWAIT;
        }
        let left = limit.map(|limit| limit - sys::now().since(begin));
        if let Some(left) = left {
            let (seconds, rest) = (left.as_nanos() / 1_000_000_000, left.as_nanos() % 1_000_000_000);
            // As in Linux, a failure to write it back does not fail the call.
            // SAFETY: the program's structure.
            let _ = unsafe { guarded::store(timespec { tv_sec: seconds as _, tv_nsec: rest as _ }, timeout) };
        }
        // SAFETY: any bytes are a number.
        let told = unsafe { guarded::load(&raw const (*entry).msg_hdr.msg_flags) }.unwrap_or_default();
        // Urgent data is returned at once.
        if left.is_some_and(Span::is_zero) || told & libc::MSG_OOB != 0 {
            return Ok(done + 1);
        }
    }
    Ok(count as usize)
}

/// Sends many messages. An error after the first message is lost, as in Linux.
pub(super) unsafe fn send_many(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> Result<usize> {
    let count = (count as usize).min(MAX_BUFFERS);
    for done in 0..count {
        let entry = messages.wrapping_add(done);
        // SAFETY: the program's message, which is checked before it is used, and its location for a
        // length.
        let sent = unsafe {
            send(fd, &raw const (*entry).msg_hdr, flags)
                .and_then(|len| guarded::store(len as c_uint, &raw mut (*entry).msg_len))
        };
        match sent {
            Ok(()) => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        }
    }
    Ok(count)
}

/// A time of the program as a span; `EINVAL` if it is invalid.
pub(super) fn span_of(time: &timespec) -> Result<Span> {
    match (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec)) {
        (Ok(s), Ok(ns)) if ns < 1_000_000_000 => {
            Ok(Span::from_nanos(s.saturating_mul(1_000_000_000).saturating_add(ns)))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}
