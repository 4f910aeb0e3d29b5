//! The duty to poll a lane's rings: which thread has it, in all processes of the lane.
//!
//! Threads that poll or sleep on a lane share one duty, so that a packet wakes one thread and not
//! all. A thread *covers* the lane while it polls, or sleeps in the kernel's wait for the rings
//! themselves (the *watcher*). Of the other sleeping threads one *stands by*: it sleeps on a ring
//! of its own (on Linux `tickwire_lane_linux::standby_ring`), which wakes it when a packet arrives
//! while the lane is not covered. The lane's processes write in shared memory when that is so,
//! without a system call. So a thread that answers message after message keeps the duty, and any
//! number of idle ones beside it cost nothing.
//!
//! A thread that had the duty and was woken for others' packets sleeps again as the one that stands
//! by: the thread whose packets they are takes the duty when it sleeps next. A real-time thread is
//! covered only by a thread of its own priority or above.
//!
//! All of this is a hint: a wrong word costs time, and a helper thread checks the lane every 32 ms
//! at most.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The state of the duty. Threads are named by the numbers of their waiters, 0 for none.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct PollDuty {
    /// Processes with polling threads, a bit for each slot.
    polling: AtomicU64,
    /// Until when the thread with the duty sleeps at most, in nanoseconds.
    watches_until: AtomicU64,
    /// Priority of the real-time thread that began to poll last, 0 when it has ended.
    poll_priority: AtomicU32,
    /// Sleeping threads.
    asleep: AtomicU32,
    watcher: AtomicU32,
    watch_priority: AtomicU32,
    standby: AtomicU32,
    standby_priority: AtomicU32,
}

/// The role of a thread that falls asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sleeps in the kernel's wait for the rings.
    Watches,
    /// It sleeps on the standby ring.
    StandsBy,
    /// Nothing.
    Sleeps,
}

impl PollDuty {
    /// Sleeping threads of the lane.
    #[must_use]
    pub fn asleep(&self) -> u32 {
        self.asleep.load(SeqCst)
    }

    /// A thread of this priority begins to poll, in the process of this slot.
    pub fn poll_begins(&self, slot: usize, priority: u32) {
        self.polling.fetch_or(1 << (slot % 64), SeqCst);
        if priority > 0 {
            self.poll_priority.fetch_max(priority, SeqCst);
        }
    }

    /// A thread of this priority has ended polling. `last`: no other thread of the process polls.
    pub fn poll_ends(&self, slot: usize, priority: u32, last: bool) {
        if priority > 0 {
            // Another one may still poll: it counts as an ordinary thread from now on.
            self.poll_priority.store(0, SeqCst);
        }
        if last {
            self.polling.fetch_and(!(1 << (slot % 64)), SeqCst);
        }
    }

    /// Whether the lane is covered for a thread of this priority.
    #[must_use]
    pub fn covers(&self, priority: u32) -> bool {
        let polled = self.polling.load(SeqCst) != 0 && self.poll_priority.load(SeqCst) >= priority;
        polled || self.watcher.load(SeqCst) != 0 && self.watch_priority.load(SeqCst) >= priority
    }

    /// A thread falls asleep. `again`: it was woken without anything for it. `may_stand_by`: its
    /// process has the standby ring. The caller has the lane's lock.
    pub fn falls_asleep(&self, waiter: u32, priority: u32, again: bool, may_stand_by: bool) -> Role {
        // Before the cover is read: a thread that stops polling now sees this one, or is no longer
        // seen polling.
        let others = self.asleep.fetch_add(1, SeqCst);
        let covered = self.covers(priority);
        // There is no other thread to take the duty over.
        let again = again && others > 0;
        let stands_by = self.standby.load(SeqCst) != 0 && self.standby_priority.load(SeqCst) >= priority;
        if may_stand_by && !stands_by && (covered || again) {
            self.standby_priority.store(priority, SeqCst);
            self.standby.store(waiter, SeqCst);
            return Role::StandsBy;
        }
        if covered || again && stands_by {
            return Role::Sleeps;
        }
        self.watch_priority.store(priority, SeqCst);
        self.watches_until.store(u64::MAX, Relaxed);
        self.watcher.store(waiter, SeqCst);
        Role::Watches
    }

    /// It is awake. The caller has the lane's lock.
    pub fn awakes(&self, waiter: u32) {
        self.fewer_asleep(1);
        self.is_woken(waiter);
    }

