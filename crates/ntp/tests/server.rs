//! The server's core against clients of every kind, in virtual time.

use std::net::IpAddr;
use tickwire_clockpage::{Count, Leap, Nanos, Parameters, Root, Scale, Status};
use tickwire_ntp::client::{self, Poll, TransmitContents};
use tickwire_ntp::packet::HEADER;
use tickwire_ntp::server::{RateLimit, ReplyKind, Request, ServerConfig, Silence, SystemVariables};
use tickwire_ntp::{Client, Kiss, LeapIndicator, Mode, NtpPacket, NtpServer, Rejection, Reply, Stamp};

const SECOND: i64 = 1_000_000_000;
const EPOCH: Nanos = Nanos(1_790_000_000 * SECOND);
const CLIENT: client::ClientConfig = client::ClientConfig {
    poll: Poll { usual: SECOND, longest: 64 * SECOND },
    transmit: TransmitContents::Nonce,
    interleaved: true,
};
/// One-way delay, and the server's latencies: until it has made the reply, and until that is in the
/// driver.
const WAY: i64 = 50_000;
const MAKING: i64 = 8_000;
const LEAVING: i64 = 3_000;

fn somebody() -> IpAddr {
    "192.0.2.7".parse().unwrap()
}

fn open() -> NtpServer {
    NtpServer::new(ServerConfig::default(), [1, 2])
}

fn host() -> SystemVariables {
    let scale = Scale::from_period(1.0).unwrap();
    let page = Parameters {
        status: Status::SYNCHRONISED,
        time: EPOCH.plus(37 * SECOND),
        local: scale,
        difference: scale,
        error: 100,
        bound: 60_000,
        fresh_until: Count(u64::MAX >> 1),
        leap: Leap { offset: 37, step: 0, at: Nanos(0) },
        root: Root { stratum: 1, reference: 0xc000_0201, delay: 90_000 },
        ..Parameters::UNKNOWN
    };
    SystemVariables::new(&page, &page.reading(page.at))
}

/// Time `ns` after the beginning.
fn at(ns: i64) -> Stamp {
    Stamp::from_unix(EPOCH.plus(ns))
}

/// A request that arrived `ns` after the beginning.
fn request_of(bytes: &[u8], from: IpAddr, ns: i64) -> Request<'_> {
    Request { bytes, from, now: ns, arrived: at(ns) }
}

/// One exchange between client and server. Both clocks are right, so every exchange must show that.
fn exchange(
    client: &mut Client,
    server: &mut NtpServer,
    host: &SystemVariables,
) -> Result<client::AcceptedReply, Rejection> {
    let now = client.due();
    let random = [now as u64 ^ 0x9e37_79b9_7f4a_7c15, now as u64 ^ 0xd1b5_4a32_d192_ed03];
    let request = client.request(now, random, Count(now as u64)).expect("due");
    let arrived = now + WAY;
    let answer = server.answer(request_of(&request.to_bytes(), somebody(), arrived), host).expect("answered");
    let leaves = arrived + MAKING;
    let packet = answer.leaving(at(leaves), 0);
    if answer.asks() {
        server.departed(answer.receive_timestamp(), at(leaves + LEAVING));
    }
    let back = leaves + LEAVING + WAY;
    client.answer(Reply {
        bytes: &packet.to_bytes(),
        sent: Count(now as u64),
        received: Count(back as u64),
        now: back,
        near: EPOCH.plus(back),
    })
}

#[test]
fn an_answer_tells_the_time_and_how_well_it_is_known() {
    let request = NtpPacket { poll: 6, ..NtpPacket::request(Stamp(77)) };
    let answer = open().answer(request_of(&request.to_bytes(), somebody(), 1000), &host()).unwrap();
    assert_eq!(answer.kind(), ReplyKind::Basic { asks: false });
    let packet = answer.leaving(at(9000), 0);
    assert_eq!((packet.mode, packet.version, packet.stratum, packet.poll), (Mode::Server, 4, 2, 6));
    assert_eq!(
        (packet.leap, packet.reference_id, packet.origin_timestamp),
        (LeapIndicator::None, 0xc000_0201, Stamp(77))
    );
    let near = EPOCH;
    assert_eq!(
        (packet.receive_timestamp.to_unix(near), packet.transmit_timestamp.to_unix(near)),
        (EPOCH.plus(1000), EPOCH.plus(9000))
    );
    assert!(packet.root_dispersion.to_ns() + packet.root_delay.to_ns() / 2 >= 60_000);
    let unsure = answer.leaving(at(9000), 40_000);
    assert!(unsure.root_dispersion.to_ns() + unsure.root_delay.to_ns() / 2 >= 100_000);
}

