//! Answers the requests of `tickwire stat` and `tickwire capture`.
//!
//! Root sees everything, other users only what belongs to them. Of other users they see nothing but
//! what the counters of the whole host show.

use super::Service;
use crate::answer::Answer;
use crate::clients::ConnectionId;
use std::time::Instant;
use tickwire_lane::control::{Claim, ClaimInfo, ClaimKind, CountersOf, Figures, LaneInfo, Reason, Reply};
use tickwire_lane_linux::bpf::GuardRefusal;
use tickwire_lane_linux::region::read_only;
use tickwire_registry::LaneId;
use tickwire_stack::addr::Endpoint;

/// Cursors of programs without a lane lie above those of lanes.
const REFUSED: u64 = 1 << 32;

impl Service {
    fn may_see(&self, id: ConnectionId, lane: LaneId) -> bool {
        self.lanes.get(lane).is_some_and(|lane| self.may_see_user(id, lane.user))
    }

    /// Whether the process at a connection may see what belongs to a user.
    fn may_see_user(&self, id: ConnectionId, owner: u32) -> bool {
        self.clients.user_of(id).is_some_and(|user| user == 0 || user == owner)
    }

    /// Answers [`tickwire_lane::control::Request::ListLanes`].
    pub(super) fn list_lanes(&self, id: ConnectionId, after: u64) -> Answer {
        let seen = |owner| self.may_see_user(id, owner);
        if let Ok(after) = LaneId::try_from(after)
            && let Some((number, lane)) = self.lanes.range(after.saturating_add(1)..).find(|(_, lane)| seen(lane.user))
        {
            let now = Instant::now();
            let info = LaneInfo {
                lane: number,
                pid: lane.pid,
                uid: lane.user,
                program: lane.program,
                processes: count(lane.connections.len()),
                claims: count(self.claims.registry.of_lane(number).len()),
                age_ms: u64::try_from(now.duration_since(lane.made).as_millis()).unwrap_or(u64::MAX),
                interface: number,
                reason: Reason::None,
                limits: lane.limits,
            };
            let region = read_only(std::os::fd::AsFd::as_fd(&lane.region)).ok();
            return Answer {
                reply: Reply::LaneInfo { cursor: u64::from(number), info: Box::new(info) },
                descriptors: region.into_iter().collect(),
            };
        }
        let start = after.max(REFUSED) - REFUSED + 1;
        let mut without = self.clients.range(start..).filter(|(_, c)| c.lane.is_none() && seen(c.peer.uid));
        let refused = without.find_map(|(at, c)| c.refused.map(|(program, why)| (at, c, program, why)));
        match refused {
            Some((at, connection, program, reason)) => {
                let info = LaneInfo {
                    lane: 0,
                    pid: connection.peer.pid,
                    uid: connection.peer.uid,
                    program,
                    processes: 1,
                    claims: 0,
                    age_ms: 0,
                    interface: 0,
                    reason,
                    limits: self.lanes.limits(),
                };
                Reply::LaneInfo { cursor: REFUSED + at, info: Box::new(info) }.into()
            }
            None => Reply::Done.into(),
        }
    }

    /// Answers [`tickwire_lane::control::Request::ListInterfaces`].
    pub(super) fn list_interfaces(&self, after: u32) -> Answer {
        self.paths
            .nics
            .describe_next(after)
            .map_or(Reply::Done, |info| Reply::Interface { info: Box::new(info) })
            .into()
    }

    /// Answers [`tickwire_lane::control::Request::ListClaims`].
    pub(super) fn list_claims(&self, id: ConnectionId, lane: LaneId, after: Claim) -> Result<Answer, Reason> {
        if !self.may_see(id, lane) {
            return Err(Reason::NotPermitted);
        }
        let next = self.claims.registry.next_of_lane(lane, after.0);
        let held = next.and_then(|claim| self.claims.get(claim).map(|held| (claim, held)));
        Ok(match held {
            Some((claim, held)) => {
                let held = ClaimInfo {
                    claim: Claim(claim),
                    kind: held.kind,
                    protocol: held.bound.protocol.number(),
                    local: held.bound.local,
                    remote: match held.kind {
                        ClaimKind::Flow => held.remote,
                        ClaimKind::Bound | ClaimKind::Ephemeral => Endpoint::default(),
                    },
                };
                Reply::Held { held }.into()
            }
            None => Reply::Done.into(),
        })
    }

    /// Answers [`tickwire_lane::control::Request::Counters`].
    pub(super) fn counters(&self, id: ConnectionId, of: CountersOf, lane: LaneId) -> Result<Answer, Reason> {
        let figures = match of {
            CountersOf::Host => {
                let mut figures = self.ledger.programs.host_counters().to_vec();
                figures.push(self.paths.nics.without_room() as u64);
                Figures::new(&figures)
            }
            CountersOf::Lane if self.may_see(id, lane) => {
                let c = self.ledger.programs.lane_counters(lane);
                let mut figures = vec![c.in_packets, c.in_bytes, c.out_packets, c.out_bytes];
                figures.extend(&c.refused[..GuardRefusal::ALL.len()]);
                figures.push(c.lost_packets);
                Figures::new(&figures)
            }
            CountersOf::Lane => return Err(Reason::NotPermitted),
        };
        Ok(Reply::Counters { figures: Box::new(figures) }.into())
    }

    /// Answers [`tickwire_lane::control::Request::Capture`].
    pub(super) fn capture(&mut self, id: ConnectionId, lane: LaneId, snaplen: u32) -> Result<Answer, Reason> {
        let user = self.clients.user_of(id).ok_or(Reason::NotPermitted)?;
        let all = user == 0 && lane == 0;
        // A user captures the lanes that exist now; later lanes need another capture.
        let lanes = match (all, lane) {
            (true, _) => None,
            (false, 0) => Some(self.lanes.numbers().filter(|&lane| self.may_see(id, lane)).collect()),
            (false, lane) if self.may_see(id, lane) => Some(vec![lane]),
            _ => return Err(Reason::NotPermitted),
        };
        match self.clients.captures.begin((id, user), lanes, snaplen, &mut self.ledger.programs) {
            Ok(stream) => Ok(Answer { reply: Reply::Capturing, descriptors: vec![stream] }),
            Err(error) => {
                // As often as a program asks for it.
                tracing::debug!(%error, "capture refused");
                Err(Reason::ServiceError)
            }
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
