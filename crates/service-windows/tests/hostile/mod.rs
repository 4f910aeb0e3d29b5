//! A hostile program beside another, and a hostile network: what must hold whatever they write.
//! Shared with the fuzz target `forwarder`.
//!
//! The hostile program writes into its rings at any place and moves their positions, and puts
//! frames into its transmit ring. Its receive ring's consumer position is its own, too. From the
//! network come arbitrary frames, and ones that are near to good ones. Nothing panics, no frame
//! leaves that the hostile lane may not send, each one that does not leave is counted, and the
//! other program goes on.

mod frames;

use frames::{HERE, HERE_V6, MAC, NIC, PEER, Port, near, udp};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tickwire_lane::record_ring::{ConsumerPage, OwnedRing, RecordProducer, RecordRing, RingMemory};
use tickwire_registry::{Bound, Registry};
use tickwire_service_windows::forwarder::{Forwarder, LaneRings};
use tickwire_sim::Input;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, ReceiveMetadata};
use tickwire_steer::tables::{AddressKey, EgressNic, LaneNumber, Protocol, SourceKey};
use tickwire_steer::{FrameArrival, Kernel, KernelSocket, Merged};

/// The hostile program's lane, and the other one.
const HOSTILE: LaneNumber = 8;
const OTHER: LaneNumber = 7;

/// Bytes of a ring.
const SIZE: usize = 1 << 14;

/// At most so many actions of an input count.
const MOST_ACTIONS: usize = 256;

/// The ring of a lane as the service has it on Windows: its data lie there once, so no record
/// wraps.
#[derive(Debug)]
struct ReadOnce(Arc<OwnedRing>);

impl RingMemory for ReadOnce {
    fn size(&self) -> u64 {
        RingMemory::size(&self.0)
    }
    fn consumer_page(&self) -> &ConsumerPage {
        self.0.consumer_page()
    }
    fn producer(&self) -> &AtomicU64 {
        RingMemory::producer(&self.0)
    }
    fn header(&self, at: usize) -> u32 {
        self.0.header(at)
    }
    fn readable(&self) -> u64 {
        RingMemory::size(&self.0)
    }
    fn copy(&self, at: usize, to: &mut [u8]) {
        if at + to.len() <= SIZE {
            self.0.copy(at, to);
        }
    }
}

/// What the kernel may have between the ends of a flow.
const SOCKETS: [Option<KernelSocket>; 6] = [
    None,
    Some(KernelSocket::Listener),
    Some(KernelSocket::Request),
    Some(KernelSocket::FastOpen),
    Some(KernelSocket::TimeWait),
    Some(KernelSocket::Connection),
];

/// A kernel with such a socket for all ends.
struct Sockets(Option<KernelSocket>);

impl Kernel for Sockets {
    fn tcp_socket(&self, _: Endpoint, _: Endpoint) -> Option<KernelSocket> {
        self.0
    }
}

/// A lane's rings in its program.
struct Program {
    receive: Arc<OwnedRing>,
    transmit: Arc<OwnedRing>,
    reads: RecordRing<Arc<OwnedRing>>,
    puts: RecordProducer<Arc<OwnedRing>>,
}

struct Host {
    forwarder: Forwarder<ReadOnce, Arc<OwnedRing>>,
    hostile: Program,
    other: Program,
    now_ns: u64,
    /// Frames of the hostile lane that have left.
    left: u64,
}

fn lane() -> (Program, LaneRings<ReadOnce, Arc<OwnedRing>>) {
    let (receive, transmit) = (OwnedRing::new(SIZE), OwnedRing::new(SIZE));
    let service = LaneRings {
        receive: RecordProducer::new(Arc::clone(&receive)),
        transmit: RecordRing::new(ReadOnce(Arc::clone(&transmit))),
    };
    let reads = RecordRing::new(Arc::clone(&receive));
    let puts = RecordProducer::new(Arc::clone(&transmit));
    (Program { receive, transmit, reads, puts }, service)
}

impl Host {
    fn new() -> Self {
        let mut forwarder = Forwarder::new();
        let tables = forwarder.tables_mut();
        tables.nics.insert(NIC, EgressNic { mtu: 1500 });
        for address in [HERE, HERE_V6] {
            tables.addresses.insert(AddressKey { nic: NIC, address }, MAC);
            tables.sources.insert(SourceKey { address, mac: MAC }, NIC);
        }
        let ((hostile, of_hostile), (other, of_other)) = (lane(), lane());
        forwarder.add_lane(HOSTILE, of_hostile);
        forwarder.add_lane(OTHER, of_other);
        let mut registry = Registry::default();
        for (lane, protocol, port) in [
            (OTHER, Protocol::Udp, Port::Other),
            (OTHER, Protocol::Tcp, Port::Other),
            (HOSTILE, Protocol::Udp, Port::Hostile),
            (HOSTILE, Protocol::Tcp, Port::Hostile),
        ] {
            let local = Endpoint::new(Address::ANY, port as u16);
            let bound = Bound { protocol, local, dual: true, shares: false, reuses: false };
            let (_, changes) = registry.claim_bound(lane, bound).expect("the port is free");
            forwarder.apply(&changes);
        }
        Self { forwarder, hostile, other, now_ns: 1_000_000_000, left: 0 }
    }