#[test]
fn version_3_is_answered_in_version_3() {
    let request = NtpPacket { version: 3, ..NtpPacket::request(Stamp(77)) };
    let answer = open().answer(request_of(&request.to_bytes(), somebody(), 0), &host()).unwrap();
    assert_eq!(answer.leaving(at(1), 0).version, 3);
}

#[test]
fn our_client_learns_the_true_departure_from_the_third_exchange_on() {
    let (mut client, mut server, host) = (Client::new(CLIENT, 0), open(), host());
    for number in 0..20 {
        let answer = exchange(&mut client, &mut server, &host).unwrap();
        // The first request names no previous reply; by the second the server learns that this
        // client does.
        assert_eq!(answer.interleaved, number >= 2, "exchange {number}");
        let Some(exchange) = answer.exchange else { continue };
        let back = EPOCH.plus(exchange.received.0 as i64).since(exchange.server_sent);
        assert_eq!(back, if answer.interleaved { WAY } else { WAY + LEAVING }, "exchange {number}");
        assert_eq!(exchange.server_received.since(EPOCH.plus(exchange.sent.0 as i64)), WAY);
        assert_eq!((exchange.server.stratum, exchange.server.synchronised), (2, true));
    }
}

#[test]
fn after_a_break_of_the_counter_no_exchange_from_before_is_told() {
    let (mut client, mut server, host) = (Client::new(CLIENT, 0), open(), host());
    let interleaved = (0..12).map(|_| exchange(&mut client, &mut server, &host).unwrap()).last().unwrap();
    assert!(interleaved.interleaved && interleaved.exchange.unwrap().sent < Count(client.due() as u64));
    let broken = client.due() + 20 * SECOND;
    client.disrupt(broken);
    assert_eq!(client.due(), broken, "asked at once");
    for number in 0..12 {
        let answer = exchange(&mut client, &mut server, &host).unwrap();
        assert_eq!(answer.interleaved, number > 1);
        let sent = answer.exchange.map_or(broken, |exchange| exchange.sent.0 as i64);
        assert!(sent >= broken, "{number}: {sent}");
    }
}

#[test]
fn a_client_of_basic_mode_costs_no_memory_and_is_not_mistaken() {
    let (mut server, host) = (open(), host());
    let mut before = NtpPacket::request(Stamp(0));
    for number in 1..100 {
        // A request as ntpd's: its own receive timestamp of the previous reply, and that reply's
        // transmit timestamp as origin.
        let request = NtpPacket {
            origin_timestamp: before.transmit_timestamp,
            receive_timestamp: Stamp(number),
            ..NtpPacket::request(Stamp(number << 8))
        };
        let answer = server.answer(request_of(&request.to_bytes(), somebody(), 0), &host).unwrap();
        assert_eq!((answer.kind(), answer.asks()), (ReplyKind::Basic { asks: false }, false));
        before = answer.leaving(at(number as i64 * 7), 0);
    }
}

#[test]
fn a_host_that_does_not_know_the_time_says_so_and_moves_no_clock() {
    let (mut client, mut server) = (Client::new(CLIENT, 0), open());
    let answer = exchange(&mut client, &mut server, &SystemVariables::UNSYNCHRONISED).unwrap();
    assert_eq!(answer.leap, LeapIndicator::Unknown);
    let server = answer.exchange.unwrap().server;
    assert_eq!((server.stratum, server.synchronised), (16, false));
}

