//! The duty to poll a lane's rings: which thread has it, in all processes of the lane.
//!
//! Threads that poll or sleep on a lane share one duty, so that a packet wakes one thread and not
//! all. A thread *covers* the lane while it polls, or sleeps in the kernel's wait for the rings
//! themselves (the *watcher*). Of the other sleeping threads one *stands by*: it sleeps on an epoll
//! instance that contains the rings, and whose interest in them is off while the lane is covered.
//! When the lane is covered no more, one system call *arms* the instance; when it is covered again,
//! one *disarms* it. Neither wakes a thread. So a thread that answers message after message keeps
//! the duty, and any number of idle ones beside it cost nothing.
//!
//! A thread that had the duty and was woken for others' packets sleeps on as the one that stands
//! by: the thread whose packets they are takes the duty when it sleeps next. A real-time thread is
//! covered by a thread of its own priority or above only.
//!
//! All of this is advice: a wrong word costs time, and a helper thread looks after the lane every
//! 32 ms at most.

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
    /// Whose epoll instance it sleeps on: several processes may share one.
    standby_family: AtomicU32,
    /// How often the instance was armed or disarmed: odd while it is armed.
    switches: AtomicU32,
    families: AtomicU32,
}

/// What a thread that falls asleep has to do for the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sleeps in the kernel's wait for the rings.
    Watches,
    /// It sleeps on the epoll instance that contains the rings.
    StandsBy,
    /// Nothing.
    Sleeps,
}

/// What is to be done so that the lane is covered, or not covered twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    None,
    /// The standby instance is to be armed, or disarmed: [`PollDuty::switch`] with this word.
    Switch(u32),
    /// A sleeping thread is to be woken for the duty, see [`PollDuty::appoint`].
    Appoint,
}

impl PollDuty {
    /// A name for an epoll instance to stand by on; never 0.
    pub fn new_family(&self) -> u32 {
        self.families.fetch_add(1, Relaxed).wrapping_add(1).max(1)
    }

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

