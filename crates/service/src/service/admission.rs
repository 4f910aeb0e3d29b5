//! A program asks for a lane (`Hello`): it gets one that is ready, or waits until one is made.
//! Further processes join a lane; others report that they have none.

use super::Service;
use crate::answer::{Answer, refused};
use crate::clients::ConnectionId;
use crate::lanes::Waiting;
use tickwire_lane::control::{Name, Push, Reason, Reply, Token};
use tickwire_registry::LaneId;

impl Service {
    /// Answers [`tickwire_lane::control::Request::Hello`]; `None` if the answer has to wait for a
    /// lane.
    pub(super) fn hello(&mut self, id: ConnectionId, request: u32, program: Name, layout: u64) -> Option<Answer> {
        let Some(connection) = self.clients.get(id) else { return Some(refused(Reason::BadRequest)) };
        if connection.lane.is_some() || self.lanes.is_waiting(id) {
            return Some(refused(Reason::BadRequest));
        }
        let user = connection.peer.uid;
        let booked = if self.parts() {
            Err(Reason::Stopping)
        } else {
            self.lanes.book(user, layout, &self.paths.nics, &mut self.ledger.usage)
        };
        if let Err(reason) = booked {
            return Some(self.without_lane(id, program, reason));
        }
        self.lanes.wait(Waiting { id, request, program });
        // Programs that have waited longer may come first.
        self.serve_waiting();
        self.make_ready();
        None
    }

    /// Answers [`tickwire_lane::control::Request::Attach`].
    pub(super) fn attach(
        &mut self,
        id: ConnectionId,
        (lane, token): (LaneId, Token),
        descriptors: bool,
    ) -> Result<Answer, Reason> {
        let own = self.clients.get(id).ok_or(Reason::BadRequest)?.lane;
        let answer = self.lanes.attach(id, own, (lane, token), descriptors)?;
        self.clients.enter_lane(id, lane);
        self.grant_real_time(id);
        Ok(answer)
    }

    /// Answers [`tickwire_lane::control::Request::OnKernel`].
    pub(super) fn on_kernel(&mut self, id: ConnectionId, program: Name, reason: Reason) -> Result<Answer, Reason> {
        let connection = self.clients.get_mut(id).filter(|_| reason != Reason::None).ok_or(Reason::BadRequest)?;
        let (pid, left) = (connection.peer.pid, connection.lane.take());
        if let Some(lane) = left {
            self.leave_lane(id, pid, lane);
        }
        let is_listed = self.clients.list_without_lane(id, program, reason, &self.ledger.usage);
        if is_listed { Ok(Reply::Done.into()) } else { Err(Reason::RateLimit) }
    }

    /// The program gets no lane, for this reason.
    fn without_lane(&mut self, id: ConnectionId, program: Name, reason: Reason) -> Answer {
        if let Some(peer) = self.clients.peer_of(id) {
            tracing::info!(pid = peer.pid, uid = peer.uid, %program, %reason, "no lane");
        }
        self.clients.list_without_lane(id, program, reason, &self.ledger.usage);
        refused(reason)
    }

    /// Gives lanes that are ready to programs that wait.
    fn serve_waiting(&mut self) {
        while let Some(blank) = self.lanes.take_ready() {
            let Some(Waiting { id, request, program }) = self.lanes.next_waiting(&self.clients) else { return };
            let number = blank.number;
            let given = match self.clients.get(id).map(|connection| (connection.peer, connection.lane)) {
                Some((peer, None)) => {
                    let least_mtu = self.paths.nics.least_mtu();
                    self.lanes.give(id, peer, program, blank, least_mtu).map_err(|reason| (peer.uid, reason))
                }
                Some((peer, Some(_))) => {
                    self.lanes.remove_blank(blank);
                    Err((peer.uid, Reason::BadRequest))
                }
                // It has taken its place with it.
                None => {
                    self.lanes.remove_blank(blank);
                    continue;
                }
            };
            match given {
                Ok(answer) => {
                    self.paths.begin(number, self.lanes.limits().paths as usize);
                    self.clients.enter_lane(id, number);
                    self.answer(id, request, answer);
                    self.grant_real_time(id);
                }
                Err((user, reason)) => {
                    self.lanes.give_back(user, &mut self.ledger.usage);
                    let answer = self.without_lane(id, program, reason);
                    self.answer(id, request, answer);
                }
            }
        }
    }

    /// Refuses the next program in turn of those that wait. Returns whether there was one.
    fn refuse_next(&mut self, reason: Reason) -> bool {
        let Some(Waiting { id, request, program }) = self.lanes.next_waiting(&self.clients) else { return false };
        if let Some(user) = self.clients.user_of(id) {
            self.lanes.give_back(user, &mut self.ledger.usage);
        }
        let answer = self.without_lane(id, program, reason);
        self.answer(id, request, answer);
        true
    }

    /// No program gets a lane any more: those that wait for one are refused.
    pub(super) fn refuse_waiting(&mut self, reason: Reason) {
        while self.refuse_next(reason) {}
    }

    /// Grants a process that has a lane now the real-time priority of its groups, if they have one.
    fn grant_real_time(&mut self, id: ConnectionId) {
        let granted = self.clients.get(id).and_then(|connection| self.lanes.grant_real_time(connection));
        if let Some(priority) = granted {
            self.push(id, Push::Realtime { priority });
        }
    }

    /// Begins to make as many lanes as are wanted. Called when some were given away.
    pub(crate) fn make_ready(&mut self) {
        let most = self.config.limits.lanes as usize;
        self.lanes.make_ready(most, &mut self.paths.nics, &mut self.ledger.programs);
    }

    /// Lanes have been made, or could not be: then the next waiting program in turn is refused,
    /// unless others are being made.
    pub(crate) fn lanes_made(&mut self) {
        for failure in self.lanes.take_made(&mut self.ledger.programs) {
            tracing::error!(error = %failure.error, "a lane could not be made");
            if !failure.others_follow {
                self.refuse_next(Reason::ServiceError);
            }
        }
        self.serve_waiting();
        self.make_ready();
    }
}
