//! Making and removing lanes: the TAP device and its guard, the receive ring, the region.

use crate::bpf_error::BpfError;
use crate::config::LaneConfig;
use crate::connection::{Answer, ConnectionId};
use crate::lane_maker::{Blank, device};
use crate::numbers::Numbers;
use crate::path_subscriptions::PathSubscriptions;
use crate::programs::{GuardLink, LaneRings};
use crate::registry::LaneId;
use crate::remains::Remains;
use crate::remover::Remover;
use crate::requests::refused;
use crate::service::Service;
use aya::programs::tc::SchedClassifierLink;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use tickwire_host::Host;
use tickwire_host::link::is_lane_device;
use tickwire_link::control::{AttachMode, Name, Push, Reason, Reply, Token};
use tickwire_link::region::{self, RegionError, View};
use tickwire_link::rx_ring::RING_BYTES;
use tickwire_link::standby_ring::STANDBY_RING_BYTES;
use tickwire_link::sys_bpf;
use tickwire_link::sys_tap::{self, BULK_DEVICE};
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
    bulk: Option<BulkDevice>,
    pub(crate) connections: BTreeSet<ConnectionId>,
    /// The smallest MTU of the interfaces that its program was told.
    least_mtu: u32,
    pub(crate) made: Instant,
    pub(crate) watches: PathSubscriptions,
}

/// A lane's device for trains of segments.
struct BulkDevice {
    tap: OwnedFd,
    _guard: SchedClassifierLink,
}

impl Lane {
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
}

