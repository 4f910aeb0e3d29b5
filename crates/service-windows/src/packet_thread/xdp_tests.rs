//! Two services, whose cards are of XDP with a wire between them: a stand-in for the driver is in
//! this process. Each service has a lane with a program, which is a stack.

use super::*;
use tickwire_card_windows::card::{CardClock, NicDescription};
use tickwire_card_windows::xdp::fake_driver::{FakeDriver, FakeNetwork};
use tickwire_card_windows::xdp::xdp_card::XdpCard;
use tickwire_lane::port;
use tickwire_lane::record_ring::{OwnedRing, RecordProducer, RecordRing};
use tickwire_registry::{Bound, Registry, end_frame, end_segments};
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::Address;
use tickwire_stack::tcp::RecvFlags;
use tickwire_stack::time::{Instant as StackInstant, Span};
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{StackError, TcpId, UdpId};
use tickwire_steer::counters::GuardRefusal;
use tickwire_steer::tables::{AddressKey, EgressNic, NicIndex, Protocol, SourceKey};

const NICS: [NicIndex; 2] = [3, 4];
const LANE: LaneNumber = 7;
const RING: usize = 1 << 18;

struct NoThreads;

impl LaneWaker for NoThreads {
    fn wake(&self, _: Wakes) {}
}

/// A service and the rings of its program.
struct Service {
    path: PacketPath<Arc<OwnedRing>, Arc<OwnedRing>>,
    receive: RecordRing<Arc<OwnedRing>>,
    transmit: RecordProducer<Arc<OwnedRing>>,
    registry: Registry,
}

fn open_card(network: &FakeNetwork, nic: NicDescription) -> XdpCard<FakeDriver> {
    let clock = CardClock { now: || StackInstant::from_nanos(5), at_count: |_| StackInstant::from_nanos(5) };
    XdpCard::open(network.driver(), nic, clock).unwrap()
}

impl Service {
    fn new(network: &FakeNetwork, pair: &SimulatedPair, host: usize) -> Self {
        let (index, mac) = (NICS[host], pair.host(host).mac);
        let card = open_card(network, NicDescription { index, mac, mtu: 1500 });
        let mut path = PacketPath::new(Box::new(card), || 5);
        let mut tables = Tables::default();
        tables.nics.insert(index, EgressNic { mtu: 1500 });
        for address in pair.host(host).addresses {
            tables.addresses.insert(AddressKey { nic: index, address }, mac);
            tables.sources.insert(SourceKey { address, mac }, index);
        }
        path.set_host(tables).unwrap();
        let (receive, transmit) = (OwnedRing::new(RING), OwnedRing::new(RING));
        let rings = LaneRings {
            receive: RecordProducer::new(Arc::clone(&receive)),
            transmit: RecordRing::new(Arc::clone(&transmit)),
        };
        path.add_lane(LANE, rings, Box::new(NoThreads));
        let (receive, transmit) = (RecordRing::new(receive), RecordProducer::new(transmit));
        Self { path, receive, transmit, registry: Registry::default() }
    }

    fn claim(&mut self, protocol: Protocol, port: u16) {
        let local = Endpoint::new(Address::ANY_V4, port);
        let bound = Bound { protocol, local, dual: false, shares: false, reuses: false };
        let (_, changes) = self.registry.claim_bound(LANE, bound).unwrap();
        self.path.apply(&changes).unwrap();
    }

    /// What becomes of the claims when the program is gone.
    fn release_all(&mut self) {
        for claim in self.registry.of_lane(LANE) {
            let changes = self.registry.release(LANE, claim).unwrap();
            assert_eq!(self.path.withdraw(&changes), 0);
        }
    }
}

struct World {
    network: FakeNetwork,
    /// Its stacks are the programs. Its own links are not used.
    pair: SimulatedPair,
    services: [Service; 2],
    now: StackInstant,
}

impl World {
    fn new() -> Self {
        let network = FakeNetwork::default();
        NICS.iter().for_each(|&nic| network.add_nic(nic, 3));
        network.connect(NICS[0], NICS[1]);
        let pair = SimulatedPair::seeded(1);
        let services = [0, 1].map(|host| Service::new(&network, &pair, host));
        let now = pair.now();
        Self { network, pair, services, now }
    }

