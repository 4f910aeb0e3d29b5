//! Invariants of sequence numbers over time, and between the two ends of a connection (RFC 9293
//! §3.4, §3.8). A look at one stack at one moment cannot check these.

use std::collections::{HashMap, HashSet};
use tickwire_stack::Stack;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::{Seq, SeqSnapshot};

/// The last snapshot of each host's connections, by both ends; and the connections that are over.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    seen: [HashMap<(Endpoint, Endpoint), SeqSnapshot>; 2],
    over: HashSet<Name>,
}

/// A connection as one of its ends knows it: local and remote endpoint, ISS and IRS.
type Name = (Endpoint, Endpoint, u32, u32);

fn name(numbers: &SeqSnapshot) -> Name {
    let Seq(iss) = numbers.iss;
    (numbers.local, numbers.remote, iss, numbers.irs.0)
}

/// The invariant that a connection violates compared with its previous snapshot.
fn goes_back(before: &SeqSnapshot, now: &SeqSnapshot) -> Option<&'static str> {
    let back = [
        (before.una, now.una, "SND.UNA goes back"),
        (before.nxt, now.nxt, "SND.NXT goes back"),
        (before.received, now.received, "RCV.NXT goes back"),
        (before.edge, now.edge, "the window that was offered shrinks"),
    ];
    back.into_iter().find(|(before, now, _)| now.lt(*before)).map(|(_, _, what)| what)
}

/// The invariant violated between the sending end of a connection and the receiving one.
fn disagrees(from: &SeqSnapshot, to: &SeqSnapshot) -> Option<&'static str> {
    let order = [
        (from.una, to.received, "what was not received is acknowledged"),
        (to.received, from.nxt, "what was not sent is received"),
        // FIN may take the one sequence number beyond the window.
        (from.nxt, to.edge + u32::from(from.fin_sent), "more is sent than was asked for"),
    ];
    order.into_iter().find(|(less, more, _)| more.lt(*less)).map(|(_, _, what)| what)
}

impl Invariants {
    /// Checks the current connections of both hosts against the previous snapshot and each other.
    ///
    /// # Panics
    /// If an invariant is violated; the message names it.
    pub(crate) fn look(&mut self, [one, other]: [&Stack<'_>; 2]) {
        self.see(one.tcp_numbers(), other.tcp_numbers());
    }

    /// Whether these are the two ends of one connection, not of two successive ones between the
    /// same ports. Equal numbers do not suffice: a SYN cookie that is replayed after a reset makes
    /// a new connection with the same numbers. A peer that missed the reset does not know that (RFC
    /// 4987 §3.6: the listener keeps no state that could tell).
    fn are_peers(&self, one: &SeqSnapshot, other: &SeqSnapshot) -> bool {
        let is_first = |numbers| !self.over.contains(&name(numbers));
        (one.iss, one.irs) == (other.irs, other.iss) && is_first(one) && is_first(other)
    }

    fn see(&mut self, one: impl Iterator<Item = SeqSnapshot>, other: impl Iterator<Item = SeqSnapshot>) {
        let by_ends = |all: &mut dyn Iterator<Item = SeqSnapshot>| all.map(|n| ((n.local, n.remote), n)).collect();
        let now: [HashMap<_, _>; 2] = [by_ends(&mut { one }), by_ends(&mut { other })];
        for (seen, now) in self.seen.iter().zip(&now) {
            let is_there = |ends, before| now.get(ends).is_some_and(|n: &SeqSnapshot| n.is_still(before));
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

    /// Both ends of a connection around the wrap. 100 bytes are in flight from the first to the
    /// second, which has acknowledged all but 20 of the bytes that it received.
    fn ends() -> [SeqSnapshot; 2] {
        let [one, other] = [1, 2].map(|last| Endpoint::new(Address::v4([10, 0, 0, last]), 80));
        let first = SeqSnapshot::new(one, other, u32::MAX - 999, 7);
        let second = SeqSnapshot::new(other, one, 7, u32::MAX - 999);
        let first = SeqSnapshot { una: first.una + 980, nxt: first.nxt + 1_100, edge: first.edge + 1_000, ..first };
        let second = SeqSnapshot { received: second.received + 1_000, edge: second.edge + 3_000, ..second };
        [first, second]
    }

    fn broken(looks: &[[SeqSnapshot; 2]]) -> Option<String> {
        let mut invariants = Invariants::default();
        let mut see = |ends: &[SeqSnapshot; 2]| invariants.see([ends[0]].into_iter(), [ends[1]].into_iter());
        let all = || looks.iter().for_each(&mut see);
        let told = catch_unwind(AssertUnwindSafe(all)).err()?;
        told.downcast_ref::<String>().cloned()
    }

    /// The panic message, or an empty one, for valid ends followed by changed ones.
    fn after(change: impl Fn(&mut [SeqSnapshot; 2])) -> String {
        let mut changed = ends();
        change(&mut changed);
        broken(&[ends(), changed]).unwrap_or_default()
    }

    #[test]
    fn what_goes_on_violates_no_invariant() {
        let later = |[first, second]: [SeqSnapshot; 2]| {
            let first = SeqSnapshot { una: first.una + 20, nxt: first.nxt + 50, ..first };
            [first, SeqSnapshot { received: second.received + 100, edge: second.edge + 10, ..second }]
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

    /// The next connection between the same ports has other numbers, and may coexist with the
    /// remaining end of the previous one.
    #[test]
    fn another_connection_between_the_same_ports_is_checked_by_itself() {
        let [first, second] = ends();
        let next = SeqSnapshot::new(first.local, first.remote, 40, 9_000);
        assert_eq!(
            broken(&[
                [first, second],
                [next, second],
                [next, SeqSnapshot::new(second.local, second.remote, 9_000, 40)]
            ]),
            None
        );
    }

    /// RFC 4987 §3.6: the cookie of a connection that was reset arrives again, and creates a new
    /// connection with the same numbers.
    #[test]
    fn what_is_made_of_the_same_cookie_is_checked_by_itself() {
        let [first, second] = ends();
        let mut again = SeqSnapshot::new(first.local, first.remote, first.iss.0, first.irs.0);
        again.id.generation += 4;
        assert_eq!(broken(&[[first, second], [again, second], [again, second]]), None);
        let mut closed = SeqSnapshot { orphan: true, ..first };
        closed.id.generation += 2;
        assert_eq!(broken(&[[first, second], [closed, second]]), None);
        closed.una = closed.una - 1;
        assert!(broken(&[[first, second], [closed, second]]).is_some_and(|told| told.contains("SND.UNA goes back")));
    }
}
