//! Makes and removes the devices and rings of lanes, on two threads.
//!
//! The kernel takes up to tens of milliseconds for each step: to attach a guard in XDP, to enter a
//! ring into a map of maps, to bring a device up, and to remove one. It also lets only one thread
//! of the host change devices at a time. The service's loop would answer no program meanwhile.

use super::numbers::Numbers;
use super::remover::Remover;
use crate::programs::{BpfError, GuardLink, LanePrograms, LaneRings};
use crate::registry::LaneId;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use tickwire_host::RouteNetlink;
use tickwire_host::link::is_lane_device;
use tickwire_lane::control::AttachMode;
use tickwire_lane_linux::sys_tap;

/// At most so many lanes are made at a time.
pub(crate) const AT_A_TIME: usize = 8;

/// So many further numbers are tried if another program has taken one in the meantime.
const ATTEMPTS: usize = 16;

/// A lane that no program has.
pub(crate) struct Blank {
    pub(crate) number: LaneId,
    pub(crate) tap: OwnedFd,
    pub(crate) guard: GuardLink,
    pub(crate) rings: LaneRings,
}

/// Why a lane could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error(transparent)]
    Host(#[from] tickwire_host::HostError),
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error("no number is free for another lane")]
    NoPlace,
    #[error("making a TAP device: {0}")]
    Tap(io::Error),
}

enum Task {
    /// Make a lane with this kind of guard, at none of these slots.
    Make { mode: AttachMode, places: BTreeSet<u32> },
    /// Remove a lane.
    Remove { lane: LaneId },
    /// Remove another device of a lane.
    RemoveDevice { index: u32 },
}

/// The threads. When this is dropped, they finish their queued work, and end.
pub(crate) struct LaneMaker {
    tasks: Option<Sender<Task>>,
    made: Receiver<Result<Blank, MakeError>>,
    /// Readable when a lane was made, or could not be.
    news: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    remover: Remover,
    /// Removes devices, so that making lanes does not wait for that.
    removing: Option<JoinHandle<()>>,
}

impl LaneMaker {
    /// Starts the threads, the first with its own connection to the kernel.
    ///
    /// # Errors
    /// If there is no descriptor or no thread for them.
    pub(crate) fn start(
        host: RouteNetlink,
        programs: LanePrograms,
        numbers: Numbers,
        remover: Remover,
    ) -> io::Result<Self> {
        let news = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (tasks, to_do) = channel();
        let (done, made) = channel();
        let bell = Arc::clone(&news);
        let (devices, to_remove) = channel();
        let mut maker = Maker { host, programs, numbers, latest: VecDeque::new(), devices };
        let thread = Builder::new().name("lanes".into()).spawn(move || maker.run(&to_do, &done, &bell))?;
        let removes = remover.clone();
        let removing = Builder::new()
            .name("devices".into())
            .spawn(move || to_remove.into_iter().for_each(|index| removes.remove(index)))?;
        Ok(Self { tasks: Some(tasks), made, news, thread: Some(thread), remover, removing: Some(removing) })
    }

    /// Makes a lane, which [`LaneMaker::take`] returns later.
    pub(crate) fn make(&self, mode: AttachMode, places: BTreeSet<u32>) {
        self.give(Task::Make { mode, places });
    }

    /// Removes a lane's ring and device.
    pub(crate) fn remove(&self, lane: LaneId) {
        self.remover.announce(lane);
        self.give(Task::Remove { lane });
    }

    /// Removes another device of a lane.
    pub(crate) fn remove_device(&self, index: u32) {
        self.remover.announce(index);
        self.give(Task::RemoveDevice { index });
    }

    /// Whether a device that was to be removed still exists.
    pub(crate) fn is_removing(&self, index: u32) -> bool {
        self.remover.is_removing(index)
    }

    fn give(&self, task: Task) {
        if self.tasks.as_ref().is_none_or(|tasks| tasks.send(task).is_err()) {
            tracing::error!("the thread that makes and removes lanes has ended");
        }
    }

    /// The lanes that were made since the last call, and failures.
    pub(crate) fn take(&self) -> Vec<Result<Blank, MakeError>> {
        // Before the queue is read, so that no later lane is missed.
        let _ = self.news.read();
        self.made.try_iter().collect()
    }
}

impl AsFd for LaneMaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

impl Drop for LaneMaker {
    fn drop(&mut self) {
        drop(self.tasks.take());
        // The second thread ends after the first, which sends its work.
        for thread in [self.thread.take(), self.removing.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread that makes and removes lanes has failed");
            }
        }
    }
}

/// Name of a lane's device.
pub(crate) fn device(number: LaneId) -> String {
    format!("tw{number}h")
}

/// Removes what an earlier service left behind. The numbers of lanes begin after the indices of all
/// existing devices.
pub(crate) fn remove_leftovers(host: &mut RouteNetlink, remover: &Remover) -> tickwire_host::Result<Numbers> {
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

/// The state of the first thread.
struct Maker {
    host: RouteNetlink,
    programs: LanePrograms,
    numbers: Numbers,
    /// Slots of the lanes made last, of which the last request may not have known.
    latest: VecDeque<u32>,
    /// Devices to be removed.
    devices: Sender<u32>,
}

impl Maker {
    fn run(&mut self, tasks: &Receiver<Task>, done: &Sender<Result<Blank, MakeError>>, news: &EventFd) {
        for task in tasks {
            match task {
                Task::Make { mode, places } => {
                    let _ = done.send(self.make(mode, &places));
                    let _ = news.write(1);
                }
                Task::Remove { lane } => {
                    self.programs.remove_lane(lane);
                    self.delete_link(lane);
                }
                Task::RemoveDevice { index } => self.delete_link(index),
            }
        }
    }

    fn delete_link(&self, index: u32) {
        let _ = self.devices.send(index);
    }

    fn make(&mut self, mode: AttachMode, places: &BTreeSet<u32>) -> Result<Blank, MakeError> {
        let (number, tap) = self.make_device(places)?;
        let made = self.furnish(number, mode);
        let (guard, rings) = made.inspect_err(|_| {
            self.programs.remove_lane(number);
            self.delete_link(number);
        })?;
        self.latest.push_front(self.programs.place(number));
        self.latest.truncate(AT_A_TIME);
        Ok(Blank { number, tap, guard, rings })
    }

    /// Makes the device of a lane, down, and without a guard. Returns its number.
    fn make_device(&mut self, places: &BTreeSet<u32>) -> Result<(LaneId, OwnedFd), MakeError> {
        let mut attempts = ATTEMPTS;
        loop {
            let is_free = |number| {
                let place = self.programs.place(number);
                !places.contains(&place)
                    && !self.latest.contains(&place)
                    && self.host.link_by_index(number).is_ok_and(|link| link.is_none())
            };
            let index = self.numbers.next(is_free).ok_or(MakeError::NoPlace)?;
            match sys_tap::create(&device(index), index, false) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) && attempts > 0 => {
                    attempts -= 1;
                }
                made => return Ok((index, made.map_err(MakeError::Tap)?)),
            }
        }
    }

    fn furnish(&mut self, lane: LaneId, mode: AttachMode) -> Result<(GuardLink, LaneRings), MakeError> {
        // The guard is attached before any packet can pass.
        let guard = self.programs.guard(&device(lane), lane, mode)?;
        let rings = self.programs.add_lane(lane)?;
        self.host.raise_quietly(lane)?;
        Ok((guard, rings))
    }
}
