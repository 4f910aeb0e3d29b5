//! Packets in and out, and waiting.
//!
//! A thread that waits first polls: it takes packets in itself, and no other thread is woken for
//! them. Then it sleeps until something has changed. While none polls, the ring is armed and the
//! helper thread takes packets in.

use super::{Core, Lane};
use crate::spin;
use std::os::windows::io::BorrowedHandle;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant as SystemTime};
use tickwire_lane::control::{Claim, ClaimKind, Reason};
use tickwire_lane_windows::clock;
use tickwire_stack::Stack;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::path::{PathState, Query};
use tickwire_stack::time::Instant;

/// A sleeping thread looks again at least so often: a change that it has missed costs no more.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A polling thread looks at the ring so often before it looks at the clock.
const LOOKS: u32 = 16;

/// The stack, for a call.
pub(crate) struct Access<'c> {
    /// The stack.
    pub(crate) stack: &'c mut Stack<'static>,
    /// The time.
    pub(crate) now: Instant,
}

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited<T> {
    /// What was waited for.
    Done(T),
    /// The time was over.
    TimedOut,
    /// The lane is lost.
    Lost,
}

impl Lane {
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes packets in, has timeouts processed, does something, and sends what there is to send.
    pub(crate) fn enter<T>(&self, call: impl FnOnce(&mut Access<'_>) -> T) -> T {
        self.enter_core(&mut self.lock(), call)
    }

    fn enter_core<T>(&self, core: &mut Core, call: impl FnOnce(&mut Access<'_>) -> T) -> T {
        let now = self.receive(core);
        let result = call(&mut Access { stack: &mut core.stack, now });
        self.send(core);
        result
    }

    /// Takes in what has arrived, and has timeouts processed that are due. Returns the time.
    pub(super) fn receive(&self, core: &mut Core) -> Instant {
        let now = clock::now();
        let count = core.port.poll(&mut core.stack, now);
        let is_due = core.stack.deadline().is_some_and(|at| at <= now);
        if is_due {
            core.stack.on_time(now);
        }
        if count > 0 {
            self.last_packet.store(now.as_nanos(), Relaxed);
            // What has been read has woken those that slept on the ring. It wakes none until it is
            // armed again.
            if std::mem::take(&mut core.is_armed) {
                core.port.disarm();
            }
        }
        if count > 0 || is_due {
            self.change(core);
        }
        now
    }

    /// Something has happened that threads may wait for.
    fn change(&self, core: &mut Core) {
        core.generation = core.generation.wrapping_add(1);
        if core.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    /// Has all waiting threads look again: a socket has been closed, for instance.
    pub(crate) fn wake_all(&self) {
        self.change(&mut self.lock());
    }

    pub(super) fn send(&self, core: &mut Core) {
        self.control.ask_for_paths(&mut core.stack);
        // What finds no room is sent by the next call, or by the helper thread. Threads that wait
        // for room look again then.
        let is_all = core.port.send(&mut core.stack);
        if !std::mem::replace(&mut core.is_all_sent, is_all) && is_all {
            self.change(core);
        }
        self.collect(core);
    }

    /// Waits until a call has a result: polling, then asleep, until a time if one is given.
    pub(crate) fn wait<T>(
        &self,
        until: Option<SystemTime>,
        mut call: impl FnMut(&mut Access<'_>) -> Option<T>,
    ) -> Waited<T> {
        let mut polls_until = None;
        loop {
            let seen = {
                let mut core = self.lock();
                if let Some(result) = self.enter_core(&mut core, &mut call) {
                    self.leave(&mut core);
                    return Waited::Done(result);
                }
                core.generation
            };
            self.deliver();
            let now = SystemTime::now();
            let is_over = until.is_some_and(|until| now >= until);
            if self.is_lost() || is_over {
                self.leave(&mut self.lock());
                return if is_over { Waited::TimedOut } else { Waited::Lost };
            }
            let polls_until = *polls_until.get_or_insert_with(|| self.polls_until(now));
            if now < polls_until {
                let until = until.map_or(polls_until, |until| until.min(polls_until));
                self.poll(until.min(now + spin::SLICE));
            } else {
                self.sleep(seen, until.map(|until| until.saturating_duration_since(now)));
            }
        }
    }

    /// Until when a thread polls that begins to wait now: if there were packets lately, usually.
    fn polls_until(&self, now: SystemTime) -> SystemTime {
        let since = clock::now().as_nanos().saturating_sub(self.last_packet.load(Relaxed));
        now + spin::budget(Duration::from_nanos(since) < spin::LATELY)
    }

    /// Polls the ring without the lock, until there is something or the time is over. Not for long:
    /// what other threads do is not seen meanwhile.
    fn poll(&self, until: SystemTime) {
        {
            let mut core = self.lock();
            if std::mem::take(&mut core.is_armed) {
                core.port.disarm();
            }
        }
        // Some looks at the ring for one at the clock, which costs more.
        while (0..LOOKS).all(|_| self.is_quiet()) && SystemTime::now() < until {}
    }

    /// Whether the ring is empty.
    fn is_quiet(&self) -> bool {
        std::hint::spin_loop();
        self.ring.is_empty()
    }

    /// A thread is about to wait in the kernel for what this library tells it, for instance at a
    /// completion port. What has arrived is taken in and delivered. If the thread `waits`, it polls
    /// first: until `told` changes, or the time is over. One thread does so at a time.
    pub(crate) fn poll_for_events(&self, waits: bool, told: impl Fn() -> u64) {
        let seen = told();
        if !self.ring.is_empty() {
            self.enter(|_| ());
        }
        self.deliver();
        let now = SystemTime::now();
        // Not for longer: the kernel has completions, too.
        let until = self.polls_until(now).min(now + spin::SLICE);
        let (true, Ok(_polling)) = (waits && now < until, self.polling.try_lock()) else { return };
        while told() == seen && SystemTime::now() < until {
            self.poll(until);
            self.enter(|_| ());
            self.deliver();
        }
        // From now on a packet is to wake the helper thread.
        {
            let mut core = self.lock();
            self.arm(&mut core);
            self.send(&mut core);
        }
        self.deliver();
    }

    /// The thread polls no more. If others sleep, packets are to wake the helper thread again.
    fn leave(&self, core: &mut Core) {
        if core.sleepers > 0 {
            self.arm(core);
        }
    }

    /// Has the next packet wake the helper thread. What has come before is taken in.
    pub(super) fn arm(&self, core: &mut Core) {
        while !core.is_armed {
            core.is_armed = core.port.arm();
            if !core.is_armed {
                self.receive(core);
            }
        }
    }

    /// Sleeps until something has changed since `seen`, or for so long.
    fn sleep(&self, seen: u64, time: Option<Duration>) {
        let mut core = self.lock();
        self.arm(&mut core);
        if core.generation != seen {
            return;
        }
        core.sleepers += 1;
        let time = time.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
        let (mut core, _) = self.changed.wait_timeout(core, time).unwrap_or_else(PoisonError::into_inner);
        core.sleepers -= 1;
    }

    /// The service, or the lane, is gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// Claims what a socket justifies.
    pub(crate) fn claim(
        &self,
        kind: ClaimKind,
        remote: Endpoint,
        socket: BorrowedHandle<'_>,
    ) -> Result<(Claim, Endpoint), Reason> {
        self.control.claim(kind, remote, socket)
    }

    /// Releases a claim.
    pub(crate) fn release(&self, claim: Claim) {
        self.control.release(claim);
    }

    /// Finds the path to a destination and enters it. Returns the address by which the host
    /// reaches it.
    pub(crate) fn resolve(&self, query: Query) -> Result<Endpoint, Reason> {
        let (path, reason) = self.control.resolve(query)?;
        if reason != Reason::None || path.state == PathState::Kernel {
            return Err(reason);
        }
        self.enter(|access| access.stack.path_set(path, access.now));
        Ok(Endpoint::new(path.source, 0))
    }
}
