//! One server, and the association with it: it is asked in time, and what it answers is taken in.

use crate::cards::Cards;
use crate::config::{Config, Server, Transmit};
use crate::ration::Ration;
use crate::report::NtsReport;
use crate::stamped::{By, Stamped};
use crate::tally::Tally;
use crate::whereabouts::{Address, Found, Whereabouts};
use md5::{Digest, Md5};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use tickclock::{Count, CounterKind, Scale};
use tickwire_clock::keeper::leap::Announcement;
use tickwire_clock::{Exchange, Nanos, ServerState};
use tickwire_ntp::client::{self, Poll};
use tickwire_ntp::hardware::Lack;
use tickwire_ntp::nts::Unproven;
use tickwire_ntp::socket::{Quality, Socket};
use tickwire_ntp::{Answer, Client, Kiss, LeapIndicator, Rejection};
use tracing::{debug, info, warn};

const SECOND: i64 = 1_000_000_000;
/// A server is silent that has told nothing for so many intervals, and as many ns beside; and the
/// clock is in holdover when the one that it follows is.
const INTERVALS: i64 = 8;
const BESIDE: i64 = 2 * SECOND;
/// After so many silent requests the next of the name's addresses is asked, and after the last one
/// the name is looked up anew: the server may have moved.
const MOVED: u32 = 8;
/// Who denies service is left for another address of the name after so many ns: if the server's
/// answer comes, too, somebody else has denied it.
const LEAVE: i64 = SECOND;

/// For how long a server that is asked so often may tell nothing, all in ns.
pub(crate) const fn patience(interval: i64) -> i64 {
    interval.saturating_mul(INTERVALS).saturating_add(BESIDE)
}

/// Why an answer is not used of a server that has the time from here.
const LOOP: &str = "the server follows this host (loop)";

/// What has come of an exchange.
pub(crate) struct Came {
    pub(crate) exchange: Exchange,
    pub(crate) announced: Announcement,
    pub(crate) quality: Quality,
}

/// Whose stamps an exchange has; or why it is not to be used, because others have the card's.
type Kind = Result<Quality, Lack>;

/// One server.
#[derive(Debug)]
pub(crate) struct Source {
    /// What people call it.
    name: String,
    whereabouts: Whereabouts,
    client: Client,
    settings: client::Config,
    kind: CounterKind,
    nominal: Scale,
    /// Requests in a row that were not answered.
    silent: u32,
    /// When it told something usable last, or else since when it has been asked.
    heard: i64,
    /// For how long the clock was told to wait for it.
    patience: i64,
    /// When it has denied service, or has been opened although it does: another address is to be
    /// asked, as soon as there is one.
    denied: Option<i64>,
    /// The server of which it is only another name.
    twin: Option<String>,
    ration: Ration,
    /// Of the exchange before: when its request left, and of what kind its stamps were.
    before: Option<(Count, Kind)>,
    stamped: Stamped,
    /// What the daemon tells of it.
    tally: Tally,
}

