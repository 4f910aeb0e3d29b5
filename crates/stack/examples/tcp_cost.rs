//! The CPU cost of TCP in the stack alone: `cargo run --release -p tickwire-stack --features owned
//! --example tcp_cost`.
//!
//! Two stacks; the bytes of each frame are copied from one to the other as a wire would. The
//! results include both sides' work and the copy.
//!
//! `tcp_cost many CONNECTIONS ACTIVE MESSAGES` sends that many messages, each with its answer, over
//! the active ones of many connections, in turn. `cargo xtask bench scale` counts the instructions
//! of its function `messages_measured` with callgrind. They are the same in every run.

use std::time::Instant as Clock;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::epoll_sets::Interest;
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::tcp::{RecvFlags, TcpSetting};
use tickwire_stack::time::Instant;
use tickwire_stack::{Limits, Memory, OwnedMemory, Ready, SetId, Stack, StackConfig, StackError, TcpId};

fn prepare(stack: &mut Stack<'_>, own: Address, peer: Address, now: Instant) {
    stack.init(&StackConfig { secret: [1, 2, 3, 4], ..StackConfig::default() });
    let info = PathInfo {
        query: Query::to(peer).from(own),
        source: own,
        interface: 1,
        mtu: 1500,
        source_mac: Mac([2, 0, 0, 0, 0, 1]),
        next_hop_mac: Mac([2, 0, 0, 0, 0, 2]),
        state: PathState::Ready,
        ..PathInfo::default()
    };
    stack.path_set(info, now);
}

/// Carries the packets of one stack to the other. Returns how many.
fn carry(from: &mut Stack<'_>, to: &mut Stack<'_>, now: Instant) -> usize {
    let mut packets = [None; 64];
    let mut count = 0;
    from.egress(now, |transmit| {
        if count == packets.len() {
            return false;
        }
        packets[count] = Some(transmit);
        count += 1;
        true
    });
    for out in packets.iter().flatten() {
        let (start, len) = (usize::from(out.offset), usize::from(out.len));
        to.fill();
        to.receive_bytes(now, &from.frame(out.frame)[start..start + len]);
        from.completed(out.frame);
    }
    count
}

fn settle(a: &mut Stack<'_>, b: &mut Stack<'_>, now: Instant) {
    while carry(a, b, now) + carry(b, a, now) > 0 {}
}

fn connected(a: &mut Stack<'_>, b: &mut Stack<'_>, now: Instant) -> (TcpId, TcpId) {
    let [here, there] = [1, 2].map(|n| Endpoint::new(Address::v4([10, 0, 0, n]), 1000 + u16::from(n)));
    prepare(a, here.address, there.address, now);
    prepare(b, there.address, here.address, now);
    let options = a.tcp_defaults();
    let listener = b.tcp_listen(&options, there, 4).expect("listening");
    let client = a.tcp_connect(&options, here, there, now).expect("connecting");
    settle(a, b, now);
    let server = b.tcp_accept(listener).expect("a connection");
    a.tcp_set(client, now, TcpSetting::NoDelay(true)).expect("set");
    b.tcp_set(server, now, TcpSetting::NoDelay(true)).expect("set");
    (client, server)
}

fn ping_pong(size: usize) {
    const ROUNDS: u32 = 1_000_000;
    let (mut near, mut far) = (OwnedMemory::new(&Limits::DEFAULT), OwnedMemory::new(&Limits::DEFAULT));
    let (mut a, mut b) = (near.stack(), far.stack());
    let mut now = 1_000_000;
    let (client, server) = connected(&mut a, &mut b, Instant::from_nanos(now));
    let (payload, mut buffer) = (vec![7u8; size], vec![0u8; size]);
    let start = Clock::now();
    for _ in 0..ROUNDS {
        now += 5_000;
        let at = Instant::from_nanos(now);
        for turn in 0..2 {
            let (from, to, source, sink) =
                if turn == 0 { (&mut a, &mut b, client, server) } else { (&mut b, &mut a, server, client) };
            from.tcp_send(source, at, false, &mut &payload[..]).expect("sent");
            carry(from, to, at);
            assert_eq!(to.tcp_recv(sink, at, RecvFlags::default(), &mut &mut buffer[..]), Ok(size));
            for stack in [from, to] {
                if stack.deadline().is_some_and(|due| due <= at) {
                    stack.on_time(at);
                }
            }
        }
    }
    let each = start.elapsed() / (2 * ROUNDS);
    println!("ping-pong {size:>5} bytes: {} ns a message, send, carry and receive together", each.as_nanos());
}

