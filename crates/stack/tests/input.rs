//! Which packets the IP layer accepts, and the counter under which it drops the others.

mod common;

use common::{counter, frame, ip, ip_v4, open, received, udp};
use tickwire_sim::{PairConfig, SimulatedPair};
use tickwire_stack::UdpId;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::checksum::plain;

struct Target {
    pair: SimulatedPair,
    sockets: [UdpId; 2],
}

impl Target {
    fn new() -> Self {
        let mut pair = SimulatedPair::new(&PairConfig::default());
        let sockets = [open(&mut pair, 0, Address::ANY_V4, 1000), open(&mut pair, 0, Address::ANY, 1001)];
        Self { pair, sockets }
    }

    fn ends(&self, family: usize) -> (Endpoint, Endpoint) {
        let [own, peer] = [0, 1].map(|h| self.pair.host(h).addresses[family]);
        (Endpoint::new(peer, 9), Endpoint::new(own, 1000 + family as u16))
    }

    /// A valid packet with five bytes for the socket of that family.
    fn good(&self, family: usize) -> Vec<u8> {
        let (from, to) = self.ends(family);
        ip(from.address, to.address, 17, &udp(from, to, b"hello"))
    }

    fn give(&mut self, bytes: &[u8]) {
        let now = self.pair.now();
        assert!(self.pair.host_mut(0).receive(now, bytes));
    }

    /// Whether the given packet arrived intact at either socket; no other data may arrive.
    fn heard(&mut self) -> bool {
        let all: Vec<_> = self.sockets.iter().flat_map(|&id| received(&mut self.pair, 0, id)).collect();
        assert!(all.iter().all(|bytes| bytes == b"hello"), "{all:?}");
        assert_eq!(self.pair.frames_held(0), 0);
        !all.is_empty()
    }

    /// The packet must be dropped for that reason.
    fn dropped(&mut self, frame: &[u8], reason: &str, what: &str) {
        let before = counter(&mut self.pair, 0, reason);
        self.give(frame);
        assert!(!self.heard(), "{what}");
        assert_eq!(counter(&mut self.pair, 0, reason), before + 1, "{what}: not counted as {reason}");
    }
}

