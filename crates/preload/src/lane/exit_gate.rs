//! The end of a program, by exit or by exec, kills its threads wherever they are. A thread that
//! dies in the midst of a change makes the lane unusable for all its processes. So the other
//! threads of the process are kept out first. This affects only that process: forked siblings
//! continue, however long the end takes.

use crate::base::locked;
use crate::sys;
use crate::sys::errno::AGAIN;
use crate::sys::errno::Result;
use core::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// Which threads may enter the lane. While it is not open: the number of the thread that closes it,
/// and [`SHUT`] when it has.
pub(crate) struct ExitGate(AtomicU32);

const OPEN: u32 = 0;
const SHUT: u32 = 1;

fn is_mine(word: u32) -> bool {
    word >> 1 == sys::thread()
}

impl ExitGate {
    /// Open to all threads.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    /// Whether the calling thread may enter; else it is to wait for a change.
    ///
    /// # Errors
    /// [`AGAIN`] if it is the thread that has shut the gate: a signal handler cannot wait for it.
    #[inline]
    pub(crate) fn admits(&self) -> Result<bool> {
        match self.0.load(Acquire) {
            OPEN => Ok(true),
            word => Self::exempts(word),
        }
    }

    #[cold]
    fn exempts(word: u32) -> Result<bool> {
        match (word & SHUT != 0, is_mine(word)) {
            (true, true) => Err(AGAIN),
            (true, false) => Ok(false),
            // The thread that closes the gate may need a lock that another thread holds as it
            // enters.
            (false, mine) => Ok(mine || locked::any()),
        }
    }

    /// Waits until the gate changes, if it is not open.
    pub(crate) fn wait(&self) {
        let word = self.0.load(Acquire);
        if word != OPEN {
            sys::wait_while(&self.0, word);
        }
    }

    /// The calling thread closes the gate: only this thread and threads that hold a lock of the
    /// library still enter. False if the gate is closed already: by this thread (which a signal
    /// handler has interrupted), or shut by another, unless `patient` asks to wait until that one
    /// opens it.
    pub(crate) fn close(&self, patient: bool) -> bool {
        loop {
            let Err(word) = self.0.compare_exchange(OPEN, sys::thread() << 1, AcqRel, Acquire) else { return true };
            if is_mine(word) || word & SHUT != 0 && !patient {
                return false;
            }
            sys::wait_while(&self.0, word);
        }
    }

    /// No thread enters any more. To be called only while no thread is inside.
    pub(crate) fn shut(&self) {
        self.0.fetch_or(SHUT, AcqRel);
        sys::wake_all(&self.0);
    }

    /// The calling thread opens the gate that it has closed.
    pub(crate) fn open(&self) {
        if is_mine(self.0.load(Acquire)) {
            self.forget();
            sys::wake_all(&self.0);
        }
    }

    /// Opens the gate in a forked child: the thread that closed it was one of the parent.
    pub(crate) fn forget(&self) {
        self.0.store(OPEN, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::locked::Lock;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_thread_that_closes_it_continues_and_others_wait_until_it_is_open() {
        static GATE: ExitGate = ExitGate::new();
        static LOCK: Lock<()> = Lock::new(());
        assert_eq!(GATE.admits(), Ok(true));
        assert!(GATE.close(false));
        assert!(!GATE.close(true), "a handler that ends the program again");
        assert_eq!(GATE.admits(), Ok(true));
        let (through, looked) = (AtomicBool::new(false), Barrier::new(2));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(GATE.admits(), Ok(false));
                let held = LOCK.lock();
                assert_eq!(GATE.admits(), Ok(true), "this one may be waited for");
                drop(held);
                looked.wait();
                while GATE.admits() != Ok(true) {
                    GATE.wait();
                }
                assert!(through.load(Acquire));
            });
            looked.wait();
            GATE.shut();
            assert_eq!(GATE.admits(), Err(AGAIN));
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(!GATE.close(false), "an exit does not wait for another's end"));
            });
            through.store(true, Release);
            GATE.open();
            other.join().unwrap();
        });
    }
}
