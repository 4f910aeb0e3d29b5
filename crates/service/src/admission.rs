//! A program asks for a lane (`Hello`): it gets one that is ready, or waits until one is made.

use crate::answer::{Answer, refused};
use crate::connection::ConnectionId;
use crate::lane_maker::MakeError;
use crate::ready_lanes::{ReadyLanes, Waiting};
use crate::registry::LaneId;
use crate::service::Service;
use tickwire_lane::control::{Name, Reason};

/// How many lanes are kept ready if the configuration does not say.
const READY: u32 = 2;

impl Service {
    /// Answers [`tickwire_lane::control::Request::Hello`]; `None` if the answer has to wait for a
    /// lane.
    pub(crate) fn hello(&mut self, id: ConnectionId, request: u32, program: Name, layout: u64) -> Option<Answer> {
        let Some(connection) = self.connections.get(&id) else { return Some(refused(Reason::BadRequest)) };
        if connection.lane.is_some() || self.ready_lanes.is_waiting(id) {
            return Some(refused(Reason::BadRequest));
        }
        let booked = if self.parts() { Err(Reason::Stopping) } else { self.book_lane(id, layout) };
        if let Err(reason) = booked {
            return Some(self.without_lane(id, program, reason));
        }
        self.ready_lanes.wait(Waiting { id, request, program });
        // Programs that have waited longer may come first.
        self.serve_waiting();
        self.make_ready();
        None
    }

    /// The program gets no lane, for this reason.
    fn without_lane(&mut self, id: ConnectionId, program: Name, reason: Reason) -> Answer {
        if let Some(peer) = self.connections.get(&id).map(|connection| connection.peer) {
            tracing::info!(pid = peer.pid, uid = peer.uid, %program, %reason, "no lane");
        }
        self.list_without_lane(id, program, reason);
        refused(reason)
    }

    /// The next program in turn.
    fn next_waiting(&mut self) -> Option<Waiting> {
        let Self { ready_lanes, connections, .. } = self;
        ready_lanes.next_waiting(|id| connections.get(&id).map(|connection| connection.peer.uid))
    }

    /// Gives lanes that are ready to programs that wait.
    fn serve_waiting(&mut self) {
        while let Some(blank) = self.ready_lanes.take() {
            let Some(Waiting { id, request, program }) = self.next_waiting() else { return };
            let number = blank.number;
            let given = self.give_lane(id, program, blank);
            let is_given = given.is_ok();
            let answer = given.unwrap_or_else(|reason| {
                self.remove_lane(number, false);
                self.without_lane(id, program, reason)
            });
            self.answer(id, request, answer);
            if is_given {
                self.grant_real_time(id);
            }
        }
    }

    /// No program gets a lane any more: those that wait for one are refused.
    pub(crate) fn refuse_waiting(&mut self, reason: Reason) {
        while let Some(Waiting { id, request, program }) = self.next_waiting() {
            if let Some(user) = self.user_of(id) {
                self.give_back_lane(user);
            }
            let answer = self.without_lane(id, program, reason);
            self.answer(id, request, answer);
        }
    }

    /// Removes the waiting request of a connection.
    pub(crate) fn forget_waiting(&mut self, id: ConnectionId, user: u32) {
        (0..self.ready_lanes.forget(id)).for_each(|_| self.give_back_lane(user));
    }

    /// Begins to make as many lanes as are wanted. Called when some were given away.
    pub(crate) fn make_ready(&mut self) {
        let spare = if self.nics.any() { self.config.lane.ready.unwrap_or(READY) as usize } else { 0 };
        let (most, exist) = (self.config.limits.lanes as usize, self.lanes.len() + self.dying.len());
        for _ in 0..self.ready_lanes.lacking(spare, most, exist) {
            self.begin_lane();
            self.ready_lanes.begin();
        }
    }

    /// A lane could not be made: the next waiting program in turn is refused.
    fn lane_failed(&mut self, error: &MakeError) {
        tracing::error!(%error, "a lane could not be made");
        if !self.ready_lanes.failed()
            && let Some(Waiting { id, request, program }) = self.next_waiting()
        {
            if let Some(user) = self.user_of(id) {
                self.give_back_lane(user);
            }
            let answer = self.without_lane(id, program, Reason::ServiceError);
            self.answer(id, request, answer);
        }
    }

    /// Lanes have been made, or could not be.
    pub(crate) fn lanes_made(&mut self) {
        for made in self.maker.take() {
            self.ready_lanes.ended();
            let counted = made.and_then(|blank| match self.programs.begin_counting(blank.number) {
                Ok(()) => Ok(blank),
                Err(error) => {
                    self.remove_lane(blank.number, false);
                    Err(error.into())
                }
            });
            match counted {
                Ok(blank) => self.ready_lanes.add(blank),
                Err(error) => self.lane_failed(&error),
            }
        }
        self.serve_waiting();
        self.make_ready();
    }

    /// Removes lanes that no program has, at the end of the service.
    pub(crate) fn drop_ready_lanes(&mut self) {
        let numbers: Vec<LaneId> = self.ready_lanes.numbers().collect();
        self.ready_lanes = ReadyLanes::default();
        numbers.into_iter().for_each(|number| self.remove_lane(number, false));
    }
}