    fn address(&self, host: usize) -> Address {
        self.pair.host(host).addresses[0]
    }

    /// Lets packets travel until there are none.
    fn run(&mut self) {
        for _ in 0..10_000 {
            let mut has_moved = false;
            for (host, service) in self.services.iter_mut().enumerate() {
                let mut stack = self.pair.stack(host);
                let _ = port::take_prompt(&mut stack, &mut service.transmit)
                    && port::copy_streams(&mut stack, &mut service.transmit);
                let _ = service.transmit.publish();
                has_moved |= service.path.turn(self.now.as_nanos()).unwrap();
                self.network.run();
                let mut stack = self.pair.stack(host);
                stack.fill();
                port::poll(&service.receive, &mut stack, self.now);
                has_moved |= stack.has_egress();
            }
            if !has_moved {
                return;
            }
        }
        panic!("packets go on for ever");
    }

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
        self.run();
    }

    fn received(&mut self, host: usize, id: UdpId) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.pair.stack(host).udp_recv(id, false, &mut bytes).ok().map(|_| bytes)
    }

    /// A connection from a port of host 1 to port 80 of host 0: its ends there.
    fn connect(&mut self, port: u16) -> [TcpId; 2] {
        let (here, there) = (Endpoint::new(self.address(0), 80), Endpoint::new(self.address(1), port));
        let options = self.pair.stack(0).tcp_defaults();
        let listener = self.pair.stack(0).tcp_listen(&options, here, 8).unwrap();
        let now = self.now;
        let client = self.pair.stack(1).tcp_connect(&options, there, here, now).unwrap();
        self.run();
        [self.pair.stack(0).tcp_accept(listener).unwrap(), client]
    }

    /// Sends so many bytes from one end of a connection, and returns what the other one receives.
    fn transfer(&mut self, ends: [TcpId; 2], from: usize, data: &[u8]) -> Vec<u8> {
        let (mut sent, mut received) = (0, Vec::new());
        for _ in 0..20_000 {
            let now = self.now;
            match self.pair.stack(from).tcp_send(ends[from], now, false, &mut &data[sent..]) {
                Ok(count) => sent += count,
                Err(error) => assert_eq!(error, StackError::WouldBlock),
            }
            self.pass(Span::from_millis(1));
            let (to, now) = (1 - from, self.now);
            let _ = self.pair.stack(to).tcp_recv(ends[to], now, RecvFlags::default(), &mut received);
            if received.len() == data.len() {
                break;
            }
        }
        received
    }
}

#[test]
fn datagrams_cross_both_ways_and_those_of_other_ports_are_the_kernels() {
    let mut world = World::new();
    let (one, two) = (world.udp(0, 1000), world.udp(1, 2000));
    world.services[0].claim(Protocol::Udp, 1000);
    world.services[1].claim(Protocol::Udp, 2000);
    world.send(1, two, 1000, b"to the program");
    world.send(1, two, 1001, b"to the kernel");
    world.send(0, one, 2000, b"back");
    assert_eq!(world.received(0, one), Some(b"to the program".to_vec()));
    assert_eq!(world.received(1, two), Some(b"back".to_vec()));
    assert_eq!(world.network.take_kernels(NICS[0]).len(), 1);
    let counters = world.services[0].path.counters();
    assert_eq!((counters.diverted, counters.unsent, counters.losses), (1, 0, CardLosses::default()));
}

#[test]
fn packets_of_a_claimed_port_that_are_no_lanes_are_given_back() {
    let mut world = World::new();
    let two = world.udp(1, 2000);
    world.services[1].claim(Protocol::Udp, 2000);
    // A port of one address: the same port of the other one is the kernel's.
    let local = Endpoint::new(world.pair.host(0).addresses[1], 1000);
    let bound = Bound { protocol: Protocol::Udp, local, dual: false, shares: false, reuses: false };
    let (_, changes) = world.services[0].registry.claim_bound(LANE, bound).unwrap();
    world.services[0].path.apply(&changes).unwrap();
    world.send(1, two, 1000, b"not for the lane");
    let kernels = world.network.take_kernels(NICS[0]);
    assert!(kernels.len() == 1 && kernels[0].ends_with(b"not for the lane"));
    let counters = world.services[0].path.counters();
    assert_eq!((counters.diverted, counters.passed), (0, 1));
}

