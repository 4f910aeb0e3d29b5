//! How each socket option is treated, in one table.
//!
//! The kernel socket behind a descriptor takes every option that Linux has. For a socket on the
//! lane that is not enough: an option that is accepted and then ignored silently changes what the
//! program does. So each option is honoured, or makes no difference, or turns the socket into a
//! kernel socket, with a reason in `tickwire stat`. Once a socket has had traffic over the lane it
//! cannot become a kernel socket any more. Then such an option is refused with the error of an
//! unknown option, for which programs are prepared.

use core::ffi::c_int;
use tickwire_lane::control::Reason;
use tickwire_linux_abi::membership;
use tickwire_linux_abi::option;

/// How an option is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionPolicy {
    /// The stack implements it; or the kernel socket does, which is responsible for it (names,
    /// ports, groups, broadcasts).
    Honoured,
    /// A program cannot observe whether it was implemented: it permits something, or concerns parts
    /// of the kernel that a lane does not use.
    Harmless,
    /// Only the kernel's stack has it: before there was traffic the socket becomes a kernel socket,
    /// afterwards the option is refused.
    Kernel(Reason),
    /// Refused at any time with this error.
    Refused(c_int),
}

use OptionPolicy::{Harmless, Honoured, Kernel, Refused};

/// The error of an option that came too late.
pub(crate) const TOO_LATE: c_int = libc::ENOPROTOOPT;

/// How an option of a TCP socket, or of a UDP socket, is treated. One that is not in the table
/// needs the kernel: it is newer than this library.
pub(crate) fn of(tcp: bool, level: c_int, name: c_int) -> OptionPolicy {
    match (level, tcp) {
        (libc::SOL_SOCKET, _) => of_sockets(tcp, name),
        (libc::IPPROTO_IP, _) => of_ip(name),
        (libc::IPPROTO_IPV6, _) => of_ipv6(name),
        (libc::IPPROTO_TCP, true) => of_tcp(name),
        (libc::IPPROTO_UDP, false) => of_udp(name),
        _ => Kernel(Reason::Option),
    }
}

/// Whether a value switches an option off (or is the initial value), which the lane always
/// satisfies.
pub(crate) fn is_neutral(level: c_int, name: c_int, value: &[u8]) -> bool {
    match (level, name) {
        // A descriptor, which may be 0; and a filter.
        (
            libc::SOL_SOCKET,
            libc::SO_ATTACH_BPF
            | libc::SO_ATTACH_FILTER
            | libc::SO_ATTACH_REUSEPORT_CBPF
            | libc::SO_ATTACH_REUSEPORT_EBPF,
        ) => false,
        // As in the kernel, where one byte is the lowest threshold, and all ones mean any rate, or
        // no offset.
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => {
            matches!(value.first_chunk(), Some(b) if matches!(i32::from_ne_bytes(*b), 0 | 1))
        }
        (libc::SOL_SOCKET, option::SO_MAX_PACING_RATE | libc::SO_PEEK_OFF) => value.iter().all(|&b| b == u8::MAX),
        // The algorithms that the stack has.
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => option::algorithm(value).is_some(),
        _ => value.iter().all(|&b| b == 0),
    }
}

/// Whether the kernel socket has to belong to the program alone before it gets the option: the
/// service puts filters on the sockets of lanes.
pub(crate) fn is_filter(level: c_int, name: c_int) -> bool {
    level == libc::SOL_SOCKET && matches!(name, libc::SO_ATTACH_FILTER | libc::SO_ATTACH_BPF | option::SO_LOCK_FILTER)
}

