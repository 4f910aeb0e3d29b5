//! How threads sleep on a lane and poll it: what they arm and watch, which of them has the poll
//! duty, and by what a polling thread notices that something has changed.

use crate::lane::entry::Access;
use crate::lane::waiters::{Asleep, Waiters};
use crate::lane::{Lane, priority};
use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use libc::pollfd;
use tickwire_lane_linux::port::Port;
use tickwire_stack::time::Instant;
use tickwire_stack::{Stack, WaiterId, WakeTarget};

thread_local! {
    /// [`Lane::change`] as it was when the calling thread left the lane.
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

impl Lane {
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
    pub(super) fn fit_standby(&self) -> bool {
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
            priority: priority(access.now),
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

    /// Publishes to which sockets something has happened, for the polling threads. The calling
    /// thread, which is about to leave the lane, knows of it.
    #[inline]
    pub(super) fn publish_changes(&self, stack: &mut Stack<'static>) {
        let waiting = self.shared.waiting();
        let changes = stack.take_changes();
        if changes != 0 {
            waiting.note_changes(changes);
        }
        SEEN.set(waiting.change_of(u64::MAX));
    }
}
