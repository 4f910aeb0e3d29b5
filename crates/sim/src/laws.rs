//! Laws of sequence numbers over time, and between the two ends of a connection (RFC 9293 §3.4,
//! §3.8): what no look at one stack at one moment shows.

use std::collections::{HashMap, HashSet};
use tickwire_stack::Stack;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::{Numbers, Seq};

/// What was seen at the last look, of each host: connections by both ends. And which are over.
#[derive(Debug, Default)]
pub(crate) struct Laws {
    seen: [HashMap<(Endpoint, Endpoint), Numbers>; 2],
    over: HashSet<Name>,
}

/// A connection as one of its ends knows it: the ends, ISS and IRS.
type Name = (Endpoint, Endpoint, u32, u32);

fn name(numbers: &Numbers) -> Name {
    let Seq(iss) = numbers.iss;
    (numbers.local, numbers.remote, iss, numbers.irs.0)
}

/// What must not have become of a connection since it was last looked at.
fn goes_back(before: &Numbers, now: &Numbers) -> Option<&'static str> {
    let back = [
        (before.una, now.una, "SND.UNA goes back"),
        (before.nxt, now.nxt, "SND.NXT goes back"),
        (before.received, now.received, "RCV.NXT goes back"),
        (before.edge, now.edge, "the window that was offered shrinks"),
    ];
    back.into_iter().find(|(before, now, _)| now.lt(*before)).map(|(_, _, what)| what)
}

/// What must not be between one end of a connection, which sends, and the other, which receives.
fn disagrees(from: &Numbers, to: &Numbers) -> Option<&'static str> {
    let laws = [
        (from.una, to.received, "what was not received is acknowledged"),
        (to.received, from.nxt, "what was not sent is received"),
        // FIN may take the one number behind the window.
        (from.nxt, to.edge + u32::from(from.fin_sent), "more is sent than was asked for"),
    ];
    laws.into_iter().find(|(less, more, _)| more.lt(*less)).map(|(_, _, what)| what)
}

