//! The turns of programs: in each round of the event loop every user's requests are handled, up to
//! the user's share. A connection that exceeds its request rate is not read for a while.

use super::{Service, requests};
use crate::answer::refused;
use crate::clients::{Allowance, ConnectionId, End, Ready, Received, Round};
use std::time::Instant;
use tickwire_lane::control::{MalformedMessage, Reason, Request};

impl Service {
    /// One round of these connections. `number` counts the rounds.
    pub(crate) fn round(&mut self, ready: &mut [Ready], number: usize) {
        Round::order(ready, number, |id| {
            self.clients.get_mut(id).map_or(0, |connection| Round::last_turn(&mut connection.last_turn, number))
        });
        let mut round = Round::of(ready.iter().filter_map(|ready| self.clients.user_of(ready.id)));
        for ready in &*ready {
            self.flush(ready.id);
            let Some(user) = self.clients.user_of(ready.id) else { continue };
            let Some(allowance) = round.allowance(user) else { continue };
            if let Some(connection) = self.clients.get_mut(ready.id) {
                connection.last_turn = Some(number);
            }
            let begun = Instant::now();
            let requests = self.serve(*ready, allowance);
            round.took(user, requests, begun.elapsed());
        }
    }

    /// Handles requests of a connection. Returns how many there were.
    fn serve(&mut self, ready: Ready, allowance: Allowance) -> usize {
        let until = Instant::now() + allowance.time;
        (0..allowance.requests).take_while(|_| self.serve_one(ready, until)).count()
    }

    /// Handles the next request of a connection. Returns whether there was one.
    fn serve_one(&mut self, Ready { id, hung_up }: Ready, until: Instant) -> bool {
        let now = Instant::now();
        let Some(connection) = self.clients.get_mut(id) else { return false };
        // A client that does not read answers is not served: the answers may hold descriptors.
        if connection.waits_to_write || now >= until {
            return false;
        }
        if let Some(rests_until) = connection.must_rest(now) {
            // Requests of a process that is gone are not worth a pause.
            if hung_up {
                self.end_connection(id, &End::Gone);
            } else {
                self.clients.rest(id, rests_until);
            }
            return false;
        }
        let (incoming, passed) = match connection.receive(now) {
            Ok(Received::Message(incoming, passed)) => (incoming, passed),
            Ok(Received::Nothing) => return false,
            Ok(Received::HeldUp) => {
                if hung_up {
                    self.end_connection(id, &End::Gone);
                } else {
                    self.clients.hold_up(id, now);
                }
                return false;
            }
            Err(end) => {
                self.end_connection(id, &end);
                return false;
            }
        };
        match incoming.decode::<Request>() {
            Ok((number, request)) => {
                let answer = requests::handle(self, id, number, request, passed);
                // Before the answer, which may be about the same port.
                self.tell_of_lost_claims();
                if let Some(answer) = answer {
                    self.answer(id, number, answer);
                }
            }
            Err(error) => match incoming.number_if_short::<Request>() {
                // No descriptor was left here for what it passed.
                Some(number) => self.answer(id, number, refused(Reason::ServiceError)),
                None => self.end_malformed(id, &error),
            },
        }
        true
    }

    /// Ends a connection that sends no valid message. A client of another version does not read the
    /// answer, but learns the service's version from it.
    fn end_malformed(&mut self, id: ConnectionId, error: &MalformedMessage) {
        if matches!(error, MalformedMessage::Version(_)) {
            self.answer(id, 0, refused(Reason::Version));
        }
        self.end_connection(id, &End::Malformed(error.to_string()));
    }
}
