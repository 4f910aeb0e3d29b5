//! One server: its name, its address, its socket, and the association with it.

use crate::cards::Cards;
use crate::config::{Config, Server, Transmit};
use crate::ration::Ration;
use crate::stamped::{By, Stamped};
use md5::{Digest, Md5};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc;
use tickclock::{Count, CounterKind, Scale};
use tickwire_clock::keeper::leap::Announcement;
use tickwire_clock::{Exchange, Nanos};
use tickwire_ntp::client::{self, Poll};
use tickwire_ntp::hardware::Lack;
use tickwire_ntp::socket::{Quality, Socket};
use tickwire_ntp::{Answer, Client, LeapIndicator, Rejection};
use tracing::{debug, info, warn};

const SECOND: i64 = 1_000_000_000;
/// A name that is not known is looked up again after so many ns.
const LOOK_UP_AGAIN: i64 = 30 * SECOND;
/// A server is silent that has told nothing for so many intervals, and as many ns beside; and the clock is in holdover when the one that it follows is.
const INTERVALS: i64 = 8;
const BESIDE: i64 = 2 * SECOND;
/// After so many silent requests the name is looked up anew: the server may have moved.
const MOVED: u32 = 8;

/// For how long a server that is asked so often may tell nothing, all in ns.
pub(crate) const fn patience(interval: i64) -> i64 {
    interval.saturating_mul(INTERVALS).saturating_add(BESIDE)
}

/// An address that was looked up, or why there is none.
type LookUp = mpsc::Receiver<Result<SocketAddr, String>>;

#[derive(Debug)]
enum Address {
    /// To be looked up at this time.
    Due(i64),
    /// Being looked up, by a thread of its own: the system's resolver blocks.
    Asked(LookUp),
    Known(Socket),
}

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
    server: Server,
    /// What people call it.
    name: String,
    address: Address,
    client: Client,
    settings: client::Config,
    kind: CounterKind,
    nominal: Scale,
    silent: u32,
    /// When it told something usable last, or else since when it has been asked.
    heard: i64,
    /// For how long the clock was told to wait for it.
    patience: i64,
    /// Where it was asked last.
    asked: Option<SocketAddr>,
    /// The server of which it is only another name.
    twin: Option<String>,
    ration: Ration,
    /// Of the exchange before: when its request left, and of what kind its stamps were.
    before: Option<(Count, Kind)>,
    stamped: Stamped,
    /// What the daemon tells of it.
    tally: Tally,
}

/// What has come of the exchanges with a server.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) used: u64,
    pub(crate) refused: BTreeMap<String, u64>,
    /// Why the last answer was not used, if it was not.
    pub(crate) refusal: Option<String>,
    pub(crate) last: Option<i64>,
    pub(crate) quality: Option<Quality>,
    /// Exchanges that the clock was told, by the kind of their stamps.
    pub(crate) stamps: BTreeMap<Quality, u64>,
    /// Why no card's stamps are asked for.
    pub(crate) no_card: Option<String>,
    /// Exchanges that a card should have stamped and did not, by reason.
    pub(crate) lacking: BTreeMap<Lack, u64>,
    pub(crate) interleaved: Option<bool>,
}

impl Tally {
    /// An exchange is told to the clock, by stamps of this kind.
    pub(crate) fn stamped(&mut self, quality: Quality) {
        self.quality = Some(quality);
        *self.stamps.entry(quality).or_default() += 1;
    }

    /// A card has not stamped an exchange.
    fn lacks(&mut self, lack: Lack) {
        *self.lacking.entry(lack).or_default() += 1;
    }

