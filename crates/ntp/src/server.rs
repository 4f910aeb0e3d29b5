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

pub use host::SystemVariables;
pub use limit::RateLimit;
pub use network::{BadNetwork, Network};
pub use tx_latency::TxLatency;

use crate::kiss::Kiss;
use crate::packet::{LeapIndicator, MalformedPacket, Mode, NtpPacket};
use crate::stamp::{Short, Stamp};
use core::net::IpAddr;
use interleaved_cache::InterleavedCache;
use limit::{Limit, Verdict};

/// The server's configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerConfig {
    /// Networks whose clients are allowed; empty: all.
    pub allow: Vec<Network>,
    /// Rate limit of each client; `None`: no limit.
    pub rate: Option<RateLimit>,
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
pub struct ServerReply {
    packet: NtpPacket,
    kind: ReplyKind,
    /// What the packet's dispersion was rounded from, in ns.
    dispersion: u64,
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyKind {
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

impl ServerReply {
    /// What the reply says.
    #[must_use]
    pub const fn kind(&self) -> ReplyKind {
        self.kind
    }

    /// Whether to call [`NtpServer::departed`] when it has left.
    #[must_use]
    pub const fn asks(&self) -> bool {
        matches!(self.kind, ReplyKind::Basic { asks: true } | ReplyKind::Interleaved)
    }

    /// The receive timestamp by which [`NtpServer::departed`] identifies it.
    #[must_use]
    pub const fn receive_timestamp(&self) -> Stamp {
        self.packet.receive_timestamp
    }

    /// The message for a departure at this time, or at most `early` ns earlier.
    #[must_use]
    pub const fn leaving(&self, at: Stamp, early: u64) -> NtpPacket {
        match self.kind {
            ReplyKind::Interleaved => self.packet,
            ReplyKind::Basic { .. } | ReplyKind::Kiss(_) => NtpPacket {
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
    Malformed(MalformedPacket),
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
pub struct NtpServer {
    config: ServerConfig,
    limit: Limit,
    pairs: InterleavedCache,
}

impl NtpServer {
    /// Allocates all memory of the server. `key` must be unpredictable: an attacker with the key
    /// could make other clients share its bucket.
    #[must_use]
    pub fn new(config: ServerConfig, key: [u64; 2]) -> Self {
        let limit = Limit::new(config.rate, key);
        Self { config, limit, pairs: InterleavedCache::new() }
    }

    /// Answers a message with what the host announces about its clock.
    ///
    /// # Errors
    /// Why there is no reply.
    pub fn answer(&mut self, request: Request<'_>, host: &SystemVariables) -> Result<ServerReply, Silence> {
        let Request { bytes, from, now, arrived } = request;
        let (request, _) = NtpPacket::parse(bytes).map_err(Silence::Malformed)?;
        if request.mode != Mode::Client {
            return Err(Silence::Mode);
        }
        let from = from.to_canonical();
        let received = interleaved_cache::receive(arrived);
        let kiss = |kiss| ServerReply {
            packet: refusal(&request, kiss, received),
            kind: ReplyKind::Kiss(kiss),
            dispersion: 0,
        };
        if !self.config.allow.is_empty() && !self.config.allow.iter().any(|network| network.contains(from)) {
            let told = self.limit.tell(from, now);
            return if told { Ok(kiss(Kiss::Deny)) } else { Err(Silence::NotAllowed) };
        }
        match self.limit.take(from, now) {
            Verdict::Within => {}
            Verdict::Tell => return Ok(kiss(Kiss::Rate)),
            Verdict::Beyond => return Err(Silence::TooOften),
        }
        let packet = NtpPacket {
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
                let packet = NtpPacket {
                    origin_timestamp: request.receive_timestamp,
                    transmit_timestamp: transmitted,
                    ..packet
                };
                ServerReply { packet, kind: ReplyKind::Interleaved, dispersion: host.dispersion }
            }
            None => ServerReply { packet, kind: ReplyKind::Basic { asks }, dispersion: host.dispersion },
        })
    }

    /// Records the true transmit timestamp of the reply with this receive timestamp.
    pub fn departed(&mut self, received: Stamp, left: Stamp) {
        self.pairs.insert(received, interleaved_cache::transmit(left));
    }
}

/// A Kiss-o'-Death reply (RFC 5905 §7.4). Its origin proves to the client that it is no blind
/// forgery.
const fn refusal(request: &NtpPacket, kiss: Kiss, received: Stamp) -> NtpPacket {
    NtpPacket {
        leap: LeapIndicator::Unknown,
        version: request.version,
        mode: Mode::Server,
        stratum: 0,
        reference_id: kiss.to_reference(),
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: received,
        ..NtpPacket::request(Stamp(0))
    }
}
