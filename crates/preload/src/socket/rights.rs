//! Descriptors that the program passes to another process over a Unix socket (`SCM_RIGHTS`). The
//! receiver gets the kernel socket, whatever program it is, so the kernel socket must be complete.
//! Listeners and UDP sockets become kernel sockets before they are passed, and connections are
//! handed over to the kernel.

use crate::lane;
use crate::socket::kernel;
use crate::socket::leaving;
use crate::socket::tcp::{self, Stage};
use crate::sys;
use crate::sys::errno::{ANEW, DEMOTED, Errno, Result};
use crate::table::fd::{Entry, TABLE, Table};
use crate::wait::Same;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tickwire_lane::control::Reason;

/// Before descriptors are passed.
///
/// # Errors
/// `EOPNOTSUPP` if one of them cannot exist outside the lane; then all that have not become kernel
/// sockets continue as they were.
pub(crate) fn before_passing(fds: &[c_int]) -> Result<()> {
    let Some(lane) = lane::current() else { return Ok(()) };
    let mut to_kernel = Vec::new();
    let mut connections = Vec::new();
    for &fd in fds {
        match TABLE.get(fd) {
            Entry::Udp(index) => match lane.with(|access| Same::of(access, fd, index)) {
                Ok(socket) => to_kernel.push(socket),
                Err(ANEW) => return before_passing(fds),
                // The lane has ended.
                Err(_) => {}
            },
            Entry::Tcp(index) => {
                match lane.with(|access| Ok((Same::of(access, fd, index)?, tcp::stage(access, index)?.0))) {
                    Ok((socket, Stage::Connection(_))) => connections.push(socket),
                    Ok((socket, Stage::Fresh | Stage::Listener(_))) => to_kernel.push(socket),
                    Err(ANEW) => return before_passing(fds),
                    Err(DEMOTED) => {}
                    Err(error) => return Err(error),
                }
            }
            Entry::Epoll(_) => return Err(refused("an epoll instance that watches such a socket")),
            Entry::Lane | Entry::CLOSING => return Err(Errno(libc::EBADF)),
            Entry::Foreign | Entry::Instance(_) | Entry::Kernel(_) | Entry::Unlisted(_) | Entry::Dead(_) => {}
        }
    }
    // First the steps that may fail.
    for socket in connections {
        leaving::wait_for_started(lane, &socket);
        match leaving::to_kernel(lane, &socket, Reason::Passed) {
            Ok(()) | Err(DEMOTED) => {}
            Err(_) => return Err(refused("a connection")),
        }
    }
    for socket in to_kernel {
        // The same socket may have been named twice.
        let kernel = lane.flags_of(socket.index) & crate::table::desc::flag::KERNEL != 0;
        if !kernel {
            kernel::give_to_kernel(lane, &socket, Reason::Passed);
        }
    }
    Ok(())
}

/// Descriptors have been received from another process. A TCP or UDP socket among them is a kernel
/// socket, and is shown so, with the connections it accepts.
pub(crate) fn have_come(fds: &[c_int]) {
    let mut unlisted = false;
    for &fd in fds.iter().filter(|&&fd| Table::fits(fd) && TABLE.get(fd) == Entry::Foreign) {
        let Some(udp) = is_udp(fd) else { continue };
        match lane::current() {
            Some(lane) => kernel::stays(lane, fd, udp, Reason::NotMoved),
            None => {
                TABLE.set(fd, Entry::Unlisted(Reason::NotMoved.code().into()));
                unlisted = true;
            }
        }
    }
    if unlisted {
        lane::start::announce_passed();
    }
}

/// Whether a descriptor is a UDP socket; `None` if it is no TCP socket either.
fn is_udp(fd: c_int) -> Option<bool> {
    let domain = sys::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN).ok()?;
    let protocol = sys::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL).ok()?;
    match (domain, protocol) {
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_UDP) => Some(true),
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_TCP) => Some(false),
        _ => None,
    }
}

/// Logs the reason once.
fn refused(what: &str) -> Errno {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        sys::say(&format!(
            "{what} on the fast path could not be passed to another process over a Unix socket (EOPNOTSUPP): \
             pass it by fork or exec, or run the program without acceleration"
        ));
    }
    Errno(libc::EOPNOTSUPP)
}
