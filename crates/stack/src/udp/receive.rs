//! Receiving datagrams: which sockets get one, and the queue in which it waits for the program.

use super::HEADER;
use crate::addr::{Address, Endpoint};
use crate::demux::UDP;
use crate::error::{Result, StackError};
use crate::frame::{FrameId, Frames, flag};
use crate::ids::{Sink, UdpId};
use crate::ip::Packet;
use crate::pool::PoolLink;
use crate::time::Instant;
use crate::{SocketIndex, Stack, UdpIndex};

/// What a frame costs of a socket's receive buffer in addition to its payload.
const FRAME_CHARGE: u32 = 512;

/// A received datagram's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Length of the whole datagram in bytes.
    pub len: usize,
    /// How many bytes fitted into the program's buffers; the rest is lost unless it was a peek.
    pub copied: usize,
    /// The sender.
    pub source: Endpoint,
    /// One of our addresses, or a group.
    pub destination: Address,
    /// Its traffic class (TOS) octet.
    pub tos: u8,
    /// Its time to live (hop limit).
    pub ttl: u8,
    /// The incoming interface, by the host's number; 0 if unknown.
    pub interface: u32,
    /// Arrival time.
    pub at: Instant,
    /// How many datagrams the socket had dropped by then for want of room.
    pub drops: u32,
}

