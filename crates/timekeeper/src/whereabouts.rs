//! Where a server is: its name is looked up, and keys are agreed on with it if its answers are to
//! be proved; and when that is to be done anew.
//!
//! Whether an address is asked, and for how long in vain, is the source's business. What is found
//! here it opens, and then tells.

use crate::addresses::{self, Addresses};
use crate::config::Server;
use crate::nts::{self, Agreed, Failure, Nts};
use crate::ration::Ration;
use crate::report::NtsReport;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use tickwire_ntp::nts::Unproven;
use tickwire_ntp::socket::Socket;
use tickwire_ntp::{Client, Packet};
use tracing::{debug, warn};

/// A name of which no address is known, or none that this host has a route to, is looked up again
/// after so many ns.
const LOOK_UP_AGAIN: i64 = 30_000_000_000;

/// What a look-up has told.
#[derive(Debug)]
pub(crate) enum Told {
    /// The addresses of its name, in the resolver's order.
    At(Vec<SocketAddr>),
    Agreed(Agreed),
}

/// Where a server is, and how its answers are proved, if they are to be.
#[derive(Debug)]
pub(crate) enum Found {
    At(SocketAddr),
    Agreed(Agreed),
}

impl Found {
    pub(crate) const fn address(&self) -> SocketAddr {
        match self {
            Self::At(address) | Self::Agreed(Agreed { address, .. }) => *address,
        }
    }
}

/// A look-up: where a server may be, or why it cannot be asked.
type LookUp = mpsc::Receiver<Result<Told, Failure>>;

/// A server's address.
#[derive(Debug)]
pub(crate) enum Address {
    /// To be looked up at this time.
    Due(i64),
    /// Being looked up, by a thread of its own: the system's resolver blocks.
    Asked(LookUp),
    Known(Socket),
}

/// Where one server is.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    server: Server,
    address: Address,
    /// Of its name, if it is to be asked without NTS. With it, each agreement on keys tells one
    /// address.
    addresses: Addresses,
    /// When it was looked up last, also in vain.
    found: i64,
    /// Where it was asked last.
    asked: Option<SocketAddr>,
    /// Why nobody can be asked, if so.
    trouble: Option<String>,
    /// For a server that is asked with NTS only.
    nts: Option<Nts>,
    /// Keys are being agreed on anew, while it is asked with those that there are.
    renewal: Option<LookUp>,
}

impl Whereabouts {
    /// To be looked up at `now`.
    pub(crate) fn new(server: &Server, now: i64) -> Self {
        Self {
            server: server.clone(),
            address: Address::Due(now),
            addresses: Addresses::default(),
            found: now,
            asked: None,
            trouble: None,
            nts: Nts::of(server, now),
            renewal: None,
        }
    }

    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    /// Where it was asked last, also while it is being looked up anew.
    pub(crate) const fn asked(&self) -> Option<SocketAddr> {
        self.asked
    }

    pub(crate) const fn socket(&self) -> Option<&Socket> {
        if let Address::Known(socket) = &self.address { Some(socket) } else { None }
    }

    pub(crate) const fn socket_mut(&mut self) -> Option<&mut Socket> {
        if let Address::Known(socket) = &mut self.address { Some(socket) } else { None }
    }

    /// Whether a name is being looked up, which shows by looking only.
    pub(crate) const fn is_looking_up(&self) -> bool {
        matches!(self.address, Address::Asked(_)) || self.renewal.is_some()
    }

    /// Why nobody can be asked, while that is so.
    pub(crate) fn why_unknown(&self) -> Option<&str> {
        match (&self.address, &self.trouble) {
            (Address::Known(_), _) => None,
            (_, Some(trouble)) => Some(trouble),
            (_, None) => self.asked.is_none().then_some("it is still being looked up"),
        }
    }

    /// Whether it is asked with NTS only.
    pub(crate) const fn needs_keys(&self) -> bool {
        self.nts.is_some()
    }

    /// How it is authenticated, if it is to be.
    pub(crate) fn report(&self) -> Option<NtsReport> {
        self.nts.as_ref().map(Nts::report)
    }