    fn packet(&self, frame: &[u8], segment: u16) -> ReceiveMetadata {
        let at = Instant::from_nanos(self.now_ns);
        ReceiveMetadata { len: frame.len() as u32, segment, checksum: Checksum::Unknown, at, interface: NIC }
    }

    /// A frame comes from the network.
    fn arrive(&mut self, frame: &[u8], how: u8) {
        let segment = if how & 1 == 0 { 0 } else { u16::from(how) * 8 };
        let merged = (segment > 0).then_some(Merged { segment: segment.into(), packets: None });
        let tag = (how & 2 != 0).then_some(u16::from(how) << 4);
        let kernel = Sockets(SOCKETS[usize::from(how >> 2) % SOCKETS.len()]);
        let packet = self.packet(frame, segment);
        let arrival = FrameArrival { nic: NIC, now_ns: self.now_ns, tag, merged, kernel: &kernel };
        self.forwarder.receive(frame, &packet, &arrival);
        self.forwarder.publish(|_, _| ());
    }

    /// The hostile program's turn to send.
    fn hostile_turn(&mut self) {
        let left = &mut self.left;
        self.forwarder.transmit_lane(HOSTILE, self.now_ns, |frame| {
            assert_eq!(frame.nic, NIC);
            frames::assert_is_of(frame.bytes, Port::Hostile);
            *left += 1;
        });
    }

    /// A datagram in each direction of the other program, which are there at once.
    fn others_turn(&mut self, byte: u8) {
        let payload = [byte; 40];
        self.other.reads.read(u32::MAX, |_, _| ());
        let arriving = udp((PEER, 9), (HERE, Port::Other as u16), &payload);
        self.arrive(&arriving, 0);
        let mut received = Vec::new();
        self.other.reads.read(u32::MAX, |packet, read| {
            let mut frame = vec![0; packet.len as usize];
            read(0, &mut frame);
            received.push(frame);
        });
        assert!(received.contains(&arriving), "a packet of the other program is lost");
        let leaving = udp((HERE, Port::Other as u16), (PEER, 9), &payload);
        let packet = self.packet(&leaving, 0);
        assert!(self.other.puts.put(&packet, &[&leaving]), "the other program's ring is full");
        let _ = self.other.puts.publish();
        let mut sent = Vec::new();
        self.forwarder.transmit_lane(OTHER, self.now_ns, |frame| sent.push(frame.bytes.to_vec()));
        assert_eq!(sent, [leaving]);
    }

    fn act(&mut self, input: &mut Input<'_>) {
        match input.u8() % 10 {
            0 => {
                let length = usize::from(input.u16()) % 2000;
                let (frame, how) = (input.take(length), input.u8());
                self.arrive(frame, how);
            }
            1 => {
                let (frame, how) = (near(input, Port::Hostile), input.u8());
                self.arrive(&frame, how);
            }
            2 => {
                let length = usize::from(input.u16()) % 2000;
                let frame = input.take(length);
                self.put(frame);
            }
            3 => {
                let frame = near(input, Port::Hostile);
                self.put(&frame);
            }
            4 => {
                let (at, length) = (input.u16().into(), input.u8().into());
                self.hostile.transmit.forge(at, input.take(length));
            }
            5 => {
                let (high, low) = (input.u16(), input.u16());
                // Mostly near to where the ring is, sometimes anywhere.
                let far = if high & 1 == 0 { 0 } else { u64::from(high) << 48 };
                self.hostile.transmit.forge_producer(far | u64::from(low));
            }
            6 => {
                let (high, low) = (input.u16(), input.u16());
                let far = if high & 1 == 0 { 0 } else { u64::from(high) << 48 };
                self.hostile.reads.forge_consumer(far | u64::from(low));
            }
            7 => {
                let (at, length) = (input.u16().into(), input.u8().into());
                self.hostile.receive.forge(at, input.take(length));
            }
            8 => self.others_turn(input.u8()),
            _ => {
                self.now_ns += u64::from(input.u16()) * 1_000_000;
                self.forwarder.tidy(self.now_ns);
            }
        }
        self.hostile_turn();
    }

    /// The hostile program puts a frame into its ring, as its library does.
    fn put(&mut self, frame: &[u8]) {
        let packet = self.packet(frame, 0);
        if self.hostile.puts.put(&packet, &[frame]) {
            let _ = self.hostile.puts.publish();
        }
    }
}

/// Runs the actions of an input. Returns how many frames the hostile program got out.
pub(crate) fn check(data: &[u8]) -> u64 {
    let mut input = Input::new(data);
    let mut host = Host::new();
    for _ in 0..MOST_ACTIONS {
        if input.is_empty() {
            break;
        }
        host.act(&mut input);
    }
    // What was taken out of the hostile ring has left, or is counted.
    let counters = host.forwarder.tables().lane_counters[&HOSTILE];
    assert_eq!(counters.out_packets, host.left);
    host.others_turn(1);
    let (counters, _) = host.forwarder.remove_lane(HOSTILE);
    assert_eq!(counters.out_packets, host.left);
    host.others_turn(2);
    host.left
}
