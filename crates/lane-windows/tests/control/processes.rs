//! The service and its clients in processes of their own. A client is this program again, which
//! runs one test of this file: one that does nothing unless another one runs it so.

use crate::bed::{Event, SOON, accept, frame, listen, new_name, pair, raw_pair};
use std::process::{Child, Command};
use tickwire_lane::control::{ClaimKind, Reply, Request};
use tickwire_lane_windows::control::{ClientChannel, HandleGrant, ReceiveError, RequestError};
use tickwire_lane_windows::event::wait_for;
use tickwire_stack::addr::{Address, Endpoint};
use windows_sys::Win32::Foundation::GetHandleInformation;
use windows_sys::Win32::Storage::FileSystem::SYNCHRONIZE;
use windows_sys::Win32::System::Threading::EVENT_MODIFY_STATE;

const PIPE: &str = "TICKWIRE_TEST_PIPE";
const CLAIM: Request = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::new(Address::ANY, 0) };

/// Runs a test of this file in another process.
fn run(test: &str, pipe: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("processes::{test}"), "--nocapture", "--test-threads=1"]);
    command.env(PIPE, pipe).spawn().unwrap()
}

/// The connection of this process to the one that runs it; `None` if none does.
fn connect() -> Option<ClientChannel> {
    Some(ClientChannel::connect(&std::env::var(PIPE).ok()?, SOON).unwrap())
}

#[test]
fn handles_travel_between_processes() {
    let name = new_name();
    let mut listener = listen(&name);
    let mut child = run("exchange", &name);
    let mut server = accept(&mut listener);
    assert_eq!(server.process_id(), child.id());
    let mut got = server.receive(SOON).unwrap();
    assert!(matches!(got.request, Request::Claim { .. }));
    let theirs = Event(got.handles.take(0).unwrap());
    let ours = Event::new();
    let grant = HandleGrant::only(ours.handle(), SYNCHRONIZE | EVENT_MODIFY_STATE);
    server.send(&Reply::Capturing, got.number, &[grant]).unwrap();
    theirs.set().unwrap();
    assert!(ours.is_set_within(SOON), "the client has set it");
    drop(server);
    assert!(child.wait().unwrap().success());
}

#[test]
fn exchange() {
    let Some(mut client) = connect() else { return };
    assert_ne!(client.server_process_id().unwrap(), std::process::id());
    let ours = Event::new();
    let (reply, mut handles) = client.request(&CLAIM, &[ours.handle()], SOON).unwrap();
    assert!(matches!(reply, Reply::Capturing));
    assert!(ours.is_set_within(SOON), "the service has set it");
    Event(handles.take(0).unwrap()).set().unwrap();
    assert!(wait_for(&client.events(), Some(SOON)).unwrap().is_some());
    assert!(matches!(client.take(), Err(RequestError::Gone)));
}

#[test]
fn a_client_that_is_killed_is_noticed() {
    let name = new_name();
    let mut listener = listen(&name);
    let mut child = run("wait_for_death", &name);
    let mut server = accept(&mut listener);
    assert!(matches!(server.receive(SOON).unwrap().request, Request::Bulk));
    child.kill().unwrap();
    assert!(wait_for(&[server.event()], Some(SOON)).unwrap().is_some());
    assert!(matches!(server.receive(SOON), Err(ReceiveError::Gone)));
    assert!(wait_for(&[server.process()], Some(SOON)).unwrap().is_some(), "its process, too");
    let event = Event::new();
    assert!(server.send(&Reply::Capturing, 1, &[HandleGrant::same(event.handle())]).is_err());
    child.wait().unwrap();
}

#[test]
fn wait_for_death() {
    let Some(mut client) = connect() else { return };
    let end = client.request(&Request::Bulk, &[], SOON);
    panic!("the service answers nothing: {end:?}");
}

#[test]
fn nothing_leaks() {
    assert!(run("many_connections", "none").wait().unwrap().success());
}

/// Alone in its process, so that the number of handles grows only by what leaks.
#[test]
fn many_connections() {
    /// Rounds in which the process may take handles that it keeps, and rounds after these.
    const FIRST: usize = 1;
    const COUNTED: usize = 6;
    if std::env::var(PIPE).is_err() {
        return;
    }
    let event = Event::new();
    let mut start = 0;
    for round in 0..FIRST + COUNTED {
        if round == FIRST {
            start = open_handles();
        }
        // A client that sends handles and then breaks the rules.
        let (mut server, mut client) = raw_pair();
        client.send(&frame(&CLAIM, 1, &[event.value()]));
        client.send(&frame(&CLAIM, 1, &[u64::MAX]));
        client.send(b"garbage");
        assert!(server.receive(SOON).is_ok());
        assert!(matches!(server.receive(SOON), Err(ReceiveError::Handle { .. })));
        assert!(matches!(server.receive(SOON), Err(ReceiveError::Malformed(_))));
        // One that does not read: handles that were not sent are closed in its process, those that
        // were are its own, and it has as many as fit into the pipe.
        let (mut server, client) = pair();
        while server.send(&Reply::Capturing, 1, &[HandleGrant::same(event.handle())]).is_ok() {}
        drop(server);
        read_all(client);
        // One that leaves while its reply is queued, and one that the service leaves.
        let (mut server, client) = pair();
        (0..2000).for_each(|_| server.send(&Reply::Capturing, 1, &[HandleGrant::same(event.handle())]).unwrap());
        read_some(client);
        drop(server);
        // One that is not accepted.
        let name = new_name();
        let listener = listen(&name);
        assert!(ClientChannel::connect(&name, std::time::Duration::ZERO).is_err());
        drop(listener);
    }
    // One of them in each round would be a leak.
    let grown = open_handles().saturating_sub(start);
    assert!(grown < COUNTED, "{grown} handles more than {start}");
}

/// How many handles this process has: all of them have small values, which are multiples of 4.
fn open_handles() -> usize {
    let is_open = |value: &usize| {
        let mut flags = 0;
        // SAFETY: any value is allowed; a place for the result.
        unsafe { GetHandleInformation(std::ptr::without_provenance_mut(*value), &raw mut flags) != 0 }
    };
    (4..0x4_0000).step_by(4).filter(is_open).count()
}

/// Takes, and closes, all that came.
fn read_all(mut client: ClientChannel) {
    loop {
        match client.take() {
            Ok(Some(_)) => {}
            Ok(None) => assert!(wait_for(&client.events(), Some(SOON)).unwrap().is_some()),
            Err(error) => {
                assert!(matches!(error, RequestError::Gone), "{error}");
                return;
            }
        }
    }
}

/// The same for what has come by now.
fn read_some(mut client: ClientChannel) {
    while client.take().unwrap().is_some() {}
}