impl Source {
    pub(crate) fn new(config: &Config, server: &Server, kind: CounterKind, nominal: Scale, now: i64) -> Self {
        let ns = |seconds: f64| (seconds * 1e9) as i64;
        let settings = client::Config {
            poll: Poll { usual: ns(config.poll), longest: ns(config.longest_poll) },
            transmit: match config.transmit {
                Transmit::Nonce => client::Transmit::Nonce,
                Transmit::Counter => client::Transmit::Counter,
            },
            interleaved: server.interleaved,
        };
        Self {
            name: server.label(),
            whereabouts: Whereabouts::new(server, now),
            client: Client::new(settings, now),
            settings,
            kind,
            nominal,
            silent: 0,
            heard: now,
            patience: patience(settings.poll.usual),
            denied: None,
            twin: None,
            ration: Ration::default(),
            before: None,
            stamped: Stamped::default(),
            tally: Tally::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// An exchange was used at `now`.
    pub(crate) fn was_used(&mut self, now: i64) {
        self.tally.used += 1;
        self.tally.last = Some(now);
        self.tally.refusal = None;
        self.heard = now;
        self.whereabouts.answered();
    }

    /// For how long the clock is to wait for it, if that has changed: a server that wants to be
    /// asked seldom is not silent in between.
    pub(crate) fn new_patience(&mut self) -> Option<i64> {
        let new = patience(self.client.allowed());
        (std::mem::replace(&mut self.patience, new) != new).then_some(new)
    }

    /// Whether it has told nothing usable for so long that it does not count any more.
    pub(crate) const fn is_silent(&self, now: i64) -> bool {
        now > self.heard.saturating_add(patience(self.client.allowed()))
    }

    /// Why nothing usable comes, if nothing does.
    pub(crate) fn why_silent(&self, now: i64) -> &str {
        if let Some(why) = self.whereabouts.why_unknown() {
            return why;
        }
        if self.client.denied().is_some() {
            return "the server denies service";
        }
        // What it said before it fell silent is not why it is.
        let said = self.tally.refusal.as_ref().filter(|(_, at)| now.saturating_sub(*at) <= self.patience / 2);
        said.map_or("no answer comes", |(why, _)| why)
    }

    pub(crate) const fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Its address, once known.
    pub(crate) fn address(&self) -> Option<String> {
        self.peer().map(|peer| peer.to_string())
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.whereabouts.socket().and_then(Socket::peer)
    }

    /// Its name in the answers of a server that follows it (RFC 5905 §7.3); 0 if its address is not
    /// known.
    pub(crate) fn reference(&self) -> u32 {
        self.peer().map_or(0, |peer| reference(peer.ip()))
    }

    /// What to wait for.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.whereabouts.socket().map(Socket::as_fd)
    }

    /// Whether it must not be waited for: see [`Socket::is_leaving`].
    pub(crate) fn is_leaving(&self) -> bool {
        self.whereabouts.socket().is_some_and(Socket::is_leaving)
    }

    /// When [`Self::run`] has something to do.
    pub(crate) fn due(&self) -> Option<i64> {
        match self.whereabouts.address() {
            Address::Due(at) => Some(*at),
            Address::Asked(_) => None,
            Address::Known(_) => Some(self.client.due()),
        }
    }

    /// Whether a name is being looked up, which shows by looking only.
    pub(crate) const fn is_looking_up(&self) -> bool {
        self.whereabouts.is_looking_up()
    }

    /// How it is authenticated, if it is to be.
    pub(crate) fn nts(&self) -> Option<NtsReport> {
        self.whereabouts.report()
    }

    /// Looks up, agrees on keys, asks: whatever is due. Gives what has been found and is to be
    /// [opened](Self::open), if it is nobody else's.
    pub(crate) fn run(&mut self, now: i64, random: [u64; 2], cards: &mut Cards) -> Option<Found> {
        let silent = self.silent >= MOVED;
        let found = self.whereabouts.turn(now, &self.client, silent, &mut self.ration);
        if found.is_some() || self.whereabouts.socket().is_none() {
            return found;
        }
        self.move_on(now).or_else(|| {
            self.ask(now, random, cards);
            None
        })
    }

    /// Where to ask instead of an address that does not answer, or denies service. If there is no
    /// other, its name is looked up anew.
    fn move_on(&mut self, now: i64) -> Option<Found> {
        // With NTS it is looked up anew when no cookie is left.
        if self.whereabouts.needs_keys() {
            return None;
        }
        self.denied = self.denied.filter(|_| self.client.denied().is_some());
        let denied = self.denied.is_some_and(|at| now.saturating_sub(at) >= LEAVE);
        let silent = self.silent >= MOVED && now >= self.client.due();
        if !(denied || silent) {
            return None;
        }
        let next = self.whereabouts.another(now);
        if next.is_none() && self.whereabouts.look_up_anew(now) {
            self.silent = 0;
        }
        next
    }

    /// Asks, if it is time to, and if there are keys where there must be.
    fn ask(&mut self, now: i64, random: [u64; 2], cards: &mut Cards) {
        if now < self.client.due() || !self.whereabouts.has_keys(now, self.silent >= MOVED) {
            return;
        }
        let request = |socket: &Socket| self.client.request(now, random, socket.counter());
        let Some((socket, bytes)) = self.whereabouts.request(request) else { return };
        self.silent = self.silent.saturating_add(1);
        let peer = socket.peer();
        let card = peer.ok_or("not connected".into()).and_then(|peer| cards.toward(peer, now));
        let used = socket.use_card(card.as_ref().ok());
        self.tally.no_card = used.map_err(|error| error.to_string()).and(card.map(drop)).err();
        if let Err(error) = socket.send(&bytes) {
            debug!(server = self.name, %error, "the request could not be sent");
        }
    }

    /// The counter has broken: nothing from before is waited for, or completed by what comes.
    pub(crate) fn disrupt(&mut self, now: i64) {
        self.client.disrupt(now);
        self.before = None;
        if let Some(socket) = self.whereabouts.socket_mut() {
            socket.disrupt();
        }
    }

    /// Whether this is its address, also while its name is being looked up anew.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        self.twin.is_none() && self.whereabouts.asked().is_some_and(|mine| plain(mine) == plain(address))
    }

