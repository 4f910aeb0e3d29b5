//! The lane as this process has it: the stack in the shared region, the rings, and the lock around
//! both. `service` has its communication with the service.

use crate::base::config::Settings;
use crate::base::reentrancy;
use crate::exports::shared::{Core, Guard, LastWords, Refused, Shared};
use crate::exports::signal;
use crate::lane::exit_gate::ExitGate;
use crate::lane::held_acks;
use crate::lane::kernel_rows::KernelRows;
use crate::lane::process_state;
use crate::lane::service::Talk;
use crate::lane::session::Session;
use crate::lane::teardown::Teardown;
use crate::lane::transmit::Transmission;
use crate::lane::waiters::{Asleep, Waiters};
use crate::sys;
use crate::sys::errno::{AGAIN, Errno, Result};
use crate::table::desc::Descriptions;
use crate::table::ports::Ports;
use crate::wait::crowd;
use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use libc::pollfd;
use tickwire_lane::control::{Reason, Token};
use tickwire_link::bulk::Bulk;
use tickwire_link::port::Port;
use tickwire_link::standby_ring::StandbyRing;
use tickwire_stack::time::Instant;
use tickwire_stack::{Limits, SocketId, Stack, WaiterId, WakeTarget, table};

/// A lane in use by this process. Its memory is never unmapped, because a thread may be inside at
/// any time; a lane that ended is marked.
pub(crate) struct Lane {
    shared: Shared,
    /// The receive ring's descriptor (-1 in tests) and the doorbell.
    ring: c_int,
    doorbell: c_int,
    handover: Handover,
    settings: Settings,
    /// Pending requests to the service, and the connection for them.
    pub(crate) talk: Talk,
    /// This process's slot among the lane's processes.
    slot: AtomicUsize,
    /// Code of the reason for which the lane ended, 0 while it lives.
    ended: AtomicU32,
    /// When frames last came in, in nanoseconds.
    traffic: AtomicU64,
    /// When the stack next wants to be called, in nanoseconds; 0 never.
    deadline: AtomicU64,
    /// Until when this process's helper sleeps on behalf of the program, in nanoseconds; 0 if it
    /// does not. It is woken for a timer that is due before, and for packets that are left to be
    /// sent.
    cared_until: AtomicU64,
    /// Whether packets were left to be sent, as last observed.
    crowded: AtomicBool,
    waiters: Waiters,
    /// How many other processes use the lane, as last observed.
    company: AtomicU32,
}

/// The stack, for as long as the lock is held.
pub(crate) struct Access<'l> {
    /// The stack.
    pub(crate) stack: &'l mut Stack<'static>,
    /// When the lock was taken.
    pub(crate) now: Instant,
    /// The slot of this process.
    pub(crate) slot: usize,
    rows: &'static [table::Row],
}

