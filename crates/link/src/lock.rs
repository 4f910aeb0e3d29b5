//! The lock of a lane: shared by its processes, and robust against the death of its holder.
//!
//! A robust process-shared mutex. When its holder dies in the midst of a change
//! ([`LaneGuard::begin`]), the state cannot be repaired. The lock stays closed for good, and every
//! thread that takes it gets the error that the lane is lost ([`LockError::Lost`]). The program
//! then starts afresh with a new lane. Taking the lock twice in one thread (a signal handler that
//! interrupts a holder) is an error instead of a deadlock.
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
//! The mutex inherits priority (`PTHREAD_PRIO_INHERIT`): while a real-time thread waits, the holder
//! runs at its priority. After its first tries a real-time thread neither spins, because on the
//! holder's processor it would spin against the holder, nor competes: it goes to the kernel, which
//! boosts the holder and hands the lock over directly.

use crate::robust_mutex::RobustMutex;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
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
const NAP_NS: libc::c_long = 10_000_000;

unsafe extern "C" {
    /// Of the C library since 2.30.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> libc::c_int;
}

/// Whether the calling thread is of a real-time policy (`sched(7)`). Queried on the contended path
/// only.
fn is_real_time() -> bool {
    // SAFETY: a plain number.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy > 0
        && matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE)
}

/// The lock as it lies in the region.
#[repr(C, align(64))]
pub(crate) struct RawLock {
    mutex: RobustMutex,
    /// Not 0 while a waiter spins. A hint, as all that waiters write: one that is killed does not
    /// reset it.
    spinning: AtomicU32,
    /// How many sleep until it is released.
    waiters: AtomicU32,
    /// Not 0 while one of them has been woken and has not run yet.
    woken: AtomicU32,
    /// The futex on which they sleep (`futex(2)`). Wraps.
    releases: AtomicU32,
    /// Consecutive wakeups that woke nothing.
    vain: AtomicU32,
    /// Not 0 after a holder died inside. (The mutex could record this itself, by not being made
    /// consistent, but glibc's `trylock` then leaves it locked.)
    lost: AtomicU32,
    /// Not 0 while the holder changes what the lock protects. One that dies before or after leaves
    /// everything in order.
    changing: AtomicU32,
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
#[derive(Clone, Copy)]
pub struct LaneLock<'r>(&'r RawLock);

/// The lock, held. Released when dropped, by the thread that took it.
#[must_use]
pub struct LaneGuard<'r> {
    lock: LaneLock<'r>,
    /// A mutex must be unlocked by the thread that locked it.
    here: PhantomData<*const ()>,
}

impl RawLock {
    /// Prepares the lock in place.
    ///
    /// # Safety
    /// `at` must be valid for writing, and no other thread may use the lock yet.
    pub(crate) unsafe fn init(at: *mut Self) {
        // SAFETY: `at` is writable by the caller's promise.
        unsafe {
            RobustMutex::init(&raw mut (*at).mutex, libc::PTHREAD_PRIO_INHERIT);
            for word in [
                &raw mut (*at).spinning,
                &raw mut (*at).waiters,
                &raw mut (*at).woken,
                &raw mut (*at).releases,
                &raw mut (*at).vain,
            ] {
                word.write(AtomicU32::new(0));
            }
            (&raw mut (*at).lost).write(AtomicU32::new(0));
            (&raw mut (*at).changing).write(AtomicU32::new(0));
        }
    }
}

impl<'r> LaneLock<'r> {
    pub(crate) const fn new(raw: &'r RawLock) -> Self {
        Self(raw)
    }

