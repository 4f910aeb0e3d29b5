//! The filter of a handle: which packets the driver takes.
//!
//! A filter is fixed when its handle is opened. It is a list of tests with jumps, so neighbouring
//! ports are one range, and other protocols' ports are not looked at.

use super::error::WinDivertError;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use tickwire_steer::tables::{NicIndex, Protocol};

/// The most tests that the driver accepts in a filter. (Its library accepts one more.)
pub const MOST_TESTS: usize = 255;

/// Arriving packets of the interface. What this host sends to itself does not arrive.
const ARRIVALS: &str = "inbound and !loopback and ifIdx ==";

/// ICMP errors, any of which may quote a packet of a lane: destination unreachable, time exceeded,
/// parameter problem; of version 6 also packet too big.
const ERRORS: &str = "icmp.Type == 3 or icmp.Type == 11 or icmp.Type == 12 or icmpv6.Type <= 4";

/// Tests of [`ARRIVALS`], of the protocols, and of [`ERRORS`].
const OTHER_TESTS: usize = 3 + 2 + 4;

/// The most tests that ports may take.
pub const MOST_PORT_TESTS: usize = MOST_TESTS - OTHER_TESTS;

/// The ports of which the driver takes packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DivertedPorts {
    tcp: BTreeSet<u16>,
    udp: BTreeSet<u16>,
}

impl DivertedPorts {
    /// Adds a port, or takes one out. Returns whether that has changed something.
    pub fn set(&mut self, protocol: Protocol, port: u16, is_diverted: bool) -> bool {
        let ports = match protocol {
            Protocol::Tcp => &mut self.tcp,
            Protocol::Udp => &mut self.udp,
        };
        if is_diverted { ports.insert(port) } else { ports.remove(&port) }
    }

    /// Whether a port is among them.
    #[must_use]
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        match protocol {
            Protocol::Tcp => self.tcp.contains(&port),
            Protocol::Udp => self.udp.contains(&port),
        }
    }

    /// Adds a block of ports, or takes it out.
    pub fn set_block(&mut self, protocol: Protocol, ports: RangeInclusive<u16>, is_diverted: bool) {
        for port in ports {
            self.set(protocol, port, is_diverted);
        }
    }

    /// Whether all of these ports are among others.
    #[must_use]
    pub fn is_within(&self, others: &Self) -> bool {
        self.tcp.is_subset(&others.tcp) && self.udp.is_subset(&others.udp)
    }

    /// How many tests of a filter these ports take. Those of several sets together take no more
    /// than each set by itself.
    #[must_use]
    pub fn tests(&self) -> usize {
        ranges(&self.tcp).iter().chain(&ranges(&self.udp)).map(tests_of).sum()
    }

    /// The filter that takes the packets for these ports from an interface, and ICMP errors. Of no
    /// port it takes nothing.
    ///
    /// # Errors
    /// [`WinDivertError::TooManyPorts`] if it had more tests than [`MOST_TESTS`].
    pub fn filter(&self, interface: NicIndex) -> Result<String, WinDivertError> {
        if self.tcp.is_empty() && self.udp.is_empty() {
            return Ok("false".into());
        }
        let (tcp, udp) = (ranges(&self.tcp), ranges(&self.udp));
        let tests = OTHER_TESTS + self.tests();
        if tests > MOST_TESTS {
            return Err(WinDivertError::TooManyPorts { tests, most: MOST_TESTS });
        }
        let (tcp, udp) = (any_of("tcp.DstPort", &tcp), any_of("udp.DstPort", &udp));
        Ok(format!("{ARRIVALS} {interface} and (tcp? ({tcp}): (udp? ({udp}): ({ERRORS})))"))
    }
}

