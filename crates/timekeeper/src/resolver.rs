//! Where a server is: name resolution, key establishment if its replies must be authenticated, and
//! when to repeat both.
//!
//! The source decides whether an address is polled, and for how long without a reply. It opens
//! what is found here, and reports the result.
//!
//! | module | purpose |
//! |---|---|
//! | `addresses` | the addresses of a server's name, and which of them to poll next |

mod addresses;

use crate::log_rate_limit::LogRateLimit;
use crate::lookup::{self, Failure};
use crate::nts::{self, Agreed, Nts};
use crate::report::NtsReport;
use crate::server_config::PolledServer;
use addresses::Addresses;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use tickwire_ntp::nts::Unproven;
use tickwire_ntp::socket::NtpSocket;
use tickwire_ntp::{Client, NtpPacket};
use tracing::{debug, warn};

/// Interval between lookups of a name without a known address, or without one that this host has a
/// route to, in ns.
const LOOK_UP_AGAIN: i64 = 30_000_000_000;

/// The result of a lookup.
#[derive(Debug)]
pub(crate) enum LookupResult {
    /// The addresses of its name, in the resolver's order.
    Addresses(Vec<SocketAddr>),
    Agreed(Agreed),
}

/// Where a server is, and how its replies are authenticated, if they must be.
#[derive(Debug)]
pub(crate) enum ResolvedServer {
    Address(SocketAddr),
    Agreed(Agreed),
}

impl ResolvedServer {
    pub(crate) const fn address(&self) -> SocketAddr {
        match self {
            Self::Address(address) | Self::Agreed(Agreed { address, .. }) => *address,
        }
    }
}

/// A pending lookup: where a server may be, or why it cannot be polled.
type LookUp = mpsc::Receiver<Result<LookupResult, Failure>>;

/// A server's address.
#[derive(Debug)]
pub(crate) enum Address {
    /// To be looked up at this time.
    Due(i64),
    /// Being looked up, by a thread of its own: the system's resolver blocks.
    Pending(LookUp),
    Known(NtpSocket),
}

/// Where one server is.
#[derive(Debug)]
pub(crate) struct Resolver {
    server: PolledServer,
    address: Address,
    /// The addresses of its name without NTS. With NTS each key establishment gives one address.
    addresses: Addresses,
    /// When the last lookup ended, successful or not.
    found: i64,
    /// The address that was polled last.
    polled: Option<SocketAddr>,
    /// Why no address can be polled, if so.
    trouble: Option<String>,
    /// Only for a server that is polled with NTS.
    nts: Option<Nts>,
    /// A pending establishment of new keys, while the server is polled with the current ones.
    renewal: Option<LookUp>,
}

impl Resolver {
    /// To be looked up at `now`.
    pub(crate) fn new(server: &PolledServer, now: i64) -> Self {
        Self {
            server: server.clone(),
            address: Address::Due(now),
            addresses: Addresses::default(),
            found: now,
            polled: None,
            trouble: None,
            nts: Nts::of(server, now),
            renewal: None,
        }
    }

    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    /// The address that was polled last, also while it is being looked up again.
    pub(crate) const fn polled(&self) -> Option<SocketAddr> {
        self.polled
    }

    pub(crate) const fn socket(&self) -> Option<&NtpSocket> {
        if let Address::Known(socket) = &self.address { Some(socket) } else { None }
    }

    pub(crate) const fn socket_mut(&mut self) -> Option<&mut NtpSocket> {
        if let Address::Known(socket) = &mut self.address { Some(socket) } else { None }
    }

    /// Whether a lookup is pending, whose result must be polled.
    pub(crate) const fn is_looking_up(&self) -> bool {
        matches!(self.address, Address::Pending(_)) || self.renewal.is_some()
    }

    /// Why no address can be polled, while that is so.
    pub(crate) fn why_unknown(&self) -> Option<&str> {
        match (&self.address, &self.trouble) {
            (Address::Known(_), _) => None,
            (_, Some(trouble)) => Some(trouble),
            (_, None) => self.polled.is_none().then_some("it is still being looked up"),
        }
    }

    /// Whether it is polled with NTS only.
    pub(crate) const fn needs_keys(&self) -> bool {
        self.nts.is_some()
    }

    /// Its NTS statistics, if it is authenticated.
    pub(crate) fn report(&self) -> Option<NtsReport> {
        self.nts.as_ref().map(Nts::report)
    }

