//! The options that are settings of a UDP socket.

use super::SO_SELECT_ERR_QUEUE;
use core::ffi::c_int;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_UDP, SOL_SOCKET};
use tickwire_stack::udp::{MtuDiscover, UdpOptions};

/// The smallest buffers that Linux grants, before it doubles them.
const LEAST_RECEIVE: c_int = 1152;
const LEAST_SEND: c_int = 2304;

/// Sets an option. Returns whether it is a setting of the stack.
#[must_use]
pub fn set(options: &mut UdpOptions, level: c_int, name: c_int, number: c_int) -> bool {
    let byte = |default| if number < 0 { default } else { number as u8 };
    match (level, name) {
        // Linux doubles the requested size, for its own overhead; the stack charges the same way.
        (SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
            options.rcvbuf = (number.max(LEAST_RECEIVE) as u32).saturating_mul(2);
        }
        (SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            options.sndbuf = (number.max(LEAST_SEND) as u32).saturating_mul(2);
        }
        (SOL_SOCKET, SO_SELECT_ERR_QUEUE) => options.exceptional_errors = number != 0,
        (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            (options.ttl, options.own_ttl) = (byte(64), number >= 0);
        }
        (IPPROTO_IP, libc::IP_MULTICAST_TTL) | (IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS) => {
            options.multicast_ttl = byte(1);
        }
        // The lowest byte counts, also of -1; a traffic class of -1 is the default (RFC 3542 §6.5).
        (IPPROTO_IP, libc::IP_TOS) => options.tos = number as u8,
        (IPPROTO_IPV6, libc::IPV6_TCLASS) => options.tos = byte(0),
        (IPPROTO_IP, libc::IP_MTU_DISCOVER) | (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
            options.mtu_discover = mtu_discover(number);
        }
        (IPPROTO_UDP, libc::UDP_SEGMENT) => options.segment = number as u16,
        _ => return false,
    }
    true
}

/// The treatment of datagrams larger than the path's MTU (`IP_PMTUDISC_*`).
fn mtu_discover(number: c_int) -> MtuDiscover {
    match number {
        // It ignores ICMP messages and allows fragments, against forged messages.
        libc::IP_PMTUDISC_DONT | libc::IP_PMTUDISC_OMIT => MtuDiscover::Dont,
        libc::IP_PMTUDISC_DO => MtuDiscover::Do,
        libc::IP_PMTUDISC_PROBE => MtuDiscover::Probe,
        libc::IP_PMTUDISC_INTERFACE => MtuDiscover::Interface,
        _ => MtuDiscover::Want,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(level: c_int, name: c_int, number: c_int) -> UdpOptions {
        let mut options = UdpOptions { tos: 9, ttl: 9, multicast_ttl: 9, ..UdpOptions::default() };
        assert!(set(&mut options, level, name, number), "{level} {name}");
        options
    }

    #[test]
    fn buffers_are_doubled_and_have_a_least_size() {
        for (name, number, size) in [(8, 10_000, 20_000), (33, 0, 2304), (8, i32::MAX, 0xffff_fffe)] {
            assert_eq!(after(1, name, number).rcvbuf, size, "SO_RCVBUF, SO_RCVBUFFORCE {number}");
        }
        for (name, number, size) in [(7, 10_000, 20_000), (32, -1, 4608)] {
            assert_eq!(after(1, name, number).sndbuf, size, "SO_SNDBUF, SO_SNDBUFFORCE {number}");
        }
    }

    #[test]
    fn a_negative_number_restores_the_default() {
        for (level, name) in [(0, 2), (41, 16)] {
            let (set, reset) = (after(level, name, 3), after(level, name, -1));
            assert_eq!((set.ttl, set.own_ttl, reset.ttl, reset.own_ttl), (3, true, 64, false));
        }
        for (level, name) in [(0, 33), (41, 18)] {
            let (set, reset) = (after(level, name, 3), after(level, name, -1));
            assert_eq!((set.multicast_ttl, reset.multicast_ttl), (3, 1));
        }
        assert_eq!((after(41, 67, 0x10).tos, after(41, 67, -1).tos), (0x10, 0), "IPV6_TCLASS");
    }

    #[test]
    fn the_lowest_byte_of_a_type_of_service_counts() {
        for (number, tos) in [(0x10, 0x10), (0, 0), (300, 44), (-1, 255), (-200, 56)] {
            assert_eq!(after(0, 1, number).tos, tos, "IP_TOS {number}");
        }
    }

    #[test]
    fn each_treatment_of_large_datagrams_has_its_number() {
        for (number, treatment) in [
            (0, MtuDiscover::Dont),
            (1, MtuDiscover::Want),
            (2, MtuDiscover::Do),
            (3, MtuDiscover::Probe),
            (4, MtuDiscover::Interface),
            (5, MtuDiscover::Dont),
            (6, MtuDiscover::Want),
        ] {
            assert_eq!(after(0, 10, number).mtu_discover, treatment, "IP_MTU_DISCOVER {number}");
            assert_eq!(after(41, 23, number).mtu_discover, treatment, "IPV6_MTU_DISCOVER {number}");
        }
    }

    #[test]
    fn an_error_may_be_an_exceptional_event() {
        assert_eq!([0, 1].map(|on| after(1, 45, on).exceptional_errors), [false, true], "SO_SELECT_ERR_QUEUE");
    }

    #[test]
    fn other_options_change_nothing() {
        assert_eq!(after(17, 103, 1400).segment, 1400, "UDP_SEGMENT");
        let mut options = UdpOptions::default();
        for (level, name) in [(1, 2), (6, 1), (17, 1), (17, 104), (0, 8), (999, 8)] {
            assert!(!set(&mut options, level, name, 1), "{level} {name}");
        }
    }
}
