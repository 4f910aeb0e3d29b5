//! The daemon and servers with NTS, good and hostile, over loopback.
#![cfg(unix)]

mod authority;
#[path = "../common/mod.rs"]
mod common;
mod keys;
mod time;

use authority::Authority;
use common::Ending;
use keys::{Given, Tls, agreed, asked, end, record};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tickclock::Clock;
use tickwire_ntp::nts::records::ALPN;
use tickwire_ntp::nts::{KEY, Key};
use tickwire_ntp::{Mode, NtpPacket, Short, Stamp};
use tickwire_timekeeper::config::PolledServer;
use tickwire_timekeeper::report::{NtsReport, SourceReport};
use tickwire_timekeeper::{Daemon, Report, StartError, TimekeeperConfig, record};
use time::{Heard, Request, unix};

const HOST: &str = "127.0.0.1";
const HOUR: i64 = 3_600_000_000_000;

/// A server for keys, one for the time, and what both know.
struct World {
    directory: tempfile::TempDir,
    authority: Authority,
    listener: TcpListener,
    socket: UdpSocket,
    given: Given,
    heard: Heard,
    end: AtomicBool,
}

impl World {
    fn new() -> Self {
        let new = Self {
            directory: tempfile::tempdir().unwrap(),
            authority: Authority::new(),
            listener: TcpListener::bind((HOST, 0)).unwrap(),
            socket: UdpSocket::bind((HOST, 0)).unwrap(),
            given: Given::default(),
            heard: Heard::default(),
            end: AtomicBool::new(false),
        };
        std::fs::write(new.path("ca.pem"), new.authority.pem()).unwrap();
        new
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn server(&self) -> PolledServer {
        PolledServer {
            nts: true,
            nts_port: self.listener.local_addr().unwrap().port(),
            nts_ca: Some(self.path("ca.pem")),
            ..PolledServer::named(HOST).unwrap()
        }
    }

    fn time_port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    /// Runs a daemon with these servers until `seen` has seen enough; returns its last report.
    fn run(
        &self,
        servers: Vec<PolledServer>,
        talk: impl Fn(TcpStream) + Send + Sync,
        answers: impl FnMut(&Request) -> Vec<Vec<u8>> + Send,
        mut seen: impl FnMut(&Clock, &Report) -> bool,
    ) -> Report {
        let (page, record) = (self.path("clock"), Some(self.path("record")));
        let config =
            TimekeeperConfig { servers, poll: 0.05, page: page.clone(), record, ..TimekeeperConfig::default() };
        let mut daemon = Daemon::start(&config).unwrap();
        let clock = Clock::open(&page).unwrap();
        let (stop, stopper) = common::stop();
        std::thread::scope(|scope| {
            scope.spawn(|| keys::serve(&self.listener, &self.end, talk));
            scope.spawn(|| time::serve(&self.socket, &self.end, &self.given, &self.heard, answers));
            scope.spawn(|| daemon.run(common::signal(&stop)).unwrap());
            let _ending = Ending(&self.end, stopper);
            let begin = Instant::now();
            loop {
                let report = tickwire_timekeeper::ask(&page).unwrap();
                let now = clock.now();
                if now.bound != u64::MAX {
                    let (earliest, latest) = now.interval();
                    assert!(latest.since(earliest) < 10 * HOUR);
                    let unix = unix();
                    assert!(earliest <= unix && unix.since(latest) < 1_000_000_000, "{earliest:?} {unix:?} {latest:?}");
                }
                if seen(&clock, &report) {
                    return report;
                }
                assert!(begin.elapsed() < Duration::from_secs(40), "{report:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    }

    /// Runs a daemon against a server for keys that does something else; returns why there are no
    /// keys. The time server would serve all clients.
    fn refused(&self, talk: impl Fn(TcpStream) + Send + Sync) -> String {
        let answers = |request: &Request| vec![request.bare(0)];
        let report = self.run(vec![self.server()], talk, answers, |_, report| !nts(report, 0).failed.is_empty());
        assert_eq!((report.bound_ns, nts(&report, 0).cookies), (None, None), "{report:?}");
        let heard = [&self.heard.with, &self.heard.without].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(heard, [0, 0], "without keys no request is sent");
        nts(&report, 0).failed.keys().next().unwrap().clone()
    }

    /// The same, with a correct TLS session.
    fn refused_within(&self, talk: impl Fn(&mut Tls) + Send + Sync) -> String {
        let tls = self.authority.server(HOST, false, &[ALPN]);
        self.refused(|stream| {
            let mut tls = keys::tls(stream, &tls);
            if asked(&mut tls) {
                talk(&mut tls);
            }
        })
    }

    /// Gives keys to all clients.
    fn gives(&self) -> impl Fn(TcpStream) + Send + Sync {
        let tls = self.authority.server(HOST, false, &[ALPN]);
        move |stream| keys::give(&mut keys::tls(stream, &tls), &self.given, self.time_port())
    }

    /// An honest reply, or that of a server that has lost its keys.
    fn answer(&self, request: &Request) -> Vec<u8> {
        match &request.keys {
            Some((_, to_client)) => request.signed(0, to_client, &self.given),
            None => request.nak(),
        }
    }
}

fn nts(report: &Report, number: usize) -> &NtsReport {
    report.sources[number].nts.as_ref().unwrap()
}

fn count(source: &SourceReport, part: &str) -> u64 {
    source.refused.iter().filter(|(why, _)| why.contains(part)).map(|(_, count)| count).sum()
}

#[test]
fn the_clock_follows_a_server_that_proves_its_answers() {
    let world = World::new();
    let report = world.run(
        vec![world.server()],
        world.gives(),
        |request| vec![world.answer(request)],
        |_, report| report.sources[0].used > 20,
    );
    let source = &report.sources[0];
    let address = format!("{HOST}:{}", world.time_port());
    assert_eq!(
        (source.standing.as_str(), source.address.as_deref()),
        ("followed", Some(&*address)),
        "where it was sent"
    );
    assert_eq!(nts(&report, 0).agreed, 1, "{report:?}");
    assert!(nts(&report, 0).cookies >= Some(7), "each answer brings another: {report:?}");
    assert_eq!(world.heard.without.load(Ordering::Relaxed), 0);
    // The record holds exchanges, which replay, and nothing else.
    let text = std::fs::read_to_string(world.path("record")).unwrap();
    assert!(!text.contains("cookie") && !text.contains("key") && !text.contains("nts"), "{text}");
    let replayed = record::replay(&world.path("record"), |_| ()).unwrap();
    assert!(replayed.used > 20 && replayed.different == 0, "{replayed:?}");
}

#[test]
fn answers_that_are_forged_stripped_replayed_or_denied_move_nothing() {
    let world = World::new();
    let mut older = None;
    let thief = Key::new([66; KEY]);
    let report = world.run(
        vec![world.server()],
        world.gives(),
        |request| {
            let honest = world.answer(request);
            let older = older.get_or_insert_with(|| honest.clone()).clone();
            // An on-path attacker sees each request, and is quicker than the server.
            let mut stripped = request.bare(HOUR);
            stripped.truncate(48);
            let mut changed = honest.clone();
            changed[40] ^= 1;
            let forged = request.signed(HOUR, &thief, &world.given);
            let bare = request.bare(HOUR);
            vec![stripped, bare, forged, changed, request.replay(&older), request.nak(), honest.clone(), honest]
        },
        |_, report| report.sources[0].used > 20,
    );
    let source = &report.sources[0];
    assert_eq!(nts(&report, 0).agreed, 1, "no stranger makes us agree on keys anew: {report:?}");
    for (part, least) in [("not authenticated", 40), ("the authenticator is wrong", 40), ("(NTSN)", 20)] {
        assert!(count(source, part) >= least, "{part}: {report:?}");
    }
}

#[test]
fn a_server_that_has_lost_its_keys_is_asked_for_others() {
    let world = World::new();
    let mut lost = false;
    let mut before = 0;
    let report = world.run(
        vec![world.server()],
        world.gives(),
        |request| vec![world.answer(request)],
        |_, report| {
            if !lost && report.sources[0].used > 10 {
                world.given.lose();
                lost = true;
                before = report.sources[0].used;
            }
            nts(report, 0).agreed == 2 && report.sources[0].used > before + 20
        },
    );
    assert!(count(&report.sources[0], "(NTSN)") > 0 && nts(&report, 0).failed.is_empty(), "{report:?}");
    assert_eq!(world.heard.without.load(Ordering::Relaxed), 0, "it is not asked without meanwhile");
    assert_eq!(world.given.count(), 2);
}

#[test]
fn a_server_that_never_proves_anything_is_not_asked_for_keys_all_the_time() {
    let world = World::new();
    let mut first = None;
    let report = world.run(
        vec![world.server()],
        world.gives(),
        |request| vec![request.bare(0)],
        |_, report| {
            let first = *first.get_or_insert_with(Instant::now);
            assert!(report.bound_ns.is_none(), "{report:?}");
            nts(report, 0).agreed > 0 && first.elapsed() > Duration::from_secs(5)
        },
    );
    assert_eq!((world.given.count(), world.heard.without.load(Ordering::Relaxed)), (1, 0), "{report:?}");
    assert_eq!(world.heard.with.load(Ordering::Relaxed), 8, "a request for each cookie");
}

#[test]
fn an_untrusted_key_server_gives_no_keys() {
    let stranger = Authority::new();
    for (expired, name, who, part) in [
        (false, HOST, Some(&stranger), "no trusted authority has signed the certificate"),
        (true, HOST, None, "the certificate has expired"),
        (false, "192.0.2.1", None, "the certificate is for another name"),
    ] {
        let world = World::new();
        let tls = who.unwrap_or(&world.authority).server(name, expired, &[ALPN]);
        let why = world.refused(|stream| keys::give(&mut keys::tls(stream, &tls), &world.given, world.time_port()));
        assert!(why.contains(part), "{name} {expired}: {why}");
        assert_eq!(world.given.count(), 0);
    }
}

#[test]
fn a_server_of_another_protocol_gives_no_keys() {
    for (protocols, part) in [(&[][..], "does not speak NTS-KE"), (&[&b"http/1.1"[..]], "TLS")] {
        let world = World::new();
        let tls = world.authority.server(HOST, false, protocols);
        let why = world.refused(|stream| keys::give(&mut keys::tls(stream, &tls), &world.given, world.time_port()));
        assert!(why.contains(part), "{why}");
    }
    let garbage = |mut stream: TcpStream| drop(stream.write_all(&[b'x'; 5000]));
    assert!(World::new().refused(garbage).contains("TLS"));
    let why = World::new().refused(drop);
    assert!(why.contains("ends in the middle") || why.contains("breaks"), "{why}");
    // No socket listens there.
    let world = World::new();
    let nowhere = TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap().port();
    let server = PolledServer { nts_port: nowhere, ..world.server() };
    let report = world.run(vec![server], drop, |_| Vec::new(), |_, report| !nts(report, 0).failed.is_empty());
    assert!(nts(&report, 0).failed.contains_key("the server for keys cannot be reached"), "{report:?}");
}

#[test]
fn an_answer_that_is_none_gives_no_keys() {
    let cookie = record(5, &[7; 100]);
    for (answer, part) in [
        (b"no records at all, but some text that is long enough".to_vec(), "ends in the middle"),
        (vec![0xff; 200], "ends in the middle"),
        ([agreed(), end()].concat(), "no cookie"),
        ([record(0x8001, &[0, 0]), record(4, &[0, 17]), cookie.clone(), end()].concat(), "no AEAD_AES_SIV_CMAC_256"),
        ([record(0x8001, &[0x80, 0]), end()].concat(), "no keys for NTPv4"),
        ([record(0x8002, &[0, 2]), end()].concat(), "internal error"),
        ([agreed(), record(0xc000, &[1]), cookie.clone(), end()].concat(), "must be understood"),
        ([agreed(), cookie].concat(), "ends in the middle"),
        ([agreed(), record(5, &[7; 100]), record(6, b"a/b"), end()].concat(), "a time server that is none"),
    ] {
        let why = World::new().refused_within(|tls| {
            let _ = tls.write_all(&answer);
            tls.conn.send_close_notify();
            let _ = tls.flush();
        });
        assert!(why.contains(part), "{why}, not {part}");
    }
}

#[test]
fn an_answer_without_end_ends() {
    let why = World::new().refused_within(|tls| {
        let all = record(0x4000, &[0; 1000]);
        while tls.write_all(&all).is_ok() {}
    });
    assert!(why.contains("longer than"), "{why}");
}

/// Answers without NTS until `end` is set; returns the longest time without a request.
fn plain(socket: &UdpSocket, end: &AtomicBool) -> Duration {
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut bytes, mut last, mut longest) = ([0; 200], None, Duration::ZERO);
    while !end.load(Ordering::Relaxed) {
        let Ok((length, client)) = socket.recv_from(&mut bytes) else { continue };
        longest = last.replace(Instant::now()).map_or(longest, |last: Instant| longest.max(last.elapsed()));
        let received = Stamp::from_unix(unix());
        let (request, _) = NtpPacket::parse(&bytes[..length]).unwrap();
        let (origin, transmitted) = (request.transmit_timestamp, Stamp::from_unix(unix()));
        let root_dispersion = Short(1);
        let answer = NtpPacket {
            mode: Mode::Server,
            stratum: 1,
            root_dispersion,
            origin_timestamp: origin,
            receive_timestamp: received,
            transmit_timestamp: transmitted,
            ..request
        };
        socket.send_to(&answer.to_bytes(), client).unwrap();
    }
    longest
}

#[test]
fn a_slow_server_is_left_and_does_not_delay_others() {
    for drips in [false, true] {
        let (world, other) = (World::new(), UdpSocket::bind((HOST, 0)).unwrap());
        let plain_server =
            PolledServer { port: other.local_addr().unwrap().port(), ..PolledServer::named(HOST).unwrap() };
        let tls = world.authority.server(HOST, false, &[ALPN]);
        let begin = Instant::now();
        let (report, longest) = std::thread::scope(|scope| {
            let answering = scope.spawn(|| plain(&other, &world.end));
            let report = world.run(
                vec![world.server(), plain_server],
                |stream| {
                    // The server sends either nothing at all, or a valid byte now and then.
                    let mut tls = keys::tls(stream, &tls);
                    while drips && asked(&mut tls) {
                        for byte in [agreed(), record(0x4000, &[0; 60_000])].concat() {
                            if world.end.load(Ordering::Relaxed) || tls.write_all(&[byte]).is_err() {
                                return;
                            }
                            std::thread::sleep(Duration::from_millis(50));
                        }
                    }
                    while !drips && !world.end.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                },
                |_| Vec::new(),
                |_, report| !nts(report, 0).failed.is_empty(),
            );
            (report, answering.join().unwrap())
        });
        assert!(nts(&report, 0).failed.contains_key("the server takes too long to agree"), "{report:?}");
        assert!((Duration::from_secs(9)..Duration::from_secs(20)).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        let source = &report.sources[1];
        assert!(source.standing == "followed" && source.used > 50, "{report:?}");
        assert!(longest < Duration::from_secs(1), "the clock goes on: {longest:?}");
    }
}

#[test]
fn no_trusted_certificate_is_an_error_that_says_what_to_do() {
    let world = World::new();
    std::fs::write(world.path("ca.pem"), "nothing").unwrap();
    let config =
        TimekeeperConfig { servers: vec![world.server()], page: world.path("clock"), ..TimekeeperConfig::default() };
    let error = Daemon::start(&config).unwrap_err();
    assert!(matches!(error, StartError::Files(..)) && error.to_string().contains("expected: PEM"), "{error}");
}
