//! Programs that capture packets: with a packet socket (`AF_PACKET`) or a raw socket of IP they see
//! the packets that reach the kernel, and diverted packets do not. If a program opens such a
//! socket, its UDP sockets, and all sockets that it makes afterwards, are kernel sockets. Its
//! connections stay where they are.
//!
//! GigE Vision programs (Aravis) read a stream this way: the UDP socket has the port, a packet
//! socket receives the datagrams.

use crate::lane::{self, Lane};
use crate::socket::kernel;
use crate::sys::errno::ANEW;
use crate::table::fd::{Entry, TABLE};
use crate::wait::Same;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tickwire_lane::control::Reason;

/// `SOCK_PACKET`, the obsolete packet socket.
const SOCK_PACKET: c_int = 10;

/// Whether this process, or one that it was forked from, has opened such a socket.
static READS_WIRE: AtomicBool = AtomicBool::new(false);

/// Whether a socket that has been made with these arguments sees received IP packets.
pub(crate) fn sees_packets(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    match (domain, kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)) {
        (libc::AF_PACKET, _) | (libc::AF_INET, SOCK_PACKET) => is_of_ip(u16::from_be(protocol as u16)),
        // A socket of this protocol only sends.
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_RAW) => protocol != libc::IPPROTO_RAW,
        _ => false,
    }
}

/// Whether a socket that has been bound to this name does: the name gives a protocol to a socket
/// that was made without one. (`struct sockaddr_ll`: the family, then the protocol in network
/// order.)
pub(crate) fn sees_packets_of(name: &[u8]) -> bool {
    let Some((&[f0, f1, p0, p1], _)) = name.split_first_chunk() else { return false };
    u16::from_ne_bytes([f0, f1]) == libc::AF_PACKET as u16 && is_of_ip(u16::from_be_bytes([p0, p1]))
}

/// Whether frames of this protocol may hold packets of IP. (Those of PTP, LLDP or ARP do not.)
fn is_of_ip(protocol: u16) -> bool {
    [libc::ETH_P_ALL, libc::ETH_P_IP, libc::ETH_P_IPV6].contains(&c_int::from(protocol))
}

/// Whether new sockets of this process are kernel sockets.
pub(crate) fn reads_wire() -> bool {
    READS_WIRE.load(SeqCst)
}

/// A packet socket has been opened.
#[cold]
pub(crate) fn opened() {
    READS_WIRE.store(true, SeqCst);
    if let Some(lane) = lane::current() {
        give_datagrams(lane);
    }
}

/// Gives the UDP sockets of this process to the kernel. Queued datagrams are lost.
pub(crate) fn give_datagrams(lane: &'static Lane) {
    for (fd, _) in TABLE.each() {
        while let Entry::Udp(index) = TABLE.get(fd) {
            match lane.with(|access| Same::of(access, fd, index)) {
                Ok(socket) => kernel::give_to_kernel(lane, &socket, Reason::PacketSocket),
                Err(ANEW) => continue,
                // It is being closed, or the lane has ended.
                Err(_) => {}
            }
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_see_packets_of_ip_are_told_from_others() {
        let of = |protocol: c_int| c_int::from((protocol as u16).to_be());
        let raw = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        for (domain, kind, protocol) in [
            (libc::AF_PACKET, raw, of(libc::ETH_P_ALL)),
            (libc::AF_PACKET, libc::SOCK_DGRAM, of(libc::ETH_P_IP)),
            (libc::AF_INET, SOCK_PACKET, of(libc::ETH_P_ALL)),
            (libc::AF_INET, raw, libc::IPPROTO_UDP),
            (libc::AF_INET6, raw, libc::IPPROTO_ICMPV6),
        ] {
            assert!(sees_packets(domain, kind, protocol), "{domain} {kind} {protocol}");
        }
        for (domain, kind, protocol) in [
            (libc::AF_PACKET, raw, 0),
            (libc::AF_PACKET, raw, of(0x88f7)),
            (libc::AF_INET, raw, libc::IPPROTO_RAW),
            (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
            (libc::AF_UNIX, libc::SOCK_DGRAM, 0),
        ] {
            assert!(!sees_packets(domain, kind, protocol), "{domain} {kind} {protocol}");
        }
        let name =
            |family: c_int, protocol: [u8; 2]| [&(family as u16).to_ne_bytes()[..], &protocol, &[0; 16]].concat();
        assert!(sees_packets_of(&name(libc::AF_PACKET, [0, 3])) && sees_packets_of(&name(libc::AF_PACKET, [8, 0])));
        assert!(!sees_packets_of(&name(libc::AF_PACKET, [0, 0])) && !sees_packets_of(&name(libc::AF_INET, [0, 3])));
        assert!(!sees_packets_of(&[17, 0]));
    }
}
