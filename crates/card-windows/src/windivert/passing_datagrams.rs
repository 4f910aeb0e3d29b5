//! When datagrams of NTP have passed the driver: a handle gets copies of them, in both directions,
//! and the packets themselves go on.

use super::batch::ReceivedBatch;
use super::driver::{DivertHandle, Reception};
use super::ip_packet;
use super::record::{AddressRecord, RecordFlag};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tickwire_stack::addr::Family;

/// The filter of such a handle: what this host sends to servers, and what they answer.
pub const NTP_FILTER: &str = "!loopback and udp and (outbound? (udp.DstPort == 123): (udp.SrcPort == 123))";

/// So many are remembered: more than are sent to servers, and answered, at a time.
const MOST: usize = 64;

/// At most so many calls' packets are looked at at once: a flood does not stop the clock.
const MOST_BATCHES: usize = 16;

/// The header of UDP, and the shortest message of NTP.
const UDP: usize = 8;
const SHORTEST: usize = 48;

/// The protocol number of UDP.
const UDP_NUMBER: u8 = 17;

/// A datagram, as a socket of this host has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketDatagram<'d> {
    /// This host sends it.
    pub is_outgoing: bool,
    /// The port of this host.
    pub local: u16,
    /// The other end.
    pub peer: SocketAddr,
    /// What is in it.
    pub data: &'d [u8],
}

#[derive(Debug)]
struct Passed {
    is_outgoing: bool,
    local: u16,
    peer: SocketAddr,
    data: Box<[u8]>,
    count: i64,
}

/// The datagrams that have passed lately.
#[derive(Debug)]
pub struct PassingDatagrams<H> {
    handle: H,
    batch: ReceivedBatch,
    passed: VecDeque<Passed>,
    has_ended: bool,
}

impl<H: DivertHandle> PassingDatagrams<H> {
    /// Those of a handle with [`NTP_FILTER`].
    pub fn new(handle: H) -> Self {
        Self { handle, batch: ReceivedBatch::default(), passed: VecDeque::with_capacity(MOST), has_ended: false }
    }

    /// Whether the driver is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// When a datagram has passed, in counts of the performance counter; of several that are the
    /// same, the last one. `None`: it has not, or that is forgotten. To be called by one thread.
    pub fn count_of(&mut self, datagram: &SocketDatagram<'_>) -> Option<i64> {
        self.collect();
        let is_it = |passed: &&Passed| {
            (passed.is_outgoing, passed.local, passed.peer) == (datagram.is_outgoing, datagram.local, datagram.peer)
                && *passed.data == *datagram.data
        };
        self.passed.iter().rev().find(is_it).map(|passed| passed.count)
    }

    /// Takes what the driver has. So there is room for what passes next.
    pub fn collect(&mut self) {
        for _ in 0..MOST_BATCHES {
            match self.handle.receive(&mut self.batch) {
                Ok(Reception::Packets) => self.remember(),
                Ok(Reception::Truncated) => (),
                Ok(Reception::Nothing) => return,
                Ok(Reception::Ended) | Err(_) => {
                    self.has_ended = true;
                    return;
                }
            }
        }
    }

    fn remember(&mut self) {
        while let Some(packet) = self.batch.next_packet(&mut 0) {
            let Some(passed) = passed(&packet.record, packet.family, self.batch.bytes(&packet)) else { continue };
            if self.passed.len() == MOST {
                self.passed.pop_front();
            }
            self.passed.push_back(passed);
        }
    }
}

/// What a packet is, if it is a whole datagram that may be of NTP.
fn passed(record: &AddressRecord, family: Family, packet: &[u8]) -> Option<Passed> {
    if ip_packet::protocol(packet, family) != Some(UDP_NUMBER) {
        return None;
    }
    let address = |at: usize| match family {
        Family::V4 => Some(IpAddr::from(Ipv4Addr::from(*packet.get(12 + 4 * at..)?.first_chunk::<4>()?))),
        Family::V6 => Some(IpAddr::from(Ipv6Addr::from(*packet.get(8 + 16 * at..)?.first_chunk::<16>()?))),
    };
    let header = match family {
        // No fragment.
        Family::V4 if packet[6] & 0x3f != 0 || packet[7] != 0 => return None,
        Family::V4 => usize::from(packet[0] & 0xf) * 4,
        Family::V6 => 40,
    };
    let datagram = packet.get(header..)?;
    let word = |at: usize| Some(u16::from_be_bytes(*datagram.get(at..)?.first_chunk()?));
    let (source, destination, length) = (word(0)?, word(2)?, usize::from(word(4)?));
    let data = datagram.get(UDP..length).filter(|data| data.len() >= SHORTEST)?;
    let is_outgoing = record.has(RecordFlag::Outbound);
    let (local, peer) = match is_outgoing {
        true => (source, SocketAddr::new(address(1)?, destination)),
        false => (destination, SocketAddr::new(address(0)?, source)),
    };
    Some(Passed { is_outgoing, local, peer, data: data.into(), count: record.timestamp() })
}

#[cfg(test)]
mod tests {
    use super::super::batch::OutgoingBatch;
    use super::super::batch::tests::fill;
    use super::super::ip_packet::tests::{v4, v6};
    use super::super::record::tests::arrived;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::io;

    const HERE: [u8; 4] = [10, 0, 0, 1];

    type Packets = Vec<(AddressRecord, Vec<u8>)>;

    /// A handle that has these packets, and is told to stop then.
    struct TestHandle(VecDeque<Packets>);

