//! The client's exchange against servers of every kind, in virtual time.

use tickwire_clockpage::{Count, Nanos};
use tickwire_ntp::client::{ClientConfig, Poll, TransmitContents};
use tickwire_ntp::{Client, Kiss, LeapIndicator, Mode, NtpPacket, Rejection, Reply, Short, Stamp};

const SECOND: i64 = 1_000_000_000;
const NEAR: Nanos = Nanos(1_790_000_000 * SECOND);
const CONFIG: ClientConfig = ClientConfig {
    poll: Poll { usual: 16 * SECOND, longest: 1024 * SECOND },
    transmit: TransmitContents::Nonce,
    interleaved: false,
};

/// Sends the due request, with unpredictable numbers; returns the time.
fn ask(client: &mut Client) -> (i64, NtpPacket) {
    let now = client.due();
    let random = [now as u64 ^ 0x9e37_79b9_7f4a_7c15, now as u64 ^ 0xd1b5_4a32_d192_ed03];
    (now, client.request(now, random, Count(now as u64)).expect("due"))
}

/// The reply of an honest server that received the request at `at`, and replied 10 us later.
fn honest(request: &NtpPacket, at: Nanos) -> NtpPacket {
    NtpPacket {
        mode: Mode::Server,
        stratum: 1,
        root_delay: Short(1),
        root_dispersion: Short(2),
        reference_id: u32::from_be_bytes(*b"GPS\0"),
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: Stamp::from_unix(at),
        transmit_timestamp: Stamp::from_unix(at.plus(10_000)),
        ..*request
    }
}

fn give(client: &mut Client, answer: &NtpPacket, now: i64) -> Result<tickwire_ntp::AcceptedReply, Rejection> {
    let (bytes, sent, received) = (&answer.to_bytes(), Count(now as u64), Count(now as u64 + 50_000));
    client.answer(Reply { bytes, sent, received, now: now + 50_000, near: NEAR })
}

#[test]
fn an_exchange_tells_four_stamps_and_the_server() {
    let mut client = Client::new(CONFIG, 0);
    let (now, request) = ask(&mut client);
    assert_eq!(client.request(now, [1, 2], Count(1)), None, "one request at a time");
    let answer = give(&mut client, &honest(&request, NEAR), now).unwrap();
    let exchange = answer.exchange.unwrap();
    assert_eq!((exchange.sent, exchange.received), (Count(0), Count(50_000)));
    assert_eq!((exchange.server_received, exchange.server_sent), (NEAR, NEAR.plus(10_000)));
    assert_eq!((exchange.server.stratum, exchange.server.synchronised), (1, true));
    assert_eq!((exchange.server.root_delay, exchange.server.root_dispersion), (15_259, 30_518));
    assert_eq!((answer.leap, answer.interleaved, client.reach()), (LeapIndicator::None, false, 1));
}

#[test]
fn nothing_but_the_answer_to_the_request_is_believed() {
    let mut client = Client::new(CONFIG, 0);
    let (now, first) = ask(&mut client);
    give(&mut client, &honest(&first, NEAR), now).unwrap();
    assert_eq!(give(&mut client, &honest(&first, NEAR), now), Err(Rejection::Unasked), "doubled");
    let (now, request) = ask(&mut client);
    assert_ne!(request.transmit_timestamp, first.transmit_timestamp);
    assert_eq!(give(&mut client, &honest(&first, NEAR), now), Err(Rejection::Unasked), "replayed");
    let forged = NtpPacket { origin_timestamp: Stamp(0), ..honest(&request, NEAR) };
    assert_eq!(give(&mut client, &forged, now), Err(Rejection::Unasked), "forged");
    let kiss = NtpPacket { stratum: 0, reference_id: Kiss::Deny.to_reference(), ..forged };
    assert_eq!(give(&mut client, &kiss, now), Err(Rejection::Unasked), "a forged kiss");
    assert_eq!(give(&mut client, &request, now), Err(Rejection::Mode), "reflected");
    let garbage = Reply { bytes: &[1; 30], sent: Count(0), received: Count(1), now, near: NEAR };
    assert!(matches!(client.answer(garbage), Err(Rejection::Malformed(_))));
    let empty = NtpPacket { transmit_timestamp: Stamp(0), ..honest(&request, NEAR) };
    assert_eq!(give(&mut client, &empty, now), Err(Rejection::Empty));
    let (now, request) = ask(&mut client);
    assert!(give(&mut client, &honest(&request, NEAR), now).is_ok(), "and nothing of that has done harm");
}

