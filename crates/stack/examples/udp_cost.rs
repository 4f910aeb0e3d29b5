//! The CPU cost of one small datagram in the stack alone: `cargo run --release -p tickwire-stack
//! --features owned --example udp_cost`.
//!
//! The result is that of the fastest of many batches, so that other work on the machine does not
//! count. One stack sends, its frame's bytes are copied into a frame of the other as a wire would,
//! and that one receives; each part is timed.

use std::time::{Duration, Instant as Clock};
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::time::Instant;
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{Limits, OwnedMemory, Stack, StackConfig, UdpId};

const BATCHES: u32 = 2_000;
const ROUNDS: u32 = 500;

fn open(stack: &mut Stack<'_>, own: Endpoint, peer: Endpoint, connect: bool) -> UdpId {
    let now = Instant::from_nanos(1);
    stack.init(&StackConfig { secret: [1, 2, 3, 4], ..StackConfig::default() });
    stack.path_set(
        PathInfo {
            query: Query::to(peer.address).from(own.address),
            source: own.address,
            interface: 1,
            mtu: 1500,
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            next_hop_mac: Mac([2, 0, 0, 0, 0, 2]),
            state: PathState::Ready,
            ..PathInfo::default()
        },
        now,
    );
    let id = stack.udp_open(UdpOptions::default()).expect("a socket");
    stack.udp_bind(id, own).expect("bound");
    if connect {
        stack.udp_connect(id, now, Some(peer), 0).expect("connected");
    }
    id
}

fn measure(connect: bool, size: usize) {
    let (mut near, mut far) = (OwnedMemory::new(&Limits::DEFAULT), OwnedMemory::new(&Limits::DEFAULT));
    let (mut a, mut b) = (near.stack(), far.stack());
    let [here, there] = [1, 2].map(|n| Endpoint::new(Address::v4([10, 0, 0, n]), 1000 + u16::from(n)));
    let from = open(&mut a, here, there, connect);
    let to = open(&mut b, there, here, connect);
    let payload = vec![7u8; size];
    let mut buffer = vec![0u8; size];
    let send_to = SendTo { destination: Some(there), ..SendTo::default() };
    let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
    let (mut best_send, mut best_receive) = (Duration::MAX, Duration::MAX);
    let overhead = {
        // The time that one pair of clock readings adds to what it measures.
        let batch = || (0..ROUNDS).map(|_| Clock::now().elapsed()).sum::<Duration>();
        (0..BATCHES).map(|_| batch()).min().unwrap_or_default() / ROUNDS
    };
    for round in 0..BATCHES * ROUNDS {
        let now = Instant::from_nanos(1000 + u64::from(round));
        if round % ROUNDS == 0 {
            (sending, receiving) = (Duration::ZERO, Duration::ZERO);
        }
        let start = Clock::now();
        a.udp_send(from, now, &send_to, &mut &payload[..]).expect("sent");
        let mut out = None;
        a.egress(now, |transmit| {
            out = Some(transmit);
            true
        });
        sending += start.elapsed();
        let out = out.expect("a packet");
        let (start_at, len) = (usize::from(out.offset), usize::from(out.len));
        let packet = a.frame(out.frame)[start_at..start_at + len].to_vec();
        let start = Clock::now();
        a.completed(out.frame);
        b.receive_bytes(now, &packet);
        b.fill();
        let got = b.udp_recv(to, false, &mut &mut buffer[..]).expect("a datagram");
        receiving += start.elapsed();
        assert_eq!(got.copied, size);
        if round % ROUNDS == ROUNDS - 1 {
            best_send = best_send.min(sending);
            best_receive = best_receive.min(receiving);
        }
    }
    let cost = |total: Duration| (total / ROUNDS).saturating_sub(overhead).as_nanos();
    println!(
        "{size:>5} bytes, {}: send {} ns, receive {} ns",
        if connect { "connected" } else { "bound    " },
        cost(best_send),
        cost(best_receive)
    );
}

fn main() {
    for size in [64, 1472] {
        for connect in [false, true] {
            measure(connect, size);
        }
    }
}