    /// Of which other server it is only another name, if it is.
    pub(crate) fn twin(&self) -> Option<&str> {
        self.twin.as_deref()
    }

    /// Its address is that of another one, too: one server has one vote. Gives another address of
    /// its name to try instead. If there is none, nobody is asked until it is looked up again: the
    /// name may mean another one some day.
    pub(crate) fn set_aside(&mut self, twin: &str, address: SocketAddr, now: i64) -> Option<Found> {
        if let Some(other) = self.whereabouts.another(now) {
            return Some(other);
        }
        if self.twin.as_deref() != Some(twin) && self.ration.take(now) {
            warn!(server = self.name, as_well_as = twin, %address, "two names of one server: it is asked once, and has one vote");
        }
        self.twin = Some(twin.to_owned());
        self.whereabouts.set_aside(now);
        None
    }

    /// Begins to ask at this address, or goes on with other keys. Gives another one to try instead
    /// if this one cannot be asked.
    pub(crate) fn open(&mut self, found: Found, now: i64) -> Option<Found> {
        let address = found.address();
        if self.whereabouts.take_keys(found) {
            return None;
        }
        match Socket::open(address, self.kind, self.nominal.period()) {
            Ok(socket) => {
                let before = self.whereabouts.is_at(address, socket);
                // Its time to answer begins when it is asked for the first time, or again after
                // another one was in its place.
                if before.is_none() || self.twin.is_some() {
                    self.heard = now;
                }
                // A server that is where it was goes on as slowly as its silence has made it;
                // another one gets a burst, unless it has wanted to be asked seldom.
                if before != Some(address) {
                    // A name is looked up again and again while nobody answers.
                    if self.ration.take(now) {
                        info!(server = self.name, %address, nts = self.whereabouts.needs_keys(), "asking");
                    }
                    let new = || {
                        let new = Client::new(self.settings, now);
                        if self.client.denied().is_some() { new } else { new.as_seldom_as(&self.client) }
                    };
                    self.client = self.whereabouts.change_address(before, address, &self.client).unwrap_or_else(new);
                    self.client.disrupt(now);
                    self.before = None;
                }
                // One that is tried again though it has denied service is left again as soon as
                // there is another.
                (self.twin, self.denied, self.silent) = (None, self.client.denied().map(|_| now), 0);
                None
            }
            Err(error) => {
                let other = self.whereabouts.another(now);
                if other.is_none() {
                    if self.ration.take(now) {
                        warn!(server = self.name, %address, %error, "the server cannot be asked");
                    }
                    let why = format!("it cannot be asked at {address}: {error}");
                    self.whereabouts.cannot_be_asked(why, now, &self.client);
                }
                other
            }
        }
    }

