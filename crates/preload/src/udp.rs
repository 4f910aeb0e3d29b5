//! UDP sockets: the stack's queue first, the kernel socket behind the same descriptor for everything that comes or goes by the kernel
//! (loopback, this host's own addresses, broadcast, looped multicast).

use crate::ancillary;
use crate::c::iov::Buffers;
use crate::c::name::{self, Name};
use crate::c::sys::{self, Extras};
use crate::desc::flag;
use crate::errno::{Errno, Result};
use crate::lane::{Access, Lane};
use crate::open::{self, DEMOTED};
use crate::wait::{self, AGAIN, NO_FD, Plan, TIMED_OUT};
use core::ffi::c_int;
use tickwire_link::control::{ClaimKind, Reason};
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::path::PathState;
use tickwire_stack::time::Span;
use tickwire_stack::udp::SendTo;
use tickwire_stack::{Error, UdpId};

/// How long nothing found at the kernel socket is believed while the program polls.
const KERNEL_QUIET: Span = Span::from_micros(50);

fn id_of(access: &mut Access<'_>, index: u32) -> Result<(UdpId, u64)> {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    if description.has(flag::KERNEL) {
        return Err(DEMOTED);
    }
    Ok((description.socket().try_into()?, description.flags()))
}

/// `bind` after the kernel's own has succeeded: the port becomes the lane's.
pub(crate) fn bound(lane: &'static Lane, fd: c_int, index: u32) -> Result<()> {
    let local = sys::socket_name(fd, false)?;
    if local.port == 0 {
        return Ok(());
    }
    lane.with(|access| {
        let (id, flags) = id_of(access, index)?;
        if flags & flag::CLAIMED != 0 {
            return Ok(());
        }
        let mut options = access.stack.udp_options(id)?;
        options.v6only = flags & flag::V6ONLY != 0;
        access.stack.udp_set_options(id, options)?;
        access.stack.udp_bind(id, local)?;
        Ok(())
    })?;
    match lane.claim(fd, ClaimKind::Bound, Endpoint::default()) {
        Ok(claim) => {
            lane.with(|access| {
                let mut descriptions = access.descriptions();
                let mut description = descriptions.get(index);
                *description.claim() = claim;
                description.set(flag::CLAIMED, true);
                Ok(())
            })?;
            crate::multicast::claimed(lane, index, claim);
            Ok(())
        }
        Err(reason) => {
            open::demote(lane, index, reason);
            Err(DEMOTED)
        }
    }
}

/// Binds the kernel socket to a port of its choice, as the first send or connect does on Linux.
fn bind_somewhere(lane: &'static Lane, fd: c_int, index: u32, v6: bool) -> Result<()> {
    let any = Endpoint::new(if v6 { Address::ANY } else { Address::ANY_V4 }, 0);
    let (bytes, len) = name::emit(any, v6, 0);
    match sys::bind(fd, &bytes[..len]) {
        // Bound already: by another thread, or by the kernel for a send of its own.
        Ok(()) | Err(Errno(libc::EINVAL)) => {}
        Err(error) => return Err(error),
    }
    bound(lane, fd, index)
}

