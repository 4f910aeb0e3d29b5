//! The client's side of an exchange with one server: when to ask, what to send, which answers to
//! believe. No I/O, no clock, no randomness of its own.
//!
//! A request carries two numbers that nobody can guess, one as its transmit stamp and one as its
//! receive stamp. An answer must give one of them back as its origin: the transmit stamp in basic
//! mode (RFC 5905), the receive stamp in interleaved mode (RFC 9769 §2), where the answer's own
//! transmit stamp tells when the answer *before* really left. So a forged answer is believed with
//! probability 2^-63, and a replayed one never.
//!
//! A kiss must give a number back, too, and is obeyed for a bounded time. But who sees the request
//! can forge it, without being able to keep the server's answer back. A server sends one or the
//! other: if an answer to the same request comes as well, the kiss was none.

mod restraint;
mod schedule;

pub use schedule::Poll;

use crate::kiss::Kiss;
use crate::packet::{LeapIndicator, Malformed, Mode, Packet};
use crate::stamp::Stamp;
use schedule::Schedule;
use thiserror::Error;
use tickwire_clock::{Count, Exchange, Nanos, ServerState};

/// What the user wants of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How often to ask.
    pub poll: Poll,
    /// What stands in a request's transmit stamp.
    pub transmit: Transmit,
    /// Whether to ask for the true stamps of answers (RFC 9769). A server that does not offer them
    /// answers as usual.
    pub interleaved: bool,
}

/// What stands in a request's transmit stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transmit {
    /// A number that nobody can guess.
    #[default]
    Nonce,
    /// The counter, as in the paper of 2015: readable in a capture, but an attacker who has seen
    /// one can guess the next.
    Counter,
}

/// Why bytes that came are not the answer waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// No message of ours.
    #[error("garbage: {0}")]
    Malformed(#[from] Malformed),
    /// No answer of a server.
    #[error("not from a server")]
    Mode,
    /// Nothing was asked, or something else: late, doubled, replayed or forged.
    #[error("answers nothing that was asked")]
    Unasked,
    /// The server does not want to serve.
    #[error("{0}")]
    Kiss(Kiss),
    /// A stamp is missing.
    #[error("stamps are missing")]
    Empty,
}

/// An answer that is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The exchange that is complete now, its server stamps in Unix time: this one in basic mode,
    /// the one before in interleaved mode. None if that one was told already.
    pub exchange: Option<Exchange>,
    /// What the server announces for the end of the day.
    pub leap: LeapIndicator,
    /// The server's version.
    pub version: u8,
    /// Whether the server answered in interleaved mode.
    pub interleaved: bool,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    transmit: Stamp,
    receive: Stamp,
}

/// An answered request, whose answer's true transmit stamp may come with the next answer.
#[derive(Clone, Copy, Debug)]
struct Before {
    sent: Count,
    received: Count,
    /// The server's receive stamp, which names the exchange to the server.
    arrived: Stamp,
    server: ServerState,
    /// Whether it was handed out, with the transmit stamp that its own answer had.
    told: bool,
}

/// An association with one server.
#[derive(Clone, Debug)]
pub struct Client {
    config: Config,
    schedule: Schedule,
    asked: Option<Asked>,
    /// A kiss has come for what is asked; the schedule was this before.
    kissed: Option<Schedule>,
    before: Option<Before>,
}

impl Client {
    /// Asks for the first time at `now`, in ns of any clock that only runs forward.
    #[must_use]
    pub const fn new(config: Config, now: i64) -> Self {
        Self { config, schedule: Schedule::new(config.poll, now), asked: None, kissed: None, before: None }
    }

