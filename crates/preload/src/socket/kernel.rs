//! Kernel sockets of a program that has a lane: those that the lane cannot have go back to the
//! kernel, and those that never were on it stay there. Each is shown with its reason.

use crate::base::small_vec::SmallVec;
use crate::lane::{self, Access, Lane};
use crate::socket::close::{self, After};
use crate::sys;
use crate::sys::errno::{Errno, Result};
use crate::table::counts;
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE, Table};
use crate::wait::Same;
use core::ffi::c_int;
use tickwire_lane::control::Reason;
use tickwire_stack::addr::{Endpoint, Family};
use tickwire_stack::{ListenerId, SocketId, SocketKind, TcpId, UdpId, table};

/// Whether the kernel refuses to connect to this name, or to send to it: an IPv4 address from a
/// socket of IPv6 only; a name of IPv6 (`of_v6`), even of a mapped address, on a socket of IPv4; on
/// a TCP socket of IPv6 also a name of IPv4.
pub(crate) fn refuses_name(kind: SocketKind, peer: &Endpoint, of_v6: bool, flags: u64) -> bool {
    let is_v6 = flags & flag::V6 != 0;
    let is_foreign = if kind == SocketKind::Tcp { of_v6 != is_v6 } else { of_v6 && !is_v6 };
    is_foreign || (flags & flag::V6ONLY != 0 && peer.address.family() == Family::V4)
}

/// The kernel's number of the state, for the rows.
const TCP_LISTEN: u32 = 10;

/// Shows a socket that stays on the kernel, with its reason, in `tickwire stat`, if the descriptor
/// still is `from` and there is room.
fn show_kernel(lane: &'static Lane, fd: c_int, from: Entry, udp: bool, reason: Reason) {
    let names = (sys::socket_name(fd, false), sys::socket_name(fd, true));
    let listens = sys::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).is_ok_and(|on| on != 0);
    let shown = lane.with(|access| {
        let (index, row) = access.kernel_rows().free(access.slot).ok_or(Errno(libc::ENOBUFS))?;
        row.pid.set(lane::process());
        row.fd.set(fd as u32);
        row.reason.set(u32::from(reason.code()));
        row.state.set(if listens { TCP_LISTEN } else { 0 });
        row.local.set(names.0.unwrap_or_default());
        row.remote.set(names.1.unwrap_or_default());
        row.kind.set(if udp { table::kind::KERNEL_UDP } else { table::kind::KERNEL_TCP });
        Ok(index)
    });
    let entered = TABLE.replace(fd, from, shown.map_or(Entry::Unlisted(reason.code().into()), Entry::Kernel));
    if let (false, Ok(row)) = (entered, shown) {
        drop_row(lane, row);
    }
}

/// This process does not have a socket any more that stayed on the kernel.
pub(crate) fn drop_row(lane: &'static Lane, row: u32) {
    let _ = lane.with(|access| {
        access.kernel_rows().drop(row, access.slot);
        Ok(())
    });
}

/// Makes this process, which is new to the lane or another program now, hold exactly the rows that
/// its table has. With `adopt` it also holds those of the program before that are still open.
pub(crate) fn take_stock(lane: &'static Lane, adopt: bool) {
    let _ = lane.with(|access| {
        let rows = access.kernel_rows();
        for (index, row) in rows.held(access.slot) {
            let (fd, entry) = (row.fd.get() as c_int, Entry::Kernel(index));
            let still = adopt && Table::fits(fd) && sys::socket_name(fd, false) == Ok(row.local.get());
            if TABLE.get(fd) != entry && !(still && TABLE.replace(fd, Entry::Foreign, entry)) {
                rows.drop(index, access.slot);
            }
        }
        for (fd, entry) in TABLE.each() {
            if let Entry::Kernel(index) = entry
                && rows.get(index).is_none_or(|row| row.holders.get() & 1 << access.slot == 0)
            {
                TABLE.replace(fd, entry, Entry::Foreign);
            }
        }
        Ok(())
    });
}

/// A socket that stays on the kernel was connected there: its row gets the names.
pub(crate) fn connected_by_kernel(fd: c_int) {
    if let (Entry::Kernel(row), Some(lane)) = (TABLE.get(fd), lane::current()) {
        let names = (sys::socket_name(fd, false), sys::socket_name(fd, true));
        let _ = lane.with(|access| {
            if let Some(row) = access.kernel_rows().get(row) {
                row.local.set(names.0.unwrap_or_default());
                row.remote.set(names.1.unwrap_or_default());
            }
            Ok(())
        });
    }
}

/// A connection that a listener accepted from the kernel.
pub(crate) fn accepted_by_kernel(lane: &'static Lane, fd: c_int) {
    if Table::fits(fd) {
        stays(lane, fd, false, Reason::Loopback);
    }
}