    /// Starts a lookup that is due, or processes the result of one; returns what to open. `client`
    /// is the association with the address polled last; `silent`: that one does not answer.
    pub(crate) fn turn(
        &mut self,
        now: i64,
        client: &Client,
        silent: bool,
        lines: &mut LogRateLimit,
    ) -> Option<ResolvedServer> {
        if let Some(result) = self.renewal.as_ref().and_then(try_result) {
            self.renewal = None;
            match result {
                Ok(found) => return self.found(found, now),
                Err(failure) => self.failed(&failure, now, lines),
            }
        }
        match &self.address {
            Address::Due(at) if now >= *at => {
                self.address = Address::Pending(self.look_up(now, silent));
                None
            }
            Address::Due(_) | Address::Known(_) => None,
            Address::Pending(lookup) => match try_result(lookup)? {
                Ok(found) => self.found(found, now),
                Err(failure) => {
                    self.failed(&failure, now, lines);
                    self.not_found(now, client)
                }
            },
        }
    }

    /// Processes the result of a lookup; returns what to open.
    fn found(&mut self, result: LookupResult, now: i64) -> Option<ResolvedServer> {
        (self.found, self.trouble) = (now, None);
        match result {
            LookupResult::Addresses(all) => self.addresses.found(all, now).map(ResolvedServer::Address),
            LookupResult::Agreed(agreed) => Some(ResolvedServer::Agreed(agreed)),
        }
    }

    /// The lookup failed: returns what to open of the addresses known before. With NTS there are
    /// none: each key establishment starts anew.
    fn not_found(&mut self, now: i64, client: &Client) -> Option<ResolvedServer> {
        self.found = now;
        let next = self.addresses.not_found(now);
        if next.is_none() {
            self.leave(now, client);
        }
        next.map(ResolvedServer::Address)
    }

    /// Keeps, counts and logs the reason why a lookup failed.
    fn failed(&mut self, failure: &Failure, now: i64, lines: &mut LogRateLimit) {
        let logged = lines.take(now);
        self.trouble = Some(failure.to_string());
        let server = self.server.label();
        match &mut self.nts {
            None if logged => warn!(server, error = failure.detail, "{}", failure.why),
            None => {}
            Some(nts) => {
                nts.failed(failure);
                if logged {
                    warn!(server, why = %failure, "no keys could be agreed on (NTS)");
                }
            }
        }
    }

    /// Starts a lookup, and key establishment if it is polled with NTS.
    fn look_up(&mut self, now: i64, silent: bool) -> LookUp {
        if let Some(nts) = &mut self.nts {
            nts.began(now);
        }
        // If the address that the last keys were for does not answer, another one is preferred.
        look_up(&self.server, self.polled.filter(|_| silent))
    }

    /// When it may be looked up again.
    fn again(&self, now: i64) -> i64 {
        self.nts.as_ref().map_or(now + LOOK_UP_AGAIN, Nts::next)
    }

    /// The polled address has given a usable reply.
    pub(crate) fn answered(&mut self) {
        self.addresses.answered(self.polled);
    }

    /// Another address of its name to poll.
    pub(crate) fn another(&mut self, now: i64) -> Option<ResolvedServer> {
        self.addresses.another(now).map(ResolvedServer::Address)
    }

    /// No address of its name is left to poll: schedules a lookup, unless the host is a numeric
    /// address or was looked up recently. Returns whether it does.
    pub(crate) fn look_up_anew(&mut self, now: i64) -> bool {
        let is_name = self.server.host.parse::<IpAddr>().is_err();
        let anew = is_name && now.saturating_sub(self.found) > self.addresses.lookup_interval();
        if anew {
            self.address = Address::Due(now);
        }
        anew
    }

    /// Starts to establish keys where they are needed; returns whether the server can be polled.
    pub(crate) fn has_keys(&mut self, now: i64, silent: bool) -> bool {
        if self.renewal.is_none() && self.nts.as_ref().is_some_and(|nts| nts.wants(now)) {
            self.renewal = Some(self.look_up(now, silent));
        }
        let can_ask = self.nts.as_ref().is_none_or(Nts::can_ask);
        if !can_ask {
            self.address = self.renewal.take().map_or(Address::Due(self.again(now)), Address::Pending);
        }
        can_ask
    }

    /// The bytes of the request that `make` gives, and the socket to send them by. `None`: there is
    /// nothing to send.
    pub(crate) fn request(
        &mut self,
        make: impl FnOnce(&NtpSocket) -> Option<NtpPacket>,
    ) -> Option<(&mut NtpSocket, Vec<u8>)> {
        let Address::Known(socket) = &mut self.address else { return None };
        let request = make(socket)?;
        let bytes = match &mut self.nts {
            None => request.to_bytes().to_vec(),
            Some(nts) => nts.protect(&request)?,
        };
        Some((socket, bytes))
    }

