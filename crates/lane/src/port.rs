//! A stack between a lane's ring and what it sends by: packets in from the receive ring, packets
//! out into batches that are sent when the lane's lock has been released, or into a transmit ring.
//! All of it is done under that lock.

use crate::packet_sink::PacketSink;
use crate::record_ring::{RecordRing, RingMemory};
use crate::tx_batch::{Batch, PacketPart};
use tickwire_stack::frame::MOST_PIECES;
use tickwire_stack::time::Instant;
use tickwire_stack::{Stack, TransmitDescriptor};

/// The most packets that one poll takes in, so that a flood leaves time for sending.
const RX_BATCH: u32 = 64;

/// From so many frames on, packets of streams go as trains. None of a train's packets arrives
/// before all have been made, but each write of a packet takes as long as a peer on the same host
/// takes to receive it: 4 segments take 43 us in a train, and 50 one by one.
const BULK_FROM: usize = 3;

/// Receives the packets in the ring. Returns how many there were.
pub fn poll<M: RingMemory>(rx: &RecordRing<M>, stack: &mut Stack<'_>, now: Instant) -> u32 {
    if rx.is_empty() {
        return 0;
    }
    stack.batch_begin();
    let received = rx.read(RX_BATCH, |packet, read| stack.receive(now, packet, read));
    stack.batch_end(now);
    stack.fill();
    received
}

/// Whether a bulk device (for trains of segments) would be of use now.
#[must_use]
pub fn has_trains(stack: &Stack<'_>) -> bool {
    stack.stream_len() >= BULK_FROM
}

/// The pieces of a packet.
struct Pieces {
    pieces: [TransmitDescriptor; MOST_PIECES],
    len: usize,
}

impl Pieces {
    const NONE: Self =
        Self { pieces: [TransmitDescriptor { frame: 0, offset: 0, len: 0, more: false }; MOST_PIECES], len: 0 };

    /// Takes a piece, if it is the first and the sink has room for its packet, or a further one.
    fn take(&mut self, piece: TransmitDescriptor, sink: &impl PacketSink) -> bool {
        let is_next = match self.all().last() {
            None => sink.has_room(&piece),
            // Only a region that its own program has overwritten has more pieces than a packet may
            // have.
            Some(last) => last.more && self.len < MOST_PIECES,
        };
        if is_next {
            self.pieces[self.len] = piece;
            self.len += 1;
        }
        is_next
    }

    fn all(&self) -> &[TransmitDescriptor] {
        &self.pieces[..self.len]
    }
}

/// Copies packets that are not of streams out of the stack into a batch, or a ring. Returns whether
/// that is all: if not, there is no room for more.
#[must_use]
pub fn take_prompt(stack: &mut Stack<'_>, sink: &mut impl PacketSink) -> bool {
    while stack.prompt_len() > 0 {
        let mut packet = Pieces::NONE;
        stack.prompt_next(|piece| packet.take(piece, sink));
        if packet.len == 0 {
            return false;
        }
        sink.copy(stack, packet.all());
        packet.all().iter().for_each(|&piece| stack.prompt_gone(piece));
    }
    true
}

/// Copies packets of streams out of the stack into a ring, and none before all that is not of
/// streams. Returns whether that is all: if not, there is no room for more.
#[must_use]
pub fn copy_streams(stack: &mut Stack<'_>, sink: &mut impl PacketSink) -> bool {
    while stack.stream_len() > 0 {
        let mut packet = Pieces::NONE;
        stack.stream_begin(|piece| packet.take(piece, sink));
        if packet.len > 0 {
            sink.copy(stack, packet.all());
        }
        stack.stream_end(packet.all().iter().copied());
        if packet.len == 0 {
            return false;
        }
    }
    true
}

