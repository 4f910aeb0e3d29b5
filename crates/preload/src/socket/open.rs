//! How sockets are put on the lane: they are entered when they are made, and shared by dup and
//! fork.

use crate::lane::{self, Access, Lane};
use crate::socket::close;
use crate::socket::kernel;
use crate::socket::packet_sockets;
use crate::sys;
use crate::sys::errno::{Errno, Result};
use crate::table::counts;
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE, Table};
use core::ffi::c_int;
use tickwire_lane::control::Reason;
use tickwire_stack::SocketId;
use tickwire_stack::udp::UdpOptions;

/// Whether a socket call's arguments make a socket that could be ours: the flags of its
/// description.
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

/// `socket`: always a kernel socket; accelerated if possible.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    let fd = sys::socket(domain, kind, protocol)?;
    if let Some(flags) = wanted(domain, kind, protocol)
        && Table::fits(fd)
    {
        match crate::lane::start::lane() {
            Some(lane) if packet_sockets::reads_wire() => {
                kernel::stays(lane, fd, flags & flag::UDP != 0, Reason::PacketSocket);
            }
            Some(lane) => {
                make(lane, fd, flags);
                // Another thread may have opened a packet socket meanwhile.
                if packet_sockets::reads_wire() {
                    packet_sockets::give_datagrams(lane);
                }
            }
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
        Ok(index) if flags & flag::UDP != 0 => counts::enter(fd, Entry::Udp(index)),
        Ok(index) => counts::enter(fd, Entry::Tcp(index)),
        Err(error) => {
            let full = error == Errno(libc::ENOBUFS);
            let reason = if full { Reason::LaneFull } else { Reason::LaneGone };
            kernel::stays(lane, fd, flags & flag::UDP != 0, reason);
        }
    }
}

/// Whether this process has any descriptor of ours.
pub(crate) fn any() -> bool {
    TABLE.each().any(|(_, entry)| entry.description().is_some())
}

/// Whether one of them is a socket.
pub(crate) fn any_socket() -> bool {
    TABLE.each().any(|(_, entry)| matches!(entry, Entry::Udp(_) | Entry::Tcp(_)))
}

/// Writes the owner of a socket into its public row.
pub(crate) fn label(access: &mut Access<'_>, id: SocketId, fd: c_int) {
    if let Ok(row) = access.stack.socket_row(id) {
        row.pid.set(lane::process());
        row.fd.set(fd as u32);
    }
}

/// A copy of a socket that was closed at the same moment.
const LOST: Entry = Entry::Dead(libc::ENOTCONN as u32);

/// `dup` and its variants: `new` refers to what `old` refers to. Its previous reference ends at the
/// same moment.
pub(crate) fn duplicated(old: c_int, new: c_int) {
    let mut lost = Entry::Foreign;
    let mut change = || match TABLE.get(old) {
        entry @ (Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_)) if Table::fits(new) => copy(old, new, entry)
            .unwrap_or_else(|counted| {
                lost = counted;
                TABLE.set(new, instead(TABLE.get(old), entry))
            }),
        entry => TABLE.set(new, instead(entry, Entry::Foreign)),
    };
    // No registration exists for a descriptor that is not ours.
    let before = match TABLE.get(new) {
        Entry::Foreign => change(),
        _ => crate::wait::epoll::changing(new, || Some(change())).unwrap_or(Entry::Foreign),
    };
    [before, lost].into_iter().for_each(close::ended);
}

/// Enters `new` as a copy of `old`, which referred to `entry` a moment ago, and returns the
/// previous entry of `new`. Another thread may have closed `old` since, or given it to the kernel,
/// and its description may be reused. Then nothing is entered, and the returned error is the
/// surplus count that has to be ended.
fn copy(old: c_int, new: c_int, entry: Entry) -> core::result::Result<Entry, Entry> {
    // Meanwhile the lane cannot end, and the kernel cannot get the socket.
    let _ending = lane::teardown::hold();
    // While it is counted for the copy, too, its description is not reused.
    let counted = entry.description().is_some_and(counts::add_again);
    if counted && TABLE.get(old) == entry && !is_another(new, entry) {
        return Ok(TABLE.set(new, entry));
    }
    Err(if counted { entry } else { Entry::Foreign })
}

/// Whether a descriptor's kernel socket is known not to be that of an entry. (Epoll instances
/// cannot be told apart.)
fn is_another(fd: c_int, entry: Entry) -> bool {
    let (Some(lane), Entry::Udp(index) | Entry::Tcp(index)) = (lane::current(), entry) else { return false };
    let inode = lane.with(|access| Ok(*access.descriptions().get(index).inode()));
    inode.is_ok_and(|inode| sys::socket_inode(fd).unwrap_or(0) != inode)
}

/// The entry for the copy of a descriptor that is not of a lane, or that was (`before`) and has
/// changed.
fn instead(now: Entry, before: Entry) -> Entry {
    match now {
        // Another thread closes that one; the owner of this one closes it, and there is no
        // connection.
        Entry::CLOSING => LOST,
        Entry::Dead(_) | Entry::Instance(_) | Entry::Unlisted(_) => now,
        Entry::Kernel(_) | Entry::Lane => Entry::Foreign,
        Entry::Foreign | Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_) if before.is_socket() => LOST,
        Entry::Foreign | Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_) => Entry::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Another thread closes a socket that is being copied, and its description is reused for the
    /// next.
    #[test]
    fn a_copy_is_of_the_socket_that_was_copied() {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            let fd = testing::socket(kind);
            let index = TABLE.get(fd).description().unwrap();
            let becomes_anothers = || {
                let flipped = testing::lane().with(|access| {
                    *access.descriptions().get(index).inode() ^= 1;
                    Ok(())
                });
                flipped.unwrap();
            };
            let [late, copy] = [(); 2].map(|()| sys::fcntl(fd, libc::F_DUPFD, 0).unwrap());
            becomes_anothers();
            duplicated(fd, late);
            becomes_anothers();
            assert_eq!(TABLE.get(late), Entry::Dead(libc::ENOTCONN as u32));
            duplicated(fd, copy);
            assert_eq!(TABLE.get(copy), TABLE.get(fd));
            // It is counted once for each of its descriptors.
            testing::close(late);
            testing::close(fd);
            assert!(counts::is_counted(index) && testing::lane().flags_of(index) != 0);
            testing::close(copy);
        }
    }
}
