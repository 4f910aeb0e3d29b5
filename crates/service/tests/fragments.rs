//! Fragments of datagrams, to groups and to one host, that arrive in another order than they were
//! sent.

mod common;

use common::{Client, LaneOf, Wire, World, checksum, skipped, until, within};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};
use tickwire_lane::control::{Claim, CountersOf, Reply, Request};
use tickwire_service::Attach;
use tickwire_stack::Stack;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::ids::UdpId;
use tickwire_stack::udp::{GroupFilter, UdpOptions};

/// So many fragments are copied by the BPF programs in a second before their receiver is known.
const MOST_EARLY: u64 = 512;

const GROUPS: [&str; 2] = ["239.1.2.3", "ff15::3"];

/// Where the datagrams come from and go to.
struct Sender {
    wire: Wire,
    from: IpAddr,
    to: IpAddr,
    /// Identifications so far.
    sent: u32,
}

impl Sender {
    fn new(world: &World, to: &str) -> Self {
        let to: IpAddr = to.parse().unwrap();
        let from = if to.is_ipv4() { world.pair.b_v4() } else { world.pair.b_v6() };
        Self { wire: Wire::new(world), from: from.parse().unwrap(), to, sent: 0 }
    }

    /// Sends those pieces of a datagram, each of 1000 bytes and the last of what is left, in that
    /// order.
    fn send(&mut self, port: u16, payload: &[u8], order: &[usize]) {
        self.sent += 1;
        let udp = self.udp(port, payload);
        for &piece in order {
            let frame = self.frame(&udp, piece);
            self.wire.sender.send(&frame).unwrap();
        }
    }

    fn udp(&self, port: u16, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(8 + payload.len()).unwrap();
        let mut udp = [[9, 9], port.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
        udp.extend(payload);
        let mut summed = [Address::from(self.from).0, Address::from(self.to).0].concat();
        if self.from.is_ipv4() {
            summed = [&summed[12..16], &summed[28..]].concat();
        }
        summed.extend([[0, 17], length.to_be_bytes()].concat());
        summed.extend(&udp);
        summed.resize(summed.len().next_multiple_of(2), 0);
        udp[6..8].copy_from_slice(&checksum(&summed));
        udp
    }

    fn frame(&self, udp: &[u8], piece: usize) -> Vec<u8> {
        let start = piece * 1000;
        let data = &udp[start..udp.len().min(start + 1000)];
        let more = start + data.len() < udp.len();
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let length = u16::try_from(20 + data.len()).unwrap().to_be_bytes();
                let offset = (u16::try_from(start / 8).unwrap() | u16::from(more) << 13).to_be_bytes();
                let mut ip = [[0x45, 0], length, (self.sent as u16).to_be_bytes(), offset, [64, 17], [0, 0]].concat();
                ip.extend([from.octets(), to.octets()].concat());
                let sum = checksum(&ip);
                ip[10..12].copy_from_slice(&sum);
                [&self.ethernet()[..], &[8, 0], &ip, data].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let length = u16::try_from(8 + data.len()).unwrap().to_be_bytes();
                let offset = (u16::try_from(start).unwrap() | u16::from(more)).to_be_bytes();
                let mut ip = [&[0x60, 0, 0, 0][..], &length, &[44, 64]].concat();
                ip.extend([from.octets(), to.octets()].concat());
                ip.extend([&[17, 0][..], &offset, &self.sent.to_be_bytes()].concat());
                [&self.ethernet()[..], &[0x86, 0xdd], &ip, data].concat()
            }
            _ => panic!("one family"),
        }
    }

    /// The Ethernet addresses.
    fn ethernet(&self) -> [u8; 12] {
        let [d0, d1, d2, d3, d4, d5] = match self.to {
            to if !to.is_multicast() => self.wire.here.0,
            IpAddr::V4(group) => {
                let [_, b, c, d] = group.octets();
                [1, 0, 0x5e, b & 0x7f, c, d]
            }
            IpAddr::V6(group) => {
                let [.., a, b, c, d] = group.octets();
                [0x33, 0x33, a, b, c, d]
            }
        };
        [d0, d1, d2, d3, d4, d5, 2, 0, 0, 0, 0, 9]
    }
}

