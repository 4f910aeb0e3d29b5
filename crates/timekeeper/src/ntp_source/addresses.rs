//! Which address of the name is polled, and for how long without a reply.

use super::NtpSource;
use crate::cards::Cards;
use crate::resolver::ResolvedServer;
use std::net::SocketAddr;
use tickwire_ntp::Client;
use tickwire_ntp::socket::NtpSocket;
use tracing::{info, warn};

/// After so many unanswered requests the next address of the name is polled. After the last address
/// the name is looked up again: the server may have moved.
const MAX_UNANSWERED: u32 = 8;
/// An address that denies service is left for another address of the name after so many ns. If the
/// server's reply arrives as well, the denial was forged.
const LEAVE_DENIED_AFTER: i64 = super::SECOND;

impl NtpSource {
    /// Whether the polled address does not answer.
    pub(super) const fn is_unresponsive(&self) -> bool {
        self.unanswered >= MAX_UNANSWERED
    }

    /// Runs what is due: lookup, key establishment, request. Returns an address that was found, to
    /// be [opened](Self::open) unless another source polls it.
    pub(super) fn advance(&mut self, now: i64, cards: &mut Cards) -> Option<ResolvedServer> {
        let unresponsive = self.is_unresponsive();
        let found = self.resolver.turn(now, &self.client, unresponsive, &mut self.log_limit);
        if found.is_some() || self.resolver.socket().is_none() {
            return found;
        }
        let next = self.next_address(now);
        if next.is_none() {
            self.send_request_if_due(now, cards);
        }
        next
    }

    /// The address to poll instead of one that does not answer or denies service. If there is no
    /// other, the name is looked up again.
    fn next_address(&mut self, now: i64) -> Option<ResolvedServer> {
        // With NTS the name is looked up again when no cookie is left.
        if self.resolver.needs_keys() {
            return None;
        }
        self.denied = self.denied.filter(|_| self.client.denied_until().is_some());
        let denied = self.denied.is_some_and(|at| now.saturating_sub(at) >= LEAVE_DENIED_AFTER);
        let unresponsive = self.is_unresponsive() && now >= self.client.due();
        if !(denied || unresponsive) {
            return None;
        }
        let next = self.resolver.another(now);
        if next.is_none() && self.resolver.look_up_anew(now) {
            self.unanswered = 0;
        }
        next
    }

    /// Another source polls its address: one server has one vote. Returns another address of its
    /// name to try instead. If there is none, no request is sent until the next lookup, which may
    /// give another server.
    pub(super) fn set_aside(&mut self, twin: &str, address: SocketAddr, now: i64) -> Option<ResolvedServer> {
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
    pub(super) fn open(&mut self, found: ResolvedServer, now: i64) -> Option<ResolvedServer> {
        let address = found.address();
        if self.resolver.take_keys(found) {
            return None;
        }
        let socket = match NtpSocket::open(address, self.kind, self.nominal.period()) {
            Ok(socket) => socket,
            Err(error) => return self.cannot_open(address, error, now),
        };
        let kernel_stamps = socket.has_kernel_stamps();
        let previous = self.resolver.poll_at(address, socket);
        // The silence timeout starts with the first request, and anew after the source was a
        // duplicate.
        if previous.is_none() || self.twin.is_some() {
            self.silent_since = now;
        }
        // An unchanged address keeps the poll interval that its silence has led to.
        if previous != Some(address) {
            self.associate(previous, address, kernel_stamps, now);
        }
        // An address that is tried again despite its denial is left again as soon as there is
        // another.
        self.denied = self.client.denied_until().map(|_| now);
        (self.twin, self.unanswered) = (None, 0);
        None
    }

    /// Begins an association with a new address, or resumes the one that was kept for it. A new one
    /// gets a burst, unless its server has limited the rate before.
    fn associate(&mut self, previous: Option<SocketAddr>, address: SocketAddr, kernel_stamps: bool, now: i64) {
        // A name is looked up repeatedly while no server answers.
        if self.log_limit.take(now) {
            info!(server = self.name, %address, nts = self.resolver.needs_keys(), kernel_stamps, "asking");
        }
        let kept = self.resolver.change_address(previous, address, &self.client);
        self.client = kept.unwrap_or_else(|| {
            let new = Client::new(self.settings, now);
            if self.client.denied_until().is_some() { new } else { new.polling_no_faster_than(&self.client) }
        });
        self.client.disrupt(now);
        self.previous_exchange = None;
    }

    /// This address cannot be polled. Returns another one to try, if there is one.
    fn cannot_open(&mut self, address: SocketAddr, error: std::io::Error, now: i64) -> Option<ResolvedServer> {
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
