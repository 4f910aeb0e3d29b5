//! A program that writes anything into its pipe and into its section, beside another program: the
//! service refuses what makes no sense, and the other program goes on. The changes are random, by a
//! fixed seed.
#![cfg(windows)]

mod common;

use common::{CLAIM, Running, ask, claim, hello, socket};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsHandle, AsRawHandle, AsRawSocket, FromRawHandle, OwnedHandle};
use std::thread;
use std::time::Duration;
use tickwire_lane::control::{Claim, ClaimPart, CountersOf, MessageTo, Name, Parts, Reason, Reply, Request};
use tickwire_lane::record_ring::RING_BYTES;
use tickwire_lane_windows::control::ClientChannel;
use tickwire_lane_windows::event::WakeEvent;
use tickwire_lane_windows::lane_memory::SECTION_BYTES;
use tickwire_lane_windows::section::SharedSection;
use tickwire_sim::Rng;
use tickwire_stack::Memory;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::memory::PAGE;
use tickwire_stack::path::Query;

/// What a client may ask of the pipe.
const ACCESS: u32 = 0x0012_0183;

/// Connects, and proves its process; `None` if the service has no place for it yet.
fn connect(service: &Running) -> Option<File> {
    let mut pipe = OpenOptions::new().access_mode(ACCESS).open(service.pipe()).ok()?;
    let mut greeting = [0; 64];
    let length = pipe.read(&mut greeting).ok()?;
    let value = u64::from_le_bytes(*greeting.get(..length)?.last_chunk()?);
    // SAFETY: the service has put this handle into this process.
    let event = WakeEvent::from(unsafe { OwnedHandle::from_raw_handle(value as usize as _) });
    event.set();
    Some(pipe)
}

fn frame(request: &Request, values: &[u64]) -> Vec<u8> {
    let mut frame = vec![values.len() as u8];
    request.encode(1, &mut |bytes| frame.extend_from_slice(bytes));
    frame.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    frame
}

/// Requests of all kinds that a program of Windows makes, and some that it does not.
fn requests(handle: u64) -> Vec<Vec<u8>> {
    let parts = Parts::new(&[ClaimPart { claim: Claim(1), remote: Endpoint::default() }]);
    let query = Query::to(Address::v4([10, 0, 0, 1]));
    vec![
        frame(&hello(Memory::LAYOUT_HASH), &[]),
        frame(&CLAIM, &[handle]),
        frame(&CLAIM, &[u64::MAX]),
        frame(&Request::Release { parts }, &[]),
        frame(&Request::Resolve { query, choose: true }, &[]),
        frame(&Request::ListLanes { after: 0 }, &[]),
        frame(&Request::ListClaims { lane: 1, after: Claim(0) }, &[]),
        frame(&Request::Counters { of: CountersOf::Lane, lane: 1 }, &[]),
        frame(&Request::OnKernel { program: Name::new("x"), reason: Reason::Disabled }, &[]),
        frame(&Request::Bulk, &[]),
    ]
}

/// Changes a message: some bytes, its end, or nothing.
fn changed(mut bytes: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        1 => bytes.extend((0..random.below(600)).map(|n| n as u8)),
        2 => {
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
        }
        _ => (),
    }
    bytes
}

/// The service answers another program, which has its claim.
fn still_answers(program: &mut ClientChannel) {
    let answer = ask(program, &Request::ListInterfaces { after: 0 }, &[]).0;
    assert!(matches!(answer, Reply::Interface { .. }), "{answer:?}");
}

#[test]
fn any_messages_cost_their_connection_at_most() {
    let service = Running::new();
    let (mut other, _handles) = service.program();
    let (udp, others) = (socket(), socket());
    claim(&mut other, &others).unwrap();
    let event = WakeEvent::new().unwrap();
    let handles = [udp.as_raw_socket(), event.as_handle().as_raw_handle() as u64, 0x7ff0];
    let mut random = Rng::new(35);
    let (mut hostile, mut connections) = (None, 0);
    for round in 0..300_usize {
        let all = requests(handles[round % handles.len()]);
        let bytes = changed(all[round % all.len()].clone(), &mut random);
        for _ in 0..500 {
            if hostile.is_some() {
                break;
            }
            // At most so many of a process are there at a time: those that have ended are noticed.
            hostile = connect(&service);
            connections += usize::from(hostile.is_some());
            thread::sleep(Duration::from_millis(2));
        }
        let pipe = hostile.as_mut().expect("the service accepts no connection");
        if pipe.write_all(&bytes).is_err() {
            hostile = None;
        }
        // The service may notice it now.
        thread::sleep(Duration::from_millis(2));
        if round % 25 == 0 {
            still_answers(&mut other);
        }
    }
    assert!(connections > 1, "messages that make no sense do not end a connection");
    drop(hostile);
    still_answers(&mut other);
    assert!(claim(&mut other, &socket()).is_ok());
}

#[test]
fn any_contents_of_a_section_harm_its_own_lane_alone() {
    let service = Running::new();
    let (mut other, _handles) = service.program();
    let mut tool = service.connect();
    let (mut program, mut handles) = service.program();
    claim(&mut program, &socket()).unwrap();
    let section = SharedSection::from(handles.take(0).unwrap());
    let doorbell = WakeEvent::from(handles.take(2).unwrap());
    let own = section.view_writable(SECTION_BYTES).unwrap();
    let lane = lanes(&mut tool).into_iter().max().unwrap();
    let mut random = Rng::new(35);
    for round in 0..300 {
        // Positions, which lie in the first two pages; data of the ring; counters and rows.
        let (from, to) = match random.below(4) {
            0 => (0, 2 * PAGE),
            1 => (2 * PAGE, 2 * PAGE + 4096),
            2 => (2 * PAGE, 2 * PAGE + RING_BYTES as usize),
            _ => (2 * PAGE + RING_BYTES as usize, SECTION_BYTES),
        };
        let bytes: Vec<u8> = (0..1 + random.below(200)).map(|_| random.next_u64() as u8).collect();
        let at = from + random.below((to - from - bytes.len()) as u64) as usize;
        own.copy_in(at, &bytes);
        if random.below(2) == 0 {
            // The producer position: there is something to send.
            let position = if random.below(2) == 0 { random.next_u64() } else { random.below(5000) };
            own.copy_in(0, &position.to_ne_bytes());
        }
        doorbell.set();
        if round % 20 == 0 {
            still_answers(&mut other);
            assert!(lanes(&mut tool).contains(&lane));
        }
    }
    let count = Request::Counters { of: CountersOf::Lane, lane };
    for _ in 0..1000 {
        let Reply::Counters { figures } = ask(&mut tool, &count, &[]).0 else { panic!("no counters") };
        if figures.as_slice().iter().sum::<u64>() > 0 {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let Reply::Counters { figures } = ask(&mut tool, &count, &[]).0 else { panic!("no counters") };
    assert!(figures.as_slice().iter().sum::<u64>() > 0, "nothing is counted");
    // The service reads its rows once more when it ends.
    drop(program);
    for _ in 0..1000 {
        if !lanes(&mut tool).contains(&lane) {
            still_answers(&mut other);
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("the lane does not end");
}

/// The numbers of all lanes, as a tool sees them.
fn lanes(tool: &mut ClientChannel) -> Vec<u32> {
    let (mut found, mut after) = (Vec::new(), 0);
    while let Reply::LaneInfo { cursor, info } = ask(tool, &Request::ListLanes { after }, &[]).0 {
        found.push(info.lane);
        after = cursor;
    }
    found
}
