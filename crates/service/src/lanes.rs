//! Making and removing lanes: the veth pair, the region, the AF_XDP socket, the programs on both ends.

use crate::bpf_error::BpfError;
use crate::config::LaneConfig;
use crate::connection::{Answer, ConnectionId};
use crate::programs::{LaneHook, LaneProgram, slot};
use crate::registry::LaneId;
use crate::requests::refused;
use crate::service::Service;
use crate::watch::Watches;
use aya::programs::tc::SchedClassifierLink;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use tickwire_host::device::VethPair;
use tickwire_host::link::is_lane_device;
use tickwire_link::control::{AttachMode, Name, Push, Reason, Reply, Token};
use tickwire_link::region::{self, RegionError, View};
use tickwire_link::sys_ethtool::switch_transmit_checksums_off;
use tickwire_link::sys_tap::{self, BULK_DEVICE};
use tickwire_link::xsk::{self, RingSizes};
use tickwire_stack::{Limits, Memory};

/// A lane.
pub(crate) struct Lane {
    /// The number in its devices' names, which is the index of its two ends, each in its namespace.
    pub(crate) number: LaneId,
    pub(crate) user: u32,
    pub(crate) pid: u32,
    pub(crate) program: Name,
    pub(crate) limits: Limits,
    /// Booked on the user's memory.
    pub(crate) bytes: u64,
    pub(crate) token: Token,
    pub(crate) region: OwnedFd,
    /// The public part of the region. What is read there is the program's word, and untrusted.
    pub(crate) view: View,
    socket: OwnedFd,
    /// Whether the socket is bound: from when its rings are mapped.
    carries: bool,
    doorbell: OwnedFd,
    hook: LaneHook,
    /// Where there are TAP devices.
    pub(crate) bulk: Option<BulkDevice>,
    pub(crate) connections: BTreeSet<ConnectionId>,
    /// The smallest MTU of the interfaces, as its program was told.
    least_mtu: u32,
    pub(crate) made: Instant,
    pub(crate) watches: Watches,
}

/// The bulk way out of a lane: its device beside the program end, and what leads from there to it.
pub(crate) struct BulkDevice {
    tap: OwnedFd,
    _way: SchedClassifierLink,
}

impl Lane {
    /// Name of the host end.
    pub(crate) fn host_end(&self) -> String {
        host_end(self.number)
    }

    /// What the rings had no room for: there was no free frame, the program was too far behind, anything else.
    pub(crate) fn lost(&self) -> [u64; 3] {
        let Ok(s) = xsk::statistics(self.socket.as_fd()) else { return [0; 3] };
        // A packet without a frame counts in both (`__xsk_rcv`).
        [s.fill_ring_empty, s.rx_ring_full, s.rx_dropped.saturating_sub(s.fill_ring_empty)]
    }
}

/// So many further numbers are tried if somebody else has taken one in the meantime.
const ATTEMPTS: usize = 16;

