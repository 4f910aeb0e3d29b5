//! The addresses of a server's name, and which of them to poll next.
//!
//! A name can have addresses that do not work: IPv6 where only IPv4 gets through, a pool member
//! that is down, a server that has moved. Each is tried in the resolver's order (RFC 6724) until
//! one answers. If none does, the name is looked up again and all have another turn, each time
//! after a longer wait: every turn is a burst.

use std::net::SocketAddr;
use tickwire_ntp::Client;

const SECOND: i64 = 1_000_000_000;
/// Only the first so many of a name's addresses are polled. DNS over UDP gives some tens.
const MOST: usize = 16;
/// A name whose addresses are all silent is looked up again after so many ns. The wait doubles
/// after each further unsuccessful turn, at most `DOUBLINGS` times.
const LOOKUP_INTERVAL: i64 = 64 * SECOND;
const DOUBLINGS: u32 = 4;

/// A name's addresses, and what is known of them.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// In the resolver's order.
    all: Vec<SocketAddr>,
    /// Polled since one of them answered, or since the turn began.
    tried: Vec<SocketAddr>,
    /// Unsuccessful turns since one of them answered.
    turns: u32,
    /// Associations with addresses that were left while they denied service or limited the rate:
    /// the restriction still holds at their next turn.
    restrained: Vec<(SocketAddr, Client)>,
}

impl Addresses {
    /// Takes the result of a lookup; returns the address to poll, if there is any.
    pub(super) fn found(&mut self, all: Vec<SocketAddr>, now: i64) -> Option<SocketAddr> {
        self.all.clear();
        for address in all {
            if self.all.len() < MOST && !self.all.contains(&address) {
                self.all.push(address);
            }
        }
        // An address that has disappeared is untried if it comes back.
        self.tried.retain(|address| self.all.contains(address));
        let next = self.another(now).or_else(|| {
            self.tried.clear();
            self.turns = self.turns.saturating_add(1).min(DOUBLINGS);
            self.another(now)
        });
        // If all deny service, take the one whose denial ends first.
        next.or_else(|| self.all.iter().copied().min_by_key(|address| self.denied(*address)))
    }

    /// The lookup failed: the known addresses have another turn. Returns the one to poll, if any is
    /// known.
    pub(super) fn not_found(&mut self, now: i64) -> Option<SocketAddr> {
        // The resolver may be unreachable for the same reason as the servers, and come back later.
        if self.all.is_empty() { None } else { self.found(self.all.clone(), now) }
    }

    /// The next address that has not been tried in this turn and does not deny service at `now`.
    pub(super) fn another(&mut self, now: i64) -> Option<SocketAddr> {
        let denies = |address: &SocketAddr| self.denied(*address).is_some_and(|until| now < until);
        let untried = |address: &&SocketAddr| !self.tried.contains(address) && !denies(address);
        let next = self.all.iter().find(untried).copied()?;
        self.tried.push(next);
        Some(next)
    }

    /// The polled address has given a usable reply.
    pub(super) fn answered(&mut self, polled: Option<SocketAddr>) {
        self.turns = 0;
        self.tried.retain(|address| Some(*address) == polled);
    }

    /// Minimum time between two lookups of the name, in ns.
    pub(super) const fn lookup_interval(&self) -> i64 {
        LOOKUP_INTERVAL << self.turns
    }

    /// An address is not polled any more, for now. Its association is kept if the server denies
    /// service or limits the rate.
    pub(super) fn leave(&mut self, address: SocketAddr, client: &Client) {
        if client.denied_until().is_none() && client.slowed_until().is_none() {
            return;
        }
        self.restrained.retain(|(other, _)| *other != address);
        if self.restrained.len() == MOST {
            self.restrained.remove(0);
        }
        self.restrained.push((address, client.clone()));
    }

    /// The association that was kept for an address, if there is one.
    pub(super) fn rejoin(&mut self, address: SocketAddr) -> Option<Client> {
        let at = self.restrained.iter().position(|(other, _)| *other == address)?;
        Some(self.restrained.remove(at).1)
    }

