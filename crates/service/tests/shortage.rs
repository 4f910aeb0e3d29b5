//! A service that may have no more descriptors.

mod common;

use common::{Client, lingering, skipped, until, within};
use nix::sys::signal::Signal;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tickwire_lab::{LabPair, Process};
use tickwire_lane::control::{ClaimKind, CountersOf, Reason, Reply, Request};
use tickwire_lane_linux::control::Channel;
use tickwire_lane_linux::sys_socket;
use tickwire_stack::addr::Endpoint;

/// Lets a process have descriptors below this number.
fn allow(process: u32, descriptors: u64) {
    let pid = libc::pid_t::try_from(process).unwrap();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: one `rlimit` each, alive for the calls.
    let done = unsafe {
        libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit);
        limit.rlim_cur = descriptors;
        libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// A service in a process of its own.
fn service() -> (LabPair, Process) {
    let pair = LabPair::new().unwrap();
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/service");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", pair.a.namespace()]).arg(program).arg(pair.a.socket()).arg("eth0");
    let service = Process::spawn(command).unwrap();
    until("the service answers", || Channel::connect(&pair.a.socket()).is_ok());
    (pair, service)
}

/// Stops the service's process until it is told to continue.
fn stop(service: &Process) {
    service.signal(Signal::SIGSTOP).unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", service.id())).unwrap();
    until("the service stands still", || state().contains(") T "));
}

/// Whether the service has a lane.
fn has_lane(client: &mut Client) -> bool {
    match client.request(&Request::ListLanes { after: 0 }, &[]).0 {
        Reply::LaneInfo { info, .. } => info.lane != 0,
        _ => false,
    }
}

/// The number of the descriptor that a process keeps in reserve.
fn reserve(process: u32) -> u64 {
    let list = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().map(Result::unwrap);
    let null = list.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file == Path::new("/dev/null")));
    null.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().unwrap()
}

#[test]
fn a_lane_that_cannot_be_handed_over_is_none() {
    if skipped() {
        return;
    }
    let (pair, service) = service();
    let mut client = Client::at(&pair.a.socket());
    assert!(!has_lane(&mut client), "it is inside");
    let mut first = reserve(service.id()) + 1;
    // From none at all to enough, past each at which something else fails.
    loop {
        allow(service.id(), first);
        match client.try_hello() {
            Err(reason) => assert_eq!(reason, Reason::ServiceError),
            Ok(()) => break,
        }
        assert!(!has_lane(&mut client), "at a limit of {first}");
        first += 1;
    }
    assert!(has_lane(&mut client));
}

#[test]
fn without_descriptors_programs_are_shown_out_and_those_inside_are_served() {
    if skipped() {
        return;
    }
    let (pair, service) = service();
    let mut inside = Client::at(&pair.a.socket());
    let lane = inside.hello().unwrap();
    let sockets: Vec<UdpSocket> =
        within(&pair.a, || [7000, 7001].map(|port| UdpSocket::bind(("0.0.0.0", port)).unwrap()).into());
    inside.claim_bound(&sockets[0]).unwrap();
    // Some numbers below it may be free.
    allow(service.id(), reserve(service.id()) + 1);
    let mut visitors: Vec<Client> = Vec::new();
    while visitors.iter().filter(|visitor| visitor.is_closed()).count() < 8 {
        assert!(visitors.len() < 100, "clients that cannot be kept are told: {}", service.stderr());
        let mut visitor = Client::at(&pair.a.socket());
        let _ = visitor.try_request(&Request::ListInterfaces { after: 0 }, &[]);
        visitors.push(visitor);
    }
    assert_eq!(
        inside.claim_bound(&sockets[1]),
        Err(Reason::ServiceError),
        "its socket does not arrive: {}",
        service.stderr()
    );
    assert_eq!(inside.counters(CountersOf::Lane, lane.lane)[4..], [0; 8], "it is served");
    allow(service.id(), 4096);
    Client::at(&pair.a.socket()).hello().unwrap();
    inside.claim_bound(&sockets[1]).unwrap();
    let log = service.stderr();
    assert_eq!(log.matches("connections cannot be kept").count(), 1, "{log}");
}

#[test]
fn requests_without_room_keep_no_client_waiting() {
    if skipped() {
        return;
    }
    let (pair, service) = service();
    let _listener = within(&pair.b, || TcpListener::bind((pair.b_v4(), 80)).unwrap());
    let mut inside = Client::at(&pair.a.socket()).entered();
    let bad = Client::at(&pair.a.socket()).entered();
    let socket = lingering(&pair);
    allow(service.id(), reserve(service.id()) + 1);
    let claim = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::default() };
    stop(&service);
    // The kernel closes within the receiving call what there is no room for, and the process that
    // closes this last blocks.
    bad.channel().send(&claim, 1, &[socket.as_fd(); 4]).unwrap();
    drop(socket);
    service.signal(Signal::SIGCONT).unwrap();
    let asked = Instant::now();
    inside.counters(CountersOf::Host, 0);
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[test]
fn a_refused_client_passes_nothing() {
    if skipped() {
        return;
    }
    let (pair, service) = service();
    stop(&service);
    let mut visitor = Client::at(&pair.a.socket());
    let socket = within(&pair.a, || UdpSocket::bind("0.0.0.0:7000").unwrap());
    let claim = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::default() };
    if sys_socket::takes_descriptors(visitor.channel().as_fd()).is_err() {
        eprintln!("skipped: before Linux 6.16 any client may");
        return;
    }
    let error = visitor.channel().send(&claim, 1, &[socket.as_fd()]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    service.signal(Signal::SIGCONT).unwrap();
    visitor.hello().unwrap();
    visitor.claim_bound(&socket).unwrap();
}
