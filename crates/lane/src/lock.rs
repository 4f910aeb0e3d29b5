//! The lock of a lane: shared by its processes, and robust against the death of its holder.
//!
//! A mutex of the operating system ([`crate::mutex`]), and words beside it. When its holder dies in
//! the midst of a change ([`LaneGuard::begin`]), the state cannot be repaired. The lock stays
//! closed for good, and every thread that takes it gets the error that the lane is lost
//! ([`LockError::Lost`]). The program then starts afresh with a new lane. Taking the lock twice in
//! one thread (a signal handler that interrupts a holder) is an error instead of a deadlock.
//!
//! It is held for about a microsecond at a time: threads send when they have released it. So a
//! thread that finds it taken spins for some microseconds, and then sleeps until it is released, to
//! try again. A woken waiter does not own the lock. If it did, the lock would stand still until
//! that thread has a processor, others would queue meanwhile, and from then on each hold would cost
//! a context switch (a lock convoy: of 16 threads on two processors it took two thirds of the
//! rate). A thread that waits too long goes to the kernel, which hands the lock over to it.
//!
//! Only one thread spins at a time, and only one sleeper is woken before it runs: more would keep
//! the processors from the holder.
//!
//! While a real-time thread waits, the holder runs at its priority. After its first tries a
//! real-time thread neither spins, because on the holder's processor it would spin against the
//! holder, nor competes: it goes to the kernel, which boosts the holder and hands the lock over
//! directly.

use crate::mutex::{Attempt, WaitableMutex};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
use std::time::{Duration, Instant};

/// How often any thread tries first: about a microsecond.
const TRIES: u32 = 32;

/// For how long a waiter spins before it sleeps: longer than nearly all holds.
const SPIN: Duration = Duration::from_micros(10);

/// After so many futile sleeps a waiter goes to the kernel, which hands the lock over.
const MOST_SLEEPS: u32 = 8;

/// After so many wakeups that woke nothing the waiters are no longer counted: presumably some were
/// killed. A live one counts itself again after its nap.
const MOST_VAIN_WAKEUPS: u32 = 200;

/// For how long a waiter sleeps before it tries again by itself. A woken waiter may be killed
/// before it runs (exec and exit kill threads anywhere), and so may one that spins, and the holder:
/// no other thread would be woken then.
const NAP: Duration = Duration::from_millis(10);

/// The lock as it lies in the region.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RawLock<M> {
    /// The mutex that is the lock.
    pub mutex: M,
    /// What its waiters and its holder share.
    pub state: LockState,
}

/// What the waiters for a lock and its holder share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct LockState {
    /// Not 0 while a waiter spins. A hint, as all that waiters write: one that is killed does not
    /// reset it.
    spinning: AtomicU32,
    /// How many sleep until it is released.
    waiters: AtomicU32,
    /// Not 0 while one of them has been woken and has not run yet.
    woken: AtomicU32,
    /// The word on which they sleep. Wraps.
    releases: AtomicU32,
    /// Consecutive wakeups that woke nothing.
    vain: AtomicU32,
    /// Not 0 after a holder died inside. (A mutex could record this itself, by not being made
    /// consistent, but glibc's `trylock` then leaves it locked.)
    lost: AtomicU32,
    /// Not 0 while the holder changes what the lock protects. One that dies before or after leaves
    /// everything in order.
    changing: AtomicU32,
}

impl LockState {
    /// How many threads sleep until the lock is released.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.waiters.load(Relaxed)
    }
}

/// Why the lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// This thread holds it already: a signal handler interrupted it inside.
    #[error("the lane is in use by this very thread")]
    Recursive,
    /// A holder died inside: the lane is lost, for all its processes.
    #[error("a process died inside the lane: its state is lost")]
    Lost,
}

/// A lane's lock.
pub struct LaneLock<'r, M>(&'r RawLock<M>);

/// The lock, held. Released when dropped, by the thread that took it.
#[must_use]
pub struct LaneGuard<'r, M: WaitableMutex> {
    lock: LaneLock<'r, M>,
    /// A mutex must be unlocked by the thread that locked it.
    here: PhantomData<*const ()>,
}

impl<M> Clone for LaneLock<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for LaneLock<'_, M> {}

impl<'r, M: WaitableMutex> LaneLock<'r, M> {
    /// The lock that lies there.
    #[must_use]
    pub const fn new(raw: &'r RawLock<M>) -> Self {
        Self(raw)
    }

