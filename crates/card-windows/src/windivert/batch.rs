//! Packets of one call to the driver: they lie one behind the other, and each has a record.

use super::ip_packet::{self, ETHERNET};
use super::record::AddressRecord;
use std::ops::Range;
use tickwire_stack::addr::Family;

/// The most packets of a call (`WINDIVERT_BATCH_MAX`).
const MOST: usize = 255;

/// The most packets that are received at once.
const MOST_RECEIVED: usize = 64;

/// Before the first packet there is room for an Ethernet header.
const HEADROOM: usize = 16;

/// Bytes of packets that are received at once: at least one of the longest that the driver has
/// (`WINDIVERT_MTU_MAX`, 65,575).
const ROOM: usize = 65_536 + 4096;

/// Bytes of packets that are sent at once.
const ROOM_TO_SEND: usize = 256 << 10;

/// A packet of a [`ReceivedBatch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchedPacket {
    /// What the driver says about it.
    pub record: AddressRecord,
    /// Its family.
    pub family: Family,
    place: Range<usize>,
}

/// Packets that the driver has taken from the kernel.
#[derive(Debug)]
pub struct ReceivedBatch {
    bytes: Vec<u8>,
    records: Vec<AddressRecord>,
    /// Where the packets end, and how many records there are.
    end: usize,
    count: usize,
    /// The next packet and its record.
    at: usize,
    next: usize,
}

impl Default for ReceivedBatch {
    fn default() -> Self {
        let (bytes, records) = (vec![0; HEADROOM + ROOM], vec![AddressRecord::EMPTY; MOST_RECEIVED]);
        Self { bytes, records, end: HEADROOM, count: 0, at: HEADROOM, next: 0 }
    }
}

impl ReceivedBatch {
    /// Room for packets and records, which the driver fills.
    pub fn room(&mut self) -> (&mut [u8], &mut [AddressRecord]) {
        (&mut self.bytes[HEADROOM..], &mut self.records)
    }

    /// The driver has filled so many bytes and records.
    pub fn filled(&mut self, bytes: usize, records: usize) {
        (self.end, self.count) = (HEADROOM + bytes.min(ROOM), records.min(self.records.len()));
        (self.at, self.next) = (HEADROOM, 0);
    }

    /// The next packet; `None`: there are no more. What is no complete packet, or of another family
    /// than its record says, ends the batch, because it is not known where the next one begins.
    /// `lost` counts the packets that are lost by that.
    pub fn next_packet(&mut self, lost: &mut u64) -> Option<BatchedPacket> {
        if self.next >= self.count {
            return None;
        }
        let record = self.records[self.next];
        let extent = ip_packet::extent(&self.bytes[self.at..self.end]);
        let Some((family, length)) = extent.filter(|(family, _)| *family == record.family()) else {
            *lost += (self.count - self.next) as u64;
            self.next = self.count;
            return None;
        };
        let place = self.at..self.at + length;
        (self.at, self.next) = (place.end, self.next + 1);
        Some(BatchedPacket { record, family, place })
    }

    /// A packet of this batch.
    #[must_use]
    pub fn bytes(&self, packet: &BatchedPacket) -> &[u8] {
        &self.bytes[packet.place.clone()]
    }

    /// A packet of this batch with an Ethernet header in front. That replaces the end of the packet
    /// before it.
    pub fn frame(&mut self, packet: &BatchedPacket, header: [u8; ETHERNET]) -> &[u8] {
        let begin = packet.place.start - ETHERNET;
        self.bytes[begin..packet.place.start].copy_from_slice(&header);
        &self.bytes[begin..packet.place.end]
    }
}

/// Packets for the driver.
#[derive(Debug)]
pub struct OutgoingBatch {
    bytes: Vec<u8>,
    records: Vec<AddressRecord>,
}

impl Default for OutgoingBatch {
    fn default() -> Self {
        Self { bytes: Vec::with_capacity(ROOM_TO_SEND), records: Vec::with_capacity(MOST) }
    }
}

impl OutgoingBatch {
    /// Adds a packet. Returns `false` if there is no room for it.
    #[must_use]
    pub fn add(&mut self, record: AddressRecord, packet: &[u8]) -> bool {
        let has_room = self.records.len() < MOST && self.bytes.len() + packet.len() <= ROOM_TO_SEND;
        if has_room {
            self.records.push(record);
            self.bytes.extend_from_slice(packet);
        }
        has_room
    }

