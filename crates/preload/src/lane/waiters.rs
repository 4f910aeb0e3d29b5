//! The threads that sleep on the lane: which of them polls for the others ([`PollDuty`]), and how
//! each is woken.
//!
//! A sleeping thread is known to the whole lane by its waiter in the stack
//! (`tickwire_stack::WaiterId`). The thread that takes in a packet for it wakes it alone. It
//! signals the wakeup descriptor of a thread of the same process, and sends a datagram to the inbox
//! (`sys::inbox`) of a thread of another. If neither is possible, the doorbell wakes all threads of
//! the lane.

use crate::sys::{self, NO_FD, readable};
use crate::table::protect;
use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU32};
use libc::pollfd;
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use tickwire_lane::duty::{PollDuty, Role};
use tickwire_lane::layout::Waiting;
use tickwire_lane_linux::standby_ring::StandbyRing;
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{SocketId, Stack, WaiterId, WakeTarget, Wakeups};

/// For how long a thread's priority is cached: the program may change it.
const PRIORITY_FOR: Span = Span::from_millis(5);

thread_local! {
    /// The calling thread's cached priority, and until when it is valid.
    static PRIORITY: Cell<(u32, Instant)> = const { Cell::new((0, Instant::NEVER)) };
}

/// The calling thread's real-time priority, 0 for an ordinary thread.
pub(crate) fn priority(now: Instant) -> u32 {
    let (known, until) = PRIORITY.get();
    if now < until {
        return known;
    }
    let priority = sys::real_time_priority();
    PRIORITY.set((priority, now + PRIORITY_FOR));
    priority
}

/// A sleeping thread, as it knows itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asleep {
    /// `None`: too many threads sleep, and this one has to poll by itself.
    waiter: Option<WaiterId>,
    role: Role,
}

impl Asleep {
    /// Whether it sleeps in the kernel's wait for the rings.
    pub(crate) fn watches(&self) -> bool {
        self.role == Role::Watches
    }

    /// Whether it sleeps on the standby ring.
    pub(crate) fn stands_by(&self) -> bool {
        self.role == Role::StandsBy
    }

    /// Whether something wakes it.
    pub(crate) fn is_known(&self) -> bool {
        self.waiter.is_some()
    }
}

/// This process's part of the sleeping threads.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// The ring that wakes the standby thread; `None` in tests.
    standby: Option<StandbyRing>,
    ring: c_int,
    /// The TAP device, whose wake frames wake threads.
    tap: c_int,
    /// Polling threads of this process.
    pollers: AtomicU32,
    /// The socket by which threads of other processes are woken, -1 before it is needed.
    sender: AtomicI32,
}

impl Waiters {
    /// For a process whose ring and TAP device have these descriptors.
    pub(crate) fn new([ring, tap]: [c_int; 2], standby: Option<StandbyRing>) -> Self {
        Self { standby, ring, tap, pollers: AtomicU32::new(0), sender: AtomicI32::new(-1) }
    }

    /// The descriptors that a thread of this role watches in its sleep.
    pub(crate) fn watched(&self, asleep: Asleep) -> [pollfd; 2] {
        match asleep.role {
            Role::Watches => self.rings(),
            Role::StandsBy => [NO_FD, self.standby.as_ref().map_or(NO_FD, |ring| readable(ring.as_fd().as_raw_fd()))],
            Role::Sleeps => [NO_FD; 2],
        }
    }

    /// The descriptors of a thread that is to be woken by every packet. In this order: when the
    /// kernel checks the ring, the thread already waits for wake frames.
    pub(crate) fn rings(&self) -> [pollfd; 2] {
        [readable(self.tap), readable(self.ring)]
    }

    /// The calling thread is about to sleep. It has the lock.
    pub(crate) fn falls_asleep(
        &self,
        duty: &PollDuty,
        stack: &mut Stack<'_>,
        on: impl IntoIterator<Item = SocketId>,
        target: WakeTarget,
        again: bool,
    ) -> Asleep {
        let waiter = stack.sleep_on(on, target);
        let role = waiter.map_or(Role::Sleeps, |waiter| {
            duty.falls_asleep(waiter.number(), target.priority, again, self.standby.is_some())
        });
        Asleep { waiter, role }
    }

