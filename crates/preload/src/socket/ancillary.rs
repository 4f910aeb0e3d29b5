//! The data beside a datagram: its sender's name and control messages, both ways. Also the receive
//! time of stream data.

use crate::lane::Access;
use crate::sys::errno::Errno;
use crate::sys::{ControlBuffer, Extras};
use crate::table::desc::flag;
use core::ffi::c_int;
use tickwire_lane::control::Reason;
use tickwire_linux_abi::option::SO_TXTIME as SCM_TXTIME;
use tickwire_linux_abi::sockaddr;
use tickwire_stack::addr::{Address, Family};
use tickwire_stack::path::{PathState, Query};
use tickwire_stack::time::Instant;
use tickwire_stack::udp::{Datagram, SendTo};

const WANTED: u64 = flag::PKTINFO
    | flag::RECVTTL
    | flag::RECVTOS
    | flag::PKTINFO6
    | flag::HOPLIMIT
    | flag::TCLASS
    | flag::TIMESTAMP
    | flag::TIMESTAMPNS
    | flag::RXQ_OVFL;

/// How a datagram arrived: its interface, and the host's address that an answer would come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatagramArrival {
    pub(crate) interface: u32,
    pub(crate) local: Address,
}

/// The path by which a datagram arrived, which is also the path back; `None` if the program wants
/// to know it and the service has to be asked.
pub(crate) fn way(access: &Access<'_>, bits: u64, datagram: &Datagram, extras: &Extras<'_>) -> Option<DatagramArrival> {
    let told = bits & (flag::PKTINFO | flag::PKTINFO6) != 0 && extras.control.is_some();
    let interface = datagram.interface;
    // Only for a datagram to a group does the program need the local address of an answer.
    if interface != 0 && !(told && datagram.destination.is_multicast()) {
        return Some(DatagramArrival { interface, local: Address::ANY });
    }
    if !told && !datagram.source.address.is_link_local() {
        return Some(DatagramArrival::default());
    }
    match access.stack.path_get(&Query::to(datagram.source.address)) {
        Some(path) if path.inferred == 0 && path.info.state != PathState::Free => {
            let interface = if interface == 0 { path.info.interface } else { interface };
            Some(DatagramArrival { interface, local: path.info.source })
        }
        _ => (!told).then(DatagramArrival::default),
    }
}

/// Fills in what `recvmsg` at `now` returns about a datagram of the stack.
pub(crate) fn received(now: Instant, bits: u64, datagram: &Datagram, way: DatagramArrival, extras: &mut Extras<'_>) {
    let v6 = bits & flag::V6 != 0;
    let DatagramArrival { interface, local } = way;
    (extras.name, extras.name_len) = sockaddr::emit(datagram.source, v6, interface);
    extras.flags = if datagram.copied < datagram.len { libc::MSG_TRUNC } else { 0 };
    let Some(control) = extras.control.as_mut().filter(|_| bits & WANTED != 0) else { return };
    let mut whole = true;
    let has = |bit| bits & bit != 0;
    whole &= push_stamp(control, bits, now, datagram.at);
    // As in Linux, which omits a count of zero.
    if has(flag::RXQ_OVFL) && datagram.drops != 0 {
        whole &= control.push(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &datagram.drops.to_ne_bytes());
    }
    let number = |n: u8| c_int::from(n).to_ne_bytes();
    // On Linux each option covers the datagrams of its own family. IPV6_PKTINFO also covers those
    // of IPv4, with the address mapped.
    if has(flag::PKTINFO6) {
        let mut data = [0; 20];
        data[..16].copy_from_slice(&datagram.destination.0);
        data[16..].copy_from_slice(&interface.to_ne_bytes());
        whole &= control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
    }
    if let Some(octets) = datagram.destination.to_v4() {
        if has(flag::PKTINFO) {
            // As Linux fills in `ipi_spec_dst`: the source address of an answer, which is never a
            // group.
            let own = if datagram.destination.is_multicast() { local.to_v4().unwrap_or_default() } else { octets };
            let mut data = [0; 12];
            data[..4].copy_from_slice(&interface.to_ne_bytes());
            data[4..8].copy_from_slice(&own);
            data[8..].copy_from_slice(&octets);
            whole &= control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &data);
        }
        if has(flag::RECVTTL) {
            whole &= control.push(libc::IPPROTO_IP, libc::IP_TTL, &number(datagram.ttl));
        }
        if has(flag::RECVTOS) {
            whole &= control.push(libc::IPPROTO_IP, libc::IP_TOS, &[datagram.tos]);
        }
    } else {
        if has(flag::HOPLIMIT) {
            whole &= control.push(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &number(datagram.ttl));
        }
        if has(flag::TCLASS) {
            whole &= control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &number(datagram.tos));
        }
    }
    if !whole {
        extras.flags |= libc::MSG_CTRUNC;
    }
}

/// Fills in the receive time of the last data that a call has taken of a stream.
pub(crate) fn stamped(now: Instant, bits: u64, at: Instant, extras: &mut Extras<'_>) {
    if let Some(control) = &mut extras.control
        && !push_stamp(control, bits, now, at)
    {
        extras.flags |= libc::MSG_CTRUNC;
    }
}

