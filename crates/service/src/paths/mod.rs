//! Paths: the host's tables as lanes use them, and what each lane was told of them.
//!
//! | module | purpose |
//! |---|---|
//! | here | answers a lane's question for a path |
//! | `refresh` | paths that change: their lanes are notified |
//! | `subscriptions` | the destinations that a lane watches |
//! | `nics` | the accelerated interfaces |
//! | `own_addresses` | the host's addresses in the maps |
//! | `tags`, `redirects` | what an interface does with VLAN tags, and with redirected frames |

mod nics;
mod own_addresses;
mod redirects;
mod refresh;
mod subscriptions;
mod tags;

pub(crate) use nics::{Effect, Nics, mode_name};

use crate::answer::reason_of;
use crate::programs::Programs;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use subscriptions::{PathSubscriptions, differs};
use tickwire_host::{Answer, Monitor, Query, RouteNetlink, XdpInfo};
use tickwire_lane::control::{Push, Reason};
use tickwire_registry::LaneId;
use tickwire_stack::addr::Address;
use tickwire_stack::path::{PathInfo, PathState};

/// A change of paths that lanes are to be notified of.
pub(crate) type Changed = Vec<(LaneId, Vec<Query>)>;

/// The host's tables, and the paths that lanes watch.
pub(crate) struct Paths {
    pub(crate) host: RouteNetlink,
    monitor: Monitor,
    pub(crate) nics: Nics,
    /// By lane.
    watched: BTreeMap<LaneId, PathSubscriptions>,
    /// Set when events of the host were lost.
    pub(crate) inventory_is_stale: bool,
    /// Set when all watched paths must be resolved again.
    pub(crate) are_stale: bool,
    /// Paths that are being resolved again, with the lanes that watch them.
    refreshing: VecDeque<(Query, Vec<LaneId>)>,
}

impl Paths {
    /// The tables of the calling thread's network namespace, which are empty until the first
    /// inventory. Events are received from here on.
    ///
    /// # Errors
    /// If the kernel cannot be asked for events.
    pub(crate) fn new(host: RouteNetlink) -> tickwire_host::Result<Self> {
        Ok(Self {
            host,
            monitor: Monitor::open()?,
            // Kernels before 6.3 do not report what devices do with XDP.
            nics: Nics::new(XdpInfo::open().ok()),
            watched: BTreeMap::new(),
            inventory_is_stale: false,
            are_stale: false,
            refreshing: VecDeque::new(),
        })
    }

    /// A lane begins to watch paths, so many at most.
    pub(crate) fn begin(&mut self, lane: LaneId, limit: usize) {
        self.watched.insert(lane, PathSubscriptions::new(limit));
    }

    /// A lane watches no path any more.
    pub(crate) fn end(&mut self, lane: LaneId) {
        self.watched.remove(&lane);
    }

    /// Asks the host for a path.
    pub(crate) fn resolve(&mut self, query: &Query) -> tickwire_host::Result<Answer> {
        let nics = &self.nics;
        self.host.resolve(query, |index, source| nics.path(index, source))
    }

    /// The path for a lane's query, and why it is none for lanes. The lane watches it from now on.
    /// With `choose`, also whether the source address that the host chooses has the same path.
    pub(crate) fn answer(
        &mut self,
        lane: LaneId,
        query: Query,
        choose: bool,
        programs: &mut Programs,
    ) -> (PathInfo, Reason) {
        match self.resolve(&query) {
            Ok(mut answer) => {
                if choose && query.source == Address::ANY && self.goes_alike_from_chosen(lane, &answer, programs) {
                    answer.path.chosen = answer.path.source;
                }
                self.note_answer(lane, query, answer, programs);
                (answer.path, reason_of(answer.why))
            }
            Err(error) => {
                tracing::warn!(lane, destination = %query.destination, %error, "the kernel could not be asked for a path");
                (PathInfo { query, state: PathState::Kernel, ..PathInfo::default() }, Reason::ServiceError)
            }
        }
    }

    /// Whether packets take the same path from the source address that an answer has chosen. If so,
    /// that path is watched for the lane, too.
    fn goes_alike_from_chosen(&mut self, lane: LaneId, answer: &Answer, programs: &mut Programs) -> bool {
        let path = &answer.path;
        if !matches!(path.state, PathState::Ready | PathState::Resolving) || path.source.is_unspecified() {
            return false;
        }
        let query = path.query.from(path.source);
        match self.resolve(&query) {
            Ok(own) if !differs(answer, &own) => {
                self.note_answer(lane, query, own, programs);
                true
            }
            _ => false,
        }
    }

    /// Notes an answer to a lane, which is notified when it changes.
    fn note_answer(&mut self, lane: LaneId, query: Query, answer: Answer, programs: &mut Programs) {
        programs.note_path(&query, &answer.path);
        if let Some(watched) = self.watched.get_mut(&lane) {
            watched.set(query, answer);
        }
    }

    /// What a lane is told of a path that it watches.
    pub(crate) fn latest(&self, lane: LaneId, query: &Query) -> Option<Push> {
        let answer = self.watched.get(&lane)?.get(query)?;
        Some(Push::PathChanged { path: answer.path, reason: reason_of(answer.why) })
    }
}

/// Its descriptor is readable when the host has events.
impl AsFd for Paths {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}