    /// Until when an address that was left denies service.
    fn denied(&self, address: SocketAddr) -> Option<i64> {
        self.restrained.iter().find(|(other, _)| *other == address).and_then(|(_, client)| client.denied_until())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickclock::{Count, Nanos};
    use tickwire_ntp::client::{ClientConfig, Poll, TransmitContents};
    use tickwire_ntp::{Kiss, Mode, NtpPacket, Reply, Stamp};

    fn at(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 123))
    }

    fn all(last: &[u8]) -> Vec<SocketAddr> {
        last.iter().map(|last| at(*last)).collect()
    }

    /// An association whose first request is answered by a kiss at this time.
    fn kissed(by: Kiss, now: i64) -> Client {
        let poll = Poll { usual: SECOND, longest: 1024 * SECOND };
        let mut client = Client::new(ClientConfig { poll, transmit: TransmitContents::Nonce, interleaved: false }, now);
        let request = client.request(now, [1, 2], Count(0)).unwrap();
        let kiss = NtpPacket {
            mode: Mode::Server,
            stratum: 0,
            reference_id: by.to_reference(),
            origin_timestamp: request.transmit_timestamp,
            receive_timestamp: Stamp(1),
            ..request
        };
        let bytes = &kiss.to_bytes();
        client.answer(Reply { bytes, sent: Count(0), received: Count(1), now, near: Nanos(0) }).unwrap_err();
        client
    }

    #[test]
    fn each_has_its_turn_in_the_resolvers_order_and_turns_become_rarer() {
        let mut addresses = Addresses::default();
        let mut intervals = Vec::new();
        for _ in 0..7 {
            assert_eq!(addresses.found(all(&[3, 1, 3, 2]), 0), Some(at(3)));
            assert_eq!([(); 3].map(|()| addresses.another(0)), [Some(at(1)), Some(at(2)), None]);
            intervals.push(addresses.lookup_interval() / SECOND);
        }
        assert_eq!(intervals, [64, 128, 256, 512, 1024, 1024, 1024]);
        addresses.answered(Some(at(2)));
        assert_eq!(addresses.lookup_interval(), 64 * SECOND);
        assert_eq!([(); 3].map(|()| addresses.another(0)), [Some(at(3)), Some(at(1)), None], "when it falls silent");
    }

    #[test]
    fn a_name_that_was_never_found_has_no_turn_in_vain() {
        let mut addresses = Addresses::default();
        assert_eq!((addresses.not_found(0), addresses.lookup_interval()), (None, 64 * SECOND));
    }

    #[test]
    fn a_name_that_has_moved_is_followed() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.found(all(&[1]), 0), Some(at(1)));
        assert_eq!((addresses.another(0), addresses.lookup_interval()), (None, 64 * SECOND));
        assert_eq!(addresses.found(all(&[1]), 0), Some(at(1)), "not yet");
        assert_eq!((addresses.found(all(&[7]), 0), addresses.another(0)), (Some(at(7)), None));
        // A pool gives other addresses each time, in another order.
        assert_eq!(addresses.found(all(&[7, 8, 9]), 0), Some(at(8)), "not the one that has just been silent");
        assert_eq!(addresses.found(all(&[9, 8]), 0), Some(at(9)));
        assert_eq!(addresses.found(vec![], 0), None);
    }

    #[test]
    fn an_address_that_denies_service_is_passed_over_until_it_may_be_asked_again() {
        let mut addresses = Addresses::default();
        let hour = 3600 * SECOND;
        addresses.found(all(&[1, 2]), 0);
        let denying = kissed(Kiss::Deny, 0);
        addresses.leave(at(1), &denying);
        assert_eq!(addresses.another(0), Some(at(2)));
        assert_eq!(addresses.found(all(&[1, 2]), 1), Some(at(2)), "also in the next turn");
        addresses.leave(at(2), &kissed(Kiss::Restricted, SECOND));
        assert_eq!(addresses.found(all(&[2, 1]), 2), Some(at(1)), "all do: the one that may be asked first");
        assert_eq!(addresses.rejoin(at(1)).unwrap().denied_until(), Some(hour), "and not before");
        assert!(addresses.rejoin(at(1)).is_none());
        assert_eq!(addresses.found(all(&[2, 1]), 3 * hour), Some(at(2)));
        assert_eq!(addresses.another(3 * hour), Some(at(1)));
    }

    #[test]
    fn an_address_that_limits_the_rate_does_so_at_its_next_turn_and_others_leave_nothing_behind() {
        let mut addresses = Addresses::default();
        let fresh = kissed(Kiss::Other(*b"XYZ\0"), 0);
        addresses.leave(at(1), &fresh);
        assert!(addresses.rejoin(at(1)).is_none());
        for last in 0..100 {
            addresses.leave(at(last), &kissed(Kiss::Rate, 0));
            addresses.leave(at(last), &kissed(Kiss::Rate, 0));
        }
        assert_eq!(addresses.restrained.len(), MOST, "some are forgotten");
        assert_eq!(addresses.rejoin(at(99)).unwrap().permitted_interval(), 2 * SECOND);
        let many: Vec<_> = (0..=255).collect();
        addresses.found(all(&many), 0);
        assert_eq!(addresses.all, all(&many[..MOST]));
    }
}
