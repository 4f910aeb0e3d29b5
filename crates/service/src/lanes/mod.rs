//! Lanes: made in advance, given to programs, kept in step with the interfaces, and removed.
//!
//! | module | purpose |
//! |---|---|
//! | here | the live lanes: given to programs, joined by further processes |
//! | `lane` | a lane: devices, rings, region, and what its program reports there |
//! | `making`, `ready_lanes` | lanes that are made in advance, and programs that wait for one |
//! | `guards` | the guard of every lane, in the mode that the interfaces allow |
//! | `lane_maker`, `remover`, `numbers` | threads that make and remove lanes; the lanes' numbers |
//! | `reaper`, `dying_lane` | the end of a lane |
//! | `remains` | what processes still hold of lanes that have ended |
//! | `realtime` | real-time priorities |

mod dying_lane;
mod guards;
mod lane;
mod lane_maker;
mod making;
mod numbers;
mod ready_lanes;
mod realtime;
mod reaper;
mod remains;
mod remover;

pub(crate) use dying_lane::DyingLane;
pub(crate) use lane::Lane;
pub(crate) use lane_maker::{LaneMaker, remove_leftovers};
pub(crate) use ready_lanes::Waiting;
pub(crate) use realtime::Priorities;
pub(crate) use reaper::FrameBudget;
pub(crate) use remover::Remover;

use crate::answer::Answer;
use crate::clients::{Connection, ConnectionId, Peer};
use crate::config::LaneConfig;
use crate::paths::{Nics, mode_name};
use crate::usage::Usage;
use lane::{ProgramParts, bytes, lane_limits, system};
use lane_maker::Blank;
use ready_lanes::ReadyLanes;
use remains::Remains;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;
use std::os::fd::{AsFd, BorrowedFd};
use tickwire_lane::control::{Name, Reason, Reply, Token};
use tickwire_registry::LaneId;
use tickwire_stack::{Limits, Memory};

/// All lanes, from the first step of their making to the last of their removal.
pub(crate) struct Lanes {
    /// Those of programs.
    all: BTreeMap<LaneId, Lane>,
    ready: ReadyLanes,
    maker: LaneMaker,
    dying: VecDeque<DyingLane>,
    remains: Vec<Remains>,
    config: LaneConfig,
    /// The groups whose programs may have real-time threads.
    priorities: Priorities,
}

impl Lanes {
    /// None yet.
    pub(crate) fn new(maker: LaneMaker, config: LaneConfig, priorities: Priorities) -> Self {
        Self {
            all: BTreeMap::new(),
            ready: ReadyLanes::default(),
            maker,
            dying: VecDeque::new(),
            remains: Vec::new(),
            config,
            priorities,
        }
    }

    /// A live lane.
    pub(crate) fn get(&self, lane: LaneId) -> Option<&Lane> {
        self.all.get(&lane)
    }

    /// The numbers of live lanes.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = LaneId> {
        self.all.keys().copied()
    }

    /// Live lanes, in the order of their numbers.
    pub(crate) fn range(&self, numbers: impl RangeBounds<LaneId>) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.all.range(numbers).map(|(&number, lane)| (number, lane))
    }

    /// Whether no program has a lane.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many programs have a lane.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The size of every lane.
    pub(crate) fn limits(&self) -> Limits {
        lane_limits(&self.config)
    }

    /// Books a lane for a user whose program has this layout of the region.
    pub(crate) fn book(&self, user: u32, layout: u64, nics: &Nics, usage: &mut Usage) -> Result<(), Reason> {
        if layout != Memory::LAYOUT_HASH {
            return Err(Reason::Version);
        }
        if !nics.any() {
            return Err(nics.why_none());
        }
        usage.take_lane(user, bytes(&self.limits()))
    }

    /// Returns a booked lane that no program got.
    pub(crate) fn give_back(&self, user: u32, usage: &mut Usage) {
        usage.give_lane(user, bytes(&self.limits()));
    }

    /// Gives a lane to a program, of which this is the first connection. Returns the answer that
    /// hands it over.
    pub(crate) fn give(
        &mut self,
        id: ConnectionId,
        Peer { pid, uid }: Peer,
        program: Name,
        blank: Blank,
        least_mtu: u32,
    ) -> Result<Answer, Reason> {
        let number = blank.number;
        let failed = |error| {
            tracing::error!(pid, %error, "a lane could not be made");
            Reason::ServiceError
        };
        let limits = self.limits();
        let parts = match ProgramParts::new(number, &limits) {
            Ok(parts) => parts,
            Err(error) => {
                self.remove_blank(blank);
                return Err(failed(error));
            }
        };
        let mut new = Lane::new(blank, parts, &limits, least_mtu);
        let answer = match new.answer() {
            Ok(answer) => answer,
            Err(error) => {
                self.remove(new);
                return Err(failed(system("handing it over")(error)));
            }
        };
        (new.user, new.pid, new.program) = (uid, pid, program);
        new.connections.insert(id);
        tracing::info!(lane = number, devices = new.device(), pid, uid, %program, guard = mode_name(new.guard.mode()), "lane made");
        self.all.insert(number, new);
        Ok(answer)
    }

    /// One more process joins a lane; `own` is the lane that it has already. Returns the answer.
    pub(crate) fn attach(
        &mut self,
        id: ConnectionId,
        own: Option<LaneId>,
        (number, token): (LaneId, Token),
        descriptors: bool,
    ) -> Result<Answer, Reason> {
        let lane = self.all.get_mut(&number).filter(|lane| lane.token == token).ok_or(Reason::LaneGone)?;
        if own.is_some_and(|own| own != number) {
            return Err(Reason::BadRequest);
        }
        let answer = if descriptors { lane.answer() } else { Ok(Reply::Attached.into()) };
        let answer = answer.map_err(|_| Reason::ServiceError)?;
        lane.connections.insert(id);
        Ok(answer)
    }

    /// A process no longer uses a lane. Returns whether it was the last one.
    pub(crate) fn leave(&mut self, id: ConnectionId, number: LaneId) -> bool {
        let Some(lane) = self.all.get_mut(&number) else { return false };
        lane.connections.remove(&id);
        lane.connections.is_empty()
    }

    /// The connections of a lane's processes.
    pub(crate) fn connections_of(&self, lane: LaneId) -> Vec<ConnectionId> {
        self.all.get(&lane).map(|lane| lane.connections.iter().copied().collect()).unwrap_or_default()
    }

    /// Raises the limit of the process at a connection to the real-time priority of its groups.
    /// Returns that priority, if they have one.
    pub(crate) fn grant_real_time(&self, connection: &Connection) -> Option<u32> {
        self.priorities.grant(connection)
    }

    /// Notes the smallest MTU of the interfaces. Returns the lanes whose programs were told another
    /// one.
    pub(crate) fn fit_to_mtu(&mut self, least: u32) -> Vec<LaneId> {
        let told =
            |(&id, lane): (&LaneId, &mut Lane)| (core::mem::replace(&mut lane.least_mtu, least) != least).then_some(id);
        self.all.iter_mut().filter_map(told).collect()
    }
}

/// Its descriptor is readable when lanes were made, or could not be.
impl AsFd for Lanes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.maker.as_fd()
    }
}
