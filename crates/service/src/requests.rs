//! The dispatch of requests, and the resolution of paths.

use crate::answer::{Answer, reason_of, refused};
use crate::connection::ConnectionId;
use crate::path_subscriptions::differs;
use crate::registry::LaneId;
use crate::service::Service;
use crate::user_workers::Foreign;
use tickwire_host::{Answer as HostAnswer, Query};
use tickwire_lane::control::{Reason, Reply, Request};
use tickwire_stack::addr::Address;
use tickwire_stack::path::{PathInfo, PathState};

/// Handles one request. `None` if its answer follows later.
pub(crate) fn handle(
    service: &mut Service,
    id: ConnectionId,
    number: u32,
    request: Request,
    passed: Vec<Foreign>,
) -> Option<Answer> {
    let answer = match request {
        Request::Hello { program, layout } => return service.hello(id, number, program, layout),
        Request::Attach { lane, token, descriptors } => service.attach(id, lane, token, descriptors),
        // Connections that are opened from here on are the kernel's from the beginning.
        Request::Claim { .. } | Request::Ports { .. } if service.parts() => refused(Reason::Stopping),
        Request::Claim { kind, remote } => match passed.into_iter().next() {
            Some(socket) => service.claim(id, kind, remote, socket),
            None => refused(Reason::BadRequest),
        },
        Request::Convert { claim, remotes, more, closes } => service.convert(id, claim.0, &remotes, (more, closes)),
        Request::Release { parts } => service.release(id, &parts),
        Request::Join { claim, group } => service.join(id, claim.0, group),
        Request::Leave { claim, group } => service.leave(id, claim.0, group),
        Request::Resolve { query, choose } => service.resolve(id, query, choose),
        Request::ListLanes { after } => service.list_lanes(id, after),
        Request::ListInterfaces { after } => service.list_interfaces(after),
        Request::ListClaims { lane, after } => service.list_claims(id, lane, after),
        Request::Counters { of, lane } => service.counters(id, of, lane),
        Request::Bulk => service.bulk(id),
        Request::Ports { source, count } => service.ports(id, source, count),
        Request::TakeOver { claim, v6, state } => match passed.into_iter().next() {
            Some(bytes) => service.take_over(id, claim.0, v6, &state, bytes),
            None => refused(Reason::BadRequest),
        },
        Request::OnKernel { program, reason } => service.on_kernel(id, program, reason),
        Request::Capture { lane, snaplen } => service.capture(id, lane, snaplen),
    };
    Some(answer)
}

impl Service {
    /// Answers [`Request::Resolve`].
    fn resolve(&mut self, id: ConnectionId, query: Query, choose: bool) -> Answer {
        let Some(lane) = self.connections.get(&id).and_then(|c| c.lane) else { return refused(Reason::BadRequest) };
        let nics = &self.nics;
        match self.host.resolve(&query, |index, source| nics.path(index, source)) {
            Ok(mut answer) => {
                if choose && query.source == Address::ANY && self.goes_alike_from_chosen(lane, &answer) {
                    answer.path.chosen = answer.path.source;
                }
                self.note_answer(lane, query, answer);
                Reply::Path { path: answer.path, reason: reason_of(answer.why) }.into()
            }
            Err(error) => {
                tracing::warn!(lane, destination = %query.destination, %error, "the kernel could not be asked for a path");
                let path = PathInfo { query, state: PathState::Kernel, ..PathInfo::default() };
                Reply::Path { path, reason: Reason::ServiceError }.into()
            }
        }
    }

    /// Whether packets take the same path from the source address that an answer has chosen. If so,
    /// that path is watched for the lane, too.
    fn goes_alike_from_chosen(&mut self, lane: LaneId, answer: &HostAnswer) -> bool {
        let path = &answer.path;
        if !matches!(path.state, PathState::Ready | PathState::Resolving) || path.source.is_unspecified() {
            return false;
        }
        let (query, nics) = (path.query.from(path.source), &self.nics);
        match self.host.resolve(&query, |index, source| nics.path(index, source)) {
            Ok(own) if !differs(answer, &own) => {
                self.note_answer(lane, query, own);
                true
            }
            _ => false,
        }
    }

    /// Notes an answer to a lane, which is notified when it changes.
    fn note_answer(&mut self, lane: LaneId, query: Query, answer: HostAnswer) {
        self.programs.note_path(&query, &answer.path);
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.watches.set(query, answer);
        }
    }
}
