//! UDP sockets: the stack's queue first; the kernel socket behind the same descriptor for
//! everything that the kernel sends or receives (loopback, this host's own addresses, broadcast,
//! looped multicast).

use crate::lane::{Access, Lane};
use crate::socket::ancillary::{self, DatagramArrival};
use crate::socket::egress_interface;
use crate::socket::kernel;
use crate::sys::errno::{DEMOTED, Errno, Result};
use crate::sys::iov::Buffers;
use crate::sys::{self, ControlBuffer, Extras};
use crate::table::desc::{Via, flag};
use crate::wait::readiness;
use crate::wait::{self, AGAIN, KernelHint, NO_FD, OWN};
use core::ffi::c_int;
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_linux_abi::sockaddr::{self, SocketName};
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::path::{PathState, Query};
use tickwire_stack::udp::{Datagram, SendTo};
use tickwire_stack::{SocketKind, StackError, UdpId};

/// Sends nothing, but resolves the path.
const MSG_PROBE: c_int = 0x10;

fn id_of(access: &mut Access<'_>, index: u32) -> Result<(UdpId, u64)> {
    let mut descriptions = access.descriptions();
    let description = descriptions.get(index);
    if description.has(flag::KERNEL) {
        return Err(DEMOTED);
    }
    Ok((description.socket().try_into()?, description.flags()))
}

/// The flags of the socket that a call has begun with. While the service was asked, another thread
/// may have given the socket to the kernel ([`DEMOTED`]), or closed it (`EBADF`), and its
/// description may be reused.
fn still(access: &mut Access<'_>, index: u32, id: UdpId) -> Result<u64> {
    match id_of(access, index) {
        Ok((now, flags)) if now == id => Ok(flags),
        Err(DEMOTED) => Err(DEMOTED),
        _ => Err(Errno(libc::EBADF)),
    }
}

/// Gives it to the kernel, which then gets the call ([`DEMOTED`]).
fn demote<T>(lane: &'static Lane, index: u32, id: UdpId, reason: Reason) -> Result<T> {
    let claim = lane.with(|access| still(access, index, id).and_then(|_| kernel::give(access, index, reason)))?;
    kernel::given(lane, index, None, reason, claim);
    Err(DEMOTED)
}

/// `bind` after the kernel's own has succeeded: the port becomes the lane's.
pub(crate) fn bound(lane: &'static Lane, fd: c_int, index: u32) -> Result<()> {
    let local = sys::socket_name(fd, false)?;
    if local.port == 0 {
        return Ok(());
    }
    let reuse_port = sys::option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT).is_ok_and(|on| on != 0);
    let unclaimed = lane.with(|access| {
        let (id, flags) = id_of(access, index)?;
        if flags & flag::CLAIMED != 0 {
            return Ok(None);
        }
        let mut options = access.stack.udp_options(id)?;
        (options.v6only, options.reuse_port) = (flags & flag::V6ONLY != 0, reuse_port);
        access.stack.udp_set_options(id, options)?;
        access.stack.udp_bind(id, local)?;
        Ok(Some(id))
    });
    let Some(id) = unclaimed? else { return Ok(()) };
    let claim = match lane.claim(fd, ClaimKind::Bound, Endpoint::default()) {
        Ok((claim, _)) => claim,
        Err(reason) => return demote(lane, index, id, reason),
    };
    let noted = lane.with(|access| {
        if still(access, index, id)? & flag::CLAIMED != 0 {
            // Another thread was faster.
            return Ok(false);
        }
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        *description.claim() = claim;
        description.set(flag::CLAIMED, true);
        // The service releases the claim of a process that has died before this.
        access.stack.socket_row(id.into())?.claim.set(claim);
        Ok(true)
    });
    if noted == Ok(true) {
        crate::socket::multicast::claimed(lane, fd, index, claim);
    } else {
        lane.release(claim);
    }
    noted.map(drop)
}

/// Binds the kernel socket to a port of its choice, as the first send or connect does on Linux.
fn bind_somewhere(lane: &'static Lane, fd: c_int, index: u32, v6: bool) -> Result<()> {
    let any = Endpoint::new(if v6 { Address::ANY } else { Address::ANY_V4 }, 0);
    let (bytes, len) = sockaddr::emit(any, v6, 0);
    match sys::bind(fd, &bytes[..len]) {
        // Bound already: by another thread, or by the kernel for a send of its own.
        Ok(()) | Err(Errno(libc::EINVAL)) => {}
        Err(error) => return Err(error),
    }
    bound(lane, fd, index)
}

