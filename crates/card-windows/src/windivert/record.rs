//! What WinDivert says about a packet, and is told about one that it sends (`WINDIVERT_ADDRESS`).

use tickwire_stack::addr::Family;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 80;

/// A property of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFlag {
    /// It is a copy: the packet itself went on.
    Sniffed = 16,
    /// It leaves this host; otherwise it arrives.
    Outbound = 17,
    /// It comes from this host, and is for it.
    Loopback = 18,
    /// Another driver has injected it. Each time that it is given back its TTL is one less, so that
    /// two drivers cannot pass it to each other for ever.
    Impostor = 19,
    /// It is of IPv6.
    Ipv6 = 20,
    /// The driver need not compute the header's checksum when it injects the packet.
    IpChecksum = 21,
    /// As [`RecordFlag::IpChecksum`], for TCP.
    TcpChecksum = 22,
    /// As [`RecordFlag::IpChecksum`], for UDP.
    UdpChecksum = 23,
}

/// The layer of packets from and to this host (`WINDIVERT_LAYER_NETWORK`).
pub const LAYER_NETWORK: u8 = 0;
/// The event of a packet (`WINDIVERT_EVENT_NETWORK_PACKET`).
pub const EVENT_PACKET: u8 = 0;

/// A record, as the driver has it in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AddressRecord {
    timestamp: i64,
    /// Layer and event, 8 bits each, then the flags, from the lowest bit on.
    bits: u32,
    reserved: u32,
    interface: u32,
    sub_interface: u32,
    /// What other layers have here.
    others: [u8; 56],
}

const _: () = assert!(size_of::<AddressRecord>() == RECORD_BYTES && align_of::<AddressRecord>() == 8);

impl AddressRecord {
    /// Room for a record.
    pub const EMPTY: Self =
        Self { timestamp: 0, bits: 0, reserved: 0, interface: 0, sub_interface: 0, others: [0; 56] };

    /// A record from its bytes in memory, as the driver writes them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut others = [0; 56];
        others.copy_from_slice(&bytes[24..]);
        Self {
            timestamp: (u64::from(word(4)) << 32 | u64::from(word(0))).cast_signed(),
            bits: word(8),
            reserved: word(12),
            interface: word(16),
            sub_interface: word(20),
            others,
        }
    }

    /// The record of a packet that this host sends, whose checksums are complete.
    #[must_use]
    pub const fn of_sent(interface: u32, family: Family) -> Self {
        let mut record = Self { interface, ..Self::EMPTY };
        record.set(RecordFlag::Outbound);
        record.set(RecordFlag::IpChecksum);
        record.set(RecordFlag::TcpChecksum);
        record.set(RecordFlag::UdpChecksum);
        if matches!(family, Family::V6) {
            record.set(RecordFlag::Ipv6);
        }
        record
    }

    /// The record of a packet that has arrived, of which nothing else is known.
    #[must_use]
    pub const fn of_arrival(interface: u32, family: Family) -> Self {
        let mut record = Self { interface, ..Self::EMPTY };
        if matches!(family, Family::V6) {
            record.set(RecordFlag::Ipv6);
        }
        record
    }

    /// When the driver has seen the packet, in counts of the performance counter.
    #[must_use]
    pub const fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The layer of the handle that it comes from.
    #[must_use]
    pub const fn layer(&self) -> u8 {
        self.bits as u8
    }

    /// What has happened at that layer.
    #[must_use]
    pub const fn event(&self) -> u8 {
        (self.bits >> 8) as u8
    }

    /// Whether the packet has a property.
    #[must_use]
    pub const fn has(&self, flag: RecordFlag) -> bool {
        self.bits >> flag as u32 & 1 != 0
    }

    /// Gives it a property.
    pub const fn set(&mut self, flag: RecordFlag) {
        self.bits |= 1 << flag as u32;
    }

    /// The index of the interface by which it has arrived.
    #[must_use]
    pub const fn interface(&self) -> u32 {
        self.interface
    }

    /// The family that it says the packet is of.
    #[must_use]
    pub const fn family(&self) -> Family {
        if self.has(RecordFlag::Ipv6) { Family::V6 } else { Family::V4 }
    }

    /// Whether the packet has arrived at an interface, and was taken from the kernel there.
    #[must_use]
    pub const fn is_of_arrival(&self, interface: u32) -> bool {
        self.layer() == LAYER_NETWORK
            && self.event() == EVENT_PACKET
            && !self.has(RecordFlag::Outbound)
            && !self.has(RecordFlag::Loopback)
            && !self.has(RecordFlag::Sniffed)
            && self.interface == interface
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record of an arrival, from the documented offsets.
    pub(crate) fn arrived(interface: u32, timestamp: i64, flags: &[RecordFlag]) -> AddressRecord {
        let mut record = AddressRecord { interface, timestamp, ..AddressRecord::EMPTY };
        flags.iter().for_each(|flag| record.set(*flag));
        record
    }

    #[test]
    fn fields_are_where_the_documentation_has_them() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(AddressRecord, timestamp), 0);
        assert_eq!(offset_of!(AddressRecord, bits), 8);
        assert_eq!(offset_of!(AddressRecord, interface), 16);
        assert_eq!(offset_of!(AddressRecord, sub_interface), 20);
        // Layer 3, event 9, then the eight flags in the order of the documentation.
        let flags = [
            RecordFlag::Sniffed,
            RecordFlag::Outbound,
            RecordFlag::Loopback,
            RecordFlag::Impostor,
            RecordFlag::Ipv6,
            RecordFlag::IpChecksum,
            RecordFlag::TcpChecksum,
            RecordFlag::UdpChecksum,
        ];
        for (place, flag) in flags.into_iter().enumerate() {
            let bits = u32::from_le_bytes([3, 9, 1 << place, 0]);
            let record = AddressRecord { bits, ..AddressRecord::EMPTY };
            assert_eq!((record.layer(), record.event()), (3, 9));
            assert!(flags.into_iter().all(|other| record.has(other) == (other == flag)), "{flag:?}");
        }
    }

    #[test]
    fn a_sent_packet_leaves_this_host_with_complete_checksums() {
        let record = AddressRecord::of_sent(7, Family::V6);
        assert_eq!(record.bits, u32::from_le_bytes([0, 0, 0b1111_0010, 0]));
        assert_eq!((record.interface(), record.family()), (7, Family::V6));
        assert_eq!(AddressRecord::of_sent(7, Family::V4).bits, u32::from_le_bytes([0, 0, 0b1110_0010, 0]));
    }

    #[test]
    fn only_packets_that_were_taken_at_the_interface_are_arrivals() {
        assert!(arrived(7, 1, &[RecordFlag::Impostor]).is_of_arrival(7));
        assert!(!arrived(8, 1, &[]).is_of_arrival(7));
        for flag in [RecordFlag::Outbound, RecordFlag::Loopback, RecordFlag::Sniffed] {
            assert!(!arrived(7, 1, &[flag]).is_of_arrival(7), "{flag:?}");
        }
        for bits in [1, 1 << 8] {
            assert!(!AddressRecord { bits, ..arrived(7, 1, &[]) }.is_of_arrival(7));
        }
    }
}