#[test]
fn a_burst_then_a_steady_pace() {
    let mut client = Client::new(CONFIG, 0);
    let mut times = Vec::new();
    for _ in 0..12 {
        let (now, request) = ask(&mut client);
        times.push(now);
        give(&mut client, &honest(&request, NEAR), now).unwrap();
    }
    assert!(times[7] <= 2 * SECOND, "{times:?}");
    for pair in times[8..].windows(2) {
        assert_eq!(pair[1] - pair[0], 16 * SECOND);
    }
    assert_eq!(client.reach(), 0xff);
}

#[test]
fn a_lost_answer_is_asked_for_again_and_a_silent_server_less_and_less() {
    let mut client = Client::new(CONFIG, 0);
    for _ in 0..9 {
        let (now, request) = ask(&mut client);
        give(&mut client, &honest(&request, NEAR), now).unwrap();
    }
    let (lost, _) = ask(&mut client);
    let (again, request) = ask(&mut client);
    assert!(again - lost <= SECOND, "asked again after {} ns", again - lost);
    give(&mut client, &honest(&request, NEAR), again).unwrap();
    assert_eq!(client.reach(), 0xff, "one of the two was answered");
    assert_eq!(client.due(), lost + 16 * SECOND);
    let begin = client.due();
    let requests =
        std::iter::from_fn(|| Some(ask(&mut client).0)).take_while(|&now| now < begin + 86_400 * SECOND).count();
    assert!((100..1000).contains(&requests), "{requests} requests in a day of silence");
    assert_eq!((client.reach(), client.interval()), (0, 1024 * SECOND));
    assert_eq!(client.permitted_interval(), 16 * SECOND, "its silence is no wish");
    let (now, request) = ask(&mut client);
    give(&mut client, &honest(&request, NEAR), now).unwrap();
    assert_eq!(client.interval(), 16 * SECOND, "asks as before when it is back");
}

fn kiss(kiss: Kiss, request: &NtpPacket) -> NtpPacket {
    NtpPacket { stratum: 0, reference_id: kiss.to_reference(), ..honest(request, NEAR) }
}

/// Sends one request, which gets a kiss; returns the time.
fn kissed(client: &mut Client, by: Kiss) -> i64 {
    let (now, request) = ask(client);
    assert_eq!(give(client, &kiss(by, &request), now), Err(Rejection::Kiss(by)));
    now + 50_000
}

/// Polls an honest server until a time.
fn served(client: &mut Client, until: i64) {
    while client.due() < until {
        let (now, request) = ask(client);
        give(client, &honest(&request, NEAR), now).unwrap();
    }
}

const HOUR: i64 = 3600 * SECOND;

#[test]
fn a_server_that_is_asked_too_often_is_asked_less_often_at_once() {
    let mut client = Client::new(CONFIG, 0);
    for interval in [32, 64, 128] {
        let now = kissed(&mut client, Kiss::Rate);
        assert_eq!(client.interval(), interval * SECOND);
        assert_eq!(client.due(), now + interval * SECOND);
    }
    let (now, request) = ask(&mut client);
    give(&mut client, &honest(&request, NEAR), now).unwrap();
    assert_eq!((client.interval(), client.permitted_interval()), (128 * SECOND, 128 * SECOND), "and remembered");
    for _ in 0..10 {
        kissed(&mut client, Kiss::Rate);
    }
    assert_eq!(
        (client.interval(), client.permitted_interval()),
        (1024 * SECOND, 1024 * SECOND),
        "but not for ever less"
    );
}