fn stream(chunk: usize) {
    const TOTAL: usize = 4 << 30;
    let (mut near, mut far) = (OwnedMemory::new(&Limits::DEFAULT), OwnedMemory::new(&Limits::DEFAULT));
    let (mut a, mut b) = (near.stack(), far.stack());
    let mut now = 1_000_000;
    let (client, server) = connected(&mut a, &mut b, Instant::from_nanos(now));
    let (payload, mut buffer) = (vec![7u8; chunk], vec![0u8; 64 << 10]);
    let (mut sent, mut got, mut packets) = (0, 0, 0);
    let start = Clock::now();
    while got < TOTAL {
        now += 10_000;
        let at = Instant::from_nanos(now);
        match a.tcp_send(client, at, false, &mut &payload[..]) {
            Ok(n) => sent += n,
            Err(StackError::WouldBlock) => {}
            Err(other) => panic!("{other}"),
        }
        packets += carry(&mut a, &mut b, at);
        while let Ok(n) = b.tcp_recv(server, at, RecvFlags::default(), &mut &mut buffer[..]) {
            got += n;
        }
        packets += carry(&mut b, &mut a, at);
        for stack in [&mut a, &mut b] {
            if stack.deadline().is_some_and(|due| due <= at) {
                stack.on_time(at);
            }
        }
    }
    let took = start.elapsed();
    assert!(sent >= got);
    println!(
        "stream of {chunk:>6}-byte writes: {:.1} Gbit/s, {} ns a packet, {} retransmitted",
        got as f64 * 8.0 / took.as_nanos() as f64,
        took.as_nanos() as usize / packets,
        a.counters().tcp_retrans_segs.get(),
    );
}

/// One side of many connections, all in one epoll set, as in a server with an event loop.
struct Side<'a> {
    stack: Stack<'a>,
    connections: Vec<TcpId>,
    set: SetId,
}

impl<'a> Side<'a> {
    fn new(memory: &'a mut OwnedMemory, own: Address, peer: Address, now: Instant) -> Self {
        let mut stack = memory.stack();
        prepare(&mut stack, own, peer, now);
        let set = stack.set_create().expect("a set");
        Self { stack, connections: Vec::new(), set }
    }

    fn add(&mut self, connection: TcpId, now: Instant) {
        for setting in [TcpSetting::NoDelay(true), TcpSetting::KeepAlive(true)] {
            self.stack.tcp_set(connection, now, setting).expect("set");
        }
        let number = self.connections.len() as u64;
        self.stack.item_add(self.set, connection.into(), 0, Interest::level(Ready::IN), number).expect("an item");
        self.connections.push(connection);
    }

    /// Waits for a message and reads it. Returns its connection.
    fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> usize {
        let mut came = None;
        self.stack.set_wait(self.set, 1, |event| came = Some(event.data as usize)).expect("a set");
        let number = came.expect("a message");
        let got = self.stack.tcp_recv(self.connections[number], now, RecvFlags::default(), &mut &mut buffer[..]);
        assert_eq!(got, Ok(buffer.len()));
        number
    }

    fn send(&mut self, now: Instant, number: usize, message: &[u8]) {
        assert_eq!(self.stack.tcp_send(self.connections[number], now, false, &mut &message[..]), Ok(message.len()));
    }
}