    /// Authenticates a reply, if that is required.
    pub(crate) fn prove(&mut self, answer: &[u8]) -> Result<(), Unproven> {
        self.nts.as_mut().map_or(Ok(()), |nts| nts.prove(answer))
    }

    /// Takes over established keys, if there are any; returns whether nothing but the keys is new.
    pub(crate) fn take_keys(&mut self, found: ResolvedServer) -> bool {
        let address = found.address();
        let (Some(nts), ResolvedServer::Agreed(agreed)) = (&mut self.nts, found) else { return false };
        let server = self.server.label();
        debug!(server, %address, cookies = agreed.association.cookies(), "keys are agreed on");
        nts.agreed(agreed.association);
        self.socket().and_then(NtpSocket::peer) == Some(address)
    }

    /// Polls this address from now on; returns the previous one.
    pub(crate) fn poll_at(&mut self, address: SocketAddr, socket: NtpSocket) -> Option<SocketAddr> {
        self.address = Address::Known(socket);
        self.polled.replace(address)
    }

    /// Another address is polled. The association with the previous one is kept if its server
    /// denies service or limits the rate; returns the one that was kept for the new address.
    pub(crate) fn change_address(
        &mut self,
        from: Option<SocketAddr>,
        to: SocketAddr,
        client: &Client,
    ) -> Option<Client> {
        if let Some(from) = from {
            self.addresses.leave(from, client);
        }
        self.addresses.rejoin(to)
    }

    /// None of its addresses can be polled.
    pub(crate) fn cannot_be_asked(&mut self, why: String, now: i64, client: &Client) {
        self.trouble = Some(why);
        self.leave(now, client);
    }

    /// Stops polling until the next lookup, and leaves the address to other sources.
    fn leave(&mut self, now: i64, client: &Client) {
        if let Some(address) = self.polled.take() {
            self.addresses.leave(address, client);
        }
        self.wait(now);
    }

    fn wait(&mut self, now: i64) {
        if let Some(nts) = &mut self.nts {
            nts.forget();
        }
        self.renewal = None;
        self.address = Address::Due(self.again(now));
    }

    /// Waits for the next lookup as a duplicate of another source.
    pub(crate) fn set_aside(&mut self, now: i64) {
        self.wait(now);
        // Each lookup gives its other addresses a turn, if it has some. These turns are no more
        // frequent than if it were no duplicate.
        if self.nts.is_none() {
            self.address =
                Address::Due(self.found.saturating_add(self.addresses.lookup_interval()).max(self.again(now)));
        }
    }
}

/// The result of a lookup; `None` while it is pending.
fn try_result(lookup: &LookUp) -> Option<Result<LookupResult, Failure>> {
    match lookup.try_recv() {
        Ok(found) => Some(found),
        Err(mpsc::TryRecvError::Empty) => None,
        Err(mpsc::TryRecvError::Disconnected) => Some(Err(Failure::new("it could not be looked up", ""))),
    }
}

/// Looks a server up in a thread of its own, and establishes keys if need be, at another address
/// than `avoided` if there is one. A numeric address without NTS needs no thread.
fn look_up(server: &PolledServer, avoided: Option<SocketAddr>) -> LookUp {
    let (sender, receiver) = mpsc::channel();
    let at_once = !server.nts && server.host.parse::<IpAddr>().is_ok();
    let server = server.clone();
    let look_up = move || {
        let result = if server.nts {
            nts::agree(&server, avoided).map(LookupResult::Agreed)
        } else {
            lookup::resolve(&server.host, server.port).map(LookupResult::Addresses)
        };
        // There is no receiver any more if the daemon has ended.
        let _ = sender.send(result);
    };
    if at_once {
        look_up();
    } else if let Err(error) = std::thread::Builder::new().name("resolver".into()).spawn(look_up) {
        warn!(%error, "no thread to look up a name");
    }
    receiver
}

#[cfg(test)]
impl Resolver {
    /// Makes a lookup pending; its result comes from the returned sender.
    pub(crate) fn be_looked_up(&mut self) -> mpsc::Sender<Result<LookupResult, Failure>> {
        let (sender, lookup) = mpsc::channel();
        self.address = Address::Pending(lookup);
        sender
    }
}