    /// A thread falls asleep. `again`: it was woken without anything for it. `family` is that of
    /// its process's standby instance, 0 if there is none. The caller has the lane's lock.
    pub fn falls_asleep(&self, waiter: u32, priority: u32, again: bool, family: u32) -> Role {
        // Before the cover is looked at: a thread that stops polling now sees it, or is not seen
        // polling any more.
        let others = self.asleep.fetch_add(1, SeqCst);
        let covered = self.covers(priority);
        // There is no other to take the duty over.
        let again = again && others > 0;
        let standby = self.standby.load(SeqCst);
        let stands_by = standby != 0 && self.standby_priority.load(SeqCst) >= priority;
        if family != 0 && !stands_by && (covered || again) {
            if self.standby_family.swap(family, SeqCst) != family && self.switches.load(SeqCst) & 1 != 0 {
                // The other instance may stay armed: no thread sleeps on it.
                self.switches.fetch_add(1, SeqCst);
            }
            self.standby_priority.store(priority, SeqCst);
            self.standby.store(waiter, SeqCst);
            return Role::StandsBy;
        }
        if covered || again && stands_by && self.standby_family.load(SeqCst) == family {
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

    /// It is about to wake up, and may not come back to its duty. The caller has the lane's lock.
    pub fn is_woken(&self, waiter: u32) {
        let _ = self.watcher.compare_exchange(waiter, 0, SeqCst, Relaxed);
        let _ = self.standby.compare_exchange(waiter, 0, SeqCst, Relaxed);
    }

    fn fewer_asleep(&self, count: u32) {
        let _ = self.asleep.fetch_update(SeqCst, Relaxed, |asleep| Some(asleep.saturating_sub(count)));
    }

    /// What is to be done, by a process whose standby instance is of this family.
    #[must_use]
    pub fn step(&self, family: u32) -> Step {
        let switches = self.switches.load(SeqCst);
        let armed = switches & 1 != 0;
        let asleep = self.asleep.load(SeqCst);
        if asleep == 0 && !armed {
            return Step::None;
        }
        if self.standby.load(SeqCst) == 0 {
            return if asleep > 0 && !self.covers(0) { Step::Appoint } else { Step::None };
        }
        let wanted = asleep > 0 && !self.covers(self.standby_priority.load(SeqCst));
        if wanted == armed {
            return Step::None;
        }
        if self.standby_family.load(SeqCst) == family {
            Step::Switch(switches)
        } else if wanted {
            Step::Appoint
        } else {
            Step::None
        }
    }

    /// Takes a [`Step::Switch`]. The caller then sets the instance to what [`PollDuty::is_armed`]
    /// says, until that did not change meanwhile. False if another thread was first.
    pub fn switch(&self, word: u32) -> bool {
        self.switches.compare_exchange(word, word.wrapping_add(1), SeqCst, Relaxed).is_ok()
    }

    /// Whether the instance is to be armed, and a word that changes with every switch.
    #[must_use]
    pub fn is_armed(&self) -> (bool, u32) {
        let word = self.switches.load(SeqCst);
        (word & 1 != 0, word)
    }

    /// The thread that stands by where this process cannot arm its instance: it is to be appointed.
    #[must_use]
    pub fn standby(&self) -> u32 {
        self.standby.load(SeqCst)
    }

    /// This sleeping thread is woken for the duty. The caller has the lane's lock.
    pub fn appoint(&self, waiter: u32, priority: u32) {
        let _ = self.standby.compare_exchange(waiter, 0, SeqCst, Relaxed);
        self.watch_priority.store(priority, SeqCst);
        self.watches_until.store(0, Relaxed);
        self.watcher.store(waiter, SeqCst);
    }

    /// The threads that were to poll did not: they are gone, it seems. Says which of them sleep.
    /// The caller has the lane's lock.
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

    /// When a thread of this role is to look at the stack's timers, of which the next is due at
    /// `deadline` (`u64::MAX` for never): not at all, if the one that has the duty does in time.
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

    const FAMILY: u32 = 1;

    fn duty() -> PollDuty {
        PollDuty::default()
    }

    /// Takes the step and says what it was.
    fn settle(duty: &PollDuty) -> Step {
        let step = duty.step(FAMILY);
        if let Step::Switch(word) = step {
            assert!(duty.switch(word) && !duty.switch(word));
            assert_eq!(duty.step(FAMILY), Step::None);
        }
        step
    }

    fn armed(duty: &PollDuty) -> bool {
        duty.is_armed().0
    }

    #[test]
    fn the_first_thread_watches_the_second_stands_by_and_the_others_sleep() {
        let duty = duty();
        let roles = [1, 2, 3, 4].map(|waiter| duty.falls_asleep(waiter, 0, false, FAMILY));
        assert_eq!(roles, [Role::Watches, Role::StandsBy, Role::Sleeps, Role::Sleeps]);
        assert_eq!((settle(&duty), duty.asleep()), (Step::None, 4));
        duty.awakes(3);
        assert_eq!(settle(&duty), Step::None, "it had no duty");
        duty.awakes(1);
        assert!(matches!(settle(&duty), Step::Switch(_)) && armed(&duty), "and no thread is woken");
        assert_eq!(duty.falls_asleep(1, 0, false, FAMILY), Role::Watches);
        assert!(matches!(settle(&duty), Step::Switch(_)) && !armed(&duty));
    }

    #[test]
    fn a_polling_thread_disarms_and_its_end_arms() {
        let duty = duty();
        duty.poll_begins(5, 0);
        assert_eq!(duty.falls_asleep(1, 0, false, FAMILY), Role::StandsBy);
        assert_eq!(settle(&duty), Step::None);
        for _ in 0..3 {
            duty.poll_ends(5, 0, true);
            assert!(matches!(settle(&duty), Step::Switch(_)) && armed(&duty));
            duty.poll_begins(5, 0);
            assert!(matches!(settle(&duty), Step::Switch(_)) && !armed(&duty));
        }
        duty.awakes(1);
        duty.poll_ends(5, 0, true);
        assert_eq!(settle(&duty), Step::None, "no thread sleeps");
    }

    #[test]
    fn a_thread_woken_for_others_packets_hands_the_duty_over() {
        let duty = duty();
        assert_eq!(duty.falls_asleep(1, 0, false, FAMILY), Role::Watches);
        assert_eq!(duty.falls_asleep(2, 0, false, FAMILY), Role::StandsBy);
        // What the first takes in is for the second.
        duty.awakes(1);
        duty.is_woken(2);
        assert_eq!(duty.falls_asleep(1, 0, true, FAMILY), Role::StandsBy);
        assert!(matches!(settle(&duty), Step::Switch(_)));
        duty.awakes(2);
        assert_eq!(settle(&duty), Step::None);
        assert_eq!(duty.falls_asleep(2, 0, false, FAMILY), Role::Watches);
        assert!(matches!(settle(&duty), Step::Switch(_)) && !armed(&duty));
    }

    #[test]
    fn a_thread_that_sleeps_alone_keeps_the_duty_whatever_it_was_woken_for() {
        let duty = duty();
        for again in [false, true, true] {
            assert_eq!(duty.falls_asleep(1, 0, again, FAMILY), Role::Watches);
            assert_eq!(settle(&duty), Step::None);
            duty.awakes(1);
        }
    }

    #[test]
    fn a_real_time_thread_takes_the_duty_over_from_an_ordinary_one_and_not_from_its_equal() {
        let duty = duty();
        duty.poll_begins(0, 0);
        assert_eq!(duty.falls_asleep(1, 10, false, FAMILY), Role::Watches, "an ordinary thread polls");
        assert_eq!(duty.falls_asleep(2, 0, false, FAMILY), Role::StandsBy);
        assert_eq!(duty.falls_asleep(3, 10, false, FAMILY), Role::StandsBy, "before an ordinary one");
        assert_eq!(duty.falls_asleep(4, 10, false, FAMILY), Role::Sleeps);
        assert_eq!(duty.falls_asleep(5, 20, false, FAMILY), Role::Watches, "above the one that watches");
        duty.awakes(5);
        assert!(matches!(settle(&duty), Step::Switch(_)) && armed(&duty), "the ordinary one polls, but not for 3");
        duty.poll_begins(0, 50);
        assert!(matches!(settle(&duty), Step::Switch(_)) && !armed(&duty));
        duty.poll_ends(0, 50, false);
        assert!(matches!(settle(&duty), Step::Switch(_)) && armed(&duty));
    }

    #[test]
    fn without_an_instance_to_stand_by_on_a_thread_is_woken_for_the_duty() {
        let duty = duty();
        assert_eq!(duty.falls_asleep(1, 0, false, 0), Role::Watches);
        assert_eq!(duty.falls_asleep(2, 0, false, 0), Role::Sleeps);
        duty.awakes(1);
        assert_eq!(duty.step(0), Step::Appoint);
        duty.appoint(2, 0);
        assert_eq!(duty.step(0), Step::None, "it is on its way");
        duty.awakes(2);
        assert_eq!(duty.falls_asleep(2, 0, true, 0), Role::Watches);
    }

    #[test]
    fn what_stands_by_on_anothers_instance_is_woken_for_the_duty() {
        let duty = duty();
        assert_eq!(duty.falls_asleep(1, 0, false, FAMILY), Role::Watches);
        assert_eq!(duty.falls_asleep(2, 0, false, FAMILY), Role::StandsBy);
        assert_eq!(duty.falls_asleep(4, 0, false, FAMILY), Role::Sleeps);
        duty.awakes(1);
        assert_eq!((duty.step(FAMILY + 1), duty.standby()), (Step::Appoint, 2));
        duty.appoint(2, 0);
        assert_eq!((duty.step(FAMILY + 1), duty.standby()), (Step::None, 0));
        // Its own process arms.
        duty.awakes(2);
        assert_eq!(duty.falls_asleep(2, 0, true, FAMILY), Role::StandsBy);
        assert!(matches!(settle(&duty), Step::Switch(_)) && armed(&duty));
        // Another family's thread takes over: its instance is not armed yet.
        assert_eq!(duty.falls_asleep(3, 1, true, FAMILY + 1), Role::StandsBy);
        assert!(!armed(&duty) && matches!(duty.step(FAMILY + 1), Step::Switch(_)));
    }

    #[test]
    fn what_is_gone_has_no_duty() {
        let duty = duty();
        duty.poll_begins(3, 40);
        assert_eq!(duty.falls_asleep(1, 50, false, FAMILY), Role::Watches);
        assert_eq!(duty.falls_asleep(2, 0, false, FAMILY), Role::StandsBy);
        duty.forget_process(3, 1, |waiter| waiter != 1);
        assert!(!duty.covers(0) && duty.asleep() == 1 && duty.standby() == 2);
        assert_eq!(duty.depose(), [0, 2]);
        assert_eq!(duty.step(FAMILY), Step::Appoint);
        duty.forget_process(4, 9, |_| false);
        assert_eq!((duty.asleep(), duty.step(FAMILY)), (0, Step::None));
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