    /// The outcome of an attempt.
    fn answer(self, attempt: Attempt) -> Option<Result<LaneGuard<'r, M>, LockError>> {
        let (mutex, state) = (&self.0.mutex, &self.0.state);
        match attempt {
            Attempt::HolderDied if state.changing.load(Relaxed) == 0 && state.lost.load(Relaxed) == 0 => {
                mutex.make_consistent();
                Some(Ok(LaneGuard { lock: self, here: PhantomData }))
            }
            Attempt::Taken if state.lost.load(Relaxed) == 0 => Some(Ok(LaneGuard { lock: self, here: PhantomData })),
            Attempt::Taken | Attempt::HolderDied => {
                state.lost.store(1, Relaxed);
                // Once consistent, it can be taken again, so that all others get the error, too.
                if attempt == Attempt::HolderDied {
                    mutex.make_consistent();
                }
                mutex.unlock();
                Some(Err(LockError::Lost))
            }
            Attempt::Busy => None,
            Attempt::Recursive => Some(Err(LockError::Recursive)),
            // A region that its own program has overwritten may cause this.
            Attempt::Broken => Some(Err(LockError::Lost)),
        }
    }

    /// Takes the lock if it is free; `Ok(None)` if another thread has it.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn try_lock(self) -> Result<Option<LaneGuard<'r, M>>, LockError> {
        self.answer(self.0.mutex.try_lock()).transpose()
    }

    /// Takes the lock, waiting for it.
    ///
    /// # Errors
    /// [`LockError`].
    #[inline]
    pub fn lock(self) -> Result<LaneGuard<'r, M>, LockError> {
        match self.try_lock()? {
            Some(guard) => Ok(guard),
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(self) -> Result<LaneGuard<'r, M>, LockError> {
        if let Some(guard) = self.try_often()? {
            return Ok(guard);
        }
        if self.0.mutex.is_real_time() {
            return self.have_handed_over();
        }
        for _ in 0..MOST_SLEEPS {
            if let Some(guard) = self.spin()? {
                return Ok(guard);
            }
            if let Some(guard) = self.sleep()? {
                return Ok(guard);
            }
        }
        self.have_handed_over()
    }

    /// Tries for about a microsecond.
    fn try_often(self) -> Result<Option<LaneGuard<'r, M>>, LockError> {
        for _ in 0..TRIES {
            std::hint::spin_loop();
            if let Some(guard) = self.try_lock()? {
                return Ok(Some(guard));
            }
        }
        Ok(None)
    }

    /// Tries for a while, unless another thread is doing so.
    fn spin(self) -> Result<Option<LaneGuard<'r, M>>, LockError> {
        if self.0.state.spinning.swap(1, SeqCst) != 0 {
            return Ok(None);
        }
        let begin = Instant::now();
        let mut answer = Ok(None);
        // Without yielding: the thread that gets the processor may keep it for milliseconds.
        while matches!(answer, Ok(None)) && begin.elapsed() < SPIN {
            answer = self.try_often();
        }
        self.0.state.spinning.store(0, SeqCst);
        answer
    }

    /// Sleeps until the lock is released, or for a nap, and tries once.
    fn sleep(self) -> Result<Option<LaneGuard<'r, M>>, LockError> {
        self.0.state.waiters.fetch_add(1, SeqCst);
        let releases = self.0.state.releases.load(SeqCst);
        // If it was released since, no later release may wake this thread. A thread that holds it
        // now sees this waiter when it releases it.
        let mut answer = self.try_lock();
        if matches!(answer, Ok(None)) {
            let napped = self.0.mutex.sleep_on(&self.0.state.releases, releases, NAP);
            self.0.state.woken.store(0, SeqCst);
            if napped {
                self.0.state.spinning.store(0, SeqCst);
            }
            answer = self.try_lock();
        }
        let _ = self.0.state.waiters.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
        answer
    }

    /// The lock was released: wakes a sleeping waiter, unless another one is about to try.
    #[cold]
    fn wake(self) {
        if self.0.state.spinning.load(SeqCst) == 0 && self.0.state.woken.swap(1, SeqCst) == 0 {
            self.0.state.releases.fetch_add(1, SeqCst);
            if self.0.mutex.wake_one(&self.0.state.releases) {
                self.0.state.vain.store(0, Relaxed);
                return;
            }
            self.0.state.woken.store(0, SeqCst);
            if self.0.state.vain.fetch_add(1, Relaxed) >= MOST_VAIN_WAKEUPS {
                self.0.state.vain.store(0, Relaxed);
                self.0.state.waiters.store(0, SeqCst);
            }
        }
    }

    /// Sleeps until the kernel hands it over.
    fn have_handed_over(self) -> Result<LaneGuard<'r, M>, LockError> {
        loop {
            match self.0.mutex.lock_within(NAP) {
                Attempt::Busy => {}
                attempt => return self.answer(attempt).unwrap_or(Err(LockError::Lost)),
            }
        }
    }
}

