//! The client's side of an exchange with one server: when to send a request, its contents, and
//! which replies to accept. No I/O, no clock, no randomness of its own.
//!
//! A request carries two unpredictable numbers, one as its transmit timestamp and one as its
//! receive timestamp. A reply must return one of them as its origin: the transmit timestamp in
//! basic mode (RFC 5905), the receive timestamp in interleaved mode (RFC 9769 §2). In interleaved
//! mode the reply's own transmit timestamp is the true departure of the *previous* reply. So a
//! blind forgery is accepted with probability 2^-63, and a replayed reply never.
//!
//! A kiss must return a number, too, and is obeyed for a bounded time. But an on-path attacker that
//! sees the request can forge a kiss without suppressing the server's reply. A server sends one or
//! the other: if a reply to the same request also arrives, the kiss is void.

mod kod_backoff;
mod schedule;

pub use schedule::Poll;

use crate::kiss::Kiss;
use crate::packet::{LeapIndicator, MalformedPacket, Mode, NtpPacket};
use crate::stamp::Stamp;
use schedule::Schedule;
use thiserror::Error;
use tickwire_clockpage::{Count, Nanos};

/// The configuration of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The poll intervals.
    pub poll: Poll,
    /// The contents of a request's transmit timestamp.
    pub transmit: TransmitContents,
    /// Whether to request interleaved mode (RFC 9769). A server without it replies in basic mode.
    pub interleaved: bool,
}

/// The contents of a request's transmit timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransmitContents {
    /// An unpredictable number.
    #[default]
    Nonce,
    /// The counter, as in the paper of 2015: readable in a capture, but an attacker that has seen
    /// one can guess the next.
    Counter,
}

/// Why a received message is not the expected reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// Not an NTP message of version 3 or 4.
    #[error("garbage: {0}")]
    Malformed(#[from] MalformedPacket),
    /// Not a server's reply.
    #[error("not from a server")]
    Mode,
    /// No request is pending, or another one: the message is late, duplicated, replayed or forged.
    #[error("answers nothing that was asked")]
    Unasked,
    /// The server refuses service (Kiss-o'-Death).
    #[error("{0}")]
    Kiss(Kiss),
    /// A timestamp is missing.
    #[error("stamps are missing")]
    Empty,
}

/// A received message, and the timestamps of the exchange that it may complete.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The counter when the last request left.
    pub sent: Count,
    /// The counter when this message arrived.
    pub received: Count,
    /// When it is processed, in ns of the clock that requests are scheduled by.
    pub now: i64,
    /// The approximate time by the server's clock.
    pub near: Nanos,
}

/// The four timestamps of a completed exchange, and the server's variables in its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedExchange {
    /// The counter when the request left.
    pub sent: Count,
    /// The server's clock when the request arrived.
    pub server_received: Nanos,
    /// The server's clock when the reply left.
    pub server_sent: Nanos,
    /// The counter when the reply arrived.
    pub received: Count,
    /// What the server announced about itself.
    pub server: ServerVariables,
}

/// What a server announces about itself: its system variables (RFC 5905 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVariables {
    /// Whether it is synchronised: leap indicator not 3, stratum 1 to 15.
    pub synchronised: bool,
    /// Stratum: hops from the reference clock.
    pub stratum: u8,
    /// Reference ID: an address or a name.
    pub reference_id: u32,
    /// Root delay: round trip to the reference, in ns.
    pub root_delay: u64,
    /// Root dispersion: its maximum error without `root_delay`, in ns.
    pub root_dispersion: u64,
}

/// A valid reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedReply {
    /// The exchange that is now complete, its server timestamps in Unix time: this one in basic
    /// mode, the previous one in interleaved mode. None if the previous one was already reported.
    pub exchange: Option<CompletedExchange>,
    /// What the server announces for the end of the day.
    pub leap: LeapIndicator,
    /// The server's version.
    pub version: u8,
    /// Whether the server answered in interleaved mode.
    pub interleaved: bool,
}

/// The pending request, and the numbers one of which its reply must return.
#[derive(Clone, Copy, Debug)]
struct OutstandingRequest {
    transmit: Stamp,
    receive: Stamp,
}

/// An answered request; the next reply may carry the true transmit timestamp of its reply.
#[derive(Clone, Copy, Debug)]
struct AnsweredRequest {
    sent: Count,
    received: Count,
    /// The server's receive timestamp, which identifies the exchange to the server.
    server_received: Stamp,
    server: ServerVariables,
    /// Whether the exchange was already reported with its own reply's transmit timestamp.
    reported: bool,
}

/// The mode of a reply (RFC 9769 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyMode {
    Basic,
    Interleaved,
}

/// An association with one server.
#[derive(Clone, Debug)]
pub struct Client {
    config: ClientConfig,
    schedule: Schedule,
    outstanding: Option<OutstandingRequest>,
    /// The pending request received a kiss; this is the schedule before it.
    schedule_before_kiss: Option<Schedule>,
    previous: Option<AnsweredRequest>,
}

impl Client {
    /// The first request is due at `now`, in ns of any monotonic clock.
    #[must_use]
    pub const fn new(config: ClientConfig, now: i64) -> Self {
        Self {
            config,
            schedule: Schedule::new(config.poll, now),
            outstanding: None,
            schedule_before_kiss: None,
            previous: None,
        }
    }

    /// The same, but after its burst it polls as slowly as `other` until it receives a reply.
    /// `other` is the association with another address of the same server, which is silent.
    #[must_use]
    pub fn polling_no_faster_than(mut self, other: &Self) -> Self {
        self.schedule.slow_down(other.interval());
        self
    }

    /// When to call [`Self::request`] next.
    #[must_use]
    pub const fn due(&self) -> i64 {
        self.schedule.due()
    }

