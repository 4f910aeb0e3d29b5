//! The server over loopback, polled by plain sockets, by our own daemon, and by chronyd.
#![cfg(unix)]

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tickclock::{Clock, Count, CounterKind, Nanos, Parameters, Root, Scale, Status, Writer, counter};
use tickwire_ntp::{Kiss, LeapIndicator, Mode, NtpPacket, Stamp};
use tickwire_timekeeper::config::PolledServer;
use tickwire_timekeeper::serve::{Serve, ServeError, Tally};
use tickwire_timekeeper::{Daemon, TimeServer, TimekeeperConfig};

const KIND: CounterKind = CounterKind::MonotonicRaw;
/// How far the page's clock is ahead of the system's, in ns: so that one cannot be taken for the
/// other.
const AHEAD: i64 = 5_000_000_000;
const BOUND: u64 = 150_000;
const SERVER: u32 = 0xc000_0201;

fn unix() -> Nanos {
    Nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64)
}

/// What a daemon that knows the time to 150 us would publish.
fn known() -> Parameters {
    let scale = Scale::from_period(1.0).unwrap();
    Parameters {
        status: Status::SYNCHRONISED,
        at: counter::read(KIND),
        time: unix().plus(AHEAD),
        local: scale,
        difference: scale,
        error: 100,
        bound: BOUND,
        fresh_until: Count(u64::MAX / 2),
        root: Root { stratum: 1, reference: SERVER, delay: 100_000 },
        ..Parameters::UNKNOWN
    }
}

fn local() -> Vec<SocketAddr> {
    vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()]
}

/// Runs a server while `test` sends requests to its addresses.
fn with_server(config: &Serve, published: &Parameters, test: impl FnOnce(&[SocketAddr], &Path, &Writer)) -> Tally {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let writer = Writer::create(&page, KIND).unwrap();
    writer.publish(published);
    let mut server = TimeServer::start(config, &page).unwrap();
    let addresses: Vec<_> = server.addresses().collect();
    let (stop, stopper) = nix::unistd::pipe().unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            server.run(stop.as_fd()).unwrap();
            *server.tally()
        });
        let end = Ending(Some(stopper));
        test(&addresses, &page, &writer);
        drop(end);
        serving.join().unwrap()
    })
}

/// Ends the server, also when a test fails: the scope waits for the thread.
struct Ending(Option<std::os::fd::OwnedFd>);

