//! Tests against the real kernel, in their own network namespaces. Need root; without it they print
//! that and pass.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::{Duration, Instant};
use tickwire_host::{Ethtool, Monitor, NetworkEvent, Nic, PathRefusal, Query, RouteNetlink, TagStripping};
use tickwire_stack::addr::Address;
use tickwire_stack::path::PathState;

/// Runs `test` in a thread with a network namespace of its own, and hands it a second, empty
/// namespace.
fn in_namespaces(test: impl FnOnce(&File) + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: network namespaces need root");
        return;
    }
    let body = move || {
        let fresh = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            File::open("/proc/thread-self/ns/net").unwrap()
        };
        let other = std::thread::spawn(fresh).join().unwrap();
        let _own = fresh();
        test(&other);
    };
    std::thread::spawn(body).join().unwrap();
}

/// Runs `ip` in the namespace of the calling thread.
fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split_whitespace()).status().expect("ip is installed");
    assert!(done.success(), "ip {arguments}");
}

/// Makes a veth pair: one end here, the other in a second namespace.
fn make_veth(here: &str, there: &str, namespace: &File) {
    let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
    ip(&format!("link add {here} type veth peer name {there} netns {path}"));
}

fn in_namespace<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// Waits until an event satisfies `wanted`, at most five seconds.
fn wait_for(monitor: &mut Monitor, mut wanted: impl FnMut(&NetworkEvent) -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let left = end.checked_duration_since(Instant::now()).expect("the event came in time");
        let timeout = PollTimeout::try_from(left).unwrap();
        poll(&mut [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)], timeout).unwrap();
        while let Some(events) = monitor.take().unwrap() {
            if events.iter().any(&mut wanted) {
                return;
            }
        }
    }
}

#[test]
fn a_device_is_found_brought_up_quietly_and_removed() {
    in_namespaces(|other| {
        let mut host = RouteNetlink::open().unwrap();
        let mut monitor = Monitor::open().unwrap();
        make_veth("tw3h", "tw3p", other);
        let here = host.link_by_name("tw3h").unwrap().unwrap();
        assert_eq!((here.mtu, here.kind.as_str(), here.up), (1500, "veth", false));
        assert!(here.mac.is_some() && !here.looks_physical(), "it is not a NIC");
        host.raise_quietly(here.index).unwrap();
        in_namespace(other, || {
            let mut host = RouteNetlink::open().unwrap();
            let there = host.link_by_name("tw3p").unwrap().unwrap();
            host.raise_quietly(there.index).unwrap();
        });
        wait_for(&mut monitor, |e| matches!(e, NetworkEvent::Link(l) if l.name == "tw3h" && l.running));
        assert!(host.addresses().unwrap().iter().all(|a| a.interface != here.index), "no address of its own");
        let routes = Command::new("ip").args(["-6", "route", "show", "table", "all", "dev", "tw3h"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&routes.stdout), "", "groups are not looked for by a lane");
        ip("link set tw3h mtu 3000");
        assert_eq!(host.link_by_index(here.index).unwrap().unwrap().mtu, 3000);
        host.delete_link(here.index).unwrap();
        host.delete_link(here.index).unwrap();
        wait_for(&mut monitor, |e| matches!(e, NetworkEvent::LinkGone(l) if l.name == "tw3h"));
        assert_eq!(host.link_by_index(here.index).unwrap(), None);
    });
}

