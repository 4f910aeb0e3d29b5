//! `sendfile(2)` to a connection or UDP socket of ours, and from a connection to a pipe.

use super::{answer_len, export, splice};
use crate::socket::ops;
use crate::sys::errno::{Errno, Result};
use crate::sys::iov::{Buffers, one};
use crate::sys::{self, Extras};
use crate::sys::{guarded, real};
use crate::table::fd::{Entry, TABLE};
use core::ffi::c_int;
use libc::{off_t, size_t, ssize_t};

/// The most bytes that are read at a time.
const PIECE: usize = 64 << 10;

export! {
    /// `sendfile(2)`: the file is read piece by piece and sent.
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, len: size_t) -> ssize_t {
        if TABLE.get(out).is_socket() {
            return answer_len(|| {
                // SAFETY: any bytes are a number.
                let mut at = unsafe { guarded::load_any(offset) }?;
                let sent = send_file(out, input, at.as_mut(), len);
                if let Some(at) = at {
                    // SAFETY: the program's place.
                    unsafe { guarded::store(at, offset) }?;
                }
                sent
            });
        }
        if offset.is_null() && matches!(TABLE.get(input), Entry::Tcp(_)) && splice::is_pipe(out) {
            return answer_len(|| splice::from_socket(input, out, len, 0));
        }
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { real::sendfile(out, input, offset, len) }
    }

    /// `sendfile(2)` under its other name.
    fn sendfile64(out: c_int, input: c_int, offset: *mut off_t, len: size_t) -> ssize_t {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { sendfile(out, input, offset, len) }
    }
}

/// Sends from a file until `len` bytes, its end, or a full socket. Only the bytes sent count as
/// read.
fn send_file(out: c_int, input: c_int, mut offset: Option<&mut off_t>, len: size_t) -> Result<usize> {
    // Without an offset the file's own position moves by the bytes sent, so that nothing is lost
    // when the socket is full.
    let start = match &offset {
        Some(at) => **at,
        // SAFETY: plain numbers.
        None => unsafe { libc::lseek(input, 0, libc::SEEK_CUR) },
    };
    if !is_plain(input) {
        may_be_sent_from(input, offset.is_some().then_some(start))?;
    }
    if start < 0 || isize::try_from(len).is_err() {
        return Err(Errno(libc::EINVAL));
    }
    let mut piece = vec![0u8; PIECE.min(len.max(1))];
    let mut sent = 0;
    let mut outcome = Ok(());
    while sent < len && outcome.is_ok() {
        let want = PIECE.min(len - sent);
        // SAFETY: `piece` has room for `want`.
        let got = unsafe { real::pread(input, piece.as_mut_ptr().cast(), want, start + sent as off_t) };
        let Ok(got) = usize::try_from(got) else {
            outcome = Err(Errno::last());
            break;
        };
        if got == 0 {
            break;
        }
        let mut done = 0;
        while done < got {
            let iov = one(piece[done..got].as_ptr().cast(), got - done);
            // SAFETY: the piece is ours and stays alive.
            let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
            match ops::send(out, &mut buffers, libc::MSG_NOSIGNAL, None, &mut Extras::default()) {
                Ok(n) => done += n,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        sent += done;
    }
    match &mut offset {
        Some(at) => **at = start + sent as off_t,
        // SAFETY: plain numbers.
        None => drop(unsafe { libc::lseek(input, start + sent as off_t, libc::SEEK_SET) }),
    }
    match outcome {
        Err(error) if sent == 0 => {
            if error == Errno(libc::EPIPE) {
                sys::raise_pipe();
            }
            Err(error)
        }
        _ => Ok(sent),
    }
}

/// Whether a descriptor is a file with bytes. (Files of `/proc` have none.)
fn is_plain(fd: c_int) -> bool {
    sys::status(fd).is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_size > 0)
}

/// The kernel's result of a `sendfile` from there: it takes a byte, at `offset` or at the file's
/// position, which does not change.
fn may_be_sent_from(input: c_int, offset: Option<off_t>) -> Result<()> {
    let mut ends: [c_int; 2] = [-1; 2];
    // SAFETY: room for two numbers.
    if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) } < 0 {
        return Err(Errno::last());
    }
    // SAFETY: plain numbers.
    let position = unsafe { libc::lseek(input, 0, libc::SEEK_CUR) };
    let mut at = offset.unwrap_or(position);
    let place = if offset.is_some() || position >= 0 { &raw mut at } else { core::ptr::null_mut() };
    // SAFETY: our own number, or none; a file without a position loses nothing.
    let sent = unsafe { real::sendfile(ends[0], input, place, 1) };
    let told = if sent < 0 { Err(Errno::last()) } else { Ok(()) };
    ends.into_iter().for_each(sys::close);
    told
}