/// A message on each of the chosen connections in turn, and its answer. Returns the number of
/// packets.
#[inline(never)]
fn messages_measured(sides: [&mut Side<'_>; 2], now: &mut u64, chosen: &[usize], messages: usize) -> usize {
    const SIZE: usize = 64;
    // Short enough for each connection to have its turn before a delayed acknowledgement is sent
    // separately, however many they are: the packets are the same.
    const STEP: u64 = 2_000;
    let ([a, b], mut buffer, mut packets) = (sides, [0; SIZE], 0);
    for &number in chosen.iter().cycle().take(messages) {
        *now += STEP;
        let at = Instant::from_nanos(*now);
        a.send(at, number, &[7; SIZE]);
        packets += carry(&mut a.stack, &mut b.stack, at);
        assert_eq!(b.receive(at, &mut buffer), number);
        b.send(at, number, &buffer);
        packets += carry(&mut b.stack, &mut a.stack, at);
        assert_eq!(a.receive(at, &mut buffer), number);
        for stack in [&mut a.stack, &mut b.stack] {
            // Not a closure: it would have this function's name, and end the counting.
            if let Some(due) = stack.deadline()
                && due <= at
            {
                stack.on_time(at);
            }
        }
    }
    packets
}

/// Messages over some of many connections; the others are idle, each with a keepalive timer.
fn many(connections: usize, active: usize, messages: usize) {
    // The same memory for any number of connections.
    let limits = Limits { tcp: 12_288, ..Limits::DEFAULT }.with_room_for_its_sockets();
    let mut memories = [OwnedMemory::new(&limits), OwnedMemory::new(&limits)];
    let [near, far] = &mut memories;
    let [here, there] = [1, 2].map(|n| Endpoint::new(Address::v4([10, 0, 0, n]), 1000));
    let mut now = 1_000_000_000;
    let at = Instant::from_nanos(now);
    let mut a = Side::new(near, here.address, there.address, at);
    let mut b = Side::new(far, there.address, here.address, at);
    let options = a.stack.tcp_defaults();
    let listener = b.stack.tcp_listen(&options, there, 4).expect("listening");
    for number in 0..connections {
        let local = Endpoint { port: 1001 + number as u16, ..here };
        let client = a.stack.tcp_connect(&options, local, there, at).expect("connecting");
        settle(&mut a.stack, &mut b.stack, at);
        a.add(client, at);
        let server = b.stack.tcp_accept(listener).expect("a connection");
        b.add(server, at);
    }
    let chosen: Vec<usize> = (0..active).map(|n| n * (connections / active)).collect();
    let start = Clock::now();
    let packets = messages_measured([&mut a, &mut b], &mut now, &chosen, messages);
    let each = start.elapsed().as_nanos() as usize / packets;
    println!(
        "{{\"connections\":{connections},\"active\":{active},\"messages\":{messages},\"packets\":{packets},\
         \"ns_a_packet\":{each},\"bytes_a_connection\":{}}}",
        bytes_a_connection()
    );
}

/// The memory that a lane needs per additional connection, including that for epoll and the caller.
fn bytes_a_connection() -> usize {
    // Hash tables grow by doubling, so doubling the connections shows their share.
    let size = |connections| {
        let limits = Limits { tcp: connections, ..Limits::DEFAULT }.with_room_for_its_sockets();
        Memory::size(&limits)
    };
    const FEW: u32 = 1 << 16;
    (size(2 * FEW) - size(FEW)) / FEW as usize
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> Option<usize> { arguments.get(at)?.parse().ok() };
    match (arguments.first().map(String::as_str), number(1), number(2), number(3)) {
        (Some("many"), Some(connections @ 1..=12_000), Some(active), Some(messages @ 1..))
            if (1..=connections).contains(&active) =>
        {
            return many(connections, active, messages);
        }
        (None, ..) => {}
        _ => {
            eprintln!("expected nothing, or: many CONNECTIONS ACTIVE MESSAGES (at most 12000 connections)");
            std::process::exit(2);
        }
    }
    for size in [1, 64, 1000] {
        ping_pong(size);
    }
    for chunk in [1448, 16 << 10, 128 << 10] {
        stream(chunk);
    }
}
