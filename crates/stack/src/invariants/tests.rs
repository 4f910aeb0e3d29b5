//! The checks themselves: they detect a stack that is broken on purpose. (The simulations show that
//! an intact one passes.)

use crate::addr::{Address, Endpoint};
use crate::epoll_sets::Interest;
use crate::memory::{Limits, OwnedMemory};
use crate::path::{GUESSED, PathInfo, PathState, Query};
use crate::pool::{PoolLink, slot};
use crate::time::Instant;
use crate::udp::{GroupFilter, UdpOptions};
use crate::{InUse, Ready, SocketIndex, Stack, StackConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const OURS: Address = Address::v4([10, 0, 0, 1]);
const PEER: Address = Address::v4([10, 0, 0, 2]);
const GROUP: Address = Address::v4([239, 0, 0, 1]);

/// A populated stack: connection 0 in SYN-SENT, listener 0, UDP sockets 0 (connected), 1 (bound)
/// and 2 (closed), and an epoll set that watches them.
fn populate(stack: &mut Stack<'_>) {
    stack.init(&StackConfig { secret: [1, 2, 3, 4], ..StackConfig::default() });
    let way = PathInfo {
        query: Query::to(PEER).from(OURS),
        source: OURS,
        interface: 1,
        mtu: 1500,
        state: PathState::Ready,
        ..PathInfo::default()
    };
    stack.path_set(way, NOW);
    let options = stack.tcp_defaults();
    let connection = stack.tcp_connect(&options, Endpoint::new(OURS, 1000), Endpoint::new(PEER, 80), NOW).unwrap();
    let listener = stack.tcp_listen(&options, Endpoint::new(Address::ANY_V4, 80), 8).unwrap();
    let [connected, bound, closed] = [2000, 2001, 2002].map(|port| {
        let id = stack.udp_open(UdpOptions::default()).unwrap();
        stack.udp_bind(id, Endpoint::new(OURS, port)).unwrap();
        id
    });
    stack.udp_connect(connected, NOW, Some(Endpoint::new(PEER, 53)), 0).unwrap();
    stack.udp_set_filter(bound, &GroupFilter::all(GROUP)).unwrap();
    stack.udp_close(closed).unwrap();
    let set = stack.set_create().unwrap();
    for (key, source) in [(0, connection.into()), (1, listener.into()), (2, bound.into())] {
        stack.item_add(set, source, key, Interest::level(Ready::OUT), key).unwrap();
    }
}

/// The invariant that such a stack violates after `harm`, by the panic message; `None` if it
/// violates none.
pub(crate) fn violated(harm: impl FnOnce(&mut Stack<'_>)) -> Option<String> {
    let limits = Limits { frames: 64, tcp: 8, listeners: 4, udp: 8, paths: 16, watch_items: 16, ..Limits::DEFAULT };
    let mut memory = OwnedMemory::new(&limits);
    let mut stack = memory.stack();
    populate(&mut stack);
    stack.check_invariants();
    harm(&mut stack);
    let told = catch_unwind(AssertUnwindSafe(|| stack.check_invariants())).err()?;
    Some(told.downcast_ref::<String>().map_or_else(|| "?".into(), Clone::clone))
}

/// The harm is detected, and named.
#[track_caller]
pub(crate) fn tells(wanted: &str, harm: impl FnOnce(&mut Stack<'_>)) {
    let told = violated(harm);
    assert!(told.as_ref().is_some_and(|told| told.contains(wanted)), "{wanted:?} is not told, but {told:?}");
}

#[test]
fn what_is_sound_passes() {
    assert_eq!(violated(|_| ()), None);
}

#[test]
fn a_slot_that_is_taken_without_an_owner_is_found() {
    tells("Tcp 1: taken, and open", |s| _ = s.mem.tcp.take(&mut s.mem.core.free_tcp));
    tells("Listener 1: taken, and open", |s| _ = s.mem.listeners.take(&mut s.mem.core.free_listeners));
    tells("Udp 2: taken, and open", |s| _ = s.mem.udp.take(&mut s.mem.core.free_udp));
    tells("Set 1: taken, and open", |s| _ = s.mem.sets.take(&mut s.mem.core.free_sets));
    tells("memberships", |s| _ = s.mem.core.free_groups.take(s.mem.groups));
    tells("items of sets", |s| _ = s.mem.core.free_items.take(s.mem.items));
    tells("reassemblies by age", |s| _ = s.mem.core.free_reassemblies.take(s.mem.reassemblies));
    tells("places to wait", |s| _ = s.mem.core.free_waiting.take(s.mem.waiting));
    tells("the path to", |s| _ = s.mem.core.free_paths.take(s.mem.paths));
    tells("frame 1 is lost", |s| _ = s.mem.frames.free.take(s.mem.frames.meta));
}

#[test]
fn a_slot_that_is_free_and_still_owned_is_found() {
    tells("Tcp 0: taken, and open", |s| s.mem.tcp.give(&mut s.mem.core.free_tcp, slot(0)));
    tells("Listener 0: taken, and open", |s| s.mem.listeners.give(&mut s.mem.core.free_listeners, slot(0)));
    tells("Udp 1: taken, and open", |s| s.mem.udp.give(&mut s.mem.core.free_udp, slot(1)));
    tells("membership 0 of 1 is free", |s| s.mem.core.free_groups.give(s.mem.groups, 0));
    tells("the list of another owner", |s| s.mem.core.free_items.give(s.mem.items, 1));
    tells("path 0 is found, and free", |s| s.mem.core.free_paths.give(s.mem.paths, 0));
}

#[test]
fn a_slot_that_is_free_twice_or_lost_from_the_free_list_is_found() {
    tells("sockets for datagrams: 2 is on the free list twice", |s| s.mem.udp.give(&mut s.mem.core.free_udp, slot(2)));
    tells("sockets for datagrams: 3 is on the free list twice, or was never used", |s| {
        s.mem.udp.give(&mut s.mem.core.free_udp, slot(3));
    });
    tells("connections: those that are not on the free list", |s| {
        let [first, second] = [(); 2].map(|()| s.mem.tcp.take(&mut s.mem.core.free_tcp).unwrap());
        s.mem.tcp.give(&mut s.mem.core.free_tcp, first);
        s.mem.tcp.give(&mut s.mem.core.free_tcp, second);
        *crate::pool::PoolSlot::link(&mut s.mem.tcp[second]) = PoolLink::NONE;
    });
}

#[test]
fn a_socket_that_packets_do_not_find_is_found() {
    tells("the socket that is found from", |s| s.demux_remove(SocketIndex::Tcp(slot(0))));
    tells("the socket that is found from", |s| s.demux_remove(SocketIndex::Udp(slot(0))));
    tells("Listener 0 is not found", |s| s.demux_remove(SocketIndex::Listener(slot(0))));
    tells("Udp 1 is not found", |s| s.demux_remove(SocketIndex::Udp(slot(1))));
    tells("the path to", |s| s.mem.path_buckets.fill(PoolLink::NONE));
}

#[test]
fn a_socket_that_packets_find_though_it_is_closed_is_found() {
    tells("Udp 0 is found among the connected, and not open", |s| {
        let before = s.mem.connected.to_vec();
        s.udp_close(s.id_of(SocketIndex::Udp(slot(0))).try_into().unwrap()).unwrap();
        s.mem.connected.copy_from_slice(&before);
    });
    tells("Listener 0 is found among the bound, and not open", |s| {
        let before = s.mem.bound.to_vec();
        s.tcp_close_listener(s.id_of(SocketIndex::Listener(slot(0))).try_into().unwrap(), NOW).unwrap();
        s.mem.bound.copy_from_slice(&before);
    });
    tells("places of connected", |s| {
        let full = s.mem.connected.iter().position(|chain| !chain.is_none()).unwrap();
        let empty = s.mem.connected.iter().position(|chain| chain.is_none()).unwrap();
        s.mem.connected[empty] = s.mem.connected[full];
    });
}

/// A guess is evicted by the last half-open connection that needs it, and by nothing else.
#[test]
fn a_guess_that_is_not_needed_is_found() {
    tells("guests of the path to", |s| {
        let path = s.path_enter(&Query::to(Address::v4([10, 0, 0, 3]))).unwrap();
        s.path_mark(path, GUESSED);
    });
    tells("guests of the path to", |s| {
        let path = s.path_enter(&Query::to(Address::v4([10, 0, 0, 3]))).unwrap();
        s.path_mark(path, GUESSED);
        s.mem.paths[path as usize].guests = 1;
    });
    tells("paths that are guesses", |s| s.mem.core.guesses = 1);
}

#[test]
fn a_place_in_the_heap_without_a_timer_is_found() {
    tells("whose timer is at 1", |s| s.mem.core.heap_len = 2);
}

#[test]
fn a_closed_socket_that_is_watched_yet_is_found() {
    tells("is watched, and not open", |s| {
        let watchers = s.mem.handles[s.slot_of(SocketIndex::Udp(slot(1))).unwrap()].watchers;
        s.mem.handles[s.slot_of(SocketIndex::Udp(slot(2))).unwrap()].watchers = watchers;
    });
}

#[test]
fn what_is_in_use_is_told() {
    let some =
        InUse { connections: 1, listeners: 1, datagrams: 2, memberships: 1, sets: 1, items: 3, ..InUse::default() };
    assert_eq!(violated(|s| assert_eq!(s.in_use(), some)), None);
    let closed = violated(|s| {
        let id = |s: &Stack<'_>, socket: SocketIndex| s.id_of(socket);
        s.tcp_close(id(s, SocketIndex::Tcp(slot(0))).try_into().unwrap(), NOW).unwrap();
        s.tcp_close_listener(id(s, SocketIndex::Listener(slot(0))).try_into().unwrap(), NOW).unwrap();
        for index in [0, 1] {
            s.udp_close(id(s, SocketIndex::Udp(slot(index))).try_into().unwrap()).unwrap();
        }
        s.set_destroy(id(s, SocketIndex::Set(slot(0))).try_into().unwrap()).unwrap();
        assert_eq!(s.in_use(), InUse::default());
    });
    assert_eq!(closed, None);
}
