//! Requests, replies and pushes.

use crate::bed::{BRIEFLY, SOON, pair};
use tickwire_lane::control::{Claim, Name, Push, Reason, Remotes, Reply, Request};
use tickwire_lane_windows::control::{ReceiveError, RequestError, Unawaited};
use tickwire_lane_windows::event::wait_for;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, Query};

const LIST: Request = Request::ListLanes { after: 0 };

#[test]
fn requests_and_replies_travel_both_ways() {
    let (mut server, mut client) = pair();
    assert!(server.try_receive().unwrap().is_none());
    let remotes = [Endpoint::new(Address::v4([10, 0, 0, 2]), 80); Remotes::MAX];
    let longest = Request::Convert { claim: Claim(7), remotes: Remotes::new(&remotes), more: true, closes: true };
    let hello = Request::Hello { program: Name::new("test"), layout: 1 };
    let requests = [hello, longest, LIST];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, sent) in (1..).zip(&requests) {
                let got = server.receive(SOON).unwrap();
                assert_eq!((got.number, format!("{:?}", got.request)), (number, format!("{sent:?}")));
                assert!(got.handles.is_empty());
                server.send(&Reply::Refused { reason: Reason::PortTaken, interface: number }, number, &[]).unwrap();
            }
        });
        for (number, request) in (1..).zip(&requests) {
            let (reply, handles) = client.request(request, &[], SOON).unwrap();
            assert!(matches!(reply, Reply::Refused { interface, .. } if interface == number) && handles.is_empty());
        }
    });
    assert!(client.take().unwrap().is_none() && server.try_receive().unwrap().is_none());
}

#[test]
fn what_comes_before_a_reply_is_kept_and_wakes() {
    let (mut server, mut client) = pair();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let number = server.receive(SOON).unwrap().number;
            server.send(&Push::Mtu { mtu: 1400 }, 0, &[]).unwrap();
            server.send(&Push::Leave, 0, &[]).unwrap();
            server.send(&Reply::Attached, number, &[]).unwrap();
        });
        assert!(matches!(client.request(&LIST, &[], SOON).unwrap().0, Reply::Attached));
    });
    assert!(client.has_kept());
    assert_eq!(wait_for(&client.events(), Some(SOON)).unwrap(), Some(1));
    assert!(matches!(client.take().unwrap(), Some(Unawaited::Push(Push::Mtu { mtu: 1400 }))));
    assert!(matches!(client.take().unwrap(), Some(Unawaited::Push(Push::Leave))));
    assert!(client.take().unwrap().is_none());
    assert_eq!(wait_for(&client.events(), Some(BRIEFLY)).unwrap(), None);
    server.send(&Push::Mtu { mtu: 9000 }, 0, &[]).unwrap();
    assert_eq!(wait_for(&client.events(), Some(SOON)).unwrap(), Some(0), "also without a request");
    assert!(matches!(client.take().unwrap(), Some(Unawaited::Push(Push::Mtu { mtu: 9000 }))));
}

#[test]
fn a_reply_that_comes_too_late_is_none_to_the_next_request() {
    let (mut server, mut client) = pair();
    let silence = client.request(&LIST, &[], BRIEFLY).unwrap_err();
    assert!(matches!(silence, RequestError::TimedOut) && !silence.is_end());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let late = server.receive(SOON).unwrap().number;
            let number = server.receive(SOON).unwrap().number;
            server.send(&Reply::Done, late, &[]).unwrap();
            server.send(&Reply::Attached, number, &[]).unwrap();
        });
        assert!(matches!(client.request(&LIST, &[], SOON).unwrap().0, Reply::Attached));
    });
    assert!(matches!(client.take().unwrap(), Some(Unawaited::Reply { number: 1, reply: Reply::Done, .. })));
}

#[test]
fn a_reply_to_what_was_told_is_not_awaited() {
    let (mut server, mut client) = pair();
    client.tell(&Request::Bulk).unwrap();
    let got = server.receive(SOON).unwrap();
    assert!(got.number == 0 && matches!(got.request, Request::Bulk));
    server.send(&Reply::Done, 0, &[]).unwrap();
    assert_eq!(wait_for(&client.events(), Some(SOON)).unwrap(), Some(0));
    assert!(matches!(client.take().unwrap(), Some(Unawaited::Reply { number: 0, reply: Reply::Done, .. })));
}

