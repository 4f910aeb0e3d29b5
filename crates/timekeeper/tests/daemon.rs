//! The daemon, and a server that gives the host's own time, over loopback.

mod common;

use common::Ending;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tickclock::{Clock, Nanos, Status};
use tickwire_ntp::{LeapIndicator, Mode, NtpPacket, Short, Stamp};
use tickwire_timekeeper::config::PolledServer;
use tickwire_timekeeper::{Daemon, StartError, TimekeeperConfig};

fn unix() -> Nanos {
    Nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64)
}

/// Answers until `end` is set, with what `change` makes of an honest reply.
fn serve(server: &UdpSocket, end: &AtomicBool, change: impl Fn(&mut NtpPacket)) {
    server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut bytes = [0; 200];
    while !end.load(Ordering::Relaxed) {
        let Ok((length, client)) = server.recv_from(&mut bytes) else { continue };
        let received = Stamp::from_unix(unix());
        let (request, _) = NtpPacket::parse(&bytes[..length]).unwrap();
        let mut answer = NtpPacket {
            mode: Mode::Server,
            stratum: 1,
            root_dispersion: Short(1),
            reference_id: u32::from_be_bytes(*b"TEST"),
            origin_timestamp: request.transmit_timestamp,
            receive_timestamp: received,
            transmit_timestamp: Stamp::from_unix(unix()),
            ..request
        };
        change(&mut answer);
        server.send_to(&answer.to_bytes(), client).unwrap();
    }
}

/// Runs a daemon against one server until `seen` returns `true`.
fn with_daemon(change: impl Fn(&mut NtpPacket) + Send + Sync, seen: impl Fn(&Clock, &Path) -> bool) -> Clock {
    daemon_in(tempfile::tempdir().unwrap().path(), change, seen)
}

/// The same, with the page in this directory.
fn daemon_in(
    directory: &Path,
    change: impl Fn(&mut NtpPacket) + Send + Sync,
    seen: impl Fn(&Clock, &Path) -> bool,
) -> Clock {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let page = directory.join("clock");
    let servers = vec![PolledServer::named(&server.local_addr().unwrap().to_string()).unwrap()];
    // One record for the first of several runs.
    let record = Some(directory.join("record")).filter(|record| !record.exists());
    let config = TimekeeperConfig { servers, poll: 0.05, page: page.clone(), record, ..TimekeeperConfig::default() };
    let mut daemon = Daemon::start(&config).unwrap();
    let clock = Clock::open(&page).unwrap();
    let (stop, stopper) = common::stop();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&server, &end, &change));
        scope.spawn(|| daemon.run(common::signal(&stop)).unwrap());
        // Also when a test fails: the scope waits for the threads.
        let _ending = Ending(&end, stopper);
        let begin = Instant::now();
        while !seen(&clock, &page) && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    clock
}

#[test]
fn truth_lies_within_the_bound_from_the_first_exchange_on() {
    let clock = with_daemon(
        |_| (),
        |clock, _| {
            let before = unix();
            let now = clock.now();
            let after = unix();
            if now.bound == u64::MAX {
                return false;
            }
            let (earliest, latest) = now.interval();
            assert!(earliest <= after && before <= latest, "{earliest:?} {before:?} {after:?} {latest:?}");
            // The server says that it may be 15 us off; the rest is loopback.
            now.error < 20_000
        },
    );
    let root = clock.parameters().root;
    assert_eq!((root.stratum, root.reference), (1, u32::from_be_bytes([127, 0, 0, 1])), "the server it follows");
    assert!((1..1_000_000).contains(&root.delay), "{root:?}: the round trip to it");
    let now = clock.now();
    assert!(now.status.contains(Status::SYNCHRONISED), "{now:?}");
    assert!(now.error < 1_000_000, "{now:?}");
}

#[test]
fn a_server_that_is_not_synchronised_moves_no_clock() {
    let begin = Instant::now();
    let clock = with_daemon(
        |answer| answer.leap = LeapIndicator::Unknown,
        |clock, _| clock.now().bound != u64::MAX || begin.elapsed() > Duration::from_secs(1),
    );
    assert!(!clock.now().status.contains(Status::SYNCHRONISED));
}

