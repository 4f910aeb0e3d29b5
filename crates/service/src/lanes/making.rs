//! Lanes that are made in advance, programs that wait for one, and devices for trains.

use super::Lanes;
use super::guards::guard_mode;
use super::lane::{BulkDevice, Lane, LaneError, system};
use super::lane_maker::{Blank, MakeError};
use super::ready_lanes::Waiting;
use crate::clients::{Clients, ConnectionId};
use crate::paths::Nics;
use crate::programs::Programs;
use crate::usage::Usage;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use tickwire_host::RouteNetlink;
use tickwire_lane_linux::sys_tap::{self, BULK_DEVICE};
use tickwire_registry::LaneId;

/// How many lanes are kept ready if the configuration does not say.
const READY: u32 = 4;

/// A lane could not be made.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: MakeError,
    /// Whether others are being made, which may serve the programs that wait.
    pub(crate) others_follow: bool,
}

/// Name of a lane's device for trains.
fn bulk_device(number: LaneId) -> String {
    format!("tw{number}b")
}

impl Lanes {
    /// A program that has a lane booked waits for it.
    pub(crate) fn wait(&mut self, program: Waiting) {
        self.ready.wait(program);
    }

    /// Whether the program at a connection waits.
    pub(crate) fn is_waiting(&self, id: ConnectionId) -> bool {
        self.ready.is_waiting(id)
    }

    /// The program at a connection no longer waits.
    pub(crate) fn forget_waiting(&mut self, id: ConnectionId, user: u32, usage: &mut Usage) {
        (0..self.ready.forget(id)).for_each(|_| self.give_back(user, usage));
    }

    /// The next program in turn of those that wait.
    pub(crate) fn next_waiting(&mut self, clients: &Clients) -> Option<Waiting> {
        self.ready.next_waiting(|id| clients.user_of(id))
    }

    /// A lane for the next program in turn; `None` if none is ready, or no program waits.
    pub(crate) fn take_ready(&mut self) -> Option<Blank> {
        self.ready.take()
    }

    /// Begins to make as many lanes as are wanted; programs may have `most`. Called when some were
    /// given away.
    pub(crate) fn make_ready(&mut self, most: usize, nics: &mut Nics, programs: &mut Programs) {
        let spare = if nics.any() { self.config.ready.unwrap_or(READY) as usize } else { 0 };
        let exist = self.all.len() + self.dying.len();
        for _ in 0..self.ready.lacking(spare, most, exist) {
            let places: BTreeSet<u32> = self.all_numbers().map(|number| programs.place(number)).collect();
            self.maker.make(guard_mode(nics, programs), places);
            self.ready.begin();
        }
    }

    /// Takes over the lanes that have been made. Returns which could not be.
    pub(crate) fn take_made(&mut self, programs: &mut Programs) -> Vec<Failure> {
        let mut failures = Vec::new();
        for made in self.maker.take() {
            self.ready.ended();
            let counted = made.and_then(|blank| match programs.begin_counting(blank.number) {
                Ok(()) => Ok(blank),
                Err(error) => {
                    self.remove_blank(blank);
                    Err(error.into())
                }
            });
            match counted {
                Ok(blank) => self.ready.add(blank),
                Err(error) => failures.push(Failure { error, others_follow: self.ready.failed() }),
            }
        }
        failures
    }

    /// The numbers of live lanes, and of those whose devices or rings still exist, or exist
    /// already.
    fn all_numbers(&self) -> impl Iterator<Item = LaneId> {
        let gone = self.dying.iter().map(|dying| dying.id).chain(self.maker.removing());
        self.all.keys().copied().chain(gone).chain(self.ready.numbers())
    }

    /// Removes the rings and the devices of a lane, even if a process still holds descriptors of
    /// them.
    pub(super) fn remove(&self, lane: Lane) {
        let number = lane.number;
        if lane.has_bulk() {
            self.maker.remove_device(number | BULK_DEVICE);
        }
        self.maker.remove(number, lane);
    }

    /// Removes a lane that no program has.
    pub(crate) fn remove_blank(&self, blank: Blank) {
        self.maker.remove(blank.number, blank);
    }

    /// Removes all lanes that no program has, at the end of the service.
    pub(crate) fn drop_ready(&mut self) {
        std::mem::take(&mut self.ready).into_blanks().for_each(|blank| self.remove_blank(blank));
    }

    /// The device of a lane for trains of segments, which is made when it is first asked for.
    pub(crate) fn bulk_of(
        &mut self,
        number: LaneId,
        host: &mut RouteNetlink,
        programs: &mut Programs,
    ) -> Result<OwnedFd, LaneError> {
        let has = |lane: &Lane| lane.bulk.as_ref().map(BulkDevice::tap);
        if let Some(tap) = self.all.get(&number).and_then(has) {
            return tap.map_err(system("handing it over"));
        }
        let (name, index) = (bulk_device(number), number | BULK_DEVICE);
        let tap = sys_tap::create(&name, index, true).map_err(system("making a TAP device"))?;
        let made = (|| {
            let guard = programs.attach_bulk_guard(&name)?;
            host.raise_quietly(index)?;
            let copy = tap.try_clone().map_err(system("handing it over"))?;
            Ok((BulkDevice::new(tap, guard), copy))
        })();
        let (device, copy) = made.inspect_err(|_: &LaneError| self.maker.remove_device(index))?;
        if let Some(lane) = self.all.get_mut(&number) {
            lane.bulk = Some(device);
        }
        Ok(copy)
    }
}