    /// The thread is awake. It has the lock.
    pub(crate) fn awakes(&self, duty: &PollDuty, stack: &mut Stack<'_>, slot: usize, asleep: Asleep) {
        if let Some(waiter) = asleep.waiter {
            duty.awakes(waiter.number());
            stack.awake(waiter, slot as u32);
        }
    }

    /// When the thread has to check the stack's timers, the next of which is due at `deadline`.
    pub(crate) fn timer_of(duty: &PollDuty, asleep: Asleep, deadline: Option<Instant>) -> Option<Instant> {
        duty.timer_of(asleep.role, deadline.map_or(u64::MAX, Instant::as_nanos)).map(Instant::from_nanos)
    }

    /// The calling thread polls, until [`Waiters::poll_ends`].
    pub(crate) fn poll_begins(&self, duty: &PollDuty, slot: usize, priority: u32) {
        self.pollers.fetch_add(1, SeqCst);
        duty.poll_begins(slot, priority);
    }

    /// The calling thread has stopped polling.
    pub(crate) fn poll_ends(&self, duty: &PollDuty, slot: usize, priority: u32) {
        let before = self.pollers.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).unwrap_or(0);
        duty.poll_ends(slot, priority, before <= 1);
        if before <= 1 && self.pollers.load(SeqCst) > 0 {
            // Another thread has begun meanwhile.
            duty.poll_begins(slot, 0);
        }
    }

    /// The calling thread, which was the standby thread, is awake and about to poll.
    pub(crate) fn hush_standby(&self) {
        if let Some(ring) = &self.standby {
            ring.drain();
        }
    }

    /// The sleeping thread that is to be woken for the poll duty, if that is still needed. The
    /// calling thread has the lock.
    pub(crate) fn appoint(duty: &PollDuty, stack: &Stack<'_>) -> Option<WakeTarget> {
        if !duty.is_abandoned() {
            return None;
        }
        let (waiter, target) = stack.first_waiter()?;
        duty.appoint(waiter.number(), target.priority);
        Some(target)
    }

    /// The standby thread, which is to be woken for the poll duty. No thread is on standby any
    /// more. The calling thread has the lock.
    pub(crate) fn call_standby(duty: &PollDuty, stack: &Stack<'_>) -> Option<WakeTarget> {
        let waiter = duty.standby();
        let target = WaiterId::of_number(waiter).and_then(|id| stack.waiter(id));
        match target {
            Some(target) => duty.appoint(waiter, target.priority),
            // Another process of the lane has written an invalid waiter there, which cannot be
            // woken.
            None => duty.is_woken(waiter),
        }
        target
    }

    /// The threads with the poll duty did not poll. The calling thread has the lock.
    pub(crate) fn depose(duty: &PollDuty, stack: &mut Stack<'_>) {
        duty.depose().into_iter().filter_map(WaiterId::of_number).for_each(|waiter| stack.pass_over(waiter));
    }

    /// A forked child has none of its parent's other threads.
    pub(crate) fn forget_threads(&self) {
        self.pollers.store(0, SeqCst);
    }

    /// Threads that are woken do not count for the poll duty any more. The calling thread has the
    /// lock.
    pub(crate) fn are_woken(duty: &PollDuty, wakeups: &Wakeups) {
        wakeups.waiters().iter().for_each(|waiter| duty.is_woken(waiter.number()));
    }

    /// Wakes these threads; the calling thread is of the process in `slot`.
    pub(crate) fn wake(&self, waiting: &Waiting, doorbell: c_int, slot: usize, targets: &[WakeTarget]) {
        let mut everybody = false;
        for target in targets {
            if target.process as usize == slot {
                if target.descriptor >= 0 {
                    sys::ring_one(target.descriptor, doorbell);
                }
            } else if target.descriptor >= 0 {
                everybody |= !self.reaches(waiting, target.address);
            }
        }
        if everybody {
            sys::ring(doorbell);
        }
    }

    /// Wakes a thread of another process. False if that is not possible.
    fn reaches(&self, waiting: &Waiting, address: u64) -> bool {
        let secret = [0, 1].map(|word: usize| waiting.wake_secret[word].load(Relaxed));
        if address == 0 || secret == [0; 2] {
            return false;
        }
        let mut sender = self.sender.load(Relaxed);
        if sender < 0 {
            let Ok(fd) = sys::inbox::sender().and_then(protect::keep) else { return false };
            sender = match self.sender.compare_exchange(-1, fd, SeqCst, SeqCst) {
                Ok(_) => fd,
                Err(other) => {
                    protect::release(fd);
                    other
                }
            };
        }
        sys::inbox::wake(sender, address, secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a descriptor is readable now.
    fn shows(fd: c_int) -> bool {
        let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        sys::ppoll(&mut fds, Some(Span::ZERO), None) == Ok(1)
    }

    #[test]
    fn one_thread_polls_on_when_another_of_its_process_ends() {
        let duty = PollDuty::default();
        let waiters = Waiters::new([-1; 2], None);
        waiters.poll_begins(&duty, 2, 0);
        waiters.poll_begins(&duty, 2, 0);
        waiters.poll_ends(&duty, 2, 0);
        assert!(duty.covers(0));
        waiters.poll_ends(&duty, 2, 0);
        waiters.poll_ends(&duty, 2, 0);
        assert!(!duty.covers(0));
        waiters.poll_begins(&duty, 2, 0);
        assert!(duty.covers(0), "no less than not at all");
    }

    #[test]
    fn the_thread_that_stands_by_is_called_to_the_duty() {
        let (lane, _service) = crate::testing::another();
        lane.with(|access| {
            let (duty, stack) = (PollDuty::default(), &mut *access.stack);
            let waiters = Waiters::new([-1; 2], None);
            assert!(Waiters::call_standby(&duty, stack).is_none());
            let target = WakeTarget { descriptor: 5, ..WakeTarget::default() };
            let asleep = waiters.falls_asleep(&duty, stack, [], target, false);
            duty.awakes(asleep.waiter.unwrap().number());
            duty.poll_begins(0, 0);
            assert_eq!(duty.falls_asleep(asleep.waiter.unwrap().number(), 0, false, true), Role::StandsBy);
            duty.poll_ends(0, 0, true);
            assert!(duty.wakes_standby());
            assert_eq!(Waiters::call_standby(&duty, stack).map(|target| target.descriptor), Some(5));
            assert!(!duty.wakes_standby() && duty.covers(0) && Waiters::call_standby(&duty, stack).is_none());
            // A waiter that does not exist.
            assert_eq!(duty.falls_asleep(9, 0, false, true), Role::StandsBy);
            duty.is_woken(asleep.waiter.unwrap().number());
            assert!(duty.wakes_standby() && Waiters::call_standby(&duty, stack).is_none() && !duty.wakes_standby());
            waiters.awakes(&duty, stack, 0, asleep);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_thread_of_another_process_is_woken_alone_and_by_the_lanes_own_secret_only() {
        let waiting = Waiting::default();
        let secret = [7, 9];
        (0..2).for_each(|word| waiting.wake_secret[word].store(secret[word], Relaxed));
        let inboxes = [(); 2].map(|()| sys::inbox::open(secret).unwrap());
        let doorbell = sys::eventfd().unwrap();
        let waiters = Waiters::new([-1; 2], None);
        let target = |address| WakeTarget { process: 1, descriptor: 5, address, ..WakeTarget::default() };
        waiters.wake(&waiting, doorbell, 0, &[target(inboxes[1].address)]);
        assert_eq!([inboxes[0].fd, inboxes[1].fd, doorbell].map(shows), [false, true, false]);
        sys::inbox::drain(inboxes[1].fd);
        assert!(!shows(inboxes[1].fd));
        let stranger = sys::inbox::sender().unwrap();
        sys::inbox::wake(stranger, inboxes[1].address, [7, 8]);
        assert!(!shows(inboxes[1].fd), "a process that is not of the lane wakes nothing");
        // An unreachable thread is only known to sleep somewhere.
        waiters.wake(&waiting, doorbell, 0, &[target(0)]);
        assert!(shows(doorbell));
        sys::drain(doorbell);
        // An inbox that is full has been signalled.
        (0..100).for_each(|_| waiters.wake(&waiting, doorbell, 0, &[target(inboxes[0].address)]));
        assert!(shows(inboxes[0].fd) && !shows(doorbell));
        let gone = inboxes[0].address;
        [inboxes[0].fd, inboxes[1].fd, stranger].into_iter().for_each(sys::close);
        // Its thread has ended: another may have its address. (A child that another test has forked
        // keeps the inbox open for a moment.)
        while !shows(doorbell) {
            waiters.wake(&waiting, doorbell, 0, &[target(gone)]);
        }
        sys::close(doorbell);
        protect::release(waiters.sender.load(Relaxed));
    }
}
