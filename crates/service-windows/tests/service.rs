//! The service and its programs, in one process: what they are given and refused. (Packets are
//! tested in the lab: `cargo xtask windows lab`.)
#![cfg(windows)]

mod common;

use common::{CLAIM, MOST_PORT_TESTS, PORTS, REFUSED, Running, ask, claim, hello, socket};
use std::net::{TcpListener, UdpSocket};
use std::os::windows::io::{AsHandle, AsSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{process, thread};
use tickwire_host_windows::{Firewall, FirewallError, InboundPort, InboundVerdict, PortProtocol};
use tickwire_lane::control::{AttachMode, Claim, ClaimPart, CountersOf, Name, Parts, Push, Reason, Reply, Request};
use tickwire_lane_windows::control::{ClientChannel, Unawaited};
use tickwire_lane_windows::event::WakeEvent;
use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide};
use tickwire_lane_windows::lane_snapshot::LaneSnapshot;
use tickwire_lane_windows::pulled_socket::handle_of;
use tickwire_lane_windows::section::SharedSection;
use tickwire_stack::Memory;
use tickwire_stack::addr::{Address, Endpoint};

#[test]
fn a_program_gets_the_memory_of_its_lane_and_no_more_rights_than_it_needs() {
    let service = Running::new();
    let (_program, mut handles) = service.program();
    assert_eq!(handles.len(), 5);
    let own = SharedSection::from(handles.take(0).unwrap());
    let services = SharedSection::from(handles.take(1).unwrap());
    LaneMemory::map(LaneSide::Program, &own, &services).unwrap();
    assert!(services.view_writable(4096).is_err(), "the service's section is to be read only");
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason_and_the_connection_goes_on() {
    let service = Running::new();
    let mut program = service.connect();
    let refused = |reply: Reply| match reply {
        Reply::Refused { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    let udp = socket();
    assert_eq!(claim(&mut program, &udp), Err(Reason::BadRequest), "there is no lane yet");
    assert_eq!(refused(ask(&mut program, &hello(1), &[]).0), Reason::Version);
    assert!(matches!(ask(&mut program, &hello(Memory::LAYOUT_HASH), &[]).0, Reply::Lane { .. }));
    assert_eq!(refused(ask(&mut program, &hello(Memory::LAYOUT_HASH), &[]).0), Reason::BadRequest, "a second lane");
    let event = WakeEvent::new().unwrap();
    assert_eq!(refused(ask(&mut program, &CLAIM, &[event.as_handle()]).0), Reason::BadRequest, "no socket");
    let loopback = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(claim(&mut program, &loopback), Err(Reason::BoundLoopback));
    if let Ok(unwanted) = UdpSocket::bind(("0.0.0.0", REFUSED)) {
        assert_eq!(claim(&mut program, &unwanted), Err(Reason::Device));
        assert_eq!(claim(&mut program, &unwanted), Err(Reason::Device), "it was forgotten");
    }
    let mine = claim(&mut program, &udp).unwrap();
    let parts = Parts::new(&[ClaimPart { claim: Claim(mine.0 + 1), remote: Endpoint::default() }]);
    assert_eq!(refused(ask(&mut program, &Request::Release { parts }, &[]).0), Reason::BadRequest);
}

#[test]
fn a_port_is_one_programs_until_its_claim_or_its_lane_ends() {
    let service = Running::new();
    let ((mut first, _), (mut second, _)) = (service.program(), service.program());
    let udp = socket();
    let held = claim(&mut first, &udp).unwrap();
    assert_eq!(claim(&mut second, &udp), Err(Reason::PortTaken));
    let parts = Parts::new(&[ClaimPart { claim: held, remote: Endpoint::default() }]);
    assert!(matches!(ask(&mut first, &Request::Release { parts }, &[]).0, Reply::Done));
    claim(&mut second, &udp).unwrap();
    drop(second);
    // When it has noticed.
    while claim(&mut first, &udp) == Err(Reason::PortTaken) {
        thread::yield_now();
    }
}

#[test]
fn the_service_keeps_a_port_for_as_long_as_it_is_claimed_and_lists_it() {
    let service = Running::new();
    let (mut program, _) = service.program();
    let udp = socket();
    let address = udp.local_addr().unwrap();
    let held = claim(&mut program, &udp).unwrap();
    drop(udp);
    assert!(UdpSocket::bind(address).is_err(), "the program's own socket is closed");
    let mut tool = service.connect();
    let Reply::LaneInfo { cursor, info } = ask(&mut tool, &Request::ListLanes { after: 0 }, &[]).0 else { panic!() };
    assert_eq!((info.pid, info.program, info.claims), (process::id(), Name::new("test"), 1));
    assert!(matches!(ask(&mut tool, &Request::ListLanes { after: cursor }, &[]).0, Reply::Done));
    let list = Request::ListClaims { lane: info.lane, after: Claim(0) };
    let Reply::Held { held: listed } = ask(&mut tool, &list, &[]).0 else { panic!() };
    assert_eq!((listed.claim, listed.local.port, listed.protocol), (held, address.port(), 17));
    drop(program);
    while UdpSocket::bind(address).is_err() {
        thread::yield_now();
    }
}

/// All programs that a tool is told of: lane, reason, and how many rows there are, if it has some.
fn listing(tool: &mut ClientChannel) -> Vec<(u32, Reason, Option<usize>)> {
    let (mut found, mut after) = (Vec::new(), 0);
    while let (Reply::LaneInfo { cursor, info }, mut handles) = ask(tool, &Request::ListLanes { after }, &[]) {
        assert_eq!(info.pid, process::id());
        let copy = handles.take(0).map(SharedSection::from);
        assert!(copy.as_ref().is_none_or(|copy| copy.view_writable(4096).is_err()), "it is to be read only");
        let rows = copy.map(|copy| LaneSnapshot::open(&copy).unwrap().rows().len());
        found.push((info.lane, info.reason, rows));
        after = cursor;
    }
    found
}

#[test]
fn a_tool_is_told_of_the_interface_of_lanes_and_of_programs_without_one() {
    let service = Running::new();
    let (mut tool, (first, _first)) = (service.connect(), service.program());
    let mut unserved = service.connect();
    assert!(matches!(ask(&mut unserved, &hello(1), &[]).0, Reply::Refused { reason: Reason::Version, .. }));
    let second = service.program();
    let expected = [(1, Reason::None, Some(0)), (2, Reason::None, Some(0)), (0, Reason::Version, None)];
    assert_eq!(listing(&mut tool), expected);
    assert!(matches!(ask(&mut tool, &Request::ListLanes { after: u64::MAX }, &[]).0, Reply::Done));

    let Reply::Interface { info } = ask(&mut tool, &Request::ListInterfaces { after: 0 }, &[]).0 else {
        panic!("no interface");
    };
    assert_eq!((info.interface, info.driver.as_str(), info.mtu, info.mode), (1, "none", 1500, AttachMode::Driver));
    assert!(matches!(ask(&mut tool, &Request::ListInterfaces { after: 1 }, &[]).0, Reply::Done));
    for (of, lane, count) in [(CountersOf::Host, 0, 11), (CountersOf::Lane, 2, 13)] {
        let Reply::Counters { figures } = ask(&mut tool, &Request::Counters { of, lane }, &[]).0 else {
            panic!("no counters");
        };
        assert_eq!(figures.as_slice(), vec![0; count]);
    }
    let gone = ask(&mut tool, &Request::Counters { of: CountersOf::Lane, lane: 3 }, &[]).0;
    assert!(matches!(gone, Reply::Refused { reason: Reason::LaneGone, .. }), "{gone:?}");

    // A program that leaves its lane, and one that gets one after all.
    let (mut leaving, _) = second;
    let request = Request::OnKernel { program: Name::new("test"), reason: Reason::Disabled };
    assert!(matches!(ask(&mut leaving, &request, &[]).0, Reply::Done));
    assert!(matches!(ask(&mut unserved, &hello(Memory::LAYOUT_HASH), &[]).0, Reply::Lane { .. }));
    let expected = [(1, Reason::None, Some(0)), (3, Reason::None, Some(0)), (0, Reason::Disabled, None)];
    assert_eq!(listing(&mut tool), expected);
    drop((leaving, unserved, first));
    for _ in 0..1000 {
        if listing(&mut tool).is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("programs that are gone are listed: {:?}", listing(&mut tool));
}

#[test]
fn ports_of_the_block_are_offered_until_all_are_claimed() {
    let service = Running::new();
    let (mut program, _) = service.program();
    let wanted = Request::Ports { source: Address::ANY_V4, count: 100 };
    let mut sockets = Vec::new();
    loop {
        let offered = match ask(&mut program, &wanted, &[]).0 {
            Reply::Ports { ports, .. } => ports,
            Reply::Refused { reason, .. } => {
                assert_eq!(reason, Reason::FlowLimit);
                break;
            }
            other => panic!("{other:?}"),
        };
        assert!(offered.as_slice().len() <= 16);
        let bound = offered.as_slice().iter().filter_map(|offered| {
            assert!(PORTS.contains(&offered.port));
            UdpSocket::bind(("0.0.0.0", offered.port)).ok()
        });
        let before = sockets.len();
        for socket in bound.collect::<Vec<_>>() {
            claim(&mut program, &socket).unwrap();
            sockets.push(socket);
        }
        if sockets.len() == before {
            // Another program of this machine has the others.
            break;
        }
    }
    assert!(sockets.len() > 10);
}

#[test]
fn a_user_has_its_share_of_the_drivers_filter_and_neighbouring_ports_take_little_of_it() {
    let service = Running::new();
    let (mut program, _) = service.program();
    let sockets = (45_000..47_000).step_by(3).filter_map(|port| UdpSocket::bind(("0.0.0.0", port)).ok());
    let mut sockets: Vec<_> = sockets.take(MOST_PORT_TESTS / 4 * 3 + 1).collect();
    let one_more = sockets.pop().unwrap();
    for socket in &sockets {
        claim(&mut program, socket).unwrap();
    }
    assert_eq!(claim(&mut program, &one_more), Err(Reason::UserPortLimit));
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    // One between two others: the three are one range, of two tests.
    let between = sockets.windows(2).find_map(|pair| {
        let of_pair = [port(&pair[0]) + 1, port(&pair[0]) + 2].map(|port| UdpSocket::bind(("0.0.0.0", port)).ok());
        let [Some(first), Some(second)] = of_pair else { return None };
        (port(&pair[1]) == port(&pair[0]) + 3).then_some([first, second])
    });
    let [first, second] = between.unwrap();
    assert_eq!(claim(&mut program, &first), Err(Reason::UserPortLimit), "a range takes a test more");
    let parts = |claim| Parts::new(&[ClaimPart { claim, remote: Endpoint::default() }]);
    let Reply::LaneInfo { info, .. } = ask(&mut program, &Request::ListLanes { after: 0 }, &[]).0 else { panic!() };
    let list = Request::ListClaims { lane: info.lane, after: Claim(0) };
    let Reply::Held { held } = ask(&mut program, &list, &[]).0 else { panic!() };
    assert!(matches!(ask(&mut program, &Request::Release { parts: parts(held.claim) }, &[]).0, Reply::Done));
    for socket in [&first, &second] {
        claim(&mut program, socket).unwrap();
    }
}

#[test]
fn a_user_has_three_captures_at_a_time_and_is_told_so() {
    let service = Running::new();
    let capture = Request::Capture { lane: 0, snaplen: 64 };
    let begin = || {
        let mut reader = service.connect();
        let (reply, handles) = ask(&mut reader, &capture, &[]);
        (reader, reply, handles.len())
    };
    let mut readers: Vec<_> = (0..3).map(|_| begin()).collect();
    assert!(readers.iter().all(|(_, reply, handles)| matches!(reply, Reply::Capturing) && *handles == 3));
    let (mut refused, reply, _) = begin();
    assert!(matches!(reply, Reply::Refused { reason: Reason::UserCaptureLimit, .. }), "{reply:?}");
    readers.pop();
    // When it has noticed.
    wait_until(|| matches!(ask(&mut refused, &capture, &[]).0, Reply::Capturing));
}

/// A firewall that says the same of every port, and notes what it was asked.
#[derive(Default)]
struct OneRule {
    /// 0: allowed, 1: restricted, 2: blocked, else: no answer.
    verdict: AtomicU32,
    /// It has a rule against packets that leave.
    keeps_in: AtomicBool,
    asked: Mutex<Vec<InboundPort>>,
}

impl Firewall for OneRule {
    fn inbound(&self, port: &InboundPort) -> Result<InboundVerdict, FirewallError> {
        self.asked.lock().unwrap().push(port.clone());
        match self.verdict.load(SeqCst) {
            0 => Ok(InboundVerdict::Allowed),
            1 => Ok(InboundVerdict::Restricted),
            2 => Ok(InboundVerdict::Blocked),
            _ => Err(FirewallError::Silent),
        }
    }

    fn lets_out(&self, _: Option<&str>, _: PortProtocol, _: Option<u16>) -> Result<bool, FirewallError> {
        Ok(!self.keeps_in.load(SeqCst))
    }
}

#[test]
fn a_port_is_claimed_only_if_the_firewall_lets_its_packets_in() {
    let rule = Arc::new(OneRule::default());
    let service = Running::behind(Arc::clone(&rule) as Arc<dyn Firewall>);
    let (mut program, _) = service.program();
    let udp = socket();
    for (verdict, reason) in [(1, Reason::FirewallRestricts), (2, Reason::FirewallBlocks), (3, Reason::FirewallUnknown)]
    {
        rule.verdict.store(verdict, SeqCst);
        assert_eq!(claim(&mut program, &udp), Err(reason));
    }
    let asked = rule.asked.lock().unwrap().pop().unwrap();
    let own = std::env::current_exe().unwrap().display().to_string();
    assert_eq!(asked.program.as_deref().map(str::to_lowercase), Some(own.to_lowercase()));
    let port = udp.local_addr().unwrap().port();
    assert_eq!((asked.protocol, asked.local.port), (PortProtocol::Udp, port));
    rule.verdict.store(0, SeqCst);
    rule.keeps_in.store(true, SeqCst);
    assert_eq!(claim(&mut program, &udp), Err(Reason::FirewallKeepsIn));
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let answer = ask(&mut program, &CLAIM, &[handle_of(listener.as_socket())]).0;
    assert!(matches!(answer, Reply::Claimed { .. }), "what answers is let out: {answer:?}");
    rule.keeps_in.store(false, SeqCst);
    claim(&mut program, &udp).unwrap();
}

/// A firewall that takes its time, and notes how many questions it was asked at once.
#[derive(Default)]
struct Slow {
    asked: AtomicU32,
    most: AtomicU32,
}

impl Firewall for Slow {
    fn inbound(&self, _: &InboundPort) -> Result<InboundVerdict, FirewallError> {
        self.most.fetch_max(self.asked.fetch_add(1, SeqCst) + 1, SeqCst);
        thread::sleep(Duration::from_millis(20));
        self.asked.fetch_sub(1, SeqCst);
        Ok(InboundVerdict::Allowed)
    }

    fn lets_out(&self, _: Option<&str>, _: PortProtocol, _: Option<u16>) -> Result<bool, FirewallError> {
        Ok(true)
    }
}

#[test]
fn a_users_programs_ask_the_firewall_one_after_the_other() {
    let slow = Arc::new(Slow::default());
    let service = Running::behind(Arc::clone(&slow) as Arc<dyn Firewall>);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (mut program, _) = service.program();
            scope.spawn(move || {
                for _ in 0..3 {
                    claim(&mut program, &socket()).unwrap();
                }
            });
        }
    });
    // (And the claims that are there are looked at again.)
    assert!(slow.most.load(SeqCst) <= 2, "{}", slow.most.load(SeqCst));
}

#[test]
fn a_claim_ends_when_the_firewall_would_not_let_its_packets_in_any_more() {
    let rule = Arc::new(OneRule::default());
    let service = Running::behind(Arc::clone(&rule) as Arc<dyn Firewall>);
    let (mut program, _) = service.program();
    let (first, second) = (socket(), socket());
    let held = claim(&mut program, &first).unwrap();
    rule.verdict.store(3, SeqCst);
    let before = rule.asked.lock().unwrap().len();
    wait_until(|| rule.asked.lock().unwrap().len() > before);
    rule.verdict.store(2, SeqCst);
    let lost = pushed(&mut program);
    assert!(matches!(lost, Push::ClaimLost { claim, reason: Reason::FirewallBlocks } if claim == held), "{lost:?}");
    rule.verdict.store(0, SeqCst);
    // It was not ended while the firewall gave no answer; now it is free again.
    claim(&mut program, &first).unwrap();
    claim(&mut program, &second).unwrap();
}

/// Waits for what happens within seconds.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
}

/// What the service tells next.
fn pushed(program: &mut ClientChannel) -> Push {
    let mut told = None;
    wait_until(|| {
        if let Some(Unawaited::Push(push)) = program.take().unwrap() {
            told = Some(push);
        }
        told.is_some()
    });
    told.unwrap()
}
