//! Exports about descriptors: close, dup, fcntl, ioctl.

use super::{answer, export, real, sys};
use crate::base::errno::{self, Errno};
use crate::socket::close;
use crate::socket::descriptor;
use crate::socket::open;
use crate::table::fd::{Entry, LIMIT, TABLE};
use crate::table::protect;
use core::ffi::{c_int, c_uint, c_ulong};

/// Closes what is ours before the kernel closes the number.
fn let_go(fd: c_int) {
    if TABLE.get(fd) != Entry::Foreign {
        let before = errno::get();
        let _ = super::caught(|| {
            close::closing(fd);
            Ok(())
        });
        errno::set(before);
    }
}

/// `dup2` and `dup3`.
fn duplicate_to(from: c_int, to: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if TABLE.get(to) == Entry::Lane {
        // The number is in use by the lane, and cannot be given away while threads use it.
        return answer(|| Err(Errno(libc::EBUSY)));
    }
    if from != to && TABLE.get(to) != Entry::Foreign && sys::fcntl(from, libc::F_GETFD, 0).is_ok() {
        let_go(to);
    }
    if TABLE.get(from).is_socket() {
        super::stdio::before_stand_in(to);
    }
    let new = call();
    if new >= 0 && from != to {
        open::duplicated(from, new);
    }
    new
}

fn control(fd: c_int, command: c_int, argument: usize, call: unsafe fn(c_int, c_int, usize) -> c_int) -> c_int {
    let entry = TABLE.get(fd);
    let duplicates = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
    let unlisted = matches!(entry, Entry::Unlisted(_)) && !duplicates;
    if unlisted || matches!(entry, Entry::Foreign | Entry::Lane | Entry::Kernel(_)) {
        // SAFETY: the program's arguments go on unchanged.
        return unsafe { call(fd, command, argument) };
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            // SAFETY: plain numbers.
            let new = unsafe { call(fd, command, argument) };
            if new >= 0 {
                open::duplicated(fd, new);
            }
            new
        }
        libc::F_SETFL => answer(|| descriptor::set_flags(fd, argument as c_int).map(|()| 0)),
        libc::F_GETFL => answer(|| descriptor::flags(fd)),
        // SAFETY: the program's arguments go on unchanged.
        _ => unsafe { call(fd, command, argument) },
    }
}

export! {
    /// `close(2)`.
    fn close(fd: c_int) -> c_int {
        match TABLE.get(fd) {
            Entry::Foreign => {}
            Entry::Lane => return answer(|| Err(Errno(libc::EBADF))),
            _ => let_go(fd),
        }
        // SAFETY: a plain number.
        unsafe { real::close(fd) }
    }

    /// `close_range(2)`: the lane's own descriptors are spared.
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        const CLOEXEC: c_int = 4;
        if first > last {
            return answer(|| Err(Errno(libc::EINVAL)));
        }
        let ours = || TABLE.each().filter(|(fd, _)| (first..=last).contains(&(*fd as c_uint)));
        if flags & CLOEXEC == 0 {
            ours().filter(|&(_, entry)| entry != Entry::Lane).for_each(|(fd, _)| let_go(fd));
        }
        // Until all is closed, or one that is being moved would not be spared.
        let _still = protect::still();
        let (mut at, mut spared) = (first, false);
        for (fd, _) in ours().filter(|&(_, entry)| entry == Entry::Lane) {
            if fd as c_uint > at {
                // SAFETY: plain numbers.
                let done = unsafe { real::close_range(at, fd as c_uint - 1, flags) };
                if done < 0 {
                    return done;
                }
            }
            at = fd as c_uint + 1;
            spared = true;
        }
        if spared && at > last {
            return 0;
        }
        // SAFETY: plain numbers.
        unsafe { real::close_range(at, last, flags) }
    }

    /// `closefrom(3)`.
    fn closefrom(first: c_int) -> () {
        // SAFETY: plain numbers.
        unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
    }

    /// `dup(2)`.
    fn dup(fd: c_int) -> c_int {
        // SAFETY: a plain number.
        let new = unsafe { real::dup(fd) };
        if new >= 0 && TABLE.get(fd) != Entry::Foreign {
            open::duplicated(fd, new);
        }
        new
    }

    /// `dup2(2)`.
    fn dup2(from: c_int, to: c_int) -> c_int {
        // SAFETY: plain numbers.
        duplicate_to(from, to, || unsafe { real::dup2(from, to) })
    }

    /// `dup3(2)`.
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        // SAFETY: plain numbers.
        duplicate_to(from, to, || unsafe { real::dup3(from, to, flags) })
    }

    /// `fcntl(2)`. Its third argument, if there is one, is a number or a pointer: one register in both calling conventions.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument, real::fcntl)
    }

    /// `fcntl(2)` under its other name.
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument, real::fcntl64)
    }

    /// `ioctl(2)`.
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        let place = argument as *mut c_int;
        match (TABLE.get(fd), request) {
            (Entry::Udp(_) | Entry::Tcp(_), libc::FIONBIO) if !place.is_null() => {
                // SAFETY: the program's number.
                answer(|| descriptor::set_nonblocking(fd, unsafe { *place } != 0).map(|()| 0))
            }
            (Entry::Udp(_) | Entry::Tcp(_), libc::FIONREAD | libc::TIOCOUTQ | SIOCATMARK) if !place.is_null() => {
                answer(|| match descriptor::figure(fd, request)? {
                    Some(figure) => {
                        // SAFETY: the program's place for a number.
                        unsafe { *place = figure };
                        Ok(0)
                    }
                    // SAFETY: the program's arguments go on unchanged.
                    None => match unsafe { real::ioctl(fd, request, argument) } {
                        done if done < 0 => Err(Errno::last()),
                        done => Ok(done),
                    },
                })
            }
            // SAFETY: the program's arguments go on unchanged.
            _ => unsafe { real::ioctl(fd, request, argument) },
        }
    }
}

const SIOCATMARK: c_ulong = descriptor::SIOCATMARK;
const _: () = assert!(LIMIT <= c_int::MAX as usize);
