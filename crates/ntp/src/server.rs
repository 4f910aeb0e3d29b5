//! The server's side of an exchange: a request in, an answer out, or the reason why there is none.
//! No I/O, no clock, no randomness of its own.
//!
//! | module | purpose |
//! |---|---|
//! | `network` | who may ask |
//! | `limit` | how often |
//! | `host` | what this host says of its own clock |
//! | `pairs` | when answers really left, for interleaved mode (RFC 9769) |
//! | `pace` | when an answer will leave, for basic mode |
//!
//! An answer is as long as a header, so never longer than what was asked: nobody can use this
//! server to make more of his traffic. Only requests of mode 3 are answered: there is no control
//! mode, no broadcast and no peer.

mod host;
mod limit;
mod network;
mod pace;
mod pairs;

pub use host::Host;
pub use limit::Rate;
pub use network::{BadNetwork, Network};
pub use pace::Pace;

use crate::kiss::Kiss;
use crate::packet::{LeapIndicator, Malformed, Mode, Packet};
use crate::stamp::{Short, Stamp};
use core::net::IpAddr;
use limit::{Limit, Verdict};
use pairs::Pairs;

/// What the user wants of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Who may ask; nobody named: everybody.
    pub allow: Vec<Network>,
    /// How often each may ask; `None`: as often as he likes.
    pub rate: Option<Rate>,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    packet: Packet,
    kind: Kind,
    /// What the packet's dispersion was rounded from, in ns.
    dispersion: u64,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The time, and when this answer leaves as far as one can tell beforehand. `asks`: the request
    /// looks like one of interleaved mode, so it is worth to find out when the answer really
    /// leaves.
    Basic {
        /// See above.
        asks: bool,
    },
    /// The time, and when the answer before really left.
    Interleaved,
    /// That there is none.
    Kiss(Kiss),
}

impl Answer {
    /// What it says.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether to tell [`Server::departed`] when it has left.
    #[must_use]
    pub const fn asks(&self) -> bool {
        matches!(self.kind, Kind::Basic { asks: true } | Kind::Interleaved)
    }

    /// The stamp by which [`Server::departed`] knows it.
    #[must_use]
    pub const fn received(&self) -> Stamp {
        self.packet.received
    }

    /// The message, if it leaves at this time, or by at most `early` ns earlier.
    #[must_use]
    pub const fn leaving(&self, at: Stamp, early: u64) -> Packet {
        match self.kind {
            Kind::Interleaved => self.packet,
            Kind::Basic { .. } | Kind::Kiss(_) => Packet {
                transmitted: pairs::transmit(at),
                root_dispersion: Short::from_ns(self.dispersion.saturating_add(early)),
                ..self.packet
            },
        }
    }
}

/// Why nothing is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// No message of NTP version 3 or 4, or one of modes that are not served.
    #[error("garbage: {0}")]
    Malformed(Malformed),
    /// An answer: two servers must not talk with each other for ever.
    #[error("no request")]
    Mode,
    /// He may not ask, and was told so.
    #[error("not allowed")]
    NotAllowed,
    /// He asks too often, and was told so.
    #[error("too often")]
    TooOften,
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    config: Config,
    limit: Limit,
    pairs: Pairs,
}

impl Server {
    /// All its memory is taken here. `key` is from a source that nobody can guess: who knows it
    /// could have others share his limit.
    #[must_use]
    pub fn new(config: Config, key: [u64; 2]) -> Self {
        let limit = Limit::new(config.rate, key);
        Self { config, limit, pairs: Pairs::new() }
    }

    /// Answers what came from `from` at `now`, in ns of any clock that only runs forward; `arrived`
    /// is the same moment by the host's clock.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn answer(
        &mut self,
        request: &[u8],
        from: IpAddr,
        now: i64,
        arrived: Stamp,
        host: &Host,
    ) -> Result<Answer, Silence> {
        let (request, _) = Packet::parse(request).map_err(Silence::Malformed)?;
        if request.mode != Mode::Client {
            return Err(Silence::Mode);
        }
        let from = from.to_canonical();
        let received = pairs::receive(arrived);
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
        let packet = Packet { received, origin: request.transmitted, ..host.answer(&request) };
        // RFC 9769 §2: a request of interleaved mode has two different numbers, and as origin the
        // receive stamp of an answer before.
        let asks = request.received != request.transmitted && pairs::is_receive(request.origin);
        Ok(match self.pairs.get(request.origin).filter(|_| asks) {
            Some(transmitted) => {
                let packet = Packet { origin: request.received, transmitted, ..packet };
                Answer { packet, kind: Kind::Interleaved, dispersion: host.dispersion }
            }
            None => Answer { packet, kind: Kind::Basic { asks }, dispersion: host.dispersion },
        })
    }

    /// Remembers when the answer with this receive stamp really left.
    pub fn departed(&mut self, received: Stamp, left: Stamp) {
        self.pairs.insert(received, pairs::transmit(left));
    }
}

/// What is said instead of the time (RFC 5905 §7.4). The origin shows to who asked that it is no
/// forgery.
const fn refusal(request: &Packet, kiss: Kiss, received: Stamp) -> Packet {
    Packet {
        leap: LeapIndicator::Unknown,
        version: request.version,
        mode: Mode::Server,
        stratum: 0,
        reference: kiss.to_reference(),
        origin: request.transmitted,
        received,
        ..Packet::request(Stamp(0))
    }
}
