//! Arbitrary bytes for every parser: the codec, a server, a client, and both halves of NTS, with
//! their invariants.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;
use tickwire_clockpage::{Count, Nanos};
use tickwire_ntp::client::{ClientConfig, Poll, TransmitContents};
use tickwire_ntp::extension::{Extensions, append};
use tickwire_ntp::nts::records::{LONGEST, Reader};
use tickwire_ntp::nts::{Agreement, Association, COOKIES, KEY, Key, RANDOM, Unproven};
use tickwire_ntp::packet::HEADER;
use tickwire_ntp::server::{Network, RateLimit, ReplyKind, SystemVariables};
use tickwire_ntp::{Client, Kiss, LeapIndicator, Mode, NtpPacket, NtpServer, Rejection, Reply, Short, Stamp, server};

const SECOND: i64 = 1_000_000_000;
const NEAR: Nanos = Nanos(1_790_000_000 * SECOND);

/// Runs all of it.
pub(crate) fn check(data: &[u8]) {
    codec(data);
    let (&kind, rest) = data.split_first().unwrap_or((&0, &[]));
    match kind >> 2 & 3 {
        1 => agree(rest),
        2 => prove(rest),
        _ if kind & 1 == 0 => serve(rest),
        _ => ask(rest, kind & 2 == 0),
    }
}

fn codec(data: &[u8]) {
    let Ok((packet, rest)) = NtpPacket::parse(data) else { return };
    assert_eq!(packet.to_bytes(), data[..HEADER], "what is understood is sent as it came");
    let mut covered = 0;
    for extension in Extensions::new(rest) {
        let Ok(extension) = extension else { break };
        assert_eq!(extension.at, covered);
        covered += 4 + extension.body.len();
        assert!(covered <= rest.len());
    }
    let _ = (
        packet.receive_timestamp.to_unix(NEAR),
        packet.root_delay.to_ns(),
        Kiss::from_reference(packet.reference_id).to_string(),
    );
}

/// The fuzzer's records: each a byte that selects an action, and up to 60 bytes.
fn records(data: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (&[what, length], after) = rest.split_first_chunk()?;
        let (record, after) = after.split_at(after.len().min(usize::from(length) % 61));
        rest = after;
        Some((what, record))
    })
}

/// A server with several clients at once.
fn serve(data: &[u8]) {
    // A clone is faster than a new server.
    static NEW: LazyLock<NtpServer> = LazyLock::new(|| {
        let rate = RateLimit { per_second: 8.0, burst: 4 };
        let allow: Vec<Network> = ["192.0.2.0/30", "2001:db8::/126"].map(|text| text.parse().unwrap()).into();
        NtpServer::new(server::ServerConfig { allow, rate: Some(rate) }, [1, 2])
    });
    let mut server = NEW.clone();
    let host = SystemVariables {
        leap: LeapIndicator::None,
        stratum: 2,
        reference_id: 7,
        root_delay: Short(1),
        dispersion: 100_000,
        reference_timestamp: Stamp(9),
    };
    let (mut now, mut last) = (0, None);
    for (what, record) in records(data) {
        let client = u32::from(what & 7);
        let from = if what & 8 == 0 {
            IpAddr::from(Ipv4Addr::from_bits(0xc000_0200 + client))
        } else {
            IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(client)))
        };
        now += i64::from(what >> 4) * SECOND / 32;
        let mut bytes = record.to_vec();
        // A fuzzer cannot guess a receive timestamp; a client has read it.
        if let Some(Stamp(before)) = last.filter(|_| what & 0x10 != 0 && bytes.len() >= HEADER) {
            bytes[24..32].copy_from_slice(&u64::to_be_bytes(before));
        }
        let arrived = Stamp::from_unix(NEAR.plus(now));
        let Ok(answer) = server.answer(server::Request { bytes: &bytes, from, now, arrived }, &host) else { continue };
        let (request, _) = NtpPacket::parse(&bytes).expect("only messages are answered");
        assert_eq!(request.mode, Mode::Client);
        let packet = answer.leaving(Stamp(now as u64), 0);
        assert!(packet.to_bytes().len() <= bytes.len());
        assert_eq!((packet.mode, packet.version), (Mode::Server, request.version));
        assert!(packet.receive_timestamp != Stamp(0) && packet.transmit_timestamp != Stamp(0));
        match answer.kind() {
            ReplyKind::Basic { .. } => {
                assert_eq!((packet.origin_timestamp, packet.stratum), (request.transmit_timestamp, 2))
            }
            ReplyKind::Interleaved => {
                assert_eq!((packet.origin_timestamp, packet.stratum), (request.receive_timestamp, 2))
            }
            ReplyKind::Kiss(kiss) => {
                assert_eq!((packet.origin_timestamp, packet.stratum), (request.transmit_timestamp, 0));
                assert_eq!(kiss == Kiss::Deny, client > 3, "{from}");
            }
        }
        if answer.asks() {
            server.departed(answer.receive_timestamp(), Stamp(now as u64 + 1000));
        }
        last = Some(answer.receive_timestamp());
    }
}

