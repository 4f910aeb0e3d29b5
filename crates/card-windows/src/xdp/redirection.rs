//! Which frames are redirected.

use super::driver::XdpRule;
use tickwire_stack::addr::{Address, Family};
use tickwire_steer::tables::Protocol;

/// `ICMP` of IPv4.
const ICMP: u8 = 1;
/// The fragment header of IPv6.
const IPV6_FRAGMENT: u8 = 44;

/// The rules for a host with these addresses. `takes_all_udp`: not that for claimed ports only.
pub(super) fn redirected(addresses: &[Address], takes_all_udp: bool) -> Vec<XdpRule> {
    let udp = if takes_all_udp { XdpRule::Udp } else { XdpRule::UdpPorts };
    // IPv4 first: a rule costs each packet that does not match it.
    let of = |family| addresses.iter().filter(move |address| address.family() == family && !address.is_loopback());
    let tcp = of(Family::V4).chain(of(Family::V6)).map(|&address| XdpRule::TcpPortsOf(address));
    // ICMP of IPv6 is left to the kernel: without neighbour discovery, which no rule can tell from
    // errors, the host has no network while the service does not answer.
    let others = [XdpRule::NextHeader(ICMP), XdpRule::NextHeader(IPV6_FRAGMENT)];
    [udp].into_iter().chain(tcp).chain(others).collect()
}

/// The port for which the first fragment of a datagram of IPv4 is; `None`: a frame is no such one.
pub(super) fn first_fragment_of(frame: &[u8]) -> Option<u16> {
    /// More fragments follow, and the upper bits of the offset.
    const MORE: u8 = 0x20;
    const OFFSET: u8 = 0x1f;
    let packet = frame.get(14..)?;
    let is_v4 = frame[12..14] == [8, 0] && *packet.first()? == 0x45;
    let is_first = is_v4 && matches!(packet.get(6..8)?, &[flags, 0] if flags & (MORE | OFFSET) == MORE);
    let port = packet.get(22..24).filter(|_| is_first && packet[9] == Protocol::Udp.number())?;
    Some(u16::from_be_bytes([port[0], port[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_a_rule_and_those_of_ipv4_come_first() {
        let (v4, v6) = (Address::v4([10, 0, 0, 1]), Address([0xfd; 16]));
        let others = [XdpRule::NextHeader(1), XdpRule::NextHeader(44)];
        let tcp = [XdpRule::TcpPortsOf(v4), XdpRule::TcpPortsOf(v6)];
        let all = redirected(&[v6, Address::v4([127, 0, 0, 1]), v4], false);
        assert_eq!(all, [&[XdpRule::UdpPorts][..], &tcp, &others].concat());
        assert_eq!(redirected(&[], true), [&[XdpRule::Udp][..], &others].concat());
    }
}
