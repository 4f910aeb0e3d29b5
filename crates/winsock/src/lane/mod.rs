//! The lane of this process: the stack behind its lock, what drives it, and the service.
//!
//! | module | purpose |
//! |---|---|
//! | `alarm` | what the helper thread is woken for besides packets |
//! | `begin` | getting the lane, at the first socket of IP |
//! | `drive` | packets in and out; waiting by polling, then asleep |
//! | `events` | events of sockets for which no thread waits |
//! | `kernel_halves` | what the kernel has for its half of a socket |
//! | `offered_ports` | ports from which to connect |
//! | `exit_gate` | what other threads see of the process's end |
//! | `helper` | the thread that drives the stack while no other does |
//! | `control` | requests to the service |
//! | `without_lane` | a program that gets no lane |
//!
//! One process has a lane, so its lock is a mutex of this process.

mod alarm;
mod begin;
mod control;
mod drive;
mod events;
pub(crate) mod exit_gate;
mod helper;
mod kernel_halves;
mod offered_ports;
mod without_lane;

pub(crate) use begin::{has_packets, lane, lane_if_begun};
pub(crate) use drive::{Access, Waited};
pub(crate) use events::{Happened, deliver_to};

use alarm::Alarm;
use control::Control;
use events::Events;
use kernel_halves::KernelHalves;
use offered_ports::OfferedPorts;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, PoisonError};
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_windows::lane_memory::ReadRing;
use tickwire_lane_windows::port::ProgramPort;
use tickwire_stack::Stack;
use tickwire_stack::table::SocketRow;

/// What the lock protects.
pub(crate) struct Core {
    /// The stack.
    pub(crate) stack: Stack<'static>,
    port: ProgramPort,
    /// The ring is armed: a packet wakes the helper thread.
    is_armed: bool,
    /// Changes when something has happened that a thread may wait for.
    generation: u64,
    /// The transmit ring had room for all that there was to send.
    is_all_sent: bool,
    /// How many threads sleep.
    sleepers: u32,
    events: Events,
}

// SAFETY: the stack is plain memory and belongs to no thread.
unsafe impl Send for Core {}

/// The lane of this process.
pub(crate) struct Lane {
    core: Mutex<Core>,
    /// The receive ring, for threads that poll without the lock.
    ring: RecordRing<ReadRing>,
    /// Something has happened that a sleeping thread may wait for.
    changed: Condvar,
    control: Control,
    /// The lane is of no use any more: the service has gone.
    is_lost: AtomicBool,
    /// The service has a driver. Without one, all sockets stay on the kernel.
    has_packets: bool,
    /// When packets last came, in nanoseconds of the lane's clock.
    last_packet: AtomicU64,
    kernel_halves: KernelHalves,
    offered_ports: OfferedPorts,
    alarm: Alarm,
    /// Events have been collected.
    has_events: AtomicBool,
    /// A thread delivers them.
    delivering: Mutex<()>,
    /// A thread polls before it waits in the kernel.
    polling: Mutex<()>,
    unfinished: Mutex<Vec<Work>>,
    /// A thread tries what is unfinished.
    working: Mutex<()>,
}

/// Something that goes on after the program's call: it is tried from time to time, and says when it
/// is done. At the end of the process it is told so: then only what peers still wait for counts.
pub(crate) type Work = Box<dyn FnMut(&Lane, AtEnd) -> bool + Send>;

/// Whether the process is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtEnd(pub(crate) bool);

impl Lane {
    /// The rows of sockets that stay on the kernel.
    pub(crate) fn kernel_rows<T>(&self, call: impl FnOnce(&[SocketRow]) -> T) -> T {
        call(self.lock().stack.kernel_rows())
    }

    /// Has the helper thread do this until it is done.
    pub(crate) fn finish(&self, work: Work) {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    }

    /// Tries what is unfinished. Returns whether something is left.
    pub(crate) fn work(&self, at_end: AtEnd) -> bool {
        let _one_at_a_time = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        let list = || self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let mut begun = std::mem::take(&mut *list());
        begun.retain_mut(|work| !work(self, at_end));
        let is_left = !begun.is_empty();
        list().append(&mut begun);
        is_left
    }
}