    impl DivertHandle for TestHandle {
        fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<Reception> {
            let Some(packets) = self.0.pop_front() else { return Ok(Reception::Ended) };
            if packets.is_empty() {
                return Ok(Reception::Nothing);
            }
            fill(batch, &packets);
            Ok(Reception::Packets)
        }

        fn send(&mut self, _: &OutgoingBatch) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn stop(&mut self) {}
    }

    fn passing(batches: impl IntoIterator<Item = Packets>) -> PassingDatagrams<TestHandle> {
        PassingDatagrams::new(TestHandle(batches.into_iter().chain([vec![]]).collect()))
    }

    /// A datagram between these ports, in an IP packet whose payload the functions of tests make.
    fn with_datagram(mut packet: Vec<u8>, header: usize, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
        let length = (UDP + data.len()) as u16;
        let fields = [ports.0, ports.1, length, 0].map(u16::to_be_bytes).concat();
        packet[header..header + UDP].copy_from_slice(&fields);
        packet[header + UDP..header + UDP + data.len()].copy_from_slice(data);
        packet
    }

    /// From 10.0.0.2, which is the peer, or to it.
    fn datagram_v4(to: [u8; 4], ports: (u16, u16), data: &[u8]) -> Vec<u8> {
        with_datagram(v4(UDP_NUMBER, to, UDP + data.len()), 20, ports, data)
    }

    #[test]
    fn datagrams_are_found_by_direction_ends_and_data() {
        let (request, answer) = ([1; SHORTEST], [2; 60]);
        let server = [10, 0, 0, 9];
        let packets = vec![
            (arrived(3, 70, &[RecordFlag::Outbound, RecordFlag::Sniffed]), datagram_v4(server, (4000, 123), &request)),
            (arrived(3, 90, &[RecordFlag::Sniffed]), datagram_v4(HERE, (123, 4000), &answer)),
            (
                arrived(3, 95, &[RecordFlag::Sniffed, RecordFlag::Ipv6]),
                with_datagram(v6(UDP_NUMBER, [0xfc; 16], UDP + 60), 40, (123, 4001), &answer),
            ),
        ];
        let mut passing = passing([packets]);
        let out = SocketDatagram { is_outgoing: true, local: 4000, peer: (server, 123).into(), data: &request };
        let back = SocketDatagram { is_outgoing: false, local: 4000, peer: ([10, 0, 0, 2], 123).into(), data: &answer };
        let back_v6 = SocketDatagram { local: 4001, peer: ([0xfd_u8; 16], 123).into(), ..back };
        assert_eq!(passing.count_of(&out), Some(70));
        assert_eq!((passing.count_of(&back), passing.count_of(&back_v6)), (Some(90), Some(95)));
        let others = [
            SocketDatagram { is_outgoing: false, ..out },
            SocketDatagram { local: 4001, ..out },
            SocketDatagram { peer: (server, 124).into(), ..out },
            SocketDatagram { data: &request[1..], ..out },
            SocketDatagram { data: &[3; SHORTEST], ..out },
        ];
        assert!(others.iter().all(|other| passing.count_of(other).is_none()));
        assert!(passing.has_ended());
    }

    #[test]
    fn fragments_and_other_packets_are_passed_over_and_the_oldest_are_forgotten() {
        let data = |number: u8| [number; SHORTEST];
        let record = |count| arrived(3, count, &[]);
        let mut fragment = datagram_v4(HERE, (123, 9), &data(1));
        fragment[6] = 0x20;
        let mut later = datagram_v4(HERE, (123, 9), &data(1));
        later[7] = 1;
        let mut long = datagram_v4(HERE, (123, 9), &data(1));
        long[25] = 200;
        let other = v4(6, HERE, 60);
        let short = datagram_v4(HERE, (123, 9), &[1; SHORTEST - 1]);
        let none = [fragment, later, long, other, short].map(|packet| (record(1), packet)).to_vec();
        let mut passing_none = passing([none]);
        passing_none.collect();
        assert!(passing_none.passed.is_empty());

        let many =
            (0..=MOST as u8).map(|number| vec![(record(number.into()), datagram_v4(HERE, (123, 9), &data(number)))]);
        let mut passing = passing(many);
        let peer = ([10, 0, 0, 2], 123).into();
        let mut count =
            |number| passing.count_of(&SocketDatagram { is_outgoing: false, local: 9, peer, data: &data(number) });
        // A call looks at a bounded number.
        assert_eq!((count(15), count(16), count(60), count(63)), (Some(15), Some(16), None, Some(63)));
        assert_eq!((count(64), count(0), count(1)), (Some(64), None, Some(1)));
    }

    proptest! {
        #[test]
        fn any_packet_is_a_datagram_or_passed_over(
            is_v6: bool,
            payload in 0..120_usize,
            changed in vec((0..160_usize, any::<u8>()), 0..8),
        ) {
            let mut packet =
                if is_v6 { v6(UDP_NUMBER, [0xfd; 16], payload) } else { v4(UDP_NUMBER, HERE, payload) };
            for (place, value) in changed {
                if let Some(byte) = packet.get_mut(place) {
                    *byte = value;
                }
            }
            let flags: &[RecordFlag] = if is_v6 { &[RecordFlag::Ipv6] } else { &[] };
            let mut passing = passing([vec![(arrived(3, 7, flags), packet)]]);
            passing.collect();
            prop_assert!(passing.passed.iter().all(|passed| passed.count == 7 && passed.data.len() >= SHORTEST));
        }
    }
}
