use super::*;
use crate::config::{PolledServer, TimekeeperConfig};
use crate::report::SourceReport;
use tickclock::{Clock, Count};
use tickwire_clock::ensemble::Standing;

/// A daemon whose server answers nothing, and a reader of its page.
fn daemon() -> (tempfile::TempDir, Daemon, Clock) {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let servers = vec![PolledServer::named("127.0.0.1:9").unwrap()];
    let daemon =
        Daemon::start(&TimekeeperConfig { servers, page: page.clone(), ..TimekeeperConfig::default() }).unwrap();
    let clock = Clock::open(page).unwrap();
    (directory, daemon, clock)
}

/// The daemon checks the counter in each iteration of its loop, at least once a second: so
/// within one poll, of whatever length.
#[test]
fn a_suspend_and_a_jump_of_the_counter_are_published_at_the_next_look() {
    let (_directory, mut daemon, clock) = daemon();
    daemon.look();
    assert_eq!(clock.parameters().disruptions, 0, "nothing has happened");
    let minute = 60 * SECOND;
    let suspended = |look: &mut Look| look.slept -= minute;
    // A migrated virtual machine: the counter is ahead, or behind.
    let ahead = |look: &mut Look| look.raw += minute;
    let behind = |look: &mut Look| look.raw -= minute;
    let tricks: [&dyn Fn(&mut Look); 3] = [&suspended, &ahead, &behind];
    for (times, trick) in (1..).zip(tricks) {
        trick(&mut daemon.looked);
        let before = clock.counter();
        daemon.look();
        let (now, parameters) = (clock.now(), clock.parameters());
        assert!(now.status.contains(Status::DISRUPTED) && !now.is_known(), "{now:?}");
        assert_eq!((now.disruptions, parameters.disruptions), (times, times));
        assert!(before < parameters.since && parameters.since < clock.counter(), "{parameters:?}");
        daemon.look();
        assert_eq!(clock.parameters().disruptions, times, "and once only");
    }
}

/// The directory's inotify events show the order: a page with content stays, and is closed when
/// its lock is released.
#[cfg(unix)]
#[test]
fn the_socket_of_a_daemon_that_ends_goes_before_its_lock() {
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    let (directory, daemon, _clock) = daemon();
    daemon.writer.publish(&Parameters { at: Count(1), ..Parameters::UNKNOWN });
    let seen = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).unwrap();
    seen.add_watch(directory.path(), AddWatchFlags::IN_DELETE | AddWatchFlags::IN_CLOSE_WRITE).unwrap();
    drop(daemon);
    let names: Vec<_> = seen.read_events().unwrap().into_iter().filter_map(|event| event.name).collect();
    assert_eq!(names, ["clock.sock", "clock"]);
}

/// A daemon and the server that it has just polled, which has not answered yet.
fn asking() -> (tempfile::TempDir, Daemon, std::net::UdpSocket) {
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let servers = vec![PolledServer::named(&server.local_addr().unwrap().to_string()).unwrap()];
    let page = directory.path().join("clock");
    let mut daemon = Daemon::start(&TimekeeperConfig { servers, page, ..TimekeeperConfig::default() }).unwrap();
    // Lookup, open, request.
    for _ in 0..3 {
        daemon.ask(monotonic());
    }
    (directory, daemon, server)
}

/// One server that two sources are configured for: by its address, and by a name that also has
/// other addresses.
#[test]
fn a_name_that_leads_to_anothers_server_has_its_other_addresses_tried() {
    let server = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (shared, dead, alone) = (server(), server(), server());
    let address = |server: &std::net::UdpSocket| server.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let servers = [&address(&shared), "time.example"].map(|name| PolledServer::named(name).unwrap()).to_vec();
    let page = directory.path().join("clock");
    let mut daemon = Daemon::start(&TimekeeperConfig { servers, page, ..TimekeeperConfig::default() }).unwrap();
    let mut now = monotonic();
    for _ in 0..2 {
        daemon.sources[0].run(now, &mut daemon.cards, &|_| None);
    }
    // The first address is silent and the second is shared, so the third is polled.
    daemon.sources[1].tell(&[&dead, &shared, &alone]);
    daemon.ask(now);
    let polled = |daemon: &Daemon| daemon.sources[1].report(0).address;
    assert_eq!(polled(&daemon), Some(address(&dead)));
    let begin = now;
    while polled(&daemon) == Some(address(&dead)) && now < begin + 60 * SECOND {
        now += SECOND / 5;
        daemon.ask(now);
    }
    assert_eq!((polled(&daemon), daemon.sources[1].is_duplicate()), (Some(address(&alone)), false));
    // Without a third address the source is set aside. The dead address, which has had one
    // turn, gets further turns as rarely as if it were the only one.
    for lookup_interval in [128, 256, 512] {
        daemon.sources[1].tell(&[&dead, &shared]);
        let found = now;
        while daemon.sources[1].next_due().is_none_or(|due| now >= due || !daemon.sources[1].is_duplicate()) {
            daemon.ask(now);
            now += SECOND / 5;
        }
        let due = daemon.sources[1].next_due().unwrap();
        assert_eq!((polled(&daemon), (due - found) / SECOND), (None, lookup_interval));
        now = due;
    }
}

/// The server answers the request, and the reply is in the socket.
fn answer(daemon: &Daemon, server: &std::net::UdpSocket) {
    answer_by(daemon, server, 1, 1);
}