/// A client, and an arbitrary responder.
fn ask(data: &[u8], interleaved: bool) {
    let poll = Poll { usual: SECOND, longest: 64 * SECOND };
    let mut client = Client::new(ClientConfig { poll, transmit: TransmitContents::Nonce, interleaved }, 0);
    let (mut now, mut asked, mut kissed) = (0, None, false);
    for (number, (what, record)) in (1u64..).zip(records(data)) {
        now += i64::from(what >> 3) * SECOND / 8;
        let random = [number, number << 32].map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let due = client.due();
        if let Some(request) = client.request(now, random, Count(now as u64)) {
            assert!(due <= now && client.due() > now);
            assert!(request.transmit_timestamp != Stamp(0) && request.transmit_timestamp != request.receive_timestamp);
            (asked, kissed) = (Some(request), false);
        }
        let mut bytes = record.to_vec();
        // An on-path attacker can return the request's numbers.
        if let Some(request) = asked.filter(|_| bytes.len() >= HEADER) {
            match what & 3 {
                0 => bytes[24..32].copy_from_slice(&request.transmit_timestamp.0.to_be_bytes()),
                1 => bytes[24..32].copy_from_slice(&request.receive_timestamp.0.to_be_bytes()),
                _ => {}
            }
        }
        let (sent, received) = (Count(now as u64), Count(now as u64 + 50_000));
        let answer = client.answer(Reply { bytes: &bytes, sent, received, now, near: NEAR });
        let parsed = NtpPacket::parse(&bytes);
        match answer {
            Ok(answer) => {
                let (packet, request) =
                    (parsed.expect("a message").0, asked.take().expect("asked once, answered once"));
                let right = if answer.interleaved { request.receive_timestamp } else { request.transmit_timestamp };
                assert!(packet.mode == Mode::Server && packet.origin_timestamp == right && packet.stratum != 0);
                assert!(!answer.interleaved || (interleaved && right != Stamp(0)));
                if let Some(exchange) = answer.exchange {
                    assert!(exchange.received.since(exchange.sent) == 50_000);
                    let synchronised = packet.leap != LeapIndicator::Unknown && packet.stratum < 16;
                    assert!(answer.interleaved || exchange.server.synchronised == synchronised);
                }
            }
            Err(Rejection::Kiss(kiss)) => {
                assert!(asked.is_some() && !kissed, "a kiss answers what was asked, once");
                kissed = true;
                match kiss {
                    Kiss::Deny | Kiss::Restricted => {
                        assert!(client.denied_until() == Some(client.due()) && client.due() - now >= 3600 * SECOND);
                    }
                    Kiss::Rate => assert!(client.slowed_until().is_some_and(|end| end - now >= 3600 * SECOND)),
                    Kiss::NtsNak | Kiss::Other(_) => {}
                }
            }
            Err(Rejection::Empty) => {
                asked.take().expect("it answers what was asked");
            }
            Err(Rejection::Malformed(_) | Rejection::Mode | Rejection::Unasked) => {}
        }
        assert!((SECOND..=64 * SECOND).contains(&client.interval()) && client.due() - now <= 24 * 3600 * SECOND);
    }
}