    /// It is about to wake up, and may not return to its duty. The caller has the lane's lock.
    pub fn is_woken(&self, waiter: u32) {
        let _ = self.watcher.compare_exchange(waiter, 0, SeqCst, Relaxed);
        let _ = self.standby.compare_exchange(waiter, 0, SeqCst, Relaxed);
    }

    fn fewer_asleep(&self, count: u32) {
        let _ = self.asleep.fetch_update(SeqCst, Relaxed, |asleep| Some(asleep.saturating_sub(count)));
    }

    /// Whether threads sleep, but none polls or would be woken by packets: one must be woken for
    /// the duty, see [`PollDuty::appoint`].
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.asleep.load(SeqCst) > 0 && self.standby.load(SeqCst) == 0 && !self.covers(0)
    }

    /// The thread that stands by, 0 for none.
    #[must_use]
    pub fn standby(&self) -> u32 {
        self.standby.load(SeqCst)
    }

    /// Whether packets are to wake the thread that stands by.
    #[must_use]
    pub fn wakes_standby(&self) -> bool {
        self.standby.load(SeqCst) != 0
            && self.asleep.load(SeqCst) > 0
            && !self.covers(self.standby_priority.load(SeqCst))
    }

    /// This sleeping thread is woken for the duty. The caller has the lane's lock.
    pub fn appoint(&self, waiter: u32, priority: u32) {
        let _ = self.standby.compare_exchange(waiter, 0, SeqCst, Relaxed);
        self.watch_priority.store(priority, SeqCst);
        self.watches_until.store(0, Relaxed);
        self.watcher.store(waiter, SeqCst);
    }

    /// The threads that were to poll did not: presumably they are gone. Returns the watcher and the
    /// standby thread. The caller has the lane's lock.
    pub fn depose(&self) -> [u32; 2] {
        self.polling.store(0, SeqCst);
        self.poll_priority.store(0, SeqCst);
        [self.watcher.swap(0, SeqCst), self.standby.swap(0, SeqCst)]
    }

    /// A process is gone, with so many sleeping threads. `is_asleep` says whether a thread still
    /// is. The caller has the lane's lock.
    pub fn forget_process(&self, slot: usize, waiters: u32, is_asleep: impl Fn(u32) -> bool) {
        self.polling.fetch_and(!(1 << (slot % 64)), SeqCst);
        self.poll_priority.store(0, SeqCst);
        self.fewer_asleep(waiters);
        for duty in [&self.watcher, &self.standby] {
            let waiter = duty.load(SeqCst);
            if waiter != 0 && !is_asleep(waiter) {
                duty.store(0, SeqCst);
            }
        }
    }

    /// When a thread of this role must handle the stack's timers, of which the next is due at
    /// `deadline` (`u64::MAX` for never): not at all, if the thread with the duty does so in time.
    #[must_use]
    pub fn timer_of(&self, role: Role, deadline: u64) -> Option<u64> {
        if role == Role::Sleeps {
            return (deadline < self.watches_until.load(Relaxed)).then_some(deadline);
        }
        if role == Role::Watches {
            self.watches_until.store(deadline, Relaxed);
        }
        (deadline != u64::MAX).then_some(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duty() -> PollDuty {
        PollDuty::default()
    }

    #[test]
    fn the_first_thread_watches_the_second_stands_by_and_the_others_sleep() {
        let duty = duty();
        let roles = [1, 2, 3, 4].map(|waiter| duty.falls_asleep(waiter, 0, false, true));
        assert_eq!(roles, [Role::Watches, Role::StandsBy, Role::Sleeps, Role::Sleeps]);
        assert!(!duty.wakes_standby() && duty.asleep() == 4);
        duty.awakes(3);
        assert!(!duty.wakes_standby(), "it had no duty");
        duty.awakes(1);
        assert!(duty.wakes_standby() && !duty.is_abandoned());
        assert_eq!(duty.falls_asleep(1, 0, false, true), Role::Watches);
        assert!(!duty.wakes_standby());
    }

    #[test]
    fn a_packet_wakes_the_thread_that_stands_by_only_while_none_polls() {
        let duty = duty();
        duty.poll_begins(5, 0);
        assert_eq!(duty.falls_asleep(1, 0, false, true), Role::StandsBy);
        assert!(!duty.wakes_standby());
        for _ in 0..3 {
            duty.poll_ends(5, 0, true);
            assert!(duty.wakes_standby());
            duty.poll_begins(5, 0);
            assert!(!duty.wakes_standby());
        }
        duty.awakes(1);
        duty.poll_ends(5, 0, true);
        assert!(!duty.wakes_standby() && !duty.is_abandoned(), "no thread sleeps");
    }

    #[test]
    fn a_thread_woken_for_others_packets_hands_the_duty_over() {
        let duty = duty();
        assert_eq!(duty.falls_asleep(1, 0, false, true), Role::Watches);
        assert_eq!(duty.falls_asleep(2, 0, false, true), Role::StandsBy);
        // What the first takes in is for the second.
        duty.awakes(1);
        duty.is_woken(2);
        assert_eq!(duty.falls_asleep(1, 0, true, true), Role::StandsBy);
        assert!(duty.wakes_standby());
        duty.awakes(2);
        assert_eq!(duty.falls_asleep(2, 0, false, true), Role::Watches);
        assert!(!duty.wakes_standby());
    }

    #[test]
    fn a_thread_that_sleeps_alone_keeps_the_duty_whatever_it_was_woken_for() {
        let duty = duty();
        for again in [false, true, true] {
            assert_eq!(duty.falls_asleep(1, 0, again, true), Role::Watches);
            assert!(!duty.wakes_standby() && !duty.is_abandoned());
            duty.awakes(1);
        }
    }

    #[test]
    fn a_real_time_thread_takes_the_duty_over_from_an_ordinary_one_and_not_from_its_equal() {
        let duty = duty();
        duty.poll_begins(0, 0);
        assert_eq!(duty.falls_asleep(1, 10, false, true), Role::Watches, "an ordinary thread polls");
        assert_eq!(duty.falls_asleep(2, 0, false, true), Role::StandsBy);
        assert_eq!(duty.falls_asleep(3, 10, false, true), Role::StandsBy, "before an ordinary one");
        assert_eq!(duty.falls_asleep(4, 10, false, true), Role::Sleeps);
        assert_eq!(duty.falls_asleep(5, 20, false, true), Role::Watches, "above the one that watches");
        duty.awakes(5);
        assert!(duty.wakes_standby(), "the ordinary one polls, but not for 3");
        duty.poll_begins(0, 50);
        assert!(!duty.wakes_standby());
        duty.poll_ends(0, 50, false);
        assert!(duty.wakes_standby());
    }

    #[test]
    fn without_a_ring_to_stand_by_on_a_thread_is_woken_for_the_duty() {
        let duty = duty();
        assert_eq!(duty.falls_asleep(1, 0, false, false), Role::Watches);
        assert_eq!(duty.falls_asleep(2, 0, false, false), Role::Sleeps);
        duty.awakes(1);
        assert!(duty.is_abandoned() && !duty.wakes_standby());
        duty.appoint(2, 0);
        assert!(!duty.is_abandoned(), "it is on its way");
        duty.awakes(2);
        assert_eq!(duty.falls_asleep(2, 0, true, false), Role::Watches);
    }

    #[test]
    fn what_is_gone_has_no_duty() {
        let duty = duty();
        duty.poll_begins(3, 40);
        assert_eq!(duty.falls_asleep(1, 50, false, true), Role::Watches);
        assert_eq!(duty.falls_asleep(2, 0, false, true), Role::StandsBy);
        duty.forget_process(3, 1, |waiter| waiter != 1);
        assert!(!duty.covers(0) && duty.asleep() == 1 && duty.wakes_standby());
        assert_eq!(duty.depose(), [0, 2]);
        assert!(duty.is_abandoned());
        duty.forget_process(4, 9, |_| false);
        assert!(duty.asleep() == 0 && !duty.is_abandoned());
    }

    #[test]
    fn timers_are_of_the_thread_with_the_duty_unless_it_would_be_late() {
        let duty = duty();
        assert_eq!(duty.timer_of(Role::Watches, 20), Some(20));
        assert_eq!([10, 20, u64::MAX].map(|at| duty.timer_of(Role::Sleeps, at)), [Some(10), None, None]);
        assert_eq!([30, u64::MAX].map(|at| duty.timer_of(Role::StandsBy, at)), [Some(30), None]);
        duty.appoint(2, 0);
        assert_eq!(duty.timer_of(Role::Sleeps, 10), None, "the one that has been woken will look");
    }
}
