//! The lane as this process has it: its parts, and what it can be asked without entering it.
//! `entry` has how a thread enters it, `sleep` how threads sleep on it, `service` its communication
//! with the service.

use crate::base::config::Settings;
use crate::base::reentrancy;
use crate::lane::Access;
use crate::lane::crowd;
use crate::lane::exit_gate::ExitGate;
use crate::lane::observer::observer;
use crate::lane::process_state;
use crate::lane::service::ServiceChannel;
use crate::lane::session::Session;
use crate::lane::waiters::Waiters;
use crate::sys;
use crate::sys::errno::Errno;
use crate::sys::shared_stack::{CoreGuard, FinalState, Refused, SharedStack};
use crate::table::desc::Descriptions;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use tickwire_lane::control::{Reason, Token};
use tickwire_lane_linux::bulk::Bulk;
use tickwire_lane_linux::standby_ring::StandbyRing;
use tickwire_stack::Limits;
use tickwire_stack::time::Instant;

/// A lane in use by this process. Its memory is never unmapped, because a thread may be inside at
/// any time; a lane that ended is marked.
pub(crate) struct Lane {
    pub(super) shared: SharedStack,
    gate: ExitGate,
    /// The receive ring's descriptor (-1 in tests) and the doorbell.
    ring: c_int,
    pub(super) doorbell: c_int,
    handover: Handover,
    settings: Settings,
    /// Pending requests to the service, and the connection for them.
    pub(crate) talk: ServiceChannel,
    /// This process's slot among the lane's processes.
    pub(super) slot: AtomicUsize,
    /// Code of the reason for which the lane ended, 0 while it lives.
    ended: AtomicU32,
    /// When frames last came in, in nanoseconds.
    pub(super) traffic: AtomicU64,
    /// When the stack next wants to be called, in nanoseconds; 0 never.
    pub(super) deadline: AtomicU64,
    /// Until when this process's helper sleeps on behalf of the program, in nanoseconds; 0 if it
    /// does not. It is woken for a timer that is due before, and for packets that are left to be
    /// sent.
    pub(super) cared_until: AtomicU64,
    /// Whether packets were left to be sent, as last observed.
    pub(super) crowded: AtomicBool,
    pub(super) waiters: Waiters,
    /// How many other processes use the lane, as last observed.
    company: AtomicU32,
}

/// What identifies a lane to a program that is to continue with it.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) number: u32,
    pub(crate) token: Token,
    pub(crate) limits: Limits,
    /// The region's descriptor, -1 in tests.
    pub(crate) region: c_int,
    /// That of the TAP device, -1 in tests.
    pub(crate) tap: c_int,
    /// That of the standby ring, -1 in tests.
    pub(crate) standby: c_int,
}

/// The parts of a lane.
pub(crate) struct Parts {
    pub(crate) shared: SharedStack,
    pub(crate) ring: c_int,
    pub(crate) doorbell: c_int,
    /// The ring that wakes the standby thread, `None` in tests.
    pub(crate) standby: Option<StandbyRing>,
    pub(crate) handover: Handover,
    pub(crate) settings: Settings,
    pub(crate) session: Option<Session>,
}

impl Lane {
    /// A lane of these parts; a process slot is taken for this process.
    ///
    /// # Errors
    /// The reason for which it cannot be used.
    pub(crate) fn new(parts: Parts, slot: Option<usize>) -> core::result::Result<Self, Reason> {
        (observer().guard)();
        crowd::prepare();
        let waiters = Waiters::new([parts.ring, parts.handover.tap], parts.standby);
        let lane = Self {
            shared: parts.shared,
            gate: ExitGate::new(),
            ring: parts.ring,
            doorbell: parts.doorbell,
            handover: parts.handover,
            settings: parts.settings,
            talk: ServiceChannel::new(parts.session),
            slot: AtomicUsize::new(0),
            ended: AtomicU32::new(0),
            traffic: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            cared_until: AtomicU64::new(0),
            crowded: AtomicBool::new(false),
            waiters,
            company: AtomicU32::new(0),
        };
        let pid = sys::process();
        let slot = match slot {
            Some(slot) => Ok(slot),
            None => lane.with(|access| access.descriptions().take_process(pid.into()).ok_or(Errno(libc::ENOBUFS))),
        };
        lane.slot.store(slot.map_err(|_| Reason::Processes)?, Relaxed);
        // Forget the waiters of the program that was this process before an exec.
        let _ = lane.with_quietly(|access| {
            lane.forget_waiters(access, lane.slot());
            Ok(())
        });
        Ok(lane)
    }

