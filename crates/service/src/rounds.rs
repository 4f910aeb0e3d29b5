//! Whose turn it is. Every user has the same share of a round, whatever the number of his
//! connections and of the requests that wait in them; and who asks faster than he may is not
//! listened to for a while.

use crate::connection::{Answer, ConnectionId, End, Received};
use crate::requests;
use crate::service::Service;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tickwire_link::control::{Malformed, Reason, Reply, Request};

/// At most so many requests of one user are handled in a round.
const SHARE: usize = 32;

/// What is left when a user's requests have taken so long waits for the next round.
const SLICE: Duration = Duration::from_millis(4);

/// A user is not listened to for so long while too much of what he passed waits to be closed.
const HELD_UP: Duration = Duration::from_millis(50);

/// A connection that has something to say, or whose process has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) id: ConnectionId,
    pub(crate) hung_up: bool,
}

/// What a user has of this round.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    connections: usize,
    taken: Duration,
}

impl Service {
    /// One round. `number` counts them: it is another connection of a user that comes first in
    /// each.
    pub(crate) fn round(&mut self, ready: &mut [Ready], number: usize) {
        if !ready.is_empty() {
            ready.rotate_left(number % ready.len());
        }
        let mut turns: HashMap<u32, Turn> = HashMap::new();
        for uid in ready.iter().filter_map(|ready| self.user_of(ready.id)) {
            turns.entry(uid).or_default().connections += 1;
        }
        for ready in &*ready {
            self.flush(ready.id);
            let Some(turn) = self.user_of(ready.id).and_then(|uid| turns.get_mut(&uid)) else { continue };
            let share = (SHARE / turn.connections).max(1);
            if turn.taken < SLICE {
                let begun = Instant::now();
                self.serve(*ready, share, SLICE.saturating_sub(turn.taken));
                turn.taken += begun.elapsed();
            }
        }
    }

    /// Handles what a connection has to say, at most so much and for so long.
    fn serve(&mut self, ready: Ready, share: usize, slice: Duration) {
        let id = ready.id;
        let begun = Instant::now();
        for _ in 0..share {
            let now = Instant::now();
            let Some(connection) = self.connections.get_mut(&id) else { return };
            // Who does not read answers is asked nothing: they may hold descriptors.
            if connection.waits_to_write || now.duration_since(begun) >= slice {
                return;
            }
            if let Some(until) = connection.must_rest(now) {
                // What a process that is gone still wanted is not worth waiting for.
                return if ready.hung_up { self.end_connection(id, &End::Gone) } else { self.rest(id, until) };
            }
            let (incoming, passed) = match connection.receive(now) {
                Ok(Received::Message(incoming, passed)) => (incoming, passed),
                Ok(Received::Nothing) => break,
                Ok(Received::HeldUp) if ready.hung_up => return self.end_connection(id, &End::Gone),
                Ok(Received::HeldUp) => return self.pause(id, now + HELD_UP),
                Err(end) => return self.end_connection(id, &end),
            };
            let (number, answer) = match incoming.decode::<Request>() {
                Ok((number, request)) => match requests::handle(self, id, number, request, passed) {
                    Some(answer) => (number, answer),
                    None => continue,
                },
                Err(error) => match incoming.number_if_short::<Request>() {
                    // We have no descriptor left for what it passed.
                    Some(number) => (number, Reply::Refused { reason: Reason::ServiceError, interface: 0 }.into()),
                    None => return self.end_malformed(id, &error),
                },
            };
            self.answer(id, number, answer);
        }
    }

    /// Ends a connection that says what is no message. One of another version does not read the
    /// answer, but learns our version from it.
    fn end_malformed(&mut self, id: ConnectionId, error: &Malformed) {
        if matches!(error, Malformed::Version(_)) {
            self.answer(id, 0, requests::refused(Reason::Version));
        }
        self.end_connection(id, &End::Malformed(error.to_string()));
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, id: ConnectionId, number: u32, answer: Answer) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.answer(number, answer) {
            Ok(()) => self.flush(id),
            Err(end) => self.end_connection(id, &end),
        }
    }

    /// Slows a connection that asks too fast.
    fn rest(&mut self, id: ConnectionId, until: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.rested {
            connection.rested = true;
            let (pid, uid) = (connection.peer.pid, connection.peer.uid);
            tracing::warn!(pid, uid, "asks more than it may (limits.requests_per_second): it is slowed");
        }
        self.pause(id, until);
    }

    /// Does not listen to a connection for a while.
    fn pause(&mut self, id: ConnectionId, until: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.rests = true;
        self.resting.insert((until, id));
        self.watch(id);
    }

    /// When the first of those that rest is listened to again.
    pub(crate) fn next_awakening(&self) -> Option<Instant> {
        self.resting.first().map(|&(until, _)| until)
    }

    /// Listens again to those that have rested.
    pub(crate) fn awake(&mut self, now: Instant) {
        while let Some(&(until, id)) = self.resting.first()
            && until <= now
        {
            self.resting.pop_first();
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.rests = false;
                self.watch(id);
            }
        }
    }
}