    /// An answer or exchange was not used.
    pub(crate) fn refuse(&mut self, why: String) {
        self.refusal = Some(why.clone());
        // Reasons are of our own wording, so they are few; but a server chooses the letters of a kiss.
        if self.refused.len() < 64 || self.refused.contains_key(&why) {
            *self.refused.entry(why).or_default() += 1;
        }
    }
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
            server: server.clone(),
            name: server.label(),
            address: Address::Due(now),
            client: Client::new(settings, now),
            settings,
            kind,
            nominal,
            silent: 0,
            heard: now,
            patience: patience(settings.poll.usual),
            asked: None,
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
    }

    /// For how long the clock is to wait for it, if that has changed: a server that wants to be asked seldom is not silent in between.
    pub(crate) fn new_patience(&mut self) -> Option<i64> {
        let new = patience(self.client.allowed());
        (std::mem::replace(&mut self.patience, new) != new).then_some(new)
    }

    /// Whether it has told nothing usable for so long that it does not count any more.
    pub(crate) const fn is_silent(&self, now: i64) -> bool {
        now > self.heard.saturating_add(patience(self.client.allowed()))
    }

    pub(crate) const fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Its address, once known.
    pub(crate) fn address(&self) -> Option<String> {
        self.peer().map(|peer| peer.to_string())
    }

    fn peer(&self) -> Option<SocketAddr> {
        if let Address::Known(socket) = &self.address { socket.peer() } else { None }
    }

    /// Its name in the answers of a server that follows it (RFC 5905 §7.3); 0 if its address is not known.
    pub(crate) fn reference(&self) -> u32 {
        self.peer().map_or(0, |peer| reference(peer.ip()))
    }

    /// What to wait for.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        if let Address::Known(socket) = &self.address { Some(socket.as_fd()) } else { None }
    }

    /// When [`Self::run`] has something to do.
    pub(crate) fn due(&self) -> Option<i64> {
        match &self.address {
            Address::Due(at) => Some(*at),
            Address::Asked(_) => None,
            Address::Known(_) => self.client.due(),
        }
    }

    /// Whether a name is being looked up, which shows by looking only.
    pub(crate) const fn is_looking_up(&self) -> bool {
        matches!(self.address, Address::Asked(_))
    }

    /// Looks up, asks: whatever is due. Gives an address that has been found and is to be [opened](Self::open), if it is nobody else's.
    pub(crate) fn run(&mut self, now: i64, random: [u64; 2], cards: &mut Cards) -> Option<SocketAddr> {
        match &mut self.address {
            Address::Due(at) if now >= *at => self.address = Address::Asked(look_up(&self.server)),
            Address::Due(_) => {}
            Address::Asked(answer) => match answer.try_recv() {
                Ok(Ok(address)) => return Some(address),
                Ok(Err(error)) => {
                    if self.ration.take(now) {
                        warn!(server = self.name, error, "the server's name is not known");
                    }
                    self.leave(now);
                }
                Err(mpsc::TryRecvError::Empty) => {}
                Err(mpsc::TryRecvError::Disconnected) => self.leave(now),
            },
            Address::Known(socket) => {
                let request = self.client.request(now, random, socket.counter())?;
                self.silent += 1;
                let peer = socket.peer();
                let card = peer.ok_or("not connected".into()).and_then(|peer| cards.toward(peer, now));
                let used = socket.use_card(card.as_ref().ok());
                self.tally.no_card = used.map_err(|error| error.to_string()).and(card.map(drop)).err();
                if let Err(error) = socket.send(&request) {
                    debug!(server = self.name, %error, "the request could not be sent");
                }
                if self.silent > MOVED && self.server.host.parse::<std::net::IpAddr>().is_err() {
                    self.silent = 0;
                    self.address = Address::Due(now);
                }
            }
        }
        None
    }

    /// Whether this is its address, also while its name is being looked up anew.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        self.twin.is_none() && self.asked.is_some_and(|mine| plain(mine) == plain(address))
    }

    /// Of which other server it is only another name, if it is.
    pub(crate) fn twin(&self) -> Option<&str> {
        self.twin.as_deref()
    }

    /// Its address is that of another one, too: one server has one vote. The name may mean another one some day.
    pub(crate) fn set_aside(&mut self, twin: &str, address: SocketAddr, now: i64) {
        if self.twin.as_deref() != Some(twin) && self.ration.take(now) {
            warn!(server = self.name, as_well_as = twin, %address, "two names of one server: it is asked once, and has one vote");
        }
        self.twin = Some(twin.to_owned());
        self.address = Address::Due(now + LOOK_UP_AGAIN);
    }

    /// It asks nobody until it is looked up again: who else has its address may ask there.
    fn leave(&mut self, now: i64) {
        self.asked = None;
        self.address = Address::Due(now + LOOK_UP_AGAIN);
    }

    /// Begins to ask at this address.
    pub(crate) fn open(&mut self, address: SocketAddr, now: i64) {
        match Socket::open(address, self.kind, self.nominal.period()) {
            Ok(socket) => {
                // Its time to answer begins when it is asked for the first time, or again after another one was in its place.
                if self.asked.is_none() || self.twin.is_some() {
                    self.heard = now;
                }
                // A name is looked up again and again while nobody answers.
                if self.asked.replace(address) != Some(address) && self.ration.take(now) {
                    info!(server = self.name, %address, "asking");
                }
                self.twin = None;
                if self.client.due().is_some() {
                    self.client = Client::new(self.settings, now);
                }
                self.address = Address::Known(socket);
            }
            Err(error) => {
                if self.ration.take(now) {
                    warn!(server = self.name, %address, %error, "the server cannot be asked");
                }
                self.leave(now);
            }
        }
    }

    /// Takes in what has come; `near` is about the time now.
    pub(crate) fn receive(&mut self, now: i64, near: Nanos, mut take: impl FnMut(Result<Came, String>)) {
        let Address::Known(socket) = &mut self.address else { return };
        let mut all = Vec::new();
        let client = &self.client;
        let mut garbage = Vec::new();
        socket.receive(|packet| client.is_asked(packet), |received| all.push(received), |why| garbage.push(why));
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
                        Ok(quality) => {
                            let exchange = Exchange { stamp_error: quality.stamp_error(), ..exchange };
                            take(Ok(Came { exchange, announced, quality }));
                        }
                        Err(lack) => take(Err(lack.to_string())),
                    }
                }
                Ok(Answer { exchange: None, .. }) => self.before = Some((sent, kind)),
                Err(Rejection::Kiss(kiss)) => {
                    if self.ration.take(now) {
                        warn!(server = self.name, "{kiss}");
                    }
                    take(Err(kiss.to_string()));
                }
                Err(rejection) => take(Err(rejection.to_string())),
            }
        }
    }
}