    /// Which threads of this process may enter.
    pub(crate) fn gate(&self) -> &ExitGate {
        &self.gate
    }

    /// Takes the lock, if the gate is open to this thread.
    ///
    /// # Errors
    /// [`Refused`].
    #[inline]
    pub(super) fn lock(&self) -> core::result::Result<CoreGuard<'_>, Refused> {
        self.shared.lock(|| self.gate.admits())
    }

    /// The program is about to end or to be replaced: from here on none of its threads is inside
    /// the lane.
    pub(crate) fn retire(&self) {
        self.shared.while_none_is_inside(|| self.gate.shut());
    }

    /// The settings of this process.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The lane's number and secret.
    pub(crate) fn identity(&self) -> (u32, Token) {
        (self.handover.number, self.handover.token)
    }

    /// What another program needs to know to continue with the lane, and its region's descriptor.
    pub(crate) fn handover(&self) -> &Handover {
        &self.handover
    }

    /// The rings' descriptor and the doorbell.
    pub(crate) fn descriptors(&self) -> (c_int, c_int) {
        (self.ring, self.doorbell)
    }

    /// The slot of this process.
    pub(crate) fn slot(&self) -> usize {
        self.slot.load(Relaxed)
    }

    /// This process (a forked child) has another slot from now on.
    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Relaxed);
    }

    /// How many other processes use the lane, as last observed.
    pub(crate) fn company(&self) -> u32 {
        self.company.load(Relaxed)
    }

    /// Stores how many other processes use the lane.
    pub(crate) fn set_company(&self, others: u32) {
        self.company.store(others, Relaxed);
    }

    /// A forked child has none of its parent's other threads.
    pub(crate) fn forget_threads(&self) {
        self.waiters.forget_threads();
        if let Some(port) = self.shared.port() {
            port.forget_threads();
        }
        self.care_no_more();
        self.gate().forget();
        self.set_company(1);
    }

    /// When frames last came in.
    pub(crate) fn last_traffic(&self) -> Instant {
        Instant::from_nanos(self.traffic.load(Relaxed))
    }

    /// Whether a timer of the stack is due at `now`.
    pub(crate) fn due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| now >= at)
    }

    /// When the stack's next timer is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let at = self.deadline.load(Relaxed);
        (at != 0).then(|| Instant::from_nanos(at))
    }

    /// Whether packets were left to be sent. Known only after a call has left the lane, because
    /// that is when they are sent.
    pub(crate) fn crowded(&self) -> bool {
        self.crowded.load(Relaxed)
    }

    /// Sends trains of segments through this protected descriptor from now on.
    pub(super) fn set_bulk(&self, tap: c_int) {
        if let Some(port) = self.shared.port() {
            port.set_bulk(Bulk::new(sys::owned(tap)));
        }
    }

    /// The lane is not this process's any more.
    pub(crate) fn forsake(&self) {
        self.ended.store(1, Relaxed);
        process_state::uninstall(self);
    }

    /// The lane is over, and not this process's any more. False if it was over before.
    pub(super) fn is_over_from_now(&self, reason: Reason) -> bool {
        let was = self.ended.swap(u32::from(reason.code()).max(1), Relaxed);
        process_state::uninstall(self);
        was == 0
    }

    /// Flags of a description.
    pub(crate) fn flags_of(&self, index: u32) -> u64 {
        let Ok((_inside, mut guard)) = self.lock_when_open() else { return 0 };
        Descriptions::new(guard.stack.user()).get(index).flags()
    }

    /// The final state of the stack of a lane that has ended, or was lost, for the thread that ends
    /// it; `None` in a signal handler that interrupted its own thread inside.
    pub(crate) fn final_state(&self) -> Option<FinalState> {
        let _inside = reentrancy::enter()?;
        self.shared.final_state()
    }

    /// Flags of a description, inside.
    pub(crate) fn flags_of_held(&self, access: &mut Access<'_>, index: u32) -> u64 {
        access.descriptions().get(index).flags()
    }

    /// Whether the lane is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::desc::single;
    use crate::testing;

    #[test]
    fn a_lane_that_ends_while_the_gate_is_shut_says_what_its_sockets_were() {
        let (lane, _service) = testing::another();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(lane.gate().close(true));
                lane.retire();
            });
        });
        assert!(matches!(lane.lock(), Err(Refused::Barred)));
        assert_eq!(lane.final_state().unwrap().user[single::STARTED], 1);
        assert!(lane.final_state().is_none(), "a lane ends once");
    }
}