    /// The packets, one behind the other.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Their records.
    #[must_use]
    pub fn records(&self) -> &[AddressRecord] {
        &self.records
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::ip_packet::tests::{v4, v6};
    use super::super::record::RecordFlag;
    use super::super::record::tests::arrived;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tickwire_stack::addr::Mac;

    /// Fills a batch as the driver does.
    pub(crate) fn fill(batch: &mut ReceivedBatch, packets: &[(AddressRecord, Vec<u8>)]) {
        let (room, records) = batch.room();
        let mut end = 0;
        for (place, (record, packet)) in packets.iter().enumerate() {
            records[place] = *record;
            room[end..end + packet.len()].copy_from_slice(packet);
            end += packet.len();
        }
        batch.filled(end, packets.len());
    }

    fn all(batch: &mut ReceivedBatch) -> (Vec<BatchedPacket>, u64) {
        let mut lost = 0;
        (std::iter::from_fn(|| batch.next_packet(&mut lost)).collect(), lost)
    }

    #[test]
    fn packets_lie_one_behind_the_other_and_each_becomes_a_frame() {
        let packets = [
            (arrived(3, 1, &[]), v4(17, [10, 0, 0, 1], 9)),
            (arrived(3, 2, &[RecordFlag::Ipv6]), v6(6, [0xfd; 16], 2000)),
            (arrived(3, 3, &[]), v4(6, [10, 0, 0, 1], 0)),
        ];
        let mut batch = ReceivedBatch::default();
        fill(&mut batch, &packets);
        for (record, bytes) in &packets {
            let packet = batch.next_packet(&mut 0).unwrap();
            assert_eq!((packet.record, batch.bytes(&packet)), (*record, &bytes[..]));
            assert_eq!(batch.frame(&packet, [7; ETHERNET]), [&[7; ETHERNET][..], bytes].concat());
        }
        assert_eq!(batch.next_packet(&mut 0), None);
    }

    #[test]
    fn a_broken_packet_ends_its_batch_and_is_counted() {
        let good = || (arrived(3, 1, &[]), v4(17, [10, 0, 0, 1], 9));
        let mut wrong_length = v4(17, [10, 0, 0, 1], 9);
        wrong_length[2] = 0xff;
        let broken: [(AddressRecord, Vec<u8>); 5] = [
            (arrived(3, 1, &[]), wrong_length),
            (arrived(3, 1, &[]), vec![]),
            (arrived(3, 1, &[]), vec![0x45]),
            (arrived(3, 1, &[]), vec![0; 100]),
            (arrived(3, 1, &[RecordFlag::Ipv6]), v4(17, [10, 0, 0, 1], 9)),
        ];
        for bad in broken {
            let mut batch = ReceivedBatch::default();
            fill(&mut batch, &[good(), bad.clone()]);
            let (packets, lost) = all(&mut batch);
            assert_eq!((packets.len(), lost), (1, 1), "{bad:?}");
            fill(&mut batch, &[bad, (arrived(3, 1, &[]), vec![0xff; 40]), (arrived(3, 1, &[]), vec![0xff; 40])]);
            assert_eq!(all(&mut batch).1, 3);
        }
    }

    #[test]
    fn a_driver_that_claims_to_have_filled_more_than_the_room_is_not_believed() {
        let mut batch = ReceivedBatch::default();
        let (room, records) = batch.room();
        let (bytes, count) = (room.len(), records.len());
        room[..4].copy_from_slice(&[0x45, 0, 0xff, 0xff]);
        batch.filled(usize::MAX, usize::MAX);
        let (packets, lost) = all(&mut batch);
        assert_eq!((packets.len(), lost), (1, count as u64 - 1));
        assert!(bytes >= 65_575);
        batch.filled(0, 5);
        assert_eq!(all(&mut batch), (Vec::new(), 5));
    }

    proptest! {
        #[test]
        fn whatever_the_driver_writes_is_packets_or_counted(
            written in vec((any::<bool>(), 0..60_usize), 0..10),
            changed in vec((0..600_usize, any::<u8>()), 0..4),
            versions in vec(any::<bool>(), 0..20),
            length in 0..1000_usize,
        ) {
            // Packets that are right, until some bytes are changed.
            let packet = |&(is_v6, payload): &(bool, usize)| {
                if is_v6 { v6(6, [0xfd; 16], payload) } else { v4(6, [10, 0, 0, 1], payload) }
            };
            let mut bytes: Vec<u8> = written.iter().flat_map(packet).collect();
            for (place, value) in changed {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = value;
                }
            }
            let versions: Vec<bool> = written.iter().map(|(is_v6, _)| *is_v6).chain(versions).collect();
            let mut batch = ReceivedBatch::default();
            let (room, records) = batch.room();
            room[..bytes.len()].copy_from_slice(&bytes);
            for (record, is_v6) in records.iter_mut().zip(&versions) {
                *record = arrived(3, 1, if *is_v6 { &[RecordFlag::Ipv6] } else { &[] });
            }
            batch.filled(length, versions.len());
            let mut end = 0;
            let (packets, lost) = all(&mut batch);
            for packet in &packets {
                prop_assert_eq!(ip_packet::extent(batch.bytes(packet)), Some((packet.family, packet.place.len())));
                prop_assert!(packet.place.start >= end && packet.place.end <= HEADROOM + length);
                end = packet.place.end;
                let header = ip_packet::ethernet_header(batch.bytes(packet), packet.family, Mac([2; 6]));
                let _ = ip_packet::merged_segment(batch.bytes(packet), packet.family, 20);
                prop_assert!(ip_packet::packet_of(batch.frame(packet, header)).is_some());
            }
            prop_assert_eq!(packets.len() as u64 + lost, versions.len() as u64);
        }
    }

    #[test]
    fn a_batch_to_send_has_as_many_packets_as_a_call_accepts() {
        let mut batch = OutgoingBatch::default();
        let record = AddressRecord::of_sent(3, Family::V4);
        let added = (0..1000).take_while(|_| batch.add(record, &[1, 2])).count();
        assert_eq!((added, batch.bytes().len(), batch.records().len()), (MOST, 2 * MOST, MOST));
        batch.clear();
        let added = (0..1000).take_while(|_| batch.add(record, &[0; 65_535])).count();
        assert_eq!((added, batch.records().len()), (4, 4));
    }
}
