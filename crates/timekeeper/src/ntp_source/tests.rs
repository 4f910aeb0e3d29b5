use super::*;
use crate::lookup::Failure;
use crate::resolver::{LookupResult, ResolvedServer};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use tickwire_ntp::{Kiss, Mode, NtpPacket, Stamp};

#[test]
fn servers_are_named_as_others_name_them() {
    for (address, expected) in
        [("192.0.2.1", 0xc000_0201), ("::ffff:192.0.2.1", 0xc000_0201), ("2001:db8::1", 0x39ab_9b37)]
    {
        assert_eq!(reference(address.parse().unwrap()), expected, "{address}");
    }
}

/// A source with a name that is never looked up.
fn source() -> (NtpSource, Cards) {
    let server = PolledServer::named("time.example").unwrap();
    let nominal = Scale::from_period(1.0).unwrap();
    let source = NtpSource::new(&TimekeeperConfig::default(), &server, CounterKind::MonotonicRaw, nominal, 0);
    (source, Cards::new(crate::config::HardwareStamps::Never))
}

impl NtpSource {
    /// Its name was looked up, and has these addresses.
    pub(crate) fn tell(&mut self, all: &[&UdpSocket]) {
        let all = all.iter().map(|socket| socket.local_addr().unwrap()).collect();
        self.resolver.be_looked_up().send(Ok(LookupResult::Addresses(all))).unwrap();
    }

    /// When its next lookup or request is due.
    pub(crate) fn next_due(&self) -> Option<i64> {
        self.due()
    }

    /// Waits until a reply is in its socket.
    pub(crate) fn await_reply(&self) {
        let socket = os::borrow(self.resolver.socket().unwrap()).try_clone_to_owned().unwrap();
        let (socket, until) = (UdpSocket::from(socket), Instant::now() + Duration::from_secs(10));
        while socket.peek(&mut [0; 1500]).is_err() {
            assert!(Instant::now() < until, "no reply");
            std::thread::yield_now();
        }
    }
}

fn tell(source: &mut NtpSource, all: &[&UdpSocket]) {
    source.tell(all);
}

/// An iteration of the daemon's loop.
fn turn(source: &mut NtpSource, now: i64) {
    source.run(now, &mut Cards::new(crate::config::HardwareStamps::Never), &|_| None);
}

/// Runs until the name is to be looked up, but not after `until`; returns the time.
fn turns(source: &mut NtpSource, mut now: i64, until: i64) -> i64 {
    loop {
        turn(source, now);
        let due = source.due().unwrap_or(now);
        if matches!(source.resolver.address(), Address::Due(_)) || due > until {
            return now;
        }
        now = due.max(now);
    }
}

fn server() -> UdpSocket {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    server
}

/// The requests that a server has received.
fn requests(server: &UdpSocket) -> Vec<(NtpPacket, SocketAddr)> {
    let one = || {
        let mut bytes = [0; 48];
        let (_, from) = server.recv_from(&mut bytes).ok()?;
        Some((NtpPacket::parse(&bytes).unwrap().0, from))
    };
    std::iter::from_fn(one).collect()
}

fn answer(request: &NtpPacket) -> NtpPacket {
    NtpPacket {
        mode: Mode::Server,
        stratum: 1,
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: Stamp(1 << 32),
        transmit_timestamp: Stamp(2 << 32),
        ..*request
    }
}

fn kiss(by: Kiss, request: &NtpPacket) -> NtpPacket {
    NtpPacket { stratum: 0, reference_id: by.to_reference(), ..answer(request) }
}

/// The source receives what a server has sent; returns the number of completed exchanges.
fn get(source: &mut NtpSource, now: i64) -> usize {
    source.await_reply();
    source.receive(now, Nanos(0)).len()
}

