//! Rules, as the driver has them in memory.

use super::driver::XdpRule;
use super::port_sets::PortSets;
use tickwire_steer::tables::Protocol;

/// `XDP_RULE`, which redirects to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RuleRecord {
    condition: u32,
    gap: u32,
    /// The pattern of the condition, which is a union.
    pattern: [u64; 5],
    action: u32,
    action_gap: u32,
    target_type: u32,
    target_gap: u32,
    target: u64,
}

/// `XDP_MATCH_...`.
const ALL_UDP: u32 = 1;
const UDP_PORT_SET: u32 = 9;
const IPV4_TCP_PORT_SET: u32 = 12;
const IPV6_TCP_PORT_SET: u32 = 13;
const IP_NEXT_HEADER: u32 = 18;

/// `XDP_PROGRAM_ACTION_REDIRECT`.
const REDIRECT: u32 = 2;

impl RuleRecord {
    /// A rule. `target`: the handle of the socket.
    #[must_use]
    pub fn new(rule: XdpRule, ports: &PortSets, target: u64) -> Self {
        let set = |protocol| ports.address(protocol).addr() as u64;
        let (condition, pattern) = match rule {
            XdpRule::Udp => (ALL_UDP, [0; 5]),
            XdpRule::UdpPorts => (UDP_PORT_SET, [set(Protocol::Udp), 0, 0, 0, 0]),
            XdpRule::TcpPortsOf(address) => {
                let (condition, bytes) = match address.to_v4() {
                    Some(v4) => {
                        let mut bytes = [0; 16];
                        bytes[..4].copy_from_slice(&v4);
                        (IPV4_TCP_PORT_SET, bytes)
                    }
                    None => (IPV6_TCP_PORT_SET, address.0),
                };
                let [first, second] = words(bytes);
                (condition, [first, second, set(Protocol::Tcp), 0, 0])
            }
            XdpRule::NextHeader(number) => {
                (IP_NEXT_HEADER, [u64::from_ne_bytes([number, 0, 0, 0, 0, 0, 0, 0]), 0, 0, 0, 0])
            }
        };
        Self { condition, gap: 0, pattern, action: REDIRECT, action_gap: 0, target_type: 0, target_gap: 0, target }
    }
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    [word(0), word(8)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use tickwire_stack::addr::Address;

    #[test]
    fn a_record_is_as_long_as_that_of_the_drivers_header() {
        assert_eq!(size_of::<RuleRecord>(), 72);
        assert_eq!((offset_of!(RuleRecord, pattern), offset_of!(RuleRecord, action)), (8, 48));
        assert_eq!((offset_of!(RuleRecord, target_type), offset_of!(RuleRecord, target)), (56, 64));
    }

    #[test]
    fn a_rule_has_its_pattern_where_the_driver_looks_for_it() {
        let ports = PortSets::default();
        let udp = RuleRecord::new(XdpRule::UdpPorts, &ports, 0x44);
        assert_eq!((udp.condition, udp.pattern[0], udp.pattern[1]), (9, ports.address(Protocol::Udp).addr() as u64, 0));
        assert_eq!((udp.action, udp.target_type, udp.target), (2, 0, 0x44));
        let v4 = RuleRecord::new(XdpRule::TcpPortsOf(Address::v4([10, 0, 0, 1])), &ports, 1);
        let tcp = ports.address(Protocol::Tcp).addr() as u64;
        let expected = [u64::from_ne_bytes([10, 0, 0, 1, 0, 0, 0, 0]), 0, tcp, 0, 0];
        assert_eq!((v4.condition, v4.pattern), (12, expected));
        let v6 = RuleRecord::new(XdpRule::TcpPortsOf(Address([0xfd; 16])), &ports, 1);
        assert_eq!((v6.condition, v6.pattern[1], v6.pattern[2]), (13, 0xfdfd_fdfd_fdfd_fdfd, tcp));
        let all = RuleRecord::new(XdpRule::Udp, &ports, 1);
        assert_eq!((all.condition, all.pattern), (1, [0; 5]));
        let icmp = RuleRecord::new(XdpRule::NextHeader(1), &ports, 1);
        assert_eq!((icmp.condition, icmp.pattern), (18, [1, 0, 0, 0, 0]));
    }
}
