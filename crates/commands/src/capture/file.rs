//! The pcapng file: nanosecond timestamps, and one interface for each pair of a lane and a network
//! card.

use super::wall_clock::WallClock;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use tickwire_lane::capture_record::CaptureRecord;

/// `if_tsresol`: units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// `epb_flags`: the two lowest bits are the direction.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A file being written.
pub(super) struct CaptureFile<W: Write> {
    writer: PcapNgWriter<W>,
    clock: WallClock,
    snaplen: u32,
    /// By lane and network card.
    interfaces: HashMap<(u32, u32), u32>,
}

impl<W: Write> CaptureFile<W> {
    pub(super) fn new(out: W, clock: WallClock, snaplen: u32) -> Result<Self, PcapError> {
        let application = concat!("tickwire ", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed(application))],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(out, section)?;
        Ok(Self { writer, clock, snaplen, interfaces: HashMap::new() })
    }

    /// Writes a packet; `name` gives the name and description of its interface with that
    /// interface's first packet.
    pub(super) fn write(
        &mut self,
        record: &CaptureRecord,
        bytes: &[u8],
        name: impl FnOnce() -> (String, String),
    ) -> Result<(), PcapError> {
        let place = (record.lane, record.nic);
        let interface_id = match self.interfaces.get(&place) {
            Some(id) => *id,
            None => self.describe(place, name())?,
        };
        let direction = if record.outgoing { OUTBOUND } else { INBOUND };
        self.writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id,
            timestamp: self.clock.at(record.monotonic_ns),
            original_len: record.length,
            data: Cow::Borrowed(bytes),
            options: vec![EnhancedPacketOption::Flags(direction)],
        })?;
        Ok(())
    }

    fn describe(&mut self, place: (u32, u32), (name, description): (String, String)) -> Result<u32, PcapError> {
        let id = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        self.writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: self.snaplen,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(name)),
                InterfaceDescriptionOption::IfDescription(Cow::Owned(description)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
        self.interfaces.insert(place, id);
        Ok(id)
    }

    /// Flushes the buffer to the file.
    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        self.writer.get_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::time::Duration;

    #[test]
    fn what_is_written_can_be_read_with_its_nanoseconds_and_interfaces() {
        let mut out = Vec::new();
        let clock = WallClock::fixed(Duration::from_secs(1_700_000_000));
        let mut file = CaptureFile::new(&mut out, clock, 96).unwrap();
        let name = |name: &str| (name.to_owned(), String::from("a program"));
        let incoming = CaptureRecord { monotonic_ns: 123_456_789, lane: 5, nic: 2, length: 60, outgoing: false };
        let outgoing = CaptureRecord { monotonic_ns: 123_456_790, nic: 0, outgoing: true, ..incoming };
        file.write(&incoming, &[1; 60], || name("lane5:eth0")).unwrap();
        file.write(&outgoing, &[2; 33], || name("lane5")).unwrap();
        file.write(&incoming, &[3; 60], || panic!("known already")).unwrap();
        file.flush().unwrap();
        drop(file);

        let mut reader = PcapNgReader::new(&out[..]).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                let [EnhancedPacketOption::Flags(direction)] = packet.options[..] else { panic!("{packet:?}") };
                packets.push((packet.interface_id, packet.timestamp, packet.data.len(), direction));
            }
        }
        let at = |ns| Duration::from_secs(1_700_000_000) + Duration::from_nanos(ns);
        assert_eq!(packets[0], (0, at(123_456_789), 60, INBOUND));
        assert_eq!(packets[1], (1, at(123_456_790), 33, OUTBOUND));
        assert_eq!((packets.len(), packets[2].0), (3, 0));
        assert_eq!(reader.interfaces().len(), 2);
    }
}
