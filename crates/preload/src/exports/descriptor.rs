//! Exports about descriptors: close, dup, fcntl, ioctl.

use super::{answer, export};
use crate::base::locked::SignalDeferral;
use crate::socket::close;
use crate::socket::descriptor;
use crate::socket::open;
use crate::sys;
use crate::sys::errno::{self, Errno};
use crate::sys::{guarded, real};
use crate::table::fd::{Entry, LIMIT, TABLE};
use crate::table::protect;
use core::ffi::{c_int, c_uint, c_ulong};
use tickwire_linux_abi::ioctl::SIOCATMARK;

/// Runs this library's part of a call. `errno` stays as it is.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = errno::get();
    let done = super::caught(|| Ok(work()));
    errno::set(before);
    done.ok()
}

/// Closes this library's side before the kernel closes the number.
fn let_go(fd: c_int) {
    if TABLE.get(fd) != Entry::Foreign {
        // As in `close_seen`.
        let _holding = SignalDeferral::new();
        quietly(|| close::closing(fd));
        // If another thread is closing it, that thread leaves the number alone then: it may be
        // reused by the time that close is done.
        close::closed(fd);
    }
}

/// `new` refers to what `from` refers to, or the call has failed.
fn duplicated(from: c_int, new: c_int) -> c_int {
    if new >= 0 {
        quietly(|| {
            open::duplicated(from, new);
            super::stdio::stand_in(new);
        });
    }
    new
}

/// `dup2` and `dup3`. As in the kernel, no thread finds `to` closed in between: it has the one
/// socket, or the other.
fn duplicate_to(from: c_int, to: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let [source, target] = [from, to].map(|fd| TABLE.get(fd));
    // The lane uses the number, and it cannot be given away while threads use it. Or another thread
    // is closing it.
    if matches!(target, Entry::Lane | Entry::CLOSING) {
        return answer(|| Err(Errno(libc::EBUSY)));
    }
    if from == to || source == Entry::CLOSING {
        return if from == to { call() } else { answer(|| Err(Errno(libc::EBADF))) };
    }
    if source.is_socket() {
        super::stdio::before_stand_in(to);
    }
    duplicated(from, call())
}

fn control(fd: c_int, command: c_int, argument: usize, call: unsafe fn(c_int, c_int, usize) -> c_int) -> c_int {
    let entry = TABLE.get(fd);
    if entry == Entry::CLOSING {
        return answer(|| Err(Errno(libc::EBADF)));
    }
    let duplicates = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
    let unlisted = matches!(entry, Entry::Unlisted(_)) && !duplicates;
    if unlisted || matches!(entry, Entry::Foreign | Entry::Lane | Entry::Kernel(_)) {
        // SAFETY: the program's arguments are passed on unchanged.
        return unsafe { call(fd, command, argument) };
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            // SAFETY: plain numbers.
            duplicated(fd, unsafe { call(fd, command, argument) })
        }
        libc::F_SETFL => answer(|| descriptor::set_flags(fd, argument as c_int).map(|()| 0)),
        libc::F_GETFL => answer(|| descriptor::flags(fd)),
        // SAFETY: the program's arguments are passed on unchanged.
        _ => unsafe { call(fd, command, argument) },
    }
}

/// `close` of a descriptor whose table entry was `seen` a moment ago.
fn close_seen(fd: c_int, seen: Entry) -> c_int {
    let theirs = || answer(|| Err(Errno(libc::EBADF)));
    // If a handler jumped away, the kernel's descriptor would stay open.
    let _holding = (seen != Entry::Foreign).then(SignalDeferral::new);
    // A descriptor that another thread is closing is not closed either: by the time that is done,
    // the number may be a third thread's.
    if matches!(seen, Entry::Lane | Entry::CLOSING) {
        return theirs();
    }
    if seen != Entry::Foreign {
        if quietly(|| close::closing(fd)) != Some(false) {
            if !close::closed(fd) {
                return 0;
            }
        } else if !matches!((seen, TABLE.get(fd)), (Entry::Epoll(_), Entry::Foreign)) {
            return theirs();
        }
        // An instance whose lane has ended meanwhile is only the kernel's, and no other thread
        // closes it.
    }
    // SAFETY: a plain number.
    unsafe { real::close(fd) }
}

