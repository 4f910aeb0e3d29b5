use super::*;
use std::sync::Arc;
use tickwire_lane::port;
use tickwire_lane::record_ring::OwnedRing;
use tickwire_registry::{Bound, Registry};
use tickwire_sim::SimulatedPair;
use tickwire_stack::UdpId;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::RecvFlags;
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{Checksum, StackError, TcpId};
use tickwire_steer::counters::GuardRefusal;
use tickwire_steer::tables::{AddressKey, EgressNic, Protocol, SourceKey};
use tickwire_steer::{Kernel, KernelSocket};

const NIC: NicIndex = 3;
const LANE: LaneNumber = 7;
const SIZE: usize = 1 << 16;

struct NoSockets;

impl Kernel for NoSockets {
    fn tcp_socket(&self, _: Endpoint, _: Endpoint) -> Option<KernelSocket> {
        None
    }
}

/// The rings of a lane, as its program has them.
struct ProgramRings {
    receive: RecordRing<Arc<OwnedRing>>,
    transmit: RecordProducer<Arc<OwnedRing>>,
}

fn rings() -> (ProgramRings, LaneRings<Arc<OwnedRing>, Arc<OwnedRing>>) {
    let (receive, transmit) = (OwnedRing::new(SIZE), OwnedRing::new(SIZE));
    let program = ProgramRings {
        receive: RecordRing::new(Arc::clone(&receive)),
        transmit: RecordProducer::new(Arc::clone(&transmit)),
    };
    (program, LaneRings { receive: RecordProducer::new(receive), transmit: RecordRing::new(transmit) })
}

/// Host 0 of a pair is a program on a lane; host 1 is beyond the network card.
struct Host {
    /// Not connected by its own links, and without its clock.
    pair: SimulatedPair,
    now: Instant,
    program: ProgramRings,
    forwarder: Forwarder<Arc<OwnedRing>, Arc<OwnedRing>>,
    registry: Registry,
    /// Received frames that were left to the kernel.
    kernels: Vec<Vec<u8>>,
}

impl Host {
    fn new() -> Self {
        let pair = SimulatedPair::seeded(1);
        let (program, service) = rings();
        let mut forwarder = Forwarder::new();
        let tables = forwarder.tables_mut();
        tables.nics.insert(NIC, EgressNic { mtu: 1500 });
        let mac = pair.host(0).mac;
        for address in pair.host(0).addresses {
            tables.addresses.insert(AddressKey { nic: NIC, address }, mac);
            tables.sources.insert(SourceKey { address, mac }, NIC);
        }
        forwarder.add_lane(LANE, service);
        let now = pair.now();
        Self { pair, now, program, forwarder, registry: Registry::default(), kernels: Vec::new() }
    }

    fn address(&self, host: usize) -> Address {
        self.pair.host(host).addresses[0]
    }

    /// The program has bound a port.
    fn claim(&mut self, protocol: Protocol, port: u16) {
        let local = Endpoint::new(Address::ANY_V4, port);
        let bound = Bound { protocol, local, dual: false, shares: false, reuses: false };
        let (_, changes) = self.registry.claim_bound(LANE, bound).unwrap();
        self.forwarder.apply(&changes);
    }

    /// Frames from the wire to the host.
    fn arrive(&mut self, frames: &[Vec<u8>]) {
        let now = self.now;
        let arrival = FrameArrival { nic: NIC, now_ns: now.as_nanos(), tag: None, merged: None, kernel: &NoSockets };
        for frame in frames {
            let packet = ReceiveMetadata {
                len: frame.len() as u32,
                segment: 0,
                checksum: Checksum::Unknown,
                at: now,
                interface: NIC,
            };
            if self.forwarder.receive(frame, &packet, &arrival) {
                self.kernels.push(frame.clone());
            }
        }
        self.forwarder.publish(|_, _| ());
    }