/// A client that establishes keys, and a server that sends arbitrary bytes, in pieces of the length
/// in the first byte.
fn agree(data: &[u8]) {
    let (&piece, rest) = data.split_first().unwrap_or((&0, &[]));
    let whole = Reader::default().take(rest);
    let (mut reader, mut last) = (Reader::default(), Ok(None));
    for piece in rest.chunks(usize::from(piece) + 1) {
        last = reader.take(piece);
        if last != Ok(None) {
            break;
        }
    }
    assert_eq!(whole, last, "it does not matter how it comes");
    if let Ok(Some(Agreement { cookies, server, port })) = whole {
        assert!((1..=COOKIES).contains(&cookies.len()) && cookies.iter().all(|cookie| !cookie.is_empty()));
        assert!(server.is_none_or(|name| !name.is_empty() && name.is_ascii()) && port != Some(0));
        let mut association =
            Association::new(Key::new([1; KEY]), Key::new([2; KEY]), Agreement { cookies, ..Agreement::default() });
        while let Some(request) = association.protect(&NtpPacket::request(Stamp(1)), &[3; RANDOM]) {
            assert!(request.len() <= 1232, "{}", request.len());
        }
    } else {
        assert!(whole.is_err() || rest.len() < LONGEST);
    }
}

/// A client with keys, and an arbitrary responder: it has the right identifier and the right keys
/// only if a bit says so.
fn prove(data: &[u8]) {
    let agreement = Agreement { cookies: vec![vec![7; 20]; COOKIES], ..Agreement::default() };
    let mut association = Association::new(Key::new([1; KEY]), Key::new([2; KEY]), agreement);
    for (number, (what, record)) in (1u8..).zip(records(data)) {
        let random = [number; RANDOM];
        if association.protect(&NtpPacket::request(Stamp(number.into())), &random).is_none() {
            return;
        }
        let stratum = u8::from(what & 8 == 0);
        let reference_id = Kiss::NtsNak.to_reference();
        let answer = NtpPacket { mode: Mode::Server, stratum, reference_id, ..NtpPacket::request(Stamp(0)) };
        let mut bytes = answer.to_bytes().to_vec();
        if what & 1 != 0 {
            append(&mut bytes, 0x0104, &random[..32]);
        }
        if what & 2 == 0 {
            bytes.extend(record);
        }
        let (spent, before) = (association.is_spent(), association.cookies());
        if what & 4 != 0 {
            // Arbitrary bytes, but sealed with the server's key.
            let text = if what & 2 == 0 { &[][..] } else { record };
            let sealed = Key::new([2; KEY]).seal(&bytes, &[4; 16], text);
            let mut body = vec![0, 16, 0, sealed.len() as u8];
            body.extend([4; 16]);
            body.extend(&sealed);
            append(&mut bytes, 0x0404, &body);
        }
        let proved = association.prove(&bytes);
        assert!(association.cookies() <= COOKIES);
        match proved {
            Ok(()) => {
                assert!(what & 5 == 5, "only what the server has sealed, and with the request's identifier");
                assert!(association.cookies() == 0 || !association.is_spent());
                assert_eq!(association.prove(&bytes), Err(Unproven::Unasked), "once");
            }
            Err(why) => {
                assert!(what & 7 != 5 || !record.is_empty(), "{why}");
                assert_eq!(association.cookies(), before);
                assert!(spent == association.is_spent() || (why == Unproven::Nak && stratum == 0));
            }
        }
        let _ = association.prove(record);
    }
}