    /// Takes in what has come; `near` is about the time now.
    pub(crate) fn receive(&mut self, now: i64, near: Nanos, mut take: impl FnMut(Result<Came, String>)) {
        let Some(socket) = self.whereabouts.socket_mut() else { return };
        let mut all = Vec::new();
        let client = &self.client;
        let mut garbage = Vec::new();
        socket.receive(|packet| client.is_asked(packet), |received| all.push(received), |why| garbage.push(why));
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
            if let Err(unproven) = self.whereabouts.prove(&received.bytes) {
                if unproven == Unproven::Nak && self.ration.take(now) {
                    warn!(server = self.name, "{unproven}");
                }
                take(Err(unproven.to_string()));
                continue;
            }
            self.silent = 0;
            let card = received.hardware.map(|card| card.inspect_err(|&lack| self.tally.lacks(lack)));
            let ([sent, came], kind) = match (self.stamped.take(card.map(|card| card.is_ok())), card) {
                (By::Card, Some(Ok(ends))) => (ends, Ok(Quality::Hardware)),
                (By::Nobody, Some(Err(lack))) => ([received.sent, received.received], Err(lack)),
                _ => ([received.sent, received.received], Ok(received.quality)),
            };
            let before = self.before;
            match self.client.answer(&received.bytes, sent, came, now, near) {
                Ok(Answer { exchange: Some(exchange), leap, interleaved, .. }) => {
                    self.tally.interleaved = Some(interleaved);
                    let announced = match leap {
                        LeapIndicator::Insert => Announcement::Insert,
                        LeapIndicator::Delete => Announcement::Delete,
                        LeapIndicator::None | LeapIndicator::Unknown => Announcement::None,
                    };
                    self.before = Some((sent, kind));
                    // In interleaved mode it is the exchange before that is complete now.
                    let told = before.filter(|before| before.0 == exchange.sent && exchange.sent != sent);
                    match told.map_or(kind, |(_, kind)| kind) {
                        Ok(_) if follows(&exchange.server, own) => take(Err(LOOP.into())),
                        Ok(quality) => {
                            let exchange = Exchange { stamp_error: quality.stamp_error(), ..exchange };
                            take(Ok(Came { exchange, announced, quality }));
                        }
                        Err(lack) => take(Err(lack.to_string())),
                    }
                }
                Ok(Answer { exchange: None, .. }) => self.before = Some((sent, kind)),
                Err(Rejection::Kiss(kiss)) => {
                    let hours = |until: i64| ((until - now) as f64 / 3.6e12 * 10.0).round() / 10.0;
                    self.denied = self.client.denied().map(|_| now);
                    if self.ration.take(now) {
                        let poll_s = self.client.interval() as f64 * 1e-9;
                        match (self.client.denied(), self.client.slowed()) {
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

/// Whether a server's own reference is this host, by the address that asks it: then it tells us
/// what we have told it (RFC 5905 §7.3). Of stratum 1 the reference is a name.
fn follows(server: &ServerState, own: Option<u32>) -> bool {
    server.stratum > 1 && own == Some(server.reference)
}

/// A server's address in 32 bits. MD5 hides nothing here: it is what all servers use, so that each
/// finds its own address in another's answer.
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
    use crate::nts::Failure;
    use crate::whereabouts::Told;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::net::UdpSocket;
    use tickwire_ntp::{Mode, Packet, Stamp};

    #[test]
    fn servers_are_named_as_others_name_them() {
        for (address, expected) in
            [("192.0.2.1", 0xc000_0201), ("::ffff:192.0.2.1", 0xc000_0201), ("2001:db8::1", 0x39ab_9b37)]
        {
            assert_eq!(reference(address.parse().unwrap()), expected, "{address}");
        }
    }

    /// A source of a name that nobody really looks up.
    fn source() -> (Source, Cards) {
        let server = Server::named("time.example").unwrap();
        let nominal = Scale::from_period(1.0).unwrap();
        let source = Source::new(&Config::default(), &server, CounterKind::MonotonicRaw, nominal, 0);
        (source, Cards::new(crate::config::HardwareStamps::Never))
    }

    impl Source {
        /// Its name was looked up, and has these addresses.
        pub(crate) fn tell(&mut self, all: &[&UdpSocket]) {
            let all = all.iter().map(|socket| socket.local_addr().unwrap()).collect();
            self.whereabouts.be_looked_up().send(Ok(Told::At(all))).unwrap();
        }
    }

    fn tell(source: &mut Source, all: &[&UdpSocket]) {
        source.tell(all);
    }

    /// A turn of the daemon's loop.
    fn turn(source: &mut Source, now: i64) {
        let mut random = [0; 2];
        random.fill_with(|| getrandom::u64().unwrap());
        let mut next = source.run(now, random, &mut Cards::new(crate::config::HardwareStamps::Never));
        while let Some(found) = next.take() {
            next = source.open(found, now);
        }
    }

    /// Turns until the name is to be looked up, but not after `until`; gives the time.
    fn turns(source: &mut Source, mut now: i64, until: i64) -> i64 {
        loop {
            turn(source, now);
            let due = source.due().unwrap_or(now);
            if matches!(source.whereabouts.address(), Address::Due(_)) || due > until {
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

    /// The requests that have come to a server.
    fn requests(server: &UdpSocket) -> Vec<(Packet, SocketAddr)> {
        let one = || {
            let mut bytes = [0; 48];
            let (_, from) = server.recv_from(&mut bytes).ok()?;
            Some((Packet::parse(&bytes).unwrap().0, from))
        };
        std::iter::from_fn(one).collect()
    }

    fn answer(request: &Packet) -> Packet {
        Packet {
            mode: Mode::Server,
            stratum: 1,
            origin: request.transmitted,
            received: Stamp(1 << 32),
            transmitted: Stamp(2 << 32),
            ..*request
        }
    }

    fn kiss(by: Kiss, request: &Packet) -> Packet {
        Packet { stratum: 0, reference: by.to_reference(), ..answer(request) }
    }

    /// The source gets what a server has sent it; gives how many exchanges that completes.
    fn get(source: &mut Source, now: i64) -> usize {
        let mut readable = [PollFd::new(source.descriptor().unwrap(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut readable, PollTimeout::from(10_000u16)), Ok(1));
        let mut exchanges = 0;
        source.receive(now, Nanos(0), |one| exchanges += usize::from(one.is_ok()));
        exchanges
    }

    #[test]
    fn a_server_that_does_not_answer_is_asked_at_its_next_address_at_once() {
        let (dead, alive) = (server(), server());
        let (mut source, _) = source();
        tell(&mut source, &[&dead, &alive]);
        // Eight requests of a burst, time for the last answer, and then those of the next.
        let now = turns(&mut source, 0, 3 * SECOND);
        assert_eq!((requests(&dead).len(), source.peer()), (8, Some(alive.local_addr().unwrap())));
        let (request, from) = requests(&alive).pop().unwrap();
        alive.send_to(&answer(&request).to_bytes(), from).unwrap();
        assert_eq!(get(&mut source, now), 1);
        source.was_used(now);
        // It falls silent: the first may be back, and then the name is looked up anew, but not
        // before.
        let now = turns(&mut source, now, 3600 * SECOND);
        assert!(!requests(&dead).is_empty() && matches!(source.whereabouts.address(), Address::Due(at) if *at == now));
        assert!((64 * SECOND..100 * SECOND).contains(&now), "{now}");
        // In vain: twice as late, and more seldom as long as nobody answers.
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
        source.whereabouts.be_looked_up().send(Ok(Told::At(all))).unwrap();
        turn(&mut source, 0);
        assert_eq!(source.peer(), Some(alive.local_addr().unwrap()));
        source.whereabouts.be_looked_up().send(Ok(Told::At(vec![nowhere]))).unwrap();
        turn(&mut source, 1);
        assert!(
            matches!(source.whereabouts.address(), Address::Due(_)) && source.why_silent(1).contains("255.255.255.255")
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
            // The other one is silent, and what was denied is denied for an hour.
            assert!((64 * SECOND..200 * SECOND).contains(&now), "{now}");
            tell(&mut source, &[&denies, &other]);
            turn(&mut source, now);
            assert_eq!(source.peer(), Some(other.local_addr().unwrap()));
        }
    }

    /// A server denies service when it is asked; gives a time at which that has been taken in.
    fn deny(source: &mut Source, server: &UdpSocket, now: i64) -> i64 {
        turn(source, now);
        let (request, from) = requests(server).pop().unwrap();
        server.send_to(&kiss(Kiss::Deny, &request).to_bytes(), from).unwrap();
        assert_eq!(get(source, now + 1), 0);
        now + 1
    }

    /// Turns once a second until the name is to be looked up; gives the time.
    fn seconds(source: &mut Source, mut now: i64) -> i64 {
        for _ in 0..3600 {
            turn(source, now);
            if matches!(source.whereabouts.address(), Address::Due(_)) {
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
        // It has not moved yet: it is not asked again for that, and its name is looked up more and
        // more seldom.
        for patience in [64, 128, 256] {
            let again = seconds(&mut source, now);
            assert!((patience..patience + 3).contains(&((again - now) / SECOND)), "{patience}: {}", again - now);
            tell(&mut source, &[&denies]);
            turn(&mut source, again);
            assert!(source.peer().is_some() && requests(&denies).is_empty());
            now = again;
        }
        now = seconds(&mut source, now);
        tell(&mut source, &[&moved]);
        turn(&mut source, now);
        turn(&mut source, now);
        assert_eq!((requests(&moved).len(), source.client.denied()), (1, None));
    }

    #[test]
    fn who_was_silent_has_another_turn_after_the_last_address_has_denied_service() {
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
        let tell_it = source.whereabouts.be_looked_up();
        assert_eq!(source.why_silent(0), "it is still being looked up");
        tell_it.send(Err(Failure::new("no such name", "try again"))).unwrap();
        source.run(0, [0; 2], &mut cards);
        assert_eq!(source.why_silent(0), "no such name: try again");
        tell(&mut source, &[&server]);
        turn(&mut source, 0);
        turn(&mut source, 0);
        assert_eq!(source.why_silent(0), "no answer comes");
        source.tally_mut().refuse("the server is not synchronised".into(), SECOND);
        assert_eq!(source.why_silent(2 * SECOND), "the server is not synchronised");
        assert_eq!(source.why_silent(60 * SECOND), "no answer comes", "that was long ago");
    }

    #[test]
    fn known_addresses_are_asked_on_while_the_name_cannot_be_looked_up() {
        let (one, other) = (server(), server());
        let (mut source, _) = source();
        tell(&mut source, &[&one, &other]);
        let mut now = turns(&mut source, 0, 3600 * SECOND);
        // Servers and resolver are out of reach together. The name is looked up as seldom as if it
        // were found.
        for patience in [64, 128, 256] {
            assert!(!requests(&one).is_empty() && !requests(&other).is_empty());
            source.whereabouts.be_looked_up().send(Err(Failure::new("no such name", "try again"))).unwrap();
            let again = turns(&mut source, now, i64::MAX);
            assert!(again - now > 2 * patience * SECOND, "{patience}: {}", again - now);
            now = again;
        }
        source.whereabouts.be_looked_up().send(Err(Failure::new("no such name", "try again"))).unwrap();
        turn(&mut source, now);
        requests(&one);
        now = turns(&mut source, now, now + SECOND);
        let (request, from) = requests(&one).pop().unwrap();
        one.send_to(&answer(&request).to_bytes(), from).unwrap();
        assert_eq!(get(&mut source, now), 1, "the servers are back before the resolver is");
    }

    #[test]
    fn who_is_not_found_any_more_leaves_his_address_to_others() {
        // With NTS: without, the addresses that are known are asked on.
        let server = Server { nts: true, ..Server::named("time.example").unwrap() };
        let nominal = Scale::from_period(1.0).unwrap();
        let mut source = Source::new(&Config::default(), &server, CounterKind::MonotonicRaw, nominal, 0);
        let mut cards = Cards::new(crate::config::HardwareStamps::Never);
        let address = "127.0.0.1:123".parse().unwrap();
        source.open(Found::At(address), 0);
        let tell = source.whereabouts.be_looked_up();
        assert!(source.run(1, [0; 2], &mut cards).is_none() && source.has(address), "while it is looked up anew");
        tell.send(Err(Failure::new("no such name", ""))).unwrap();
        assert!(source.run(2, [0; 2], &mut cards).is_none() && !source.has(address));
    }
}