/// A program that has a port, and has joined the group there if it is told one.
struct Member {
    client: Client,
    lane: LaneOf,
    stack: Stack<'static>,
    socket: UdpSocket,
    claim: Claim,
    group: IpAddr,
    id: UdpId,
}

impl Member {
    fn new(world: &World, to: IpAddr, port: u16) -> Self {
        let (mut client, lane, mut stack) = world.program();
        let any: IpAddr = if to.is_ipv4() { "0.0.0.0" } else { "::" }.parse().unwrap();
        let (socket, interface) = within(&world.pair.a, || {
            let eth0 = tickwire_host::RouteNetlink::open().unwrap().link_by_name("eth0").unwrap().unwrap();
            (UdpSocket::bind((any, port)).unwrap(), eth0.index)
        });
        let claim = client.claim_bound(&socket).unwrap();
        let id = stack.udp_open(UdpOptions::default()).unwrap();
        stack.udp_bind(id, Endpoint::new(any.into(), port)).unwrap();
        if to.is_multicast() {
            match to {
                IpAddr::V4(group) => socket.join_multicast_v4(&group, &world.pair.a_v4().parse().unwrap()).unwrap(),
                IpAddr::V6(group) => socket.join_multicast_v6(&group, interface).unwrap(),
            }
            let (reply, _) = client.request(&Request::Join { claim, group: to.into() }, &[]);
            assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
            stack.udp_set_filter(id, &GroupFilter::all(to.into())).unwrap();
        }
        Self { client, lane, stack, socket, claim, group: to, id }
    }

    fn hears(&mut self, what: &str) -> Vec<u8> {
        let (mut buffer, mut length, id) = ([0; 4096], None, self.id);
        self.lane.turn_until(&mut self.stack, what, |stack| {
            length = stack.udp_recv(id, false, &mut &mut buffer[..]).ok().map(|datagram| datagram.copied);
            length.is_some()
        });
        buffer[..length.unwrap()].to_vec()
    }

    /// Receives what is there. Returns whether that was anything.
    fn drains(&mut self) -> bool {
        self.lane.turn(&mut self.stack);
        self.stack.udp_recv(self.id, false, &mut &mut [0; 4096][..]).is_ok()
    }

    fn leave(&mut self) {
        let leave = Request::Leave { claim: self.claim, group: self.group.into() };
        assert!(matches!(self.client.request(&leave, &[]).0, Reply::Done));
    }

