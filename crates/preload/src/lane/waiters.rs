//! The threads that sleep on the lane: which of them polls for the others ([`PollDuty`]), and how
//! each is woken.
//!
//! A sleeping thread is known to the whole lane by its waiter in the stack
//! (`tickwire_stack::WaiterId`). The thread that takes in something for it wakes it alone: by its
//! wakeup descriptor, if it is of the same process; by a datagram to its inbox (`sys::inbox`), if
//! it is of another. Where neither can be, the doorbell wakes all threads of the lane.

use crate::c::sys::{self, NO_FD, readable};
use crate::table::protect;
use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU32};
use libc::pollfd;
use std::cell::Cell;
use tickwire_link::duty::{PollDuty, Role, Step};
use tickwire_link::layout::Waiting;
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{SocketId, Stack, WaiterId, WakeTarget, Wakeups};

/// For how long a thread's priority is taken for granted: the program may change it.
const PRIORITY_FOR: Span = Span::from_millis(5);

thread_local! {
    /// The calling thread's priority, and until when it is taken for granted.
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
    /// `None`: too many threads sleep, and this one has to look by itself.
    waiter: Option<WaiterId>,
    role: Role,
}

impl Asleep {
    /// Whether it sleeps in the kernel's wait for the rings.
    pub(crate) fn watches(&self) -> bool {
        self.role == Role::Watches
    }

    /// Whether it sleeps on the instance that stands by.
    pub(crate) fn stands_by(&self) -> bool {
        self.role == Role::StandsBy
    }

    /// Whether something wakes it.
    pub(crate) fn is_known(&self) -> bool {
        self.waiter.is_some()
    }
}

/// What this process has of it.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// An epoll instance that contains the ring and the TAP device, for the thread that stands by; -1 if there is
    /// none. Forked children share it. It shows what its members show, so wake frames must have been taken off before it is armed.
    standby: c_int,
    ring: c_int,
    /// The TAP device, whose frames wake.
    tap: c_int,
    /// Which processes share the instance, 0 if there is none.
    family: u32,
    /// Polling threads of this process.
    pollers: AtomicU32,
    /// The socket by which threads of other processes are woken, -1 before it is needed.
    sender: AtomicI32,
}

impl Waiters {
    /// Of a process whose ring and TAP device have these descriptors.
    pub(crate) fn new([ring, tap]: [c_int; 2], duty: &PollDuty) -> Self {
        let standby = if ring >= 0 { standby(ring, tap) } else { None };
        let family = standby.map_or(0, |_| duty.new_family());
        Self {
            standby: standby.unwrap_or(-1),
            ring,
            tap,
            family,
            pollers: AtomicU32::new(0),
            sender: AtomicI32::new(-1),
        }
    }

    /// What a thread of this role watches in its sleep.
    pub(crate) fn watched(&self, asleep: Asleep) -> [pollfd; 2] {
        match asleep.role {
            Role::Watches => self.rings(),
            Role::StandsBy => [NO_FD, readable(self.standby)],
            Role::Sleeps => [NO_FD; 2],
        }
    }

    /// What a thread watches that is to hear of every packet. In this order: the kernel looks at the ring when it is
    /// about to wake the thread for frames already.
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
        let role = waiter
            .map_or(Role::Sleeps, |waiter| duty.falls_asleep(waiter.number(), target.priority, again, self.family));
        Asleep { waiter, role }
    }

    /// The thread is awake. It has the lock.
    pub(crate) fn awakes(&self, duty: &PollDuty, stack: &mut Stack<'_>, slot: usize, asleep: Asleep) {
        if let Some(waiter) = asleep.waiter {
            duty.awakes(waiter.number());
            stack.awake(waiter, slot as u32);
        }
    }

    /// When the thread is to look at the stack's timers, of which the next is due at `deadline`.
    pub(crate) fn timer_of(duty: &PollDuty, asleep: Asleep, deadline: Option<Instant>) -> Option<Instant> {
        duty.timer_of(asleep.role, deadline.map_or(u64::MAX, Instant::as_nanos)).map(Instant::from_nanos)
    }

    /// The calling thread polls, until [`Waiters::poll_ends`].
    pub(crate) fn poll_begins(&self, duty: &PollDuty, slot: usize, priority: u32) {
        self.pollers.fetch_add(1, SeqCst);
        duty.poll_begins(slot, priority);
    }

    /// It does not any more.
    pub(crate) fn poll_ends(&self, duty: &PollDuty, slot: usize, priority: u32) {
        let before = self.pollers.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).unwrap_or(0);
        duty.poll_ends(slot, priority, before <= 1);
        if before <= 1 && self.pollers.load(SeqCst) > 0 {
            // One has begun meanwhile.
            duty.poll_begins(slot, 0);
        }
    }

    /// Arms or disarms the instance that stands by, and the ring in it by `arm`. True if instead a thread is to be woken for the
    /// duty: [`Waiters::appoint`], with the lock.
    pub(crate) fn settle(&self, duty: &PollDuty, arm: impl Fn(bool)) -> bool {
        loop {
            match duty.step(self.family) {
                Step::None => return false,
                Step::Appoint => return true,
                Step::Switch(word) => {
                    if duty.switch(word) {
                        self.set_standby(duty, &arm);
                    }
                }
            }
        }
    }

    /// Another thread may switch meanwhile, and its system call come before this one's.
    fn set_standby(&self, duty: &PollDuty, arm: &impl Fn(bool)) {
        loop {
            let (armed, word) = duty.is_armed();
            let events = if armed { libc::EPOLLIN as u32 } else { 0 };
            // While it is not armed, the ring shows what has been read already.
            if armed {
                arm(true);
            }
            let _ = sys::epoll_ctl(self.standby, libc::EPOLL_CTL_MOD, self.tap, events, 0);
            let _ = sys::epoll_ctl(self.standby, libc::EPOLL_CTL_MOD, self.ring, events, 0);
            if !armed {
                arm(false);
            }
            if duty.is_armed().1 == word {
                return;
            }
        }
    }

    /// The sleeping thread that is to be woken for the duty, if that is still needed. The calling
    /// thread has the lock.
    pub(crate) fn appoint(&self, duty: &PollDuty, stack: &Stack<'_>) -> Option<WakeTarget> {
        if duty.step(self.family) != Step::Appoint {
            return None;
        }
        // One that stands by where this process cannot arm its instance, or else the first.
        let standby = WaiterId::of_number(duty.standby()).and_then(|id| Some((id, stack.waiter(id)?)));
        let (waiter, target) = standby.filter(|(_, target)| target.descriptor >= 0).or_else(|| stack.first_waiter())?;
        duty.appoint(waiter.number(), target.priority);
        Some(target)
    }

    /// Those with the duty did not poll. The calling thread has the lock.
    pub(crate) fn depose(duty: &PollDuty, stack: &mut Stack<'_>) {
        duty.depose().into_iter().filter_map(WaiterId::of_number).for_each(|waiter| stack.pass_over(waiter));
    }

    /// A forked child has none of its parent's other threads.
    pub(crate) fn forget_threads(&self) {
        self.pollers.store(0, SeqCst);
    }

    /// Threads that are woken are not to be counted on for the duty. The calling thread has the
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

