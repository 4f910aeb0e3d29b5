//! A network card by WinDivert: the driver takes the packets of claimed ports, and gives back what
//! is no lane's.
//!
//! A filter is fixed when its handle is opened. So when a port is claimed, a handle with the larger
//! filter is opened, and then the other one is told to stop: in between each packet goes to one of
//! them. Packets that are given back are not seen again by a handle of the same priority. A port
//! that is not claimed any more may stay in the filter for a second, as its packets are given back.
//! The ports of the block for connections are in the filter all together, or none of them is.
//!
//! `filter_change` is about the filter, and the handles that other threads open and close.

mod filter_change;

use super::batch::{BatchedPacket, OutgoingBatch, ReceivedBatch};
use super::driver::{DivertDriver, DivertHandle, Reception};
use super::error::WinDivertError;
use super::filter::{DivertedPorts, MOST_PORT_TESTS};
use super::ip_packet;
use super::port_block::PortBlock;
use super::record::{AddressRecord, RecordFlag};
use crate::card::{
    CardClock, CardLosses, CardWaker, LONGEST_FRAME, NicDescription, PacketCard, ReceivedFrame, SlowWork,
};
use filter_change::PreparedFilter;
use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, ReceiveMetadata};
use tickwire_steer::tables::{NicIndex, Protocol};

/// At most so many handles are open. More than one is, while packets of a smaller filter wait.
const MOST_HANDLES: usize = 8;

/// The protocol numbers of TCP and UDP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A card.
#[derive(Debug)]
pub struct DivertedCard<D: DivertDriver> {
    driver: D,
    nic: NicDescription,
    clock: CardClock,
    /// The last one takes packets, the others have been told to stop.
    handles: Vec<D::Handle>,
    /// They are to be closed, which takes the driver time.
    retired: Vec<D::Handle>,
    /// Opened on another thread.
    prepared: Option<PreparedFilter<D::Handle>>,
    claimed: DivertedPorts,
    block: Option<PortBlock>,
    /// The ports of the last handle's filter.
    filtered: DivertedPorts,
    /// When the last handle was opened.
    changed: std::time::Instant,
    /// Batches of handles that are closed, which come before those of open ones.
    waiting: VecDeque<ReceivedBatch>,
    batch: ReceivedBatch,
    /// When the batch was taken.
    taken: Instant,
    /// The packet that was received last.
    last: Option<BatchedPacket>,
    outgoing: OutgoingBatch,
    /// Lost on the way out since the last flush.
    unsent: u64,
    losses: CardLosses,
}

impl<D: DivertDriver> DivertedCard<D> {
    /// A card that takes no packets yet. Opens a handle, to find out whether that is possible.
    ///
    /// # Errors
    /// Why it is not.
    pub fn open(mut driver: D, nic: NicDescription, clock: CardClock) -> Result<Self, WinDivertError> {
        let claimed = DivertedPorts::default();
        let handles = vec![driver.open(&claimed.filter(nic.index)?)?];
        Ok(Self {
            driver,
            nic,
            clock,
            handles,
            retired: Vec::new(),
            prepared: None,
            filtered: claimed.clone(),
            claimed,
            block: None,
            changed: std::time::Instant::now(),
            waiting: VecDeque::new(),
            batch: ReceivedBatch::default(),
            taken: (clock.now)(),
            last: None,
            outgoing: OutgoingBatch::default(),
            unsent: 0,
            losses: CardLosses::default(),
        })
    }

    /// Takes what stopped handles have received; those that have no more are to be closed. If one
    /// does not end, the driver gives back what it still has.
    fn collect(&mut self) {
        while self.handles.len() > 1 {
            let mut batch = ReceivedBatch::default();
            match self.handles[0].receive(&mut batch) {
                Ok(Reception::Packets) => self.waiting.push_back(batch),
                Ok(Reception::Truncated) => self.losses.truncated += 1,
                Ok(Reception::Nothing) if self.handles.len() <= MOST_HANDLES => return,
                Ok(_) | Err(_) => self.retired.push(self.handles.remove(0)),
            }
        }
    }

    /// Takes the next batch. Returns whether there is one.
    fn refill(&mut self) -> io::Result<bool> {
        self.taken = (self.clock.now)();
        if let Some(batch) = self.waiting.pop_front() {
            self.batch = batch;
            return Ok(true);
        }
        let mut place = 0;
        while place < self.handles.len() {
            let is_last = place + 1 == self.handles.len();
            match self.handles[place].receive(&mut self.batch) {
                Ok(Reception::Packets) => return Ok(true),
                Ok(Reception::Truncated) => self.losses.truncated += 1,
                Ok(Reception::Nothing) => place += 1,
                Ok(Reception::Ended) if is_last => return Err(io::ErrorKind::NotConnected.into()),
                Err(error) if is_last => return Err(error),
                Ok(Reception::Ended) | Err(_) => self.retired.push(self.handles.remove(place)),
            }
        }
        Ok(false)
    }