    /// Looks up, and takes in what has been told, whatever is due; gives what to open. `client`:
    /// the association with who was asked last; `silent`: it does not answer.
    pub(crate) fn turn(&mut self, now: i64, client: &Client, silent: bool, lines: &mut Ration) -> Option<Found> {
        if let Some(told) = self.renewal.as_ref().and_then(answered) {
            self.renewal = None;
            match told {
                Ok(told) => return self.found(told, now),
                Err(failure) => self.failed(&failure, now, lines),
            }
        }
        match &self.address {
            Address::Due(at) if now >= *at => {
                let told = self.look_up(now, silent);
                self.address = Address::Asked(told);
                None
            }
            Address::Due(_) | Address::Known(_) => None,
            Address::Asked(answer) => match answered(answer)? {
                Ok(told) => self.found(told, now),
                Err(failure) => {
                    self.failed(&failure, now, lines);
                    self.not_found(now, client)
                }
            },
        }
    }

    /// Of what a look-up has told, what to open.
    fn found(&mut self, told: Told, now: i64) -> Option<Found> {
        (self.found, self.trouble) = (now, None);
        match told {
            Told::At(all) => self.addresses.found(all, now).map(Found::At),
            Told::Agreed(agreed) => Some(Found::Agreed(agreed)),
        }
    }

    /// It could not be looked up; gives what to open of what was known of it before. With NTS that
    /// is nothing: each agreement is anew.
    fn not_found(&mut self, now: i64, client: &Client) -> Option<Found> {
        self.found = now;
        let next = self.addresses.not_found(now);
        if next.is_none() {
            self.leave(now, client);
        }
        next.map(Found::At)
    }

    /// It cannot be asked.
    fn failed(&mut self, failure: &Failure, now: i64, lines: &mut Ration) {
        let told = lines.take(now);
        self.trouble = Some(failure.to_string());
        let server = self.server.label();
        match &mut self.nts {
            None if told => warn!(server, error = failure.detail, "{}", failure.why),
            None => {}
            Some(nts) => {
                nts.failed(failure);
                if told {
                    warn!(server, why = %failure, "no keys could be agreed on (NTS)");
                }
            }
        }
    }

    /// Begins to look it up, and to agree on keys if it is to be asked with NTS.
    fn look_up(&mut self, now: i64, silent: bool) -> LookUp {
        if let Some(nts) = &mut self.nts {
            nts.began(now);
        }
        // If the address that the last keys were for does not answer, another one is better.
        look_up(&self.server, self.asked.filter(|_| silent))
    }

    /// When it may be looked up again.
    fn again(&self, now: i64) -> i64 {
        self.nts.as_ref().map_or(now + LOOK_UP_AGAIN, Nts::next)
    }

    /// It has told something usable where it is.
    pub(crate) fn answered(&mut self) {
        self.addresses.answered(self.asked);
    }

    /// Another address of its name, to ask instead.
    pub(crate) fn another(&mut self, now: i64) -> Option<Found> {
        self.addresses.another(now).map(Found::At)
    }

    /// No address of its name is left to ask: it is to be looked up anew, unless it is no name or
    /// has been lately. Gives whether it is.
    pub(crate) fn look_up_anew(&mut self, now: i64) -> bool {
        let is_name = self.server.host.parse::<IpAddr>().is_err();
        let anew = is_name && now.saturating_sub(self.found) > self.addresses.patience();
        if anew {
            self.address = Address::Due(now);
        }
        anew
    }

    /// Sees to it that there are keys where there must be; gives whether there are, so that it can
    /// be asked.
    pub(crate) fn has_keys(&mut self, now: i64, silent: bool) -> bool {
        if self.renewal.is_none() && self.nts.as_ref().is_some_and(|nts| nts.wants(now)) {
            self.renewal = Some(self.look_up(now, silent));
        }
        let can_ask = self.nts.as_ref().is_none_or(Nts::can_ask);
        if !can_ask {
            self.address = self.renewal.take().map_or(Address::Due(self.again(now)), Address::Asked);
        }
        can_ask
    }

