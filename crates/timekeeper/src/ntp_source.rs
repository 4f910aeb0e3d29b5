//! One NTP server and its association.
//!
//! `run`: lookup -> open -> request. `receive`: authenticate -> choose stamps -> `Client::answer`
//! -> [`Measurement`]. Which address: the next one of the name if this one does not answer or
//! denies service; after the last, the name is looked up again.
//!
//! | module | purpose |
//! |---|---|
//! | `addresses` | which address of the name is polled, and for how long without a reply |
//! | `replies` | what a reply becomes: a measurement, or a reason why it is not used |

mod addresses;
mod replies;
#[cfg(test)]
mod tests;

use crate::cards::Cards;
use crate::config::{TimekeeperConfig, TransmitSetting};
use crate::log_rate_limit::LogRateLimit;
use crate::os::{self, BorrowedSocket};
use crate::random;
use crate::report::SourceReport;
use crate::resolver::{Address, Resolver};
use crate::server_config::PolledServer;
use crate::source::{Measurement, Source, silence_timeout};
use crate::stamp_choice::StampChoice;
use crate::tally::Tally;
use md5::{Digest, Md5};
use replies::PreviousExchange;
use std::net::{IpAddr, SocketAddr};
use tickclock::{CounterKind, Nanos, Scale};
use tickwire_ntp::Client;
use tickwire_ntp::client::{self, Poll};
use tickwire_ntp::socket::NtpSocket;
use tickwire_stamping::Quality;
use tracing::debug;

const SECOND: i64 = 1_000_000_000;
/// Interval at which the result of a pending name lookup is polled, in ns.
const LOOKUP_POLL: i64 = SECOND / 20;
/// Interval at which the transmit timestamp of a request still in the host is polled, in ns.
const TX_STAMP_POLL: i64 = SECOND / 200;

/// One NTP server as a source of time.
#[derive(Debug)]
pub(crate) struct NtpSource {
    /// Its name in logs and reports.
    name: String,
    resolver: Resolver,
    client: Client,
    settings: client::ClientConfig,
    kind: CounterKind,
    nominal: Scale,
    /// Unanswered requests in a row.
    unanswered: u32,
    /// When the last usable reply came, or else since when it has been polled.
    silent_since: i64,
    /// The silence timeout that the clock uses for it.
    silence_timeout: i64,
    /// When it denied service, or was opened despite a denial: another address is polled as soon as
    /// there is one.
    denied: Option<i64>,
    /// The source of which this one is a duplicate.
    twin: Option<String>,
    log_limit: LogRateLimit,
    previous_exchange: Option<PreviousExchange>,
    stamp_choice: StampChoice,
    /// Statistics for the report.
    tally: Tally,
}

impl NtpSource {
    pub(crate) fn new(
        config: &TimekeeperConfig,
        server: &PolledServer,
        kind: CounterKind,
        nominal: Scale,
        now: i64,
    ) -> Self {
        let ns = |seconds: f64| (seconds * 1e9) as i64;
        let settings = client::ClientConfig {
            poll: Poll { usual: ns(config.poll), longest: ns(config.longest_poll) },
            transmit: match config.transmit {
                TransmitSetting::Nonce => client::TransmitContents::Nonce,
                TransmitSetting::Counter => client::TransmitContents::Counter,
            },
            interleaved: server.interleaved,
        };
        Self {
            name: server.label(),
            resolver: Resolver::new(server, now),
            client: Client::new(settings, now),
            settings,
            kind,
            nominal,
            unanswered: 0,
            silent_since: now,
            silence_timeout: silence_timeout(settings.poll.usual),
            denied: None,
            twin: None,
            log_limit: LogRateLimit::default(),
            previous_exchange: None,
            stamp_choice: StampChoice::default(),
            tally: Tally::default(),
        }
    }

    /// An exchange was used at `now`.
    fn was_used(&mut self, now: i64) {
        self.tally.used += 1;
        self.tally.last = Some(now);
        self.tally.refusal = None;
        self.silent_since = now;
        self.resolver.answered();
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.resolver.socket().and_then(NtpSocket::peer)
    }

    /// Whether its socket must not be waited for: see [`NtpSocket::is_leaving`].
    fn is_leaving(&self) -> bool {
        self.resolver.socket().is_some_and(NtpSocket::is_leaving)
    }

    /// When [`Self::advance`] has something to do.
    fn due(&self) -> Option<i64> {
        match self.resolver.address() {
            Address::Due(at) => Some(*at),
            Address::Pending(_) => None,
            Address::Known(_) => Some(self.client.due()),
        }
    }

    /// Sends a request if one is due, and if the keys that NTS needs are there.
    fn send_request_if_due(&mut self, now: i64, cards: &mut Cards) {
        let unresponsive = self.is_unresponsive();
        if now < self.client.due() || !self.resolver.has_keys(now, unresponsive) {
            return;
        }
        let request = |socket: &NtpSocket| self.client.request(now, random::words(), socket.counter());
        let Some((socket, bytes)) = self.resolver.request(request) else { return };
        self.unanswered = self.unanswered.saturating_add(1);
        let peer = socket.peer();
        let card = peer.ok_or("not connected".into()).and_then(|peer| cards.toward(peer, now));
        let used = socket.use_card(card.as_ref().ok());
        #[cfg(windows)]
        socket.use_observer(cards.observer.as_ref());
        self.tally.no_card = used.map_err(|error| error.to_string()).and(card.map(drop)).err();
        if let Err(error) = socket.send(&bytes) {
            debug!(server = self.name, %error, "the request could not be sent");
        }
    }
}