#[test]
fn streams_cross_unchanged_also_if_frames_are_lost() {
    let mut world = World::new();
    world.services[0].claim(Protocol::Tcp, 80);
    world.services[1].claim(Protocol::Tcp, 4000);
    let ends = world.connect(4000);
    let data: Vec<u8> = (0..2_000_000_u32).map(|n| (n * 7 / 5) as u8).collect();
    assert_eq!(world.transfer(ends, 0, &data), data);
    world.network.set_poke(true);
    world.network.lose(3);
    assert_eq!(world.transfer(ends, 1, &data), data);
    assert!(world.network.take_kernels(NICS[0]).is_empty() && world.network.take_kernels(NICS[1]).is_empty());
    assert_eq!(world.services.each_ref().map(|service| service.path.counters().unsent), [0, 0]);
}

#[test]
fn what_a_lane_may_not_send_is_refused_counted_and_does_not_leave() {
    let mut world = World::new();
    let (one, two) = (world.udp(0, 1000), world.udp(1, 2000));
    world.services[1].claim(Protocol::Udp, 2000);
    world.send(0, one, 2000, b"from a port that is not claimed");
    assert_eq!(world.received(1, two), None);
    assert!(world.network.take_kernels(NICS[1]).is_empty());
    let refused = world.services[0].path.forwarder.tables().lane_counters[&LANE].refused;
    assert_eq!(refused[GuardRefusal::Port as usize], 1);
}

#[test]
fn the_peer_of_a_killed_program_is_told_and_its_ports_are_the_kernels() {
    let mut world = World::new();
    world.services[0].claim(Protocol::Tcp, 80);
    world.services[1].claim(Protocol::Tcp, 4000);
    let ends = world.connect(4000);
    assert_eq!(world.transfer(ends, 1, b"before"), b"before");
    let frames: Vec<Vec<u8>> = {
        let stack = world.pair.stack(0);
        let row = stack.socket_row(ends[0].into()).unwrap();
        end_segments(row, |_, _| true).iter().filter_map(end_frame).collect()
    };
    assert!(!frames.is_empty());
    world.services[0].path.send_for(LANE, frames);
    world.services[0].release_all();
    let (counters, _) = world.services[0].path.remove_lane(LANE);
    assert!(counters.in_packets > 0);
    world.network.run();
    world.services[1].path.turn(world.now.as_nanos()).unwrap();
    let now = world.now;
    port::poll(&world.services[1].receive, &mut world.pair.stack(1), now);
    let outcome = world.pair.stack(1).tcp_recv(ends[1], now, RecvFlags::default(), &mut Vec::new());
    assert_eq!(outcome.map(drop), Err(StackError::Reset));
    assert!(world.network.take_kernels(NICS[0]).is_empty());
    // A new connection to the port is the kernel's.
    let (here, there) = (Endpoint::new(world.address(0), 80), Endpoint::new(world.address(1), 4000));
    let options = world.pair.stack(1).tcp_defaults();
    world.pair.stack(1).tcp_connect(&options, there, here, now).unwrap();
    world.run();
    assert_eq!(world.network.take_kernels(NICS[0]).len(), 1);
}

#[test]
fn a_thread_ends_when_its_card_is_removed_and_leaves_nothing_behind() {
    let network = FakeNetwork::default();
    network.add_nic(NICS[0], 2);
    let mac = tickwire_stack::addr::Mac([2, 0, 0, 0, 0, 1]);
    let card = open_card(&network, NicDescription { index: NICS[0], mac, mtu: 1500 });
    let thread = PacketThread::<Arc<OwnedRing>, Arc<OwnedRing>>::start(Box::new(card), super::tests::now_ns).unwrap();
    network.wait_for_sleeper();
    assert_eq!(thread.call(|path| path.counters().unsent), Some(0), "it is woken");
    network.wait_for_sleeper();
    network.detach(NICS[0], 0x8000_0000);
    while thread.call(|_| ()).is_some() {}
    drop(thread);
    assert_eq!(network.held(), [0; 3]);
}
