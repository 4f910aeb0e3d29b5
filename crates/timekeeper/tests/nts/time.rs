//! A time server that authenticates its replies, and what an on-path attacker can make of them.

use crate::keys::Given;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tickclock::Nanos;
use tickwire_ntp::extension::{Extensions, append};
use tickwire_ntp::nts::Key;
use tickwire_ntp::packet::HEADER;
use tickwire_ntp::{Kiss, Mode, NtpPacket, Short, Stamp};

const IDENTIFIER: u16 = 0x0104;
const COOKIE: u16 = 0x0204;
const PLACEHOLDER: u16 = 0x0304;
const SEALED: u16 = 0x0404;

pub(crate) fn unix() -> Nanos {
    Nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64)
}

/// A request, and when it was received.
pub(crate) struct Request {
    packet: NtpPacket,
    received: Nanos,
    identifier: Vec<u8>,
    cookie: Vec<u8>,
    /// How many cookies there is room for in the reply.
    room: usize,
    /// The keys in which it was signed, if they are known.
    pub(crate) keys: Option<(Key, Key)>,
}

impl Request {
    /// `None` for a request without NTS.
    fn parse(bytes: &[u8], given: &Given) -> Option<Self> {
        let received = unix();
        let (packet, rest) = NtpPacket::parse(bytes).ok()?;
        let fields: Vec<_> = Extensions::without_mac(rest).collect::<Result<_, _>>().ok()?;
        let find = |kind| fields.iter().find(|field| field.kind == kind);
        let (identifier, cookie, sealed) = (find(IDENTIFIER)?.body, find(COOKIE)?.body, find(SEALED)?);
        let keys = given.find(cookie);
        if let Some((to_server, _)) = &keys {
            assert_eq!(sealed.body[..4], [0, 16, 0, 16]);
            let open = &bytes[..HEADER + sealed.at];
            let text = to_server.unseal(open, &sealed.body[4..20], &sealed.body[20..]);
            assert_eq!(text.as_deref(), Some(&[][..]), "the request is signed, its transmit stamp included");
        }
        let room = fields.iter().filter(|field| [COOKIE, PLACEHOLDER].contains(&field.kind)).count();
        Some(Self { packet, received, identifier: identifier.into(), cookie: cookie.into(), room, keys })
    }

    fn header(&self, ahead: i64) -> NtpPacket {
        let at = |time: Nanos| Stamp::from_unix(time.plus(ahead));
        NtpPacket {
            mode: Mode::Server,
            stratum: 1,
            root_dispersion: Short(1),
            reference_id: u32::from_be_bytes(*b"TEST"),
            origin_timestamp: self.packet.transmit_timestamp,
            receive_timestamp: at(self.received),
            transmit_timestamp: at(unix()),
            ..self.packet
        }
    }

    /// A reply without a signature, so far ahead of the truth: every attacker that has seen the
    /// request can send it.
    pub(crate) fn bare(&self, ahead: i64) -> Vec<u8> {
        let mut message = self.header(ahead).to_bytes().to_vec();
        append(&mut message, IDENTIFIER, &self.identifier);
        message
    }

    /// The same with a signature by this key.
    pub(crate) fn signed(&self, ahead: i64, key: &Key, given: &Given) -> Vec<u8> {
        let mut message = self.bare(ahead);
        let mut text = Vec::new();
        for _ in 0..self.room {
            append(&mut text, COOKIE, &given.cookie(self.cookie[0]));
        }
        let nonce = [9; 16];
        let sealed = key.seal(&message, &nonce, &text);
        let body = [&16u16.to_be_bytes()[..], &(sealed.len() as u16).to_be_bytes(), &nonce, &sealed].concat();
        append(&mut message, SEALED, &body);
        message
    }

    /// "I do not know the keys".
    pub(crate) fn nak(&self) -> Vec<u8> {
        let packet = NtpPacket { stratum: 0, reference_id: Kiss::NtsNak.to_reference(), ..self.header(0) };
        let mut message = self.bare(0);
        message[..HEADER].copy_from_slice(&packet.to_bytes());
        message
    }

    /// An older reply, made to look as if it answered this.
    pub(crate) fn replay(&self, older: &[u8]) -> Vec<u8> {
        let mut message = older.to_vec();
        let bare = self.bare(0);
        // Origin and identifier are this request's; the signature is not.
        message[24..32].copy_from_slice(&bare[24..32]);
        message[HEADER..bare.len()].copy_from_slice(&bare[HEADER..]);
        message
    }
}

/// The requests received, with and without NTS.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) with: AtomicUsize,
    pub(crate) without: AtomicUsize,
}

/// Answers with what `answers` makes of each request, until `end` is set.
pub(crate) fn serve(
    socket: &UdpSocket,
    end: &AtomicBool,
    given: &Given,
    heard: &Heard,
    mut answers: impl FnMut(&Request) -> Vec<Vec<u8>>,
) {
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut bytes, mut seen) = ([0; 2000], std::collections::HashSet::new());
    while !end.load(Ordering::Relaxed) {
        let Ok((length, client)) = socket.recv_from(&mut bytes) else { continue };
        let Some(request) = Request::parse(&bytes[..length], given) else {
            heard.without.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        heard.with.fetch_add(1, Ordering::Relaxed);
        assert!(seen.insert(request.cookie.clone()), "no cookie is used twice");
        for answer in answers(&request) {
            assert!(answer.len() <= length, "no answer is longer than its request");
            socket.send_to(&answer, client).unwrap();
        }
    }
}
