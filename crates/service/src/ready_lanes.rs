//! Lanes that are made in advance, so that a program's first socket need not wait for one; and the
//! programs that wait for one all the same.

use crate::connection::{Answer, ConnectionId};
use crate::lane_maker::{AT_A_TIME, Blank, MakeError};
use crate::registry::LaneId;
use crate::requests::refused;
use crate::service::Service;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use tickwire_link::control::{AttachMode, Name, Reason};

/// How many lanes are kept ready if the configuration does not say.
pub(crate) const READY: u32 = 2;

/// After a failure, none is made in advance for so long.
const REST: Duration = Duration::from_secs(1);

/// A program whose first request is not answered yet. Its lane is booked.
struct Waiting {
    id: ConnectionId,
    request: u32,
    program: Name,
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
    /// Their numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = LaneId> {
        self.ready.iter().map(|lane| lane.number)
    }
}

impl Service {
    /// Answers [`tickwire_link::control::Request::Hello`]; `None` if the answer has to wait for a
    /// lane.
    pub(crate) fn hello(&mut self, id: ConnectionId, request: u32, program: Name, layout: u64) -> Option<Answer> {
        let Some(connection) = self.connections.get(&id) else { return Some(refused(Reason::BadRequest)) };
        if connection.lane.is_some() || self.ready_lanes.waiting.iter().any(|waiting| waiting.id == id) {
            return Some(refused(Reason::BadRequest));
        }
        let booked = if self.parts() { Err(Reason::Stopping) } else { self.book_lane(id, layout) };
        if let Err(reason) = booked {
            return Some(self.without_lane(id, program, reason));
        }
        self.ready_lanes.waiting.push_back(Waiting { id, request, program });
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

    /// The next program in turn: the first of the user whose last lane was given longest ago.
    fn next_waiting(&mut self) -> Option<Waiting> {
        let Self { ready_lanes: lanes, connections, .. } = self;
        let user = |waiting: &Waiting| connections.get(&waiting.id).map(|connection| connection.peer.uid);
        let since = |waiting: &Waiting| user(waiting).and_then(|user| lanes.served.get(&user)).copied();
        // The first of equals. A user that has been given none comes before all others.
        let (at, next) = lanes.waiting.iter().enumerate().min_by_key(|(_, waiting)| since(waiting))?;
        let user = user(next);
        lanes.given += 1;
        if lanes.waiting.len() == 1 {
            lanes.served.clear();
        }
        if let Some(user) = user {
            lanes.served.insert(user, lanes.given);
        }
        lanes.waiting.remove(at)
    }

    /// Gives lanes that are ready to programs that wait.
    fn serve_waiting(&mut self) {
        while !self.ready_lanes.waiting.is_empty()
            && let Some(blank) = self.ready_lanes.ready.pop_front()
        {
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
        let before = self.ready_lanes.waiting.len();
        self.ready_lanes.waiting.retain(|waiting| waiting.id != id);
        (self.ready_lanes.waiting.len()..before).for_each(|_| self.give_back_lane(user));
    }

    /// Begins to make as many lanes as are wanted. Called when some were given away.
    pub(crate) fn make_ready(&mut self) {
        let now = Instant::now();
        let lanes = &self.ready_lanes;
        let in_advance = self.nics.any() && lanes.rests_until.is_none_or(|until| until <= now);
        let spare = if in_advance { self.config.lane.ready.unwrap_or(READY) as usize } else { 0 };
        let wanted = lanes.waiting.len() + spare;
        let room = (self.config.limits.lanes as usize + spare).saturating_sub(self.lanes.len() + self.dying.len());
        let wanted = wanted.min(room);
        let lacking = wanted.saturating_sub(lanes.begun + lanes.ready.len());
        for _ in 0..lacking.min(AT_A_TIME.saturating_sub(lanes.begun)) {
            self.begin_lane();
            self.ready_lanes.begun += 1;
        }
    }

    /// A lane could not be made: the next waiting program in turn is refused.
    fn lane_failed(&mut self, error: &MakeError) {
        tracing::error!(%error, "a lane could not be made");
        self.ready_lanes.rests_until = Some(Instant::now() + REST);
        // If others are being made, these may do.
        if self.ready_lanes.begun == 0
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
            self.ready_lanes.begun = self.ready_lanes.begun.saturating_sub(1);
            let counted = made.and_then(|blank| match self.programs.begin_counting(blank.number) {
                Ok(()) => Ok(blank),
                Err(error) => {
                    self.remove_lane(blank.number, false);
                    Err(error.into())
                }
            });
            match counted {
                Ok(blank) => self.ready_lanes.ready.push_back(blank),
                Err(error) => self.lane_failed(&error),
            }
        }
        self.serve_waiting();
        self.make_ready();
    }

    /// Guards the ready lanes in this mode.
    pub(crate) fn fit_ready_guards(&mut self, mode: AttachMode) {
        let mut ready = std::mem::take(&mut self.ready_lanes.ready);
        ready.iter_mut().for_each(|blank| self.fit_guard(blank, mode));
        self.ready_lanes.ready = ready;
    }

    /// Removes lanes that no program has, at the end of the service.
    pub(crate) fn drop_ready_lanes(&mut self) {
        let numbers: Vec<LaneId> = self.ready_lanes.numbers().collect();
        self.ready_lanes = ReadyLanes::default();
        numbers.into_iter().for_each(|number| self.remove_lane(number, false));
    }
}
