//! A lane: its devices, rings and region, and what the program reports in the region's table.

use super::lane_maker::{Blank, device};
use super::remains::Remains;
use crate::answer::Answer;
use crate::clients::ConnectionId;
use crate::config::LaneConfig;
use crate::programs::{BpfError, GuardLink, LaneRings};
use aya::programs::tc::SchedClassifierLink;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use tickwire_lane::control::{Name, Reply, Token};
use tickwire_lane::record_ring::RING_BYTES;
use tickwire_lane_linux::region::{self, RegionError, View};
use tickwire_lane_linux::standby_ring::STANDBY_RING_BYTES;
use tickwire_lane_linux::sys_bpf;
use tickwire_registry::{ClaimId, LaneId};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::table::{SocketRow, kind};
use tickwire_stack::{Limits, Memory};

/// A lane.
pub(crate) struct Lane {
    /// The number in its device's name, which is the device's interface index.
    pub(crate) number: LaneId,
    pub(crate) user: u32,
    pub(crate) pid: u32,
    pub(crate) program: Name,
    pub(crate) limits: Limits,
    /// Charged to the user's memory.
    pub(crate) bytes: u64,
    pub(crate) token: Token,
    pub(crate) region: OwnedFd,
    /// The public part of the region. What is read there is the program's word, and untrusted.
    pub(crate) view: View,
    /// The ring that divert fills and the program reads, and the one that wakes the standby thread.
    rings: LaneRings,
    /// The program writes its frames into it. Held here, too, so that no other descriptor can be
    /// attached to the device. The service writes nothing into it: the program can make that block.
    tap: OwnedFd,
    doorbell: OwnedFd,
    pub(crate) guard: GuardLink,
    /// The device for trains of segments, if the lane has asked for it.
    pub(crate) bulk: Option<BulkDevice>,
    pub(crate) connections: BTreeSet<ConnectionId>,
    /// The smallest MTU of the interfaces that its program was told.
    pub(crate) least_mtu: u32,
    pub(crate) made: Instant,
}

/// A lane's device for trains of segments.
pub(crate) struct BulkDevice {
    tap: OwnedFd,
    _guard: SchedClassifierLink,
}

impl BulkDevice {
    pub(crate) fn new(tap: OwnedFd, guard: SchedClassifierLink) -> Self {
        Self { tap, _guard: guard }
    }

    /// A descriptor for the program.
    pub(crate) fn tap(&self) -> io::Result<OwnedFd> {
        self.tap.try_clone()
    }
}

/// Why a lane could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error(transparent)]
    Host(#[from] tickwire_host::HostError),
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> LaneError {
    move |source| LaneError::System { what, source }
}

impl Lane {
    /// A program's lane.
    pub(super) fn new(blank: Blank, parts: ProgramParts, limits: &Limits, least_mtu: u32) -> Self {
        let (Blank { number, tap, guard, rings }, ProgramParts { token, region, view, doorbell }) = (blank, parts);
        Self {
            number,
            user: 0,
            pid: 0,
            program: Name::new(""),
            limits: *limits,
            bytes: bytes(limits),
            token,
            region,
            view,
            rings,
            tap,
            doorbell,
            guard,
            bulk: None,
            connections: BTreeSet::new(),
            least_mtu,
            made: Instant::now(),
        }
    }

    /// Whether it has a device for trains of segments.
    pub(crate) fn has_bulk(&self) -> bool {
        self.bulk.is_some()
    }

    /// Name of its device.
    pub(crate) fn device(&self) -> String {
        device(self.number)
    }

    /// What is left of it when it is over.
    pub(crate) fn remains(&self) -> Remains {
        let LaneRings { receive, standby } = &self.rings;
        let rings = [receive, standby].into_iter().filter_map(|ring| sys_bpf::map_id(ring.as_fd()).ok());
        Remains::new(self.number, self.user, self.bytes, rings.collect())
    }

    /// The answer that hands a lane over.
    pub(crate) fn answer(&self) -> io::Result<Answer> {
        let LaneRings { receive, standby } = &self.rings;
        let all = [&self.region, receive, &self.tap, &self.doorbell, standby];
        let descriptors = all.into_iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        let (token, limits, mtu) = (self.token, self.limits, self.least_mtu);
        Ok(Answer { reply: Reply::Lane { lane: self.number, token, limits, mtu }, descriptors })
    }

    /// Local and remote ends of its live connections, as the lane itself reports them; its claims
    /// decide what it may have.
    pub(crate) fn connections_now(&self) -> impl Iterator<Item = (Endpoint, Endpoint)> + '_ {
        self.view.rows().iter().take(self.limits.rows()).filter_map(connection)
    }

    /// The claims that its processes have noted in the rows of their sockets. Reads all rows.
    pub(crate) fn noted_claims(&self) -> HashSet<ClaimId> {
        let claims = self.view.rows().iter().take(self.limits.rows()).map(|row| row.claim.get());
        claims.filter(|&claim| claim != 0).collect()
    }

    /// Whether it reports this one.
    pub(crate) fn has_connection(&self, local: Endpoint, remote: Endpoint) -> bool {
        self.connections_now().any(|ends| ends == (local, remote))
    }
}

/// What a program's lane has and a blank one lacks.
pub(super) struct ProgramParts {
    token: Token,
    region: OwnedFd,
    view: View,
    doorbell: OwnedFd,
}

impl ProgramParts {
    /// Makes it.
    pub(super) fn new(number: LaneId, limits: &Limits) -> Result<Self, LaneError> {
        let region = region::create(number, limits)?;
        let view = View::map(region.as_fd(), limits)?;
        let doorbell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|e| system("making the doorbell")(e.into()))?;
        let token = Token(random().map_err(system("drawing a token"))?);
        Ok(Self { token, region, view, doorbell: doorbell.into() })
    }
}

/// The limits of a lane as configured.
pub(crate) fn lane_limits(config: &LaneConfig) -> Limits {
    let default = Limits::DEFAULT;
    let limits = Limits {
        frames: config.frames.unwrap_or(default.frames),
        tcp: config.tcp.unwrap_or(default.tcp),
        listeners: config.listeners.unwrap_or(default.listeners),
        udp: config.udp.unwrap_or(default.udp),
        ..default
    };
    limits.with_room_for_its_sockets()
}

/// The bytes that a lane of these limits is charged with.
pub(crate) fn bytes(limits: &Limits) -> u64 {
    Memory::size(limits) as u64 + u64::from(RING_BYTES) + u64::from(STANDBY_RING_BYTES)
}

/// The ends in a row, if its connection lives.
fn connection(row: &SocketRow) -> Option<(Endpoint, Endpoint)> {
    /// TIME-WAIT, CLOSE and LISTEN, as Linux numbers them. A lost TIME-WAIT does no harm.
    const OVER: [u32; 3] = [6, 7, 10];
    let live = row.kind.get() == kind::TCP && !OVER.contains(&row.state.get());
    let (local, remote) = (row.local.get(), row.remote.get());
    (live && remote.port != 0).then_some((local, remote))
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
