//! Fair scheduling of requests. Every user has the same share of a round, whatever the number of
//! the user's connections and of the requests that wait in them. A connection that exceeds its
//! request rate is not read for a while.

use crate::answer::refused;
use crate::connection::{ConnectionId, End, Received};
use crate::requests;
use crate::service::Service;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tickwire_lane::control::{Malformed, Reason, Reply, Request};

/// A user's requests in one round, split between the user's ready connections; each of these has at
/// least one.
const SHARE: usize = 32;

/// A user's requests that are left after this time wait for the next round.
const SLICE: Duration = Duration::from_millis(4);

/// A connection is not read for so long while too much of what its user passed waits to be closed.
const HELD_UP: Duration = Duration::from_millis(50);

/// A connection that epoll reports: it is ready, or its process has closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) id: ConnectionId,
    pub(crate) hung_up: bool,
}

/// What a user has used of this round.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    connections: usize,
    taken: Duration,
}

impl Service {
    /// One round. `number` counts the rounds, so that each begins with another connection.
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

    /// Handles at most `share` requests of a connection, for at most `slice`.
    fn serve(&mut self, ready: Ready, share: usize, slice: Duration) {
        let id = ready.id;
        let begun = Instant::now();
        for _ in 0..share {
            let now = Instant::now();
            let Some(connection) = self.connections.get_mut(&id) else { return };
            // A client that does not read answers is not served: the answers may hold descriptors.
            if connection.waits_to_write || now.duration_since(begun) >= slice {
                return;
            }
            if let Some(until) = connection.must_rest(now) {
                // Requests of a process that is gone are not worth a pause.
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
                    // No descriptor was left here for what it passed.
                    Some(number) => (number, Reply::Refused { reason: Reason::ServiceError, interface: 0 }.into()),
                    None => return self.end_malformed(id, &error),
                },
            };
            self.answer(id, number, answer);
        }
    }

    /// Ends a connection that sends no valid message. A client of another version does not read the
    /// answer, but learns the service's version from it.
    fn end_malformed(&mut self, id: ConnectionId, error: &Malformed) {
        if matches!(error, Malformed::Version(_)) {
            self.answer(id, 0, refused(Reason::Version));
        }
        self.end_connection(id, &End::Malformed(error.to_string()));
    }

    /// Slows a connection that exceeds its request rate.
    fn rest(&mut self, id: ConnectionId, until: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.rested {
            connection.rested = true;
            let (pid, uid) = (connection.peer.pid, connection.peer.uid);
            tracing::warn!(pid, uid, "asks more than it may (limits.requests_per_second): it is slowed");
        }
        self.pause(id, until);
    }

    /// Does not read a connection for a while.
    fn pause(&mut self, id: ConnectionId, until: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.rests = true;
        self.resting.insert((until, id));
        self.watch(id);
    }

    /// When the first of the paused connections is read again.
    pub(crate) fn next_awakening(&self) -> Option<Instant> {
        self.resting.first().map(|&(until, _)| until)
    }

    /// Resumes the connections whose pause is over.
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