export! {
    /// `close(2)`.
    fn close(fd: c_int) -> c_int {
        close_seen(fd, TABLE.get(fd))
    }

    /// `close_range(2)`: the lane's own descriptors are spared.
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        const UNSHARE: c_int = libc::CLOSE_RANGE_UNSHARE as c_int;
        const CLOEXEC: c_int = libc::CLOSE_RANGE_CLOEXEC as c_int;
        if first > last {
            return answer(|| Err(Errno(libc::EINVAL)));
        }
        // If the kernel refuses the call, nothing may have been closed: it is tried first on a
        // number that no descriptor has.
        // SAFETY: plain numbers.
        let allowed = unsafe { real::close_range(c_uint::MAX, c_uint::MAX, flags & !UNSHARE) };
        if allowed < 0 {
            return allowed;
        }
        let ours = || TABLE.each().filter(|(fd, _)| (first..=last).contains(&(*fd as c_uint)));
        if flags & CLOEXEC == 0 {
            ours().filter(|&(_, entry)| entry != Entry::Lane).for_each(|(fd, _)| let_go(fd));
        }
        // Held until everything is closed, or a descriptor that is being moved would not be spared.
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
        let first = first.max(0);
        // SAFETY: plain numbers.
        if unsafe { close_range(first as c_uint, c_uint::MAX, 0) } < 0 {
            // A filter of system calls may not allow it. One by one, as the C library does then.
            let open: Vec<_> = sys::open_descriptors().into_iter().flatten().filter(|&fd| fd >= first).collect();
            for fd in open {
                close_seen(fd, TABLE.get(fd));
            }
        }
    }

    /// `dup(2)`.
    fn dup(fd: c_int) -> c_int {
        if TABLE.get(fd) == Entry::CLOSING {
            return answer(|| Err(Errno(libc::EBADF)));
        }
        // SAFETY: a plain number.
        duplicated(fd, unsafe { real::dup(fd) })
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

    /// `fcntl(2)`. Its third argument, if there is one, is a number or a pointer: one register in
    /// both calling conventions.
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
            (Entry::CLOSING, _) => answer(|| Err(Errno(libc::EBADF))),
            (Entry::Udp(_) | Entry::Tcp(_), libc::FIONBIO) if !place.is_null() => {
                // SAFETY: any bytes are a number.
                answer(|| descriptor::set_nonblocking(fd, unsafe { guarded::load(place) }? != 0).map(|()| 0))
            }
            (Entry::Udp(_) | Entry::Tcp(_), libc::FIONREAD | libc::TIOCOUTQ | libc::SIOCOUTQNSD | SIOCATMARK)
                if !place.is_null() =>
            {
                answer(|| match descriptor::figure(fd, request)? {
                    Some(figure) => {
                        // SAFETY: the program's place for a number.
                        unsafe { guarded::store(figure, place) }.map(|()| 0)
                    }
                    // SAFETY: the program's arguments are passed on unchanged.
                    None => match unsafe { real::ioctl(fd, request, argument) } {
                        done if done < 0 => Err(Errno::last()),
                        done => Ok(done),
                    },
                })
            }
            // SAFETY: the program's arguments are passed on unchanged.
            _ => unsafe { real::ioctl(fd, request, argument) },
        }
    }
}

const _: () = assert!(LIMIT <= c_int::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// How Java wakes a thread that waits for a socket that is about to be closed.
    #[test]
    fn a_number_that_is_given_to_another_socket_is_never_closed_in_between() {
        let [from, to] = [(); 2].map(|()| testing::socket(libc::SOCK_DGRAM));
        let plain = sys::eventfd().unwrap();
        let source = TABLE.get(from);
        let index = TABLE.get(to).description().unwrap();
        let meant = testing::lane().with(|access| Ok(access.descriptions().get(index).socket())).unwrap();
        for (from, after) in [(from, source), (plain, Entry::Foreign)] {
            let before = TABLE.get(to);
            let new = duplicate_to(from, to, || {
                assert_eq!(TABLE.get(to), before, "until the kernel has done it");
                // SAFETY: plain numbers.
                unsafe { real::dup2(from, to) }
            });
            assert_eq!((new, TABLE.get(to)), (to, after));
        }
        // The previous socket has ended.
        let ended = testing::lane().with(|access| Ok(access.stack.udp_next_len(meant.try_into()?).is_err()));
        assert_eq!(ended, Ok(true));
        testing::close(from);
        [to, plain].into_iter().for_each(sys::close);
    }

    #[test]
    fn a_range_that_the_kernel_refuses_to_close_stays_open() {
        let fd = testing::socket(libc::SOCK_DGRAM);
        let number = fd as c_uint;
        // SAFETY: plain numbers.
        let said = unsafe { [close_range(number, number, 1 << 20), close_range(number, number - 1, 0)] };
        assert_eq!((said, errno::get()), ([-1; 2], libc::EINVAL));
        assert!(TABLE.get(fd).is_socket());
        testing::close(fd);
    }

    /// Otherwise it stays open for ever, and libuv aborts.
    #[test]
    fn an_instance_whose_lane_ends_while_it_is_being_closed_is_closed() {
        let epfd = sys::epoll_create(0).unwrap();
        assert_eq!(close_seen(epfd, Entry::Epoll(0)), 0);
    }

    #[test]
    fn what_another_thread_closes_is_neither_closed_again_nor_given_away() {
        let [closing, other] = [(); 2].map(|()| testing::socket(libc::SOCK_DGRAM));
        assert!(close::closing(closing));
        // SAFETY: plain numbers.
        let said = unsafe { [close(closing), dup2(other, closing), dup2(closing, other)] };
        assert_eq!((said, errno::get()), ([-1; 3], libc::EBADF));
        assert!(TABLE.get(other).is_socket());
        // No copy of it outlives it either, and a copy made the moment before can be closed.
        // SAFETY: plain numbers.
        let said = unsafe { [dup(closing), fcntl(closing, libc::F_DUPFD, 0), fcntl(closing, libc::F_GETFL, 0)] };
        assert_eq!((said, errno::get()), ([-1; 3], libc::EBADF));
        let copy = sys::fcntl(closing, libc::F_DUPFD, 0).unwrap();
        open::duplicated(closing, copy);
        assert_eq!(TABLE.get(copy), Entry::Dead(libc::ENOTCONN as u32));
        // SAFETY: a plain number.
        assert_eq!(unsafe { close(copy) }, 0);
        assert!(close::closed(closing));
        sys::close(closing);
        // Nor does it close the file that has got its number in the kernel meanwhile.
        let lost = testing::socket(libc::SOCK_DGRAM);
        assert!(close::closing(lost));
        open::duplicated(other, lost);
        assert!(!close::closed(lost));
        // SAFETY: plain numbers.
        unsafe {
            assert!(close::closing(lost));
            assert_eq!(close_range(lost as c_uint, lost as c_uint, 0), 0);
        }
        assert!(!close::closed(lost), "the kernel has closed it");
        testing::close(other);
    }
}