/// An epoll instance that contains the rings, with no interest in them yet.
fn standby(ring: c_int, tap: c_int) -> Option<c_int> {
    let fd = protect::keep(sys::epoll_create(libc::EPOLL_CLOEXEC).ok()?).ok()?;
    // A ring may come without a device only in tests.
    let added = [ring, tap]
        .into_iter()
        .filter(|&fd| fd >= 0)
        .try_for_each(|one| sys::epoll_ctl(fd, libc::EPOLL_CTL_ADD, one, 0, 0));
    if added.is_err() {
        protect::release(fd);
        return None;
    }
    Some(fd)
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
    fn a_packet_shows_at_the_instance_that_stands_by_only_while_it_is_armed() {
        // An eventfd in the rings' place.
        let ring = protect::keep(sys::eventfd().unwrap()).unwrap();
        let duty = PollDuty::default();
        let waiters = Waiters::new([ring, -1], &duty);
        waiters.poll_begins(&duty, 0, 0);
        assert_eq!(duty.falls_asleep(1, 0, false, waiters.family), Role::StandsBy);
        sys::ring(ring);
        assert!(!waiters.settle(&duty, |_| ()) && !shows(waiters.standby), "a thread polls");
        waiters.poll_ends(&duty, 0, 0);
        assert!(!waiters.settle(&duty, |_| ()) && shows(waiters.standby), "what came before shows, too");
        sys::drain(ring);
        assert!(!shows(waiters.standby));
        waiters.poll_begins(&duty, 0, 0);
        assert!(!waiters.settle(&duty, |_| ()));
        sys::ring(ring);
        assert!(!shows(waiters.standby));
        [waiters.standby, ring].into_iter().for_each(protect::release);
    }

    #[test]
    fn one_thread_polls_on_when_another_of_its_process_ends() {
        let duty = PollDuty::default();
        let waiters = Waiters::new([-1; 2], &duty);
        assert_eq!((waiters.standby, waiters.family), (-1, 0));
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
    fn a_thread_of_another_process_is_woken_alone_and_by_the_lanes_own_secret_only() {
        let waiting = Waiting::default();
        let secret = [7, 9];
        (0..2).for_each(|word| waiting.wake_secret[word].store(secret[word], Relaxed));
        let inboxes = [(); 2].map(|()| sys::inbox::open(secret).unwrap());
        let doorbell = sys::eventfd().unwrap();
        let waiters = Waiters::new([-1; 2], &waiting.duty);
        let target = |address| WakeTarget { process: 1, descriptor: 5, address, ..WakeTarget::default() };
        waiters.wake(&waiting, doorbell, 0, &[target(inboxes[1].address)]);
        assert_eq!([inboxes[0].fd, inboxes[1].fd, doorbell].map(shows), [false, true, false]);
        sys::inbox::drain(inboxes[1].fd);
        assert!(!shows(inboxes[1].fd));
        let stranger = sys::inbox::sender().unwrap();
        sys::inbox::wake(stranger, inboxes[1].address, [7, 8]);
        assert!(!shows(inboxes[1].fd), "a process that is not of the lane wakes nothing");
        // Of one that cannot be reached nothing is known but that it sleeps somewhere.
        waiters.wake(&waiting, doorbell, 0, &[target(0)]);
        assert!(shows(doorbell));
        sys::drain(doorbell);
        // An inbox that is full has been rung.
        (0..100).for_each(|_| waiters.wake(&waiting, doorbell, 0, &[target(inboxes[0].address)]));
        assert!(shows(inboxes[0].fd) && !shows(doorbell));
        let gone = inboxes[0].address;
        [inboxes[0].fd, inboxes[1].fd, stranger].into_iter().for_each(sys::close);
        waiters.wake(&waiting, doorbell, 0, &[target(gone)]);
        assert!(shows(doorbell), "its thread has ended: another may have its place");
        sys::close(doorbell);
        protect::release(waiters.sender.load(Relaxed));
    }
}
