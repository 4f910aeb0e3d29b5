//! A process-shared mutex of the C library that reports its holder's death: a lane's lock
//! ([`tickwire_lane::lock`]) and its stream turn consist of one each. And `futex(2)`, for threads
//! that wait for the lock.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tickwire_lane::lock::{LockState, RawLock};
use tickwire_lane::mutex::{Attempt, RobustMutex, WaitableMutex};

unsafe extern "C" {
    /// Of the C library since 2.30.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> libc::c_int;
}

/// The mutex as it lies in the region.
#[repr(transparent)]
pub struct PthreadMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a process-shared mutex is made to be used by many threads at a time.
unsafe impl Sync for PthreadMutex {}

impl PthreadMutex {
    /// Prepares the mutex in place. `protocol`: `PTHREAD_PRIO_NONE` or `PTHREAD_PRIO_INHERIT`.
    ///
    /// # Safety
    /// `at` must be valid for writing, and no other thread may use the mutex yet.
    pub(crate) unsafe fn init(at: *mut Self, protocol: libc::c_int) {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attributes are initialised before they are used and destroyed after; `at` is
        // writable by the caller's promise. None of these calls can fail with these arguments.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), protocol);
            libc::pthread_mutex_init((&raw mut (*at).0).cast(), attributes.as_ptr());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        }
    }

    /// The mutex for the C library's functions.
    fn as_ptr(&self) -> *mut libc::pthread_mutex_t {
        self.0.get()
    }
}

/// Prepares a lane's lock in place.
///
/// # Safety
/// `at` must be valid for writing, and no other thread may use the lock yet.
pub(crate) unsafe fn init_lock(at: *mut RawLock<PthreadMutex>) {
    // SAFETY: `at` is writable by the caller's promise.
    unsafe {
        // While a real-time thread waits, the holder has its priority.
        PthreadMutex::init(&raw mut (*at).mutex, libc::PTHREAD_PRIO_INHERIT);
        (&raw mut (*at).state).write(LockState::default());
    }
}

/// The outcome that a return value of the C library means.
#[inline]
fn attempt(code: libc::c_int) -> Attempt {
    match code {
        0 => Attempt::Taken,
        libc::EOWNERDEAD => Attempt::HolderDied,
        libc::EBUSY | libc::ETIMEDOUT => Attempt::Busy,
        libc::EDEADLK => Attempt::Recursive,
        _ => Attempt::Broken,
    }
}

impl RobustMutex for PthreadMutex {
    #[inline]
    fn try_lock(&self) -> Attempt {
        // SAFETY: the mutex was initialised when the region was made.
        attempt(unsafe { libc::pthread_mutex_trylock(self.as_ptr()) })
    }

    fn make_consistent(&self) {
        // SAFETY: the mutex is initialised; if the calling thread does not hold it so, the call
        // does nothing.
        unsafe { libc::pthread_mutex_consistent(self.as_ptr()) };
    }

    #[inline]
    fn unlock(&self) {
        // SAFETY: the mutex is initialised, and of the type that checks which thread releases it.
        unsafe { libc::pthread_mutex_unlock(self.as_ptr()) };
    }
}

impl WaitableMutex for PthreadMutex {
    fn lock_within(&self, time: Duration) -> Attempt {
        // SAFETY: filled in before use; the mutex was initialised when the region was made.
        let code = unsafe {
            let mut until = MaybeUninit::<libc::timespec>::zeroed().assume_init();
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut until);
            until.tv_nsec += time.subsec_nanos() as libc::c_long;
            until.tv_sec += time.as_secs() as libc::time_t + until.tv_nsec / 1_000_000_000;
            until.tv_nsec %= 1_000_000_000;
            match pthread_mutex_clocklock(self.as_ptr(), libc::CLOCK_MONOTONIC, &raw const until) {
                // A C library before 2.35 has no such limit for a mutex that inherits priority.
                libc::EINVAL => libc::pthread_mutex_lock(self.as_ptr()),
                code => code,
            }
        };
        attempt(code)
    }

    fn sleep_on(&self, word: &AtomicU32, value: u32, time: Duration) -> bool {
        let time = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ };
        // SAFETY: word and time live for the call. Not private: other processes wake.
        let slept = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time) };
        crate::sys::answer(slept).is_err_and(|error| error.raw_os_error() == Some(libc::ETIMEDOUT))
    }

    fn wake_one(&self, word: &AtomicU32) -> bool {
        // SAFETY: as in `sleep_on`.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) > 0 }
    }

    /// Whether it is of a real-time policy (`sched(7)`). A system call.
    fn is_real_time(&self) -> bool {
        is_real_time()
    }
}

/// Whether the calling thread is of a real-time policy.
fn is_real_time() -> bool {
    // SAFETY: a plain number.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy > 0
        && matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE)
}

impl fmt::Debug for PthreadMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PthreadMutex")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;
    use tickwire_lane::lock::{LaneLock, LockError};
    use tickwire_lane::stream_turn::StreamTurn;

    /// A lock in memory that forked children share.
    fn shared() -> &'static RawLock<PthreadMutex> {
        // SAFETY: a fresh anonymous mapping, writable, page aligned, never unmapped.
        unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let at = at.cast::<RawLock<PthreadMutex>>();
            init_lock(at);
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
    fn stream(lock: LaneLock<'_, PthreadMutex>, stop: &AtomicU32) -> u64 {
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
        let raw = shared();
        let lock = LaneLock::new(raw);
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
        assert_eq!(raw.state.waiters(), 0);
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
        let raw = shared();
        let lock = LaneLock::new(raw);
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
        assert_eq!(raw.state.waiters(), 0);
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
    fn a_sleeper_is_woken_or_wakes_by_itself_and_the_waking_thread_learns_whether_there_was_one() {
        let mutex = &shared().mutex;
        let word = AtomicU32::new(0);
        assert!(!mutex.wake_one(&word), "none sleeps");
        assert!(!mutex.sleep_on(&word, 1, Duration::from_secs(9)), "another value");
        assert!(mutex.sleep_on(&word, 0, Duration::from_millis(1)), "all of the time");
        std::thread::scope(|s| {
            let asleep = s.spawn(|| mutex.sleep_on(&word, 0, Duration::from_secs(9)));
            while !mutex.wake_one(&word) {
                std::thread::yield_now();
            }
            assert!(!asleep.join().unwrap());
        });
    }

    #[test]
    fn one_thread_has_the_stream_turn_and_one_that_dies_gives_it_back() {
        let mut raw = MaybeUninit::<PthreadMutex>::uninit();
        // SAFETY: room for it, which no other thread knows.
        let turn = unsafe {
            PthreadMutex::init(raw.as_mut_ptr(), libc::PTHREAD_PRIO_NONE);
            StreamTurn::new(raw.assume_init_ref())
        };
        let another_gets = || std::thread::scope(|s| s.spawn(|| turn.try_take().is_some()).join().unwrap());
        let guard = turn.try_take().unwrap();
        assert!(turn.try_take().is_none() && !another_gets());
        drop(guard);
        assert!(another_gets());
        std::thread::scope(|s| s.spawn(|| std::mem::forget(turn.try_take())).join().unwrap());
        assert!(turn.try_take().is_some() && another_gets());
    }
}