/// Why a lane could not be made.
#[derive(Debug, thiserror::Error)]
enum LaneError {
    #[error(transparent)]
    Host(#[from] tickwire_host::Error),
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error("all places among the sockets or lanes are taken")]
    NoPlace,
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> LaneError {
    move |source| LaneError::System { what, source }
}

fn host_end(number: LaneId) -> String {
    format!("tw{number}h")
}

fn program_end(number: LaneId) -> String {
    format!("tw{number}p")
}

fn bulk_device(number: LaneId) -> String {
    format!("tw{number}b")
}

/// Makes the bulk device of a lane, in the namespace of its program end.
fn make_bulk_device(programs: &mut LaneProgram, lane: LaneId) -> Result<BulkDevice, LaneError> {
    let (name, index) = (bulk_device(lane), lane | BULK_DEVICE);
    // The program end then takes trains apart: what the guard sees are frames, with checksums.
    switch_transmit_checksums_off(&program_end(lane)).map_err(system("switching checksum offload off"))?;
    let tap = sys_tap::create(&name, index).map_err(system("making a TAP device"))?;
    let way = programs.attach_bulk(&name)?;
    tickwire_host::Host::open()?.raise_quietly(index)?;
    Ok(BulkDevice { tap, _way: way })
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
    /// Answers [`tickwire_link::control::Request::Hello`].
    pub(crate) fn hello(&mut self, id: ConnectionId, program: Name, layout: u64) -> Answer {
        let Some(connection) = self.connections.get(&id) else { return refused(Reason::BadRequest) };
        if connection.lane.is_some() {
            return refused(Reason::BadRequest);
        }
        let (pid, uid) = (connection.peer.pid, connection.peer.uid);
        match self.new_lane(id, program, layout) {
            Ok(answer) => answer,
            Err(reason) => {
                tracing::info!(pid, uid, %program, %reason, "no lane");
                self.list_without_lane(id, program, reason);
                refused(reason)
            }
        }
    }

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

    /// Lists a program that has no lane for as long as its connection lasts; if there are too many of them, the connection ends. Whether
    /// it is listed.
    fn list_without_lane(&mut self, id: ConnectionId, program: Name, reason: Reason) -> bool {
        let Some(user) = self.connections.get(&id).map(|c| c.peer.uid) else { return false };
        let others = self.connections.iter().filter(|&(&other, c)| other != id && c.refused.is_some());
        let room = self.usage.room_to_list(user, others.map(|(_, c)| c.peer.uid));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.refused = room.then_some((program, reason));
            connection.parting = !room;
        }
        room
    }

    fn new_lane(&mut self, id: ConnectionId, program: Name, layout: u64) -> Result<Answer, Reason> {
        let peer = self.connections.get(&id).map(|c| c.peer).ok_or(Reason::BadRequest)?;
        if layout != Memory::LAYOUT_HASH {
            return Err(Reason::Version);
        }
        if !self.nics.any() {
            return Err(self.nics.why_none());
        }
        let limits = lane_limits(&self.config.lane);
        let bytes = Memory::size(&limits) as u64;
        self.usage.take_lane(peer.uid, bytes)?;
        let made = self.make_lane(peer.uid, peer.pid, program, &limits, bytes).map_err(|error| {
            tracing::error!(pid = peer.pid, %error, "a lane could not be made");
            self.usage.give_lane(peer.uid, bytes);
            Reason::ServiceError
        });
        let (mut new, answer) = made?;
        let lane = new.number;
        new.connections.insert(id);
        tracing::info!(lane, devices = new.host_end(), pid = peer.pid, uid = peer.uid, %program, guard = crate::nics::mode_name(new.hook.guard_mode()), "lane made");
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
        answer
    }

    /// Answers [`tickwire_link::control::Request::Mapped`].
    pub(crate) fn mapped(&mut self, id: ConnectionId) -> Answer {
        let number = self.connections.get(&id).and_then(|connection| connection.lane);
        let Some((number, lane)) = number.and_then(|number| Some((number, self.lanes.get_mut(&number)?))) else {
            return refused(Reason::BadRequest);
        };
        if !lane.carries {
            // The socket looks for the device in the namespace that it was made in.
            let bound = xsk::bind(lane.socket.as_fd(), lane.number, 0).map_err(system("binding the AF_XDP socket"));
            let done = bound.and_then(|()| Ok(self.lane_program.deliver(lane.number, lane.socket.as_fd())?));
            if let Err(error) = done {
                tracing::error!(lane = number, pid = lane.pid, %error, "a lane cannot carry anything");
                return refused(Reason::ServiceError);
            }
            lane.carries = true;
        }
        Reply::Done.into()
    }

