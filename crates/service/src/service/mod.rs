//! The service: its parts, and what takes several of them. Each part owns its state; a method that
//! needs another part gets it as an argument. What a program is to be told stands here, because
//! telling it may end its connection, and with that its lane and its claims.
//!
//! | module | purpose |
//! |---|---|
//! | here | the parts; answers and pushes; the checks of every second |
//! | `turns`, `requests` | the turns of programs; the dispatch of their requests |
//! | `admission` | a program asks for a lane; it gets one, or waits |
//! | `listing` | answers `tickwire stat` and `tickwire capture` |
//! | `host_changes` | the host's links, addresses, neighbours and routes change |
//! | `ending` | the end of a connection, of a lane, and of the service |

mod admission;
mod ending;
mod host_changes;
mod listing;
mod requests;
mod turns;

use crate::answer::Answer;
use crate::claims::Claims;
use crate::clients::{Clients, ConnectionId};
use crate::config::ServiceConfig;
use crate::farewell::Farewell;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use crate::paths::{Changed, Paths};
use std::time::Instant;
use tickwire_lane::control::{Claim, Push};
use tickwire_registry::LaneId;

/// The service.
pub(crate) struct Service {
    pub(crate) config: ServiceConfig,
    pub(crate) ledger: Ledger,
    /// Declared before the lanes, so that divert leaves the interfaces before the lanes' devices
    /// are removed.
    pub(crate) paths: Paths,
    pub(crate) lanes: Lanes,
    pub(crate) claims: Claims,
    pub(crate) clients: Clients,
    /// Set when the service was asked to end.
    farewell: Option<Farewell>,
}

impl Service {
    /// A service of these parts.
    pub(crate) fn new(
        config: ServiceConfig,
        ledger: Ledger,
        paths: Paths,
        lanes: Lanes,
        claims: Claims,
        clients: Clients,
    ) -> Self {
        Self { config, ledger, paths, lanes, claims, clients, farewell: None }
    }

    /// Answers a request.
    fn answer(&mut self, id: ConnectionId, number: u32, answer: Answer) {
        if self.clients.get(id).is_none() {
            self.claims.remove_untold(answer.claims(), &mut self.ledger);
            return;
        }
        if let Err(end) = self.clients.answer(id, number, answer, &self.paths) {
            self.end_connection(id, &end);
        }
    }

    /// Sends what is queued for a connection.
    fn flush(&mut self, id: ConnectionId) {
        if let Err(end) = self.clients.flush(id, &self.paths) {
            self.end_connection(id, &end);
        }
    }

    /// Sends a push to one process.
    fn push(&mut self, id: ConnectionId, push: Push) {
        if let Err(end) = self.clients.push(id, push, &self.paths) {
            self.end_connection(id, &end);
        }
    }

    /// Sends a push to every process of a lane.
    fn push_to_lane(&mut self, lane: LaneId, push: impl Fn() -> Push) {
        for id in self.lanes.connections_of(lane) {
            self.push(id, push());
        }
    }

    /// Sends every process of these lanes the latest state of the paths that have changed.
    fn push_paths(&mut self, changed: Changed) {
        for (lane, queries) in changed {
            for id in self.lanes.connections_of(lane) {
                if let Err(end) = self.clients.push_paths(id, &queries, &self.paths) {
                    self.end_connection(id, &end);
                }
            }
        }
    }

    /// Tells lanes which of their claims have been lost since the last call.
    fn tell_of_lost_claims(&mut self) {
        for lost in self.claims.take_lost() {
            self.push_to_lane(lost.lane, || Push::ClaimLost { claim: Claim(lost.claim), reason: lost.reason });
        }
    }

    /// What is to be looked at every second.
    pub(crate) fn verify(&mut self, now: Instant) {
        let Self { ledger, clients, lanes, claims, paths, .. } = self;
        clients.workers.staff();
        claims.verify(&mut clients.workers, &paths.nics, ledger);
        claims.verify_noted(|id, lane| clients.lane_of(id) == Some(lane), lanes, ledger);
        claims.verify_flows(ledger);
        claims.verify_pins(lanes, ledger);
        claims.settle(now, lanes, &paths.nics, ledger);
        lanes.fit_guards(&mut paths.nics, &mut ledger.programs);
        paths.fit_wakeups(&mut ledger.programs);
        self.tell_of_lost_claims();
        self.make_ready();
    }

    /// Resolves some of the paths again that are queued for that.
    pub(crate) fn refresh_some_paths(&mut self) {
        let changed = self.paths.refresh_some(&mut self.ledger.programs);
        self.push_paths(changed);
    }
}