/// Why a lane could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error(transparent)]
    Host(#[from] tickwire_host::Error),
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> LaneError {
    move |source| LaneError::System { what, source }
}

fn bulk_device(number: LaneId) -> String {
    format!("tw{number}b")
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

impl Service {
    /// Answers [`tickwire_link::control::Request::OnKernel`].
    pub(crate) fn on_kernel(&mut self, id: ConnectionId, program: Name, reason: Reason) -> Answer {
        let Some(connection) = self.connections.get_mut(&id).filter(|_| reason != Reason::None) else {
            return refused(Reason::BadRequest);
        };
        let (pid, left) = (connection.peer.pid, connection.lane.take());
        if let Some(lane) = left {
            self.leave_lane(id, pid, lane);
        }
        if self.list_without_lane(id, program, reason) { Reply::Done.into() } else { refused(Reason::RateLimit) }
    }

    /// Lists a program that has no lane for as long as its connection lasts; if there are too many
    /// of them, the connection ends. Returns whether it is listed.
    pub(crate) fn list_without_lane(&mut self, id: ConnectionId, program: Name, reason: Reason) -> bool {
        let Some(user) = self.connections.get(&id).map(|c| c.peer.uid) else { return false };
        let others = self.connections.iter().filter(|&(&other, c)| other != id && c.refused.is_some());
        let room = self.usage.room_to_list(user, others.map(|(_, c)| c.peer.uid));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.refused = room.then_some((program, reason));
            connection.parting = !room;
        }
        room
    }

    /// Books a lane for the user of a connection.
    pub(crate) fn book_lane(&mut self, id: ConnectionId, layout: u64) -> Result<(), Reason> {
        let peer = self.connections.get(&id).map(|c| c.peer).ok_or(Reason::BadRequest)?;
        if layout != Memory::LAYOUT_HASH {
            return Err(Reason::Version);
        }
        if !self.nics.any() {
            return Err(self.nics.why_none());
        }
        self.usage.take_lane(peer.uid, bytes(&lane_limits(&self.config.lane)))
    }

    /// Returns a booked lane that no program got.
    pub(crate) fn give_back_lane(&mut self, user: u32) {
        self.usage.give_lane(user, bytes(&lane_limits(&self.config.lane)));
    }

    /// Gives a lane to a program that has one booked.
    pub(crate) fn give_lane(&mut self, id: ConnectionId, program: Name, blank: Blank) -> Result<Answer, Reason> {
        let Some(connection) = self.connections.get(&id) else { return Err(Reason::BadRequest) };
        let (peer, has) = (connection.peer, connection.lane.is_some());
        if has {
            self.give_back_lane(peer.uid);
            return Err(Reason::BadRequest);
        }
        let limits = lane_limits(&self.config.lane);
        let made = furnish(blank, &limits, self.nics.least_mtu()).and_then(|lane| {
            let answer = answer(lane.number, &lane).map_err(system("handing it over"))?;
            Ok((lane, answer))
        });
        let (mut new, answer) = made.map_err(|error| {
            tracing::error!(pid = peer.pid, %error, "a lane could not be made");
            self.give_back_lane(peer.uid);
            Reason::ServiceError
        })?;
        let lane = new.number;
        (new.user, new.pid, new.program) = (peer.uid, peer.pid, program);
        new.connections.insert(id);
        tracing::info!(lane, devices = new.device(), pid = peer.pid, uid = peer.uid, %program, guard = crate::nics::mode_name(new.guard.mode()), "lane made");
        self.lanes.insert(lane, new);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.lane = Some(lane);
            connection.refused = None;
        }
        Ok(answer)
    }

    /// Answers [`tickwire_link::control::Request::Attach`].
    pub(crate) fn attach(&mut self, id: ConnectionId, number: LaneId, token: Token, descriptors: bool) -> Answer {
        let Some(connection) = self.connections.get_mut(&id) else { return refused(Reason::BadRequest) };
        let Some(lane) = self.lanes.get_mut(&number).filter(|lane| lane.token == token) else {
            return refused(Reason::LaneGone);
        };
        if connection.lane.is_some_and(|own| own != number) {
            return refused(Reason::BadRequest);
        }
        let answer = if descriptors { answer(number, lane) } else { Ok(Reply::Attached.into()) };
        let Ok(answer) = answer else { return refused(Reason::ServiceError) };
        connection.lane = Some(number);
        connection.refused = None;
        lane.connections.insert(id);
        self.grant_real_time(id);
        answer
    }

    /// Answers [`tickwire_link::control::Request::Bulk`].
    pub(crate) fn bulk(&mut self, id: ConnectionId) -> Answer {
        let Some(number) = self.connections.get(&id).and_then(|connection| connection.lane) else {
            return refused(Reason::BadRequest);
        };
        let made = self.bulk_of(number).inspect_err(|error| {
            tracing::warn!(lane = number, %error, "a lane has no device for trains, so its streams cost more");
        });
        match made {
            Ok(tap) => Answer { reply: Reply::Bulk, descriptors: vec![tap] },
            Err(_) => refused(Reason::ServiceError),
        }
    }

    fn bulk_of(&mut self, number: LaneId) -> Result<OwnedFd, LaneError> {
        let has = |lane: &Lane| lane.bulk.as_ref().map(|bulk| bulk.tap.try_clone());
        if let Some(tap) = self.lanes.get(&number).and_then(has) {
            return tap.map_err(system("handing it over"));
        }
        let (name, index) = (bulk_device(number), number | BULK_DEVICE);
        let tap = sys_tap::create(&name, index, true).map_err(system("making a TAP device"))?;
        let made = (|| {
            let guard = self.programs.attach_bulk_guard(&name)?;
            self.host.raise_quietly(index)?;
            let copy = tap.try_clone().map_err(system("handing it over"))?;
            Ok((BulkDevice { tap, _guard: guard }, copy))
        })();
        let (device, copy) = made.inspect_err(|_: &LaneError| self.maker.remove_device(index))?;
        if let Some(lane) = self.lanes.get_mut(&number) {
            lane.bulk = Some(device);
        }
        Ok(copy)
    }

    /// Begins to make a lane, which [`Service::lanes_made`] receives.
    pub(crate) fn begin_lane(&mut self) {
        let places: BTreeSet<u32> = self.all_numbers().map(|number| self.programs.place(number)).collect();
        let mode = self.guard_mode();
        self.maker.make(mode, places);
    }

    /// Removes the ring and the devices of a lane, even if a process still holds descriptors of
    /// them.
    pub(crate) fn remove_lane(&mut self, lane: LaneId, bulk: bool) {
        self.maker.remove(lane);
        if bulk {
            self.maker.remove_device(lane | BULK_DEVICE);
        }
    }

    /// The mode for guards now: XDP if every interface takes the frames that XDP redirects to it,
    /// and losses there are counted; else a tc filter.
    fn guard_mode(&mut self) -> AttachMode {
        let in_xdp =
            self.nics.all_take_redirects(self.xdp_info.as_mut(), &self.programs) && self.programs.watch_redirects();
        if in_xdp { AttachMode::Native } else { AttachMode::Tc }
    }

    /// Guards every lane in the mode for now: whether an interface takes redirected frames may
    /// change at any time.
    pub(crate) fn fit_guards(&mut self) {
        let mode = self.guard_mode();
        self.fit_ready_guards(mode);
        for (&id, lane) in self.lanes.iter_mut().filter(|(_, lane)| lane.guard.mode() != mode) {
            match self.programs.attach_guard(&lane.device(), id, mode) {
                Ok(guard) => {
                    tracing::info!(lane = id, guard = crate::nics::mode_name(mode), "guard changed");
                    // The new one is attached already, so that the lane is always guarded.
                    lane.guard = guard;
                }
                Err(error) => tracing::warn!(lane = id, %error, "the guard could not be changed"),
            }
        }
    }

    /// Guards a lane that no program has in this mode.
    pub(crate) fn fit_guard(&mut self, blank: &mut Blank, mode: AttachMode) {
        if blank.guard.mode() == mode {
            return;
        }
        match self.programs.attach_guard(&device(blank.number), blank.number, mode) {
            Ok(guard) => blank.guard = guard,
            Err(error) => tracing::warn!(lane = blank.number, %error, "the guard could not be changed"),
        }
    }

    /// The numbers of live lanes, and of those whose devices still exist, or exist already.
    fn all_numbers(&self) -> impl Iterator<Item = LaneId> {
        let gone = self.dying.iter().map(|dying| dying.id);
        self.lanes.keys().copied().chain(gone).chain(self.ready_lanes.numbers())
    }

    /// Notifies every lane's program of the smallest MTU of the interfaces, if that has changed.
    pub(crate) fn fit_lanes_to_mtu(&mut self) {
        let least = self.nics.least_mtu();
        let told =
            |(&id, lane): (&LaneId, &mut Lane)| (core::mem::replace(&mut lane.least_mtu, least) != least).then_some(id);
        for id in self.lanes.iter_mut().filter_map(told).collect::<Vec<_>>() {
            self.push_to_lane(id, || Push::Mtu { mtu: least });
        }
    }
}