/// A connection accepted by a listener that stays on the kernel: it is there for the listener's
/// reason.
pub(crate) fn accepted_beside(listener: c_int, fd: c_int) {
    match (TABLE.get(listener), lane::current()) {
        (Entry::Kernel(row), Some(lane)) if Table::fits(fd) => {
            let reason = lane.with(|access| {
                let row = access.kernel_rows().get(row);
                Ok(row.and_then(|row| Reason::from_code(row.reason.get())).unwrap_or_default())
            });
            stays(lane, fd, false, reason.unwrap_or_default());
        }
        (entry @ Entry::Unlisted(_), _) => {
            TABLE.set(fd, entry);
        }
        _ => {}
    }
}

/// A socket that was a kernel socket from the beginning stays so: shown, and logged.
pub(crate) fn stays(lane: &'static Lane, fd: c_int, udp: bool, reason: Reason) {
    say_why(lane, fd, udp, None, reason);
    show_kernel(lane, fd, TABLE.get(fd), udp, reason);
}

/// Logs which socket stays on the kernel, and why, if `TICKWIRE_LOG` asks for it. `remote` is where
/// it is about to be connected.
fn say_why(lane: &Lane, fd: c_int, udp: bool, remote: Option<Endpoint>, reason: Reason) {
    if lane.settings().verbose {
        let name = |peer| sys::socket_name(fd, peer).ok().filter(|name| name.port != 0);
        let names = named(name(false), remote.or_else(|| name(true)));
        sys::say(&format!("{} socket {fd}{names} stays on the kernel: {reason}", if udp { "UDP" } else { "TCP" }));
    }
}

/// The names of a socket's two ends, as far as they are known.
fn named(local: Option<Endpoint>, remote: Option<Endpoint>) -> String {
    match (local, remote) {
        (Some(local), Some(remote)) => format!(" ({local} to {remote})"),
        (Some(local), None) => format!(" ({local})"),
        (None, Some(remote)) => format!(" (to {remote})"),
        (None, None) => String::new(),
    }
}

/// Gives a socket to the kernel for good; returns whether it did, as it may be closed by now. The
/// kernel socket behind the descriptor is in the same state as the stack's socket was.
pub(crate) fn demote(lane: &'static Lane, socket: &Same, reason: Reason) -> bool {
    let claim = lane.with(|access| {
        socket.check(access)?;
        Ok(give(access, socket.index, reason).unwrap_or(0))
    });
    if let Ok(claim) = claim {
        given(lane, socket.index, None, reason, claim);
    }
    claim.is_ok()
}

/// The part of [`demote`] under the lock, for a caller that has to check the socket first;
/// [`given`] has to follow. Returns the socket's claim.
pub(crate) fn give(access: &mut Access<'_>, index: u32, reason: Reason) -> Result<u64> {
    let now = access.now;
    let mut descriptions = access.descriptions();
    let mut description = descriptions.get(index);
    let socket = description.socket();
    let claim = core::mem::take(description.claim());
    description.becomes_the_kernels(reason);
    match socket.kind {
        SocketKind::Udp => access.stack.udp_close(UdpId::try_from(socket)?)?,
        SocketKind::Tcp => access.stack.tcp_abort(TcpId::try_from(socket)?, now)?,
        SocketKind::Listener => access.stack.tcp_close_listener(ListenerId::try_from(socket)?, now)?,
        _ => {}
    }
    Ok(claim)
}

/// The rest, without the lock. `remote` is where the kernel is about to connect it.
pub(crate) fn given(lane: &'static Lane, index: u32, remote: Option<Endpoint>, reason: Reason, claim: u64) {
    let mut ours = TABLE.each().filter(|_| !lane.is_over());
    if let Some((fd, entry)) = ours.find(|(_, entry)| entry.description() == Some(index)) {
        say_why(lane, fd, matches!(entry, Entry::Udp(_)), remote, reason);
    }
    crate::wait::epoll::moved_to_kernel(lane, index);
    forget(lane, index);
    lane.release(claim);
}

/// As [`demote`], for a socket that is in use: connections that a listener has accepted stay with
/// the stack. Everything queued to be accepted or received is lost.
pub(crate) fn give_to_kernel(lane: &'static Lane, socket: &Same, reason: Reason) {
    let left = lane.with(|access| {
        socket.check(access)?;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(socket.index);
        let listener = ListenerId::try_from(description.socket()).ok();
        let converted = listener.map(|id| (id, core::mem::take(description.claim())));
        if let Some(id) = listener {
            // `give` would close it.
            description.set_socket(SocketId::default());
            let _ = access.stack.tcp_leave_listener(id, access.now);
        }
        Ok((converted, give(access, socket.index, reason).unwrap_or(0)))
    });
    let Ok((converted, claim)) = left else { return };
    given(lane, socket.index, None, reason, claim);
    if let Some((listener, claim)) = converted {
        After::Convert(claim, false).finish(lane);
        // From now on the kernel's socket listens.
        let _ = lane.with(|access| Ok(access.stack.tcp_close_listener(listener, access.now)?));
    }
}

