//! Lanes that are made in advance, so that a program's first socket need not wait for one; and the
//! programs that wait for one all the same, each user's in its turn.

use super::lane_maker::{AT_A_TIME, Blank};
use crate::clients::ConnectionId;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use tickwire_lane::control::Name;
use tickwire_registry::LaneId;

/// After a failure, none is made in advance for so long.
const REST: Duration = Duration::from_secs(1);

/// A program whose first request is not answered yet. Its lane is booked.
pub(crate) struct Waiting {
    pub(crate) id: ConnectionId,
    pub(crate) request: u32,
    pub(crate) program: Name,
}

/// Lanes without programs, and programs without lanes.
#[derive(Default)]
pub(crate) struct ReadyLanes {
    /// How many are being made.
    begun: usize,
    ready: VecDeque<Blank>,
    /// In the order of their requests.
    waiting: VecDeque<Waiting>,
    /// The count of given lanes when each user got its last one, while programs wait.
    served: HashMap<u32, u64>,
    given: u64,
    rests_until: Option<Instant>,
}

impl ReadyLanes {
    /// The numbers of the lanes that are ready.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = LaneId> {
        self.ready.iter().map(|lane| lane.number)
    }

    /// The lanes that are ready.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Blank> {
        self.ready.iter_mut()
    }

    /// The lanes that are ready, when the service ends.
    pub(crate) fn into_blanks(self) -> impl Iterator<Item = Blank> {
        self.ready.into_iter()
    }

    /// A program waits from now on.
    pub(crate) fn wait(&mut self, program: Waiting) {
        self.waiting.push_back(program);
    }

    /// Whether the program at a connection waits.
    pub(crate) fn is_waiting(&self, id: ConnectionId) -> bool {
        self.waiting.iter().any(|waiting| waiting.id == id)
    }

    /// The program at a connection no longer waits. Returns how many requests of its own did.
    pub(crate) fn forget(&mut self, id: ConnectionId) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.id != id);
        before - self.waiting.len()
    }

    /// The next program in turn: the first of the user whose last lane was given longest ago.
    /// `user_of` returns the user of a connection.
    pub(crate) fn next_waiting(&mut self, user_of: impl Fn(ConnectionId) -> Option<u32>) -> Option<Waiting> {
        let since = |waiting: &Waiting| user_of(waiting.id).and_then(|user| self.served.get(&user)).copied();
        // The first of equals. A user that has been given none comes before all others.
        let (at, next) = self.waiting.iter().enumerate().min_by_key(|(_, waiting)| since(waiting))?;
        let user = user_of(next.id);
        self.given += 1;
        if self.waiting.len() == 1 {
            self.served.clear();
        }
        if let Some(user) = user {
            self.served.insert(user, self.given);
        }
        self.waiting.remove(at)
    }

    /// A lane for the next program in turn; `None` if none is ready, or no program waits.
    pub(crate) fn take(&mut self) -> Option<Blank> {
        if self.waiting.is_empty() { None } else { self.ready.pop_front() }
    }

    /// How many lanes are to be begun now, so that each program that waits gets one and `spare` are
    /// ready. Of the others there may be `most`, and `exist` do. After a failure none is made in
    /// advance for a while.
    pub(crate) fn lacking(&self, spare: usize, most: usize, exist: usize) -> usize {
        let rests = self.rests_until.is_some_and(|until| until > Instant::now());
        let spare = if rests { 0 } else { spare };
        let wanted = (self.waiting.len() + spare).min((most + spare).saturating_sub(exist));
        let lacking = wanted.saturating_sub(self.begun + self.ready.len());
        lacking.min(AT_A_TIME.saturating_sub(self.begun))
    }

    /// A lane is being made.
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
    }

    /// One that was being made no longer is.
    pub(crate) fn ended(&mut self) {
        self.begun = self.begun.saturating_sub(1);
    }

    /// A lane is ready.
    pub(crate) fn add(&mut self, lane: Blank) {
        self.ready.push_back(lane);
    }

    /// A lane could not be made. Returns whether others are being made, which may serve the
    /// programs that wait.
    pub(crate) fn failed(&mut self) -> bool {
        self.rests_until = Some(Instant::now() + REST);
        self.begun > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(id: ConnectionId) -> Waiting {
        Waiting { id, request: 0, program: Name::new("") }
    }

    #[test]
    fn users_whose_programs_wait_take_turns() {
        let mut lanes = ReadyLanes::default();
        (1..=5).for_each(|id| lanes.wait(waiting(id)));
        assert_eq!((lanes.forget(5), lanes.forget(5)), (1, 0));
        let user_of = |id| Some(if id == 4 { 2 } else { 1 });
        let turns: Vec<_> = std::iter::from_fn(|| lanes.next_waiting(user_of)).map(|next| next.id).collect();
        assert_eq!(turns, [1, 4, 2, 3]);
        assert!(lanes.take().is_none() && !lanes.is_waiting(3));
    }

    #[test]
    fn lanes_are_made_in_advance_and_for_programs_that_wait_up_to_a_limit() {
        let mut lanes = ReadyLanes::default();
        assert_eq!((lanes.lacking(2, 10, 0), lanes.lacking(2, 10, 11), lanes.lacking(2, 10, 12)), (2, 1, 0));
        lanes.begin();
        assert_eq!((lanes.lacking(2, 10, 0), lanes.lacking(100, 1000, 0)), (1, AT_A_TIME - 1));
        assert!(lanes.failed(), "one is being made");
        lanes.ended();
        assert!(!lanes.failed());
        assert_eq!(lanes.lacking(2, 10, 0), 0, "none in advance after a failure");
        lanes.wait(waiting(1));
        assert_eq!(lanes.lacking(2, 10, 0), 1);
    }
}
