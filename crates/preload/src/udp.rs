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
use crate::readiness;
use crate::via::{self, Verdict};
use crate::wait::{self, AGAIN, NO_FD, OWN};
use core::ffi::c_int;
use tickwire_link::control::{ClaimKind, Reason};
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::path::PathState;
use tickwire_stack::udp::SendTo;
use tickwire_stack::{Error, UdpId};

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
    let via = lane.with(|access| Ok(access.descriptions().get(index).via().interface(remote.address)))?;
    if let Err(reason) = lane.reach(remote.address, Address::ANY, scope, via) {
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
    /// The socket names another interface than the lane's path leaves by.
    OtherWay,
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
    let mut v6 = false;
    loop {
        let outcome = wait::transfer(
            lane,
            index,
            flags,
            |d| d.send_timeout(),
            &mut [NO_FD; OWN],
            |access, _| {
                let (id, bits) = id_of(access, index)?;
                v6 = bits & flag::V6 != 0;
                attempt(access, index, id, bits, &call, buffers)
            },
        );
        match outcome? {
            Sent::Done(len) => return Ok(len),
            Sent::Kernel => return by_kernel(lane, fd, index, buffers, flags, to, extras),
            Sent::Bind => bind_somewhere(lane, fd, index, v6)?,
            Sent::Resolve(address) => {
                let source = call.source.unwrap_or(Address::ANY);
                let via = lane.with(|access| Ok(access.descriptions().get(index).via().interface(address)))?;
                match lane.reach(address, source, scope, via) {
                    Ok(_) => {}
                    Err(Reason::OtherWay) if via != 0 => return other_way(lane, index),
                    Err(_) => return by_kernel(lane, fd, index, buffers, flags, to, extras),
                }
            }
            Sent::OtherWay => return other_way(lane, index),
        }
        tries += 1;
        if tries > 4 {
            // The path comes and goes; the kernel decides.
            return by_kernel(lane, fd, index, buffers, flags, to, extras);
        }
    }
}

/// The socket sends where the lane does not: it is the kernel's, and shows so.
fn other_way(lane: &'static Lane, index: u32) -> Result<usize> {
    open::demote(lane, index, Reason::OtherWay);
    Err(DEMOTED)
}

fn attempt(
    access: &mut Access<'_>,
    index: u32,
    id: UdpId,
    bits: u64,
    call: &SendTo,
    buffers: &mut Buffers<'_>,
) -> Result<Sent> {
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
    // A connected socket's way was found to fit when it was connected.
    if call.destination.is_some() {
        let local = call.source.unwrap_or(access.stack.udp_names(id)?.0.address);
        match via::verdict(access, index, &peer, local) {
            Verdict::Fits => {}
            Verdict::Unknown => return Ok(Sent::Resolve(peer.address)),
            Verdict::Elsewhere => return Ok(Sent::OtherWay),
        }
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
        // It may have been for another socket of this program.
        readiness::kernel_spoke(access.now);
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
    let attempt = |access: &mut Access<'_>, force: bool| -> Result<usize> {
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
        if !force && readiness::kernel_is_quiet(bits, *description.kernel_check(), now) {
            return Err(AGAIN);
        }
        *description.kernel_check() = now.as_nanos();
        let got = sys::receive(fd, buffers, flags | libc::MSG_DONTWAIT, extras);
        description.set(flag::KERNEL_QUIET, got == Err(AGAIN));
        got
    };
    wait::transfer(lane, index, flags, |d| d.receive_timeout(), &mut [NO_FD, NO_FD, wait::readable(fd)], attempt)
}

/// `shutdown` after the kernel's own.
pub(crate) fn shutdown(lane: &'static Lane, index: u32, how: c_int) -> Result<()> {
    lane.with(|access| {
        let (id, _) = id_of(access, index)?;
        Ok(access.stack.udp_shutdown(id, how != libc::SHUT_WR, how != libc::SHUT_RD)?)
    })
}