impl Drop for Ending {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

fn to(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

fn answer(socket: &UdpSocket) -> NtpPacket {
    let mut bytes = [0; 200];
    let length = socket.recv(&mut bytes).unwrap();
    assert_eq!(length, 48, "no answer is longer than a header");
    NtpPacket::parse(&bytes[..length]).unwrap().0
}

fn ask(socket: &UdpSocket, request: &NtpPacket) -> NtpPacket {
    socket.send(&request.to_bytes()).unwrap();
    answer(socket)
}

#[test]
fn the_pages_time_is_told_with_its_bound() {
    let config = Serve { listen: local(), ..Serve::default() };
    let tally = with_server(&config, &known(), |addresses, page, _| {
        let clock = Clock::open(page).unwrap();
        for &address in addresses {
            for version in [3, 4] {
                let before = clock.now().utc();
                let said = ask(&to(address), &NtpPacket { version, ..NtpPacket::request(Stamp(77)) });
                let after = clock.now().utc();
                let (received, left) =
                    (said.receive_timestamp.to_unix(before), said.transmit_timestamp.to_unix(before));
                // The kernel's timestamp is converted to a count to within some tens of ns.
                assert!(before.plus(-1000) <= received && received <= left && left <= after, "{said:?}");
                assert_eq!((said.mode, said.version, said.leap), (Mode::Server, version, LeapIndicator::None));
                assert_eq!((said.stratum, said.reference_id, said.origin_timestamp), (2, SERVER, Stamp(77)));
                assert!(said.root_delay.to_ns_below() <= 100_000 && said.root_delay.to_ns() > 80_000);
                let bound = said.root_dispersion.to_ns() + said.root_delay.to_ns() / 2;
                assert!((BOUND..BOUND + 50_000).contains(&bound), "{said:?}");
            }
        }
    });
    assert_eq!((tally.basic, tally.garbage), (4, 0), "{tally}");
}

#[test]
fn a_server_that_does_not_know_the_time_says_so_until_it_does() {
    let config = Serve { listen: local(), ..Serve::default() };
    with_server(&config, &Parameters::UNKNOWN, |addresses, _, writer| {
        let socket = to(addresses[0]);
        let said = ask(&socket, &NtpPacket::request(Stamp(77)));
        assert_eq!((said.leap, said.stratum, said.origin_timestamp), (LeapIndicator::Unknown, 16, Stamp(77)));
        writer.publish(&known());
        let said = ask(&socket, &NtpPacket::request(Stamp(78)));
        assert_eq!((said.leap, said.stratum), (LeapIndicator::None, 2));
        writer.publish(&Parameters { bound: 20_000_000_000, ..known() });
        let said = ask(&socket, &NtpPacket::request(Stamp(79)));
        assert_eq!((said.leap, said.stratum), (LeapIndicator::Unknown, 16), "a clock that far off is none");
    });
}

#[test]
fn a_page_that_another_daemon_has_replaced_is_followed() {
    let config = Serve { listen: local(), ..Serve::default() };
    with_server(&config, &known(), |addresses, page, writer| {
        let socket = to(addresses[0]);
        assert_eq!(ask(&socket, &NtpPacket::request(Stamp(77))).stratum, 2);
        writer.publish(&Parameters { status: Status::RETIRED, ..Parameters::UNKNOWN });
        assert_eq!(ask(&socket, &NtpPacket::request(Stamp(78))).stratum, 16, "its own daemon says that it is over");
        std::fs::remove_file(page).unwrap();
        let new = Writer::create(page, KIND).unwrap();
        new.publish(&Parameters { root: Root { stratum: 6, reference: SERVER, delay: 0 }, ..known() });
        until(&socket, 7);
    });
}

/// Sends requests until a reply has this stratum.
fn until(socket: &UdpSocket, stratum: u8) {
    let begin = Instant::now();
    while ask(socket, &NtpPacket::request(Stamp(79))).stratum != stratum {
        assert!(begin.elapsed() < Duration::from_secs(20), "no answer of stratum {stratum}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_page_that_is_not_there_yet_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let config = Serve { listen: local(), ..Serve::default() };
    let mut server = TimeServer::start(&config, &page).unwrap();
    let address = server.addresses().next().unwrap();
    let (stop, stopper) = nix::unistd::pipe().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(stop.as_fd()).unwrap());
        let _end = Ending(Some(stopper));
        let socket = to(address);
        let said = ask(&socket, &NtpPacket::request(Stamp(77)));
        assert_eq!((said.leap, said.stratum, said.origin_timestamp), (LeapIndicator::Unknown, 16, Stamp(77)));
        // Its counter differs from the one that the server has used until now, where this machine
        // has another.
        let writer = Writer::create(&page, KIND).unwrap();
        writer.publish(&known());
        until(&socket, 2);
        let (before, said) = (unix(), ask(&socket, &NtpPacket::request(Stamp(80))));
        let ahead = said.receive_timestamp.to_unix(before).since(before) - AHEAD;
        assert!((-1_000_000..1_000_000_000).contains(&ahead), "{ahead} ns");
        // The time is unknown until another daemon starts.
        writer.publish(&Parameters { status: Status::RETIRED, ..Parameters::UNKNOWN });
        std::fs::remove_file(&page).unwrap();
        until(&socket, 16);
        let new = Writer::create(&page, KIND).unwrap();
        new.publish(&known());
        until(&socket, 2);
    });
}

#[test]
fn garbage_is_not_answered_and_does_no_harm() {
    let config = Serve { listen: local(), ..Serve::default() };
    let tally = with_server(&config, &known(), |addresses, _, _| {
        for &address in addresses {
            let socket = to(address);
            let good = NtpPacket::request(Stamp(77)).to_bytes();
            let mut sent = 0;
            let mut send = |bytes: &[u8]| {
                socket.send(bytes).unwrap();
                sent += 1;
            };
            for length in [0, 1, 12, 47] {
                send(&good[..length]);
            }
            for mode in [0, 1, 2, 4, 5, 6, 7] {
                let mut other = good;
                other[0] = 4 << 3 | mode;
                send(&other);
            }
            for version in [0, 1, 2, 5, 7] {
                let mut other = good;
                other[0] = version << 3 | 3;
                send(&other);
            }
            let mut long = good.to_vec();
            long.resize(1400, 0xff);
            send(&long);
            assert_eq!(sent, 17);
            assert_eq!(answer(&socket).origin_timestamp, Stamp(77), "the long one is a request");
            assert_eq!(
                ask(&socket, &NtpPacket::request(Stamp(78))).origin_timestamp,
                Stamp(78),
                "and nothing was answered between"
            );
        }
    });
    assert_eq!((tally.basic, tally.garbage), (4, 32), "{tally}");
}

#[test]
fn answers_come_from_the_address_that_was_asked_and_not_to_what_all_hear() {
    let config = Serve { listen: vec!["0.0.0.0:0".parse().unwrap()], ..Serve::default() };
    let tally = with_server(&config, &known(), |addresses, _, _| {
        let at = |address: &str| SocketAddr::new(address.parse().unwrap(), addresses[0].port());
        // A connected socket receives from no other address.
        let second = to(at("127.0.0.9"));
        assert_eq!(ask(&second, &NtpPacket::request(Stamp(77))).origin_timestamp, Stamp(77));
        let all = UdpSocket::bind("127.0.0.1:0").unwrap();
        all.set_broadcast(true).unwrap();
        all.send_to(&NtpPacket::request(Stamp(78)).to_bytes(), at("127.255.255.255")).unwrap();
        let both = [to(at("127.0.0.9")), to(at("127.0.0.8"))];
        for socket in &both {
            socket.send(&NtpPacket::request(Stamp(79)).to_bytes()).unwrap();
        }
        for socket in &both {
            assert_eq!(answer(socket).origin_timestamp, Stamp(79));
        }
        all.set_nonblocking(true).unwrap();
        assert!(all.recv(&mut [0; 100]).is_err(), "a broadcast was answered");
    });
    assert_eq!(tally.basic, 3, "{tally}");
}

#[test]
fn a_flood_gets_no_more_than_its_rate_and_others_notice_nothing() {
    const FLOOD: u64 = 20_000;
    let config = Serve { listen: local(), rate: 1.0, burst: 10, ..Serve::default() };
    let tally = with_server(&config, &known(), |addresses, _, _| {
        let (flood, other) = (to(addresses[0]), to(addresses[1]));
        for number in 1..=FLOOD {
            flood.send(&NtpPacket::request(Stamp(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_bytes()).unwrap();
            if number % 4000 == 0 {
                assert_eq!(ask(&other, &NtpPacket::request(Stamp(number))).stratum, 2);
            }
        }
        let mut answers = 0;
        flood.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut bytes = [0; 100];
        while let Ok(length) = flood.recv(&mut bytes) {
            let said = NtpPacket::parse(&bytes[..length]).unwrap().0;
            assert!(said.stratum == 2 || Kiss::from_reference(said.reference_id) == Kiss::Rate, "{said:?}");
            answers += 1;
        }
        assert!((10..FLOOD / 8).contains(&answers), "{answers} answers");
    });
    assert!(tally.too_often > 0 && tally.told_rate > 0, "{tally}");
    assert!(tally.basic < FLOOD / 8, "{tally}");
}

#[test]
fn a_client_that_may_not_ask_is_told_so() {
    let config = Serve { listen: local(), allow: vec!["::1".parse().unwrap()], ..Serve::default() };
    let tally = with_server(&config, &known(), |addresses, _, _| {
        let refused = ask(&to(addresses[0]), &NtpPacket::request(Stamp(77)));
        assert_eq!((refused.stratum, Kiss::from_reference(refused.reference_id)), (0, Kiss::Deny));
        assert_eq!(ask(&to(addresses[1]), &NtpPacket::request(Stamp(78))).stratum, 2);
    });
    assert_eq!((tally.basic, tally.told_denied), (1, 1), "{tally}");
}

#[test]
fn our_daemon_follows_it_in_interleaved_mode_and_its_bound_holds() {
    let config = Serve { listen: local(), ..Serve::default() };
    let tally = with_server(&config, &known(), |addresses, page, _| {
        let truth = Clock::open(page).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        let servers = addresses.iter().map(|address| PolledServer::named(&address.to_string()).unwrap()).collect();
        let mut daemon =
            Daemon::start(&TimekeeperConfig { servers, page: page.clone(), poll: 0.05, ..TimekeeperConfig::default() })
                .unwrap();
        let clock = Clock::open(&page).unwrap();
        let (stop, stopper) = nix::unistd::pipe().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| daemon.run(stop.as_fd()).unwrap());
            let _end = Ending(Some(stopper));
            let begin = Instant::now();
            loop {
                let before = truth.now().utc();
                let now = clock.now();
                let after = truth.now().utc();
                if now.bound != u64::MAX {
                    let (earliest, latest) = now.interval();
                    assert!(earliest <= after && before <= latest, "{before:?} {after:?} {now:?}");
                    assert!(now.bound >= BOUND, "{now:?}");
                }
                let report = tickwire_timekeeper::ask(&page).unwrap();
                if report.sources.iter().all(|source| source.interleaved == Some(true) && source.used > 10) {
                    for source in &report.sources {
                        assert_eq!((source.stratum, source.asked), (Some(2), true), "{source:?}");
                        // A busy machine may cause outliers; but no exchange is used twice, and no
                        // server is polled too often.
                        for why in ["older than the exchange before", "the server is asked too often (RATE)"] {
                            assert!(!source.refused.contains_key(why), "{source:?}");
                        }
                    }
                    return;
                }
                assert!(begin.elapsed() < Duration::from_secs(20), "{report:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    });
    assert!(tally.interleaved > 10, "{tally}");
}

#[test]
fn chrony_takes_the_time_from_it() {
    let config = Serve { listen: local(), ..Serve::default() };
    with_server(&config, &known(), |addresses, _, _| {
        for (address, samples) in addresses.iter().zip([4, 1]) {
            let server = format!("server {} port {} iburst maxsamples {samples} xleave", address.ip(), address.port());
            // Prints how far the system clock is off, and does not set it. chronyd's own user
            // exists only where its package is installed.
            let output = Command::new("chronyd").args(["-U", "-u", "root", "-Q", "-t", "20", &server]).output();
            let output = output.expect("chronyd (package chrony), or /usr/sbin in PATH");
            let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
            let off = text
                .lines()
                .find_map(|line| line.split_once("System clock wrong by "))
                .unwrap_or_else(|| panic!("{text}"));
            let off: f64 = off.1.split(' ').next().unwrap().parse().unwrap();
            // The system clock may be steered meanwhile.
            assert!((off - AHEAD as f64 * 1e-9).abs() < 0.05, "{text}");
        }
    });
}

#[test]
fn what_cannot_be_had_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    std::fs::write(&page, "a letter").unwrap();
    let error = TimeServer::start(&Serve::default(), &page).unwrap_err();
    assert!(matches!(error, ServeError::Clock(_)) && error.to_string().contains("it has 8 bytes"), "{error}");
    std::fs::remove_file(&page).unwrap();
    let _writer = Writer::create(&page, KIND).unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = |address| Serve { listen: vec![address], ..Serve::default() };
    let error = TimeServer::start(&listen(taken.local_addr().unwrap()), &page).unwrap_err();
    assert!(error.to_string().contains("another time server"), "{error}");
    let error = TimeServer::start(&listen("192.0.2.77:0".parse().unwrap()), &page).unwrap_err();
    assert!(error.to_string().contains("no interface has this address"), "{error}");
}
