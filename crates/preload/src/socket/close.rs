//! How references to sockets end: a socket closes with the last descriptor of the last process that
//! has it, stops listening when it is shut down, and ends with its lane.

use crate::lane::teardown::is_without_service;
use crate::lane::{self, Access, Lane};
use crate::socket::kernel;
use crate::socket::pending;
use crate::sys;
use crate::sys::errno::Result;
use crate::table::counts;
use crate::table::desc::{Descriptions, flag};
use crate::table::fd::{Entry, TABLE};
use core::ffi::c_int;
use tickwire_lane::control::{Claim, Reason, Remotes, Request};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::{ListenerId, SocketId, SocketKind, TcpId, UdpId};

/// What `close` does for a descriptor of ours before the kernel's close, which follows [`closed`].
/// The descriptor is closed for the program from here on, whatever else happens. Another thread
/// that uses it gets an error, and does not reach the kernel socket, which has no connection. False
/// if it is not ours, or another thread closes it.
pub(crate) fn closing(fd: c_int) -> bool {
    crate::wait::epoll::changing(fd, || TABLE.begin_to_close(fd)).map(ended).is_some()
}

/// The kernel may close it. False if the number refers to something else now, because of `dup2`.
pub(crate) fn closed(fd: c_int) -> bool {
    TABLE.replace(fd, Entry::CLOSING, Entry::Foreign)
}

/// Completes the closes that other threads of the parent had begun at a fork: the child does not
/// have these threads.
pub(crate) fn finish_for_others() {
    for (fd, _) in TABLE.each().filter(|&(_, entry)| entry == Entry::CLOSING) {
        closed(fd);
        sys::close(fd);
    }
}

/// A table entry that referred to this is gone.
pub(crate) fn ended(entry: Entry) {
    match entry {
        Entry::Udp(index) | Entry::Tcp(index) | Entry::Epoll(index) => {
            if counts::drop_last(index)
                && let Some(lane) = lane::current()
            {
                linger(lane, index);
                crate::socket::multicast::closed(index);
                drop_reference(lane, index);
            }
        }
        Entry::Kernel(row) => {
            if let Some(lane) = lane::current() {
                kernel::drop_row(lane, row);
            }
        }
        // With the last of them there is nothing left to report to the service.
        Entry::Unlisted(_) if lane::current().is_none() && TABLE.unlisted().next().is_none() => {
            crate::base::wakeup_fd::ring()
        }
        Entry::Unlisted(_) => {}
        Entry::Foreign | Entry::Instance(_) | Entry::Lane | Entry::Dead(_) => {}
    }
}

/// `SO_LINGER` with a time: `close` waits until everything is acknowledged.
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
    /// Its claim is released at once.
    Release(u64),
    /// A listener: its claim shrinks to the connections it accepted. The flag says whether the
    /// kernel's listener closes, too.
    Convert(u64, bool),
    /// A connection: its claim is released when the stack is done with it.
    Pending(pending::ClosedConnection),
}

impl After {
    /// Does what is left.
    pub(crate) fn finish(self, lane: &'static Lane) {
        match self {
            Self::Release(claim) => lane.release(claim),
            Self::Convert(claim, closes) => {
                convert(lane, claim, closes);
            }
            Self::Pending(closed) => pending::add(lane, closed),
        }
    }
}

/// Returns whether the service keeps the claim; closes the kernel's listener if `closes`.
#[inline(never)]
fn convert(lane: &'static Lane, claim: u64, closes: bool) -> bool {
    let mut next = 0;
    let mut remotes = accepted(lane, claim, &mut next);
    if remotes.as_slice().is_empty() {
        lane.release(claim);
        return false;
    }
    loop {
        let further = accepted(lane, claim, &mut next);
        let more = !further.as_slice().is_empty();
        let request = Request::Convert { claim: Claim(claim), remotes, more, closes };
        let done = lane.ask(&request, None, |_| Ok(()));
        if done.is_err() || !more {
            return done.is_ok();
        }
        remotes = further;
    }
}

