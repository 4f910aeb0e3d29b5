//! How sockets come onto the lane: they are entered when they are made, and shared by dup and fork.

use crate::base::errno::{Errno, Result};
use crate::c::sys;
use crate::lane::{Access, Lane};
use crate::socket::close;
use crate::socket::kernel;
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE, Table};
use core::ffi::c_int;
use tickwire_link::control::Reason;
use tickwire_stack::SocketId;
use tickwire_stack::udp::UdpOptions;

/// What of a socket call's arguments makes a socket that could be ours: the flags of its description.
pub(crate) fn wanted(domain: c_int, kind: c_int, protocol: c_int) -> Option<u64> {
    let family = match domain {
        libc::AF_INET => 0,
        libc::AF_INET6 => flag::V6,
        _ => return None,
    };
    let base = match (kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC), protocol) {
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => flag::UDP,
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => flag::TCP,
        _ => return None,
    };
    let nonblock = if kind & libc::SOCK_NONBLOCK != 0 { flag::NONBLOCK } else { 0 };
    Some(family | base | nonblock)
}

/// `socket`: always a kernel socket; accelerated if it can be.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    let fd = sys::socket(domain, kind, protocol)?;
    if let Some(flags) = wanted(domain, kind, protocol)
        && Table::fits(fd)
    {
        match crate::lane::start::lane() {
            Some(lane) => make(lane, fd, flags),
            None if crate::lane::start::refuses() => {
                sys::close(fd);
                return Err(Errno(libc::ENETDOWN));
            }
            None => {}
        }
    }
    Ok(fd)
}

fn make(lane: &'static Lane, fd: c_int, mut flags: u64) {
    if flags & flag::V6 != 0 && sys::option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY).is_ok_and(|on| on != 0) {
        flags |= flag::V6ONLY;
    }
    let inode = sys::socket_inode(fd).unwrap_or(0);
    let made = lane.with(|access| {
        let slot = access.slot;
        let index = access.descriptions().take(flags, slot).ok_or(Errno(libc::ENOBUFS))?;
        *access.descriptions().get(index).inode() = inode;
        if flags & flag::UDP != 0 {
            match access.stack.udp_open(UdpOptions::default()) {
                Ok(id) => {
                    access.descriptions().get(index).set_socket(id.into());
                    label(access, id.into(), fd);
                }
                Err(error) => {
                    access.descriptions().give(index);
                    return Err(error.into());
                }
            }
        }
        Ok(index)
    });
    match made {
        Ok(index) if flags & flag::UDP != 0 => enter(fd, Entry::Udp(index)),
        Ok(index) => enter(fd, Entry::Tcp(index)),
        Err(_) => kernel::stays(lane, fd, flags & flag::UDP != 0, Reason::LaneFull),
    }
}

/// Whether this process has any descriptor of ours.
pub(crate) fn any() -> bool {
    TABLE.each().any(|(_, entry)| entry.description().is_some())
}

/// Enters a new descriptor of a description.
pub(crate) fn enter(fd: c_int, entry: Entry) {
    replace(fd, entry);
    stand_in(fd);
}

/// As the first part of [`enter`], and says what it was before.
fn replace(fd: c_int, entry: Entry) -> Entry {
    if let Some(index) = entry.description() {
        close::count(index);
    }
    TABLE.set(fd, entry)
}

/// As the second.
fn stand_in(fd: c_int) {
    if matches!(TABLE.get(fd), Entry::Udp(_) | Entry::Tcp(_)) {
        crate::c::stdio::stand_in(fd);
    }
}

/// Writes into a socket's public row to whom it belongs.
pub(crate) fn label(access: &mut Access<'_>, id: SocketId, fd: c_int) {
    if let Ok(row) = access.stack.socket_row(id) {
        row.pid.set(sys::process());
        row.fd.set(fd as u32);
    }
}

/// `dup` and its kin: `new` means what `old` means. What it meant before ends at the same moment.
pub(crate) fn duplicated(old: c_int, new: c_int) {
    let change = || match TABLE.get(old) {
        entry @ (Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_)) if Table::fits(new) => replace(new, entry),
        // Another thread closes that one; this one is to be closed by whoever has it, and there is no connection.
        Entry::CLOSING => TABLE.set(new, Entry::Dead(libc::ENOTCONN as u32)),
        entry @ (Entry::Dead(_) | Entry::Instance(_) | Entry::Unlisted(_)) => TABLE.set(new, entry),
        _ => TABLE.set(new, Entry::Foreign),
    };
    // Nothing is registered with what is none of ours.
    let before = match TABLE.get(new) {
        Entry::Foreign => change(),
        _ => crate::wait::epoll::changing(new, || Some(change())).unwrap_or(Entry::Foreign),
    };
    stand_in(new);
    close::ended(before);
}
