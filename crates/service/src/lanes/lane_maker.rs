//! Makes and removes the devices and rings of lanes, on threads of its own.
//!
//! The kernel takes up to tens of milliseconds for each step: to attach a guard in XDP, to enter a
//! ring into a map of maps or to remove it, to bring a device up, to remove one, and to close the
//! last descriptor of one. It also lets only one thread of the host change devices at a time. The
//! service's loop would answer no program meanwhile.

use super::numbers::Numbers;
use super::remover::Remover;
use crate::programs::{BpfError, GuardLink, LanePrograms, LaneRings, RingMaps};
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
use tickwire_lane_linux::sys_tap::{self, BULK_DEVICE};
use tickwire_registry::LaneId;

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
    #[error("no thread to make a lane's rings: {0}; raise the service's limit of tasks (TasksMax)")]
    Thread(io::Error),
}

/// A lane to be made, with this kind of guard, at none of these slots.
struct Order {
    mode: AttachMode,
    places: BTreeSet<u32>,
}

/// A device to be removed.
struct Removal {
    index: u32,
    /// It is a lane's own: its rings are to be removed first.
    has_rings: bool,
    /// What is to be closed when it is removed.
    held: Box<dyn Send>,
}

/// The way to the thread that removes devices.
#[derive(Clone)]
struct Removing {
    remover: Remover,
    removals: Sender<Removal>,
}

impl Removing {
    /// From here on the device counts as present until it is removed.
    fn give(&self, removal: Removal) {
        self.remover.announce(removal.index);
        if self.removals.send(removal).is_err() {
            tracing::error!("the thread that removes lanes has ended");
        }
    }
}

/// The threads. When this is dropped, they finish their queued work, and end.
pub(crate) struct LaneMaker {
    orders: Option<Sender<Order>>,
    made: Receiver<Result<Blank, MakeError>>,
    /// Readable when a lane was made, or could not be.
    news: Arc<EventFd>,
    making: Option<JoinHandle<()>>,
    remover: Remover,
    removing: Option<Removing>,
    /// It removes devices, so that making lanes does not wait for that.
    remover_thread: Option<JoinHandle<()>>,
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
        let (orders, to_make) = channel();
        let (done, made) = channel();
        let bell = Arc::clone(&news);
        let (removals, to_remove) = channel();
        let maps = Arc::clone(programs.ring_maps());
        let removing = Removing { remover: remover.clone(), removals };
        let mut maker = Maker { host, programs, numbers, latest: VecDeque::new(), removing: removing.clone() };
        let making = Builder::new().name("lanes".into()).spawn(move || maker.run(&to_make, &done, &bell))?;
        let removes = remover.clone();
        let remover_thread =
            Builder::new().name("devices".into()).spawn(move || remove_all(&to_remove, &maps, &removes))?;
        Ok(Self {
            orders: Some(orders),
            made,
            news,
            making: Some(making),
            remover,
            removing: Some(removing),
            remover_thread: Some(remover_thread),
        })
    }

    /// Makes a lane, which [`LaneMaker::take`] returns later.
    pub(crate) fn make(&self, mode: AttachMode, places: BTreeSet<u32>) {
        if self.orders.as_ref().is_none_or(|orders| orders.send(Order { mode, places }).is_err()) {
            tracing::error!("the thread that makes lanes has ended");
        }
    }

    /// Removes a lane's rings and device. What is held of it is closed afterwards.
    pub(crate) fn remove(&self, lane: LaneId, held: impl Send + 'static) {
        self.give(Removal { index: lane, has_rings: true, held: Box::new(held) });
    }

    /// Removes another device of a lane.
    pub(crate) fn remove_device(&self, index: u32) {
        self.give(Removal { index, has_rings: false, held: Box::new(()) });
    }

    fn give(&self, removal: Removal) {
        if let Some(removing) = &self.removing {
            removing.give(removal);
        }
    }

    /// Whether a device that was to be removed still exists.
    pub(crate) fn is_removing(&self, index: u32) -> bool {
        self.remover.is_removing(index)
    }

    /// The numbers of lanes whose removal is not over.
    pub(crate) fn removing(&self) -> impl Iterator<Item = LaneId> {
        self.remover.removing().into_iter().map(|index| index & !BULK_DEVICE)
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
        // The second thread ends after the first, which may have to remove what it has begun.
        drop((self.orders.take(), self.removing.take()));
        for thread in [self.making.take(), self.remover_thread.take()].into_iter().flatten() {
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
            remover.begin(link.index, || (), ());
        }
    }
    remover.wait();
    Ok(numbers)
}