/// Removes what an earlier service left behind. The numbers of lanes begin after the indices of all
/// existing devices.
pub(crate) fn remove_leftovers(host: &mut Host, remover: &Remover) -> tickwire_host::Result<Numbers> {
    let mut numbers = Numbers::default();
    let links = host.links()?;
    numbers.begin_after(links.iter().map(|link| link.index).max().unwrap_or(0));
    for link in links {
        if matches!(link.kind.as_str(), "tun" | "veth") && is_lane_device(&link.name) {
            tracing::info!(device = link.name, "removing a lane of an earlier service");
            remover.remove(link.index);
        }
    }
    Ok(numbers)
}

/// The bytes that a lane of these limits is charged with.
fn bytes(limits: &Limits) -> u64 {
    Memory::size(limits) as u64 + u64::from(RING_BYTES) + u64::from(STANDBY_RING_BYTES)
}

/// Makes what a program's lane has and a blank one lacks.
fn furnish(blank: Blank, limits: &Limits, least_mtu: u32) -> Result<Lane, LaneError> {
    let Blank { number, tap, guard, rings } = blank;
    let region = region::create(number, limits)?;
    let view = View::map(region.as_fd(), limits)?;
    let doorbell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
        .map_err(|e| system("making the doorbell")(e.into()))?;
    Ok(Lane {
        number,
        user: 0,
        pid: 0,
        program: Name::new(""),
        limits: *limits,
        bytes: bytes(limits),
        token: Token(random().map_err(system("drawing a token"))?),
        region,
        view,
        rings,
        tap,
        doorbell: doorbell.into(),
        guard,
        bulk: None,
        connections: BTreeSet::new(),
        least_mtu,
        made: Instant::now(),
        watches: PathSubscriptions::new(limits.paths as usize),
    })
}

/// The answer that hands a lane over.
fn answer(number: LaneId, lane: &Lane) -> io::Result<Answer> {
    let LaneRings { receive, standby } = &lane.rings;
    let all = [&lane.region, receive, &lane.tap, &lane.doorbell, standby];
    let descriptors = all.into_iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
    let (token, limits, mtu) = (lane.token, lane.limits, lane.least_mtu);
    Ok(Answer { reply: Reply::Lane { lane: number, token, limits, mtu }, descriptors })
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