    /// The same, but after its burst it asks as seldom as another one has come to, until it is
    /// answered: that of an address of the same server, which is silent.
    #[must_use]
    pub fn as_seldom_as(mut self, other: &Self) -> Self {
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

    /// The interval between requests that the server allows, in ns: the usual one, or longer if it
    /// has said that it is asked too often. Its silence does not change that.
    #[must_use]
    pub const fn allowed(&self) -> i64 {
        self.schedule.allowed()
    }

    /// Until when the server is left alone because it denies service (DENY, RSTR), if it does.
    #[must_use]
    pub fn denied(&self) -> Option<i64> {
        self.schedule.denied()
    }

    /// When the server may be asked twice as often, if it has said that it is asked too often
    /// (RATE) and does not say so again.
    #[must_use]
    pub fn slowed(&self) -> Option<i64> {
        self.schedule.slowed()
    }

    /// Of the last eight requests those that were answered, the last in the lowest bit (as ntpq's
    /// reach).
    #[must_use]
    pub const fn reach(&self) -> u8 {
        self.schedule.reach()
    }

    /// The request to send at `now`, if one is due. `random` is from a source that nobody can
    /// guess.
    pub fn request(&mut self, now: i64, random: [u64; 2], counter: Count) -> Option<Packet> {
        if now < self.due() {
            return None;
        }
        self.schedule.asked(now);
        let transmit = match self.config.transmit {
            Transmit::Nonce => Stamp(random[0] | 1),
            Transmit::Counter => Stamp(counter.0.max(1)),
        };
        // Never equal to the other one, and never 0: RFC 9769 §2 tells the modes apart by that.
        let receive = Stamp((random[1] | 1) ^ u64::from(random[1] | 1 == transmit.0) << 1);
        let mut packet = Packet::request(transmit);
        if let Some(before) = self.before.filter(|_| self.config.interleaved) {
            packet.interleave(receive, before.arrived);
        }
        (self.asked, self.kissed) = (Some(Asked { transmit, receive }), None);
        Some(packet)
    }

    /// The counter has broken: no exchange may have one end before that and one after. Nothing from
    /// before is waited for or told any more, and the server is asked anew, at once if it allows
    /// that.
    pub fn disrupt(&mut self, now: i64) {
        (self.asked, self.kissed, self.before) = (None, None, None);
        self.schedule.begin_again(now);
    }

    /// Whether these bytes begin as the answer to what is asked does; cheap, for finding the one
    /// among many.
    #[must_use]
    pub fn is_asked(&self, packet: &Packet) -> bool {
        self.mode_of(packet).is_some()
    }

    /// Whether it answers, and in interleaved mode.
    fn mode_of(&self, packet: &Packet) -> Option<bool> {
        // One kiss is enough.
        let asked = self.asked.filter(|_| packet.stratum != 0 || self.kissed.is_none())?;
        if packet.origin == asked.transmit {
            Some(false)
        } else {
            (self.config.interleaved && self.before.is_some() && packet.origin == asked.receive).then_some(true)
        }
    }

    /// Takes in what came at `now`: the request had left at `sent`, and this came at `received`;
    /// the server's clock is near `near`.
    ///
    /// # Errors
    /// Why it is not believed. Only a kiss changes anything, and only one that gives the request's
    /// number back, until the answer comes all the same.
    pub fn answer(
        &mut self,
        bytes: &[u8],
        sent: Count,
        received: Count,
        now: i64,
        near: Nanos,
    ) -> Result<Answer, Rejection> {
        let (packet, _) = Packet::parse(bytes)?;
        if packet.mode != Mode::Server {
            return Err(Rejection::Mode);
        }
        let interleaved = self.mode_of(&packet).ok_or(Rejection::Unasked)?;
        if packet.stratum == 0 {
            let kiss = Kiss::from_reference(packet.reference);
            self.kissed = Some(self.schedule.clone());
            self.schedule.kissed(kiss, now);
            return Err(Rejection::Kiss(kiss));
        }
        self.asked = None;
        if packet.received == Stamp(0) || packet.transmitted == Stamp(0) {
            return Err(Rejection::Empty);
        }
        if let Some(before) = self.kissed.take() {
            self.schedule = before;
        }
        self.schedule.answered(now);
        let server = state(&packet);
        let this = Before { sent, received, arrived: packet.received, server, told: !interleaved };
        let before = self.before.replace(this);
        let unix = |stamp: Stamp| stamp.to_unix(near);
        let exchange = |of: Before| Exchange {
            sent: of.sent,
            server_received: unix(of.arrived),
            server_sent: unix(packet.transmitted),
            received: of.received,
            server: of.server,
            stamp_error: 0,
        };
        // The first answer of interleaved mode is about an exchange of basic mode (RFC 9769 §2).
        // That one is not taken twice: a better stamp does not make two exchanges of one.
        Ok(Answer {
            exchange: if interleaved {
                before.filter(|before| !before.told).map(exchange)
            } else {
                Some(exchange(this))
            },
            leap: packet.leap,
            version: packet.version,
            interleaved,
        })
    }
}

/// What a server says of itself.
const fn state(packet: &Packet) -> ServerState {
    ServerState {
        synchronised: !matches!(packet.leap, LeapIndicator::Unknown) && packet.stratum < 16,
        stratum: packet.stratum,
        reference: packet.reference,
        root_delay: packet.root_delay.to_ns(),
        root_dispersion: packet.root_dispersion.to_ns(),
    }
}