/// Removes devices, and waits at the end until they are removed.
fn remove_all(removals: &Receiver<Removal>, maps: &Arc<RingMaps>, remover: &Remover) {
    for Removal { index, has_rings, held } in removals {
        let maps = has_rings.then(|| Arc::clone(maps));
        remover.begin(index, move || maps.into_iter().for_each(|maps| maps.remove_lane(index)), held);
    }
    remover.wait();
}

/// The state of the thread that makes lanes.
struct Maker {
    host: RouteNetlink,
    programs: LanePrograms,
    numbers: Numbers,
    /// Slots of the lanes made last, of which the last request may not have known.
    latest: VecDeque<u32>,
    removing: Removing,
}

impl Maker {
    /// Makes lanes until no more are ordered. Devices are made one after the other, because the
    /// kernel allows no more; rings meanwhile, each lane's on a thread of its own.
    fn run(&mut self, orders: &Receiver<Order>, done: &Sender<Result<Blank, MakeError>>, news: &EventFd) {
        std::thread::scope(|scope| {
            for Order { mode, places } in orders {
                let answer = |made| {
                    let _ = done.send(made);
                    let _ = news.write(1);
                };
                let guarded = match self.guarded(mode, &places) {
                    Ok(guarded) => guarded,
                    Err(error) => {
                        answer(Err(error));
                        continue;
                    }
                };
                let maps = Arc::clone(self.programs.ring_maps());
                let removing = self.removing.clone();
                let finish = move || answer(guarded.with_rings(&maps, &removing));
                let begun = Builder::new().name("rings".into()).stack_size(256 << 10).spawn_scoped(scope, finish);
                if let Err(error) = begun {
                    // The device went with the closure, which had its only descriptor.
                    answer(Err(MakeError::Thread(error)));
                }
            }
        });
    }

    /// A lane without rings: its device, guarded and up.
    fn guarded(&mut self, mode: AttachMode, places: &BTreeSet<u32>) -> Result<Guarded, MakeError> {
        let (number, tap) = self.make_device(places)?;
        // The guard is attached before any packet can pass.
        let guard = self.programs.guard(&device(number), number, mode).map_err(MakeError::from);
        let raised = guard.and_then(|guard| {
            self.host.raise_quietly(number)?;
            Ok(guard)
        });
        match raised {
            Ok(guard) => {
                self.latest.push_front(self.programs.place(number));
                self.latest.truncate(AT_A_TIME);
                Ok(Guarded { number, tap, guard })
            }
            Err(error) => {
                self.removing.give(Removal { index: number, has_rings: false, held: Box::new(tap) });
                Err(error)
            }
        }
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
}

/// A lane without rings.
struct Guarded {
    number: LaneId,
    tap: OwnedFd,
    guard: GuardLink,
}

impl Guarded {
    /// Makes its rings.
    fn with_rings(self, maps: &RingMaps, removing: &Removing) -> Result<Blank, MakeError> {
        let Self { number, tap, guard } = self;
        match maps.add_lane(number) {
            Ok(rings) => Ok(Blank { number, tap, guard, rings }),
            Err(error) => {
                removing.give(Removal { index: number, has_rings: true, held: Box::new((tap, guard)) });
                Err(error.into())
            }
        }
    }
}
