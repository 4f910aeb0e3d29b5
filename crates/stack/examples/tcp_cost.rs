//! What TCP costs in the stack alone: `cargo run --release -p tickwire-stack --features owned --example tcp_cost`.
//!
//! Two stacks, the bytes of each frame copied from one to the other as a wire would. Both sides' work and the copy are in the figures.

use std::time::Instant as Clock;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{PathInfo, PathState};
use tickwire_stack::tcp::{RecvFlags, Setting};
use tickwire_stack::time::Instant;
use tickwire_stack::{Config, Error, Limits, OwnedMemory, Stack, TcpId};

fn prepare(stack: &mut Stack<'_>, own: Address, peer: Address, now: Instant) {
    stack.init(&Config { secret: [1, 2, 3, 4], ..Config::default() }, now);
    let info = PathInfo {
        destination: peer,
        source: own,
        interface: 1,
        mtu: 1500,
        source_mac: Mac([2, 0, 0, 0, 0, 1]),
        next_hop_mac: Mac([2, 0, 0, 0, 0, 2]),
        state: PathState::Ready,
    };
    stack.path_set(info, now);
}

/// Carries what one stack wants to send to the other. Says how many packets.
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
        let frame = to.refill().expect("a frame");
        let (start, len) = (usize::from(out.offset), usize::from(out.len));
        to.frame_mut(frame)[256..256 + len].copy_from_slice(&from.frame(out.frame)[start..start + len]);
        from.completed(out.frame);
        to.ingress(now, frame, 256, out.len, false);
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
    a.tcp_set(client, now, Setting::NoDelay(true)).expect("set");
    b.tcp_set(server, now, Setting::NoDelay(true)).expect("set");
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
            Err(Error::WouldBlock) => {}
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

fn main() {
    for size in [1, 64, 1000] {
        ping_pong(size);
    }
    for chunk in [1448, 16 << 10, 128 << 10] {
        stream(chunk);
    }
}