    /// The outcome of an attempt, from the C library's return value.
    fn answer(self, code: libc::c_int) -> Option<Result<LaneGuard<'r>, LockError>> {
        match code {
            libc::EOWNERDEAD if self.0.changing.load(Relaxed) == 0 && self.0.lost.load(Relaxed) == 0 => {
                self.0.mutex.make_consistent();
                Some(Ok(LaneGuard { lock: self, here: PhantomData }))
            }
            0 if self.0.lost.load(Relaxed) == 0 => Some(Ok(LaneGuard { lock: self, here: PhantomData })),
            0 | libc::EOWNERDEAD => {
                self.0.lost.store(1, Relaxed);
                // Once consistent, it can be taken again, so that all others get the error, too.
                if code == libc::EOWNERDEAD {
                    self.0.mutex.make_consistent();
                }
                self.0.mutex.unlock();
                Some(Err(LockError::Lost))
            }
            libc::EBUSY => None,
            libc::EDEADLK => Some(Err(LockError::Recursive)),
            // A region that its own program has overwritten may cause this.
            _ => Some(Err(LockError::Lost)),
        }
    }

    /// Takes the lock if it is free; `Ok(None)` if another thread has it.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn try_lock(self) -> Result<Option<LaneGuard<'r>>, LockError> {
        self.answer(self.0.mutex.try_lock()).transpose()
    }

    /// Takes the lock, waiting for it.
    ///
    /// # Errors
    /// [`LockError`].
    #[inline]
    pub fn lock(self) -> Result<LaneGuard<'r>, LockError> {
        match self.try_lock()? {
            Some(guard) => Ok(guard),
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(self) -> Result<LaneGuard<'r>, LockError> {
        if let Some(guard) = self.try_often()? {
            return Ok(guard);
        }
        if is_real_time() {
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
    fn try_often(self) -> Result<Option<LaneGuard<'r>>, LockError> {
        for _ in 0..TRIES {
            std::hint::spin_loop();
            if let Some(guard) = self.try_lock()? {
                return Ok(Some(guard));
            }
        }
        Ok(None)
    }

    /// Tries for a while, unless another thread is doing so.
    fn spin(self) -> Result<Option<LaneGuard<'r>>, LockError> {
        if self.0.spinning.swap(1, SeqCst) != 0 {
            return Ok(None);
        }
        let begin = Instant::now();
        let mut answer = Ok(None);
        // Without yielding: the thread that gets the processor may keep it for milliseconds.
        while matches!(answer, Ok(None)) && begin.elapsed() < SPIN {
            answer = self.try_often();
        }
        self.0.spinning.store(0, SeqCst);
        answer
    }

    /// Sleeps until the lock is released, or for a nap, and tries once.
    fn sleep(self) -> Result<Option<LaneGuard<'r>>, LockError> {
        self.0.waiters.fetch_add(1, SeqCst);
        let releases = self.0.releases.load(SeqCst);
        // If it was released since, no later release may wake this thread. A thread that holds it
        // now sees this sleeper when it releases it.
        let mut answer = self.try_lock();
        if matches!(answer, Ok(None)) {
            let napped = self.nap(releases);
            self.0.woken.store(0, SeqCst);
            if napped {
                self.0.spinning.store(0, SeqCst);
            }
            answer = self.try_lock();
        }
        let _ = self.0.waiters.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
        answer
    }

    /// Sleeps while `releases` has this value. Returns whether the whole nap has passed.
    fn nap(self, releases: u32) -> bool {
        let time = libc::timespec { tv_sec: 0, tv_nsec: NAP_NS };
        // SAFETY: the word lives as long as the region is mapped, and the time for the call. Not
        // private: other processes wake.
        let slept = unsafe {
            libc::syscall(libc::SYS_futex, self.0.releases.as_ptr(), libc::FUTEX_WAIT, releases, &raw const time)
        };
        crate::sys::answer(slept).is_err_and(|error| error.raw_os_error() == Some(libc::ETIMEDOUT))
    }

    /// The lock was released: wakes a sleeper to try, unless another waiter is about to try.
    #[cold]
    fn wake(self) {
        if self.0.spinning.load(SeqCst) == 0 && self.0.woken.swap(1, SeqCst) == 0 {
            self.0.releases.fetch_add(1, SeqCst);
            // SAFETY: as in `nap`.
            let woken = unsafe { libc::syscall(libc::SYS_futex, self.0.releases.as_ptr(), libc::FUTEX_WAKE, 1) };
            if woken > 0 {
                self.0.vain.store(0, Relaxed);
                return;
            }
            self.0.woken.store(0, SeqCst);
            if self.0.vain.fetch_add(1, Relaxed) >= MOST_VAIN_WAKEUPS {
                self.0.vain.store(0, Relaxed);
                self.0.waiters.store(0, SeqCst);
            }
        }
    }

    /// Sleeps until the kernel hands it over.
    fn have_handed_over(self) -> Result<LaneGuard<'r>, LockError> {
        loop {
            // SAFETY: filled in before use; the mutex was initialised when the region was made.
            let code = unsafe {
                let mut until = MaybeUninit::<libc::timespec>::zeroed().assume_init();
                libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut until);
                until.tv_nsec += NAP_NS;
                until.tv_sec += until.tv_nsec / 1_000_000_000;
                until.tv_nsec %= 1_000_000_000;
                match pthread_mutex_clocklock(self.0.mutex.as_ptr(), libc::CLOCK_MONOTONIC, &raw const until) {
                    // A C library before 2.35 has no such limit for a mutex that inherits priority.
                    libc::EINVAL => libc::pthread_mutex_lock(self.0.mutex.as_ptr()),
                    code => code,
                }
            };
            if code != libc::ETIMEDOUT {
                return self.answer(code).unwrap_or(Err(LockError::Lost));
            }
        }
    }
}