/// `connect`, also with `AF_UNSPEC`.
pub(crate) fn connect(lane: &'static Lane, fd: c_int, index: u32, address: &[u8]) -> Result<()> {
    let (before, device) = (sys::socket_name(fd, false)?, egress_interface::bound_device(fd));
    sys::connect(fd, address)?;
    let (id, flags) = lane.with(|access| id_of(access, index))?;
    let v6 = flags & flag::V6 != 0;
    let SocketName::Inet { endpoint: remote, scope, .. } = SocketName::parse(address) else {
        // The kernel releases a port that it chose itself; the claim needs it.
        let now = sys::socket_name(fd, false)?;
        if now.port == 0 && flags & flag::CLAIMED != 0 {
            let (bytes, len) = sockaddr::emit(Endpoint::new(now.address, before.port), v6, 0);
            sys::bind(fd, &bytes[..len])?;
        }
        // It has also released the interface to which the socket was bound.
        let unbound = device != 0 && egress_interface::bound_device(fd) == 0;
        return lane.with(|access| {
            if flags & flag::CLAIMED != 0 {
                access.stack.udp_connect(id, access.now, None, 0)?;
            }
            let mut descriptions = access.descriptions();
            let mut description = descriptions.get(index);
            description.set(flag::CONNECTED, false);
            if unbound && description.has(flag::VIA) {
                description.set_via(Via::default());
            }
            Ok(())
        });
    };
    let via = lane.with(|access| Ok(access.descriptions().get(index).via()))?;
    let interface = match (egress_interface::scope_of(remote.address, scope), egress_interface::bound_device(fd)) {
        (0, 0) => via.interface(remote.address),
        // The kernel has bound it to the interface of a link-local address, of this connect or an
        // earlier one.
        (0, device) => device,
        (scope, _) => scope,
    };
    // The kernel has chosen the address, or kept that of the connection before.
    let source = sys::socket_name(fd, false)?.address;
    let tos = lane.with(|access| Ok(access.stack.udp_options(id)?.tos))?;
    let query = Query::to(remote.address).from(source).by(interface).of_service(tos);
    if let Err(reason) = lane.reach_from_own(&query) {
        return demote(lane, index, id, reason);
    }
    if flags & flag::CLAIMED == 0 {
        bound(lane, fd, index)?;
    }
    let connected = lane.with(|access| {
        access.stack.udp_connect_from(id, access.now, Some(remote), source, interface)?;
        access.descriptions().get(index).set(flag::CONNECTED, true);
        Ok(())
    });
    match connected {
        Ok(()) => Ok(()),
        // The stack has no room for it: it becomes a kernel socket.
        Err(Errno(libc::ENOBUFS)) => demote(lane, index, id, Reason::LaneFull),
        Err(_) => demote(lane, index, id, Reason::NoRoute),
    }
}

/// What has to be done before a datagram can be sent, or instead.
enum Sent {
    Done(usize),
    Bind,
    Resolve(Query),
    /// The kernel sends this datagram; [`Reason::None`] if the reason is unknown.
    Kernel(Reason),
}