/// `connect`, also with `AF_UNSPEC`.
pub(crate) fn connect(lane: &'static Lane, fd: c_int, index: u32, address: &[u8]) -> Result<()> {
    let before = sys::socket_name(fd, false)?;
    sys::connect(fd, address)?;
    let (id, flags) = lane.with(|access| id_of(access, index))?;
    let v6 = flags & flag::V6 != 0;
    let Name::Inet { endpoint: remote, scope, .. } = Name::parse(address) else {
        // The kernel lets go of a port that it chose itself; the claim needs it.
        let now = sys::socket_name(fd, false)?;
        if now.port == 0 && flags & flag::CLAIMED != 0 {
            let (bytes, len) = name::emit(Endpoint::new(now.address, before.port), v6, 0);
            sys::bind(fd, &bytes[..len])?;
        }
        return lane.with(|access| {
            if flags & flag::CLAIMED != 0 {
                access.stack.udp_connect(id, access.now, None)?;
            }
            access.descriptions().get(index).set(flag::CONNECTED, false);
            Ok(())
        });
    };
    if let Err(reason) = lane.reach(remote.address, Address::ANY, scope) {
        open::demote(lane, index, reason);
        return Err(DEMOTED);
    }
    if flags & flag::CLAIMED == 0 {
        bound(lane, fd, index)?;
    }
    let connected = lane.with(|access| {
        access.stack.udp_connect(id, access.now, Some(remote))?;
        access.descriptions().get(index).set(flag::CONNECTED, true);
        Ok(())
    });
    match connected {
        Ok(()) => Ok(()),
        // The stack cannot have it (no way by the lane, no room): the kernel has it.
        Err(_) => {
            open::demote(lane, index, Reason::LaneFull);
            Err(DEMOTED)
        }
    }
}

/// What is to be done before a datagram can go, or instead.
enum Sent {
    Done(usize),
    Bind,
    Resolve(Address),
    Kernel,
}

/// Sends one datagram.
pub(crate) fn send(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    to: Option<Name>,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    let (destination, scope) = match to {
        None | Some(Name::Unspecified) => (None, 0),
        Some(Name::Inet { endpoint, scope, .. }) => (Some(endpoint), scope),
        // Wrong families and lengths: the kernel knows the error.
        Some(Name::Other) => return by_kernel(lane, fd, index, buffers, flags, to, extras),
    };
    let mut call = SendTo { destination, ..SendTo::default() };
    if !ancillary::for_send(extras, &mut call) || flags & (libc::MSG_OOB | libc::MSG_MORE | libc::MSG_CONFIRM) != 0 {
        return by_kernel(lane, fd, index, buffers, flags, to, extras);
    }
    let mut tries = 0;
    let mut nonblocking = flags & libc::MSG_DONTWAIT != 0;
    let mut timeout = None;
    loop {
        let mut v6 = false;
        let outcome = lane.with(|access| {
            let (id, bits) = id_of(access, index)?;
            v6 = bits & flag::V6 != 0;
            nonblocking |= bits & flag::NONBLOCK != 0;
            timeout = access.descriptions().get(index).send_timeout();
            attempt(access, id, bits, &call, buffers)
        });
        let outcome = match outcome {
            Err(AGAIN) if !nonblocking => {
                let until = timeout.map(|t| sys::now() + t);
                let mut plan = Plan { fds: &mut [NO_FD], until, mask: None, restart: timeout.is_none() };
                let waited = wait::wait(lane, &mut plan, |access, _| {
                    let (id, bits) = id_of(access, index)?;
                    attempt(access, id, bits, &call, buffers)
                });
                if waited.as_ref().err() == Some(&TIMED_OUT) { Err(AGAIN) } else { waited }
            }
            other => other,
        };
        match outcome? {
            Sent::Done(len) => return Ok(len),
            Sent::Kernel => return by_kernel(lane, fd, index, buffers, flags, to, extras),
            Sent::Bind => bind_somewhere(lane, fd, index, v6)?,
            Sent::Resolve(address) => {
                let source = call.source.unwrap_or(Address::ANY);
                if lane.reach(address, source, scope).is_err() {
                    return by_kernel(lane, fd, index, buffers, flags, to, extras);
                }
            }
        }
        tries += 1;
        if tries > 4 {
            // The path comes and goes; the kernel decides.
            return by_kernel(lane, fd, index, buffers, flags, to, extras);
        }
    }
}

