//! Which frames rules match, as the real driver does it: it looks at the port of every fragment,
//! and knows neither options of IPv4 nor extension headers of IPv6.

use super::super::driver::XdpRule;
use super::super::port_sets::PortSets;
use tickwire_steer::tables::Protocol;

/// What rules look at.
struct Fields<'f> {
    destination: &'f [u8],
    next_header: u8,
    port: Option<u16>,
}

fn fields(frame: &[u8]) -> Option<Fields<'_>> {
    let (next_header, destination, transport) = match (frame.get(12..14)?, *frame.get(14)?) {
        ([8, 0], 0x45) => (*frame.get(23)?, frame.get(30..34)?, 34),
        ([0x86, 0xdd], _) => (*frame.get(20)?, frame.get(38..54)?, 54),
        _ => return None,
    };
    let port = frame.get(transport + 2..transport + 4).map(|port| u16::from_be_bytes([port[0], port[1]]));
    Some(Fields { destination, next_header, port })
}

/// Whether one of the rules matches a frame.
pub(super) fn matches(rules: &[XdpRule], ports: &PortSets, frame: &[u8]) -> bool {
    let Some(Fields { destination, next_header, port }) = fields(frame) else { return false };
    let is_in = |protocol: Protocol| {
        next_header == protocol.number() && port.is_some_and(|port| ports.contains(protocol, port))
    };
    rules.iter().any(|rule| match *rule {
        XdpRule::Udp => next_header == Protocol::Udp.number(),
        XdpRule::UdpPorts => is_in(Protocol::Udp),
        XdpRule::TcpPortsOf(address) => {
            let is_address = match address.to_v4() {
                Some(v4) => destination == v4,
                None => destination == address.0,
            };
            is_address && is_in(Protocol::Tcp)
        }
        XdpRule::NextHeader(number) => next_header == number,
    })
}
