//! `splice(2)` between a pipe and a connection of ours. The kernel would move pages; here the bytes pass through a pipe of our own, whose
//! size bounds what one call moves. What the other side does not take stays where it was: in the connection's queue, or in the program's pipe.
//!
//! Both is done by looking first and taking afterwards, so threads that read from the same end at the same time may see bytes twice.

use super::iov::{Buffers, one};
use super::sys::{self, Extras};
use super::{answer_len, export, real};
use crate::errno::{Errno, Result};
use crate::fd::{Entry, TABLE};
use crate::ops;
use core::ffi::{c_int, c_uint};
use core::mem::MaybeUninit;
use libc::{size_t, ssize_t};

/// The most that one call moves: what a pipe holds by default.
const PIECE: usize = 64 << 10;

/// A pipe of our own that never waits.
struct Pipe {
    read: c_int,
    write: c_int,
}

impl Pipe {
    fn new() -> Result<Self> {
        let mut ends: [c_int; 2] = [-1; 2];
        // SAFETY: room for two numbers.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } < 0 {
            return Err(Errno::last());
        }
        Ok(Self { read: ends[0], write: ends[1] })
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        sys::close(self.read);
        sys::close(self.write);
    }
}

/// The answer of a direct system call: the C library's own are points at which a thread is cancelled.
fn moved(answer: libc::c_long) -> Result<usize> {
    usize::try_from(answer).map_err(|_| Errno::last())
}

fn is_pipe(fd: c_int) -> bool {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a valid place, read only if it was filled in.
    unsafe { libc::fstat(fd, stat.as_mut_ptr()) == 0 && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFIFO }
}

/// Receives into memory of ours.
fn receive(socket: c_int, into: &mut [u8], flags: c_int) -> Result<usize> {
    let iov = one(into.as_ptr().cast(), into.len());
    // SAFETY: the slice lives on.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
    ops::receive(socket, &mut buffers, flags, &mut Extras::default())
}

/// From a connection into a pipe. Whether it waits for data is the socket's own business, whether for room in the pipe the flags', as in Linux.
fn from_socket(socket: c_int, pipe: c_int, len: usize, flags: c_uint) -> Result<usize> {
    let mut piece = vec![0u8; len.min(PIECE)];
    let seen = receive(socket, &mut piece, libc::MSG_PEEK)?;
    if seen == 0 {
        return Ok(0);
    }
    let own = Pipe::new()?;
    let (nowhere, data) = (core::ptr::null_mut::<i64>(), piece.as_ptr());
    // SAFETY: as many bytes are there; the others are plain numbers.
    let taken = unsafe {
        let held = moved(libc::syscall(libc::SYS_write, own.write, data, seen))?;
        moved(libc::syscall(libc::SYS_splice, own.read, nowhere, pipe, nowhere, held, flags))?
    };
    let mut left = taken;
    while left > 0 {
        match receive(socket, &mut piece[..left], libc::MSG_TRUNC | libc::MSG_DONTWAIT) {
            Ok(n) if n > 0 => left -= n,
            // Another thread has read what we have seen.
            _ => break,
        }
    }
    Ok(taken)
}

/// From a pipe into a connection.
fn to_socket(pipe: c_int, socket: c_int, len: usize, flags: c_uint) -> Result<usize> {
    let own = Pipe::new()?;
    let mut piece = vec![0u8; len.min(PIECE)];
    let data = piece.as_mut_ptr();
    // SAFETY: plain numbers, and room for as many bytes as are asked for.
    let seen = unsafe {
        let copied =
            moved(libc::syscall(libc::SYS_tee, pipe, own.write, piece.len(), flags & libc::SPLICE_F_NONBLOCK))?;
        if copied == 0 {
            return Ok(0);
        }
        moved(libc::syscall(libc::SYS_read, own.read, data, copied))?
    };
    let mut how = if flags & libc::SPLICE_F_MORE != 0 { libc::MSG_MORE } else { 0 };
    if flags & libc::SPLICE_F_NONBLOCK != 0 {
        how |= libc::MSG_DONTWAIT;
    }
    let iov = one(data.cast(), seen);
    // SAFETY: the piece lives on.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
    let sent = ops::send(socket, &mut buffers, how, None, &mut Extras::default())?;
    let mut left = sent;
    while left > 0 {
        // SAFETY: room for as many bytes.
        match moved(unsafe { libc::syscall(libc::SYS_read, pipe, data, left) }) {
            Ok(n) if n > 0 => left -= n,
            Err(Errno(libc::EINTR)) => {}
            _ => break,
        }
    }
    Ok(sent)
}

/// Moves bytes where one end is a socket of ours: the other must be a pipe, and the socket a stream.
fn between(from: c_int, to: c_int, offsets: bool, len: usize, flags: c_uint) -> Result<usize> {
    let stream = |fd| matches!(TABLE.get(fd), Entry::Tcp(_) | Entry::Dead(_));
    match (stream(from) && is_pipe(to), is_pipe(from) && stream(to)) {
        (false, false) => Err(Errno(libc::EINVAL)),
        _ if offsets => Err(Errno(libc::ESPIPE)),
        _ if len == 0 => Ok(0),
        (true, _) => from_socket(from, to, len, flags),
        (_, true) => to_socket(from, to, len, flags),
    }
}

export! {
    /// `splice(2)`.
    fn splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t {
        if !TABLE.get(from).is_socket() && !TABLE.get(to).is_socket() {
            // SAFETY: the program's arguments go on unchanged.
            return unsafe { real::splice(from, from_offset, to, to_offset, len, flags) };
        }
        let offsets = !from_offset.is_null() || !to_offset.is_null();
        answer_len(|| between(from, to, offsets, len, flags))
    }
}