#[test]
fn what_was_said_of_a_path_before_a_reply_about_it_is_forgotten() {
    let (mut server, mut client) = pair();
    let path = |last| PathInfo { query: Query::to(Address::v4([10, 0, 0, last])), ..PathInfo::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let number = server.receive(SOON).unwrap().number;
            for last in [1, 2] {
                server.send(&Push::PathChanged { path: path(last), reason: Reason::None }, 0, &[]).unwrap();
            }
            server.send(&Reply::Path { path: path(1), reason: Reason::None }, number, &[]).unwrap();
        });
        let request = Request::Resolve { query: path(1).query, choose: false };
        assert!(matches!(client.request(&request, &[], SOON).unwrap().0, Reply::Path { .. }));
    });
    let left = client.take().unwrap();
    let Some(Unawaited::Push(Push::PathChanged { path: of_other, .. })) = left else { panic!("{left:?}") };
    assert!(of_other.query == path(2).query && client.take().unwrap().is_none());
}

#[test]
fn what_a_service_said_before_it_ended_can_be_taken() {
    let (mut server, mut client) = pair();
    server.send(&Push::Closing { reason: Reason::Stopping }, 0, &[]).unwrap();
    drop(server);
    let closing = client.take().unwrap();
    assert!(matches!(closing, Some(Unawaited::Push(Push::Closing { reason: Reason::Stopping }))), "{closing:?}");
    assert_eq!(wait_for(&client.events(), Some(SOON)).unwrap(), Some(0), "its end wakes");
    let gone = client.take().unwrap_err();
    assert!(matches!(gone, RequestError::Gone) && gone.is_end());
    assert!(matches!(client.request(&LIST, &[], SOON), Err(RequestError::Gone)));
}

#[test]
fn what_a_client_asked_before_it_ended_can_be_received() {
    let (mut server, mut client) = pair();
    client.tell(&Request::Bulk).unwrap();
    drop(client);
    assert!(matches!(server.receive(SOON).unwrap().request, Request::Bulk));
    let gone = server.receive(SOON).unwrap_err();
    assert!(matches!(gone, ReceiveError::Gone) && gone.is_end());
    assert!(server.send(&Reply::Done, 0, &[]).is_err());
}

#[test]
fn silence_times_out_and_costs_nothing() {
    let (mut server, mut client) = pair();
    assert!(matches!(server.receive(BRIEFLY), Err(ReceiveError::TimedOut)));
    client.tell(&Request::Bulk).unwrap();
    assert!(server.receive(SOON).is_ok());
}

#[test]
fn pushes_that_are_not_taken_end_the_connection() {
    let (mut server, mut client) = pair();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            server.receive(SOON).unwrap();
            // The client may be gone before the last one.
            let _ = (0..1100).try_for_each(|mtu| server.send(&Push::Mtu { mtu }, 0, &[]));
            // Sends the rest until then.
            assert!(matches!(server.receive(SOON), Err(ReceiveError::Gone)));
        });
        let error = client.request(&LIST, &[], SOON).unwrap_err();
        assert!(matches!(error, RequestError::TooMuch) && error.is_end());
        drop(client);
    });
}

#[test]
fn a_service_that_does_not_read_costs_requests_and_not_the_connection() {
    let (mut server, mut client) = pair();
    let error = (0..100_000).find_map(|_| client.tell(&Request::Bulk).err()).expect("the pipe is bounded");
    assert!(matches!(error, RequestError::NotReading) && !error.is_end());
    assert!(matches!(client.request(&LIST, &[], BRIEFLY), Err(RequestError::NotReading)));
    server.receive(SOON).unwrap();
    while server.try_receive().unwrap().is_some() {}
    client.tell(&Request::Bulk).unwrap();
    assert!(matches!(server.receive(SOON).unwrap().request, Request::Bulk));
}
