//! What servers, and forgers of their messages, may send: none of it moves the clock, and each is
//! counted under a name of its own.

mod common;

use common::Ending;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tickclock::{Clock, Nanos, Status};
use tickwire_ntp::{Kiss, LeapIndicator, Mode, NtpPacket, Short, Stamp};
use tickwire_timekeeper::config::PolledServer;
use tickwire_timekeeper::{Daemon, Report, TimekeeperConfig};

fn unix() -> Nanos {
    Nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64)
}

/// What an honest server answers.
fn honest(request: &NtpPacket) -> NtpPacket {
    let now = Stamp::from_unix(unix());
    NtpPacket {
        mode: Mode::Server,
        stratum: 1,
        leap: LeapIndicator::None,
        root_dispersion: Short(1),
        reference_id: u32::from_be_bytes(*b"TEST"),
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: now,
        transmit_timestamp: now,
        ..*request
    }
}

/// Moves the timestamps so many seconds ahead.
fn ahead(mut packet: NtpPacket, seconds: i64) -> NtpPacket {
    let shift = |stamp: Stamp| Stamp::from_unix(stamp.to_unix(unix()).plus(seconds * 1_000_000_000));
    (packet.receive_timestamp, packet.transmit_timestamp) =
        (shift(packet.receive_timestamp), shift(packet.transmit_timestamp));
    packet
}

/// The messages that a server sends for a request.
type Answers<'a> = &'a (dyn Fn(&NtpPacket) -> Vec<Vec<u8>> + Sync);
/// The message that is sent from another port than the server's.
type Elsewhere<'a> = Option<&'a (dyn Fn(&NtpPacket) -> Vec<u8> + Sync)>;

/// Runs a daemon against these servers, each of which answers a request with some messages, until
/// `seen` has seen enough. Meanwhile the true time lies within the bound.
fn with_daemon(answers: &[Answers<'_>], wrong_port: Elsewhere<'_>, seen: impl Fn(&Report, &Clock) -> bool) {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let sockets: Vec<_> = answers.iter().map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let servers = sockets.iter().map(|socket| PolledServer::named(&socket.local_addr().unwrap().to_string()).unwrap());
    let config =
        TimekeeperConfig { servers: servers.collect(), poll: 0.05, page: page.clone(), ..TimekeeperConfig::default() };
    let mut daemon = Daemon::start(&config).unwrap();
    let (stop, stopper) = common::stop();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (socket, answer) in sockets.iter().zip(answers) {
            scope.spawn(|| serve(socket, &end, answer, wrong_port));
        }
        scope.spawn(|| daemon.run(common::signal(&stop)).unwrap());
        let _ending = Ending(&end, stopper);
        watch(&page, seen);
    });
}