/// Neighbouring ports as ranges.
fn ranges(ports: &BTreeSet<u16>) -> Vec<RangeInclusive<u16>> {
    let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
    for &port in ports {
        match ranges.last_mut() {
            Some(range) if u32::from(*range.end()) + 1 == u32::from(port) => *range = *range.start()..=port,
            _ => ranges.push(port..=port),
        }
    }
    ranges
}

/// How many tests a range is.
fn tests_of(range: &RangeInclusive<u16>) -> usize {
    if range.start() == range.end() { 1 } else { 2 }
}

/// Whether a field is in one of these ranges, in the filter's language.
fn any_of(field: &str, ranges: &[RangeInclusive<u16>]) -> String {
    let mut text = String::new();
    for range in ranges {
        let (first, last) = (range.start(), range.end());
        let or = if text.is_empty() { "" } else { " or " };
        let _ = if first == last {
            write!(text, "{or}{field} == {first}")
        } else {
            write!(text, "{or}({field} >= {first} and {field} <= {last})")
        };
    }
    if text.is_empty() { "false".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(tcp: &[u16], udp: &[u16]) -> DivertedPorts {
        DivertedPorts { tcp: tcp.iter().copied().collect(), udp: udp.iter().copied().collect() }
    }

    #[test]
    fn no_port_takes_nothing() {
        assert_eq!(DivertedPorts::default().filter(3).unwrap(), "false");
    }

    #[test]
    fn neighbouring_ports_are_a_range_and_icmp_errors_are_taken() {
        let filter = ports(&[80, 443, 1000, 1002, 1001, 65_535], &[]).filter(12).unwrap();
        let expected = "inbound and !loopback and ifIdx == 12 and (tcp? (tcp.DstPort == 80 or tcp.DstPort == 443 \
                        or (tcp.DstPort >= 1000 and tcp.DstPort <= 1002) or tcp.DstPort == 65535): (udp? (false): \
                        (icmp.Type == 3 or icmp.Type == 11 or icmp.Type == 12 or icmpv6.Type <= 4)))";
        assert_eq!(filter, expected);
        let filter = ports(&[], &[7, 8]).filter(1).unwrap();
        assert!(filter.contains("(tcp? (false): (udp? ((udp.DstPort >= 7 and udp.DstPort <= 8)):"), "{filter}");
    }

    #[test]
    fn a_filter_has_no_more_tests_than_the_driver_accepts() {
        let single: Vec<u16> = (1..).step_by(2).take(MOST_TESTS - OTHER_TESTS).collect();
        let filter = ports(&single, &[]).filter(1).unwrap();
        let tests = filter.matches("==").count()
            + filter.matches("<=").count()
            + "inbound, loopback, tcp, udp".split(", ").count();
        assert_eq!(tests, MOST_TESTS);
        let refused = ports(&single, &[7]).filter(1).unwrap_err();
        assert!(matches!(refused, WinDivertError::TooManyPorts { tests: 256, most: 255 }), "{refused}");
        assert_eq!(ports(&single, &[]).tests(), MOST_PORT_TESTS);
        assert_eq!(ports(&[1, 2, 3, 5], &[3]).tests(), 2 + 1 + 1);
        let all: Vec<u16> = (0..=65_535).collect();
        assert!(ports(&all, &all).filter(1).unwrap().contains("tcp.DstPort >= 0 and tcp.DstPort <= 65535"));
    }

    #[test]
    fn ports_are_set_by_protocol() {
        let mut ports = DivertedPorts::default();
        assert!(ports.set(Protocol::Udp, 7, true) && !ports.set(Protocol::Udp, 7, true));
        assert!(ports.contains(Protocol::Udp, 7) && !ports.contains(Protocol::Tcp, 7));
        assert!(ports.is_within(&ports) && DivertedPorts::default().is_within(&ports));
        assert!(!ports.is_within(&DivertedPorts::default()));
        assert!(!ports.set(Protocol::Tcp, 7, false) && ports.set(Protocol::Udp, 7, false));
        assert_eq!(ports, DivertedPorts::default());
    }
}