fn attempt(access: &mut Access<'_>, id: UdpId, bits: u64, call: &SendTo, buffers: &mut Buffers<'_>) -> Result<Sent> {
    let peer = match call.destination {
        Some(peer) => peer,
        None if bits & flag::CONNECTED == 0 => return Ok(Sent::Kernel),
        None => access.stack.udp_names(id)?.1.ok_or(Error::NotConnected)?,
    };
    let v6 = bits & flag::V6 != 0;
    let unfit = peer.port == 0 || (!v6 && peer.address.family() == Family::V6);
    let looped = peer.address.is_multicast() && bits & flag::LOOP_OFF == 0;
    if unfit
        || looped
        || peer.address.is_limited_broadcast()
        || peer.address.is_loopback()
        || peer.address.is_unspecified()
    {
        return Ok(Sent::Kernel);
    }
    if bits & flag::CLAIMED == 0 {
        return Ok(Sent::Bind);
    }
    match access.stack.udp_send(id, access.now, call, buffers) {
        Ok(len) => Ok(Sent::Done(len)),
        Err(Error::NeedPath) => match access.stack.path_get(&peer.address) {
            Some(path) if path.info.state == PathState::Kernel => Ok(Sent::Kernel),
            _ => Ok(Sent::Resolve(peer.address)),
        },
        Err(error) => Err(error.into()),
    }
}

fn by_kernel(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    to: Option<Name>,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    if let Some(Name::Inet { endpoint, scope, v6 }) = to {
        (extras.name, extras.name_len) = name::emit(endpoint, v6, scope);
    }
    buffers.rewind();
    let len = sys::send(fd, buffers, flags, extras)?;
    // Answers will come that way, too; and the kernel has chosen a port if there was none.
    let claimed = lane.with(|access| {
        let (_, bits) = id_of(access, index)?;
        access.descriptions().get(index).set(flag::KERNEL_QUIET, false);
        Ok(bits & flag::CLAIMED != 0)
    })?;
    if !claimed {
        match bound(lane, fd, index) {
            Ok(()) | Err(DEMOTED) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Receives one datagram.
pub(crate) fn receive(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    if flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0 {
        return sys::receive(fd, buffers, flags, extras);
    }
    let mut attempt = |access: &mut Access<'_>, force: bool| -> Result<usize> {
        let (id, bits) = id_of(access, index)?;
        match access.stack.udp_recv(id, flags & libc::MSG_PEEK != 0, buffers) {
            Ok(datagram) => {
                ancillary::received(access, bits, &datagram, extras);
                buffers.rewind();
                return Ok(if flags & libc::MSG_TRUNC != 0 { datagram.len } else { datagram.copied });
            }
            Err(Error::WouldBlock) => {}
            Err(error) => return Err(error.into()),
        }
        let now = access.now;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        let quiet =
            bits & flag::KERNEL_QUIET != 0 && now.as_nanos() < *description.kernel_check() + KERNEL_QUIET.as_nanos();
        if quiet && !force {
            return Err(AGAIN);
        }
        *description.kernel_check() = now.as_nanos();
        let got = sys::receive(fd, buffers, flags | libc::MSG_DONTWAIT, extras);
        description.set(flag::KERNEL_QUIET, got == Err(AGAIN));
        got
    };
    let mut nonblocking = flags & libc::MSG_DONTWAIT != 0;
    let mut timeout = None;
    let first = lane.with(|access| {
        let (_, bits) = id_of(access, index)?;
        nonblocking |= bits & flag::NONBLOCK != 0;
        timeout = access.descriptions().get(index).receive_timeout();
        attempt(access, false)
    });
    if first != Err(AGAIN) || nonblocking {
        return first;
    }
    let until = timeout.map(|t| sys::now() + t);
    let mut fds = [NO_FD, wait::readable(fd)];
    let mut plan = Plan { fds: &mut fds, until, mask: None, restart: timeout.is_none() };
    match wait::wait(lane, &mut plan, attempt) {
        Err(TIMED_OUT) => Err(AGAIN),
        done => done,
    }
}

/// `shutdown` after the kernel's own.
pub(crate) fn shutdown(lane: &'static Lane, index: u32, how: c_int) -> Result<()> {
    lane.with(|access| {
        let (id, _) = id_of(access, index)?;
        Ok(access.stack.udp_shutdown(id, how != libc::SHUT_WR, how != libc::SHUT_RD)?)
    })
}