/// The same with this stratum and reference.
fn answer_by(daemon: &Daemon, server: &std::net::UdpSocket, stratum: u8, reference_id: u32) {
    use tickwire_ntp::{Mode, NtpPacket, Stamp};
    let mut bytes = [0; 48];
    let (_, client) = server.recv_from(&mut bytes).unwrap();
    let (request, _) = NtpPacket::parse(&bytes).unwrap();
    let now = Stamp::from_unix(realtime());
    let answer = NtpPacket {
        mode: Mode::Server,
        stratum,
        reference_id,
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: now,
        transmit_timestamp: now,
        ..request
    };
    server.send_to(&answer.to_bytes(), client).unwrap();
    daemon.sources[0].await_reply();
}

/// The statistics of the daemon's server.
fn statistics(daemon: &Daemon) -> SourceReport {
    daemon.sources[0].report(monotonic())
}

#[test]
fn an_exchange_that_began_before_the_counter_broke_is_not_believed() {
    let (_directory, mut daemon, server) = asking();
    answer(&daemon, &server);
    daemon.receive();
    assert_eq!((statistics(&daemon).used, daemon.ensemble.breaks()), (1, 0), "one that did not");
    // The kernel's clocks reveal the break: at the daemon's check, or only when the reply is
    // received.
    for look in [true, false] {
        let (_directory, mut daemon, server) = asking();
        daemon.looked.slept -= 60 * SECOND;
        if look {
            daemon.look();
        }
        answer(&daemon, &server);
        daemon.receive();
        assert_eq!((statistics(&daemon).used, daemon.ensemble.breaks()), (0, 1), "{look}");
        assert!(daemon.ensemble.clock(counter::read(daemon.kind)).is_none());
    }
}

#[test]
fn a_server_that_follows_this_host_has_no_say() {
    let localhost = 0x7f00_0001;
    for (stratum, reference, loops) in [(3, localhost, 1), (3, localhost + 1, 0), (1, localhost, 0)] {
        let (_directory, mut daemon, server) = asking();
        answer_by(&daemon, &server, stratum, reference);
        daemon.receive();
        let statistics = statistics(&daemon);
        let counted = statistics.refused.get("the server follows this host (loop)").copied().unwrap_or(0);
        assert_eq!((statistics.used, counted), (1 - loops, loops), "stratum {stratum}, {reference:#x}");
    }
}

#[test]
fn a_server_that_answered_until_the_counter_broke_is_not_called_silent_at_once() {
    let (_directory, mut daemon, server) = asking();
    assert_eq!(daemon.known_standing(0, monotonic()), None, "it has not had its time yet");
    answer(&daemon, &server);
    daemon.receive();
    assert_eq!(daemon.known_standing(0, monotonic()), Some(Standing::Followed));
    daemon.looked.slept -= 60 * SECOND;
    daemon.look();
    assert_eq!(daemon.known_standing(0, monotonic()), None);
    assert_eq!(daemon.known_standing(0, monotonic() + 11 * SECOND), Some(Standing::Silent));
}

#[test]
fn a_break_that_only_the_servers_show_is_one_for_the_exchanges_under_way_too() {
    let (_directory, mut daemon, server) = asking();
    // Counts from the past, as if of another counter.
    for ago in [10 * SECOND, 20 * SECOND] {
        let count = |ns: i64| Count(counter::read(daemon.kind).0 - daemon.nominal.counts(ago - ns) as u64);
        let now = realtime();
        let exchange = tickwire_clock::Exchange {
            sent: count(0),
            server_received: now.plus(50_000),
            server_sent: now.plus(60_000),
            received: count(1_000_000),
            server: tickwire_clock::ServerState { synchronised: true, stratum: 1, ..Default::default() },
            stamp_error: 0,
        };
        let announced = tickwire_clock::ensemble::leap::Announcement::None;
        let one = Measurement { exchange, announced, quality: tickwire_stamping::Quality::Program };
        assert_eq!(daemon.take(monotonic(), 0, &one), ago == 10 * SECOND);
    }
    assert_eq!(daemon.ensemble.breaks(), 1);
    answer(&daemon, &server);
    daemon.receive();
    let refused = statistics(&daemon).refused;
    assert_eq!(refused.get("answers nothing that was asked"), Some(&1), "{refused:?}");
}

#[test]
fn a_servers_stamp_is_of_the_right_era_whatever_the_systems_clock_shows() {
    use tickwire_ntp::Stamp;
    let year = |year: i64| Nanos((year - 1970) * 31_556_952 * SECOND);
    let told = |time: Nanos, clock: Nanos| Stamp::from_unix(time).to_unix(about(clock));
    for time in [2026, 2036, 2037, 2039, 2060, 2093].map(year) {
        for clock in [Nanos(0), year(2000), year(2027), time] {
            assert_eq!(told(time, clock), time, "with a clock at {clock:?}");
        }
    }
    // The turn of the era itself, with a system clock that is right, or a little off.
    let turn = Nanos(2_085_978_496 * SECOND);
    for (off, clock) in
        [(-SECOND, 1), (0, -1), (SECOND, -1), (SECOND, 1)].map(|(off, sign)| (off, turn.plus(sign * 3600 * SECOND)))
    {
        assert_eq!(told(turn.plus(off), clock), turn.plus(off));
    }
    assert_eq!(told(year(2150), year(2149)), year(2150), "later than 68 years from now the clock is needed");
}

#[test]
fn what_was_inherited_is_void_when_the_counter_breaks() {
    let (_directory, mut daemon, clock) = daemon();
    daemon.inherited = true;
    daemon.writer.publish(&Parameters {
        status: Status::SYNCHRONISED,
        bound: 5,
        ..daemon.ensemble.parameters(Count(0))
    });
    assert!(clock.now().is_known() && daemon.report().bound_ns.is_some(), "told as it is read");
    daemon.looked.slept -= 60 * SECOND;
    daemon.look();
    assert!(!clock.now().is_known() && daemon.report().bound_ns.is_none());
}