impl Laws {
    /// Looks at the connections of both hosts between which something has happened since.
    ///
    /// # Panics
    /// If a law is broken, with which.
    pub(crate) fn look(&mut self, [one, other]: [&Stack<'_>; 2]) {
        self.see(one.tcp_numbers(), other.tcp_numbers());
    }

    /// Whether these are the two ends of one connection, and not of two that followed each other
    /// between the same ports. Also when both have the same numbers: a SYN cookie that comes again
    /// after the connection was reset makes another one of it, of which the peer, who has not heard
    /// of the reset, knows nothing (RFC 4987 §3.6: nothing is kept that could tell).
    fn are_peers(&self, one: &Numbers, other: &Numbers) -> bool {
        let is_first = |numbers| !self.over.contains(&name(numbers));
        (one.iss, one.irs) == (other.irs, other.iss) && is_first(one) && is_first(other)
    }

    fn see(&mut self, one: impl Iterator<Item = Numbers>, other: impl Iterator<Item = Numbers>) {
        let by_ends = |all: &mut dyn Iterator<Item = Numbers>| all.map(|n| ((n.local, n.remote), n)).collect();
        let now: [HashMap<_, _>; 2] = [by_ends(&mut { one }), by_ends(&mut { other })];
        for (seen, now) in self.seen.iter().zip(&now) {
            let is_there = |ends, before| now.get(ends).is_some_and(|n: &Numbers| n.is_still(before));
            let gone = seen.iter().filter(|&(ends, before)| !is_there(ends, before));
            self.over.extend(gone.map(|(_, before)| name(before)));
        }
        for host in 0..2 {
            for (&(local, remote), numbers) in &now[host] {
                let before = self.seen[host].get(&(local, remote)).filter(|before| numbers.is_still(before));
                let back = before.and_then(|before| goes_back(before, numbers));
                assert_eq!(back, None, "host {host}: {before:?}, then {numbers:?}");
                let peer = now[1 - host].get(&(remote, local)).filter(|peer| self.are_peers(numbers, peer));
                let wrong = peer.and_then(|peer| disagrees(numbers, peer));
                assert_eq!(wrong, None, "host {host}: {numbers:?} to {peer:?}");
            }
        }
        self.seen = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tickwire_stack::addr::Address;

    /// Both ends of a connection around the wrap: 100 bytes are under way from the first to the
    /// second, which has told of half of what it received.
    fn ends() -> [Numbers; 2] {
        let [one, other] = [1, 2].map(|last| Endpoint::new(Address::v4([10, 0, 0, last]), 80));
        let first = Numbers::new(one, other, u32::MAX - 999, 7);
        let second = Numbers::new(other, one, 7, u32::MAX - 999);
        let first = Numbers { una: first.una + 980, nxt: first.nxt + 1_100, edge: first.edge + 1_000, ..first };
        let second = Numbers { received: second.received + 1_000, edge: second.edge + 3_000, ..second };
        [first, second]
    }

    fn broken(looks: &[[Numbers; 2]]) -> Option<String> {
        let mut laws = Laws::default();
        let mut see = |ends: &[Numbers; 2]| laws.see([ends[0]].into_iter(), [ends[1]].into_iter());
        let all = || looks.iter().for_each(&mut see);
        let told = catch_unwind(AssertUnwindSafe(all)).err()?;
        told.downcast_ref::<String>().cloned()
    }

    /// What is told when the ends are seen as they are, and then after this.
    fn after(change: impl Fn(&mut [Numbers; 2])) -> String {
        let mut changed = ends();
        change(&mut changed);
        broken(&[ends(), changed]).unwrap_or_default()
    }

    #[test]
    fn what_goes_on_keeps_to_the_laws() {
        let later = |[first, second]: [Numbers; 2]| {
            let first = Numbers { una: first.una + 20, nxt: first.nxt + 50, ..first };
            [first, Numbers { received: second.received + 100, edge: second.edge + 10, ..second }]
        };
        assert_eq!(broken(&[ends(), ends(), later(ends()), later(later(ends()))]), None);
    }

    #[test]
    fn a_number_that_goes_back_is_found() {
        assert!(after(|ends| ends[0].una = ends[0].una - 1).contains("SND.UNA goes back"));
        assert!(after(|ends| ends[0].nxt = ends[0].nxt - 1).contains("SND.NXT goes back"));
        assert!(after(|ends| ends[1].received = ends[1].received - 1).contains("RCV.NXT goes back"));
        assert!(after(|ends| ends[1].edge = ends[1].edge - 1).contains("the window that was offered shrinks"));
    }

    #[test]
    fn ends_that_disagree_are_found() {
        assert!(after(|ends| ends[0].una = ends[1].received + 1).contains("what was not received is acknowledged"));
        assert!(after(|ends| ends[1].received = ends[0].nxt + 1).contains("what was not sent is received"));
        assert!(after(|ends| ends[0].nxt = ends[1].edge + 1).contains("more is sent than was asked for"));
        let fin = |beyond| after(|ends| (ends[0].nxt, ends[0].fin_sent) = (ends[1].edge + beyond, true));
        assert!(fin(1).is_empty() && fin(2).contains("more is sent than was asked for"));
    }

    /// The next connection between the same ports has other numbers, and may meet what is left of
    /// the one before.
    #[test]
    fn another_connection_between_the_same_ports_has_laws_of_its_own() {
        let [first, second] = ends();
        let next = Numbers::new(first.local, first.remote, 40, 9_000);
        assert_eq!(
            broken(&[[first, second], [next, second], [next, Numbers::new(second.local, second.remote, 9_000, 40)]]),
            None
        );
    }

    /// RFC 4987 §3.6: the cookie of a connection that was reset comes again, and makes one with the
    /// same numbers, which begins anew.
    #[test]
    fn what_is_made_of_the_same_cookie_has_laws_of_its_own() {
        let [first, second] = ends();
        let mut again = Numbers::new(first.local, first.remote, first.iss.0, first.irs.0);
        again.id.generation += 4;
        assert_eq!(broken(&[[first, second], [again, second], [again, second]]), None);
        let mut closed = Numbers { orphan: true, ..first };
        closed.id.generation += 2;
        assert_eq!(broken(&[[first, second], [closed, second]]), None);
        closed.una = closed.una - 1;
        assert!(broken(&[[first, second], [closed, second]]).is_some_and(|told| told.contains("SND.UNA goes back")));
    }
}