    /// Lets all packets travel until there are none.
    fn run(&mut self) {
        loop {
            let now = self.now;
            let mut stack = self.pair.stack(0);
            let _ = port::take_prompt(&mut stack, &mut self.program.transmit)
                && port::copy_streams(&mut stack, &mut self.program.transmit);
            let _ = self.program.transmit.publish();
            let mut sent = Vec::new();
            self.forwarder.transmit(now.as_nanos(), |frame| {
                assert_eq!(frame.nic, NIC);
                sent.push(frame.bytes.to_vec());
            });
            self.pair.host_mut(1).receive_together(now, &sent);
            let answers = self.pair.host_mut(1).transmit(now);
            self.arrive(&answers);
            self.pair.stack(0).fill();
            port::poll(&self.program.receive, &mut self.pair.stack(0), now);
            if sent.is_empty() && answers.is_empty() && !self.pair.stack(0).has_egress() {
                break;
            }
        }
    }

    /// Lets time pass, after which stacks may acknowledge and send more.
    fn pass(&mut self, time: Span) {
        self.run();
        self.now += time;
        let now = self.now;
        (0..2).for_each(|host| self.pair.stack(host).on_time(now));
        self.run();
    }

    fn udp(&mut self, host: usize, port: u16) -> UdpId {
        let local = Endpoint::new(self.address(host), port);
        let mut stack = self.pair.stack(host);
        let id = stack.udp_open(UdpOptions::default()).unwrap();
        stack.udp_bind(id, local).unwrap();
        id
    }

    fn send(&mut self, host: usize, id: UdpId, port: u16, bytes: &[u8]) {
        let destination = Endpoint::new(self.address(1 - host), port);
        let to = SendTo { destination: Some(destination), ..SendTo::default() };
        let now = self.now;
        self.pair.stack(host).udp_send(id, now, &to, &mut &bytes[..]).unwrap();
    }

    fn received(&mut self, host: usize, id: UdpId) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.pair.stack(host).udp_recv(id, false, &mut bytes).ok().map(|_| bytes)
    }
}

#[test]
fn datagrams_of_claimed_ports_cross_both_ways_and_others_are_the_kernels() {
    let mut host = Host::new();
    let (program, peer) = (host.udp(0, 1000), host.udp(1, 2000));
    host.claim(Protocol::Udp, 1000);
    host.send(1, peer, 1000, b"to the program");
    host.send(1, peer, 1001, b"to the kernel");
    host.run();
    assert_eq!(host.received(0, program), Some(b"to the program".to_vec()));
    assert_eq!(host.kernels.len(), 1);
    host.send(0, program, 2000, b"back");
    host.run();
    assert_eq!(host.received(1, peer), Some(b"back".to_vec()));
    let counters = host.forwarder.tables().lane_counters[&LANE];
    assert_eq!((counters.in_packets, counters.out_packets), (1, 1));
}

#[test]
fn a_stream_larger_than_the_rings_crosses_unchanged() {
    let mut host = Host::new();
    host.claim(Protocol::Tcp, 80);
    let (here, there) = (Endpoint::new(host.address(0), 80), Endpoint::new(host.address(1), 4000));
    let options = host.pair.stack(0).tcp_defaults();
    let listener = host.pair.stack(0).tcp_listen(&options, here, 8).unwrap();
    let now = host.now;
    let client = host.pair.stack(1).tcp_connect(&options, there, here, now).unwrap();
    host.run();
    let server = host.pair.stack(0).tcp_accept(listener).unwrap();
    let data: Vec<u8> = (0..4 * SIZE as u32).map(|n| (n * 7 / 5) as u8).collect();
    for (from, sender, to, receiver) in [(0, server, 1, client), (1, client, 0, server)] {
        assert_eq!(transfer(&mut host, (from, sender), (to, receiver), &data), data);
    }
    // The rings are smaller than TCP's windows: what finds no room is sent again.
    assert_eq!(host.forwarder.losses(LANE).malformed, 0);
    assert!(host.kernels.is_empty());
}

/// Sends so many bytes from one end of a connection, and returns what the other receives.
fn transfer(host: &mut Host, from: (usize, TcpId), to: (usize, TcpId), data: &[u8]) -> Vec<u8> {
    let (mut sent, mut received) = (0, Vec::new());
    for _ in 0..10_000 {
        let now = host.now;
        match host.pair.stack(from.0).tcp_send(from.1, now, false, &mut &data[sent..]) {
            Ok(count) => sent += count,
            Err(error) => assert_eq!(error, StackError::WouldBlock),
        }
        host.pass(Span::from_millis(1));
        let now = host.now;
        let _ = host.pair.stack(to.0).tcp_recv(to.1, now, RecvFlags::default(), &mut received);
        if received.len() == data.len() {
            break;
        }
    }
    received
}