impl Stack<'_> {
    /// Processes a UDP datagram; takes ownership of its frames.
    #[inline(never)]
    pub(crate) fn udp_input(&mut self, packet: &Packet) {
        let Some((packet, source, port)) = self.udp_check(packet) else {
            return self.mem.frames.give_chain(packet.frame);
        };
        let frame = packet.frame;
        let meta = &mut self.mem.frames.meta[frame as usize];
        meta.offset += HEADER as u16;
        meta.len -= HEADER as u16;
        (meta.total, meta.source, meta.tos, meta.ttl) = (packet.total - HEADER as u32, source, packet.tos, packet.ttl);
        meta.set_interface(self.mem.core.came_by);
        let local = Endpoint::new(packet.destination, port);
        if packet.destination.is_multicast() || packet.destination.is_limited_broadcast() {
            return self.udp_deliver_to_group(frame, local, source);
        }
        let socket = self.find_connected(UDP, local, source).or_else(|| self.find_bound(UDP, local, source));
        match socket {
            Some(SocketIndex::Udp(index)) => self.udp_push(index, frame),
            _ => {
                self.mem.counters.udp_no_ports.inc();
                self.mem.frames.give_chain(frame);
            }
        }
    }

    /// Checks header, length and checksum, removes padding behind the datagram, and reads the
    /// ports.
    fn udp_check(&mut self, packet: &Packet) -> Option<(Packet, Endpoint, u16)> {
        let mut packet = *packet;
        let counters = self.mem.counters;
        let Some(&header) = packet.bytes(&self.mem.frames).first_chunk::<HEADER>() else {
            counters.udp_in_errors.inc();
            return None;
        };
        let [s0, s1, d0, d1, l0, l1, c0, c1] = header;
        let len = u32::from(u16::from_be_bytes([l0, l1]));
        if len < HEADER as u32 || len > packet.total {
            counters.udp_in_errors.inc();
            return None;
        }
        if len < packet.total {
            self.mem.frames.truncate_chain(packet.frame, len);
            packet.total = len;
            packet.len = self.mem.frames.meta[packet.frame as usize].len;
        }
        // No checksum is allowed over IPv4 only (RFC 768, RFC 8200 §8.1).
        let good = match [c0, c1] {
            [0, 0] => packet.destination.to_v4().is_some(),
            _ => packet.checksum_is_good(&self.mem.frames),
        };
        if !good {
            counters.udp_in_csum_errors.inc();
            counters.udp_in_errors.inc();
            return None;
        }
        let source = Endpoint::new(packet.source, u16::from_be_bytes([s0, s1]));
        Some((packet, source, u16::from_be_bytes([d0, d1])))
    }

    /// Delivers a multicast or broadcast datagram to every socket that is bound to its port and
    /// accepts the group: copies for all but the last.
    fn udp_deliver_to_group(&mut self, frame: FrameId, local: Endpoint, source: Endpoint) {
        let connected = match self.find_connected(UDP, local, source) {
            Some(SocketIndex::Udp(index)) => Some(index),
            _ => None,
        };
        let connected = connected.filter(|&index| self.wants_group(index, local.address, source.address));
        let (mut last, mut at) = (connected, self.bound_first(UDP, local.port));
        while let Some((slot, _, next)) = self.bound_next(at, UDP, local) {
            at = next;
            let Some(SocketIndex::Udp(index)) = self.socket_of_slot(slot as usize) else { continue };
            if !self.wants_group(index, local.address, source.address) {
                self.mem.counters.udp_filtered.inc();
                continue;
            }
            if let Some(previous) = last.replace(index) {
                match self.mem.frames.copy_chain(frame) {
                    Some(copy) => self.udp_push(previous, copy),
                    None => self.mem.counters.udp_mem_errors.inc(),
                }
            }
        }
        match last {
            Some(index) => self.udp_push(index, frame),
            None => {
                self.mem.counters.udp_no_ports.inc();
                self.mem.frames.give_chain(frame);
            }
        }
    }

    /// Appends a datagram to a socket's queue, or drops it if the queue is full.
    fn udp_push(&mut self, index: UdpIndex, frame: FrameId) {
        let frames = &mut self.mem.frames;
        let meta = &frames.meta[frame as usize];
        let (total, single) = (meta.total, meta.flags & flag::MORE == 0);
        let charge = total + FRAME_CHARGE * if single { 1 } else { frames.chain_frames(frame) };
        let socket = &mut self.mem.udp[index];
        let counters = self.mem.counters;
        // When frames run low, no socket may hold many. The last sixteenth does not refill the
        // receive reserve (`Stack::refill`), and without that nothing is received any more. Then
        // only a socket that holds nothing may keep a datagram, and only while the reserve is still
        // half full.
        let (available, all) = (frames.available(), frames.meta.len());
        let low = available < all / 8 && socket.charged > 16 * FRAME_CHARGE
            || available <= all / 16 && (socket.count > 0 || self.mem.core.filled <= self.mem.core.fill.wanted / 2);
        if socket.charged > socket.options.rcvbuf || low {
            if low { &counters.udp_mem_errors } else { &counters.udp_rcvbuf_errors }.inc();
            self.row(index).drops.inc();
            return self.mem.frames.give_chain(frame);
        }
        let drops = self.row(index).drops.get();
        let frames = &mut self.mem.frames;
        let socket = &mut self.mem.udp[index];
        let meta = &mut frames.meta[frame as usize];
        (meta.prev, meta.seq) = (PoolLink::NONE, drops);
        let at = meta.at;
        match socket.tail.get() {
            Some(tail) => frames.meta[tail as usize].prev = PoolLink::to(frame),
            None => socket.head = PoolLink::to(frame),
        }
        socket.tail = PoolLink::to(frame);
        socket.count += 1;
        socket.charged += charge;
        let charged = socket.charged;
        counters.udp_in_datagrams.inc();
        let row = self.row(index);
        row.rx_packets.inc();
        row.rx_bytes.add(u64::from(total));
        row.rx_queue.set(charged);
        let id = self.id_of(index);
        self.notify_of_data(id, at);
    }

    /// Appends a datagram to a socket's queue as if it had been received.
    #[cfg(test)]
    pub(crate) fn udp_put(&mut self, id: UdpId, bytes: &[u8]) {
        let frame = self.mem.frames.take().expect("a free frame");
        self.mem.frames.bytes_mut(frame)[64..64 + bytes.len()].copy_from_slice(bytes);
        let meta = &mut self.mem.frames.meta[frame as usize];
        (meta.offset, meta.len, meta.total) = (64, bytes.len() as u16, bytes.len() as u32);
        let index = self.check(id).expect("an open socket");
        self.udp_push(index, frame);
    }

    /// Removes the first datagram of a socket's queue and frees its frames. Returns whether there
    /// was one.
    pub(super) fn udp_pop(&mut self, index: UdpIndex) -> bool {
        let frames = &mut self.mem.frames;
        let socket = &mut self.mem.udp[index];
        let Some(frame) = socket.head.get() else { return false };
        let meta = &mut frames.meta[frame as usize];
        socket.head = core::mem::take(&mut meta.prev);
        if socket.head.is_none() {
            socket.tail = PoolLink::NONE;
        }
        socket.count -= 1;
        let (total, single) = (meta.total, meta.flags & flag::MORE == 0);
        socket.charged -= total + FRAME_CHARGE * if single { 1 } else { frames.chain_frames(frame) };
        let charged = socket.charged;
        frames.give_chain(frame);
        self.row(index).rx_queue.set(charged);
        true
    }

    /// Receives one datagram. With `peek` it stays in the queue.
    ///
    /// # Errors
    /// [`StackError::Stale`]; the socket's pending error; [`StackError::WouldBlock`] if there is no
    /// datagram; [`StackError::Fault`] if it could not be written to `sink`: as on Linux the
    /// datagram is then lost, unless `peek`.
    pub fn udp_recv(&mut self, id: UdpId, peek: bool, sink: &mut impl Sink) -> Result<Datagram> {
        let index = self.check(id)?;
        let socket = &mut self.mem.udp[index];
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        let first = socket.head.get().ok_or(StackError::WouldBlock)?;
        let frames = &self.mem.frames;
        let meta = &frames.meta[first as usize];
        let mut datagram = Datagram {
            len: meta.total as usize,
            copied: 0,
            source: meta.source,
            destination: destination(frames, first),
            tos: meta.tos,
            ttl: meta.ttl,
            interface: meta.interface(),
            at: meta.at,
            drops: meta.seq,
        };
        let mut at = Some(first);
        while let Some(frame) = at {
            let bytes = frames.data(frame);
            let taken = sink.write(bytes);
            datagram.copied += taken;
            let meta = &frames.meta[frame as usize];
            at = if taken == bytes.len() && meta.flags & flag::MORE != 0 { meta.next.get() } else { None };
        }
        if !peek {
            self.udp_pop(index);
            self.udp_write_space();
        }
        if sink.failed() { Err(StackError::Fault) } else { Ok(datagram) }
    }

    /// Length of the first queued datagram (`FIONREAD`), `None` if there is none.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_next_len(&self, id: UdpId) -> Result<Option<usize>> {
        let index = self.check(id)?;
        let first = self.mem.udp[index].head.get();
        Ok(first.map(|frame| self.mem.frames.meta[frame as usize].total as usize))
    }
}

/// The destination address, from the IP header, which is still in the first frame.
fn destination(frames: &Frames<'_>, frame: FrameId) -> Address {
    let header = &frames.bytes(frame)[usize::from(frames.meta[frame as usize].network)..];
    match header {
        [first, ..] if first >> 4 == 4 => {
            header.get(16..20).and_then(|a| a.try_into().ok()).map_or(Address::ANY_V4, Address::v4)
        }
        _ => header.get(24..40).and_then(|a| a.try_into().ok()).map_or(Address::ANY, Address),
    }
}