#[test]
fn no_server_is_an_error_that_says_what_to_do() {
    let error = Daemon::start(&TimekeeperConfig::default()).unwrap_err();
    assert!(matches!(error, StartError::NoServer) && error.to_string().contains("--server"), "{error}");
}

#[test]
fn the_daemon_tells_how_it_is() {
    let clock = with_daemon(
        |_| (),
        |clock, page| {
            if clock.now().bound == u64::MAX {
                return false;
            }
            let report = tickwire_timekeeper::ask(page).unwrap();
            let source = &report.sources[0];
            assert_eq!((source.standing.as_str(), source.stratum), ("followed", Some(1)));
            assert!(source.used > 0 && source.reach != 0, "{source:?}");
            assert!(report.bound_ns.is_some() && report.status.contains(&"synchronised".to_owned()), "{report:?}");
            // The kernel's timestamps begin some time after the first socket has requested them.
            source.stamps.as_deref() == Some(if cfg!(windows) { "program" } else { "kernel" })
        },
    );
    assert!(clock.now().status.contains(Status::SYNCHRONISED));
}

#[test]
fn a_server_that_is_named_twice_has_one_vote() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let names = ["127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1"];
    let servers = names.map(|host| PolledServer { port, ..PolledServer::named(host).unwrap() }).into();
    let mut daemon =
        Daemon::start(&TimekeeperConfig { servers, poll: 0.05, page: page.clone(), ..TimekeeperConfig::default() })
            .unwrap();
    let (stop, stopper) = common::stop();
    let end = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| serve(&server, &end, |_| ()));
        scope.spawn(|| daemon.run(common::signal(&stop)).unwrap());
        let _ending = Ending(&end, stopper);
        let begin = Instant::now();
        loop {
            let report = tickwire_timekeeper::ask(&page).unwrap();
            if report.sources[0].used > 4 || begin.elapsed() > Duration::from_secs(20) {
                return report;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let standings: Vec<_> = report.sources.iter().map(|source| (source.standing.as_str(), source.used > 0)).collect();
    assert_eq!(standings, [("followed", true), ("duplicate", false), ("duplicate", false)], "{report:?}");
}

/// Makes a server unusable.
fn unsynchronised(answer: &mut NtpPacket) {
    answer.leap = LeapIndicator::Unknown;
}

#[test]
fn a_server_without_usable_answers_is_silent_and_none_is_followed() {
    let (enough, told) = (AtomicBool::new(false), std::cell::RefCell::new(None));
    with_daemon(
        |answer| {
            if enough.load(Ordering::Relaxed) {
                unsynchronised(answer);
            }
        },
        |clock, page| {
            if clock.now().bound == u64::MAX {
                return false;
            }
            enough.store(true, Ordering::Relaxed);
            let report = tickwire_timekeeper::ask(page).unwrap();
            // The two may change at different moments: wait for both.
            let silent = report.sources[0].standing == "silent" && report.status.contains(&"holdover".to_owned());
            told.replace(Some(report));
            silent
        },
    );
    let report = told.take().unwrap();
    assert!(report.sources[0].standing == "silent" && report.sources[0].reach != 0, "it answers: {report:?}");
    assert!(report.status.contains(&"holdover".to_owned()) && report.bound_ns.is_some(), "{report:?}");
}

/// The rate error is below that of any quartz.
fn knows_the_period(clock: &Clock, _: &Path) -> bool {
    clock.now().bound != u64::MAX && clock.parameters().growth < (50e-6 * 4_294_967_296.0) as u32
}

#[test]
fn after_a_restart_the_time_is_known_at_once_and_the_period_without_learning() {
    // Without a boot's identifier, as under Wine, each start is cold.
    if tickclock::boot_id().is_empty() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let before = daemon_in(directory.path(), |_| (), knows_the_period);
    let stamp = before.counter();
    let state = std::fs::read_to_string(directory.path().join("clock.state")).unwrap();
    let known: f64 = state.lines().find_map(|line| line.strip_prefix("period_ns = ")).unwrap().parse().unwrap();
    daemon_in(directory.path(), unsynchronised, |clock, page| {
        let (now, unix) = (clock.now(), unix());
        let (earliest, latest) = now.interval();
        assert!(now.status.contains(Status::SYNCHRONISED), "the page keeps its time: {now:?}");
        assert!(earliest <= unix && unix.since(latest) < 1_000_000, "{earliest:?} {unix:?} {latest:?}");
        let report = tickwire_timekeeper::ask(page).unwrap();
        assert_eq!((report.nominal_period_ns, report.disruptions), (known, 0));
        report.sources[0].refused.values().sum::<u64>() > 2
    });
    let after = daemon_in(directory.path(), |_| (), knows_the_period);
    assert_eq!(before.parameters(), after.parameters(), "it is the same page");
    assert!(after.at(stamp).is_known(), "the counter has been watched all the time");
    std::fs::remove_file(directory.path().join("clock.state")).unwrap();
    let cold =
        daemon_in(directory.path(), |_| (), |clock, _| clock.now().is_known() && clock.parameters().disruptions == 1);
    assert!(!cold.at(stamp).is_known() && cold.at(cold.counter()).is_known(), "it may have broken");
}

#[test]
fn a_damaged_state_makes_a_cold_start_and_moves_no_clock() {
    let directory = tempfile::tempdir().unwrap();
    daemon_in(directory.path(), |_| (), knows_the_period);
    std::fs::write(directory.path().join("clock.state"), "period_ns = 1e300\n").unwrap();
    let clock = daemon_in(directory.path(), unsynchronised, |clock, page| {
        // It is unknown whether the counter has broken meanwhile.
        assert!(clock.now().bound == u64::MAX || clock.parameters().disruptions == 0, "{:?}", clock.now());
        tickwire_timekeeper::ask(page).unwrap().sources[0].refused.values().sum::<u64>() > 2
    });
    assert_eq!((clock.now().bound, clock.parameters().disruptions), (u64::MAX, 1));
}

#[test]
fn a_record_of_a_run_replays_bit_for_bit() {
    let replayed = std::cell::RefCell::new(None);
    with_daemon(
        |_| (),
        |_, page| {
            // The daemon still writes: at worst the file ends within a line.
            let now = tickwire_timekeeper::record::replay(&page.with_file_name("record"), |_| ()).ok();
            let enough = now.as_ref().is_some_and(|now| now.used >= 8);
            replayed.replace(now);
            enough
        },
    );
    let replayed = replayed.take().unwrap();
    assert!(replayed.used >= 8 && replayed.pages >= 7, "{replayed:?}");
    assert_eq!(replayed.different, 0, "{replayed:?}");
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let nowhere = Some("/nonexistent/file".into());
    let good = TimekeeperConfig {
        servers: vec![PolledServer::named("127.0.0.1:9").unwrap()],
        page: directory.path().join("clock"),
        ..TimekeeperConfig::default()
    };
    for config in [
        TimekeeperConfig { servers: Vec::new(), ..good.clone() },
        TimekeeperConfig { metrics: Some(taken.local_addr().unwrap()), ..good.clone() },
        TimekeeperConfig { leap_seconds: nowhere.clone(), ..good.clone() },
        TimekeeperConfig { record: nowhere, ..good },
    ] {
        let error = Daemon::start(&config).unwrap_err();
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(left.is_empty(), "{error}: {left:?}");
    }
}

#[test]
fn a_record_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    std::fs::write(&record, "precious").unwrap();
    let config = TimekeeperConfig {
        servers: vec![PolledServer::named("127.0.0.1:9").unwrap()],
        page: directory.path().join("clock"),
        record: Some(record.clone()),
        ..TimekeeperConfig::default()
    };
    let error = Daemon::start(&config).unwrap_err();
    assert!(matches!(error, StartError::Record(..)), "{error}");
    assert_eq!(std::fs::read(record).unwrap(), b"precious");
}
