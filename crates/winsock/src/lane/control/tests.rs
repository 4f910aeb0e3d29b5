use super::*;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tickwire_lane_windows::control::{PipeListener, ServerChannel};
use tickwire_lane_windows::event::{WakeEvent, wait_for};

/// A program's connection, and the service's end of it.
fn connected() -> (Control, ServerChannel) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!(r"\\.\pipe\tickwire-control-{}-{}", process::id(), NUMBER.fetch_add(1, SeqCst));
    let mut listener = PipeListener::new(&name, "WD").unwrap();
    let accepting = std::thread::spawn(move || {
        loop {
            wait_for(&[listener.event()], Some(TIMEOUT)).unwrap();
            if let Some(server) = listener.accept().unwrap() {
                return server;
            }
        }
    });
    let channel = ClientChannel::connect(&name, TIMEOUT).unwrap();
    let events = channel.events().map(|event| event.try_clone_to_owned().unwrap());
    let connection = Mutex::new(Connection { channel, untold: VecDeque::new() });
    (Control { connection, events }, accepting.join().unwrap())
}

#[test]
fn a_claim_whose_answer_comes_too_late_is_released() {
    let (control, mut server) = connected();
    let event = WakeEvent::new().unwrap();
    let request = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::default() };
    let asked = control.connection().channel.request(&request, &[event.as_handle()], Duration::ZERO);
    assert!(asked.is_err());
    let asked = server.receive(TIMEOUT).unwrap();
    let (claim, reason) = (Claim(7), Reason::FirewallBlocks);
    server.send(&Reply::Claimed { claim, local: Endpoint::default() }, asked.number, &[]).unwrap();
    server.send(&Push::ClaimLost { claim: Claim(8), reason }, 0, &[]).unwrap();
    let mut lost = Vec::new();
    while lost.is_empty() {
        lost = control.take_news(|_| panic!("there is no path")).unwrap();
    }
    assert_eq!(lost, [(Claim(8), reason)]);
    let told = server.receive(TIMEOUT).unwrap().request;
    assert!(matches!(told, Request::Release { parts } if parts.as_slice()[0].claim == claim), "{told:?}");
}

#[test]
fn requests_that_find_the_pipe_full_are_told_later_and_in_order() {
    let (control, mut server) = connected();
    let wanted = |n: u16| Query::to(Address::v4([10, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]]));
    let all = 0..2000;
    control.connection().untold.extend(all.clone().map(|n| Request::Resolve { query: wanted(n), choose: false }));
    assert!(!control.connection().tell(), "the service has read nothing");
    for n in all {
        let told = server.receive(TIMEOUT);
        // (What does not fit into the pipe is told when there is room, by the next call.)
        let told = told.unwrap().request;
        assert!(matches!(told, Request::Resolve { query, .. } if query == wanted(n)), "{n}: {told:?}");
        control.connection().tell();
    }
    assert!(control.connection().untold.is_empty());
}