#[test]
fn a_pace_that_was_too_quick_is_tried_again_an_hour_later_and_later_each_time_that_it_is_too_quick_again() {
    let mut client = Client::new(CONFIG, 0);
    kissed(&mut client, Kiss::Rate);
    let at = kissed(&mut client, Kiss::Rate);
    assert_eq!((client.permitted_interval(), client.slowed_until()), (64 * SECOND, Some(at + HOUR)));
    served(&mut client, at + HOUR);
    assert_eq!(client.permitted_interval(), 64 * SECOND, "not sooner");
    served(&mut client, at + HOUR + 64 * SECOND);
    assert_eq!(client.permitted_interval(), 32 * SECOND);
    // RATE again.
    let mut waits = Vec::new();
    for _ in 0..7 {
        let at = kissed(&mut client, Kiss::Rate);
        assert_eq!(client.permitted_interval(), 64 * SECOND);
        let wait = client.slowed_until().unwrap() - at;
        served(&mut client, at + wait + 64 * SECOND);
        assert_eq!(client.permitted_interval(), 32 * SECOND);
        waits.push(wait / HOUR);
    }
    assert_eq!(waits, [2, 4, 8, 16, 24, 24, 24]);
    // The server no longer objects: the interval and the backoff return to their initial values.
    let now = client.due();
    served(&mut client, now + 24 * HOUR + SECOND);
    assert_eq!((client.permitted_interval(), client.slowed_until()), (16 * SECOND, None));
    let now = client.due();
    served(&mut client, now + 24 * HOUR + SECOND);
    let at = kissed(&mut client, Kiss::Rate);
    assert_eq!(client.slowed_until(), Some(at + HOUR));
}

#[test]
fn a_server_that_denies_service_is_left_alone_for_an_hour_then_for_longer_each_time() {
    for by in [Kiss::Deny, Kiss::Restricted] {
        let mut client = Client::new(CONFIG, 0);
        let mut waits = Vec::new();
        for _ in 0..7 {
            let at = kissed(&mut client, by);
            assert_eq!(client.denied_until(), Some(client.due()));
            assert_eq!(client.request(client.due() - 1, [1, 2], Count(0)), None);
            client.disrupt(at + 20 * SECOND);
            waits.push((client.due() - at) / HOUR);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 24, 24], "{by}");
        // The server is silent.
        let begin = client.due();
        let asked = std::iter::from_fn(|| Some(ask(&mut client).0)).take_while(|&now| now < begin + 24 * HOUR).count();
        assert!(asked < 300, "{asked} requests in a day");
        assert!(client.denied_until().is_some());
        // The server replies.
        let begin = client.due();
        served(&mut client, begin + HOUR);
        assert_eq!(
            (client.denied_until(), client.interval(), client.permitted_interval()),
            (None, 16 * SECOND, 16 * SECOND)
        );
        let at = kissed(&mut client, by);
        assert_eq!(client.due() - at, HOUR, "it has served meanwhile");
        let begin = client.due();
        served(&mut client, begin + 25 * HOUR);
        let at = kissed(&mut client, by);
        assert_eq!(client.due() - at, HOUR, "however long");
    }
}

#[test]
fn a_kiss_that_may_be_forged_shuts_no_client_out_for_more_than_an_hour() {
    let mut client = Client::new(CONFIG, 0);
    // One denial each time after a reply.
    for _ in 0..5 {
        let at = kissed(&mut client, Kiss::Deny);
        assert_eq!(client.due() - at, HOUR);
        let until = client.due() + 64 * SECOND;
        served(&mut client, until);
    }
    // The RATE backoff does not lengthen the wait after a denial.
    for _ in 0..7 {
        kissed(&mut client, Kiss::Rate);
        let until = client.slowed_until().unwrap() + 1024 * SECOND;
        served(&mut client, until);
    }
    let at = kissed(&mut client, Kiss::Rate);
    assert_eq!(client.slowed_until(), Some(at + 24 * HOUR));
    let at = kissed(&mut client, Kiss::Deny);
    assert_eq!(client.due() - at, HOUR);
}

#[test]
fn a_forged_kiss_is_void_when_the_answer_comes_all_the_same() {
    for by in [Kiss::Deny, Kiss::Rate, Kiss::Other(*b"XYZ\0")] {
        let mut client = Client::new(CONFIG, 0);
        served(&mut client, 100 * SECOND);
        let (now, request) = ask(&mut client);
        assert_eq!(give(&mut client, &kiss(by, &request), now), Err(Rejection::Kiss(by)));
        assert_eq!(give(&mut client, &kiss(Kiss::Rate, &request), now), Err(Rejection::Unasked), "one is enough");
        assert!(give(&mut client, &honest(&request, NEAR), now).unwrap().exchange.is_some());
        assert_eq!(
            (client.denied_until(), client.slowed_until(), client.due()),
            (None, None, now + 16 * SECOND),
            "{by}"
        );
        assert_eq!(give(&mut client, &kiss(by, &request), now), Err(Rejection::Unasked), "and later it is none");
        let (now, request) = ask(&mut client);
        give(&mut client, &kiss(by, &request), now).unwrap_err();
        let due = client.due();
        let (_, next) = ask(&mut client);
        assert_eq!(
            give(&mut client, &honest(&request, NEAR), due),
            Err(Rejection::Unasked),
            "only until the next request"
        );
        give(&mut client, &honest(&next, NEAR), due).unwrap();
    }
}