    /// The interval between requests now, in ns.
    #[must_use]
    pub const fn interval(&self) -> i64 {
        self.schedule.interval()
    }

    /// The poll interval that the server permits, in ns: the usual one, or longer after RATE
    /// kisses. Its silence does not change this.
    #[must_use]
    pub const fn permitted_interval(&self) -> i64 {
        self.schedule.permitted()
    }

    /// Until when no request is sent because the server denies service (DENY, RSTR), if it does.
    #[must_use]
    pub fn denied_until(&self) -> Option<i64> {
        self.schedule.denied_until()
    }

    /// After a RATE kiss: when the poll rate may double again, if no further RATE arrives.
    #[must_use]
    pub fn slowed_until(&self) -> Option<i64> {
        self.schedule.slowed_until()
    }

    /// The reachability register: of the last eight requests those that were answered, the latest
    /// in the lowest bit (as ntpq's reach).
    #[must_use]
    pub const fn reach(&self) -> u8 {
        self.schedule.reach()
    }

    /// The request to send at `now`, if one is due. `random` must be unpredictable.
    pub fn request(&mut self, now: i64, random: [u64; 2], counter: Count) -> Option<NtpPacket> {
        if now < self.due() {
            return None;
        }
        self.schedule.on_request(now);
        let transmit = match self.config.transmit {
            TransmitContents::Nonce => Stamp(random[0] | 1),
            TransmitContents::Counter => Stamp(counter.0.max(1)),
        };
        // Never equal to the transmit timestamp, and never 0: RFC 9769 §2 distinguishes the modes
        // by that.
        let receive = Stamp((random[1] | 1) ^ u64::from(random[1] | 1 == transmit.0) << 1);
        let mut packet = NtpPacket::request(transmit);
        if let Some(previous) = self.previous.filter(|_| self.config.interleaved) {
            packet.interleave(receive, previous.server_received);
        }
        self.outstanding = Some(OutstandingRequest { transmit, receive });
        self.schedule_before_kiss = None;
        Some(packet)
    }

    /// The counter is discontinuous: no exchange may span the break. Drops all pending and recorded
    /// exchanges, and sends a new request, at once if the server permits that.
    pub fn disrupt(&mut self, now: i64) {
        (self.outstanding, self.schedule_before_kiss, self.previous) = (None, None, None);
        self.schedule.begin_again(now);
    }

    /// Whether this header matches the pending request; a cheap filter for many messages.
    #[must_use]
    pub fn answers_pending(&self, packet: &NtpPacket) -> bool {
        self.mode_of(packet).is_some()
    }

    /// The mode in which it answers the pending request, if it does.
    fn mode_of(&self, packet: &NtpPacket) -> Option<ReplyMode> {
        // One kiss is enough.
        let outstanding = self.outstanding.filter(|_| packet.stratum != 0 || self.schedule_before_kiss.is_none())?;
        if packet.origin_timestamp == outstanding.transmit {
            return Some(ReplyMode::Basic);
        }
        let offered = self.config.interleaved && self.previous.is_some();
        (offered && packet.origin_timestamp == outstanding.receive).then_some(ReplyMode::Interleaved)
    }

    /// Processes a received message.
    ///
    /// # Errors
    /// Why it is rejected. Only a kiss changes state, and only one that returns the request's
    /// number; a reply that still arrives undoes it.
    pub fn answer(&mut self, reply: Reply<'_>) -> Result<AcceptedReply, Rejection> {
        let Reply { bytes, sent, received, now, near } = reply;
        let (packet, _) = NtpPacket::parse(bytes)?;
        if packet.mode != Mode::Server {
            return Err(Rejection::Mode);
        }
        let mode = self.mode_of(&packet).ok_or(Rejection::Unasked)?;
        if packet.stratum == 0 {
            let kiss = Kiss::from_reference(packet.reference_id);
            self.schedule_before_kiss = Some(self.schedule.clone());
            self.schedule.on_kiss(kiss, now);
            return Err(Rejection::Kiss(kiss));
        }
        self.outstanding = None;
        if packet.receive_timestamp == Stamp(0) || packet.transmit_timestamp == Stamp(0) {
            return Err(Rejection::Empty);
        }
        if let Some(before_kiss) = self.schedule_before_kiss.take() {
            self.schedule = before_kiss;
        }
        self.schedule.on_reply(now);
        let interleaved = mode == ReplyMode::Interleaved;
        let this = AnsweredRequest {
            sent,
            received,
            server_received: packet.receive_timestamp,
            server: server_variables(&packet),
            reported: !interleaved,
        };
        let previous = self.previous.replace(this);
        let unix = |stamp: Stamp| stamp.to_unix(near);
        let exchange = |of: AnsweredRequest| CompletedExchange {
            sent: of.sent,
            server_received: unix(of.server_received),
            server_sent: unix(packet.transmit_timestamp),
            received: of.received,
            server: of.server,
        };
        // The first reply in interleaved mode completes an exchange of basic mode (RFC 9769 §2).
        // That one is not reported again: a better timestamp does not make two exchanges of one.
        Ok(AcceptedReply {
            exchange: if interleaved {
                previous.filter(|previous| !previous.reported).map(exchange)
            } else {
                Some(exchange(this))
            },
            leap: packet.leap,
            version: packet.version,
            interleaved,
        })
    }
}

/// What a server announces about itself.
const fn server_variables(packet: &NtpPacket) -> ServerVariables {
    ServerVariables {
        synchronised: !matches!(packet.leap, LeapIndicator::Unknown) && packet.stratum < 16,
        stratum: packet.stratum,
        reference_id: packet.reference_id,
        root_delay: packet.root_delay.to_ns(),
        root_dispersion: packet.root_dispersion.to_ns(),
    }
}
