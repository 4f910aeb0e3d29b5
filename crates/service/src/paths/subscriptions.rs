//! The destinations that a lane has asked about. The host's events keep them up to date, and the
//! lane is notified when they change.

use std::collections::{BTreeSet, HashMap, VecDeque};
use tickwire_host::resolve::apply_neighbour;
use tickwire_host::{Answer, Neighbour, Query};
use tickwire_stack::addr::Address;

/// The watched destinations of one lane.
#[derive(Debug)]
pub(crate) struct PathSubscriptions {
    limit: usize,
    answers: HashMap<Query, Answer>,
    /// In the order in which they were first asked for; the oldest is forgotten first.
    order: VecDeque<Query>,
}

impl PathSubscriptions {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), answers: HashMap::new(), order: VecDeque::new() }
    }

    /// Records the answer that the lane has received.
    pub(crate) fn set(&mut self, query: Query, answer: Answer) {
        if self.answers.insert(query, answer).is_none() {
            self.order.push_back(query);
            if self.order.len() > self.limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.answers.remove(&oldest);
            }
        }
    }

    /// The answer that the lane received last.
    pub(crate) fn get(&self, query: &Query) -> Option<&Answer> {
        self.answers.get(query)
    }

    /// All watched destinations, to be resolved again after the host's routes or addresses changed.
    pub(crate) fn queries(&self) -> Vec<Query> {
        self.order.iter().copied().collect()
    }

    /// Whether a path goes by this neighbour.
    pub(crate) fn uses(&self, interface: u32, hop: Address) -> bool {
        self.answers.values().any(|a| a.next_hop == Some(hop) && a.path.interface == interface)
    }

    /// Applies the new state of a neighbour. Returns the queries whose path it changed.
    pub(crate) fn neighbour_changed(&mut self, neighbour: &Neighbour) -> BTreeSet<usize> {
        let mut changed = BTreeSet::new();
        for (at, query) in self.order.iter().enumerate() {
            let Some(answer) = self.answers.get_mut(query) else { continue };
            if answer.next_hop != Some(neighbour.address) || answer.path.interface != neighbour.interface {
                continue;
            }
            let before = (answer.path.state, answer.path.next_hop_mac);
            apply_neighbour(&mut answer.path, Some(neighbour));
            if before != (answer.path.state, answer.path.next_hop_mac) {
                changed.insert(at);
            }
        }
        changed
    }

    /// The query at a place that [`Self::neighbour_changed`] returned.
    pub(crate) fn at(&self, at: usize) -> Option<Query> {
        self.order.get(at).copied()
    }
}

/// Whether a lane must be notified of the difference between two answers.
pub(crate) fn differs(before: &Answer, after: &Answer) -> bool {
    let key = |a: &Answer| {
        (a.path.state as u8, a.path.source, a.path.interface, a.path.mtu, a.path.source_mac.0, a.path.next_hop_mac.0)
    };
    key(before) != key(after) || before.path.metrics != after.path.metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_host::Reachability;
    use tickwire_stack::addr::Mac;
    use tickwire_stack::path::{PathInfo, PathState};

    fn query(last: u8) -> Query {
        Query::to(Address::v4([10, 0, 0, last]))
    }

    fn answer(last: u8, hop: u8) -> Answer {
        let path = PathInfo { query: query(last), interface: 3, state: PathState::Resolving, ..PathInfo::default() };
        Answer { path, next_hop: Some(Address::v4([10, 0, 0, hop])), why: None }
    }

    #[test]
    fn a_router_that_answers_changes_every_path_by_it() {
        let mut watches = PathSubscriptions::new(8);
        watches.set(query(5), answer(5, 254));
        watches.set(query(6), answer(6, 254));
        watches.set(query(7), answer(7, 7));
        let mut router = Neighbour {
            interface: 3,
            address: Address::v4([10, 0, 0, 254]),
            mac: Some(Mac([2; 6])),
            state: Reachability::Fresh,
        };
        let changed: Vec<_> =
            watches.neighbour_changed(&router).into_iter().map(|at| watches.at(at).unwrap()).collect();
        assert_eq!(changed, [query(5), query(6)]);
        assert_eq!(watches.get(&query(5)).unwrap().path.state, PathState::Ready);
        router.state = Reachability::Stale;
        assert!(watches.neighbour_changed(&router).is_empty(), "nothing new for the lane");
        router.interface = 4;
        router.state = Reachability::Failed;
        assert!(watches.neighbour_changed(&router).is_empty(), "another link's neighbour");
        assert!(watches.uses(3, router.address) && !watches.uses(4, router.address));
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_are_too_many() {
        let mut watches = PathSubscriptions::new(2);
        for last in 1..=3 {
            watches.set(query(last), answer(last, last));
        }
        watches.set(query(3), answer(3, 4));
        assert_eq!(watches.queries(), [query(2), query(3)]);
        assert!(watches.get(&query(1)).is_none());
        assert!(differs(&answer(1, 1), &Answer { path: PathInfo { mtu: 9, ..answer(1, 1).path }, ..answer(1, 1) }));
    }
}