/// Adds the receive time, if the program wants it. False if there is no room.
fn push_stamp(control: &mut ControlBuffer<'_>, bits: u64, now: Instant, at: Instant) -> bool {
    let fine = bits & flag::TIMESTAMPNS != 0;
    if !fine && bits & flag::TIMESTAMP == 0 {
        return true;
    }
    let (seconds, ns) = real_time(now, at);
    let (kind, rest) = if fine { (libc::SCM_TIMESTAMPNS, ns) } else { (libc::SCM_TIMESTAMP, ns / 1000) };
    let mut data = [0; 16];
    data[..8].copy_from_slice(&seconds.to_ne_bytes());
    data[8..].copy_from_slice(&rest.to_ne_bytes());
    control.push(libc::SOL_SOCKET, kind, &data)
}

/// The wall clock's time at `at`, given that it is `now`: seconds and nanoseconds.
fn real_time(now: Instant, at: Instant) -> (i64, i64) {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let then = wall.as_nanos().saturating_sub(u128::from(now.since(at).as_nanos()));
    ((then / 1_000_000_000) as i64, (then % 1_000_000_000) as i64)
}

/// Reads the control messages of a send into `call`, and returns which interface they name (0:
/// none); the reason if one of them needs the kernel.
///
/// `v6` is the socket's family; `connected` returns the family of the peer that it is connected to.
pub(crate) fn for_send(
    extras: &Extras<'_>,
    call: &mut SendTo,
    v6: bool,
    connected: impl Fn() -> Option<Family>,
) -> Result<u32, Reason> {
    let mut reason = Reason::None;
    let mut interface = 0;
    let Some(control) = &extras.control else { return Ok(0) };
    // The kernel returns the right error.
    if control.is_malformed() {
        return Err(Reason::Option);
    }
    let word = |data: &[u8], at: usize| data[at..].first_chunk().map_or(0, |b| u32::from_ne_bytes(*b));
    control.each(|level, kind, data| {
        let number = data.first_chunk().filter(|_| data.len() == 4).map(|b| c_int::from_ne_bytes(*b));
        // As on Linux, messages of the other family are ignored, except for the source of an IPv4
        // datagram, which has to be an IPv4 address.
        let is_ip = matches!(level, libc::IPPROTO_IP | libc::IPPROTO_IPV6);
        let to = call.destination.map(|to| to.address.family());
        let is_mapped = || data.first_chunk().is_some_and(|octets| Address(*octets).to_v4().is_some());
        match (level, to.or_else(|| is_ip.then(&connected).flatten())) {
            (libc::IPPROTO_IPV6, _) if !v6 => return,
            (libc::IPPROTO_IP, Some(Family::V6)) => return,
            (libc::IPPROTO_IPV6, Some(Family::V4)) if kind != libc::IPV6_PKTINFO => return,
            (libc::IPPROTO_IPV6, Some(Family::V4)) if !is_mapped() => return reason = Reason::Option,
            _ => {}
        }
        match (level, kind, number) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO, _) if data.len() == 12 => {
                interface = word(data, 0);
                call.source = Some(Address::v4([data[4], data[5], data[6], data[7]]));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, _) if data.len() >= 20 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&data[..16]);
                interface = word(data, 16);
                call.source = Some(Address(octets));
            }
            (libc::IPPROTO_IP, libc::IP_TTL, Some(ttl @ 1..=255))
            | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, Some(ttl @ 0..=255)) => call.ttl = Some(ttl as u8),
            (libc::IPPROTO_IP, libc::IP_TOS, Some(tos @ 0..=255)) => call.tos = Some(tos as u8),
            (libc::IPPROTO_IP, libc::IP_TOS, None) if data.len() == 1 => call.tos = Some(data[0]),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, Some(class @ 0..=255)) => call.tos = Some(class as u8),
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT, _) if data.len() == 2 => {
                call.segment = data.first_chunk().map(|b| u16::from_ne_bytes(*b));
            }
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING | SCM_TXTIME, _) => reason = Reason::Stamps,
            (libc::SOL_SOCKET, libc::SO_MARK, _) => reason = Reason::Policy,
            _ => reason = Reason::Option,
        }
    });
    if reason == Reason::None { Ok(interface) } else { Err(reason) }
}

/// Checks the control messages of a send on a stream: none has an effect on it, but some are
/// errors.
///
/// # Errors
/// `EINVAL` where Linux returns it (`sock_cmsg_send`).
pub(crate) fn for_stream(extras: &Extras<'_>) -> Result<(), Errno> {
    let Some(control) = &extras.control else { return Ok(()) };
    let mut known = true;
    control.each(|level, kind, _| {
        known &= level != libc::SOL_SOCKET
            || matches!(
                kind,
                libc::SCM_RIGHTS | libc::SCM_CREDENTIALS | libc::SO_MARK | libc::SO_PRIORITY | libc::SO_TIMESTAMPING
            );
    });
    if known && !control.is_malformed() { Ok(()) } else { Err(Errno(libc::EINVAL)) }
}