#[test]
fn a_server_that_does_not_answer_is_asked_at_its_next_address_at_once() {
    let (dead, alive) = (server(), server());
    let (mut source, _) = source();
    tell(&mut source, &[&dead, &alive]);
    // Eight requests of a burst, time for the last reply, and then those to the next address.
    let now = turns(&mut source, 0, 3 * SECOND);
    assert_eq!((requests(&dead).len(), source.peer()), (8, Some(alive.local_addr().unwrap())));
    let (request, from) = requests(&alive).pop().unwrap();
    alive.send_to(&answer(&request).to_bytes(), from).unwrap();
    assert_eq!(get(&mut source, now), 1);
    source.was_used(now);
    // The server falls silent. The first address may be back; the name is looked up only after
    // it was tried.
    let now = turns(&mut source, now, 3600 * SECOND);
    assert!(!requests(&dead).is_empty() && matches!(source.resolver.address(), Address::Due(at) if *at == now));
    assert!((64 * SECOND..100 * SECOND).contains(&now), "{now}");
    // Unsuccessful: the wait doubles, and grows while no server answers.
    tell(&mut source, &[&dead, &alive]);
    let again = turns(&mut source, now, 3600 * SECOND);
    assert!((128 * SECOND..256 * SECOND).contains(&(again - now)), "{}", again - now);
    requests(&dead);
    requests(&alive);
    let (mut now, begin, mut day) = (again, again, 0);
    while now < begin + 86_400 * SECOND {
        tell(&mut source, &[&dead, &alive]);
        now = turns(&mut source, now, i64::MAX);
        day += requests(&dead).len() + requests(&alive).len();
    }
    assert!((500..3_000).contains(&day), "{day} requests in a day of silence");
}

#[test]
fn an_address_that_this_host_cannot_reach_is_passed_over_at_once() {
    let alive = server();
    let (mut source, _) = source();
    // A connection to it is refused: broadcast is not allowed.
    let nowhere = SocketAddr::from(([255, 255, 255, 255], 123));
    let all = vec![nowhere, alive.local_addr().unwrap()];
    source.resolver.be_looked_up().send(Ok(LookupResult::Addresses(all))).unwrap();
    turn(&mut source, 0);
    assert_eq!(source.peer(), Some(alive.local_addr().unwrap()));
    source.resolver.be_looked_up().send(Ok(LookupResult::Addresses(vec![nowhere]))).unwrap();
    turn(&mut source, 1);
    assert!(matches!(source.resolver.address(), Address::Due(_)) && source.why_silent(1).contains("255.255.255.255"));
}

#[test]
fn a_denial_leads_to_the_next_address_unless_it_was_forged() {
    for forged in [false, true] {
        let (denies, other) = (server(), server());
        let (mut source, _) = source();
        tell(&mut source, &[&denies, &other]);
        turn(&mut source, 0);
        turn(&mut source, 1);
        let (request, from) = requests(&denies).pop().unwrap();
        denies.send_to(&kiss(Kiss::Deny, &request).to_bytes(), from).unwrap();
        assert_eq!(get(&mut source, 2), 0);
        assert_eq!(source.why_silent(2), "the server denies service");
        turn(&mut source, 3);
        assert_eq!(source.peer(), Some(denies.local_addr().unwrap()), "its answer may be on its way");
        if forged {
            denies.send_to(&answer(&request).to_bytes(), from).unwrap();
            assert_eq!(get(&mut source, 4), 1);
        }
        let now = turns(&mut source, SECOND + 3, 3600 * SECOND);
        if forged {
            assert!(requests(&denies).len() > 5, "it is asked on");
            continue;
        }
        assert_eq!((requests(&denies).len(), requests(&other).is_empty()), (0, false));
        // The other address is silent, and the denial holds for an hour.
        assert!((64 * SECOND..200 * SECOND).contains(&now), "{now}");
        tell(&mut source, &[&denies, &other]);
        turn(&mut source, now);
        assert_eq!(source.peer(), Some(other.local_addr().unwrap()));
    }
}

/// A server answers a request with a denial; returns a time at which that has been processed.
fn deny(source: &mut NtpSource, server: &UdpSocket, now: i64) -> i64 {
    turn(source, now);
    let (request, from) = requests(server).pop().unwrap();
    server.send_to(&kiss(Kiss::Deny, &request).to_bytes(), from).unwrap();
    assert_eq!(get(source, now + 1), 0);
    now + 1
}

/// Runs once a second until the name is to be looked up; returns the time.
fn seconds(source: &mut NtpSource, mut now: i64) -> i64 {
    for _ in 0..3600 {
        turn(source, now);
        if matches!(source.resolver.address(), Address::Due(_)) {
            return now;
        }
        now += SECOND;
    }
    panic!("the name is never looked up");
}

#[test]
fn a_name_whose_only_server_denies_service_is_followed_when_it_moves() {
    let (denies, moved) = (server(), server());
    let (mut source, _) = source();
    tell(&mut source, &[&denies]);
    turn(&mut source, 0);
    let mut now = deny(&mut source, &denies, 0);
    // The server has not moved yet: it is not polled again, and its name is looked up at
    // growing intervals.
    for lookup_interval in [64, 128, 256] {
        let again = seconds(&mut source, now);
        assert!(
            (lookup_interval..lookup_interval + 3).contains(&((again - now) / SECOND)),
            "{lookup_interval}: {}",
            again - now
        );
        tell(&mut source, &[&denies]);
        turn(&mut source, again);
        assert!(source.peer().is_some() && requests(&denies).is_empty());
        now = again;
    }
    now = seconds(&mut source, now);
    tell(&mut source, &[&moved]);
    turn(&mut source, now);
    turn(&mut source, now);
    assert_eq!((requests(&moved).len(), source.client.denied_until()), (1, None));
}