/// A server's address in 32 bits. MD5 hides nothing here: it is what all servers use, so that each finds its own address in another's answer.
fn reference(address: IpAddr) -> u32 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let hash = Md5::digest(address.octets());
            u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
        }
    }
}

/// Looks a name up in a thread of its own; an address is there at once.
fn look_up(server: &Server) -> LookUp {
    let (sender, receiver) = mpsc::channel();
    let (host, port) = (server.host.clone(), server.port);
    let resolve = move || {
        let address = (host.as_str(), port).to_socket_addrs().map_err(|error| error.to_string());
        let first = address.and_then(|mut all| all.next().ok_or_else(|| "it has no address".into()));
        // Nobody waits for it if the daemon has ended.
        let _ = sender.send(first);
    };
    if server.host.parse::<std::net::IpAddr>().is_ok() {
        resolve();
    } else if let Err(error) = std::thread::Builder::new().name("resolver".into()).spawn(resolve) {
        warn!(%error, "no thread to look up a name");
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_as_others_name_them() {
        for (address, expected) in
            [("192.0.2.1", 0xc000_0201), ("::ffff:192.0.2.1", 0xc000_0201), ("2001:db8::1", 0x39ab_9b37)]
        {
            assert_eq!(reference(address.parse().unwrap()), expected, "{address}");
        }
    }
    #[test]
    fn who_is_not_found_any_more_leaves_his_address_to_others() {
        let server =
            Server { host: "time.example".into(), port: 123, asymmetry: 0.0, smeared: false, interleaved: false };
        let nominal = Scale::from_period(1.0).unwrap();
        let mut source = Source::new(&Config::default(), &server, CounterKind::MonotonicRaw, nominal, 0);
        let mut cards = Cards::new(crate::config::HardwareStamps::Never);
        let address = "127.0.0.1:123".parse().unwrap();
        source.open(address, 0);
        let (tell, told) = mpsc::channel();
        source.address = Address::Asked(told);
        assert_eq!(
            (source.run(1, [0; 2], &mut cards), source.has(address)),
            (None, true),
            "while it is looked up anew"
        );
        tell.send(Err("no such name".into())).unwrap();
        assert_eq!((source.run(2, [0; 2], &mut cards), source.has(address)), (None, false));
    }
}