    /// The next packet that has arrived at the interface.
    fn next_packet(&mut self) -> io::Result<Option<BatchedPacket>> {
        loop {
            match self.batch.next_packet(&mut self.losses.malformed) {
                Some(packet) if packet.record.is_of_arrival(self.nic.index) => return Ok(Some(packet)),
                Some(packet) => {
                    // The filter does not take such packets. What is only a copy is not given back.
                    self.losses.strays += 1;
                    if !packet.record.has(RecordFlag::Sniffed) {
                        self.give_back(&packet);
                    }
                }
                None if self.refill()? => (),
                None => return Ok(None),
            }
        }
    }

    fn give_back(&mut self, packet: &BatchedPacket) {
        let Self { batch, outgoing, .. } = self;
        if !outgoing.add(packet.record, batch.bytes(packet)) {
            self.transmit();
            let Self { batch, outgoing, unsent, .. } = self;
            *unsent += u64::from(!outgoing.add(packet.record, batch.bytes(packet)));
        }
    }

    /// Sends what has been collected.
    fn transmit(&mut self) {
        let Self { handles, outgoing, unsent, .. } = self;
        if outgoing.records().is_empty() {
            return;
        }
        // The driver does not say how many.
        let is_sent = handles.last_mut().is_some_and(|handle| handle.send(outgoing).is_ok());
        *unsent += u64::from(!is_sent);
        outgoing.clear();
    }

    /// When a packet has arrived, by the driver's stamp, if that is possible.
    fn arrival(&self, record: &AddressRecord) -> Instant {
        let stamp = if record.timestamp() > 0 { (self.clock.at_count)(record.timestamp()) } else { self.taken };
        stamp.min(self.taken)
    }
}

/// The state of a packet's transport checksum. The record's flag says whether the field can be left
/// as it is when the packet is injected. That is so unless the network card has verified it: then
/// the field may hold anything, as with receive coalescing. Nothing has verified the others.
fn checksum(record: &AddressRecord, protocol: Option<u8>) -> Checksum {
    let is_verified = match protocol {
        Some(TCP) => !record.has(RecordFlag::TcpChecksum),
        Some(UDP) => !record.has(RecordFlag::UdpChecksum),
        _ => false,
    };
    if is_verified { Checksum::Good } else { Checksum::Unknown }
}

impl<D: DivertDriver> PacketCard for DivertedCard<D> {
    fn nic(&self) -> NicIndex {
        self.nic.index
    }

    fn receive(&mut self) -> io::Result<Option<ReceivedFrame<'_>>> {
        self.last = None;
        let Some(packet) = self.next_packet()? else { return Ok(None) };
        let bytes = self.batch.bytes(&packet);
        let header = ip_packet::ethernet_header(bytes, packet.family, self.nic.mac);
        let segment = ip_packet::merged_segment(bytes, packet.family, self.nic.mtu);
        let checksum = checksum(&packet.record, ip_packet::protocol(bytes, packet.family));
        let at = self.arrival(&packet.record);
        let bytes = self.batch.frame(&packet, header);
        self.last = Some(packet);
        let packet = ReceiveMetadata { len: bytes.len() as u32, segment, checksum, at, interface: self.nic.index };
        Ok(Some(ReceivedFrame { bytes, packet, tag: None }))
    }

    fn pass(&mut self) -> io::Result<()> {
        let packet = self.last.take().ok_or(io::ErrorKind::InvalidInput)?;
        self.give_back(&packet);
        Ok(())
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let (family, packet) = ip_packet::packet_of(frame).ok_or(io::ErrorKind::InvalidInput)?;
        let record = AddressRecord::of_sent(self.nic.index, family);
        if !self.outgoing.add(record, packet) {
            self.transmit();
            if !self.outgoing.add(record, packet) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> u64 {
        self.transmit();
        std::mem::take(&mut self.unsent)
    }

    fn losses(&self) -> CardLosses {
        self.losses
    }

    fn set_claimed(&mut self, protocol: Protocol, port: u16, is_claimed: bool) -> io::Result<()> {
        self.mark(protocol, port, is_claimed);
        if !is_claimed || self.filtered.contains(protocol, port) {
            return Ok(());
        }
        self.change_filter().map_err(|error| {
            self.unmark(protocol, port);
            io::Error::other(error)
        })
    }

    fn most_port_tests(&self) -> Option<usize> {
        Some(MOST_PORT_TESTS)
    }

    fn prepare(&mut self, ports: &[(Protocol, u16)]) -> Option<SlowWork> {
        self.work_for(ports)
    }

    fn prepare_less(&mut self) -> Option<SlowWork> {
        self.work_for_less()
    }

    fn take_prepared(&mut self, done: Box<dyn Any + Send>) {
        self.take_filter(done);
    }

    fn set_block(&mut self, ports: RangeInclusive<u16>) {
        self.block = Some(PortBlock::new(ports));
    }

    fn wait(&mut self, time: Duration) {
        if self.waiting.is_empty() {
            self.driver.wait(&self.handles, time);
        }
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        self.driver.waker()
    }
}

const _: () = assert!(ip_packet::ETHERNET + 65_575 <= LONGEST_FRAME);

#[cfg(test)]
mod tests;