fn of_sockets(tcp: bool, name: c_int) -> OptionPolicy {
    match name {
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO => Honoured,
        libc::SO_SNDBUF | libc::SO_RCVBUF | libc::SO_SNDBUFFORCE | libc::SO_RCVBUFFORCE => Honoured,
        libc::SO_KEEPALIVE | libc::SO_OOBINLINE | libc::SO_LINGER => Honoured,
        // The kernel is the registry of ports, and handles broadcasts.
        libc::SO_REUSEADDR | libc::SO_REUSEPORT | libc::SO_BROADCAST => Honoured,
        libc::SO_BINDTODEVICE | option::SO_BINDTOIFINDEX => Honoured,
        libc::SO_TIMESTAMP | libc::SO_TIMESTAMPNS => Honoured,
        option::SO_TIMESTAMP_NEW | option::SO_TIMESTAMPNS_NEW => Kernel(Reason::Stamps),
        libc::SO_TIMESTAMPING | option::SO_TIMESTAMPING_NEW | option::SO_TXTIME => Kernel(Reason::Stamps),
        option::SO_ZEROCOPY => Kernel(Reason::ZeroCopy),
        libc::SO_ATTACH_FILTER | libc::SO_ATTACH_BPF | option::SO_LOCK_FILTER => Kernel(Reason::Filter),
        libc::SO_ATTACH_REUSEPORT_CBPF | libc::SO_ATTACH_REUSEPORT_EBPF => Kernel(Reason::Filter),
        // The program has none; a filter there is the service's (SO_DETACH_BPF, the same number,
        // also removes it).
        libc::SO_DETACH_FILTER => Refused(libc::ENOENT),
        libc::SO_DETACH_REUSEPORT_BPF => Refused(libc::ENOENT),
        libc::SO_MARK | libc::SO_DONTROUTE | option::SO_MAX_PACING_RATE | option::SO_RCVMARK => Kernel(Reason::Policy),
        // A datagram can only be received as a whole.
        libc::SO_RCVLOWAT if !tcp => Harmless,
        // Streams lose nothing.
        libc::SO_RXQ_OVFL => {
            if tcp {
                Harmless
            } else {
                Honoured
            }
        }
        libc::SO_RCVLOWAT | libc::SO_PEEK_OFF => Kernel(Reason::Option),
        option::SO_WIFI_STATUS => Kernel(Reason::Option),
        // It orders packets in the host's queueing disciplines, and no packet of a lane is in one.
        libc::SO_PRIORITY => Harmless,
        // `tickwire run --spin` decides on that.
        libc::SO_BUSY_POLL | option::SO_PREFER_BUSY_POLL | option::SO_BUSY_POLL_BUDGET => Harmless,
        // A pending error of a UDP socket is exceptional then.
        option::SO_SELECT_ERR_QUEUE if !tcp => Honoured,
        // The error queue of a connection is always empty.
        option::SO_SELECT_ERR_QUEUE => Harmless,
        // A datagram with a checksum is as good as one without.
        libc::SO_NO_CHECK => Harmless,
        // They concern the kernel's own memory, processors, hashes and neighbours.
        option::SO_BUF_LOCK
        | option::SO_RESERVE_MEM
        | option::SO_INCOMING_CPU
        | option::SO_TXREHASH
        | option::SO_CNX_ADVICE => Harmless,
        // Without meaning for IP.
        libc::SO_DEBUG | libc::SO_BSDCOMPAT | libc::SO_PASSCRED | libc::SO_PASSSEC => Harmless,
        _ => Kernel(Reason::Option),
    }
}

fn of_ip(name: c_int) -> OptionPolicy {
    match name {
        libc::IP_TTL | libc::IP_TOS | libc::IP_MTU_DISCOVER => Honoured,
        libc::IP_PKTINFO | libc::IP_RECVTTL | libc::IP_RECVTOS => Honoured,
        libc::IP_UNICAST_IF | libc::IP_MULTICAST_IF | libc::IP_MULTICAST_TTL | libc::IP_MULTICAST_LOOP => Honoured,
        libc::IP_MULTICAST_ALL => Honoured,
        _ if membership::concerns(libc::IPPROTO_IP, name) => Honoured,
        // The kernel decides what may be bound, and to which port.
        libc::IP_FREEBIND | libc::IP_BIND_ADDRESS_NO_PORT | option::IP_LOCAL_PORT_RANGE => Honoured,
        libc::IP_RECVERR | option::IP_RECVERR_RFC4884 => Kernel(Reason::Errors),
        // No peer of a lane has a security label.
        libc::IP_PASSSEC => Harmless,
        // Options in headers, addresses that are not the host's, IPsec, further control messages.
        _ => Kernel(Reason::Option),
    }
}

