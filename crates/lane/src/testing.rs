//! A mutex for tests, in safe code, whose holder can die.

use crate::mutex::{Attempt, RobustMutex, WaitableMutex};
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct State {
    holder: Option<ThreadId>,
    /// The last holder died.
    died: bool,
    /// The holder has been told so, and has not declared it consistent.
    inconsistent: bool,
    /// It was released so.
    broken: bool,
}

/// A mutex of one process.
#[derive(Debug, Default)]
pub(crate) struct TestMutex {
    state: Mutex<State>,
    asleep: AtomicU32,
    /// How often a thread slept on a word.
    pub(crate) sleeps: AtomicU32,
    /// Threads are real-time ones.
    pub(crate) real_time: AtomicBool,
}

impl TestMutex {
    /// The thread that has it dies.
    pub(crate) fn holder_dies(&self) {
        let mut state = self.state.lock().unwrap();
        assert!(state.holder.take().is_some());
        state.died = true;
    }
}

impl RobustMutex for TestMutex {
    fn try_lock(&self) -> Attempt {
        let mut state = self.state.lock().unwrap();
        let caller = thread::current().id();
        match state.holder {
            _ if state.broken => Attempt::Broken,
            Some(holder) if holder == caller => Attempt::Recursive,
            Some(_) => Attempt::Busy,
            None => {
                state.holder = Some(caller);
                if std::mem::take(&mut state.died) {
                    state.inconsistent = true;
                    return Attempt::HolderDied;
                }
                Attempt::Taken
            }
        }
    }

    fn make_consistent(&self) {
        self.state.lock().unwrap().inconsistent = false;
    }

    fn unlock(&self) {
        let mut state = self.state.lock().unwrap();
        if state.holder == Some(thread::current().id()) {
            state.holder = None;
            state.broken |= state.inconsistent;
        }
    }
}

/// Waits for so long at most until this is so. Returns whether it is.
fn is_so_within(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begin.elapsed() >= time {
            return false;
        }
        thread::sleep(Duration::from_micros(50));
    }
}

impl WaitableMutex for TestMutex {
    fn lock_within(&self, time: Duration) -> Attempt {
        let mut attempt = Attempt::Busy;
        is_so_within(time, || {
            attempt = self.try_lock();
            attempt != Attempt::Busy
        });
        attempt
    }

    fn sleep_on(&self, word: &AtomicU32, value: u32, time: Duration) -> bool {
        self.asleep.fetch_add(1, SeqCst);
        self.sleeps.fetch_add(1, SeqCst);
        let was_woken = is_so_within(time, || word.load(SeqCst) != value);
        self.asleep.fetch_sub(1, SeqCst);
        !was_woken
    }

    /// A sleeper sees that the word has changed.
    fn wake_one(&self, _word: &AtomicU32) -> bool {
        self.asleep.load(SeqCst) > 0
    }

    fn is_real_time(&self) -> bool {
        self.real_time.load(SeqCst)
    }
}