impl<M: WaitableMutex> LaneGuard<'_, M> {
    /// The holder begins to change what the lock protects: if it dies from here on with the lock in
    /// hand, the lane is lost.
    #[inline]
    pub fn begin(&self) {
        self.lock.0.state.changing.store(1, Relaxed);
        // The kernel reports a death, after all that the dead holder has written; only the compiler
        // could reorder this.
        compiler_fence(SeqCst);
    }

    /// The holder changes nothing for now: if it dies, all is in order. [`LaneGuard::begin`] ends
    /// this.
    #[inline]
    pub fn pause(&self) {
        compiler_fence(SeqCst);
        self.lock.0.state.changing.store(0, Relaxed);
    }
}

impl<M: WaitableMutex> Drop for LaneGuard<'_, M> {
    fn drop(&mut self) {
        self.pause();
        self.lock.0.mutex.unlock();
        if self.lock.0.state.waiters.load(SeqCst) != 0 {
            self.lock.wake();
        }
    }
}

impl<M> fmt::Debug for LaneLock<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneLock")
    }
}

impl<M: WaitableMutex> fmt::Debug for LaneGuard<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneGuard")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestMutex;

    fn raw() -> RawLock<TestMutex> {
        RawLock { mutex: TestMutex::default(), state: LockState::default() }
    }

    #[test]
    fn it_excludes_and_tells_recursion() {
        let raw = raw();
        let lock = LaneLock::new(&raw);
        let guard = lock.lock().unwrap();
        assert_eq!(lock.lock().err(), Some(LockError::Recursive));
        std::thread::scope(|s| {
            s.spawn(|| assert!(lock.try_lock().unwrap().is_none())).join().unwrap();
        });
        drop(guard);
        assert!(lock.try_lock().unwrap().is_some());
    }

    /// Takes the lock, and dies with it after this.
    fn dies_after(raw: &RawLock<TestMutex>, work: impl FnOnce(&LaneGuard<'_, TestMutex>)) {
        let guard = LaneLock::new(raw).lock().unwrap();
        work(&guard);
        std::mem::forget(guard);
        raw.mutex.holder_dies();
    }

    #[test]
    fn a_holder_that_died_outside_of_a_change_leaves_the_lock_in_order_and_one_inside_does_not() {
        let raw = raw();
        let lock = LaneLock::new(&raw);
        dies_after(&raw, |_| ());
        drop(lock.lock().expect("nothing was changed yet"));
        dies_after(&raw, |guard| {
            guard.begin();
            guard.pause();
        });
        let guard = lock.lock().expect("nothing was half-changed");
        guard.begin();
        drop(guard);
        dies_after(&raw, |_| ());
        assert!(lock.try_lock().unwrap().is_some());
        dies_after(&raw, |guard| {
            guard.begin();
            guard.pause();
            guard.begin();
        });
        assert_eq!(lock.lock().err(), Some(LockError::Lost));
        assert_eq!(lock.lock().err(), Some(LockError::Lost), "and for good");
        assert_eq!(lock.try_lock().err(), Some(LockError::Lost));
    }

    #[test]
    fn waiters_that_died_are_forgotten() {
        let raw = raw();
        let lock = LaneLock::new(&raw);
        raw.state.waiters.store(3, Relaxed);
        for _ in 0..=MOST_VAIN_WAKEUPS {
            drop(lock.lock().unwrap());
        }
        assert_eq!(raw.state.waiters(), 0);
    }

    #[test]
    fn whatever_waiters_that_died_have_said_one_that_sleeps_gets_it() {
        let raw = raw();
        let lock = LaneLock::new(&raw);
        let guard = lock.lock().unwrap();
        raw.state.spinning.store(1, Relaxed);
        raw.state.woken.store(1, Relaxed);
        std::thread::scope(|s| {
            let waiting = s.spawn(|| drop(lock.lock().unwrap()));
            while raw.state.waiters() == 0 {
                std::thread::yield_now();
            }
            drop(guard);
            waiting.join().unwrap();
        });
        let words = [&raw.state.waiters, &raw.state.spinning, &raw.state.woken];
        assert_eq!(words.map(|word| word.load(Relaxed)), [0; 3]);
    }

    #[test]
    fn a_real_time_waiter_has_the_lock_handed_over_and_sleeps_on_nothing_else() {
        let raw = raw();
        let lock = LaneLock::new(&raw);
        raw.mutex.real_time.store(true, SeqCst);
        let guard = lock.lock().unwrap();
        std::thread::scope(|s| {
            let waiting = s.spawn(|| drop(lock.lock().unwrap()));
            // Longer than one attempt of the kernel's takes.
            std::thread::sleep(3 * NAP);
            assert!(!waiting.is_finished());
            drop(guard);
            waiting.join().unwrap();
        });
        assert_eq!((raw.state.waiters(), raw.mutex.sleeps.load(SeqCst)), (0, 0));
    }
}