#[test]
fn paths_are_resolved_by_the_kernel_and_events_tell_when() {
    in_namespaces(|other| {
        let mut host = RouteNetlink::open().unwrap();
        let mut monitor = Monitor::open().unwrap();
        make_veth("a0", "b0", other);
        ip("addr add 10.9.0.1/24 dev a0");
        ip("addr add fd09::1/64 dev a0 nodad");
        ip("link set a0 up");
        let their_mac = in_namespace(other, || {
            ip("addr add 10.9.0.2/24 dev b0");
            ip("addr add fd09::2/64 dev b0 nodad");
            ip("link set b0 up");
            RouteNetlink::open().unwrap().link_by_name("b0").unwrap().unwrap().mac.unwrap()
        });
        ip("route add 10.77.0.0/16 via 10.9.0.2 mtu 1300");
        ip("route add unreachable 10.66.0.0/16");
        let ours = host.link_by_name("a0").unwrap().unwrap();
        let nic = Nic { mac: ours.mac.unwrap(), mtu: ours.mtu };
        let nics = |i, _| if i == ours.index { Ok(nic) } else { Err(PathRefusal::Interface(i)) };
        let query = |text: &str| Query::to(text.parse::<std::net::IpAddr>().unwrap().into());
        for there in ["10.9.0.2", "fd09::2"] {
            let q = query(there);
            let first = host.resolve(&q, nics).unwrap();
            if first.path.state != PathState::Ready {
                assert_eq!(first.path.state, PathState::Resolving);
                wait_for(
                    &mut monitor,
                    |e| matches!(e, NetworkEvent::Neighbour(n) if n.address == q.destination && n.usable().is_some()),
                );
            }
            let answer = host.resolve(&q, nics).unwrap();
            assert_eq!(answer.path.state, PathState::Ready, "{there}");
            assert_eq!((answer.path.next_hop_mac, answer.path.source_mac), (their_mac, nic.mac));
            assert_eq!(answer.path.mtu, 1500);
            assert!(matches!(std::net::IpAddr::from(answer.path.source).to_string().as_str(), "10.9.0.1" | "fd09::1"));
        }
        let routed = host.resolve(&query("10.77.1.1"), nics).unwrap();
        assert_eq!((routed.path.state, routed.path.mtu), (PathState::Ready, 1300));
        assert_eq!(routed.next_hop, Some(Address::v4([10, 9, 0, 2])));
        for (there, why) in [
            ("10.66.0.1", PathRefusal::NoRoute),
            ("192.0.2.1", PathRefusal::NoRoute),
            ("10.9.0.1", PathRefusal::Loopback),
            ("fd09::1", PathRefusal::Loopback),
            ("10.9.0.255", PathRefusal::Broadcast),
            ("255.255.255.255", PathRefusal::Broadcast),
        ] {
            assert_eq!(host.resolve(&query(there), nics).unwrap().why, Some(why), "{there}");
        }
        let none = |i, _| Err(PathRefusal::Interface(i));
        assert_eq!(host.resolve(&query("10.9.0.2"), none).unwrap().why, Some(PathRefusal::Interface(ours.index)));
        // Called with the source address that would be used.
        let of_own =
            |_, source| if source == query("10.9.0.1").destination { Ok(nic) } else { Err(PathRefusal::Source) };
        for asked in [query("10.9.0.2"), query("10.9.0.2").from(query("10.9.0.1").destination)] {
            assert_eq!(host.resolve(&asked, of_own).unwrap().why, None, "{asked:?}");
        }
        let group = Query { interface: ours.index, ..query("239.1.2.3") };
        assert_eq!(host.resolve(&group, nics).unwrap().path.state, PathState::Ready);
        let silent = query("10.9.0.77");
        assert_eq!(host.resolve(&silent, nics).unwrap().path.state, PathState::Resolving);
        wait_for(&mut monitor, |e| {
            matches!(e, NetworkEvent::Neighbour(n) if n.address == silent.destination
                && n.state == tickwire_host::Reachability::Failed)
        });
        ip("addr del 10.9.0.1/24 dev a0");
        wait_for(
            &mut monitor,
            |e| matches!(e, NetworkEvent::AddressGone(a) if a.address == Address::v4([10, 9, 0, 1])),
        );
        host.delete_link(ours.index).unwrap();
    });
}

#[test]
fn a_device_leaves_tags_in_their_frames_and_strips_them_again() {
    in_namespaces(|_| {
        ip("link add one type veth peer name two");
        let index = RouteNetlink::open().unwrap().link_by_name("one").unwrap().unwrap().index;
        let mut ethtool = Ethtool::open().unwrap();
        let stripped = ethtool.tag_stripping(index).unwrap();
        assert!(stripped.any(), "a veth device says that it strips tags");
        ethtool.set_tag_stripping(index, stripped, false).unwrap();
        assert_eq!(ethtool.tag_stripping(index).unwrap(), TagStripping::default());
        ethtool.set_tag_stripping(index, stripped, true).unwrap();
        assert_eq!(ethtool.tag_stripping(index).unwrap(), stripped);
        assert_eq!(ethtool.transmit_queues(index).unwrap(), 1);
        // A TAP device never strips tags, and cannot be made to.
        ip("tuntap add three mode tap");
        let index = RouteNetlink::open().unwrap().link_by_name("three").unwrap().unwrap().index;
        let _ = ethtool.set_tag_stripping(index, stripped, true);
        assert_eq!(ethtool.tag_stripping(index).unwrap(), TagStripping::default());
    });
}
