//! The life of descriptors: sockets are entered when they are made, shared by dup and fork, given to the kernel when the fast path
//! cannot have them, and closed with their last descriptor.

use crate::base::errno::{Errno, Result};
use crate::c::sys;
use crate::lane::ending::Ending;
use crate::lane::{self, Access, Lane};
use crate::socket::pending;
use crate::table::desc::{Descriptions, flag};
use crate::table::fd::{Entry, LIMIT, TABLE, Table};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Relaxed};
use tickwire_link::control::{Claim, Reason, Remotes, Request};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::udp::UdpOptions;
use tickwire_stack::{ListenerId, SocketId, SocketKind, TcpId, UdpId, table};

/// The socket is the kernel's: whoever gets this repeats the call there. Never an error number of the system.
pub(crate) const DEMOTED: Errno = Errno(-2);

/// How many descriptors of this process refer to each description.
static COUNTS: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];

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
        Err(_) => stays(lane, fd, flags & flag::UDP != 0, Reason::LaneFull),
    }
}

/// Whether this process has any descriptor of ours.
pub(crate) fn any() -> bool {
    TABLE.each().any(|(_, entry)| entry.description().is_some())
}

/// Enters a new descriptor of a description.
pub(crate) fn enter(fd: c_int, entry: Entry) {
    if let Some(index) = entry.description() {
        COUNTS[index as usize].fetch_add(1, AcqRel);
    }
    TABLE.set(fd, entry);
    if entry.is_socket() {
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

/// The kernel's number of the state, for the rows.
const TCP_LISTEN: u32 = 10;

/// Shows a socket that stays on the kernel, with its reason, to `tickwire stat`, if it still is what it was (`from`).
fn show_kernel(lane: &'static Lane, fd: c_int, from: Entry, udp: bool, reason: Reason) {
    let names = (sys::socket_name(fd, false), sys::socket_name(fd, true));
    let listens = sys::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).is_ok_and(|on| on != 0);
    let shown = lane.with(|access| {
        let Some((index, row)) = lane::kernel_row(access.stack) else { return Err(Errno(libc::ENOBUFS)) };
        row.clear();
        row.pid.set(sys::process());
        row.fd.set(fd as u32);
        row.reason.set(u32::from(reason.code()));
        row.state.set(if listens { TCP_LISTEN } else { 0 });
        row.local.set(names.0.unwrap_or_default());
        row.remote.set(names.1.unwrap_or_default());
        row.kind.set(if udp { table::kind::KERNEL_UDP } else { table::kind::KERNEL_TCP });
        Ok(index)
    });
    let entered = TABLE.replace(fd, from, shown.map_or(Entry::Foreign, Entry::Kernel));
    if let (false, Ok(row)) = (entered, shown) {
        clear_row(lane, row);
    }
}

fn clear_row(lane: &'static Lane, row: u32) {
    let _ = lane.with(|access| {
        if let Some(row) = access.stack.kernel_rows().get(row as usize) {
            row.clear();
        }
        Ok(())
    });
}

/// A socket that was the kernel's from the first stays so: shown, and said.
fn stays(lane: &'static Lane, fd: c_int, udp: bool, reason: Reason) {
    say_why(lane, fd, udp, None, reason);
    show_kernel(lane, fd, TABLE.get(fd), udp, reason);
}

/// Says, if the person wants it (`TICKWIRE_LOG`), which socket stays on the kernel, and why. `remote` is where it is about to be connected.
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

/// A socket that stays on the kernel was connected there: its row gets the names.
pub(crate) fn connected_by_kernel(fd: c_int) {
    if let (Entry::Kernel(row), Some(lane)) = (TABLE.get(fd), lane::current()) {
        let names = (sys::socket_name(fd, false), sys::socket_name(fd, true));
        let _ = lane.with(|access| {
            if let Some(row) = access.stack.kernel_rows().get(row as usize) {
                row.local.set(names.0.unwrap_or_default());
                row.remote.set(names.1.unwrap_or_default());
            }
            Ok(())
        });
    }
}

/// A connection that a listener took from the kernel.
pub(crate) fn accepted_by_kernel(lane: &'static Lane, fd: c_int) {
    if Table::fits(fd) {
        stays(lane, fd, false, Reason::Loopback);
    }
}

/// A connection that a listener which is not ours took from the kernel: it is there for the listener's reason.
pub(crate) fn accepted_beside(listener: c_int, fd: c_int) {
    match (TABLE.get(listener), lane::current()) {
        (Entry::Kernel(row), Some(lane)) if Table::fits(fd) => {
            let reason = lane.with(|access| {
                let row = access.stack.kernel_rows().get(row as usize);
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

/// Gives a socket to the kernel for good. The kernel socket behind the descriptor is in the state in which the stack's was.
pub(crate) fn demote(lane: &'static Lane, index: u32, reason: Reason) {
    demote_for(lane, index, None, reason);
}

/// As [`demote`], of a socket that the kernel is about to connect.
pub(crate) fn demote_connecting(lane: &'static Lane, index: u32, remote: Endpoint, reason: Reason) {
    demote_for(lane, index, Some(remote), reason);
}

fn demote_for(lane: &'static Lane, index: u32, remote: Option<Endpoint>, reason: Reason) {
    let mut ours = TABLE.each().filter(|_| !lane.is_over());
    if let Some((fd, entry)) = ours.find(|(_, entry)| entry.description() == Some(index)) {
        say_why(lane, fd, matches!(entry, Entry::Udp(_)), remote, reason);
    }
    let taken = lane.with(|access| {
        let now = access.now;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        let socket = description.socket();
        let claim = core::mem::take(description.claim());
        description.set(flag::KERNEL, true);
        description.set(flag::CLAIMED | flag::STARTED, false);
        description.set_socket(SocketId::default());
        match socket.kind {
            SocketKind::Udp => access.stack.udp_close(UdpId::try_from(socket)?)?,
            SocketKind::Tcp => access.stack.tcp_abort(TcpId::try_from(socket)?, now)?,
            SocketKind::Listener => access.stack.tcp_close_listener(ListenerId::try_from(socket)?, now)?,
            _ => {}
        }
        Ok(claim)
    });
    crate::wait::epoll::moved_to_kernel(lane, index);
    forget(lane, index, reason);
    lane.release(taken.unwrap_or(0), Endpoint::default());
}

/// As [`demote`], of a socket that works as it is: connections that a listener has accepted stay with the stack. What waits to be accepted or received
/// is lost.
pub(crate) fn give_to_kernel(lane: &'static Lane, fd: c_int, index: u32, reason: Reason) {
    let kept = lane.with(|access| {
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        if description.socket().kind != SocketKind::Listener {
            return Ok(None);
        }
        let claim = core::mem::take(description.claim());
        Ok((claim != 0).then_some(After::Convert(claim)))
    });
    demote(lane, index, reason);
    if let Ok(Some(after)) = kept {
        after.finish(lane);
        // To the service its listener has closed, and it has shut the kernel's; this one goes on.
        let _ = sys::listen(fd, crate::socket::tcp::SOMAXCONN);
    }
}

/// Gives the listeners and UDP sockets to the kernel that no other process has.
pub(crate) fn give_own_to_kernel(lane: &'static Lane, reason: Reason) {
    for (fd, entry) in TABLE.each() {
        let (Entry::Udp(index) | Entry::Tcp(index)) = entry else { continue };
        let movable = lane.with(|access| {
            let own = 1 << access.slot;
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            Ok(*description.holders() == own && description.socket().kind != SocketKind::Tcp)
        });
        // By another of its descriptors it may have gone already.
        if movable == Ok(true) && TABLE.get(fd) == entry {
            give_to_kernel(lane, fd, index, reason);
        }
    }
}

/// Nobody counts the descriptors of a description here any more (in a forked child that has no part in its parent's lane).
pub(crate) fn uncount(index: u32) {
    COUNTS[index as usize].store(0, Relaxed);
}

/// Takes every descriptor of a description that is the kernel's now out of this process's table.
pub(crate) fn forget(lane: &'static Lane, index: u32, reason: Reason) {
    let dropped = {
        // If the lane has ended, that has seen to it, and the number may be that of a socket of the next lane; it does not end meanwhile.
        let Some(_ending) = lane::ending::hold().filter(|_| !lane.is_over()) else { return };
        let flags = lane.flags_of(index);
        let mut gone = 0;
        for (fd, entry) in TABLE.each() {
            if flags & flag::KERNEL != 0 && entry.description() == Some(index) {
                if flags & (flag::LISTENING | flag::NONBLOCK) == flag::LISTENING {
                    restore_blocking(fd);
                }
                gone += 1;
                show_kernel(lane, fd, entry, flags & flag::UDP != 0, reason);
            }
        }
        if gone == 0 {
            return;
        }
        COUNTS[index as usize].store(0, Relaxed);
        crate::socket::multicast::closed(index);
        lane.with(|access| {
            let slot = access.slot;
            drop_reference_of(access, index, slot)
        })
    };
    if let Ok(Some(after)) = dropped {
        after.finish(lane);
    }
}

/// The kernel's listener was set not to wait; the program had it otherwise.
fn restore_blocking(fd: c_int) {
    if let Ok(flags) = sys::fcntl(fd, libc::F_GETFL, 0) {
        let _ = sys::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
}

/// `dup` and its kin: `new` means what `old` means.
pub(crate) fn duplicated(old: c_int, new: c_int) {
    match TABLE.get(old) {
        entry @ (Entry::Udp(_) | Entry::Tcp(_) | Entry::Epoll(_)) => {
            if Table::fits(new) {
                enter(new, entry);
            }
        }
        entry @ (Entry::Dead(_) | Entry::Instance(_) | Entry::Unlisted(_)) => {
            TABLE.set(new, entry);
        }
        Entry::Foreign | Entry::Lane | Entry::Kernel(_) => {}
    }
}

/// What `close` does for a descriptor of ours, before or instead of the kernel's own. The descriptor is closed for the program
/// from here on, whatever else happens.
pub(crate) fn closing(fd: c_int) {
    crate::wait::epoll::closing(fd);
    match TABLE.set(fd, Entry::Foreign) {
        Entry::Udp(index) | Entry::Tcp(index) | Entry::Epoll(index) => {
            // Nobody counts them any more if the lane has ended meanwhile.
            let before = COUNTS[index as usize].fetch_update(AcqRel, Relaxed, |count| count.checked_sub(1));
            if before == Ok(1)
                && let Some(lane) = lane::current()
            {
                linger(lane, index);
                crate::socket::multicast::closed(index);
                drop_reference(lane, index);
            }
        }
        Entry::Kernel(row) => {
            if let Some(lane) = lane::current() {
                clear_row(lane, row);
            }
        }
        // With the last of them there is nothing to tell the service any more.
        Entry::Unlisted(_) if lane::current().is_none() && unlisted().next().is_none() => crate::base::bell::ring(),
        Entry::Unlisted(_) => {}
        Entry::Foreign | Entry::Instance(_) | Entry::Lane | Entry::Dead(_) => {}
    }
}

/// `SO_LINGER` with a time: `close` waits until all is acknowledged.
fn linger(lane: &'static Lane, index: u32) {
    let time = lane.with(|access| {
        let slot = access.slot;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        let last = *description.holders() == 1 << slot;
        let socket = description.socket();
        let Ok(id) = TcpId::try_from(socket) else { return Ok(None) };
        let options = access.stack.tcp_options(id)?;
        Ok((last && options.linger && !options.linger_time.is_zero()).then_some((id, options.linger_time)))
    });
    let Ok(Some((id, time))) = time else { return };
    let shut =
        lane.with(|access| Ok(access.stack.tcp_shutdown(id, access.now, tickwire_stack::tcp::Shutdown::Write)?));
    if shut.is_ok() {
        crate::socket::flush::until_acknowledged(lane, id, sys::now() + time);
    }
}

/// This process has no descriptor of a description any more; if no process has, the socket closes.
pub(crate) fn drop_reference(lane: &'static Lane, index: u32) {
    let dropped = lane.with(|access| {
        let slot = access.slot;
        drop_reference_of(access, index, slot)
    });
    if let Ok(Some(after)) = dropped {
        after.finish(lane);
    }
}

/// What is left to do, without the lock, after a socket has closed.
pub(crate) enum After {
    /// Its claim goes at once.
    Release(u64),
    /// A listener: its claim shrinks to the connections it accepted.
    Convert(u64),
    /// A connection: its claim goes when the stack is done with it.
    Pending(pending::Closed),
}

impl After {
    /// Does it.
    pub(crate) fn finish(self, lane: &'static Lane) {
        match self {
            Self::Release(claim) => lane.release(claim, Endpoint::default()),
            Self::Convert(claim) => convert(lane, claim),
            Self::Pending(closed) => pending::add(closed),
        }
    }
}

fn convert(lane: &'static Lane, claim: u64) {
    let mut next = 0;
    let mut remotes = accepted(lane, claim, &mut next);
    if remotes.as_slice().is_empty() {
        return lane.release(claim, Endpoint::default());
    }
    loop {
        let further = accepted(lane, claim, &mut next);
        let more = !further.as_slice().is_empty();
        if lane.ask(&Request::Convert { claim: Claim(claim), remotes, more }, None).is_err() || !more {
            return;
        }
        remotes = further;
    }
}

/// Takes a process's bit off a description, under the lock.
pub(crate) fn drop_reference_of(access: &mut Access<'_>, index: u32, slot: usize) -> Result<Option<After>> {
    let now = access.now;
    let mut descriptions = access.descriptions();
    let mut description = descriptions.get(index);
    let holders = description.holders();
    if *holders & 1 << slot == 0 {
        return Ok(None);
    }
    *holders &= !(1 << slot);
    if *holders != 0 {
        return Ok(None);
    }
    let (flags, socket) = (description.flags(), description.socket());
    let claim = *description.claim();
    access.descriptions().give(index);
    Ok(match socket.kind {
        SocketKind::Udp => {
            let _ = access.stack.udp_close(UdpId::try_from(socket)?);
            (claim != 0).then_some(After::Release(claim))
        }
        SocketKind::Listener => {
            let _ = access.stack.tcp_close_listener(ListenerId::try_from(socket)?, now);
            (claim != 0).then_some(After::Convert(claim))
        }
        SocketKind::Tcp => {
            let id = TcpId::try_from(socket)?;
            let ends = access.stack.tcp_endpoints(id);
            let _ = access.stack.tcp_close(id, now);
            match ends {
                Ok((local, remote)) if claim != 0 => Some(After::Pending(pending::Closed {
                    index: id.index,
                    local,
                    remote,
                    claim,
                    shared: flags & flag::ACCEPTED != 0,
                    converted: flags & flag::CONVERTED != 0,
                })),
                _ => None,
            }
        }
        SocketKind::Set => {
            let _ = access.stack.set_destroy(socket.try_into()?);
            None
        }
        SocketKind::None => (claim != 0).then_some(After::Release(claim)),
    })
}

/// Remotes of connections that a closed listener with this claim has accepted, as many as fit into one request; they are marked as converted. `next` is
/// the description to go on with. (Not all at once: a list of them would have to be allocated.)
fn accepted(lane: &'static Lane, claim: u64, next: &mut u32) -> Remotes {
    let mut remotes = [Endpoint::default(); Remotes::MAX];
    let mut count = 0;
    let _ = lane.with(|access| {
        while *next < access.descriptions().used() && count < remotes.len() {
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(*next);
            *next += 1;
            if !description.has(flag::ACCEPTED) || *description.claim() != claim {
                continue;
            }
            description.set(flag::CONVERTED, true);
            if let Ok(id) = TcpId::try_from(description.socket())
                && let Ok((_, remote)) = access.stack.tcp_endpoints(id)
            {
                remotes[count] = remote;
                count += 1;
            }
        }
        Ok(())
    });
    count += pending::convert(claim, &mut remotes[count..]);
    Remotes::new(&remotes[..count])
}

/// A listener was shut: it stops listening, its descriptor stays.
pub(crate) fn stop_listening(lane: &'static Lane, index: u32) {
    let after = lane.with(|access| {
        let now = access.now;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        let Ok(id) = ListenerId::try_from(description.socket()) else { return Ok(None) };
        let claim = core::mem::take(description.claim());
        description.set_socket(SocketId::default());
        description.set(flag::CLAIMED | flag::STARTED | flag::LISTENING, false);
        let _ = access.stack.tcp_close_listener(id, now);
        Ok(Some(After::Convert(claim)))
    });
    if let Ok(Some(after)) = after {
        after.finish(lane);
    }
}

/// The service took a claim back (an address went away): the sockets on it are the kernel's again, connections end.
pub(crate) fn claim_lost(lane: &'static Lane, claim: u64, reason: Reason) {
    let found = lane.with(|access| {
        let mut found = Vec::new();
        for index in 0..access.descriptions().used() {
            if *access.descriptions().get(index).claim() == claim {
                found.push(index);
            }
        }
        Ok(found)
    });
    for index in found.unwrap_or_default() {
        let connection = lane.with(|access| {
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            let id = TcpId::try_from(description.socket())?;
            *description.claim() = 0;
            // The program keeps its descriptor, and must hear of it by whatever way it waits.
            Ok(access.stack.tcp_sever(id, access.now)?)
        });
        if connection.is_err() {
            demote(lane, index, reason);
        }
    }
}

/// Whether a lane that ended for this reason did so because the service ended.
fn is_without_service(reason: Reason) -> bool {
    matches!(reason, Reason::Lost | Reason::Stopping)
}

/// Tells the person why the lane has ended, and what that means.
pub(crate) fn say_ended(reason: Reason) {
    let then = if is_without_service(reason) {
        "; new ones take the fast path when the service is back, listeners when the program is restarted"
    } else {
        ""
    };
    sys::say(&format!(
        "the lane has ended ({reason}): open connections are reset, other sockets go on with the kernel's stack{then}"
    ));
}

/// The lane is over. Connections are dead; listeners and UDP sockets go on as what their kernel sockets are.
pub(crate) fn lane_ended(lane: &Lane, reason: Reason, ending: &mut Ending) {
    let without_service = is_without_service(reason);
    // By the time that anybody sees the socket in a list there is another service.
    let ended = if without_service { Reason::Restarted } else { reason };
    let unlisted = |reason: Reason| Entry::Unlisted(reason.code().into());
    // Else, in this process alone.
    let for_all = without_service || reason == Reason::LaneGone;
    let mut words = lane.last_words(ending);
    let reasons = words.as_mut().map_or_else(Vec::new, |words| core::mem::take(&mut words.reasons));
    // What is not known counts as a connection, which must not look like a fresh socket.
    let mut last = |index: u32| match &mut words {
        Some(words) => {
            let mut descriptions = Descriptions::new(&mut words.user);
            let mut description = descriptions.get(index);
            (description.flags(), *description.holders() & !(1 << lane.slot()) == 0)
        }
        None => (flag::STARTED, false),
    };
    for (fd, entry) in TABLE.each() {
        match entry {
            Entry::Udp(index) => {
                // The service that would take its filter for groups off again may have been killed.
                let _ = sys::detach_filter(fd);
                TABLE.replace(fd, entry, unlisted(ended));
                COUNTS[index as usize].store(0, Relaxed);
            }
            Entry::Tcp(index) => {
                let (flags, ours_alone) = last(index);
                if flags & (flag::STARTED | flag::LISTENING) == flag::STARTED {
                    TABLE.replace(fd, entry, Entry::Dead(libc::ECONNRESET as u32));
                    if for_all || ours_alone {
                        // So that the kernel's epoll shows the end of the stream. It says that it is not connected, and does it all the same.
                        let _ = sys::shutdown(fd, libc::SHUT_RDWR);
                    }
                } else {
                    if flags & (flag::LISTENING | flag::NONBLOCK) == flag::LISTENING {
                        restore_blocking(fd);
                    }
                    TABLE.replace(fd, entry, unlisted(ended));
                }
                COUNTS[index as usize].store(0, Relaxed);
            }
            Entry::Kernel(row) => {
                let why = reasons.get(row as usize).and_then(|&code| Reason::from_code(code));
                TABLE.replace(fd, entry, unlisted(why.filter(|&why| why != Reason::None).unwrap_or(ended)));
            }
            Entry::Epoll(_) => {
                TABLE.replace(fd, entry, Entry::Foreign);
            }
            Entry::Foreign | Entry::Instance(_) | Entry::Lane | Entry::Unlisted(_) | Entry::Dead(_) => {}
        }
    }
}

/// The sockets of this process that were made on a lane that has ended, each with why it is on the kernel.
pub(crate) fn unlisted() -> impl Iterator<Item = (c_int, Reason)> {
    TABLE.each().filter_map(|(fd, entry)| match entry {
        Entry::Unlisted(code) => Some((fd, Reason::from_code(code).unwrap_or_default())),
        _ => None,
    })
}

/// A new lane shows the sockets that are older than it.
pub(crate) fn list_older(lane: &'static Lane) {
    for (fd, reason) in unlisted() {
        let udp = sys::option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Ok(libc::SOCK_DGRAM);
        show_kernel(lane, fd, Entry::Unlisted(reason.code().into()), udp, reason);
    }
}
