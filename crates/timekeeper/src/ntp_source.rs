//! One NTP server and its association: sends requests when they are due, and processes the replies.

use crate::cards::Cards;
use crate::config::{TimekeeperConfig, TransmitSetting};
use crate::log_rate_limit::LogRateLimit;
use crate::random;
use crate::report::SourceReport;
use crate::resolver::{Address, ResolvedServer, Resolver};
use crate::server_config::PolledServer;
use crate::source::{Measurement, Source, silence_timeout};
use crate::stamp_choice::{StampChoice, Stamps};
use crate::tally::Tally;
use md5::{Digest, Md5};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use tickclock::{Count, CounterKind, Nanos, Scale};
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::{Exchange, ServerState};
use tickwire_ntp::client::{self, Poll};
use tickwire_ntp::nts::Unproven;
use tickwire_ntp::socket::NtpSocket;
use tickwire_ntp::{AcceptedReply, Client, CompletedExchange, Kiss, LeapIndicator, Rejection, Reply, ServerVariables};
use tickwire_stamping::Quality;
use tickwire_stamping::hardware::Lack;
use tracing::{debug, info, warn};

const SECOND: i64 = 1_000_000_000;
/// Interval at which the result of a pending name lookup is polled, in ns.
const LOOK: i64 = SECOND / 20;
/// Interval at which the transmit timestamp of a request still in the host is polled, in ns.
const LEAVING: i64 = SECOND / 200;
/// After so many unanswered requests the next address of the name is polled. After the last address
/// the name is looked up again: the server may have moved.
const MOVED: u32 = 8;
/// An address that denies service is left for another address of the name after so many ns. If the
/// server's reply arrives as well, the denial was forged.
const LEAVE: i64 = SECOND;

/// Why a reply of a server that gets its time from this host is not used.
const LOOP: &str = "the server follows this host (loop)";