/// Removes a process's bit from a description, under the lock.
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
            (claim != 0).then_some(After::Convert(claim, true))
        }
        SocketKind::Tcp => {
            let id = TcpId::try_from(socket)?;
            let ends = access.stack.tcp_endpoints(id);
            let _ = access.stack.tcp_close(id, now);
            match ends {
                Ok((local, remote)) if claim != 0 => Some(After::Pending(pending::ClosedConnection {
                    index: id.index,
                    local,
                    remote,
                    claim,
                    shared: flags & flag::ACCEPTED != 0,
                    converted: flags & flag::CONVERTED != 0,
                    ephemeral: flags & flag::EPHEMERAL != 0,
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

/// Remotes of connections that a closed listener with this claim has accepted, as many as fit into
/// one request; they are marked as converted. `next` is the description to continue with. (Not all
/// at once: a list of them would have to be allocated.)
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
    count += pending::convert(lane, claim, &mut remotes[count..]);
    Remotes::new(&remotes[..count])
}

/// A listener was shut down: it stops listening, its descriptor stays. Returns whether the service
/// ends the kernel's listener.
pub(crate) fn stop_listening(lane: &'static Lane, index: u32) -> bool {
    let claim = lane.with(|access| {
        let now = access.now;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        let Ok(id) = ListenerId::try_from(description.socket()) else { return Ok(None) };
        let claim = core::mem::take(description.claim());
        description.set_socket(SocketId::default());
        description.set(flag::CLAIMED | flag::STARTED | flag::LISTENING, false);
        let _ = access.stack.tcp_close_listener(id, now);
        Ok(Some(claim))
    });
    matches!(claim, Ok(Some(claim)) if convert(lane, claim, true))
}

/// The lane is over. Connections are dead; listeners and UDP sockets continue as their kernel
/// sockets. Returns how many descriptors of connections there were.
pub(crate) fn lane_ended(lane: &Lane, reason: Reason) -> usize {
    let mut connections = 0;
    let without_service = is_without_service(reason);
    // By the time a list shows the socket, a new service runs.
    let ended = if without_service { Reason::Restarted } else { reason };
    let unlisted = |reason: Reason| Entry::Unlisted(reason.code().into());
    // Otherwise only in this process.
    let for_all = without_service || reason == Reason::LaneGone;
    let mut state = lane.final_state();
    let reasons = state.as_mut().map_or_else(Vec::new, |state| core::mem::take(&mut state.reasons));
    // If the state is unknown, it counts as a connection, which must not look like a fresh socket.
    let mut last = |index: u32| match &mut state {
        Some(state) => {
            let mut descriptions = Descriptions::new(&mut state.user);
            let mut description = descriptions.get(index);
            (description.flags(), *description.holders() & !(1 << lane.slot()) == 0)
        }
        None => (flag::STARTED, false),
    };
    for (fd, entry) in TABLE.each() {
        match entry {
            Entry::Udp(index) => {
                // The service, which would remove its group filter, may have been killed.
                let _ = sys::detach_filter(fd);
                TABLE.replace(fd, entry, unlisted(ended));
                counts::forget(index);
            }
            Entry::Tcp(index) => {
                let (flags, ours_alone) = last(index);
                if flags & (flag::STARTED | flag::LISTENING) == flag::STARTED {
                    connections += 1;
                    TABLE.replace(fd, entry, Entry::Dead(libc::ECONNRESET as u32));
                    if for_all || ours_alone {
                        // So that the kernel's epoll reports the end of the stream. The call fails
                        // with ENOTCONN, and has this effect all the same.
                        let _ = sys::shutdown(fd, libc::SHUT_RDWR);
                    }
                } else {
                    // Other processes that continue with the lane would block in the kernel while
                    // they hold its lock.
                    let goes = for_all || ours_alone;
                    if goes {
                        kernel::restore_blocking(fd, flags);
                    }
                    TABLE.replace(fd, entry, unlisted(ended));
                }
                counts::forget(index);
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
    connections
}
