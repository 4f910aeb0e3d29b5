//! Entering the lane. A thread takes the lock, takes in what has arrived, does its work on the
//! stack ([`Access`]), takes out the packets to be sent, releases the lock, and sends them.
//!
//! A program's thread may have a few KiB of stack left. So the steps before and after the work are
//! functions of their own, whose frames are gone while the work runs.

use crate::base::deferred_signals;
use crate::base::reentrancy::{self, Inside};
use crate::lane::Lane;
use crate::lane::held_acks;
use crate::lane::kernel_rows::KernelRows;
use crate::lane::transmit::Transmission;
use crate::lane::waiters::Waiters;
use crate::sys;
use crate::sys::errno::{AGAIN, Errno, Result};
use crate::sys::shared_stack::{CoreGuard, LaneCore, Refused};
use crate::table::desc::Descriptions;
use crate::table::ports::Ports;
use core::sync::atomic::Ordering::Relaxed;
use tickwire_lane::control::Reason;
use tickwire_stack::time::Instant;
use tickwire_stack::{SocketId, Stack, WakeTarget, Wakeups, table};

/// The stack, for as long as the lock is held.
pub(crate) struct Access<'l> {
    /// The stack.
    pub(crate) stack: &'l mut Stack<'static>,
    /// When the lock was taken.
    pub(crate) now: Instant,
    /// The slot of this process.
    pub(crate) slot: usize,
    rows: &'static [table::SocketRow],
}

/// From this many sockets on, a thread sleeps on all sockets instead of on each by its identity.
const MANY: usize = 5;

impl Access<'_> {
    /// The descriptions of all sockets of the lane.
    pub(crate) fn descriptions(&mut self) -> Descriptions<'_> {
        Descriptions::new(self.stack.user())
    }

    /// The lane's unused ephemeral ports.
    pub(crate) fn ports(&mut self) -> Ports<'_> {
        self.descriptions().ports()
    }

    /// The rows of sockets that stay on the kernel.
    pub(crate) fn kernel_rows(&self) -> KernelRows<'_> {
        KernelRows::of(self.stack)
    }

    /// The sockets of these descriptions; none, if they are [`MANY`] or more.
    pub(super) fn sockets(&mut self, on: &[u32]) -> ([SocketId; MANY], usize) {
        let mut sockets = [SocketId::default(); MANY];
        let len = if on.len() < MANY { on.len() } else { 0 };
        let mut descriptions = self.descriptions();
        sockets.iter_mut().zip(&on[..len]).for_each(|(socket, &index)| *socket = descriptions.get(index).socket());
        (sockets, len)
    }

    /// The bits by which a polling thread sees that something happened to the sockets of these
    /// descriptions.
    pub(crate) fn change_bits(&mut self, on: &[u32]) -> u64 {
        let (sockets, len) = self.sockets(on);
        self.stack.change_mask(sockets.into_iter().take(len))
    }

    /// The public rows of TCP connections, and others behind them.
    pub(crate) fn tcp_rows(&self) -> &'static [table::SocketRow] {
        self.rows
    }

    /// The public row of a TCP connection by its index, whatever has become of it.
    pub(crate) fn tcp_row(&self, index: u32) -> Option<&'static table::SocketRow> {
        self.rows.get(index as usize)
    }
}

/// Marks the lane as lost if a panic unwinds through it: the stack may be half-changed.
struct Poison<'l>(&'l Lane);

impl Drop for Poison<'_> {
    fn drop(&mut self) {
        self.0.shared.poison();
    }
}

