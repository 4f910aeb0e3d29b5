//! The dispatch of requests.

use super::Service;
use crate::answer::{Answer, refused};
use crate::claims::{Closing, Departure, Wanted};
use crate::clients::{ConnectionId, Foreign};
use std::time::Instant;
use tickwire_host::Query;
use tickwire_lane::control::{Claim, Interfaces, Parts, Reason, Reply, Request};
use tickwire_registry::LaneId;
use tickwire_stack::addr::Address;
use tickwire_stack::tcp::Leaving;

/// Handles one request. `None` if its answer follows later.
pub(crate) fn handle(
    service: &mut Service,
    id: ConnectionId,
    number: u32,
    request: Request,
    passed: Vec<Foreign>,
) -> Option<Answer> {
    let mut passed = passed.into_iter();
    let outcome = match request {
        Request::Hello { program, layout } => return service.hello(id, number, program, layout),
        Request::Attach { lane, token, descriptors } => service.attach(id, (lane, token), descriptors),
        // Connections that are opened from here on are the kernel's from the beginning.
        Request::Claim { .. } | Request::Ports { .. } if service.parts() => Err(Reason::Stopping),
        Request::Claim { kind, remote } => service.claim(id, Wanted { kind, remote }, passed.next()),
        Request::Convert { claim, remotes, more, closes } => {
            service.convert(id, claim, Closing { remotes: &remotes, more, closes })
        }
        Request::Release { parts } => service.release(id, &parts),
        Request::Join { claim, group } => service.join(id, claim, group),
        Request::Leave { claim, group } => service.leave(id, claim, group),
        Request::Resolve { query, choose } => service.resolve(id, query, choose),
        Request::ListLanes { after } => Ok(service.list_lanes(id, after)),
        Request::ListInterfaces { after } => Ok(service.list_interfaces(after)),
        Request::ListClaims { lane, after } => service.list_claims(id, lane, after),
        Request::Counters { of, lane } => service.counters(id, of, lane),
        Request::Bulk => service.bulk(id),
        Request::Ports { source, count } => service.ports(id, source, count),
        Request::TakeOver { claim, v6, state } => service.take_over(id, claim, (v6, &state), passed.next()),
        Request::OnKernel { program, reason } => service.on_kernel(id, program, reason),
        Request::Capture { lane, snaplen } => service.capture(id, lane, snaplen),
    };
    Some(outcome.unwrap_or_else(refused))
}

impl Service {
    /// The lane of the process at a connection.
    fn lane_of(&self, id: ConnectionId) -> Result<LaneId, Reason> {
        self.clients.lane_of(id).ok_or(Reason::BadRequest)
    }

    /// Answers [`Request::Claim`].
    fn claim(&mut self, id: ConnectionId, wanted: Wanted, socket: Option<Foreign>) -> Result<Answer, Reason> {
        let (lane, socket) = (self.lane_of(id)?, socket.ok_or(Reason::BadRequest)?);
        let (claim, local) = self.claims.claim(lane, wanted, socket, &self.lanes, &mut self.paths, &mut self.ledger)?;
        self.claims.asked_at(claim, id);
        Ok(Reply::Claimed { claim: Claim(claim), local }.into())
    }

    /// Answers [`Request::Convert`].
    fn convert(&mut self, id: ConnectionId, Claim(claim): Claim, closing: Closing<'_>) -> Result<Answer, Reason> {
        let lane = self.lane_of(id)?;
        self.claims.convert(lane, claim, closing, &self.lanes, &self.paths.nics, &mut self.ledger)?;
        Ok(Reply::Done.into())
    }

    /// Answers [`Request::Release`].
    fn release(&mut self, id: ConnectionId, parts: &Parts) -> Result<Answer, Reason> {
        let lane = self.lane_of(id)?;
        self.claims.release(lane, parts, &mut self.ledger)?;
        Ok(Reply::Done.into())
    }

    /// Answers [`Request::Join`].
    fn join(&mut self, id: ConnectionId, Claim(claim): Claim, group: Address) -> Result<Answer, Reason> {
        let lane = self.lane_of(id)?;
        let interfaces = self.claims.join(lane, claim, group, &self.paths.nics, &mut self.ledger)?;
        Ok(Reply::Joined { interfaces: Interfaces::new(&interfaces) }.into())
    }

    /// Answers [`Request::Leave`].
    fn leave(&mut self, id: ConnectionId, Claim(claim): Claim, group: Address) -> Result<Answer, Reason> {
        let lane = self.lane_of(id)?;
        self.claims.leave(lane, claim, group, &self.paths.nics, &mut self.ledger)?;
        Ok(Reply::Done.into())
    }

    /// Answers [`Request::Resolve`].
    fn resolve(&mut self, id: ConnectionId, query: Query, choose: bool) -> Result<Answer, Reason> {
        let lane = self.lane_of(id)?;
        let (path, reason) = self.paths.answer(lane, query, choose, &mut self.ledger.programs);
        Ok(Reply::Path { path, reason }.into())
    }

    /// Answers [`Request::Bulk`].
    fn bulk(&mut self, id: ConnectionId) -> Result<Answer, Reason> {
        let lane = self.lane_of(id)?;
        let made = self.lanes.bulk_of(lane, &mut self.paths.host, &mut self.ledger.programs);
        let tap = made.map_err(|error| {
            tracing::warn!(lane, %error, "a lane has no device for trains, so its streams cost more");
            Reason::ServiceError
        })?;
        Ok(Answer { reply: Reply::Bulk, descriptors: vec![tap] })
    }

    /// Answers [`Request::Ports`].
    fn ports(&mut self, id: ConnectionId, source: Address, count: u32) -> Result<Answer, Reason> {
        let lane = self.lane_of(id)?;
        let user = self.lanes.get(lane).map(|lane| lane.user).ok_or(Reason::LaneGone)?;
        let queue = self.clients.workers.of(user);
        let bound = self.claims.bind_ports((lane, user), source, count, &queue, &self.paths.nics, &mut self.ledger)?;
        Ok(Reply::Ports { namespace: bound.namespace, source, ports: bound.ports }.into())
    }

    /// Answers [`Request::TakeOver`].
    fn take_over(
        &mut self,
        id: ConnectionId,
        Claim(claim): Claim,
        (v6, state): (bool, &Leaving),
        bytes: Option<Foreign>,
    ) -> Result<Answer, Reason> {
        let (lane, bytes) = (self.lane_of(id)?, bytes.ok_or(Reason::BadRequest)?);
        let leaving = Departure { lane, claim, v6, state };
        let socket = self.claims.take_over(leaving, bytes, &self.lanes, &mut self.paths, &mut self.ledger)?;
        let Some(socket) = socket else { return Ok(Reply::Done.into()) };
        // The others get more time.
        if let Some(farewell) = &mut self.farewell {
            farewell.extend(Instant::now());
        }
        Ok(Answer { reply: Reply::TakenOver, descriptors: vec![socket] })
    }
}