impl LaneGuard<'_> {
    /// The holder begins to change what the lock protects: if it dies from here on with the lock in
    /// hand, the lane is lost.
    #[inline]
    pub fn begin(&self) {
        self.lock.0.changing.store(1, Relaxed);
        // The kernel reports a death, after all that the dead holder has written; only the compiler
        // could reorder this.
        compiler_fence(SeqCst);
    }

    /// The holder changes nothing for now: if it dies, all is in order. [`LaneGuard::begin`] ends
    /// this.
    #[inline]
    pub fn pause(&self) {
        compiler_fence(SeqCst);
        self.lock.0.changing.store(0, Relaxed);
    }
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        self.pause();
        self.lock.0.mutex.unlock();
        if self.lock.0.waiters.load(SeqCst) != 0 {
            self.lock.wake();
        }
    }
}

impl fmt::Debug for LaneLock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneLock")
    }
}

impl fmt::Debug for LaneGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneGuard")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock in memory that forked children share.
    fn shared() -> &'static RawLock {
        // SAFETY: a fresh anonymous mapping, writable, page aligned, never unmapped.
        unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let at = at.cast::<RawLock>();
            RawLock::init(at);
            &*at
        }
    }

    #[test]
    fn it_excludes_and_tells_recursion() {
        let lock = LaneLock::new(shared());
        let guard = lock.lock().unwrap();
        assert_eq!(lock.lock().err(), Some(LockError::Recursive));
        std::thread::scope(|s| {
            s.spawn(|| assert!(lock.try_lock().unwrap().is_none())).join().unwrap();
        });
        drop(guard);
        assert!(lock.try_lock().unwrap().is_some());
    }

    /// Runs something in a child that ends with it.
    fn in_a_child(work: impl FnOnce()) {
        // SAFETY: the child only takes a lock and exits, without running anything that another
        // thread may have left half done.
        let child = unsafe { libc::fork() };
        if child == 0 {
            work();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    }

    #[test]
    fn a_holder_that_died_before_or_after_its_change_leaves_the_lock_in_order() {
        let lock = LaneLock::new(shared());
        in_a_child(|| std::mem::forget(lock.lock()));
        assert!(lock.lock().is_ok());
        in_a_child(|| {
            let _ = lock.lock().map(|guard| guard.begin());
            std::mem::forget(lock.lock());
        });
        assert!(lock.lock().is_ok());
        assert!(lock.try_lock().unwrap().is_some());
    }

    #[test]
    fn a_holder_that_died_while_it_paused_leaves_the_lock_in_order() {
        let lock = LaneLock::new(shared());
        in_a_child(|| {
            let guard = lock.lock().unwrap();
            guard.begin();
            guard.pause();
            std::mem::forget(guard);
        });
        let guard = lock.lock().expect("nothing was half-changed");
        guard.begin();
        guard.pause();
        guard.begin();
        drop(guard);
        in_a_child(|| {
            let guard = lock.lock().unwrap();
            guard.begin();
            guard.pause();
            guard.begin();
            std::mem::forget(guard);
        });
        assert_eq!(lock.lock().err(), Some(LockError::Lost), "it had gone on");
    }

    #[test]
    fn a_holder_that_died_in_its_change_is_told_to_every_thread_after_it() {
        let lock = LaneLock::new(shared());
        in_a_child(|| {
            let guard = lock.lock();
            if let Ok(guard) = &guard {
                guard.begin();
            }
            std::mem::forget(guard);
        });
        assert_eq!(lock.lock().err(), Some(LockError::Lost));
        assert_eq!(lock.lock().err(), Some(LockError::Lost), "and for good");
        assert_eq!(lock.try_lock().err(), Some(LockError::Lost));
    }

    /// The loop of a thread that sends a stream: it takes the lock as soon as it has released it,
    /// and holds it for a while each time.
    fn stream(lock: LaneLock<'_>, stop: &AtomicU32) -> u64 {
        let mut turns = 0;
        while stop.load(Relaxed) == 0 {
            let guard = lock.lock().unwrap();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(70) {
                std::hint::spin_loop();
            }
            drop(guard);
            turns += 1;
        }
        turns
    }

    #[test]
    fn a_thread_that_has_it_nearly_always_does_not_keep_others_out() {
        const WANTED: u64 = 500;
        let lock = LaneLock::new(shared());
        let stop = AtomicU32::new(0);
        let turns = std::thread::scope(|s| {
            let streaming = s.spawn(|| stream(lock, &stop));
            for _ in 0..WANTED {
                drop(lock.lock().unwrap());
            }
            stop.store(1, Relaxed);
            streaming.join().unwrap()
        });
        // Hundreds if the holder kept waiters out. (More than one or two when a waiter does not get
        // a processor.)
        assert!(turns < 30 * WANTED, "{turns} turns of a stream while {WANTED} were wanted");
        assert_eq!(lock.0.waiters.load(Relaxed), 0);
    }

    /// The kernel's priority of a thread of this process: below zero while it runs as a real-time
    /// one.
    fn kernel_priority(thread: libc::pid_t) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.split(' ').nth(15).unwrap().parse().unwrap()
    }

    /// Makes the calling thread a real-time one. False without the right to.
    fn become_real_time(priority: libc::c_int) -> bool {
        let parameters = libc::sched_param { sched_priority: priority };
        // SAFETY: a structure of our own.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
    }

    #[test]
    fn a_holder_runs_at_the_priority_of_a_real_time_waiter_and_the_waiter_does_not_spin() {
        let lock = LaneLock::new(shared());
        // SAFETY: no arguments.
        let holder = unsafe { libc::gettid() };
        let guard = lock.lock().unwrap();
        guard.begin();
        let (told, is_able) = std::sync::mpsc::channel();
        std::thread::scope(|s| {
            let waiting = s.spawn(move || {
                told.send(become_real_time(10)).unwrap();
                drop(lock.lock().unwrap());
                let mut used = MaybeUninit::<libc::timespec>::zeroed();
                // SAFETY: a structure of our own, filled in by the call.
                let used = unsafe {
                    libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, used.as_mut_ptr());
                    used.assume_init()
                };
                is_real_time().then(|| Duration::new(used.tv_sec as u64, used.tv_nsec as u32))
            });
            if is_able.recv().unwrap() {
                // Also while it makes system calls, as reading this file is one.
                while kernel_priority(holder) != -11 {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            assert!(lock.try_lock().is_err(), "this thread has it");
            drop(guard);
            assert!(kernel_priority(holder) >= 0, "the boost ends with the hold time");
            if let Some(used) = waiting.join().unwrap() {
                assert!(used < Duration::from_millis(100), "it spun: {used:?}");
            }
        });
        assert_eq!(lock.0.waiters.load(Relaxed), 0);
    }

    #[test]
    fn a_real_time_waiter_learns_that_the_holder_died() {
        for changes in [false, true] {
            let lock = LaneLock::new(shared());
            let mut ends = [0; 2];
            // SAFETY: room for two descriptors.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            let byte = [0u8; 1];
            // SAFETY: the child takes a lock, tells, waits and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let guard = lock.lock();
                if let (Ok(guard), true) = (&guard, changes) {
                    guard.begin();
                }
                std::mem::forget(guard);
                // SAFETY: a byte of our own; the child ends with it.
                unsafe {
                    libc::write(ends[1], byte.as_ptr().cast(), 1);
                    libc::usleep(50_000);
                    libc::_exit(0);
                }
            }
            let mut byte = byte;
            // SAFETY: room for one byte.
            assert_eq!(unsafe { libc::read(ends[0], byte.as_mut_ptr().cast(), 1) }, 1);
            let waited = std::thread::spawn(move || {
                become_real_time(10);
                lock.lock().map(drop)
            });
            let expected = if changes { Err(LockError::Lost) } else { Ok(()) };
            assert_eq!(waited.join().unwrap(), expected);
            let mut status = 0;
            // SAFETY: waits for the child made above; descriptors of our own.
            unsafe {
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                for end in ends {
                    libc::close(end);
                }
            }
        }
    }

    #[test]
    fn sleepers_that_died_are_forgotten() {
        let lock = LaneLock::new(shared());
        lock.0.waiters.store(3, Relaxed);
        for _ in 0..=MOST_VAIN_WAKEUPS {
            drop(lock.lock().unwrap());
        }
        assert_eq!(lock.0.waiters.load(Relaxed), 0);
    }

    #[test]
    fn whatever_waiters_that_died_have_said_one_that_sleeps_gets_it() {
        let lock = LaneLock::new(shared());
        let guard = lock.lock().unwrap();
        lock.0.spinning.store(1, Relaxed);
        lock.0.woken.store(1, Relaxed);
        std::thread::scope(|s| {
            let waiting = s.spawn(|| drop(lock.lock().unwrap()));
            while lock.0.waiters.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            drop(guard);
            waiting.join().unwrap();
        });
        assert_eq!([&lock.0.waiters, &lock.0.spinning, &lock.0.woken].map(|word| word.load(Relaxed)), [0; 3]);
    }
}