impl Lane {
    /// Polls the rings, runs timers, does `work`, and sends the resulting packets.
    ///
    /// # Errors
    /// The error of `work`; `EAGAIN` if this very thread is inside already (a signal handler
    /// interrupted it there); `ENETDOWN` if the lane has ended.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Access<'_>) -> Result<T>) -> Result<T> {
        self.enter(None, |_| (), work, true)
    }

    /// As [`Lane::with`], for a thread that was asleep: `awake` runs before the rings are polled.
    /// Otherwise packets for a thread that still counts as asleep would signal its own wakeup
    /// descriptor, and its next sleep would end at once.
    ///
    /// # Errors
    /// As [`Lane::with`].
    pub(crate) fn with_awake<T>(
        &self,
        awake: impl FnOnce(&mut Stack<'static>),
        work: impl FnOnce(&mut Access<'_>) -> Result<T>,
    ) -> Result<T> {
        self.enter(None, awake, work, true)
    }

    /// As [`Lane::with`], for a polling thread that has just read the clock.
    ///
    /// # Errors
    /// As [`Lane::with`].
    pub(crate) fn with_at<T>(&self, now: Instant, work: impl FnOnce(&mut Access<'_>) -> Result<T>) -> Result<T> {
        self.enter(Some(now), |_| (), work, true)
    }

    /// As [`Lane::with`], for the helper thread, which does not count as the program's own polling.
    pub(crate) fn with_quietly<T>(&self, work: impl FnOnce(&mut Access<'_>) -> Result<T>) -> Result<T> {
        self.enter(None, |_| (), work, false)
    }

    /// Marks this thread as inside and takes the lock, as soon as the gate is open.
    #[inline]
    pub(super) fn lock_when_open(&self) -> core::result::Result<(Inside, CoreGuard<'_>), Refused> {
        loop {
            let inside = reentrancy::enter().ok_or(Refused::Again)?;
            match self.lock() {
                Ok(guard) => return Ok((inside, guard)),
                // Its signals are delivered meanwhile.
                Err(Refused::Barred) => drop(inside),
                Err(refused) => return Err(refused),
            }
            self.gate().wait();
        }
    }

    #[inline]
    fn enter<T>(
        &self,
        now: Option<Instant>,
        before: impl FnOnce(&mut Stack<'static>),
        work: impl FnOnce(&mut Access<'_>) -> Result<T>,
        is_program: bool,
    ) -> Result<T> {
        let (inside, guard) = self.come_in()?;
        let mut transmission = Transmission::new();
        let (answer, mut wakes_helper) = self.pass(guard, now, before, work, is_program, &mut transmission);
        if transmission.takes_another_pass() {
            wakes_helper |= self.pass_on(answer.is_ok(), is_program, &mut transmission);
        }
        drop(transmission);
        self.leave(inside, wakes_helper);
        answer
    }

    /// The lock, unless the lane is over; a lane that was lost ends here.
    #[inline]
    fn come_in(&self) -> Result<(Inside, CoreGuard<'_>)> {
        if self.is_over() {
            return Err(Errno(libc::ENETDOWN));
        }
        match self.lock_when_open() {
            Ok(entered) => Ok(entered),
            Err(Refused::Again | Refused::Barred) => Err(AGAIN),
            Err(Refused::Lost) => {
                self.end(Reason::LaneGone);
                Err(Errno(libc::ENETDOWN))
            }
        }
    }

    /// The thread is not inside any more. The helper is woken if it has something to do, and
    /// signals that were put off are delivered.
    #[inline]
    fn leave(&self, inside: Inside, wakes_helper: bool) {
        let signalled = inside.leave();
        if wakes_helper {
            self.care_no_more();
            crate::base::wakeup_fd::ring();
        }
        if signalled {
            deferred_signals::deliver();
        }
    }

    /// Further passes of a call, for as long as it has something to do. Returns whether the helper
    /// is to be woken.
    #[cold]
    #[inline(never)]
    fn pass_on(&self, is_done: bool, is_program: bool, transmission: &mut Transmission) -> bool {
        let mut wakes_helper = false;
        loop {
            // The program may be ending.
            let Ok(guard) = self.lock() else { break };
            let again = |_: &mut Access<'_>| if is_done { Ok(()) } else { Err(AGAIN) };
            wakes_helper |= self.pass(guard, None, |_| (), again, is_program, transmission).1;
            if !transmission.takes_another_pass() {
                break;
            }
        }
        wakes_helper
    }

    /// One pass through the lane. Also returns whether the helper is to be woken.
    #[inline]
    fn pass<T>(
        &self,
        mut guard: CoreGuard<'_>,
        now: Option<Instant>,
        before: impl FnOnce(&mut Stack<'static>),
        work: impl FnOnce(&mut Access<'_>) -> Result<T>,
        is_program: bool,
        transmission: &mut Transmission,
    ) -> (Result<T>, bool) {
        // Dropped before the guard: the next thread to enter sees the mark.
        let poison = Poison(self);
        let now = now.unwrap_or_else(sys::now);
        transmission.settle(&self.shared, &mut guard);
        before(&mut guard.stack);
        self.take_in(&mut guard, is_program, now);
        let answer = {
            let LaneCore { stack, .. } = &mut *guard;
            work(&mut Access { stack, now, slot: self.slot(), rows: self.shared.rows() })
        };
        let wakes_helper = self.pass_ends(guard, poison, is_program, answer.is_ok(), now, transmission);
        (answer, wakes_helper)
    }

    /// Polls the rings and runs timers.
    #[inline(never)]
    fn take_in(&self, guard: &mut CoreGuard<'_>, is_program: bool, now: Instant) {
        let LaneCore { stack, wire } = &mut **guard;
        if wire.poll(stack, now) > 0 {
            self.traffic.store(now.as_nanos(), Relaxed);
        }
        if self.due(now) {
            stack.on_time(now);
        }
        if is_program {
            self.shared.note_poll(now);
        }
    }

    /// Publishes what has changed, releases the lock, sends pending packets, and wakes the threads
    /// that are to be woken. Returns whether the helper is to be woken, too.
    #[inline(never)]
    fn pass_ends(
        &self,
        mut guard: CoreGuard<'_>,
        // Dropped before the guard.
        poison: Poison<'_>,
        is_program: bool,
        is_done: bool,
        now: Instant,
        transmission: &mut Transmission,
    ) -> bool {
        self.take_out(&mut guard, is_program && is_done, now, transmission);
        let stack = &mut guard.stack;
        let deadline = self.publish_deadline(stack);
        let cared_until = self.cared_until.load(Relaxed);
        let wakeups = stack.take_wakeups();
        let standby = self.settle_wakeups(stack, wakeups.as_ref(), transmission);
        self.publish_changes(stack);
        let has_requests = stack.has_request() && self.talk.note_requests(stack);
        core::mem::forget(poison);
        drop(guard);
        self.send_and_wake(wakeups.as_ref(), standby, transmission);
        let oversleeps = deadline != 0 && deadline < cared_until;
        // No event tells when it can be sent, and the program may not return soon.
        let is_stuck = transmission.is_stuck() && is_program && cared_until != 0;
        let wants_bulk = transmission.wants_bulk() && self.talk.want_bulk();
        has_requests || oversleeps || is_stuck || wants_bulk
    }

    /// Takes the packets out of the stack that are sent when the lock has been released. `answers`:
    /// the call has a result for the program.
    #[inline]
    fn take_out(&self, guard: &mut CoreGuard<'_>, answers: bool, now: Instant, transmission: &mut Transmission) {
        held_acks::settle(&mut guard.stack, answers, now);
        transmission.take(&self.shared, guard);
        self.crowded.store(transmission.is_crowded(), Relaxed);
    }

    /// Publishes when the stack next wants to be called, in nanoseconds; 0 never.
    #[inline]
    fn publish_deadline(&self, stack: &mut Stack<'static>) -> u64 {
        let deadline = stack.deadline().map_or(0, Instant::as_nanos);
        self.deadline.store(deadline, Relaxed);
        deadline
    }

    /// Threads that are to be woken do not count for the poll duty any more. Decides whether
    /// another pass is needed for more of them, or for packets that woke no thread. Returns the
    /// standby thread if it is to be woken for those packets instead.
    #[inline]
    fn settle_wakeups(
        &self,
        stack: &mut Stack<'static>,
        wakeups: Option<&Wakeups>,
        transmission: &mut Transmission,
    ) -> Option<WakeTarget> {
        let duty = &self.shared.waiting().duty;
        if let Some(wakeups) = wakeups {
            Waiters::are_woken(duty, wakeups);
        }
        let unseen = self.fit_standby();
        let takes_in = unseen && transmission.takes_in_more();
        let standby = (unseen && !takes_in).then(|| Waiters::call_standby(duty, stack)).flatten();
        transmission.has_more_to_do(takes_in || wakeups.is_some_and(|wakeups| wakeups.more));
        standby
    }

    /// Sends what was taken out of the stack, and wakes these threads. The lock has been released.
    /// Packets of streams take long, so threads are woken before they are sent.
    #[inline]
    fn send_and_wake(&self, wakeups: Option<&Wakeups>, standby: Option<WakeTarget>, transmission: &mut Transmission) {
        let streams = transmission.sends_streams();
        if !streams {
            transmission.send(&self.shared);
        }
        self.wake(wakeups, standby);
        if streams {
            transmission.send(&self.shared);
        }
    }

    /// Wakes these threads. Before signals are delivered: a handler may jump away, and the threads
    /// are not queued at their sockets any more.
    #[inline]
    fn wake(&self, wakeups: Option<&Wakeups>, standby: Option<WakeTarget>) {
        let waiting = self.shared.waiting();
        if let Some(wakeups) = wakeups {
            self.waiters.wake(waiting, self.doorbell, self.slot(), wakeups.targets());
            if wakeups.everybody {
                sys::ring(self.doorbell);
            }
        }
        if let Some(target) = standby {
            self.waiters.wake(waiting, self.doorbell, self.slot(), &[target]);
        }
    }
}
