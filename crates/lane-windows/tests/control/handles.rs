//! Handles beside messages, within one process.

use crate::bed::{BRIEFLY, Event, SOON, pair};
use tickwire_lane::control::{ClaimKind, MAX_DESCRIPTORS, Reply, Request};
use tickwire_lane_windows::control::{HandleGrant, ReplyError, RequestError, Unawaited};
use tickwire_lane_windows::event::wait_for;
use tickwire_stack::addr::{Address, Endpoint};
use windows_sys::Win32::Storage::FileSystem::SYNCHRONIZE;

const CLAIM: Request = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::new(Address::ANY, 0) };

#[test]
fn a_handle_of_the_client_reaches_the_service() {
    let (mut server, mut client) = pair();
    let event = Event::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = server.receive(SOON).unwrap();
            assert_eq!(got.handles.len(), 1);
            Event(got.handles.take(0).unwrap()).set().unwrap();
            assert!(got.handles.take(0).is_none() && got.handles.take(9).is_none());
            server.send(&Reply::Done, got.number, &[]).unwrap();
        });
        assert!(matches!(client.request(&CLAIM, &[event.handle()], SOON).unwrap().0, Reply::Done));
    });
    assert!(event.is_set_within(SOON));
}

#[test]
fn a_handle_of_the_service_reaches_the_client_with_the_rights_given() {
    let (mut server, mut client) = pair();
    let event = Event::new();
    let mut give = |grant| {
        server.send(&Reply::Capturing, 0, &[grant]).unwrap();
        loop {
            match client.take().unwrap() {
                Some(Unawaited::Reply { mut handles, .. }) => break Event(handles.take(0).unwrap()),
                Some(other) => panic!("{other:?}"),
                None => {
                    wait_for(&client.events(), Some(SOON)).unwrap();
                }
            }
        }
    };
    let to_wait = give(HandleGrant::only(event.handle(), SYNCHRONIZE));
    assert!(!to_wait.is_set_within(BRIEFLY));
    assert_eq!(to_wait.set().unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    give(HandleGrant::same(event.handle())).set().unwrap();
    assert!(to_wait.is_set_within(SOON) && event.is_set_within(SOON));
}

#[test]
fn a_handle_that_has_arrived_is_the_clients_also_if_the_service_ends_before_it_knows() {
    let (mut server, mut client) = pair();
    let event = Event::new();
    let mut sent = 0;
    while server.write_event().is_none() {
        server.send(&Reply::Capturing, 0, &[HandleGrant::same(event.handle())]).unwrap();
        sent += 1;
    }
    // The last one waits until the pipe has room.
    let mut take = || match client.take().unwrap() {
        Some(Unawaited::Reply { mut handles, .. }) => Event(handles.take(0).unwrap()),
        other => panic!("{other:?}"),
    };
    let arrived: Vec<_> = (0..sent).map(|_| take()).collect();
    drop(server);
    arrived.iter().for_each(|theirs| theirs.set().unwrap());
}

#[test]
fn too_many_handles_are_refused_and_cost_nothing() {
    let (mut server, mut client) = pair();
    let event = Event::new();
    let many = [event.handle(); MAX_DESCRIPTORS + 1];
    assert!(matches!(client.request(&CLAIM, &many, SOON), Err(RequestError::TooManyHandles)));
    let error = server.send(&Reply::Done, 1, &many.map(HandleGrant::same)).unwrap_err();
    assert!(matches!(error, ReplyError::TooManyHandles) && !error.is_end());
    client.tell(&Request::Bulk).unwrap();
    assert!(server.receive(SOON).is_ok());
}
