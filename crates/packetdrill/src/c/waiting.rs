//! The calls that wait for several descriptors.

use super::{done, number};
use crate::errno::Errno;
use crate::machine::Machine;
use core::ffi::c_int;
use core::slice;
use libc::{epoll_event, nfds_t, pollfd};

pub(super) unsafe extern "C" fn poll(
    machine: *const Machine,
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
) -> c_int {
    number(machine, |m| {
        if fds.is_null() && count > 0 {
            return Err(Errno(libc::EFAULT));
        }
        let count = usize::try_from(count).ok().filter(|&n| n <= 1024).ok_or(Errno(libc::EINVAL))?;
        let fds = if count == 0 {
            &mut []
        } else {
            // SAFETY: as `poll` promises.
            unsafe { slice::from_raw_parts_mut(fds, count) }
        };
        let asked: Vec<_> = fds.iter().map(|p| (p.fd, p.events)).collect();
        let ready = m.poll(&asked, timeout)?;
        fds.iter_mut().zip(&ready).for_each(|(p, &ready)| p.revents = ready);
        Ok(ready.iter().filter(|&&ready| ready != 0).count())
    })
}

pub(super) unsafe extern "C" fn epoll_create(machine: *const Machine, size: c_int) -> c_int {
    number(machine, |m| m.epoll_create(size).map(|fd| fd as isize))
}

pub(super) unsafe extern "C" fn epoll_ctl(
    machine: *const Machine,
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    done(machine, |m| {
        // SAFETY: null or packetdrill's event.
        let event = if event.is_null() { None } else { Some(unsafe { event.read_unaligned() }) };
        if event.is_none() && operation != libc::EPOLL_CTL_DEL {
            return Err(Errno(libc::EFAULT));
        }
        m.epoll_ctl(epoll, operation, fd, event.map_or((0, 0), |event| (event.events, event.u64)))
    })
}

pub(super) unsafe extern "C" fn epoll_wait(
    machine: *const Machine,
    epoll: c_int,
    to: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    number(machine, |m| {
        let events = m.epoll_wait(epoll, usize::try_from(most).unwrap_or(0), timeout)?;
        for (at, &(events, u64)) in events.iter().enumerate() {
            // SAFETY: as `epoll_wait` promises, there is room for `most` of them.
            unsafe { to.add(at).write_unaligned(epoll_event { events, u64 }) };
        }
        Ok(events.len())
    })
}