#[test]
fn what_a_lane_may_not_send_is_refused_and_counted() {
    let mut host = Host::new();
    let program = host.udp(0, 1000);
    host.send(0, program, 2000, b"from a port that is not claimed");
    host.run();
    let refused = host.forwarder.tables().lane_counters[&LANE].refused;
    assert_eq!(refused[GuardRefusal::Port as usize], 1);
}

#[test]
fn a_program_that_writes_anything_into_its_ring_harms_itself_alone() {
    let mut host = Host::new();
    let (mut other, service) = rings();
    host.forwarder.add_lane(8, service);
    host.claim(Protocol::Udp, 1000);
    let (program, peer) = (host.udp(0, 1000), host.udp(1, 2000));
    let whatever = ReceiveMetadata { len: 5, segment: 9, checksum: Checksum::Good, at: host.now, interface: 9 };
    for length in [0, 1, 13, 14, 60, 1500, 9000, 16_000] {
        for byte in [0, 8, 0x45, 0xff] {
            assert!(other.transmit.put(&whatever, &[&vec![byte; length]]));
            let _ = other.transmit.publish();
            host.send(0, program, 2000, &[byte]);
            host.run();
            assert_eq!(host.received(1, peer), Some(vec![byte]));
        }
    }
    let counters = host.forwarder.tables().lane_counters[&8];
    assert_eq!((counters.out_packets, counters.refused.iter().sum::<u64>()), (0, 24));
    assert_eq!(host.forwarder.losses(8).malformed, 8, "longer than a card sends");
}

#[test]
fn a_full_ring_loses_packets_counts_them_and_goes_on() {
    let mut host = Host::new();
    let (program, peer) = (host.udp(0, 1000), host.udp(1, 2000));
    host.claim(Protocol::Udp, 1000);
    let now = host.now;
    let mut frames = Vec::new();
    for _ in 0..100 {
        host.send(1, peer, 1000, &[1; 1000]);
        frames.extend(host.pair.host_mut(1).transmit(now));
    }
    host.arrive(&frames);
    let fit = SIZE / (1000 + 42 + 32 + 6);
    assert_eq!(host.forwarder.losses(LANE).ring_full, 100 - fit as u64);
    host.run();
    host.send(1, peer, 1000, b"after");
    host.run();
    let mut last = None;
    while let Some(bytes) = host.received(0, program) {
        last = Some(bytes);
    }
    assert_eq!(last, Some(b"after".to_vec()));
}

#[test]
fn the_thread_sleeps_only_when_nothing_is_to_be_sent_and_is_woken_then() {
    let mut host = Host::new();
    let program = host.udp(0, 1000);
    host.claim(Protocol::Udp, 1000);
    assert!(host.forwarder.arm());
    host.send(0, program, 2000, b"x");
    assert!(port::take_prompt(&mut host.pair.stack(0), &mut host.program.transmit));
    assert_eq!(host.program.transmit.publish(), Wakes::Waiters);
    host.forwarder.disarm();
    assert!(!host.forwarder.arm(), "a packet waits");
    host.forwarder.disarm();
    assert_eq!(host.forwarder.transmit(0, |_| ()), 1);
    assert!(host.forwarder.arm());
}

#[test]
fn a_lane_that_ends_sends_its_last_packets_and_leaves_nothing_behind() {
    let mut host = Host::new();
    let program = host.udp(0, 1000);
    host.claim(Protocol::Udp, 1000);
    host.send(0, program, 2000, b"last");
    assert!(port::take_prompt(&mut host.pair.stack(0), &mut host.program.transmit));
    let _ = host.program.transmit.publish();
    let mut sent = 0;
    assert_eq!(host.forwarder.transmit_lane(LANE, 0, |_| sent += 1), 1);
    let (counters, losses) = host.forwarder.remove_lane(LANE);
    assert_eq!((sent, counters.out_packets, losses), (1, 1, RingLosses::default()));
    let claims = host.registry.of_lane(LANE);
    for claim in claims {
        let changes = host.registry.release(LANE, claim).unwrap();
        host.forwarder.apply(&changes);
    }
    let tables = host.forwarder.tables();
    assert!(tables.lanes.is_empty() && tables.ports.is_empty() && tables.owned.is_empty());
    assert!(tables.lane_counters.is_empty());
}
