//! Receiving a packet from outside of the stack's memory: it is copied into frames of the receive
//! reserve, then processed like any other.
//!
//! A packet that the kernel or the network card has merged from several (GRO, LRO) is processed as
//! one TCP segment of any length. That costs one look-up, one acknowledgement and one wakeup.
//! Merged UDP datagrams are split again, because each is a message of its own.

use crate::Stack;
use crate::demux::UDP;
use crate::frame::{FRAME_SIZE, FrameId, flag};
use crate::ip::output::{ETHERNET, IPV4, IPV6};
use crate::pool::PoolLink;
use crate::time::Instant;

/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;

/// The longest headers of a merged UDP datagram: it has neither IP options nor extension headers.
const MERGED_HEADERS: usize = ETHERNET + IPV6 + UDP_HEADER;

/// The state of the transport checksum of a received packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Unknown: it must be verified.
    #[default]
    Unknown,
    /// Verified by the network card or the kernel, or the packet never crossed a wire.
    Good,
    /// To be verified. If it was left to a device (`CHECKSUM_PARTIAL`), the field holds the sum of
    /// the pseudo-header.
    MaybePartial,
}

/// A received packet's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveMetadata {
    /// Bytes from the Ethernet header on.
    pub len: u32,
    /// Payload bytes of each packet from which this one was merged; 0: it is a single packet.
    pub segment: u16,
    /// The state of its checksum.
    pub checksum: Checksum,
    /// When it arrived.
    pub at: Instant,
    /// The incoming interface, by the host's number; 0 if unknown.
    pub interface: u32,
}

impl Checksum {
    const fn flags(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::Good => flag::CHECKED,
            Self::MaybePartial => flag::MAYBE_PARTIAL,
        }
    }
}

impl Stack<'_> {
    /// Processes a packet. `read` copies bytes of it, from an offset on, into a slice; it may be
    /// called several times for one offset.
    ///
    /// Without a free frame the packet is dropped and counted.
    pub fn receive(&mut self, now: Instant, packet: ReceiveMetadata, mut read: impl FnMut(usize, &mut [u8])) {
        let len = packet.len as usize;
        if packet.segment != 0 {
            let mut headers = [0; MERGED_HEADERS];
            let headers = &mut headers[..len.min(MERGED_HEADERS)];
            read(0, headers);
            if let Some(payload) = merged_udp(headers) {
                return self.receive_merged_udp(now, packet, &headers[..payload], read);
            }
        }
        self.receive_one(now, &packet, len, read);
    }

    /// Processes a packet in a slice that arrives now, and whose checksum is unknown.
    pub fn receive_bytes(&mut self, now: Instant, packet: &[u8]) {
        let received = ReceiveMetadata {
            len: packet.len() as u32,
            segment: 0,
            checksum: Checksum::Unknown,
            at: now,
            interface: 0,
        };
        self.receive(now, received, |from, to| to.copy_from_slice(&packet[from..][..to.len()]));
    }

    /// Splits merged UDP datagrams: all have the same headers except for lengths, identification
    /// and checksum.
    fn receive_merged_udp(
        &mut self,
        now: Instant,
        packet: ReceiveMetadata,
        headers: &[u8],
        mut read: impl FnMut(usize, &mut [u8]),
    ) {
        let (end, step) = (packet.len as usize, usize::from(packet.segment));
        for (number, from) in (headers.len()..end).step_by(step).enumerate() {
            let payload = step.min(end - from);
            let mut own = [0; MERGED_HEADERS];
            let own = &mut own[..headers.len()];
            own.copy_from_slice(headers);
            set_lengths(own, payload, number);
            let copy = |at: usize, to: &mut [u8]| {
                let of_headers = own.len().saturating_sub(at).min(to.len());
                let (first, rest) = to.split_at_mut(of_headers);
                first.copy_from_slice(&own[at.min(own.len())..][..of_headers]);
                if !rest.is_empty() {
                    read(from + at + of_headers - own.len(), rest);
                }
            };
            self.receive_one(now, &packet, headers.len() + payload, copy);
        }
    }

    /// Copies a packet into frames and processes it.
    fn receive_one(
        &mut self,
        now: Instant,
        packet: &ReceiveMetadata,
        len: usize,
        mut read: impl FnMut(usize, &mut [u8]),
    ) {
        let mut from = 0;
        self.mem.core.merged_of = u32::from(packet.segment);
        self.mem.core.came_by = packet.interface;
        while from < len {
            let piece = (len - from).min(FRAME_SIZE);
            let Some(frame) = self.frame_to_receive() else {
                self.mem.counters.rx_no_frame.inc();
                return self.drop_partial();
            };
            read(from, &mut self.mem.frames.bytes_mut(frame)[..piece]);
            from += piece;
            self.ingress(now, packet.at, frame, piece as u16, packet.checksum.flags(), from < len);
        }
    }

    /// A frame of the receive reserve, the one used last.
    fn frame_to_receive(&mut self) -> Option<FrameId> {
        let Some(id) = self.mem.core.fill_top.get() else { return self.refill() };
        let meta = &mut self.mem.frames.meta[id as usize];
        self.mem.core.fill_top = core::mem::take(&mut meta.next);
        Some(id)
    }

    /// The number of frames in the receive reserve.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.mem.core.filled as usize
    }

    /// Fills the receive reserve up to its present size: these frames remain for received packets
    /// when memory gets short.
    pub fn fill(&mut self) {
        while let Some(id) = self.refill() {
            self.mem.frames.meta[id as usize].next = self.mem.core.fill_top;
            self.mem.core.fill_top = PoolLink::to(id);
        }
    }
}

/// Where the payload of a merged packet begins, if it consists of UDP datagrams without IP options
/// or extension headers.
fn merged_udp(headers: &[u8]) -> Option<usize> {
    let (protocol, payload) = match headers.get(12..15)? {
        [0x08, 0x00, 0x45] => (headers.get(ETHERNET + 9)?, ETHERNET + IPV4 + UDP_HEADER),
        [0x86, 0xdd, _] => (headers.get(ETHERNET + 6)?, ETHERNET + IPV6 + UDP_HEADER),
        _ => return None,
    };
    (*protocol == UDP && headers.len() >= payload).then_some(payload)
}

/// Turns the headers of a merged packet into those of its datagram `number`, whose payload has
/// `payload` bytes.
fn set_lengths(headers: &mut [u8], payload: usize, number: usize) {
    let datagram = ((UDP_HEADER + payload) as u16).to_be_bytes();
    let udp = headers.len() - UDP_HEADER;
    headers[udp + 4..udp + 6].copy_from_slice(&datagram);
    let ip = &mut headers[ETHERNET..];
    if udp == ETHERNET + IPV6 {
        ip[4..6].copy_from_slice(&datagram);
        return;
    }
    let total = ((IPV4 + UDP_HEADER + payload) as u16).to_be_bytes();
    let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(number as u16).to_be_bytes();
    ip[2..4].copy_from_slice(&total);
    ip[4..6].copy_from_slice(&id);
    ip[10..12].fill(0);
    let sum = crate::checksum::plain(&ip[..IPV4]).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
}