/// Takes packets of streams out of the stack into a batch that has none, as trains if there is a
/// bulk device and enough of them. None before all that is not of streams. They are sent when the
/// stack is told so ([`Stack::stream_end`]).
pub fn take_streams<P: PacketPart>(stack: &mut Stack<'_>, batch: &mut Batch<'_, P>, is_bulk: bool) {
    stack.stream_begin(|frame| batch.take_frame(frame));
    if is_bulk && batch.frames().len() >= BULK_FROM {
        batch.write_trains(stack);
    } else {
        batch.write_packets(stack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_ring::tests::{TestProducer, ring};
    use crate::record_ring::{OwnedRing, RecordProducer};
    use crate::train::VIRTIO;
    use crate::tx_batch::tests::{memory, sent};
    use tickwire_sim::SimulatedPair;
    use tickwire_stack::UdpId;
    use tickwire_stack::addr::{Address, Endpoint};
    use tickwire_stack::tcp::TcpSetting;
    use tickwire_stack::time::Span;
    use tickwire_stack::udp::{SendTo, UdpOptions};

    fn udp(pair: &mut SimulatedPair, host: usize, port: u16) -> UdpId {
        let address = pair.host(host).addresses[0];
        let mut stack = pair.stack(host);
        let id = stack.udp_open(UdpOptions::default()).unwrap();
        stack.udp_bind(id, Endpoint::new(address, port)).unwrap();
        id
    }

    /// Sends a datagram from host 0.
    fn send(pair: &mut SimulatedPair, id: UdpId, destination: Endpoint, bytes: &[u8]) {
        let (now, to) = (pair.now(), SendTo { destination: Some(destination), ..SendTo::default() });
        pair.stack(0).udp_send(id, now, &to, &mut &bytes[..]).unwrap();
    }

    #[test]
    fn what_one_stack_sends_the_other_receives_from_its_ring() {
        let mut pair = SimulatedPair::seeded(1);
        let (from, to) = (udp(&mut pair, 0, 1000), udp(&mut pair, 1, 2000));
        let destination = Endpoint::new(pair.host(1).addresses[0], 2000);
        send(&mut pair, from, destination, b"first");
        send(&mut pair, from, destination, b"second");
        let mut memory = memory();
        let mut batch = Batch::new(&mut *memory);
        assert!(take_prompt(&mut pair.stack(0), &mut batch));
        assert_eq!(pair.stack(0).prompt_len(), 0);
        let ring = ring();
        let now = pair.now();
        assert_eq!(poll(&ring, &mut pair.stack(1), now), 0);
        let packets = sent(&batch);
        assert_eq!(packets.len(), 2);
        for (write, bytes) in packets {
            assert!(!write.bulk && write.packets == 1);
            ring.memory().put(&bytes);
        }
        pair.stack(1).fill();
        assert_eq!(poll(&ring, &mut pair.stack(1), now), 2);
        for expected in [&b"first"[..], b"second"] {
            let mut got = Vec::new();
            pair.stack(1).udp_recv(to, false, &mut got).unwrap();
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn what_a_batch_has_no_room_for_waits_and_is_in_order() {
        let mut pair = SimulatedPair::seeded(1);
        let from = udp(&mut pair, 0, 1000);
        let destination = Endpoint::new(pair.host(1).addresses[0], 2000);
        for n in 0..100_u8 {
            send(&mut pair, from, destination, &[n; 100]);
        }
        let mut memory = memory();
        let mut batch = Batch::new(&mut *memory);
        let mut order = Vec::new();
        let mut rounds = 0;
        loop {
            let is_all = take_prompt(&mut pair.stack(0), &mut batch);
            order.extend(sent(&batch).iter().map(|(_, bytes)| *bytes.last().unwrap()));
            batch.clear();
            rounds += 1;
            if is_all {
                break;
            }
        }
        assert_eq!(order, Vec::from_iter(0..100_u8));
        assert_eq!(rounds, 2);
        assert!(batch.is_empty());
    }

    /// A connection from host 0, which has written so much.
    fn stream(pair: &mut SimulatedPair, bytes: &[u8]) {
        let remote = Endpoint::new(pair.host(1).addresses[0], 80);
        let local = Endpoint::new(pair.host(0).addresses[0], 4000);
        let options = pair.stack(1).tcp_defaults();
        let listener = pair.stack(1).tcp_listen(&options, Endpoint::new(Address::ANY, 80), 8).unwrap();
        let now = pair.now();
        let id = pair.stack(0).tcp_connect(&options, local, remote, now).unwrap();
        assert!(pair.run_until(Span::from_secs(1), |pair| pair.stack(1).tcp_accept(listener).is_ok()));
        let now = pair.now();
        pair.stack(0).tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
        assert_eq!(pair.stack(0).tcp_send(id, now, false, &mut &bytes[..]), Ok(bytes.len()));
    }

    #[test]
    fn a_stream_goes_as_one_train_or_packet_by_packet() {
        const ETHERNET_IP: usize = 14 + 20;
        let data: Vec<u8> = (0..8000_u32).map(|n| (n * 7 / 5) as u8).collect();
        for is_bulk in [false, true] {
            let mut pair = SimulatedPair::seeded(1);
            stream(&mut pair, &data);
            let mut memory = memory();
            let mut batch = Batch::new(&mut *memory);
            assert!(take_prompt(&mut pair.stack(0), &mut batch) && batch.is_empty());
            assert!(has_trains(&pair.stack(0)));
            take_streams(&mut pair.stack(0), &mut batch, is_bulk);
            let before = if is_bulk { VIRTIO } else { 0 };
            let payload = |bytes: &Vec<u8>| {
                let tcp = before + ETHERNET_IP;
                bytes[tcp + usize::from(bytes[tcp + 12] >> 4) * 4..].to_vec()
            };
            let writes = sent(&batch);
            assert_eq!(writes.iter().flat_map(|(_, bytes)| payload(bytes)).collect::<Vec<u8>>(), data);
            assert!(writes.iter().all(|(write, _)| write.bulk == is_bulk));
            let packets: usize = writes.iter().map(|(write, _)| usize::from(write.packets)).sum();
            assert_eq!(packets, batch.frames().len());
            assert_eq!(writes.len(), if is_bulk { 1 } else { packets });
            pair.stack(0).stream_end(batch.frames().iter().copied());
            assert!(!pair.stack(0).stream_is_begun());
            assert!(!has_trains(&pair.stack(0)));
        }
    }
    #[test]
    fn packets_go_into_a_ring_as_far_as_there_is_room_and_none_is_lost() {
        let data: Vec<u8> = (0..20_000_u32).map(|n| (n * 7 / 5) as u8).collect();
        let mut pair = SimulatedPair::seeded(1);
        stream(&mut pair, &data);
        let from = udp(&mut pair, 0, 1000);
        let destination = Endpoint::new(pair.host(1).addresses[0], 2000);
        send(&mut pair, from, destination, b"prompt");
        let memory = OwnedRing::new(8192);
        let (mut tx, ring) = (RecordProducer::new(memory.clone()), RecordRing::new(memory));
        let (mut packets, mut rounds) = (Vec::new(), 0);
        loop {
            let mut stack = pair.stack(0);
            let is_all = take_prompt(&mut stack, &mut tx) && copy_streams(&mut stack, &mut tx);
            assert!(!stack.stream_is_begun());
            let _ = tx.publish();
            ring.read(64, |packet, read| {
                let mut bytes = vec![0; packet.len as usize];
                read(0, &mut bytes);
                packets.push(bytes);
            });
            // The room of what has been read is the producer's again.
            ring.arm(0);
            rounds += 1;
            if is_all {
                break;
            }
        }
        assert!(rounds > 1);
        assert!(packets[0].ends_with(b"prompt"), "before what is of a stream");
        let sent: usize = packets[1..].iter().map(|packet| packet.len() - 14 - 20 - 32).sum();
        assert!((8000..=data.len()).contains(&sent), "as the congestion window allows: {sent}");
    }
}
