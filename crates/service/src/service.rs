//! The state of the service. The modules that act on it are above it in the table of `lib.rs`; most
//! have an `impl` each.

use crate::capture::Captures;
use crate::claim::HeldClaim;
use crate::claim_recheck::ClaimRecheck;
use crate::config::Config;
use crate::connection::{Connection, ConnectionId};
use crate::dying_lane::DyingLane;
use crate::farewell::Farewell;
use crate::flow_gc::FlowGc;
use crate::groups::Groups;
use crate::lane::Lane;
use crate::lane_maker::LaneMaker;
use crate::nics::Nics;
use crate::port_proof::Judge;
use crate::programs::Programs;
use crate::ready_lanes::ReadyLanes;
use crate::realtime::Priorities;
use crate::registry::{ClaimId, LaneId, PortKey, Registry};
use crate::remains::Remains;
use crate::usage::Usage;
use crate::user_workers::UserWorkers;
use nix::sys::epoll::Epoll;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;
use tickwire_host::{Connections, Host, Monitor, Query, XdpInfo};

/// The service.
pub(crate) struct Service {
    pub(crate) config: Config,
    /// The groups whose programs may have real-time threads.
    pub(crate) priorities: Priorities,
    pub(crate) host: Host,
    pub(crate) monitor: Monitor,
    /// `None` on kernels that do not report what devices do with XDP.
    pub(crate) xdp_info: Option<XdpInfo>,
    /// `None` on kernels without socket diagnostics.
    pub(crate) kernel_connections: Option<Connections>,
    pub(crate) census: FlowGc,
    pub(crate) judge: Judge,
    pub(crate) programs: Programs,
    pub(crate) nics: Nics,
    pub(crate) lanes: BTreeMap<LaneId, Lane>,
    pub(crate) dying: VecDeque<DyingLane>,
    pub(crate) remains: Vec<Remains>,
    pub(crate) ready_lanes: ReadyLanes,
    pub(crate) maker: LaneMaker,
    pub(crate) registry: Registry,
    pub(crate) claims: HashMap<ClaimId, HeldClaim>,
    pub(crate) offload: UserWorkers,
    /// Verifications of claims that run in the background, by user.
    pub(crate) verifications: HashMap<u32, ClaimRecheck>,
    /// When a takeover by the kernel last failed at the connection's end (FIN), by user.
    pub(crate) ends_failed: HashMap<u32, Instant>,
    pub(crate) groups: Groups,
    pub(crate) usage: Usage,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// Shared ports that lanes are joining, and until when.
    pub(crate) joined: BTreeMap<PortKey, (Instant, Vec<LaneId>)>,
    /// The lane whose pinned connections were verified last.
    pub(crate) pins_verified: LaneId,
    /// Connections that are paused, and until when.
    pub(crate) resting: BTreeSet<(Instant, ConnectionId)>,
    pub(crate) poll: Epoll,
    pub(crate) captures: Captures,
    /// Set when events of the host were lost.
    pub(crate) inventory_stale: bool,
    /// Set when the lanes' paths must be resolved again.
    pub(crate) paths_stale: bool,
    /// Paths that are being resolved again, with the lanes that watch them.
    pub(crate) refreshing: VecDeque<(Query, Vec<LaneId>)>,
    /// Set when the service was asked to end.
    pub(crate) farewell: Option<Farewell>,
}