/// Gives the listeners and UDP sockets to the kernel that no other process has; `shared`: also
/// those that others have.
pub(crate) fn give_each_to_kernel(lane: &'static Lane, reason: Reason, shared: bool, those: impl Fn(c_int) -> bool) {
    for (fd, entry) in TABLE.each().filter(|&(fd, _)| those(fd)) {
        let (Entry::Udp(index) | Entry::Tcp(index)) = entry else { continue };
        let movable = lane.with(|access| {
            let own = 1 << access.slot;
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            let whose = shared || *description.holders() == own;
            let movable = whose && !description.has(flag::KERNEL) && description.socket().kind != SocketKind::Tcp;
            movable.then(|| Same::of(access, fd, index)).transpose()
        });
        // It may have gone already by another of its descriptors.
        if let (Ok(Some(socket)), true) = (movable, TABLE.get(fd) == entry) {
            give_to_kernel(lane, &socket, reason);
        }
    }
}

/// Removes every descriptor of a description that is a kernel socket now from this process's table.
pub(crate) fn forget(lane: &'static Lane, index: u32) {
    let reason = |flags| flag::reason(flags).unwrap_or(Reason::Idle);
    let unlisted = |flags| Entry::Unlisted(reason(flags).code().into());
    let dropped = {
        // If the lane has ended, that has been done there, and the index may be that of a socket of
        // the next lane. The lane cannot end meanwhile.
        let Some(_ending) = lane::teardown::hold().filter(|_| !lane.is_over()) else { return };
        let mut gone = SmallVec::new(-1);
        // Under one lock, so that the index belongs to one socket throughout; it is not reused
        // until its reference is dropped.
        let flags = lane.with(|access| {
            let flags = access.descriptions().get(index).flags();
            if flags & flag::KERNEL == 0 {
                return Ok(flags);
            }
            for (fd, entry) in TABLE.each().filter(|(_, entry)| entry.description() == Some(index)) {
                restore_blocking(fd, flags);
                if TABLE.replace(fd, entry, unlisted(flags)) {
                    gone.push(fd);
                }
            }
            if !gone.is_empty() {
                counts::forget(index);
            }
            Ok(flags)
        });
        let Ok(flags) = flags else { return };
        if gone.is_empty() {
            return;
        }
        gone.iter().for_each(|&fd| show_kernel(lane, fd, unlisted(flags), flags & flag::UDP != 0, reason(flags)));
        crate::socket::multicast::closed(index);
        lane.with(|access| {
            let slot = access.slot;
            close::drop_reference_of(access, index, slot)
        })
    };
    if let Ok(Some(after)) = dropped {
        after.finish(lane);
    }
}

/// Makes a kernel's listener blocking again if the program had it so. `flags` are its
/// description's.
pub(crate) fn restore_blocking(fd: c_int, flags: u64) {
    if flags & (flag::LISTENING | flag::NONBLOCK) == flag::LISTENING {
        let _ = sys::set_nonblocking(fd, false);
    }
}

/// The service revoked a claim (an address was removed): the sockets on it become kernel sockets
/// again, connections end.
pub(crate) fn claim_lost(lane: &'static Lane, claim: u64, reason: Reason) {
    crate::socket::pending::forget(lane, claim);
    let found = lane.with(|access| {
        access.ports().forget(claim);
        let mut found = Vec::new();
        for index in 0..access.descriptions().used() {
            if *access.descriptions().get(index).claim() == claim {
                found.push(index);
            }
        }
        Ok(found)
    });
    for index in found.unwrap_or_default() {
        let to_kernel = lane.with(|access| {
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            if *description.claim() != claim {
                return Ok(None); // it has been closed since
            }
            if let Ok(id) = TcpId::try_from(description.socket()) {
                *description.claim() = 0;
                // The program keeps its descriptor, and must get the error whichever way it waits.
                if access.stack.tcp_sever(id, access.now).is_ok() {
                    return Ok(None);
                }
            }
            Ok(Some(give(access, index, reason).unwrap_or(0)))
        });
        if let Ok(Some(claim)) = to_kernel {
            given(lane, index, None, reason, claim);
        }
    }
}

/// A new lane shows the sockets that are older than it.
pub(crate) fn list_older(lane: &'static Lane) {
    for (fd, reason) in TABLE.unlisted() {
        let udp = sys::option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Ok(libc::SOCK_DGRAM);
        show_kernel(lane, fd, Entry::Unlisted(reason.code().into()), udp, reason);
    }
}
