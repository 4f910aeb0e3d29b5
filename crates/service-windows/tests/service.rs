//! The service and its programs, in one process: what they are given and refused. (Packets are
//! tested in the lab: `cargo xtask windows lab`.)
#![cfg(windows)]

mod common;

use common::{CLAIM, REFUSED, Running, ask, claim, hello, socket};
use std::net::UdpSocket;
use std::os::windows::io::AsHandle;
use std::{process, thread};
use tickwire_lane::control::{Claim, ClaimPart, Name, Parts, Reason, Reply, Request};
use tickwire_lane_windows::event::WakeEvent;
use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide};
use tickwire_lane_windows::section::SharedSection;
use tickwire_stack::Memory;
use tickwire_stack::addr::Endpoint;

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