impl Source for NtpSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, now: i64, cards: &mut Cards, twin: &dyn Fn(SocketAddr) -> Option<String>) {
        let mut next = self.advance(now, cards);
        // Take the first of its addresses that no other source polls and that this host has a route
        // to.
        while let Some(found) = next.take() {
            let address = found.address();
            next = match twin(address) {
                Some(twin) => self.set_aside(&twin, address, now),
                None => self.open(found, now),
            };
        }
    }

    /// Also while its name is being looked up again.
    fn polls(&self, address: SocketAddr) -> bool {
        let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        self.twin.is_none() && self.resolver.polled().is_some_and(|mine| plain(mine) == plain(address))
    }

    fn is_duplicate(&self) -> bool {
        self.twin.is_some()
    }

    fn socket(&self) -> Option<BorrowedSocket<'_>> {
        if self.is_leaving() { None } else { self.resolver.socket().map(os::borrow) }
    }

    fn is_imminent(&self) -> bool {
        self.resolver.socket().is_some_and(NtpSocket::is_imminent)
    }

    fn is_readable(&self) -> bool {
        self.resolver.socket().is_some_and(NtpSocket::is_readable)
    }

    fn wakeup(&self, now: i64) -> i64 {
        let looks = self.resolver.is_looking_up().then_some(now + LOOKUP_POLL);
        let leaves = self.is_leaving().then_some(now + TX_STAMP_POLL);
        [self.due(), looks, leaves].into_iter().flatten().min().unwrap_or(i64::MAX)
    }

    fn receive(&mut self, now: i64, near: Nanos) -> Vec<Measurement> {
        let mut measured = Vec::new();
        for outcome in self.process_replies(now, near) {
            match outcome {
                Ok(measurement) => measured.push(measurement),
                Err(why) => {
                    debug!(server = self.name, why, "answer rejected");
                    self.tally.refuse(why, now);
                }
            }
        }
        measured
    }

    fn processed(&mut self, now: i64, quality: Quality, outcome: Result<(), String>) {
        self.tally.stamped(quality);
        match outcome {
            Ok(()) => self.was_used(now),
            Err(why) => self.tally.refuse(why, now),
        }
    }

    /// Drops the pending request and the incomplete exchange.
    fn disrupt(&mut self, now: i64) {
        self.client.disrupt(now);
        self.previous_exchange = None;
        if let Some(socket) = self.resolver.socket_mut() {
            socket.disrupt();
        }
    }

    /// A server that limits the rate is not silent between two requests.
    fn new_silence_timeout(&mut self) -> Option<i64> {
        let new = silence_timeout(self.client.permitted_interval());
        (std::mem::replace(&mut self.silence_timeout, new) != new).then_some(new)
    }

    fn is_silent(&self, now: i64) -> bool {
        now > self.silent_since.saturating_add(silence_timeout(self.client.permitted_interval()))
    }

    fn why_silent(&self, now: i64) -> &str {
        if let Some(why) = self.resolver.why_unknown() {
            return why;
        }
        if self.client.denied_until().is_some() {
            return "the server denies service";
        }
        // A refusal from before the silence does not explain the silence.
        let said = self.tally.refusal.as_ref().filter(|(_, at)| now.saturating_sub(*at) <= self.silence_timeout / 2);
        said.map_or("no answer comes", |(why, _)| why)
    }

    fn reference(&self) -> u32 {
        self.peer().map_or(0, |peer| reference(peer.ip()))
    }

    fn report(&self, now: i64) -> SourceReport {
        let (client, tally) = (&self.client, &self.tally);
        let left = |until: i64| (until - now).max(0) as f64 * 1e-9;
        SourceReport {
            name: self.name.clone(),
            address: self.peer().map(|peer| peer.to_string()),
            reach: client.reach(),
            poll_s: client.interval() as f64 * 1e-9,
            asked: client.denied_until().is_none(),
            denied_s: client.denied_until().map(left),
            slowed_s: client.slowed_until().map(left),
            last_s: tally.last.map(|last| (now - last) as f64 * 1e-9),
            stamps: tally.quality.map(|quality| quality.name().into()),
            stamped: tally.stamps.iter().map(|(kind, count)| (kind.name().into(), *count)).collect(),
            no_card: tally.no_card.clone(),
            lacking: tally.lacking.iter().map(|(lack, count)| (lack.to_string(), *count)).collect(),
            interleaved: tally.interleaved,
            nts: self.resolver.report(),
            used: tally.used,
            refused: tally.refused.clone(),
            ..SourceReport::default()
        }
    }
}

/// A server's address as a 32-bit reference ID. MD5 hides nothing here: all servers use it, so that
/// each recognises its own address in another's reply.
fn reference(address: IpAddr) -> u32 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let hash = Md5::digest(address.octets());
            u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
        }
    }
}