fn of_ipv6(name: c_int) -> OptionPolicy {
    match name {
        libc::IPV6_UNICAST_HOPS | libc::IPV6_TCLASS | libc::IPV6_MTU_DISCOVER | libc::IPV6_V6ONLY => Honoured,
        libc::IPV6_RECVPKTINFO | libc::IPV6_RECVHOPLIMIT | libc::IPV6_RECVTCLASS => Honoured,
        libc::IPV6_UNICAST_IF | libc::IPV6_MULTICAST_IF => Honoured,
        libc::IPV6_MULTICAST_HOPS | libc::IPV6_MULTICAST_LOOP | option::IPV6_MULTICAST_ALL => Honoured,
        _ if membership::concerns(libc::IPPROTO_IPV6, name) => Honoured,
        libc::IPV6_FREEBIND => Honoured,
        libc::IPV6_RECVERR | option::IPV6_RECVERR_RFC4884 => Kernel(Reason::Errors),
        // Flow labels help routers to spread load; none is as good as any (RFC 6437 §3).
        libc::IPV6_AUTOFLOWLABEL => Harmless,
        // Extension headers, flow labels by name, sticky addresses, IPsec, further control
        // messages.
        _ => Kernel(Reason::Option),
    }
}

fn of_tcp(name: c_int) -> OptionPolicy {
    match name {
        libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_QUICKACK | libc::TCP_MAXSEG => Honoured,
        libc::TCP_NOTSENT_LOWAT | libc::TCP_LINGER2 => Honoured,
        libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT | libc::TCP_USER_TIMEOUT => Honoured,
        // Cubic and reno are (see `is_neutral`).
        libc::TCP_CONGESTION => Kernel(Reason::Congestion),
        // It behaves the same when the peer does not support it, or has given no cookie yet (RFC
        // 7413 §3).
        libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT => Harmless,
        libc::TCP_FASTOPEN_KEY | libc::TCP_FASTOPEN_NO_COOKIE => Harmless,
        // The kernel hands over connections without data, too, when the time is over.
        libc::TCP_DEFER_ACCEPT => Harmless,
        // Faster recovery of thin streams. RACK-TLP detects their losses after a round trip, and
        // the first timeout is 5 ms: for the first second even doubled ones come before Linux'
        // linear ones.
        libc::TCP_THIN_LINEAR_TIMEOUTS | libc::TCP_THIN_DUPACK => Harmless,
        libc::TCP_MD5SIG | libc::TCP_MD5SIG_EXT => Kernel(Reason::Security),
        option::TCP_AO_ADD_KEY..=option::TCP_AO_REPAIR => Kernel(Reason::Security),
        libc::TCP_ULP => Kernel(Reason::Security),
        option::TCP_TX_DELAY => Kernel(Reason::Policy),
        // TCP_WINDOW_CLAMP, TCP_SYNCNT, TCP_INQ, TCP_SAVE_SYN, TCP_REPAIR and related options.
        _ => Kernel(Reason::Option),
    }
}