#[test]
fn nothing_but_requests_is_answered() {
    let (mut server, host) = (open(), host());
    let mut ask = |bytes: &[u8]| server.answer(request_of(bytes, somebody(), 0), &host);
    let request = NtpPacket::request(Stamp(77)).to_bytes();
    for length in 0..HEADER {
        assert!(matches!(ask(&request[..length]), Err(Silence::Malformed(_))), "{length} bytes");
    }
    for mode in 0..8 {
        for version in 0..8 {
            let mut bytes = request;
            bytes[0] = version << 3 | mode;
            let answered = ask(&bytes).is_ok();
            assert_eq!(answered, mode == 3 && (version == 3 || version == 4), "mode {mode}, version {version}");
        }
    }
    let answer = ask(&request).unwrap().leaving(at(1), 0);
    assert_eq!(ask(&answer.to_bytes()), Err(Silence::Mode), "two servers do not talk with each other");
}

#[test]
fn an_answer_is_never_longer_than_its_request() {
    let mut long = NtpPacket::request(Stamp(77)).to_bytes().to_vec();
    long.resize(1400, 9);
    let answer = open().answer(request_of(&long, somebody(), 0), &host()).unwrap();
    assert_eq!(answer.leaving(at(1), 0).to_bytes().len(), HEADER);
}

#[test]
fn a_client_that_asks_too_often_is_told_and_obeys() {
    let rate = RateLimit { per_second: 0.25, burst: 4 };
    let mut server = NtpServer::new(ServerConfig { rate: Some(rate), ..ServerConfig::default() }, [1, 2]);
    let (mut client, host) = (Client::new(CLIENT, 0), host());
    let mut kisses = 0;
    for _ in 0..60 {
        match exchange(&mut client, &mut server, &host) {
            Ok(_) => {}
            Err(Rejection::Kiss(Kiss::Rate)) => kisses += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(kisses < 10, "the client has not slowed down");
    }
    assert!(kisses > 0 && client.interval() >= 4 * SECOND, "{kisses} kisses, {} ns", client.interval());
}

#[test]
fn a_flood_is_answered_at_the_rate_and_told_once_a_second() {
    let rate = RateLimit { per_second: 10.0, burst: 20 };
    let mut server = NtpServer::new(ServerConfig { rate: Some(rate), ..ServerConfig::default() }, [1, 2]);
    let (mut time, mut kisses, mut silent) = (0, 0, 0);
    for number in 0..50_000u64 {
        let now = number as i64 * SECOND / 10_000;
        let request = NtpPacket::request(Stamp(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        match server.answer(request_of(&request.to_bytes(), somebody(), now), &host()).map(|answer| answer.kind()) {
            Ok(ReplyKind::Kiss(Kiss::Rate)) => kisses += 1,
            Ok(ReplyKind::Basic { .. }) => time += 1,
            Err(Silence::TooOften) => silent += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kisses, 5, "once a second");
    assert!((70 + 2000..70 + 4500).contains(&time), "{time} answers: the rate, and one in sixteen of the rest");
    assert!(silent > 44_000, "{silent}");
    let other = "192.0.2.8".parse().unwrap();
    let answer =
        server.answer(request_of(&NtpPacket::request(Stamp(1)).to_bytes(), other, 5 * SECOND), &host()).unwrap();
    assert_eq!(answer.kind(), ReplyKind::Basic { asks: false }, "others notice nothing");
}

#[test]
fn a_client_that_may_not_ask_is_told_so_and_does_not_ask_for_an_hour() {
    let allow = vec!["198.51.100.0/24".parse().unwrap()];
    let mut server = NtpServer::new(ServerConfig { allow, ..ServerConfig::default() }, [1, 2]);
    let mut client = Client::new(CLIENT, 0);
    assert_eq!(exchange(&mut client, &mut server, &host()), Err(Rejection::Kiss(Kiss::Deny)));
    assert!(client.denied_until() == Some(client.due()) && client.due() >= 3600 * SECOND);
    let request = NtpPacket::request(Stamp(77)).to_bytes();
    assert_eq!(
        server.answer(request_of(&request, somebody(), WAY + 1), &host()),
        Err(Silence::NotAllowed),
        "told once"
    );
    let friend = "::ffff:198.51.100.9".parse().unwrap();
    assert!(matches!(server.answer(request_of(&request, friend, 0), &host()).unwrap().kind(), ReplyKind::Basic { .. }));
}