#[test]
fn a_broken_counter_is_another_burst_but_not_for_ever_nor_against_the_servers_wish() {
    let requests = |client: &mut Client, until: i64| {
        let times = std::iter::from_fn(|| {
            (client.due() < until).then(|| {
                let (now, request) = ask(client);
                give(client, &honest(&request, NEAR), now).unwrap();
            })
        });
        times.count()
    };
    let mut client = Client::new(CONFIG, 0);
    assert_eq!(requests(&mut client, 100 * SECOND), 8 + 6);
    client.disrupt(100 * SECOND);
    assert_eq!(requests(&mut client, 102 * SECOND), 8);
    // Repeated breaks, found in servers' replies.
    for tenth in 0..600 {
        let now = 102 * SECOND + tenth * SECOND / 10;
        client.disrupt(now);
        requests(&mut client, now + SECOND / 10);
    }
    let (now, request) = ask(&mut client);
    assert!(now > 162 * SECOND);
    let kiss = NtpPacket { stratum: 0, reference_id: Kiss::Rate.to_reference(), ..honest(&request, NEAR) };
    assert!(give(&mut client, &kiss, now).is_err());
    let due = client.due();
    client.disrupt(now + 20 * SECOND);
    assert_eq!(client.due(), due, "it wants to be asked seldom");
}

#[test]
fn an_interleaving_server_tells_when_the_answer_before_left() {
    let mut client = Client::new(ClientConfig { interleaved: true, ..CONFIG }, 0);
    let (now, first) = ask(&mut client);
    assert_eq!((first.origin_timestamp, first.receive_timestamp), (Stamp(0), Stamp(0)));
    assert!(give(&mut client, &honest(&first, NEAR), now).unwrap().exchange.is_some());
    let (now, second) = ask(&mut client);
    assert_eq!(second.origin_timestamp, Stamp::from_unix(NEAR), "names the exchange before");
    assert!(second.receive_timestamp != Stamp(0) && second.receive_timestamp != second.transmit_timestamp);
    let interleave = |request: &NtpPacket, at: i64, before: i64| NtpPacket {
        origin_timestamp: request.receive_timestamp,
        transmit_timestamp: Stamp::from_unix(NEAR.plus(before)),
        ..honest(request, NEAR.plus(at))
    };
    let answer = give(&mut client, &interleave(&second, SECOND, 13_000), now).unwrap();
    assert_eq!((answer.interleaved, answer.exchange), (true, None), "the exchange before was told already");
    let (third_now, third) = ask(&mut client);
    assert_eq!(third.origin_timestamp, Stamp::from_unix(NEAR.plus(SECOND)));
    let answer = give(&mut client, &interleave(&third, 2 * SECOND, SECOND + 12_000), third_now).unwrap();
    let exchange = answer.exchange.unwrap();
    assert_eq!((exchange.sent, exchange.received), (Count(now as u64), Count(now as u64 + 50_000)), "the one before");
    assert_eq!((exchange.server_received, exchange.server_sent), (NEAR.plus(SECOND), NEAR.plus(SECOND + 12_000)));
    // The server has lost its record, and replies in basic mode.
    let (now, fourth) = ask(&mut client);
    let answer = give(&mut client, &honest(&fourth, NEAR.plus(3 * SECOND)), now).unwrap();
    assert_eq!((answer.interleaved, answer.exchange.unwrap().sent), (false, Count(now as u64)));
    // It has a record again: the exchange of basic mode is not reported twice.
    let (now, fifth) = ask(&mut client);
    let answer = give(&mut client, &interleave(&fifth, 4 * SECOND, 3 * SECOND + 11_000), now).unwrap();
    assert_eq!((answer.interleaved, answer.exchange), (true, None));
}

#[test]
fn the_counter_can_stand_in_requests_as_in_2015() {
    let mut client = Client::new(ClientConfig { transmit: TransmitContents::Counter, ..CONFIG }, 77);
    assert_eq!(ask(&mut client).1.transmit_timestamp, Stamp(77));
}
