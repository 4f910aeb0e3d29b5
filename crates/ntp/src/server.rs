//! The server's side of an exchange: a request in, a reply or the reason for silence out. No I/O,
//! no clock, no randomness of its own.
//!
//! | module | purpose |
//! |---|---|
//! | `network` | which clients are allowed |
//! | `limit` | how often a client may send requests |
//! | `host` | what this host announces about its own clock |
//! | `interleaved_cache` | true transmit timestamps of replies, for interleaved mode (RFC 9769) |
//! | `tx_latency` | predicted transmit time of a reply, for basic mode |
//!
//! A reply is one header long, so never longer than its request: the server is no amplifier. Only
//! requests of mode 3 are answered: there is no control mode, no broadcast and no peer.

mod host;
mod interleaved_cache;
mod limit;
mod network;
mod tx_latency;

pub use host::Host;
pub use limit::Rate;
pub use network::{BadNetwork, Network};
pub use tx_latency::TxLatency;

use crate::kiss::Kiss;
use crate::packet::{LeapIndicator, Malformed, Mode, Packet};
use crate::stamp::{Short, Stamp};
use core::net::IpAddr;
use interleaved_cache::InterleavedCache;
use limit::{Limit, Verdict};

/// The server's configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Networks whose clients are allowed; empty: all.
    pub allow: Vec<Network>,
    /// Rate limit of each client; `None`: no limit.
    pub rate: Option<Rate>,
}

/// A received message, and when it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The client's address.
    pub from: IpAddr,
    /// When it arrived, in ns of any monotonic clock.
    pub now: i64,
    /// The same instant by the host's clock.
    pub arrived: Stamp,
}

/// A reply to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    packet: Packet,
    kind: Kind,
    /// What the packet's dispersion was rounded from, in ns.
    dispersion: u64,
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The time, and a predicted transmit timestamp of this reply. `asks`: the request looks like
    /// one of interleaved mode, so the true transmit timestamp is worth recording.
    Basic {
        /// See above.
        asks: bool,
    },
    /// The time, and the true transmit timestamp of the previous reply.
    Interleaved,
    /// No time: a Kiss-o'-Death code.
    Kiss(Kiss),
}

impl Answer {
    /// What the reply says.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether to call [`Server::departed`] when it has left.
    #[must_use]
    pub const fn asks(&self) -> bool {
        matches!(self.kind, Kind::Basic { asks: true } | Kind::Interleaved)
    }

    /// The receive timestamp by which [`Server::departed`] identifies it.
    #[must_use]
    pub const fn receive_timestamp(&self) -> Stamp {
        self.packet.receive_timestamp
    }

    /// The message for a departure at this time, or at most `early` ns earlier.
    #[must_use]
    pub const fn leaving(&self, at: Stamp, early: u64) -> Packet {
        match self.kind {
            Kind::Interleaved => self.packet,
            Kind::Basic { .. } | Kind::Kiss(_) => Packet {
                transmit_timestamp: interleaved_cache::transmit(at),
                root_dispersion: Short::from_ns(self.dispersion.saturating_add(early)),
                ..self.packet
            },
        }
    }
}

/// Why the server sends no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// Not a message of NTP version 3 or 4, or in a mode that is not served.
    #[error("garbage: {0}")]
    Malformed(Malformed),
    /// The message is a reply: two servers must not answer each other for ever.
    #[error("no request")]
    Mode,
    /// The client is not allowed; it has received its DENY kiss.
    #[error("not allowed")]
    NotAllowed,
    /// The client exceeds its rate; it has received its RATE kiss.
    #[error("too often")]
    TooOften,
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    config: Config,
    limit: Limit,
    pairs: InterleavedCache,
}

impl Server {
    /// Allocates all memory of the server. `key` must be unpredictable: an attacker with the key
    /// could make other clients share its bucket.
    #[must_use]
    pub fn new(config: Config, key: [u64; 2]) -> Self {
        let limit = Limit::new(config.rate, key);
        Self { config, limit, pairs: InterleavedCache::new() }
    }

    /// Answers a message with what the host announces about its clock.
    ///
    /// # Errors
    /// Why there is no reply.
    pub fn answer(&mut self, request: Request<'_>, host: &Host) -> Result<Answer, Silence> {
        let Request { bytes, from, now, arrived } = request;
        let (request, _) = Packet::parse(bytes).map_err(Silence::Malformed)?;
        if request.mode != Mode::Client {
            return Err(Silence::Mode);
        }
        let from = from.to_canonical();
        let received = interleaved_cache::receive(arrived);
        let kiss = |kiss| Answer { packet: refusal(&request, kiss, received), kind: Kind::Kiss(kiss), dispersion: 0 };
        if !self.config.allow.is_empty() && !self.config.allow.iter().any(|network| network.contains(from)) {
            let told = self.limit.tell(from, now);
            return if told { Ok(kiss(Kiss::Deny)) } else { Err(Silence::NotAllowed) };
        }
        match self.limit.take(from, now) {
            Verdict::Within => {}
            Verdict::Tell => return Ok(kiss(Kiss::Rate)),
            Verdict::Beyond => return Err(Silence::TooOften),
        }
        let packet = Packet {
            receive_timestamp: received,
            origin_timestamp: request.transmit_timestamp,
            ..host.answer(&request)
        };
        // RFC 9769 §2: a request of interleaved mode has a receive timestamp that differs from its
        // transmit timestamp, and as origin the receive timestamp of an earlier reply.
        let asks = request.receive_timestamp != request.transmit_timestamp
            && interleaved_cache::is_receive(request.origin_timestamp);
        Ok(match self.pairs.get(request.origin_timestamp).filter(|_| asks) {
            Some(transmitted) => {
                let packet =
                    Packet { origin_timestamp: request.receive_timestamp, transmit_timestamp: transmitted, ..packet };
                Answer { packet, kind: Kind::Interleaved, dispersion: host.dispersion }
            }
            None => Answer { packet, kind: Kind::Basic { asks }, dispersion: host.dispersion },
        })
    }

    /// Records the true transmit timestamp of the reply with this receive timestamp.
    pub fn departed(&mut self, received: Stamp, left: Stamp) {
        self.pairs.insert(received, interleaved_cache::transmit(left));
    }
}

/// A Kiss-o'-Death reply (RFC 5905 §7.4). Its origin proves to the client that it is no blind
/// forgery.
const fn refusal(request: &Packet, kiss: Kiss, received: Stamp) -> Packet {
    Packet {
        leap: LeapIndicator::Unknown,
        version: request.version,
        mode: Mode::Server,
        stratum: 0,
        reference_id: kiss.to_reference(),
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: received,
        ..Packet::request(Stamp(0))
    }
}
