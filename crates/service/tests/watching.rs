//! What `tickwire stat` and `tickwire capture` get, and lanes that come and go beside ordinary
//! traffic.

mod common;

use common::{Client, PEER, World, now, skipped, until, within};
use nix::sys::socket::{MsgFlags, recv};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tickwire_lane::control::{Claim, Reason, Reply, Request};
use tickwire_lane_linux::bpf::CaptureRecord;
use tickwire_lane_linux::region::{Region, View};
use tickwire_service::Attach;
use tickwire_stack::addr::Endpoint;

fn captures(attach: Attach) {
    if skipped() {
        return;
    }
    let world = World::new(attach);
    let (mut client, lane, mut stack) = world.program();
    let socket = within(&world.pair.a, || UdpSocket::bind(world.a(7000)).unwrap());
    client.claim_bound(&socket).unwrap();
    let id = stack.udp_open(tickwire_stack::udp::UdpOptions::default()).unwrap();
    stack.udp_bind(id, world.a(7000).into()).unwrap();
    stack.path_set(client.path(PEER), now());

    let mut tool = world.client();
    let capture = Request::Capture { lane: 0, snaplen: 60 };
    let (reply, mut descriptors) = tool.request(&capture, &[]);
    assert!(matches!(reply, Reply::Capturing), "{reply:?}");
    // A connection has one capture, however often its process asks.
    let again = (0..20).map(|_| tool.request(&capture, &[])).collect::<Vec<_>>();
    assert!(again.iter().all(|(reply, _)| matches!(reply, Reply::Refused { .. })), "{again:?}");
    let stream = descriptors.take(0).unwrap();
    let peer = within(&world.pair.b, || UdpSocket::bind(world.b(9000)).unwrap());
    peer.send_to(&[7; 200], world.a(7000)).unwrap();
    let to = tickwire_stack::udp::SendTo {
        destination: Some(Endpoint::from(world.b(9000))),
        ..tickwire_stack::udp::SendTo::default()
    };
    stack.udp_send(id, now(), &to, &mut &[8; 300][..]).unwrap();
    lane.turn(&mut stack);
    let mut seen = Vec::new();
    let mut buffer = [0; 10_000];
    until("both packets are captured", || {
        while let Ok(length) = recv(stream.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            let (record, bytes) = CaptureRecord::parse(&buffer[..length]).unwrap();
            assert_eq!((record.lane, bytes.len()), (lane.lane, 60));
            assert!(record.monotonic_ns <= now().as_nanos());
            seen.push((record.outgoing, record.length));
        }
        seen.len() >= 2
    });
    seen.sort_unstable();
    assert_eq!(seen, [(false, 242), (true, 342)]);
    drop((tool, stream));
}

#[test]
fn packets_of_lanes_are_captured_with_tc() {
    captures(Attach::Tc);
}

#[test]
fn packets_of_lanes_are_captured_with_xdp() {
    captures(Attach::Native);
}

#[test]
fn lanes_are_listed_with_their_claims_and_read_only_regions() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane, mut stack) = world.program();
    let id = stack.udp_open(tickwire_stack::udp::UdpOptions::default()).unwrap();
    let socket = within(&world.pair.a, || UdpSocket::bind(world.a(7000)).unwrap());
    let claim = client.claim_bound(&socket).unwrap();
    let mut tool = world.client();
    let (reply, mut descriptors) = tool.request(&Request::ListLanes { after: 0 }, &[]);
    let Reply::LaneInfo { cursor, info } = reply else { panic!("{reply:?}") };
    assert_eq!((info.lane, info.processes, info.claims, info.reason), (lane.lane, 1, 1, Reason::None));
    assert_eq!((info.program.as_str(), info.pid), ("test", std::process::id()));
    let region = descriptors.take(0).unwrap();
    let view = View::map(region.as_fd(), &info.limits).unwrap();
    assert_eq!(view.rows().iter().filter(|row| row.kind.get() == tickwire_stack::table::kind::UDP).count(), 1);
    assert!(Region::map(region.as_fd(), info.lane, &info.limits).is_err(), "it is read-only");
    assert!(matches!(tool.request(&Request::ListLanes { after: cursor }, &[]).0, Reply::Done));
    let list = |after| Request::ListClaims { lane: lane.lane, after };
    let Reply::Held { held } = tool.request(&list(Claim(0)), &[]).0 else { panic!("a claim") };
    assert_eq!((held.claim, held.protocol, held.local), (claim, 17, world.a(7000).into()));
    assert!(matches!(tool.request(&list(claim), &[]).0, Reply::Done));
    stack.udp_close(id).unwrap();
}

