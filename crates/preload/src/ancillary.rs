//! What comes beside a datagram: its sender's name and control messages, both ways.

use crate::c::name;
use crate::c::sys::Extras;
use crate::desc::flag;
use crate::lane::Access;
use core::ffi::c_int;
use tickwire_stack::addr::Address;
use tickwire_stack::time::Instant;
use tickwire_stack::udp::{Datagram, SendTo};

/// Fills in what `recvmsg` says about a datagram of the stack.
pub(crate) fn received(access: &mut Access<'_>, bits: u64, datagram: &Datagram, extras: &mut Extras<'_>) {
    let v6 = bits & flag::V6 != 0;
    const WANTED: u64 = flag::PKTINFO | flag::RECVTTL | flag::RECVTOS | flag::TIMESTAMP | flag::TIMESTAMPNS;
    let interface = if bits & WANTED != 0 || datagram.source.address.is_link_local() {
        access.stack.path_get(&datagram.source.address).map_or(0, |path| path.info.interface)
    } else {
        0
    };
    (extras.name, extras.name_len) = name::emit(datagram.source, v6, interface);
    extras.flags = if datagram.copied < datagram.len { libc::MSG_TRUNC } else { 0 };
    let Some(control) = extras.control.as_mut().filter(|_| bits & WANTED != 0) else { return };
    let mut whole = true;
    let has = |bit| bits & bit != 0;
    if has(flag::TIMESTAMPNS) || has(flag::TIMESTAMP) {
        let (seconds, ns) = real_time(access.now, datagram.at);
        let (kind, fine) =
            if has(flag::TIMESTAMPNS) { (libc::SCM_TIMESTAMPNS, ns) } else { (libc::SCM_TIMESTAMP, ns / 1000) };
        let mut data = [0; 16];
        data[..8].copy_from_slice(&seconds.to_ne_bytes());
        data[8..].copy_from_slice(&fine.to_ne_bytes());
        whole &= control.push(libc::SOL_SOCKET, kind, &data);
    }
    let number = |n: u8| c_int::from(n).to_ne_bytes();
    // A v6 socket tells of an IPv4 datagram in IPv4's messages where Linux does so (TTL, TOS), and of its address mapped.
    let v4 = datagram.destination.to_v4();
    if has(flag::PKTINFO) {
        match v4 {
            Some(octets) if !v6 => {
                let mut data = [0; 12];
                data[..4].copy_from_slice(&interface.to_ne_bytes());
                data[4..8].copy_from_slice(&octets);
                data[8..].copy_from_slice(&octets);
                whole &= control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &data);
            }
            _ => {
                let mut data = [0; 20];
                data[..16].copy_from_slice(&datagram.destination.0);
                data[16..].copy_from_slice(&interface.to_ne_bytes());
                whole &= control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
            }
        }
    }
    if has(flag::RECVTTL) {
        let (level, kind) =
            if v4.is_some() { (libc::IPPROTO_IP, libc::IP_TTL) } else { (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) };
        whole &= control.push(level, kind, &number(datagram.ttl));
    }
    if has(flag::RECVTOS) {
        whole &= match v4 {
            Some(_) => control.push(libc::IPPROTO_IP, libc::IP_TOS, &[datagram.tos]),
            None => control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &number(datagram.tos)),
        };
    }
    if !whole {
        extras.flags |= libc::MSG_CTRUNC;
    }
}

/// The wall clock's reading at `at`, given that it is `now`: seconds and nanoseconds.
fn real_time(now: Instant, at: Instant) -> (i64, i64) {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let then = wall.as_nanos().saturating_sub(u128::from(now.since(at).as_nanos()));
    ((then / 1_000_000_000) as i64, (then % 1_000_000_000) as i64)
}

/// Reads the control messages of a send into `call`; `false` if one of them is for the kernel only.
pub(crate) fn for_send(extras: &Extras<'_>, call: &mut SendTo) -> bool {
    let mut ours = true;
    let Some(control) = &extras.control else { return true };
    control.each(|level, kind, data| {
        let number = data.first_chunk().map(|b| c_int::from_ne_bytes(*b));
        match (level, kind, number) {
            // Which interface, if any, is the route's business as long as none is named.
            (libc::IPPROTO_IP, libc::IP_PKTINFO, Some(0)) if data.len() >= 12 => {
                call.source = Some(Address::v4([data[4], data[5], data[6], data[7]]));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, _) if data.len() >= 20 && data[16..20] == [0; 4] => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&data[..16]);
                call.source = Some(Address(octets));
            }
            (libc::IPPROTO_IP, libc::IP_TTL, Some(ttl @ 1..=255))
            | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, Some(ttl @ 0..=255)) => call.ttl = Some(ttl as u8),
            (libc::IPPROTO_IP, libc::IP_TOS, _) if !data.is_empty() => call.tos = Some(data[0]),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, Some(class @ 0..=255)) => call.tos = Some(class as u8),
            _ => ours = false,
        }
    });
    ours
}