    /// Makes the devices of a lane; its number.
    fn make_devices(&mut self) -> Result<LaneId, LaneError> {
        let numbers: Vec<LaneId> = self.all_lanes().map(|lane| lane.number).collect();
        let slots: BTreeSet<u32> = numbers.iter().map(|&number| slot(number)).collect();
        let places: BTreeSet<u32> = numbers.iter().map(|&number| self.programs.place(number)).collect();
        let (namespace, mtu) = (self.namespace.as_fd(), self.nics.mtu());
        let mut attempts = ATTEMPTS;
        loop {
            let is_free = |number| {
                !slots.contains(&slot(number))
                    && !places.contains(&self.programs.place(number))
                    && self.host.link_by_index(number).is_ok_and(|link| link.is_none())
            };
            let index = self.numbers.next(is_free).ok_or(LaneError::NoPlace)?;
            let (here, there) = (host_end(index), program_end(index));
            match self.host.create_veth(&VethPair { here: &here, there: &there, namespace, index, mtu }) {
                Err(error) if error.is_taken() && attempts > 0 => attempts -= 1,
                made => return Ok(made.map(|()| index)?),
            }
        }
    }

    fn make_lane(
        &mut self,
        user: u32,
        pid: u32,
        program: Name,
        limits: &Limits,
        bytes: u64,
    ) -> Result<(Lane, Answer), LaneError> {
        let number = self.make_devices()?;
        let made = self.furnish(number, user, pid, program, limits, bytes).and_then(|lane| {
            let answer = answer(number, &lane).map_err(system("handing it over"))?;
            Ok((lane, answer))
        });
        if made.is_err() {
            self.programs.remove_lane(number);
            self.delete_devices(number, false);
        }
        made
    }