#[test]
fn a_user_sees_nothing_of_other_users_lanes_and_programs() {
    if skipped() {
        return;
    }
    const USER: libc::uid_t = 65_534;
    let world = World::with(Attach::Tc, "[limits]\nlanes_per_user = 1\n");
    let mut programs = [world.client(), Client::as_user(&world, USER)];
    let [of_root, of_user] = programs.each_mut().map(|client| client.hello().unwrap().lane);
    let mut refused = [world.client(), Client::as_user(&world, USER)];
    assert!(refused.iter_mut().all(|client| client.hello().err() == Some(Reason::UserLaneLimit)));
    let listed = |mut tool: Client| {
        let (mut after, mut found) = (0, Vec::new());
        while let Reply::LaneInfo { cursor, info } = tool.request(&Request::ListLanes { after }, &[]).0 {
            found.push((info.lane, info.uid));
            after = cursor;
        }
        found.sort_unstable();
        found
    };
    assert_eq!(listed(Client::as_user(&world, USER)), [(0, USER), (of_user, USER)]);
    assert_eq!(listed(Client::as_user(&world, USER - 1)), []);
    let mut all = [(0, 0), (0, USER), (of_root, 0), (of_user, USER)];
    all.sort_unstable();
    assert_eq!(listed(world.client()), all);
}

#[test]
fn ordinary_traffic_is_untouched_while_lanes_come_and_go() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Auto);
    // A login, as it were: short messages there and back over one connection of the kernel's.
    let listener = within(&world.pair.a, || TcpListener::bind(world.a(22)).unwrap());
    let mut login = within(&world.pair.b, || TcpStream::connect(world.a(22)).unwrap());
    let (mut shell, _) = listener.accept().unwrap();
    login.set_nodelay(true).unwrap();
    shell.set_nodelay(true).unwrap();
    for end in [&login, &shell] {
        end.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    }
    let (echoes, done) = (AtomicU32::new(0), AtomicBool::new(false));
    /// Ends the echoes also when the test fails, which would wait for them for ever.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 32];
            while shell.read_exact(&mut buffer).is_ok() {
                shell.write_all(&buffer).unwrap();
            }
        });
        scope.spawn(|| {
            let mut buffer = [0; 32];
            while !done.load(Ordering::Relaxed) {
                login.write_all(&[9; 32]).unwrap();
                login.read_exact(&mut buffer).unwrap();
                echoes.fetch_add(1, Ordering::Relaxed);
            }
            drop(login);
        });
        let _echoing = Done(&done);
        for _ in 0..4 {
            let before = echoes.load(Ordering::Relaxed);
            let mut client = world.client();
            let lane = client.hello().unwrap();
            let _stack = lane.stack();
            let sockets: Vec<_> =
                within(&world.pair.a, || (0..20).map(|n| UdpSocket::bind(("0.0.0.0", 7000 + n)).unwrap()).collect());
            for socket in &sockets {
                let claimed = client.claim_bound(socket);
                assert!(matches!(claimed, Ok(_) | Err(Reason::PortTaken)), "{claimed:?}");
            }
            until("the login goes on beside a lane", || echoes.load(Ordering::Relaxed) > before + 25);
        }
    });
    until("all lanes are gone", || world.lane_devices().is_empty());
    until("no descriptor is left", || descriptors() < 200);
}