/// The kind of an exchange's timestamps; or why it is dropped, because other exchanges have the
/// card's.
type Kind = Result<Quality, Lack>;

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
    silent: u32,
    /// When the last usable reply came, or else since when it has been polled.
    heard: i64,
    /// The silence timeout that the clock uses for it.
    silence_timeout: i64,
    /// When it denied service, or was opened despite a denial: another address is polled as soon as
    /// there is one.
    denied: Option<i64>,
    /// The source of which this one is a duplicate.
    twin: Option<String>,
    log_limit: LogRateLimit,
    /// Of the previous exchange: when its request left, and the kind of its timestamps.
    before: Option<(Count, Kind)>,
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
            silent: 0,
            heard: now,
            silence_timeout: silence_timeout(settings.poll.usual),
            denied: None,
            twin: None,
            log_limit: LogRateLimit::default(),
            before: None,
            stamp_choice: StampChoice::default(),
            tally: Tally::default(),
        }
    }

    /// An exchange was used at `now`.
    fn was_used(&mut self, now: i64) {
        self.tally.used += 1;
        self.tally.last = Some(now);
        self.tally.refusal = None;
        self.heard = now;
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
            Address::Asked(_) => None,
            Address::Known(_) => Some(self.client.due()),
        }
    }

    /// Runs what is due: lookup, key establishment, request. Returns an address that was found, to
    /// be [opened](Self::open) unless another source polls it.
    fn advance(&mut self, now: i64, cards: &mut Cards) -> Option<ResolvedServer> {
        let silent = self.silent >= MOVED;
        let found = self.resolver.turn(now, &self.client, silent, &mut self.log_limit);
        if found.is_some() || self.resolver.socket().is_none() {
            return found;
        }
        self.move_on(now).or_else(|| {
            self.ask(now, cards);
            None
        })
    }

    /// The address to poll instead of one that does not answer or denies service. If there is no
    /// other, the name is looked up again.
    fn move_on(&mut self, now: i64) -> Option<ResolvedServer> {
        // With NTS the name is looked up again when no cookie is left.
        if self.resolver.needs_keys() {
            return None;
        }
        self.denied = self.denied.filter(|_| self.client.denied_until().is_some());
        let denied = self.denied.is_some_and(|at| now.saturating_sub(at) >= LEAVE);
        let silent = self.silent >= MOVED && now >= self.client.due();
        if !(denied || silent) {
            return None;
        }
        let next = self.resolver.another(now);
        if next.is_none() && self.resolver.look_up_anew(now) {
            self.silent = 0;
        }
        next
    }

    /// Sends a request if one is due, and if the keys that NTS needs are there.
    fn ask(&mut self, now: i64, cards: &mut Cards) {
        if now < self.client.due() || !self.resolver.has_keys(now, self.silent >= MOVED) {
            return;
        }
        let request = |socket: &NtpSocket| self.client.request(now, random::words(), socket.counter());
        let Some((socket, bytes)) = self.resolver.request(request) else { return };
        self.silent = self.silent.saturating_add(1);
        let peer = socket.peer();
        let card = peer.ok_or("not connected".into()).and_then(|peer| cards.toward(peer, now));
        let used = socket.use_card(card.as_ref().ok());
        self.tally.no_card = used.map_err(|error| error.to_string()).and(card.map(drop)).err();
        if let Err(error) = socket.send(&bytes) {
            debug!(server = self.name, %error, "the request could not be sent");
        }
    }

    /// Another source polls its address: one server has one vote. Returns another address of its
    /// name to try instead. If there is none, no request is sent until the next lookup, which may
    /// give another server.
    fn set_aside(&mut self, twin: &str, address: SocketAddr, now: i64) -> Option<ResolvedServer> {
        if let Some(other) = self.resolver.another(now) {
            return Some(other);
        }
        if self.twin.as_deref() != Some(twin) && self.log_limit.take(now) {
            warn!(server = self.name, as_well_as = twin, %address, "two names of one server: it is asked once, and has one vote");
        }
        self.twin = Some(twin.to_owned());
        self.resolver.set_aside(now);
        None
    }

    /// Starts to poll this address, or continues with new keys. Returns another address to try
    /// instead if this one cannot be polled.
    fn open(&mut self, found: ResolvedServer, now: i64) -> Option<ResolvedServer> {
        let address = found.address();
        if self.resolver.take_keys(found) {
            return None;
        }
        match NtpSocket::open(address, self.kind, self.nominal.period()) {
            Ok(socket) => {
                let before = self.resolver.is_at(address, socket);
                // The silence timeout starts with the first request, and anew after the source was
                // a duplicate.
                if before.is_none() || self.twin.is_some() {
                    self.heard = now;
                }
                // An unchanged address keeps the poll interval that its silence has led to. A new
                // one gets a burst, unless its server has limited the rate before.
                if before != Some(address) {
                    // A name is looked up repeatedly while no server answers.
                    if self.log_limit.take(now) {
                        info!(server = self.name, %address, nts = self.resolver.needs_keys(), "asking");
                    }
                    let new = || {
                        let new = Client::new(self.settings, now);
                        if self.client.denied_until().is_some() { new } else { new.polling_no_faster_than(&self.client) }
                    };
                    self.client = self.resolver.change_address(before, address, &self.client).unwrap_or_else(new);
                    self.client.disrupt(now);
                    self.before = None;
                }
                // An address that is tried again despite its denial is left again as soon as there
                // is another.
                (self.twin, self.denied, self.silent) = (None, self.client.denied_until().map(|_| now), 0);
                None
            }
            Err(error) => {
                let other = self.resolver.another(now);
                if other.is_none() {
                    if self.log_limit.take(now) {
                        warn!(server = self.name, %address, %error, "the server cannot be asked");
                    }
                    let why = format!("it cannot be asked at {address}: {error}");
                    self.resolver.cannot_be_asked(why, now, &self.client);
                }
                other
            }
        }
    }

    /// Processes received packets; `near` is the approximate time.
    fn replies(&mut self, now: i64, near: Nanos, mut take: impl FnMut(Result<Measurement, String>)) {
        let Some(socket) = self.resolver.socket_mut() else { return };
        let mut all = Vec::new();
        let client = &self.client;
        let mut garbage = Vec::new();
        socket.receive(|packet| client.answers_pending(packet), |received| all.push(received), |why| garbage.push(why));
        let own = socket.local().map(|local| reference(local.ip()));
        for malformed in garbage {
            take(Err(malformed.map_or(Rejection::Unasked, Rejection::Malformed).to_string()));
        }
        for received in all {
            let received = match received {
                Ok(received) => received,
                Err(lost) => {
                    take(Err(lost.to_string()));
                    continue;
                }
            };
            if let Err(unproven) = self.resolver.prove(&received.bytes) {
                if unproven == Unproven::Nak && self.log_limit.take(now) {
                    warn!(server = self.name, "{unproven}");
                }
                take(Err(unproven.to_string()));
                continue;
            }
            self.silent = 0;
            let card = received.hardware.map(|card| card.inspect_err(|&lack| self.tally.lacks(lack)));
            let ([sent, came], kind) = match (self.stamp_choice.take(card.map(|card| card.is_ok())), card) {
                (Stamps::Card, Some(Ok(ends))) => (ends, Ok(Quality::Hardware)),
                (Stamps::Neither, Some(Err(lack))) => ([received.sent, received.received], Err(lack)),
                _ => ([received.sent, received.received], Ok(received.quality)),
            };
            let before = self.before;
            let reply = Reply { bytes: &received.bytes, sent, received: came, now, near };
            match self.client.answer(reply) {
                Ok(AcceptedReply { exchange: Some(exchange), leap, interleaved, .. }) => {
                    self.tally.interleaved = Some(interleaved);
                    let announced = match leap {
                        LeapIndicator::Insert => Announcement::Insert,
                        LeapIndicator::Delete => Announcement::Delete,
                        LeapIndicator::None | LeapIndicator::Unknown => Announcement::None,
                    };
                    self.before = Some((sent, kind));
                    // In interleaved mode this reply completes the previous exchange.
                    let told = before.filter(|before| before.0 == exchange.sent && exchange.sent != sent);
                    match told.map_or(kind, |(_, kind)| kind) {
                        Ok(_) if follows(&exchange.server, own) => take(Err(LOOP.into())),
                        Ok(quality) => {
                            let exchange = measured(&exchange, quality);
                            take(Ok(Measurement { exchange, announced, quality }));
                        }
                        Err(lack) => take(Err(lack.to_string())),
                    }
                }
                Ok(AcceptedReply { exchange: None, .. }) => self.before = Some((sent, kind)),
                Err(Rejection::Kiss(kiss)) => {
                    let hours = |until: i64| ((until - now) as f64 / 3.6e12 * 10.0).round() / 10.0;
                    self.denied = self.client.denied_until().map(|_| now);
                    if self.log_limit.take(now) {
                        let poll_s = self.client.interval() as f64 * 1e-9;
                        match (self.client.denied_until(), self.client.slowed_until()) {
                            (Some(until), _) => {
                                warn!(server = self.name, hours = hours(until), "{kiss}: it is left alone for so long");
                            }
                            (None, Some(until)) if kiss == Kiss::Rate => {
                                let hours = hours(until);
                                warn!(server = self.name, poll_s, hours, "{kiss}: less often for so long at least");
                            }
                            (None, _) => warn!(server = self.name, "{kiss}"),
                        }
                    }
                    take(Err(kiss.to_string()));
                }
                Err(rejection) => take(Err(rejection.to_string())),
            }
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
        self.twin.is_none() && self.resolver.asked().is_some_and(|mine| plain(mine) == plain(address))
    }

    fn is_duplicate(&self) -> bool {
        self.twin.is_some()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        if self.is_leaving() { None } else { self.resolver.socket().map(NtpSocket::as_fd) }
    }

    fn wakeup(&self, now: i64) -> i64 {
        let looks = self.resolver.is_looking_up().then_some(now + LOOK);
        let leaves = self.is_leaving().then_some(now + LEAVING);
        [self.due(), looks, leaves].into_iter().flatten().min().unwrap_or(i64::MAX)
    }

    fn receive(&mut self, now: i64, near: Nanos) -> Vec<Measurement> {
        let (mut measured, mut refused) = (Vec::new(), Vec::new());
        self.replies(now, near, |one| match one {
            Ok(one) => measured.push(one),
            Err(why) => refused.push(why),
        });
        for why in refused {
            debug!(server = self.name, why, "answer rejected");
            self.tally.refuse(why, now);
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
        self.before = None;
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
        now > self.heard.saturating_add(silence_timeout(self.client.permitted_interval()))
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

/// Whether a server's reference ID is this host's address toward it: then it returns our own time
/// (RFC 5905 §7.3). At stratum 1 the reference ID is a name.
fn follows(server: &ServerVariables, own: Option<u32>) -> bool {
    server.stratum > 1 && own == Some(server.reference_id)
}

/// An exchange as the estimator's input.
const fn measured(exchange: &CompletedExchange, quality: Quality) -> Exchange {
    let ServerVariables { synchronised, stratum, reference_id, root_delay, root_dispersion } = exchange.server;
    Exchange {
        sent: exchange.sent,
        server_received: exchange.server_received,
        server_sent: exchange.server_sent,
        received: exchange.received,
        server: ServerState { synchronised, stratum, reference: reference_id, root_delay, root_dispersion },
        stamp_error: quality.stamp_error(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::Failure;
    use crate::resolver::LookupResult;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::net::UdpSocket;
    use tickwire_ntp::{Mode, NtpPacket, Stamp};

    #[test]
    fn servers_are_named_as_others_name_them() {
        for (address, expected) in
            [("192.0.2.1", 0xc000_0201), ("::ffff:192.0.2.1", 0xc000_0201), ("2001:db8::1", 0x39ab_9b37)]
        {
            assert_eq!(reference(address.parse().unwrap()), expected, "{address}");
        }
    }

    /// A source with a name that is never looked up.
    fn source() -> (NtpSource, Cards) {
        let server = PolledServer::named("time.example").unwrap();
        let nominal = Scale::from_period(1.0).unwrap();
        let source = NtpSource::new(&TimekeeperConfig::default(), &server, CounterKind::MonotonicRaw, nominal, 0);
        (source, Cards::new(crate::config::HardwareStamps::Never))
    }

    impl NtpSource {
        /// Its name was looked up, and has these addresses.
        pub(crate) fn tell(&mut self, all: &[&UdpSocket]) {
            let all = all.iter().map(|socket| socket.local_addr().unwrap()).collect();
            self.resolver.be_looked_up().send(Ok(LookupResult::Addresses(all))).unwrap();
        }

        /// When its next lookup or request is due.
        pub(crate) fn next_due(&self) -> Option<i64> {
            self.due()
        }

        /// Waits until a reply is in its socket.
        pub(crate) fn await_reply(&self) {
            let socket = self.resolver.socket().unwrap().as_fd();
            let mut readable = [PollFd::new(socket, PollFlags::POLLIN)];
            assert_eq!(poll(&mut readable, PollTimeout::from(10_000u16)), Ok(1));
        }
    }

    fn tell(source: &mut NtpSource, all: &[&UdpSocket]) {
        source.tell(all);
    }

    /// An iteration of the daemon's loop.
    fn turn(source: &mut NtpSource, now: i64) {
        source.run(now, &mut Cards::new(crate::config::HardwareStamps::Never), &|_| None);
    }

    /// Runs until the name is to be looked up, but not after `until`; returns the time.
    fn turns(source: &mut NtpSource, mut now: i64, until: i64) -> i64 {
        loop {
            turn(source, now);
            let due = source.due().unwrap_or(now);
            if matches!(source.resolver.address(), Address::Due(_)) || due > until {
                return now;
            }
            now = due.max(now);
        }
    }

    fn server() -> UdpSocket {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        server
    }

    /// The requests that a server has received.
    fn requests(server: &UdpSocket) -> Vec<(NtpPacket, SocketAddr)> {
        let one = || {
            let mut bytes = [0; 48];
            let (_, from) = server.recv_from(&mut bytes).ok()?;
            Some((NtpPacket::parse(&bytes).unwrap().0, from))
        };
        std::iter::from_fn(one).collect()
    }

    fn answer(request: &NtpPacket) -> NtpPacket {
        NtpPacket {
            mode: Mode::Server,
            stratum: 1,
            origin_timestamp: request.transmit_timestamp,
            receive_timestamp: Stamp(1 << 32),
            transmit_timestamp: Stamp(2 << 32),
            ..*request
        }
    }

    fn kiss(by: Kiss, request: &NtpPacket) -> NtpPacket {
        NtpPacket { stratum: 0, reference_id: by.to_reference(), ..answer(request) }
    }

    /// The source receives what a server has sent; returns the number of completed exchanges.
    fn get(source: &mut NtpSource, now: i64) -> usize {
        source.await_reply();
        source.receive(now, Nanos(0)).len()
    }

    #[test]
    fn a_server_that_does_not_answer_is_asked_at_its_next_address_at_once() {
        let (dead, alive) = (server(), server());
        let (mut source, _) = source();
        tell(&mut source, &[&dead, &alive]);
        // Eight requests of a burst, time for the last reply, and then those to the next address.
        let now = turns(&mut source, 0, 3 * SECOND);
        assert_eq!((requests(&dead).len(), source.peer()), (8, Some(alive.local_addr().unwrap())));
        let (request, from) = requests(&alive).pop().unwrap();
        alive.send_to(&answer(&request).to_bytes(), from).unwrap();
        assert_eq!(get(&mut source, now), 1);
        source.was_used(now);
        // The server falls silent. The first address may be back; the name is looked up only after
        // it was tried.
        let now = turns(&mut source, now, 3600 * SECOND);
        assert!(!requests(&dead).is_empty() && matches!(source.resolver.address(), Address::Due(at) if *at == now));
        assert!((64 * SECOND..100 * SECOND).contains(&now), "{now}");
        // Unsuccessful: the wait doubles, and grows while no server answers.
        tell(&mut source, &[&dead, &alive]);
        let again = turns(&mut source, now, 3600 * SECOND);
        assert!((128 * SECOND..256 * SECOND).contains(&(again - now)), "{}", again - now);
        requests(&dead);
        requests(&alive);
        let (mut now, begin, mut day) = (again, again, 0);
        while now < begin + 86_400 * SECOND {
            tell(&mut source, &[&dead, &alive]);
            now = turns(&mut source, now, i64::MAX);
            day += requests(&dead).len() + requests(&alive).len();
        }
        assert!((500..3_000).contains(&day), "{day} requests in a day of silence");
    }

    #[test]
    fn an_address_that_this_host_cannot_reach_is_passed_over_at_once() {
        let alive = server();
        let (mut source, _) = source();
        // A connection to it is refused: broadcast is not allowed.
        let nowhere = SocketAddr::from(([255, 255, 255, 255], 123));
        let all = vec![nowhere, alive.local_addr().unwrap()];
        source.resolver.be_looked_up().send(Ok(LookupResult::Addresses(all))).unwrap();
        turn(&mut source, 0);
        assert_eq!(source.peer(), Some(alive.local_addr().unwrap()));
        source.resolver.be_looked_up().send(Ok(LookupResult::Addresses(vec![nowhere]))).unwrap();
        turn(&mut source, 1);
        assert!(
            matches!(source.resolver.address(), Address::Due(_)) && source.why_silent(1).contains("255.255.255.255")
        );
    }

    #[test]
    fn a_denial_leads_to_the_next_address_unless_it_was_forged() {
        for forged in [false, true] {
            let (denies, other) = (server(), server());
            let (mut source, _) = source();
            tell(&mut source, &[&denies, &other]);
            turn(&mut source, 0);
            turn(&mut source, 1);
            let (request, from) = requests(&denies).pop().unwrap();
            denies.send_to(&kiss(Kiss::Deny, &request).to_bytes(), from).unwrap();
            assert_eq!(get(&mut source, 2), 0);
            assert_eq!(source.why_silent(2), "the server denies service");
            turn(&mut source, 3);
            assert_eq!(source.peer(), Some(denies.local_addr().unwrap()), "its answer may be on its way");
            if forged {
                denies.send_to(&answer(&request).to_bytes(), from).unwrap();
                assert_eq!(get(&mut source, 4), 1);
            }
            let now = turns(&mut source, SECOND + 3, 3600 * SECOND);
            if forged {
                assert!(requests(&denies).len() > 5, "it is asked on");
                continue;
            }
            assert_eq!((requests(&denies).len(), requests(&other).is_empty()), (0, false));
            // The other address is silent, and the denial holds for an hour.
            assert!((64 * SECOND..200 * SECOND).contains(&now), "{now}");
            tell(&mut source, &[&denies, &other]);
            turn(&mut source, now);
            assert_eq!(source.peer(), Some(other.local_addr().unwrap()));
        }
    }

    /// A server answers a request with a denial; returns a time at which that has been processed.
    fn deny(source: &mut NtpSource, server: &UdpSocket, now: i64) -> i64 {
        turn(source, now);
        let (request, from) = requests(server).pop().unwrap();
        server.send_to(&kiss(Kiss::Deny, &request).to_bytes(), from).unwrap();
        assert_eq!(get(source, now + 1), 0);
        now + 1
    }

    /// Runs once a second until the name is to be looked up; returns the time.
    fn seconds(source: &mut NtpSource, mut now: i64) -> i64 {
        for _ in 0..3600 {
            turn(source, now);
            if matches!(source.resolver.address(), Address::Due(_)) {
                return now;
            }
            now += SECOND;
        }
        panic!("the name is never looked up");
    }

    #[test]
    fn a_name_whose_only_server_denies_service_is_followed_when_it_moves() {
        let (denies, moved) = (server(), server());
        let (mut source, _) = source();
        tell(&mut source, &[&denies]);
        turn(&mut source, 0);
        let mut now = deny(&mut source, &denies, 0);
        // The server has not moved yet: it is not polled again, and its name is looked up at
        // growing intervals.
        for silence_timeout in [64, 128, 256] {
            let again = seconds(&mut source, now);
            assert!(
                (silence_timeout..silence_timeout + 3).contains(&((again - now) / SECOND)),
                "{silence_timeout}: {}",
                again - now
            );
            tell(&mut source, &[&denies]);
            turn(&mut source, again);
            assert!(source.peer().is_some() && requests(&denies).is_empty());
            now = again;
        }
        now = seconds(&mut source, now);
        tell(&mut source, &[&moved]);
        turn(&mut source, now);
        turn(&mut source, now);
        assert_eq!((requests(&moved).len(), source.client.denied_until()), (1, None));
    }

    #[test]
    fn a_silent_address_has_another_turn_after_the_last_one_has_denied_service() {
        for dead_first in [true, false] {
            let (dead, denies) = (server(), server());
            let both = if dead_first { [&dead, &denies] } else { [&denies, &dead] };
            let (mut source, _) = source();
            tell(&mut source, &[&dead, &denies]);
            let now = turns(&mut source, 0, 3 * SECOND);
            assert_eq!((requests(&dead).len(), source.peer()), (8, Some(denies.local_addr().unwrap())));
            requests(&denies);
            let now = deny(&mut source, &denies, now + SECOND);
            let now = seconds(&mut source, now);
            assert!((64 * SECOND..70 * SECOND).contains(&now), "{now}");
            tell(&mut source, &both);
            for second in 0..4 {
                turn(&mut source, now + second * SECOND);
            }
            assert!(!requests(&dead).is_empty() && requests(&denies).is_empty());
            assert_eq!(source.peer(), Some(dead.local_addr().unwrap()));
        }
    }

    #[test]
    fn why_nothing_comes_is_told_as_it_is() {
        let server = server();
        let (mut source, mut cards) = source();
        let tell_it = source.resolver.be_looked_up();
        assert_eq!(source.why_silent(0), "it is still being looked up");
        tell_it.send(Err(Failure::new("no such name", "try again"))).unwrap();
        assert!(source.advance(0, &mut cards).is_none());
        assert_eq!(source.why_silent(0), "no such name: try again");
        tell(&mut source, &[&server]);
        turn(&mut source, 0);
        turn(&mut source, 0);
        assert_eq!(source.why_silent(0), "no answer comes");
        source.tally.refuse("the server is not synchronised".into(), SECOND);
        assert_eq!(source.why_silent(2 * SECOND), "the server is not synchronised");
        assert_eq!(source.why_silent(60 * SECOND), "no answer comes", "that was long ago");
    }

    #[test]
    fn known_addresses_are_asked_on_while_the_name_cannot_be_looked_up() {
        let (one, other) = (server(), server());
        let (mut source, _) = source();
        tell(&mut source, &[&one, &other]);
        let mut now = turns(&mut source, 0, 3600 * SECOND);
        // Servers and resolver are unreachable together. The name is looked up as rarely as if the
        // lookups succeeded.
        for silence_timeout in [64, 128, 256] {
            assert!(!requests(&one).is_empty() && !requests(&other).is_empty());
            source.resolver.be_looked_up().send(Err(Failure::new("no such name", "try again"))).unwrap();
            let again = turns(&mut source, now, i64::MAX);
            assert!(again - now > 2 * silence_timeout * SECOND, "{silence_timeout}: {}", again - now);
            now = again;
        }
        source.resolver.be_looked_up().send(Err(Failure::new("no such name", "try again"))).unwrap();
        turn(&mut source, now);
        requests(&one);
        now = turns(&mut source, now, now + SECOND);
        let (request, from) = requests(&one).pop().unwrap();
        one.send_to(&answer(&request).to_bytes(), from).unwrap();
        assert_eq!(get(&mut source, now), 1, "the servers are back before the resolver is");
    }

    #[test]
    fn a_name_that_is_not_found_any_more_leaves_its_address_to_others() {
        // With NTS: without it the known addresses are still polled.
        let server = PolledServer { nts: true, ..PolledServer::named("time.example").unwrap() };
        let nominal = Scale::from_period(1.0).unwrap();
        let mut source = NtpSource::new(&TimekeeperConfig::default(), &server, CounterKind::MonotonicRaw, nominal, 0);
        let mut cards = Cards::new(crate::config::HardwareStamps::Never);
        let address = "127.0.0.1:123".parse().unwrap();
        source.open(ResolvedServer::Address(address), 0);
        let tell = source.resolver.be_looked_up();
        assert!(source.advance(1, &mut cards).is_none() && source.polls(address), "while it is looked up anew");
        tell.send(Err(Failure::new("no such name", ""))).unwrap();
        assert!(source.advance(2, &mut cards).is_none() && !source.polls(address));
    }
}