    /// A request as it goes out, of what `make` gives, and the socket by which it does. `None`:
    /// nothing goes out.
    pub(crate) fn request(&mut self, make: impl FnOnce(&Socket) -> Option<Packet>) -> Option<(&mut Socket, Vec<u8>)> {
        let Address::Known(socket) = &mut self.address else { return None };
        let request = make(socket)?;
        let bytes = match &mut self.nts {
            None => request.to_bytes().to_vec(),
            Some(nts) => nts.protect(&request)?,
        };
        Some((socket, bytes))
    }

    /// Proves an answer, if it is to be proved.
    pub(crate) fn prove(&mut self, answer: &[u8]) -> Result<(), Unproven> {
        self.nts.as_mut().map_or(Ok(()), |nts| nts.prove(answer))
    }

    /// Takes over the keys that were agreed on, if any were; gives whether they are all that is
    /// new.
    pub(crate) fn take_keys(&mut self, found: Found) -> bool {
        let address = found.address();
        let (Some(nts), Found::Agreed(agreed)) = (&mut self.nts, found) else { return false };
        let server = self.server.label();
        debug!(server, %address, cookies = agreed.association.cookies(), "keys are agreed on");
        nts.agreed(agreed.association);
        self.socket().and_then(Socket::peer) == Some(address)
    }

    /// It is asked here from now on; gives where it was before.
    pub(crate) fn is_at(&mut self, address: SocketAddr, socket: Socket) -> Option<SocketAddr> {
        self.address = Address::Known(socket);
        self.asked.replace(address)
    }

    /// Another address is asked: what was agreed with who is at the one before, if it was to be
    /// asked less often, stands; gives what was with the other.
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

    /// None of its addresses can be asked.
    pub(crate) fn cannot_be_asked(&mut self, why: String, now: i64, client: &Client) {
        self.trouble = Some(why);
        self.leave(now, client);
    }

    /// It asks nobody until it is looked up again: who else has its address may ask there.
    fn leave(&mut self, now: i64, client: &Client) {
        if let Some(address) = self.asked.take() {
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

    /// The same, while it is only another name of a server that is asked already.
    pub(crate) fn set_aside(&mut self, now: i64) {
        self.wait(now);
        // Each look-up gives its other addresses a turn, if it has some: those are no more frequent
        // than if it had no twin.
        if self.nts.is_none() {
            self.address = Address::Due(self.found.saturating_add(self.addresses.patience()).max(self.again(now)));
        }
    }
}

/// What was found, once it was; `None`: wait on.
fn answered(told: &LookUp) -> Option<Result<Told, Failure>> {
    match told.try_recv() {
        Ok(found) => Some(found),
        Err(mpsc::TryRecvError::Empty) => None,
        Err(mpsc::TryRecvError::Disconnected) => Some(Err(Failure::new("nobody could look it up", ""))),
    }
}

/// Looks a server up in a thread of its own, and agrees on keys with it if need be, at another
/// address than `avoided` if there is one; a plain address is there at once.
fn look_up(server: &Server, avoided: Option<SocketAddr>) -> LookUp {
    let (sender, receiver) = mpsc::channel();
    let at_once = !server.nts && server.host.parse::<IpAddr>().is_ok();
    let server = server.clone();
    let look_up = move || {
        let told = if server.nts {
            nts::agree(&server, avoided).map(Told::Agreed)
        } else {
            addresses::resolve(&server.host, server.port).map(Told::At)
        };
        // Nobody waits for it if the daemon has ended.
        let _ = sender.send(told);
    };
    if at_once {
        look_up();
    } else if let Err(error) = std::thread::Builder::new().name("resolver".into()).spawn(look_up) {
        warn!(%error, "no thread to look up a name");
    }
    receiver
}

#[cfg(test)]
impl Whereabouts {
    /// It is being looked up by whoever has this.
    pub(crate) fn be_looked_up(&mut self) -> mpsc::Sender<Result<Told, Failure>> {
        let (tell, told) = mpsc::channel();
        self.address = Address::Asked(told);
        tell
    }
}
