//! What the operating system gives for a lane's lock and its stream turn: a mutex that reports the
//! death of its holder, and a way to sleep on a word.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The outcome of an attempt to take a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The calling thread has it.
    Taken,
    /// The calling thread has it, from a holder that died. Before it is released it must be
    /// declared consistent ([`RobustMutex::make_consistent`]), or no thread gets it any more.
    HolderDied,
    /// Another thread has it.
    Busy,
    /// The calling thread has it already.
    Recursive,
    /// It cannot be taken: its memory is damaged.
    Broken,
}

/// A mutex that a lane's threads share. In one process only, no holder dies.
pub trait RobustMutex {
    /// Takes it if it is free.
    fn try_lock(&self) -> Attempt;

    /// The calling thread, which was told that the holder died and has the mutex now, has repaired
    /// what it protects.
    fn make_consistent(&self);

    /// Releases it. Does nothing if the calling thread does not have it.
    fn unlock(&self);
}

/// A mutex for which threads wait.
pub trait WaitableMutex: RobustMutex {
    /// Sleeps until the mutex is handed over to the calling thread, but not much longer than
    /// `time`: then it is [`Attempt::Busy`]. Where there are priorities, the holder has that of the
    /// waiting thread meanwhile.
    fn lock_within(&self, time: Duration) -> Attempt;

    /// Sleeps while the word has this value, until it is woken, and `time` at most. Returns whether
    /// all of the time has passed. May return early.
    fn sleep_on(&self, word: &AtomicU32, value: u32, time: Duration) -> bool;

    /// Wakes one thread that sleeps on the word, in any process of the lane. Returns whether there
    /// was one.
    fn wake_one(&self, word: &AtomicU32) -> bool;

    /// Whether the calling thread runs before all ordinary ones, and must not compete with them.
    fn is_real_time(&self) -> bool;
}