    fn furnish(
        &mut self,
        lane: LaneId,
        user: u32,
        pid: u32,
        program: Name,
        limits: &Limits,
        bytes: u64,
    ) -> Result<Lane, LaneError> {
        // The guard comes before anything can pass.
        let here = host_end(lane);
        let mode = self.guard_mode();
        let guard = self.programs.attach_guard(&here, lane, mode)?;
        // What the kernel hands to the lane must carry its checksums, as on a wire: AF_XDP shows bare bytes.
        switch_transmit_checksums_off(&here).map_err(system("switching checksum offload off"))?;
        let region = region::create(lane, limits, RingSizes::DEFAULT)?;
        let view = View::map(region.as_fd(), limits)?;
        let on_program_end = &mut self.lane_program;
        let inside = || -> Result<_, LaneError> {
            tickwire_host::Host::open()?.raise_quietly(lane)?;
            let socket =
                xsk::create(region.as_fd(), limits, RingSizes::DEFAULT).map_err(system("making the AF_XDP socket"))?;
            let hook = on_program_end.attach(lane, guard)?;
            let bulk = make_bulk_device(on_program_end, lane).inspect_err(|error| {
                tracing::warn!(lane, %error, "a lane has no bulk device, so its streams cost more");
            });
            Ok((socket, hook, bulk.ok()))
        };
        let (socket, hook, bulk) = self.namespace.run(inside).map_err(system("entering the namespace"))??;
        self.programs.add_lane(lane)?;
        self.host.raise_quietly(lane)?;
        let doorbell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|e| system("making the doorbell")(e.into()))?;
        Ok(Lane {
            number: lane,
            user,
            pid,
            program,
            limits: *limits,
            bytes,
            token: Token(random().map_err(system("drawing a token"))?),
            region,
            view,
            socket,
            carries: false,
            doorbell: doorbell.into(),
            hook,
            bulk,
            connections: BTreeSet::new(),
            least_mtu: self.nics.least_mtu(),
            made: Instant::now(),
            watches: Watches::new(limits.paths as usize),
        })
    }

    /// Removes the devices of a lane, whoever still has descriptors of them.
    pub(crate) fn delete_devices(&mut self, lane: LaneId, bulk: bool) {
        if bulk {
            let delete = || tickwire_host::Host::open()?.delete_link(lane | BULK_DEVICE);
            let gone = self.namespace.run(delete).map_err(system("entering the namespace"));
            if let Err(error) = gone.and_then(|gone| Ok(gone?)) {
                tracing::warn!(device = bulk_device(lane), %error, "a lane's bulk device could not be removed");
            }
        }
        if let Err(error) = self.host.delete_link(lane) {
            tracing::warn!(device = host_end(lane), %error, "a lane's device could not be removed");
        }
    }

    /// How lanes are to be guarded now: in XDP if every interface takes frames that XDP redirects to it, else by a tc filter.
    fn guard_mode(&mut self) -> AttachMode {
        if self.nics.all_take_redirects(self.xdp_info.as_mut()) { AttachMode::Native } else { AttachMode::Tc }
    }

    /// Guards every lane as it is to be guarded now: whether an interface takes redirected frames may change under our feet.
    pub(crate) fn fit_guards(&mut self) {
        if self.lanes.is_empty() {
            return;
        }
        let mode = self.guard_mode();
        for (&id, lane) in self.lanes.iter_mut().filter(|(_, lane)| lane.hook.guard_mode() != mode) {
            match self.programs.attach_guard_only(&lane.host_end(), id, mode) {
                Ok(guard) => {
                    tracing::info!(lane = id, guard = crate::nics::mode_name(mode), "guard changed");
                    lane.hook.set_guard(guard);
                }
                Err(error) => tracing::warn!(lane = id, %error, "the guard could not be changed"),
            }
        }
    }

    /// The lanes that live and those whose devices still exist.
    fn all_lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.values().chain(self.dying.iter().map(|dying| &dying.lane))
    }

    /// Removes what an earlier service left behind. Lanes are numbered behind all devices that there are.
    pub(crate) fn remove_leftovers(&mut self) -> tickwire_host::Result<()> {
        let links = self.host.links()?;
        self.numbers.begin_after(links.iter().map(|link| link.index).max().unwrap_or(0));
        for link in links {
            if link.kind == "veth" && is_lane_device(&link.name) {
                tracing::info!(device = link.name, "removing a lane of an earlier service");
                self.host.delete_link(link.index)?;
            }
        }
        Ok(())
    }

    /// Gives every lane the largest MTU of the interfaces, after one of them changed its own, and tells its program the smallest.
    pub(crate) fn fit_lanes_to_mtu(&mut self) {
        let least = self.nics.least_mtu();
        let told =
            |(&id, lane): (&LaneId, &mut Lane)| (core::mem::replace(&mut lane.least_mtu, least) != least).then_some(id);
        for id in self.lanes.iter_mut().filter_map(told).collect::<Vec<_>>() {
            self.push_to_lane(id, || Push::Mtu { mtu: least });
        }
        let mtu = self.nics.mtu();
        for id in self.lanes.keys().copied().collect::<Vec<_>>() {
            let current = self.host.link_by_index(id).ok().flatten().map_or(mtu, |link| link.mtu);
            if current == mtu {
                continue;
            }
            let far = self.namespace.run(|| tickwire_host::Host::open()?.set_mtu(id, mtu));
            let near = self.host.set_mtu(id, mtu);
            if let (Ok(Err(error)), _) | (_, Err(error)) = (far, near) {
                tracing::warn!(lane = id, mtu, %error, "a lane cannot take the interface's MTU");
            }
        }
    }
}

/// The answer that hands a lane over.
fn answer(number: LaneId, lane: &Lane) -> io::Result<Answer> {
    let bulk = lane.bulk.as_ref().map(|bulk| &bulk.tap);
    let all = [&lane.region, &lane.socket, &lane.doorbell].into_iter().chain(bulk);
    let descriptors = all.map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
    let (token, limits, mtu) = (lane.token, lane.limits, lane.least_mtu);
    Ok(Answer { reply: Reply::Lane { lane: number, token, limits, mtu }, descriptors })
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