/// An IPv4 packet changed by hand, with its header checksum recomputed.
fn fixed(mut packet: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut packet);
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 15) * 4;
    let sum = plain(&packet[..header.min(packet.len())]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// RFC 1122 §3.2.1.8, RFC 8200 §4.
#[test]
fn good_packets_pass_with_padding_options_and_extension_headers() {
    let mut target = Target::new();
    for family in 0..2 {
        let mut packet = frame(&target.good(family));
        target.give(&packet);
        assert!(target.heard());
        packet.resize(packet.len() + 18, 0xee);
        target.give(&packet);
        assert!(target.heard(), "with link-layer padding");
    }
    let with_options = fixed(target.good(0), |packet| {
        packet[0] = 0x47;
        packet[3] += 8;
        packet.splice(20..20, [7, 7, 4, 0, 0, 0, 0, 0]);
    });
    target.give(&frame(&with_options));
    assert!(target.heard(), "with IPv4 options");
    let (from, to) = target.ends(1);
    let headers = [60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
    let with_headers = ip(from.address, to.address, 0, &[&headers[..], &udp(from, to, b"hello")].concat());
    target.give(&frame(&with_headers));
    assert!(target.heard(), "with IPv6 extension headers");
}

/// RFC 791 §3.1, RFC 1122 §3.2.1.1 and §3.2.1.2, RFC 8200 §3.
#[test]
fn broken_headers_are_dropped_by_reason() {
    let mut target = Target::new();
    let (v4, v6) = (target.good(0), target.good(1));
    let mut bad = v4.clone();
    bad[8] ^= 1;
    target.dropped(&frame(&bad), "IpInHdrErrors", "header checksum");
    target.dropped(&frame(&fixed(v4.clone(), |p| p[0] = 0x44)), "IpInHdrErrors", "header shorter than a header");
    target.dropped(&frame(&fixed(v4.clone(), |p| p[0] = 0x4f)), "IpInHdrErrors", "header longer than the packet");
    target.dropped(&frame(&fixed(v4.clone(), |p| p[3] = 19)), "IpInHdrErrors", "total length below the header's");
    target.dropped(&frame(&fixed(v4.clone(), |p| p[3] += 1)), "IpInTruncatedPkts", "longer than what came");
    target.dropped(&frame(&v4[..19]), "IpInTruncatedPkts", "less than a header");
    target.dropped(&frame(&v6[..39]), "IpInTruncatedPkts", "less than an IPv6 header");
    let mut long = v6.clone();
    long[5] += 1;
    target.dropped(&frame(&long), "IpInTruncatedPkts", "payload longer than what came");
    let mut version = frame(&v6);
    version[14] = 0x70;
    target.dropped(&version, "IpInHdrErrors", "version");
    target.dropped(&[0; 13], "EthInUnknown", "less than an Ethernet header");
    let mut vlan = frame(&v4);
    vlan[12..14].copy_from_slice(&[0x81, 0x00]);
    target.dropped(&vlan, "EthInUnknown", "a VLAN tag");
}

/// RFC 7126 §4.3, §4.4.
#[test]
fn source_routes_and_options_without_sense_are_refused() {
    let mut target = Target::new();
    for options in
        [[1, 131, 7, 4, 10, 0, 0, 9], [1, 137, 7, 4, 10, 0, 0, 9], [68, 9, 5, 0, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0, 0, 0]]
    {
        let packet = fixed(target.good(0), |packet| {
            packet[0] = 0x47;
            packet[3] += 8;
            packet.splice(20..20, options);
        });
        target.dropped(&frame(&packet), "IpInHdrErrors", "an option");
    }
}

/// RFC 1122 §3.2.1.3 and §3.3.6, RFC 4291 §2.5.2, §2.5.3 and §2.7.
#[test]
fn impossible_addresses_are_refused() {
    let mut target = Target::new();
    let (from, to) = target.ends(0);
    let v4 = |octets| Endpoint::new(Address::v4(octets), 9);
    let groups = [[224, 0, 0, 1], [224, 0, 0, 2], [224, 0, 1, 42], [232, 1, 2, 3], [239, 255, 255, 255]];
    for octets in groups.into_iter().chain([[0, 0, 0, 0], [127, 0, 0, 1], [255, 255, 255, 255]]) {
        let packet = ip(v4(octets).address, to.address, 17, &udp(v4(octets), to, b"hello"));
        target.dropped(&frame(&packet), "IpInAddrErrors", "source");
    }
    for octets in [[0, 0, 0, 0], [127, 0, 0, 1]] {
        let packet = ip(from.address, v4(octets).address, 17, &udp(from, v4(octets), b"hello"));
        target.dropped(&frame(&packet), "IpInAddrErrors", "destination");
    }
    let (from, to) = target.ends(1);
    for (scope, group) in [(1, 1), (2, 1), (2, 2), (5, 2), (1, 0x42), (2, 0x4242), (0xe, 1)] {
        let source = u128::from(0xff00_u16 | scope) << 112 | group;
        let source = Endpoint::new(Address(source.to_be_bytes()), 9);
        let packet = ip(source.address, to.address, 17, &udp(source, to, b"hello"));
        target.dropped(&frame(&packet), "IpInAddrErrors", "a group as the source");
    }
    for last in [0, 1] {
        let source = Endpoint::new(Address(u128::to_be_bytes(last)), 9);
        let packet = ip(source.address, to.address, 17, &udp(source, to, b"hello"));
        target.dropped(&frame(&packet), "IpInAddrErrors", "the unspecified or the loopback address as the source");
    }
    let mut mapped = ip(from.address, to.address, 17, &udp(from, to, b"hello"));
    mapped[8..24].copy_from_slice(&Address::v4([10, 0, 0, 2]).0);
    target.dropped(&frame(&mapped), "IpInAddrErrors", "a mapped address on the wire");
    let mut to_all = frame(&target.good(0));
    to_all[..6].fill(0xff);
    target.dropped(&to_all, "IpInAddrErrors", "a unicast packet in a broadcast frame");
}

#[test]
fn protocols_that_are_not_ours_are_counted() {
    let mut target = Target::new();
    for (family, protocol) in [(0, 2), (0, 58), (0, 132), (1, 1), (1, 59), (1, 89)] {
        let (from, to) = target.ends(family);
        let packet = ip(from.address, to.address, protocol, &[0; 40]);
        target.dropped(&frame(&packet), "IpInUnknownProtos", "protocol");
    }
}

/// RFC 768, RFC 1122 §4.1.3.4, RFC 8200 §8.1.
#[test]
fn broken_datagrams_are_dropped_by_reason() {
    let mut target = Target::new();
    for family in 0..2 {
        let (from, to) = target.ends(family);
        let good = udp(from, to, b"hello");
        let around = |datagram: &[u8]| frame(&ip(from.address, to.address, 17, datagram));
        let changed = |at: usize, value: u8| {
            let mut datagram = good.clone();
            datagram[at] = value;
            around(&datagram)
        };
        target.dropped(&changed(12, b'x'), "UdpInCsumErrors", "a changed byte");
        target.dropped(&changed(5, 7), "UdpInErrors", "length below a header's");
        target.dropped(&changed(5, 14), "UdpInErrors", "length beyond the packet");
        target.dropped(&around(&good[..7]), "UdpInErrors", "less than a header");
        let mut elsewhere = to;
        elsewhere.port = 7;
        target.dropped(&around(&udp(from, elsewhere, b"hello")), "UdpNoPorts", "a port without a socket");
        let mut unsummed = good.clone();
        unsummed[6..8].fill(0);
        if family == 0 {
            target.give(&around(&unsummed));
            assert!(target.heard(), "IPv4 allows datagrams without checksum");
        } else {
            target.dropped(&around(&unsummed), "UdpInCsumErrors", "IPv6 does not");
        }
        // Bytes after the datagram but within the packet are not part of it.
        target.give(&around(&[&good[..], b"more"].concat()));
        assert!(target.heard());
    }
}

/// RFC 791 §3.2: only a completely reassembled datagram is delivered.
#[test]
fn a_fragment_of_nothing_in_particular_is_not_delivered() {
    let mut target = Target::new();
    let (from, to) = target.ends(0);
    let (from, to) = (from.address.to_v4().unwrap(), to.address.to_v4().unwrap());
    // The second half of a datagram, which does not contain the ports.
    target.give(&frame(&ip_v4(from, to, 17, 9, 2, &[0; 16])));
    assert_eq!(target.pair.frames_held(0), 1);
    assert!(target.sockets.iter().all(|&id| target.pair.stack(0).udp_next_len(id) == Ok(None)));
}