fn of_udp(name: c_int) -> OptionPolicy {
    match name {
        // While it is set everything is sent by the kernel.
        libc::UDP_CORK => Honoured,
        libc::UDP_SEGMENT => Honoured,
        // It permits the kernel to deliver several datagrams as one, and to report when it did.
        libc::UDP_GRO => Harmless,
        // A datagram with a checksum is as good as one without.
        libc::UDP_NO_CHECK6_TX => Harmless,
        // UDP_ENCAP, UDP_NO_CHECK6_RX.
        _ => Kernel(Reason::Option),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::udp::UdpOptions;

    /// The treatment of the options that programs are known to use, on TCP sockets and on UDP
    /// sockets.
    #[test]
    fn every_option_of_the_table_means_what_it_says() {
        let rows: &[(c_int, c_int, OptionPolicy, OptionPolicy)] = &[
            (libc::SOL_SOCKET, libc::SO_RCVBUF, Honoured, Honoured),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, Honoured, Honoured),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, Kernel(Reason::Stamps), Kernel(Reason::Stamps)),
            (libc::SOL_SOCKET, option::SO_TXTIME, Kernel(Reason::Stamps), Kernel(Reason::Stamps)),
            (libc::SOL_SOCKET, option::SO_ZEROCOPY, Kernel(Reason::ZeroCopy), Kernel(Reason::ZeroCopy)),
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, Kernel(Reason::Filter), Kernel(Reason::Filter)),
            (libc::SOL_SOCKET, libc::SO_MARK, Kernel(Reason::Policy), Kernel(Reason::Policy)),
            (libc::SOL_SOCKET, libc::SO_PRIORITY, Harmless, Harmless),
            (libc::SOL_SOCKET, libc::SO_BUSY_POLL, Harmless, Harmless),
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT, Kernel(Reason::Option), Harmless),
            (libc::IPPROTO_IP, libc::IP_RECVERR, Kernel(Reason::Errors), Kernel(Reason::Errors)),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, Kernel(Reason::Errors), Kernel(Reason::Errors)),
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT, Kernel(Reason::Option), Kernel(Reason::Option)),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG, Honoured, Kernel(Reason::Option)),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, Honoured, Kernel(Reason::Option)),
            (libc::IPPROTO_TCP, libc::TCP_LINGER2, Honoured, Kernel(Reason::Option)),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, Harmless, Kernel(Reason::Option)),
            (libc::IPPROTO_TCP, libc::TCP_MD5SIG, Kernel(Reason::Security), Kernel(Reason::Option)),
            (libc::IPPROTO_TCP, libc::TCP_ULP, Kernel(Reason::Security), Kernel(Reason::Option)),
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT, Kernel(Reason::Option), Honoured),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, Harmless, Honoured),
            (libc::IPPROTO_UDP, libc::UDP_GRO, Kernel(Reason::Option), Harmless),
            (libc::SOL_SOCKET, 10_000, Kernel(Reason::Option), Kernel(Reason::Option)),
            (libc::SOL_TLS, 1, Kernel(Reason::Option), Kernel(Reason::Option)),
        ];
        for &(level, name, tcp, udp) in rows {
            assert_eq!((of(true, level, name), of(false, level, name)), (tcp, udp), "level {level}, option {name}");
        }
    }

    /// An option that is a setting of the stack is set there, and those about groups are read.
    #[test]
    fn what_the_stack_has_is_honoured() {
        for level in [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::IPPROTO_IPV6, libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
            for name in 0..256 {
                let of_tcp = option::tcp::setting(level, name, 1).is_some();
                let of_udp = option::udp::set(&mut UdpOptions::default(), level, name, 1);
                let of_groups = membership::concerns(level, name);
                assert!(!(of_tcp || of_groups) || of(true, level, name) == Honoured, "TCP: {level} {name}");
                assert!(!(of_udp || of_groups) || of(false, level, name) == Honoured, "UDP: {level} {name}");
            }
        }
    }

    #[test]
    fn to_switch_off_what_is_off_makes_no_difference() {
        let neutral = |level, name, value: &[u8]| is_neutral(level, name, value);
        assert!(neutral(libc::IPPROTO_IP, libc::IP_RECVERR, &0i32.to_ne_bytes()));
        assert!(neutral(libc::IPPROTO_IP, libc::IP_OPTIONS, &[]));
        assert!(!neutral(libc::IPPROTO_IP, libc::IP_RECVERR, &1i32.to_ne_bytes()));
        assert!(!neutral(libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &0i32.to_ne_bytes()));
        assert!(neutral(libc::SOL_SOCKET, option::SO_MAX_PACING_RATE, &u64::MAX.to_ne_bytes()));
        assert!(neutral(libc::SOL_SOCKET, libc::SO_RCVLOWAT, &1i32.to_ne_bytes()));
        assert!(!neutral(libc::SOL_SOCKET, libc::SO_RCVLOWAT, &64i32.to_ne_bytes()));
        assert!(neutral(libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"reno\0"));
        assert!(!neutral(libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"bbr"));
    }
}