/// Sends one datagram.
pub(crate) fn send(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    to: Option<SocketName>,
    extras: &mut Extras<'_>,
) -> Result<usize> {
    let (destination, scope, of_v6) = match to {
        None => (None, 0, false),
        Some(SocketName::Inet { endpoint, scope, v6 }) => (Some(endpoint), scope, v6),
        // A kernel message with such a name has none.
        Some(_) if extras.name_len == 0 => return Err(Errno(libc::EINVAL)),
        // Wrong families and lengths: the kernel returns the error. No family at all is like no
        // name for an IPv6 socket, and like the IPv4 family for an IPv4 socket.
        Some(_) => return by_kernel(lane, fd, index, buffers, flags, extras, Reason::None),
    };
    let mut call = SendTo { destination, ..SendTo::default() };
    // Only control messages depend on it: without them the lane is entered once.
    let v6 = extras.control.as_ref().is_some_and(ControlBuffer::has_room) && lane.flags_of(index) & flag::V6 != 0;
    // Only a socket of both families has to look up its peer.
    let connected = || match v6 {
        false => Some(Family::V4),
        true => sys::socket_name(fd, true).ok().map(|peer| peer.address.family()),
    };
    match ancillary::for_send(extras, &mut call, v6, connected) {
        _ if flags & (libc::MSG_OOB | MSG_PROBE) != 0 => {
            return by_kernel(lane, fd, index, buffers, flags, extras, Reason::None);
        }
        _ if flags & libc::MSG_MORE != 0 => {
            return by_kernel(lane, fd, index, buffers, flags, extras, Reason::Pieces);
        }
        Ok(0) => call.interface = destination.map_or(0, |peer| egress_interface::scope_of(peer.address, scope)),
        Ok(interface) => call.interface = interface,
        Err(reason) => return by_kernel(lane, fd, index, buffers, flags, extras, reason),
    }
    let mut tries = 0;
    let mut socket = None;
    loop {
        let outcome = wait::transfer(
            lane,
            (fd, index),
            flags,
            |d| d.send_timeout(),
            &mut [NO_FD; OWN],
            |access, _| {
                let (id, bits) = id_of(access, index)?;
                socket = Some((id, bits & flag::V6 != 0));
                if destination.is_some_and(|peer| kernel::refuses_name(SocketKind::Udp, &peer, of_v6, bits)) {
                    return Ok(Sent::Kernel(Reason::None));
                }
                attempt(access, index, id, bits, &call, buffers)
            },
        );
        let outcome = outcome?;
        let Some((id, v6)) = socket else { return Err(DEMOTED) };
        match outcome {
            Sent::Done(len) => return Ok(len),
            Sent::Kernel(reason) => return by_kernel(lane, fd, index, buffers, flags, extras, reason),
            Sent::Bind => bind_somewhere(lane, fd, index, v6)?,
            Sent::Resolve(query) => match lane.reach(&query) {
                Ok(_) => {}
                // The socket sends through an interface that the lane does not have: it becomes a
                // kernel socket, and is shown so.
                Err(Reason::Interface) if query.interface != 0 && call.interface == 0 => {
                    return demote(lane, index, id, Reason::OtherWay);
                }
                Err(reason) => return by_kernel(lane, fd, index, buffers, flags, extras, reason),
            },
        }
        tries += 1;
        if tries > 4 {
            // The path keeps changing; the kernel decides.
            return by_kernel(lane, fd, index, buffers, flags, extras, Reason::None);
        }
    }
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
        None if bits & flag::CONNECTED == 0 => return Ok(Sent::Kernel(Reason::None)),
        None => access.stack.udp_names(id)?.1.ok_or(StackError::NotConnected)?,
    };
    if bits & (flag::CORK | flag::MORE) != 0 {
        return Ok(Sent::Kernel(Reason::Pieces));
    }
    if peer.port == 0 {
        return Ok(Sent::Kernel(Reason::None));
    }
    if peer.address.is_multicast() && bits & flag::LOOP_OFF == 0 {
        return Ok(Sent::Kernel(Reason::MulticastLoop));
    }
    if peer.address.is_limited_broadcast() {
        return Ok(Sent::Kernel(Reason::Broadcast));
    }
    if peer.address.is_loopback() || peer.address.is_unspecified() {
        return Ok(Sent::Kernel(Reason::Loopback));
    }
    if bits & flag::CLAIMED == 0 {
        return Ok(Sent::Bind);
    }
    let mut named = None;
    // A connected socket keeps the path from its connect.
    if bits & flag::VIA != 0 && call.destination.is_some() {
        let via = access.descriptions().get(index).via();
        let interface = if call.interface == 0 { via.interface(peer.address) } else { call.interface };
        let bound = !access.stack.udp_names(id)?.0.address.is_unspecified();
        let source = call.source.or_else(|| via.source(peer.address).filter(|_| !bound));
        named = Some(SendTo { interface, source, ..*call });
    }
    let to = named.as_ref().unwrap_or(call);
    match access.stack.udp_send(id, access.now, to, buffers) {
        Ok(len) => {
            if bits & flag::TRAFFIC == 0 {
                access.descriptions().get(index).set(flag::TRAFFIC, true);
            }
            Ok(Sent::Done(len))
        }
        Err(StackError::NeedPath) => {
            let query = access.stack.udp_query(id, to)?;
            match access.stack.path_get(&query) {
                // The service knows the reason; it is asked once for each socket.
                Some(path) if path.info.state == PathState::Kernel && reason_of(access, id) != 0 => {
                    Ok(Sent::Kernel(Reason::None))
                }
                _ => Ok(Sent::Resolve(query)),
            }
        }
        Err(StackError::NoPath) => {
            let query = access.stack.udp_query(id, to)?;
            if is_without_route(access, &query) {
                // The error depends on the kernel's tables (`ENETUNREACH`, `EACCES`, `EINVAL`):
                // each datagram gets it from there, as the first one did.
                return Ok(Sent::Kernel(Reason::NoRoute));
            }
            // As on Linux, a neighbour that did not answer is resolved again, and datagrams wait
            // meanwhile: the sender gets no error.
            Ok(Sent::Resolve(query))
        }
        Err(error) => {
            // The frames may have run out in the middle of it.
            buffers.rewind();
            Err(error.into())
        }
    }
}

