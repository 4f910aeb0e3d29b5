//! What the service does with lanes: it gives them to programs, adds devices for trains, keeps
//! guards and MTU in step with the interfaces, grants priorities, and removes them.

use crate::answer::{Answer, refused};
use crate::connection::ConnectionId;
use crate::lane::{BulkDevice, Lane, LaneError, bytes, lane_limits, system};
use crate::lane_maker::{Blank, device};
use crate::nics::mode_name;
use crate::programs::Programs;
use crate::registry::LaneId;
use crate::service::Service;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use tickwire_lane::control::{AttachMode, Name, Push, Reason, Reply, Token};
use tickwire_link::sys_tap::{self, BULK_DEVICE};
use tickwire_stack::Memory;

fn bulk_device(number: LaneId) -> String {
    format!("tw{number}b")
}

impl Service {
    /// Answers [`tickwire_lane::control::Request::OnKernel`].
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
        let made = Lane::furnish(blank, &limits, self.nics.least_mtu()).and_then(|lane| {
            let answer = lane.answer().map_err(system("handing it over"))?;
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
        tracing::info!(lane, devices = new.device(), pid = peer.pid, uid = peer.uid, %program, guard = mode_name(new.guard.mode()), "lane made");
        self.lanes.insert(lane, new);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.lane = Some(lane);
            connection.refused = None;
        }
        Ok(answer)
    }

    /// Answers [`tickwire_lane::control::Request::Attach`].
    pub(crate) fn attach(&mut self, id: ConnectionId, number: LaneId, token: Token, descriptors: bool) -> Answer {
        let Some(connection) = self.connections.get_mut(&id) else { return refused(Reason::BadRequest) };
        let Some(lane) = self.lanes.get_mut(&number).filter(|lane| lane.token == token) else {
            return refused(Reason::LaneGone);
        };
        if connection.lane.is_some_and(|own| own != number) {
            return refused(Reason::BadRequest);
        }
        let answer = if descriptors { lane.answer() } else { Ok(Reply::Attached.into()) };
        let Ok(answer) = answer else { return refused(Reason::ServiceError) };
        connection.lane = Some(number);
        connection.refused = None;
        lane.connections.insert(id);
        self.grant_real_time(id);
        answer
    }

    /// Grants a process that has a lane now the real-time priority of its groups, if they have one.
    pub(crate) fn grant_real_time(&mut self, id: ConnectionId) {
        let granted = self.connections.get(&id).and_then(|connection| self.priorities.grant(connection));
        if let Some(priority) = granted {
            self.push(id, Push::Realtime { priority });
        }
    }

    /// Answers [`tickwire_lane::control::Request::Bulk`].
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
        let has = |lane: &Lane| lane.bulk.as_ref().map(BulkDevice::tap);
        if let Some(tap) = self.lanes.get(&number).and_then(has) {
            return tap.map_err(system("handing it over"));
        }
        let (name, index) = (bulk_device(number), number | BULK_DEVICE);
        let tap = sys_tap::create(&name, index, true).map_err(system("making a TAP device"))?;
        let made = (|| {
            let guard = self.programs.attach_bulk_guard(&name)?;
            self.host.raise_quietly(index)?;
            let copy = tap.try_clone().map_err(system("handing it over"))?;
            Ok((BulkDevice::new(tap, guard), copy))
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
        let Self { ready_lanes, lanes, programs, .. } = self;
        ready_lanes.iter_mut().for_each(|blank| fit_guard(blank, mode, programs));
        for (&id, lane) in lanes.iter_mut().filter(|(_, lane)| lane.guard.mode() != mode) {
            match programs.attach_guard(&lane.device(), id, mode) {
                Ok(guard) => {
                    tracing::info!(lane = id, guard = mode_name(mode), "guard changed");
                    // The new one is attached already, so that the lane is always guarded.
                    lane.guard = guard;
                }
                Err(error) => tracing::warn!(lane = id, %error, "the guard could not be changed"),
            }
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

/// Guards a lane that no program has in this mode.
fn fit_guard(blank: &mut Blank, mode: AttachMode, programs: &mut Programs) {
    if blank.guard.mode() == mode {
        return;
    }
    match programs.attach_guard(&device(blank.number), blank.number, mode) {
        Ok(guard) => blank.guard = guard,
        Err(error) => tracing::warn!(lane = blank.number, %error, "the guard could not be changed"),
    }
}