#[test]
fn a_silent_address_has_another_turn_after_the_last_one_has_denied_service() {
    for dead_first in [true, false] {
        let (dead, denies) = (server(), server());
        let both = if dead_first { [&dead, &denies] } else { [&denies, &dead] };
        let (mut source, _) = source();
        tell(&mut source, &[&dead, &denies]);
        let now = turns(&mut source, 0, 3 * SECOND);
        assert_eq!((requests(&dead).len(), source.peer()), (8, Some(denies.local_addr().unwrap())));
        requests(&denies);
        let now = deny(&mut source, &denies, now + SECOND);
        let now = seconds(&mut source, now);
        assert!((64 * SECOND..70 * SECOND).contains(&now), "{now}");
        tell(&mut source, &both);
        for second in 0..4 {
            turn(&mut source, now + second * SECOND);
        }
        assert!(!requests(&dead).is_empty() && requests(&denies).is_empty());
        assert_eq!(source.peer(), Some(dead.local_addr().unwrap()));
    }
}

#[test]
fn why_nothing_comes_is_told_as_it_is() {
    let server = server();
    let (mut source, mut cards) = source();
    let tell_it = source.resolver.be_looked_up();
    assert_eq!(source.why_silent(0), "it is still being looked up");
    tell_it.send(Err(Failure::new("no such name", "try again"))).unwrap();
    assert!(source.advance(0, &mut cards).is_none());
    assert_eq!(source.why_silent(0), "no such name: try again");
    tell(&mut source, &[&server]);
    turn(&mut source, 0);
    turn(&mut source, 0);
    assert_eq!(source.why_silent(0), "no answer comes");
    source.tally.refuse("the server is not synchronised".into(), SECOND);
    assert_eq!(source.why_silent(2 * SECOND), "the server is not synchronised");
    assert_eq!(source.why_silent(60 * SECOND), "no answer comes", "that was long ago");
}

#[test]
fn known_addresses_are_asked_on_while_the_name_cannot_be_looked_up() {
    let (one, other) = (server(), server());
    let (mut source, _) = source();
    tell(&mut source, &[&one, &other]);
    let mut now = turns(&mut source, 0, 3600 * SECOND);
    // Servers and resolver are unreachable together. The name is looked up as rarely as if the
    // lookups succeeded.
    for lookup_interval in [64, 128, 256] {
        assert!(!requests(&one).is_empty() && !requests(&other).is_empty());
        source.resolver.be_looked_up().send(Err(Failure::new("no such name", "try again"))).unwrap();
        let again = turns(&mut source, now, i64::MAX);
        assert!(again - now > 2 * lookup_interval * SECOND, "{lookup_interval}: {}", again - now);
        now = again;
    }
    source.resolver.be_looked_up().send(Err(Failure::new("no such name", "try again"))).unwrap();
    turn(&mut source, now);
    requests(&one);
    now = turns(&mut source, now, now + SECOND);
    let (request, from) = requests(&one).pop().unwrap();
    one.send_to(&answer(&request).to_bytes(), from).unwrap();
    assert_eq!(get(&mut source, now), 1, "the servers are back before the resolver is");
}

#[test]
fn a_name_that_is_not_found_any_more_leaves_its_address_to_others() {
    // With NTS: without it the known addresses are still polled.
    let server = PolledServer { nts: true, ..PolledServer::named("time.example").unwrap() };
    let nominal = Scale::from_period(1.0).unwrap();
    let mut source = NtpSource::new(&TimekeeperConfig::default(), &server, CounterKind::MonotonicRaw, nominal, 0);
    let mut cards = Cards::new(crate::config::HardwareStamps::Never);
    let address = "127.0.0.1:123".parse().unwrap();
    source.open(ResolvedServer::Address(address), 0);
    let tell = source.resolver.be_looked_up();
    assert!(source.advance(1, &mut cards).is_none() && source.polls(address), "while it is looked up anew");
    tell.send(Err(Failure::new("no such name", ""))).unwrap();
    assert!(source.advance(2, &mut cards).is_none() && !source.polls(address));
}
