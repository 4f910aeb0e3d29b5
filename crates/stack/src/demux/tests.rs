//! The tables compared with a naive list of sockets.

use super::{TCP, UDP};
use crate::addr::{Address, Endpoint};
use crate::memory::{Limits, OwnedMemory};
use crate::pool::slot;
use crate::{SocketIndex, StackConfig, StackError};
use proptest::prelude::*;

const EACH: u32 = 8;

/// A socket by the number of its kind and its index.
fn socket(kind: usize, index: u32) -> SocketIndex {
    match kind {
        0 => SocketIndex::Tcp(slot(index)),
        1 => SocketIndex::Listener(slot(index)),
        _ => SocketIndex::Udp(slot(index)),
    }
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let address = prop_oneof![
        Just(Address::ANY),
        Just(Address::ANY_V4),
        (1..3u8).prop_map(|n| Address::v4([10, 0, 0, n])),
        (1..3u8).prop_map(|n| Address([0xfd; 16].map(|_| n))),
    ];
    // Including ports that share one bucket (there are 16).
    (address, prop_oneof![Just(80), Just(81), Just(96)]).prop_map(|(address, port)| Endpoint { address, port })
}

#[derive(Clone, Debug)]
enum Step {
    Connect(usize, u32, Endpoint, Endpoint),
    Bind(usize, u32, Endpoint, bool, bool),
    Remove(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3usize, 0..EACH, endpoint(), endpoint()).prop_map(|(k, i, l, r)| Step::Connect(k, i, l, r)),
        3 => (0..3usize, 0..EACH, endpoint(), any::<bool>(), any::<bool>())
            .prop_map(|(k, i, l, six, spread)| Step::Bind(k, i, l, six, spread)),
        1 => (0..3usize, 0..EACH).prop_map(|(k, i)| Step::Remove(k, i)),
    ]
}

#[derive(Clone, Debug)]
struct Socket {
    who: SocketIndex,
    local: Endpoint,
    remote: Option<Endpoint>,
    v6only: bool,
    spread: bool,
}

fn protocol(socket: SocketIndex) -> u8 {
    if matches!(socket, SocketIndex::Udp(_)) { UDP } else { TCP }
}

/// How exactly a bound socket matches the address, by RFC 3493 §3.7.
fn rank(socket: &Socket, wanted: Address) -> u8 {
    let v4 = wanted.to_v4().is_some();
    match socket.local.address {
        bound if bound == wanted => 3,
        Address::ANY_V4 if v4 => 2,
        Address::ANY if !v4 => 2,
        Address::ANY if !socket.v6only => 1,
        _ => 0,
    }
}

proptest! {
    #![proptest_config(crate::testing::proptest_config(300))]

    #[test]
    fn lookups_find_what_a_search_over_all_sockets_finds(
        steps in prop::collection::vec(step(), 1..60),
        packets in prop::collection::vec((endpoint(), endpoint(), any::<bool>()), 1..20),
    ) {
        let limits = Limits { frames: 64, tcp: EACH, listeners: EACH, udp: EACH, ..Limits::DEFAULT };
        let mut memory = OwnedMemory::new(&limits);
        let mut stack = memory.stack();
        stack.init(&StackConfig { secret: [1, 2, 3, 4], ..StackConfig::default() });
        let mut model: Vec<Socket> = Vec::new();
        for step in steps {
            match step {
                Step::Connect(k, i, local, remote) => {
                    let who = socket(k, i);
                    let same = |s: &&Socket| {
                        protocol(s.who) == protocol(who) && s.local == local && s.remote == Some(remote)
                    };
                    let taken = protocol(who) == TCP && model.iter().find(same).is_some();
                    let done = stack.demux_connect(who, local, remote);
                    prop_assert_eq!(done, if taken { Err(StackError::AddressInUse) } else { Ok(()) });
                    if !taken {
                        model.retain(|s| s.who != who);
                        model.push(Socket { who, local, remote: Some(remote), v6only: false, spread: false });
                    }
                }
                Step::Bind(k, i, local, v6only, spread) => {
                    stack.demux_bind(socket(k, i), local, (v6only, spread)).unwrap();
                    model.retain(|s| s.who != socket(k, i));
                    model.push(Socket { who: socket(k, i), local, remote: None, v6only, spread });
                }
                Step::Remove(k, i) => {
                    stack.demux_remove(socket(k, i));
                    model.retain(|s| s.who != socket(k, i));
                }
            }
        }
        for (local, remote, udp) in packets {
            let wanted = if udp { UDP } else { TCP };
            let ours = || model.iter().filter(|s| protocol(s.who) == wanted);
            let connected = ours().rfind(|s| s.local == local && s.remote == Some(remote)).map(|s| s.who);
            prop_assert_eq!(stack.find_connected(wanted, local, remote), connected);
            if local.address.is_unspecified() {
                continue;
            }
            let bound = || ours().filter(|s| s.remote.is_none() && s.local.port == local.port);
            let best = bound().map(|s| rank(s, local.address)).max().unwrap_or(0);
            let fits = || bound().filter(|s| best > 0 && rank(s, local.address) == best);
            // The last one bound or, if flows are spread over it, any of those with spreading.
            let last = fits().next_back();
            let fitting: Vec<_> = fits()
                .filter(|s| last.is_some_and(|last| if last.spread { s.spread } else { s.who == last.who }))
                .map(|s| s.who)
                .collect();
            match stack.find_bound(wanted, local, remote) {
                None => prop_assert!(fitting.is_empty()),
                Some(found) => prop_assert!(fitting.contains(&found), "{found:?} is not among {fitting:?}"),
            }
        }
    }
}