fn watch(page: &Path, seen: impl Fn(&Report, &Clock) -> bool) {
    let clock = Clock::open(page).unwrap();
    let begin = Instant::now();
    let mut report = tickwire_timekeeper::ask(page).unwrap();
    while !seen(&report, &clock) {
        assert!(begin.elapsed() < Duration::from_secs(30), "it takes too long: {report:#?}");
        for _ in 0..20 {
            let before = unix();
            let now = clock.now();
            let after = unix();
            let (earliest, latest) = now.interval();
            assert!(earliest <= after && before <= latest, "{earliest:?} {before:?} {after:?} {latest:?}: {report:#?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        report = tickwire_timekeeper::ask(page).unwrap();
    }
}

fn serve(server: &UdpSocket, end: &AtomicBool, answer: Answers<'_>, wrong_port: Elsewhere<'_>) {
    server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut bytes = [0; 200];
    while !end.load(Ordering::Relaxed) {
        let Ok((length, client)) = server.recv_from(&mut bytes) else { continue };
        let (request, _) = NtpPacket::parse(&bytes[..length]).unwrap();
        let send = |socket: &UdpSocket, message: &[u8], to: SocketAddr| {
            let _ = socket.send_to(message, to);
        };
        if let Some(wrong) = wrong_port {
            send(&elsewhere, &wrong(&request), client);
        }
        answer(&request).iter().for_each(|message| send(server, message, client));
    }
}

fn refused(report: &Report, why: &str) -> u64 {
    report.sources[0].refused.iter().filter(|(reason, _)| reason.contains(why)).map(|(_, count)| count).sum()
}

/// The message that is sent before each honest reply.
type Trick = fn(&NtpPacket, &VecDeque<NtpPacket>) -> Vec<u8>;

/// Each with the reason under which it is counted.
const BESIDE: [(&str, Trick); 10] = [
    ("garbage", |_, _| Vec::new()),
    ("garbage", |_, _| vec![0xff; 30]),
    ("garbage", |_, _| vec![0; 47]),
    ("answers nothing that was asked", |_, _| vec![0x24; 200]),
    ("answers nothing that was asked", |request, _| forged(request, Stamp(0)).to_bytes().to_vec()),
    ("answers nothing that was asked", |request, _| {
        forged(request, Stamp(request.transmit_timestamp.0 ^ 1)).to_bytes().to_vec()
    }),
    ("answers nothing that was asked", |request, _| {
        let kiss = NtpPacket { stratum: 0, reference_id: Kiss::Deny.to_reference(), ..forged(request, Stamp(7)) };
        kiss.to_bytes().to_vec()
    }),
    ("answers nothing that was asked", |_, before| before.back().map_or(Vec::new(), |old| old.to_bytes().to_vec())),
    ("answers nothing that was asked", |_, before| before.front().map_or(Vec::new(), |old| old.to_bytes().to_vec())),
    // The request comes back as it was sent.
    ("not from a server", |request, _| {
        NtpPacket { origin_timestamp: request.transmit_timestamp, ..*request }.to_bytes().to_vec()
    }),
];

/// A forged reply with this origin timestamp, 5 s ahead.
fn forged(request: &NtpPacket, origin: Stamp) -> NtpPacket {
    ahead(NtpPacket { origin_timestamp: origin, ..honest(request) }, 5)
}

#[test]
fn what_is_forged_replayed_or_garbage_is_counted_and_moves_no_clock() {
    let trick = AtomicUsize::new(0);
    let before = Mutex::new(VecDeque::new());
    let answer = |request: &NtpPacket| {
        let mut before = before.lock().unwrap();
        let honest = honest(request);
        let (_, make) = BESIDE[trick.load(Ordering::Relaxed)];
        let beside = make(request, &before);
        // Kept for replays: of the last reply, and of one of long ago.
        before.push_back(ahead(honest, 0));
        if before.len() > 40 {
            before.pop_front();
        }
        // Only the honest reply counts; its duplicate changes nothing either.
        vec![beside, honest.to_bytes().to_vec(), honest.to_bytes().to_vec()]
    };
    let counted = Mutex::new((0, 0));
    with_daemon(
        &[&answer],
        Some(&|request| forged(request, request.transmit_timestamp).to_bytes().to_vec()),
        |report, clock| {
            let number = trick.load(Ordering::Relaxed);
            let mut counted = counted.lock().unwrap();
            let (why, _) = BESIDE[number];
            let (count, used) = (refused(report, why), report.sources[0].used);
            if count < counted.0 + 3 || used < counted.1 + 3 {
                return false;
            }
            assert!(
                clock.now().status.contains(Status::SYNCHRONISED) && !clock.now().status.contains(Status::HOLDOVER)
            );
            assert_eq!((report.sources[0].standing.as_str(), report.disruptions), ("followed", 0), "{number}");
            *counted = BESIDE.get(number + 1).map_or((0, 0), |(why, _)| (refused(report, why), used));
            trick.store((number + 1).min(BESIDE.len() - 1), Ordering::Relaxed);
            number + 1 == BESIDE.len()
        },
    );
}

type Change = fn(NtpPacket) -> NtpPacket;

/// Invalid states of a server, and why it is not used.
const INSANE: [(&str, Change); 8] = [
    ("the server is not synchronised", |answer| NtpPacket { leap: LeapIndicator::Unknown, ..answer }),
    ("the server is not synchronised", |answer| NtpPacket { stratum: 16, ..answer }),
    ("the server is not synchronised", |answer| NtpPacket { stratum: 255, ..answer }),
    ("the server says \"XXXX\"", |answer| NtpPacket {
        stratum: 0,
        reference_id: u32::from_be_bytes(*b"XXXX"),
        ..answer
    }),
    ("stamps are missing", |answer| NtpPacket { receive_timestamp: Stamp(0), ..answer }),
    ("stamps are missing", |answer| NtpPacket { transmit_timestamp: Stamp(0), ..answer }),
    // It has answered before it was asked, and it has kept the request for an hour.
    ("stamps out of order", |answer| NtpPacket { receive_timestamp: ahead(answer, 3).receive_timestamp, ..answer }),
    ("stamps out of order", |answer| NtpPacket { receive_timestamp: ahead(answer, -3600).receive_timestamp, ..answer }),
];

#[test]
fn a_server_out_of_its_mind_is_not_believed_and_the_reason_is_told() {
    let kind = AtomicUsize::new(0);
    let sane = AtomicBool::new(true);
    let answer = |request: &NtpPacket| {
        let honest = honest(request);
        let (_, change) = INSANE[kind.load(Ordering::Relaxed)];
        vec![if sane.load(Ordering::Relaxed) { honest } else { change(honest) }.to_bytes().to_vec()]
    };
    let counted = AtomicUsize::new(0);
    with_daemon(&[&answer], None, |report, clock| {
        if sane.load(Ordering::Relaxed) {
            // The time is known first, so that there is something to move.
            sane.store(!clock.now().is_known() || report.sources[0].used < 8, Ordering::Relaxed);
            return false;
        }
        let number = kind.load(Ordering::Relaxed);
        let (why, _) = INSANE[number];
        if refused(report, why) < counted.load(Ordering::Relaxed) as u64 + 3 {
            return false;
        }
        assert!(clock.now().is_known() && report.disruptions == 0, "{report:?}");
        let next = INSANE.get(number + 1).map_or(0, |(why, _)| refused(report, why));
        counted.store(next as usize, Ordering::Relaxed);
        kind.store((number + 1).min(INSANE.len() - 1), Ordering::Relaxed);
        number + 1 == INSANE.len()
    });
}

#[test]
fn a_server_whose_own_error_is_huge_makes_the_bound_huge() {
    let answer = |request: &NtpPacket| {
        let wide = NtpPacket { root_dispersion: Short(3 << 16), root_delay: Short(2 << 16), ..honest(request) };
        // It is as wrong as it says.
        vec![ahead(wide, 3).to_bytes().to_vec()]
    };
    with_daemon(&[&answer], None, |report, clock| {
        let now = clock.now();
        now.is_known() && now.bound >= 4_000_000_000 && report.sources[0].used > 4
    });
}

#[test]
fn a_liar_among_three_is_outvoted_by_name() {
    for seconds in [5, -5, 86_400 * 365] {
        // Nothing contradicts the very first reply; so the liar comes later.
        let begun = AtomicBool::new(false);
        let liar = |request: &NtpPacket| {
            let lie = begun.load(Ordering::Relaxed).then(|| ahead(honest(request), seconds).to_bytes().to_vec());
            lie.into_iter().collect()
        };
        let good = |request: &NtpPacket| vec![honest(request).to_bytes().to_vec()];
        with_daemon(&[&good, &good, &liar], None, |report, _| {
            begun.store(report.sources[..2].iter().all(|source| source.used > 0), Ordering::Relaxed);
            let standings: Vec<_> = report.sources.iter().map(|source| source.standing.as_str()).collect();
            standings[2] == "outvoted" && standings[..2].contains(&"followed") && report.sources[2].used > 4
        });
    }
}

#[test]
fn a_server_that_limits_the_rate_is_not_silent_meanwhile() {
    let last = Mutex::new(None::<Instant>);
    // It allows a request every 3 s; the usual timeout with a poll of 50 ms ends after 2.4 s.
    let answer = |request: &NtpPacket| {
        let mut last = last.lock().unwrap();
        if last.is_some_and(|last| last.elapsed() < Duration::from_secs(3)) {
            let kiss = NtpPacket { stratum: 0, reference_id: Kiss::Rate.to_reference(), ..honest(request) };
            return vec![kiss.to_bytes().to_vec()];
        }
        *last = Some(Instant::now());
        vec![honest(request).to_bytes().to_vec()]
    };
    with_daemon(&[&answer], None, |report, clock| {
        assert!(!clock.now().status.contains(Status::HOLDOVER), "{report:?}");
        // By the report alone: the clock is read later, and may have become known meanwhile.
        assert!(report.bound_ns.is_none() || report.sources[0].standing == "followed", "{report:?}");
        report.sources[0].poll_s > 3.0 && report.sources[0].used >= 3
    });
}

#[test]
fn a_server_that_cannot_be_reached_is_silent_and_nothing_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    // No socket is bound there any more: the kernel reports that.
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let servers = vec![PolledServer::named(&address).unwrap()];
    let mut daemon =
        Daemon::start(&TimekeeperConfig { servers, poll: 0.05, page: page.clone(), ..TimekeeperConfig::default() })
            .unwrap();
    let (stop, stopper) = common::stop();
    std::thread::scope(|scope| {
        scope.spawn(|| daemon.run(common::signal(&stop)).unwrap());
        let end = AtomicBool::new(false);
        let _ending = Ending(&end, stopper);
        std::thread::sleep(Duration::from_secs(1));
        let report = tickwire_timekeeper::ask(&page).unwrap();
        let source = &report.sources[0];
        assert_eq!((source.standing.as_str(), source.reach, source.used, &source.name), ("silent", 0, 0, &address));
        assert!(report.bound_ns.is_none() && report.status[0] == "unknown", "{report:?}");
    });
}

#[test]
fn a_silent_server_with_a_name_is_asked_no_more_often_than_one_with_an_address() {
    let directory = tempfile::tempdir().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("localhost:{}", socket.local_addr().unwrap().port());
    let servers = vec![PolledServer::named(&name).unwrap()];
    let config =
        TimekeeperConfig { servers, poll: 1.5, page: directory.path().join("clock"), ..TimekeeperConfig::default() };
    let mut daemon = Daemon::start(&config).unwrap();
    let (stop, stopper) = common::stop();
    let requests = std::thread::scope(|scope| {
        scope.spawn(|| daemon.run(common::signal(&stop)).unwrap());
        let until = Instant::now() + Duration::from_secs(6);
        let mut requests = 0;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            socket.set_read_timeout(Some(left)).unwrap();
            requests += u32::from(socket.recv(&mut [0; 200]).is_ok());
        }
        drop(stopper);
        requests
    });
    // The burst of eight, then one in 1.5 s; a new lookup is no reason for another burst.
    assert!((8..=12).contains(&requests), "{requests}");
}
