//! Fair shares of a round of requests. Every user has the same share of a round, whatever the
//! number of the user's connections and of the requests that wait in them.

use super::ConnectionId;
use std::collections::HashMap;
use std::time::Duration;

/// A user's requests in one round, split between the user's ready connections; each of these has at
/// least one.
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
    time: Duration,
}

/// One round.
#[derive(Debug, Default)]
pub(crate) struct Round(HashMap<u32, Turn>);

impl Round {
    /// A round for these users, each named once for each of its ready connections.
    pub(crate) fn of(users: impl Iterator<Item = u32>) -> Self {
        let mut turns: HashMap<u32, Turn> = HashMap::new();
        users.for_each(|user| turns.entry(user).or_default().connections += 1);
        Self(turns)
    }

    /// What the next connection of a user may take; `None` if the user's share is used up.
    pub(crate) fn allowance(&self, user: u32) -> Option<Allowance> {
        let turn = self.0.get(&user)?;
        let requests = (SHARE / turn.connections).max(1);
        (turn.time < SLICE).then(|| Allowance { requests, time: SLICE - turn.time })
    }

    /// A connection of a user has taken so much.
    pub(crate) fn took(&mut self, user: u32, time: Duration) {
        if let Some(turn) = self.0.get_mut(&user) {
            turn.time += time;
        }
    }
}