    /// What the kernel's socket receives.
    fn hears_by_the_kernel(&mut self) -> Vec<u8> {
        let mut buffer = [0; 4096];
        self.socket.set_read_timeout(Some(common::TIMEOUT)).unwrap();
        let length = self.socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    /// Packets to the lane so far, and stray fragments.
    fn diverted(&mut self) -> (u64, u64) {
        let lane = self.lane.lane;
        (self.client.counters(CountersOf::Lane, lane)[0], self.counted().1)
    }

    /// Copies to lanes so far, and stray fragments.
    fn counted(&mut self) -> (u64, u64) {
        let counters = self.client.counters(CountersOf::Host, 0);
        (counters[2], counters[4])
    }
}

fn in_any_order(attach: Attach, group: &str) {
    let world = World::new(attach);
    let mut sender = Sender::new(&world, group);
    let mut member = Member::new(&world, sender.to, 5000);
    let mut other = Member::new(&world, sender.to, 5001);
    let mut copies = 0;
    let orders = [
        // A piece before the first goes to both lanes, the others to one.
        (&[0, 1, 2, 3][..], 4),
        (&[3, 2, 1, 0], 7),
        (&[1, 0, 3, 2], 5),
    ];
    for (n, (order, copied)) in (1..).zip(orders) {
        let payload = vec![n; 3000];
        sender.send(5000, &payload, order);
        assert_eq!(member.hears("it is put together"), payload, "{order:?}");
        assert!(!other.drains());
        copies += copied;
        assert_eq!(member.counted(), (copies, 0), "{order:?}");
    }
    sender.send(5001, &[7; 3000], &[3, 2, 1, 0]);
    assert_eq!(other.hears("the other port's, too"), [7; 3000]);
    assert!(!member.drains());
    copies += 7;
    // In order, the fragments for a port without members go to no lane. Neither does a datagram
    // that names no port.
    sender.send(5002, &[8; 3000], &[0, 1, 2, 3]);
    sender.send(0, &[8; 900], &[0]);
    assert_eq!(member.counted(), (copies, 0));
    // A member that leaves gets no more of them, and the last one ends it.
    other.leave();
    sender.send(5000, &[9; 3000], &[3, 2, 1, 0]);
    assert_eq!(member.hears("the other one left"), [9; 3000]);
    assert_eq!(member.counted(), (copies + 4, 0));
    member.leave();
    sender.send(5000, &[9; 3000], &[3, 2, 1, 0]);
    assert_eq!(member.counted(), (copies + 4, 0));
}

#[test]
fn the_fragments_of_a_groups_datagram_reach_their_lanes_in_any_order() {
    if skipped() {
        return;
    }
    for group in GROUPS {
        in_any_order(Attach::Tc, group);
        in_any_order(Attach::Generic, group);
    }
}

#[test]
fn a_flood_of_fragments_for_no_socket_is_bounded_and_counted() {
    if skipped() {
        return;
    }
    for group in GROUPS {
        let world = World::new(Attach::Tc);
        let mut sender = Sender::new(&world, group);
        let mut member = Member::new(&world, sender.to, 5000);
        // Each first one that is for the lane makes room again.
        for _ in 0..MOST_EARLY + 100 {
            sender.send(5000, &[1; 1000], &[1, 0]);
            member.drains();
        }
        // The kernel may put packets off.
        until("all are counted", || member.counted() == ((MOST_EARLY + 100) * 2, 0));
        let began = Instant::now();
        for _ in 0..1000 {
            sender.send(5002, &[2; 1000], &[1, 0]);
            sender.send(5000, &[3; 2000], &[2]);
            member.drains();
        }
        let seconds = began.elapsed().as_secs() + 1;
        let mut counted = || {
            let (copies, stray) = member.counted();
            (copies - (MOST_EARLY + 100) * 2, stray)
        };
        until("each is either copied or told of", || {
            let (copies, stray) = counted();
            copies + stray == 2000
        });
        let (copies, _) = counted();
        assert!(copies <= MOST_EARLY * (seconds + 1) && copies >= MOST_EARLY, "{copies} copies in {seconds} s");
        // Those that come in order are no part of it, and afterwards all is as before.
        while member.drains() {}
        sender.send(5000, &[4; 3000], &[0, 1, 2, 3]);
        while member.hears("in order") != [4; 3000] {}
        std::thread::sleep(Duration::from_millis(1100));
        sender.send(5000, &[5; 3000], &[3, 2, 1, 0]);
        assert_eq!(member.hears("a second later"), [5; 3000]);
    }
}

#[test]
fn a_datagram_whose_first_fragment_comes_late_reaches_its_program_by_the_kernel() {
    if skipped() {
        return;
    }
    for (attach, v6) in [(Attach::Tc, false), (Attach::Generic, true), (Attach::Native, false), (Attach::Tc, true)] {
        let world = World::new(attach);
        let to = if v6 { world.pair.a_v6() } else { world.pair.a_v4() };
        let mut sender = Sender::new(&world, &to);
        let mut program = Member::new(&world, sender.to, 5000);
        sender.send(5000, &[1; 3000], &[0, 1, 2, 3]);
        assert_eq!(program.hears("in order"), [1; 3000]);
        assert_eq!(program.diverted(), (4, 0));
        for (n, (order, before)) in (2..).zip([(&[3, 2, 1, 0][..], 3), (&[1, 0, 3, 2], 1), (&[2, 3, 0, 1], 2)]) {
            let (_, stray) = program.diverted();
            sender.send(5000, &[n; 3000], order);
            assert_eq!(program.hears_by_the_kernel(), [n; 3000], "{order:?}");
            assert_eq!(program.diverted(), (4, stray + before), "{order:?}");
        }
        // Those for another port are no strays as long as they arrive in order.
        let (_, stray) = program.diverted();
        sender.send(5001, &[6; 3000], &[0, 1, 2, 3]);
        // The same identification again, now of a lane.
        sender.sent -= 1;
        sender.send(5000, &[7; 3000], &[0, 1, 2, 3]);
        assert_eq!(program.hears("whole again"), [7; 3000]);
        assert_eq!(program.diverted(), (8, stray));
    }
}