thread_local! {
    /// [`Lane::change`] as it was when the calling thread left the lane.
    static SEEN: Cell<u32> = const { Cell::new(0) };
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
    fn sockets(&mut self, on: &[u32]) -> ([SocketId; MANY], usize) {
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
    pub(crate) fn tcp_rows(&self) -> &'static [table::Row] {
        self.rows
    }

    /// The public row of a TCP connection by its index, whatever has become of it.
    pub(crate) fn tcp_row(&self, index: u32) -> Option<&'static table::Row> {
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
    pub(crate) shared: Shared,
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
        signal::guard();
        crowd::prepare();
        let waiters = Waiters::new([parts.ring, parts.handover.tap], parts.standby);
        let lane = Self {
            shared: parts.shared,
            ring: parts.ring,
            doorbell: parts.doorbell,
            handover: parts.handover,
            settings: parts.settings,
            talk: Talk::new(parts.session),
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
        self.shared.gate()
    }

    /// The program is about to end or to be replaced: from here on none of its threads is inside
    /// the lane.
    pub(crate) fn retire(&self) {
        self.shared.shut();
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

    /// Polls for the helper, which then sleeps on behalf of the program until the returned
    /// deadline, or for ever. From here on the program wakes it if it sets an earlier timer, and
    /// the receive ring is armed. Returns whether that is so, and the deadline.
    pub(crate) fn care_until_deadline(&self) -> (bool, Option<Instant>) {
        let deadline = self.with_quietly(|access| {
            let deadline = access.stack.deadline();
            self.cared_until.store(deadline.map_or(u64::MAX, Instant::as_nanos), Relaxed);
            self.arm();
            Ok(deadline)
        });
        (deadline.is_ok(), deadline.ok().flatten())
    }

    /// The helper does not sleep any more, or not on behalf of the program.
    pub(crate) fn care_no_more(&self) {
        self.cared_until.store(0, Relaxed);
    }

    /// Whether the helper sleeps on behalf of the program.
    #[cfg(test)]
    pub(crate) fn is_cared_for(&self) -> bool {
        self.cared_until.load(Relaxed) != 0
    }

    /// Whether packets were left to be sent. Known only after a call has left the lane, because
    /// that is when they are sent.
    pub(crate) fn crowded(&self) -> bool {
        self.crowded.load(Relaxed)
    }

    /// Sends trains of segments through this protected descriptor from now on.
    pub(super) fn set_bulk(&self, tap: c_int) {
        if let Some(port) = self.shared.port() {
            port.set_bulk(Bulk::new(crate::exports::shared::own(tap)));
        }
    }

    /// The calling thread, which is inside, is about to sleep on the receive ring's descriptor:
    /// from here on received packets make it readable. Until [`Lane::disarm`].
    pub(crate) fn arm(&self) {
        if let Some(port) = self.shared.port() {
            port.rx().arm(self.slot());
        }
    }

    /// The calling thread has left the lane and is about to sleep on the descriptor that
    /// [`Lane::arm`] arms: wake frames of earlier sleeps must not wake it.
    pub(crate) fn take_wake_frame(&self, asleep: Asleep) {
        let Some(port) = self.shared.port() else { return };
        if !asleep.stands_by() {
            port.take_wake_frame();
        }
    }

    /// Whether a wait for [`Lane::rings`] returned only because of wake frames of packets that have
    /// been taken in. They are removed now.
    pub(crate) fn are_left_over(&self, rings: [pollfd; 2]) -> bool {
        let left_over = rings.map(|ring| ring.revents) == [libc::POLLIN, 0];
        if left_over && let Some(port) = self.shared.port() {
            port.take_wake_frames();
        }
        left_over
    }

    /// Arms or disarms the wakeup of the standby thread, as the lane's poll duty requires. The
    /// calling thread has the lock. True if it cannot be armed yet, because packets have arrived
    /// since this thread polled.
    fn fit_standby(&self) -> bool {
        let Some(port) = self.shared.port() else { return false };
        let wakes = self.shared.waiting().duty.wakes_standby();
        if wakes == port.rx().standby_is_armed() {
            return false;
        }
        if wakes {
            return !port.rx().arm_standby();
        }
        port.rx().disarm_standby();
        false
    }

    /// The same for a thread that does not have the lock.
    fn settle_standby(&self) {
        let Some(port) = self.shared.port() else { return };
        let duty = &self.shared.waiting().duty;
        // Checked again after each change: another thread may have changed the duty in between
        // without seeing it.
        while duty.wakes_standby() != port.rx().standby_is_armed() {
            if !duty.wakes_standby() {
                port.rx().disarm_standby();
            } else if self.with_quietly(|_| Ok(())).is_err() {
                // In a handler that interrupted this thread inside: it is done when the thread
                // leaves.
                return;
            }
        }
    }

    /// The calling thread, which is inside, does not sleep on the ring's descriptor any more.
    pub(crate) fn disarm(&self) {
        if let Some(port) = self.shared.port() {
            port.rx().disarm(self.slot());
        }
    }

    /// Whether the rings show nothing to do. Read without the lock, so only a hint.
    pub(crate) fn quiet(&self) -> bool {
        self.shared.port().is_none_or(Port::quiet)
    }

    /// When a program of the lane last polled.
    pub(crate) fn polled_at(&self) -> Instant {
        self.shared.polled_at()
    }

    /// The calling thread is about to sleep, until something happens to the sockets of these
    /// descriptions, or to any socket if there are none, or many. The thread that notices it wakes
    /// the sleeper through the pair of its wakeup descriptor and its inbox address. `again`: its
    /// last wakeup was spurious.
    pub(crate) fn falls_asleep(
        &self,
        access: &mut Access<'_>,
        on: &[u32],
        (bell, address): (Option<c_int>, u64),
        again: bool,
    ) -> Asleep {
        let (sockets, len) = access.sockets(on);
        let target = WakeTarget {
            process: self.slot() as u32,
            descriptor: bell.unwrap_or(-1),
            address,
            priority: crate::lane::priority(access.now),
            reserved: 0,
        };
        let duty = &self.shared.waiting().duty;
        self.waiters.falls_asleep(duty, access.stack, sockets.into_iter().take(len), target, again)
    }

    /// The calling thread, which is inside, is awake.
    pub(crate) fn awakes(&self, stack: &mut Stack<'static>, asleep: Asleep) {
        if asleep.stands_by() {
            self.waiters.hush_standby();
        }
        self.waiters.awakes(&self.shared.waiting().duty, stack, self.slot(), asleep);
    }

    /// The descriptors that the calling thread watches in its sleep, -1 for none.
    pub(crate) fn watched(&self, asleep: Asleep) -> [pollfd; 2] {
        self.waiters.watched(asleep)
    }

    /// The descriptors of a thread that is to be woken by every packet.
    pub(crate) fn rings(&self) -> [pollfd; 2] {
        self.waiters.rings()
    }

    /// When the calling thread, which is about to sleep, has to check the stack's timers.
    pub(crate) fn timer_of(&self, asleep: Asleep) -> Option<Instant> {
        Waiters::timer_of(&self.shared.waiting().duty, asleep, self.deadline())
    }

    /// How many threads sleep, in all processes of the lane.
    pub(crate) fn asleep(&self) -> u32 {
        self.shared.waiting().duty.asleep()
    }

    /// The calling thread polls, until [`Lane::poll_ends`].
    pub(crate) fn poll_begins(&self, priority: u32) {
        self.waiters.poll_begins(&self.shared.waiting().duty, self.slot(), priority);
        self.settle_duty();
    }

    /// The calling thread has stopped polling. One of the sleeping threads takes the poll duty
    /// over, once it is known that this thread does not sleep either: [`Lane::settle_duty`].
    pub(crate) fn poll_ends(&self, priority: u32) {
        self.waiters.poll_ends(&self.shared.waiting().duty, self.slot(), priority);
    }

    /// Makes sure that a thread polls for the sleeping ones, and that packets wake no other.
    #[inline]
    pub(crate) fn settle_duty(&self) {
        self.settle_standby();
        if self.shared.waiting().duty.is_abandoned() {
            self.appoint(|_| ());
        }
    }

    /// No thread has taken in the rings' packets for long: the threads with the poll duty are gone
    /// (by a jump out of a handler that the library does not know of). Another one gets the duty.
    pub(crate) fn is_neglected(&self) {
        self.appoint(|stack| Waiters::depose(&self.shared.waiting().duty, stack));
    }

    #[cold]
    fn appoint(&self, before: impl FnOnce(&mut Stack<'static>)) {
        let duty = &self.shared.waiting().duty;
        let target = self.with_quietly(|access| {
            before(access.stack);
            Ok(Waiters::appoint(duty, access.stack))
        });
        if let Ok(Some(target)) = target {
            self.waiters.wake(self.shared.waiting(), self.doorbell, self.slot(), &[target]);
        }
    }

    /// A process is gone with its threads, or this one has become another program.
    pub(crate) fn forget_waiters(&self, access: &mut Access<'_>, slot: usize) {
        let stack = &mut *access.stack;
        let forgotten = stack.forget_waiters(slot as u32);
        let is_asleep = |number| WaiterId::of_number(number).and_then(|id| stack.waiter(id)).is_some();
        self.shared.waiting().duty.forget_process(slot, forgotten, is_asleep);
        if let Some(port) = self.shared.port() {
            port.rx().forget_process(slot);
        }
    }

    /// The secret by which the lane's processes authenticate wakeups of each other's threads.
    pub(crate) fn wake_secret(&self) -> [u64; 2] {
        [0, 1].map(|word: usize| self.shared.waiting().wake_secret[word].load(Relaxed))
    }

    /// A number that changes when anything happens to any socket of the lane: now, and when the
    /// calling thread last left the lane.
    pub(crate) fn change(&self) -> (u32, u32) {
        (self.change_of(u64::MAX), SEEN.get())
    }

    /// A number that changes when something happens to a socket of these bits
    /// ([`Access::change_bits`]).
    pub(crate) fn change_of(&self, bits: u64) -> u32 {
        self.shared.waiting().change_of(bits)
    }

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
    fn come_in(&self) -> core::result::Result<(reentrancy::Inside, Guard<'_>), Refused> {
        loop {
            let inside = reentrancy::enter().ok_or(Refused::Again)?;
            match self.shared.lock() {
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
        program: bool,
    ) -> Result<T> {
        if self.is_over() {
            return Err(Errno(libc::ENETDOWN));
        }
        let (inside, guard) = match self.come_in() {
            Ok(both) => both,
            Err(Refused::Again | Refused::Barred) => return Err(AGAIN),
            Err(Refused::Lost) => {
                self.end(Reason::LaneGone);
                return Err(Errno(libc::ENETDOWN));
            }
        };
        let mut course = Transmission::new();
        let (answer, mut rings) = self.pass(guard, now, before, work, program, &mut course);
        if course.goes_on() {
            rings |= self.pass_on(answer.is_ok(), program, &mut course);
        }
        drop(course);
        let signalled = inside.leave();
        if rings {
            self.care_no_more();
            crate::base::wakeup_fd::ring();
        }
        if signalled {
            crate::exports::signal::deliver();
        }
        answer
    }

    /// Further passes of a call, for as long as it has something to do. Returns whether the helper
    /// is to be woken.
    #[cold]
    #[inline(never)]
    fn pass_on(&self, is_done: bool, program: bool, course: &mut Transmission) -> bool {
        let mut rings = false;
        loop {
            // The program may be ending.
            let Ok(guard) = self.shared.lock() else { break };
            let again = |_: &mut Access<'_>| if is_done { Ok(()) } else { Err(AGAIN) };
            rings |= self.pass(guard, None, |_| (), again, program, course).1;
            if !course.goes_on() {
                break;
            }
        }
        rings
    }

    /// One pass through the lane. Also returns whether the helper is to be woken.
    ///
    /// The steps before and after `work` are separate functions, so that their stack frames are
    /// gone while `work` runs.
    #[inline]
    fn pass<T>(
        &self,
        mut guard: Guard<'_>,
        now: Option<Instant>,
        before: impl FnOnce(&mut Stack<'static>),
        work: impl FnOnce(&mut Access<'_>) -> Result<T>,
        program: bool,
        course: &mut Transmission,
    ) -> (Result<T>, bool) {
        // Dropped before the guard: the next thread to enter sees the mark.
        let poison = Poison(self);
        let now = now.unwrap_or_else(sys::now);
        course.settle(&self.shared, &mut guard);
        before(&mut guard.stack);
        self.take_in(&mut guard, program, now);
        let answer = {
            let Core { stack, .. } = &mut *guard;
            work(&mut Access { stack, now, slot: self.slot(), rows: self.shared.rows() })
        };
        let rings = self.pass_ends(guard, poison, program, answer.is_ok(), now, course);
        (answer, rings)
    }

    /// Polls the rings and runs timers.
    #[inline(never)]
    fn take_in(&self, guard: &mut Guard<'_>, program: bool, now: Instant) {
        let Core { stack, wire } = &mut **guard;
        if wire.poll(stack, now) > 0 {
            self.traffic.store(now.as_nanos(), Relaxed);
        }
        if self.due(now) {
            stack.on_time(now);
        }
        if program {
            self.shared.note_poll(now);
        }
    }

    /// Sends pending packets, and wakes the threads that are to be woken. Returns whether the
    /// helper is to be woken, too.
    #[inline(never)]
    fn pass_ends(
        &self,
        mut guard: Guard<'_>,
        // Dropped before the guard.
        poison: Poison<'_>,
        program: bool,
        is_done: bool,
        now: Instant,
        course: &mut Transmission,
    ) -> bool {
        let Core { stack, .. } = &mut *guard;
        held_acks::settle(stack, program && is_done, now);
        course.take(&self.shared, &mut guard);
        let Core { stack, .. } = &mut *guard;
        self.crowded.store(course.is_crowded(), Relaxed);
        let deadline = stack.deadline().map_or(0, Instant::as_nanos);
        self.deadline.store(deadline, Relaxed);
        let cared_until = self.cared_until.load(Relaxed);
        let overtaken = deadline != 0 && deadline < cared_until;
        let waiting = self.shared.waiting();
        let wakeups = stack.take_wakeups();
        if let Some(wakeups) = &wakeups {
            Waiters::are_woken(&waiting.duty, wakeups);
        }
        let unseen = self.fit_standby();
        let takes_in = unseen && course.takes_in_more();
        let called = (unseen && !takes_in).then(|| Waiters::call_standby(&waiting.duty, stack)).flatten();
        course.has_more_to_do(takes_in || wakeups.as_ref().is_some_and(|wakeups| wakeups.more));
        let changes = stack.take_changes();
        if changes != 0 {
            waiting.note_changes(changes);
        }
        SEEN.set(waiting.change_of(u64::MAX));
        let request = stack.has_request() && self.talk.note_requests(stack);
        core::mem::forget(poison);
        drop(guard);
        let streams = course.sends_streams();
        if !streams {
            course.send(&self.shared);
        }
        // Before signals are delivered: a handler may jump away, and the threads are not queued at
        // their sockets any more.
        if let Some(wakeups) = wakeups {
            self.waiters.wake(waiting, self.doorbell, self.slot(), wakeups.targets());
            if wakeups.everybody {
                sys::ring(self.doorbell);
            }
        }
        if let Some(target) = called {
            self.waiters.wake(waiting, self.doorbell, self.slot(), &[target]);
        }
        if streams {
            course.send(&self.shared);
        }
        // No event tells when it can be sent, and the program may not return soon.
        let stuck = course.is_stuck() && program && cared_until != 0;
        let bulk = course.wants_bulk() && self.talk.want_bulk();
        request || overtaken || stuck || bulk
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
        let Ok((_inside, mut guard)) = self.come_in() else { return 0 };
        Descriptions::new(guard.stack.user()).get(index).flags()
    }

    /// The final state of the stack of a lane that has ended, or was lost; `None` in a signal
    /// handler that interrupted its own thread inside.
    pub(crate) fn last_words(&self, ending: &mut Teardown) -> Option<LastWords> {
        let _inside = reentrancy::enter()?;
        self.shared.last_words(ending)
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
