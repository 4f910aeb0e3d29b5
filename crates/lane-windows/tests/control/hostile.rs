//! Clients that follow no rule: each costs its own connection at most, and the service never waits.

use crate::bed::{BRIEFLY, Event, RawClient, SOON, accept, frame, listen, new_name, pair, raw_pair};
use tickwire_lane::control::{ClaimKind, MalformedMessage, Push, Reply, Request};
use tickwire_lane_windows::control::{ClientChannel, HandleGrant, MAX_QUEUED, ReceiveError, ReplyError};
use tickwire_lane_windows::event::wait_for;
use tickwire_stack::addr::{Address, Endpoint};

const CLAIM: Request = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::new(Address::ANY, 0) };

#[test]
fn values_that_are_no_handles_cost_the_request() {
    let (mut server, mut client) = raw_pair();
    // Pseudo-handles are the first ones: the calling process, which is the service, and its thread.
    let values = [u64::MAX, u64::MAX - 1, u64::MAX - 5, 0, 1, 7, 0x7fff_fffc, 0xffff_fffc, 1 << 40];
    for (number, value) in (1..).zip(values) {
        client.send(&frame(&CLAIM, number, &[value]));
        let error = server.receive(SOON).unwrap_err();
        let ReceiveError::Handle { number: of, place: 0, .. } = error else { panic!("{value:#x}: {error:?}") };
        assert!(of == number && !error.is_end());
    }
    let event = Event::new();
    client.send(&frame(&CLAIM, 99, &[event.value()]));
    let mut got = server.receive(SOON).unwrap();
    Event(got.handles.take(0).unwrap()).set().unwrap();
    assert!(event.is_set_within(SOON), "the connection goes on");
}

#[test]
fn a_message_that_is_too_long_ends_the_connection() {
    for len in [500, 5000] {
        let (mut server, mut client) = raw_pair();
        client.send(&vec![0; len]);
        let error = server.receive(SOON).unwrap_err();
        assert!(matches!(error, ReceiveError::TooLong) && error.is_end(), "{len}: {error:?}");
        assert!(matches!(server.try_receive(), Err(ReceiveError::Gone)));
        assert!(matches!(server.send(&Reply::Done, 0, &[]), Err(ReplyError::Gone)));
    }
}

#[test]
fn malformed_messages_end_the_connection() {
    let good = frame(&CLAIM, 1, &[4]);
    let without_handle = frame(&CLAIM, 1, &[]);
    let mut of_other_version = good.clone();
    of_other_version[5] ^= 0xff;
    let cases = [
        (vec![], MalformedMessage::Length),
        (vec![3], MalformedMessage::Length),
        (vec![0; 40], MalformedMessage::Magic),
        (vec![200; 40], MalformedMessage::Descriptors(200)),
        (without_handle, MalformedMessage::Descriptors(0)),
        (good[..good.len() - 1].to_vec(), MalformedMessage::Length),
        ([&good[..], &[0]].concat(), MalformedMessage::Length),
    ];
    for (bytes, fault) in cases {
        let (mut server, mut client) = raw_pair();
        client.send(&bytes);
        let error = server.receive(SOON).unwrap_err();
        assert!(error.is_end());
        let ReceiveError::Malformed(found) = error else { panic!("{bytes:?}: {error:?}") };
        assert_eq!(found, fault, "{bytes:?}");
    }
    let (mut server, mut client) = raw_pair();
    client.send(&of_other_version);
    let error = server.receive(SOON).unwrap_err();
    assert!(matches!(error, ReceiveError::Malformed(MalformedMessage::Version(_))), "{error:?}");
}

#[test]
fn a_client_that_does_not_prove_its_process_is_not_served() {
    let name = new_name();
    let mut listener = listen(&name);
    let mut client = RawClient::open(&name);
    let mut server = accept(&mut listener);
    let event = client.greeting();
    client.send(&frame(&Request::Bulk, 1, &[]));
    let error = server.receive(SOON).unwrap_err();
    let ReceiveError::Unproven { process_id } = error else { panic!("{error:?}") };
    assert!(process_id == std::process::id() && error.is_end());
    event.set().unwrap();
    assert!(matches!(server.try_receive(), Err(ReceiveError::Gone)), "it is too late");
}

#[test]
fn a_client_that_does_not_read_blocks_no_sender_and_is_disconnected() {
    let (mut server, mut client) = raw_pair();
    let event = Event::new();
    let mut sent = 0;
    let error = loop {
        assert!(sent < 100_000, "the queue is bounded");
        let result = if sent % 8 == 0 {
            server.send(&Reply::Capturing, 1, &[HandleGrant::same(event.handle())])
        } else {
            server.send(&Push::Mtu { mtu: sent }, 0, &[])
        };
        match result {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReplyError::NotReading) && error.is_end());
    assert!(sent as usize > MAX_QUEUED / 128, "{sent}");
    assert!(matches!(server.send(&Reply::Done, 0, &[]), Err(ReplyError::Gone)));
    assert!(matches!(server.try_receive(), Err(ReceiveError::Gone)));
    drop(server);
    // What was sent before is still there; then the pipe ends.
    let mut bytes = Vec::new();
    let _ = std::io::Read::read_to_end(&mut client.0, &mut bytes);
    assert!(!bytes.is_empty());
}

#[test]
fn what_is_queued_goes_out_when_the_client_reads_again() {
    let (mut server, mut client) = pair();
    (0..2000).for_each(|mtu| server.send(&Push::Mtu { mtu }, 0, &[]).unwrap());
    assert!(server.write_event().is_some() && server.flush().unwrap(), "more than the pipe holds");
    let mut taken = 0;
    while taken < 2000 {
        match client.take().unwrap() {
            Some(message) => {
                assert!(format!("{message:?}").contains(&format!("mtu: {taken} ")), "{message:?}");
                taken += 1;
            }
            None => {
                if server.flush().unwrap() {
                    let event = server.write_event().unwrap();
                    assert!(wait_for(&[event, client.events()[0]], Some(SOON)).unwrap().is_some());
                }
            }
        }
    }
    assert!(!server.flush().unwrap() && server.write_event().is_none());
}

#[test]
fn clients_that_leave_at_once_do_not_stop_the_listener() {
    let name = new_name();
    let mut listener = listen(&name);
    drop(RawClient::open(&name));
    // It may be served, to be found gone, or be passed over.
    assert!(wait_for(&[listener.event()], Some(SOON)).unwrap().is_some());
    if let Ok(Some(mut gone)) = listener.accept() {
        assert!(matches!(gone.receive(SOON), Err(ReceiveError::Gone)));
    }
    let _halfway = RawClient::open(&name);
    let mut silent = accept(&mut listener);
    assert!(matches!(silent.receive(BRIEFLY), Err(ReceiveError::TimedOut)));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| ClientChannel::connect(&name, SOON));
        let mut server = accept(&mut listener);
        client.join().unwrap().unwrap().tell(&Request::Bulk).unwrap();
        assert!(matches!(server.receive(SOON).unwrap().request, Request::Bulk));
    });
}
