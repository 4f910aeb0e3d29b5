//! `splice(2)` between a pipe and a connection of ours. The kernel would move pages; here the bytes
//! pass through a pipe of our own, whose size bounds what one call moves. Bytes that the other side
//! does not take stay where they were: in the connection's queue, or in the program's pipe.
//!
//! Both directions peek first and consume afterwards, so threads that read from the same end at the
//! same time may see bytes twice. No lock is held while a call waits, because a signal handler may
//! jump out of it.

use super::{answer_len, export};
use crate::lane::{self, Access};
use crate::socket::ops;
use crate::sys::errno::{Errno, Result};
use crate::sys::iov::{Buffers, one};
use crate::sys::real;
use crate::sys::{self, Extras};
use crate::table::fd::{Entry, TABLE};
use crate::wait::{self, AGAIN, WaitPlan};
use core::ffi::{c_int, c_uint};
use libc::{pollfd, size_t, ssize_t};
use tickwire_stack::time::Span;

/// The most bytes that one call moves: what a pipe holds by default.
const PIECE: usize = 64 << 10;

/// A pipe of our own that never blocks.
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

/// Whether a descriptor is a pipe, or a FIFO.
pub(super) fn is_pipe(fd: c_int) -> bool {
    sys::status(fd).is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Receives into memory of ours.
fn receive(socket: c_int, into: &mut [u8], flags: c_int) -> Result<usize> {
    let iov = one(into.as_ptr().cast(), into.len());
    // SAFETY: the slice stays alive.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
    ops::receive(socket, &mut buffers, flags, &mut Extras::default())
}

/// Waits until the program's pipe is ready for `POLLIN` or `POLLOUT`, or its other end is closed.
fn until_ready(pipe: c_int, events: i16) -> Result<()> {
    let wanted = pollfd { fd: pipe, events, revents: 0 };
    let by_kernel = |timeout| match sys::ppoll(&mut [wanted], timeout, None) {
        Err(Errno(libc::EINTR)) if sys::handlers_restart() => Err(AGAIN),
        Ok(0) => Err(AGAIN),
        done => done.map(drop),
    };
    let waited = match lane::current() {
        Some(lane) => {
            let mut fds = wait::and(wanted);
            let mut plan = WaitPlan::new(&[], &mut fds, None);
            wait::wait(lane, &mut plan, |_: &mut Access<'_>, _| by_kernel(Some(Span::ZERO)))
        }
        None => by_kernel(None),
    };
    // A handler that lets the call continue, or the end of the lane: the caller checks again.
    if matches!(waited, Err(AGAIN | Errno(libc::ENETDOWN))) { Ok(()) } else { waited }
}

/// From a connection into a pipe. The socket's mode decides whether it waits for data; the flags
/// and the pipe's mode decide whether it waits for room in the pipe, as in Linux.
pub(super) fn from_socket(socket: c_int, pipe: c_int, len: usize, flags: c_uint) -> Result<usize> {
    let waits = flags & libc::SPLICE_F_NONBLOCK == 0 && sys::fcntl(pipe, libc::F_GETFL, 0)? & libc::O_NONBLOCK == 0;
    loop {
        if receive(socket, &mut [0], libc::MSG_PEEK)? == 0 {
            return Ok(0);
        }
        match from_queue(socket, pipe, len, flags | libc::SPLICE_F_NONBLOCK) {
            Err(AGAIN) if waits => until_ready(pipe, libc::POLLOUT)?,
            done => return done,
        }
    }
}

/// Moves what a connection has queued, as far as the pipe has room.
fn from_queue(socket: c_int, pipe: c_int, len: usize, flags: c_uint) -> Result<usize> {
    let mut piece = vec![0u8; len.min(PIECE)];
    let seen = receive(socket, &mut piece, libc::MSG_PEEK | libc::MSG_DONTWAIT)?;
    if seen == 0 {
        return Ok(0);
    }
    let own = Pipe::new()?;
    let (nowhere, data) = (core::ptr::null_mut::<i64>(), piece.as_ptr());
    // SAFETY: as many bytes are there; the others are plain numbers.
    let taken = unsafe {
        let held = sys::called(libc::syscall(libc::SYS_write, own.write, data, seen))?;
        sys::called(libc::syscall(libc::SYS_splice, own.read, nowhere, pipe, nowhere, held, flags))?
    };
    let mut left = taken;
    while left > 0 {
        match receive(socket, &mut piece[..left], libc::MSG_TRUNC | libc::MSG_DONTWAIT) {
            Ok(n) if n > 0 => left -= n,
            // Another thread has read the bytes that were peeked.
            _ => break,
        }
    }
    Ok(taken)
}

/// From a pipe into a connection. The flags decide whether it waits for the pipe.
fn to_socket(pipe: c_int, socket: c_int, len: usize, flags: c_uint) -> Result<usize> {
    loop {
        match glimpse(pipe, len) {
            Err(AGAIN) if flags & libc::SPLICE_F_NONBLOCK == 0 => until_ready(pipe, libc::POLLIN)?,
            Ok((_, seen)) if seen.is_empty() => return Ok(0),
            Ok((own, seen)) => return from_glimpse(pipe, &own, seen, socket, flags),
            Err(error) => return Err(error),
        }
    }
}

/// The content of a pipe, which stays there, and a pipe of our own with as much room.
fn glimpse(pipe: c_int, len: usize) -> Result<(Pipe, Vec<u8>)> {
    let own = Pipe::new()?;
    let mut piece = vec![0u8; len.min(PIECE)];
    // SAFETY: plain numbers, and room for as many bytes as are asked for.
    let seen = unsafe {
        match sys::called(libc::syscall(libc::SYS_tee, pipe, own.write, piece.len(), libc::SPLICE_F_NONBLOCK))? {
            0 => 0,
            copied => sys::called(libc::syscall(libc::SYS_read, own.read, piece.as_mut_ptr(), copied))?,
        }
    };
    piece.truncate(seen);
    Ok((own, piece))
}

/// Sends what was seen in a pipe, and removes from the pipe what was sent.
fn from_glimpse(pipe: c_int, own: &Pipe, seen: Vec<u8>, socket: c_int, flags: c_uint) -> Result<usize> {
    let mut how = if flags & libc::SPLICE_F_MORE != 0 { libc::MSG_MORE } else { 0 };
    if flags & libc::SPLICE_F_NONBLOCK != 0 {
        how |= libc::MSG_DONTWAIT;
    }
    let iov = one(seen.as_ptr().cast(), seen.len());
    // SAFETY: the bytes stay alive.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
    let sent = ops::send(socket, &mut buffers, how, None, &mut Extras::default())?;
    let nowhere = core::ptr::null_mut::<i64>();
    let mut left = sent;
    while left > 0 {
        // Into our own pipe, which has room, and without blocking: another thread may have read it.
        // SAFETY: plain numbers.
        let taken = unsafe {
            libc::syscall(libc::SYS_splice, pipe, nowhere, own.write, nowhere, left, libc::SPLICE_F_NONBLOCK)
        };
        match sys::called(taken) {
            Ok(n) if n > 0 => left -= n,
            _ => break,
        }
    }
    Ok(sent)
}

/// One end of the transfer.
struct End {
    fd: c_int,
    is_pipe: bool,
    /// The program has given an offset; neither a pipe nor a socket has one.
    offset: bool,
}

impl End {
    fn new(fd: c_int, offset: *const i64) -> Self {
        Self { fd, is_pipe: is_pipe(fd), offset: !offset.is_null() }
    }

    fn is_stream(&self) -> bool {
        matches!(TABLE.get(self.fd), Entry::Tcp(_) | Entry::Dead(_))
    }

    /// Its access mode: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
    fn access(&self) -> Result<c_int> {
        Ok(sys::fcntl(self.fd, libc::F_GETFL, 0)? & libc::O_ACCMODE)
    }
}

/// Moves bytes where one end is a socket of ours: the other must be a pipe, and the socket a
/// stream. Errors have the kernel's order (`__do_splice`, `do_splice`).
fn between(from: &End, to: &End, len: usize, flags: c_uint) -> Result<usize> {
    const ALL: c_uint = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;
    if len == 0 {
        return Ok(0);
    }
    if flags & !ALL != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if [from, to].iter().any(|end| end.is_pipe && end.offset) {
        return Err(Errno(libc::ESPIPE));
    }
    if from.access()? == libc::O_WRONLY || to.access()? == libc::O_RDONLY {
        return Err(Errno(libc::EBADF));
    }
    match (from.is_pipe, to.is_pipe) {
        _ if from.offset || to.offset => Err(Errno(libc::EINVAL)),
        (false, true) if from.is_stream() => from_socket(from.fd, to.fd, len, flags),
        (true, false) if to.is_stream() => to_socket(from.fd, to.fd, len, flags),
        _ => Err(Errno(libc::EINVAL)),
    }
}

export! {
    /// `splice(2)`.
    fn splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t {
        if !TABLE.get(from).is_socket() && !TABLE.get(to).is_socket() {
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::splice(from, from_offset, to, to_offset, len, flags) };
        }
        answer_len(|| between(&End::new(from, from_offset), &End::new(to, to_offset), len, flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn what_another_thread_has_taken_out_of_the_pipe_is_not_waited_for() {
        let fd = testing::connected(7);
        let (mut from, mut to) = std::io::pipe().unwrap();
        to.write_all(b"some").unwrap();
        let (own, seen) = glimpse(from.as_raw_fd(), 100).unwrap();
        assert_eq!(seen, b"some");
        from.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(from_glimpse(from.as_raw_fd(), &own, seen, fd, 0), Ok(4));
        assert_eq!(testing::receive(fd, 4, libc::MSG_WAITALL), Ok(b"some".to_vec()));
        testing::close(fd);
    }
}
