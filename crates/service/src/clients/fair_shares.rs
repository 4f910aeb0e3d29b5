//! Fair shares of a round of requests. Every user has the same share of a round, whatever the
//! number of the user's connections and of the requests that wait in them. Connections that a share
//! does not reach come first in the next round.

use super::ConnectionId;
use std::collections::HashMap;
use std::time::Duration;

/// A user's requests in one round, split between the user's ready connections.
const SHARE: usize = 32;

/// A user's requests that are left after this time wait for the next round.
const SLICE: Duration = Duration::from_millis(4);

/// A connection that epoll reports: it is ready, or its process has closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) id: ConnectionId,
    pub(crate) hung_up: bool,
}

/// What a connection may take of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) requests: usize,
    pub(crate) time: Duration,
}

/// What a user has used of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    connections: usize,
    requests: usize,
    time: Duration,
}

/// One round.
#[derive(Debug, Default)]
pub(crate) struct Round(HashMap<u32, Turn>);

impl Round {
    /// Puts those connections first whose last turn is longest ago, by the number of its round.
    /// Among equals each round begins with another one.
    pub(crate) fn order(ready: &mut [Ready], number: usize, mut last_turn: impl FnMut(ConnectionId) -> usize) {
        if !ready.is_empty() {
            ready.rotate_left(number % ready.len());
        }
        ready.sort_by_cached_key(|ready| last_turn(ready.id));
    }

    /// The round of a connection's last turn, before the round of this number. A new connection
    /// counts as served in the round before: otherwise a user's older ones would have no turn while
    /// it makes new ones all the time.
    pub(crate) fn last_turn(turn: &mut Option<usize>, number: usize) -> usize {
        *turn.get_or_insert(number.saturating_sub(1))
    }

    /// A round for these users, each named once for each of its ready connections.
    pub(crate) fn of(users: impl Iterator<Item = u32>) -> Self {
        let mut turns: HashMap<u32, Turn> = HashMap::new();
        users.for_each(|user| turns.entry(user).or_default().connections += 1);
        Self(turns)
    }

    /// What the next connection of a user may take; `None` if the user's share is used up.
    pub(crate) fn allowance(&self, user: u32) -> Option<Allowance> {
        let turn = self.0.get(&user)?;
        let requests = (SHARE / turn.connections).max(1).min(SHARE.saturating_sub(turn.requests));
        (requests > 0 && turn.time < SLICE).then(|| Allowance { requests, time: SLICE - turn.time })
    }

    /// A connection of a user has taken so much.
    pub(crate) fn took(&mut self, user: u32, requests: usize, time: Duration) {
        if let Some(turn) = self.0.get_mut(&user) {
            turn.requests += requests;
            turn.time += time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_split_between_connections_and_ends_with_its_time() {
        let mut round = Round::of([1, 1, 2, 1, 1].into_iter());
        assert_eq!(round.allowance(1), Some(Allowance { requests: SHARE / 4, time: SLICE }));
        round.took(1, 1, SLICE / 2);
        assert_eq!(round.allowance(1), Some(Allowance { requests: SHARE / 4, time: SLICE / 2 }));
        round.took(1, 1, SLICE);
        assert_eq!((round.allowance(1), round.allowance(3)), (None, None));
        assert_eq!(round.allowance(2), Some(Allowance { requests: SHARE, time: SLICE }));
    }

    /// One round of these connections, of which the last is of another user. Returns what the two
    /// users took.
    fn served(ids: Vec<ConnectionId>, number: usize, turns: &mut HashMap<ConnectionId, Option<usize>>) -> [usize; 2] {
        let other = *ids.last().unwrap();
        let user_of = |ready: &Ready| u32::from(ready.id == other);
        let mut ready: Vec<Ready> = ids.into_iter().map(|id| Ready { id, hung_up: false }).collect();
        Round::order(&mut ready, number, |id| Round::last_turn(turns.entry(id).or_default(), number));
        let mut round = Round::of(ready.iter().map(user_of));
        let mut taken = [0, 0];
        for ready in ready {
            let user = user_of(&ready);
            if let Some(Allowance { requests, .. }) = round.allowance(user) {
                round.took(user, requests, Duration::ZERO);
                taken[user as usize] += requests;
                turns.insert(ready.id, Some(number));
            }
        }
        taken
    }

    #[test]
    fn however_many_connections_a_user_has_it_has_one_share_and_each_has_its_turn() {
        const MANY: ConnectionId = 100;
        let mut turns = HashMap::new();
        for number in 1..=4 {
            assert_eq!(served((0..=MANY).collect(), number, &mut turns), [SHARE, SHARE]);
        }
        assert!(turns.values().all(|turn| *turn > Some(0)), "{turns:?}");
    }

    #[test]
    fn a_user_that_makes_connections_all_the_time_does_not_keep_its_older_ones_from_their_turns() {
        const OLD: ConnectionId = 5;
        let (mut turns, mut next) = (HashMap::new(), 1000);
        let mut had = 0;
        for number in 1..=50 {
            let fresh = next..next + 2 * SHARE as ConnectionId;
            next = fresh.end;
            served([OLD].into_iter().chain(fresh).chain([0]).collect(), number, &mut turns);
            had += usize::from(turns[&OLD] == Some(number));
        }
        assert!(had >= 20, "{had} turns in 50 rounds");
    }
}