/// Whether the host has no route; an unresolved neighbour is another case.
fn is_without_route(access: &Access<'_>, query: &Query) -> bool {
    let path = access.stack.path_get(query);
    path.is_some_and(|path| path.info.state == PathState::Unreachable && path.info.interface == 0)
}

/// The reason in a socket's row for datagrams that the kernel sent.
fn reason_of(access: &Access<'_>, id: UdpId) -> u32 {
    access.stack.socket_row(id.into()).map_or(0, |row| row.reason.get())
}

fn by_kernel(
    lane: &'static Lane,
    fd: c_int,
    index: u32,
    buffers: &mut Buffers<'_>,
    flags: c_int,
    extras: &mut Extras<'_>,
    reason: Reason,
) -> Result<usize> {
    buffers.rewind();
    let len = sys::send(fd, buffers, flags, extras)?;
    // Answers will arrive through the kernel, too; and the kernel has chosen a port if there was
    // none.
    let claimed = lane.with(|access| {
        let (id, bits) = id_of(access, index)?;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        description.set(flag::KERNEL_QUIET, false);
        description.set(flag::MORE, flags & libc::MSG_MORE != 0);
        if reason != Reason::None
            && let Ok(row) = access.stack.socket_row(id.into())
        {
            row.reason.set(reason.code().into());
        }
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
    // A datagram whose path is unknown.
    let mut stray: Option<(Datagram, u64)> = None;
    let attempt = |access: &mut Access<'_>, kernel: KernelHint| -> Result<usize> {
        let (id, bits) = id_of(access, index)?;
        match access.stack.udp_recv(id, flags & libc::MSG_PEEK != 0, buffers) {
            Ok(datagram) => {
                match ancillary::way(access, bits, &datagram, extras) {
                    Some(way) => ancillary::received(access.now, bits, &datagram, way, extras),
                    None => stray = Some((datagram, bits)),
                }
                if bits & flag::TRAFFIC == 0 {
                    access.descriptions().get(index).set(flag::TRAFFIC, true);
                }
                buffers.rewind();
                return Ok(if flags & libc::MSG_TRUNC != 0 { datagram.len } else { datagram.copied });
            }
            Err(StackError::WouldBlock) => {}
            Err(error) => return Err(error.into()),
        }
        // Only a blocking call returns the end of a socket that was shut down.
        let waits = flags & libc::MSG_DONTWAIT == 0 && bits & flag::NONBLOCK == 0;
        let nothing = if waits && access.stack.udp_is_shut(id)? { Ok(0) } else { Err(AGAIN) };
        let now = access.now;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        if readiness::kernel_is_quiet(kernel, bits, *description.kernel_check(), now) {
            return nothing;
        }
        *description.kernel_check() = now.as_nanos();
        let got = sys::receive(fd, buffers, flags | libc::MSG_DONTWAIT, extras);
        description.set(flag::KERNEL_QUIET, got == Err(AGAIN));
        if got == Err(AGAIN) { nothing } else { got }
    };
    let fds = &mut wait::and(wait::readable(fd));
    let got = wait::transfer(lane, (fd, index), flags, |d| d.receive_timeout(), fds, attempt)?;
    if let Some((datagram, bits)) = stray {
        ancillary::received(sys::now(), bits, &datagram, way_of(lane, &datagram), extras);
    }
    Ok(got)
}

/// Asks the service for the path of a datagram.
fn way_of(lane: &'static Lane, datagram: &Datagram) -> DatagramArrival {
    let source = datagram.source.address;
    let came_by = datagram.interface;
    let unknown = DatagramArrival { interface: came_by, local: Address::ANY };
    let scope = if source.is_link_local() { came_by } else { 0 };
    if source.is_link_local() && scope == 0 {
        // Asked without its interface, the host would report that there is no path.
        return unknown;
    }
    lane.reach(&Query::to(source).by(scope)).map_or(unknown, |path| {
        let interface = if came_by == 0 { path.interface } else { came_by };
        DatagramArrival { interface, local: path.source }
    })
}

/// `shutdown` after the kernel's own.
pub(crate) fn shutdown(lane: &'static Lane, index: u32, how: c_int) -> Result<()> {
    lane.with(|access| {
        let (id, _) = id_of(access, index)?;
        Ok(access.stack.udp_shutdown(id, how != libc::SHUT_WR, how != libc::SHUT_RD)?)
    })
}
