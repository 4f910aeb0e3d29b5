//! Which thread of a lane sends packets of streams: one at a time, which keeps them in order
//! without the lane's lock.
//!
//! The turn is taken and returned under the lane's lock, and kept while that is released. A thread
//! that finds it taken leaves its packets to the owner, which checks for more, under the lock,
//! before it returns the turn. If the owner dies, the turn is free, and another thread must
//! complete what it had begun (`Stack::stream_recover`).

use crate::robust_mutex::RobustMutex;
use std::marker::PhantomData;

/// The turn of a lane.
#[derive(Clone, Copy)]
pub struct StreamTurn<'r>(&'r RobustMutex);

/// The turn, taken. Returned when dropped, by the thread that took it.
#[must_use]
pub struct StreamTurnGuard<'r> {
    turn: StreamTurn<'r>,
    /// A mutex must be unlocked by the thread that locked it.
    here: PhantomData<*const ()>,
}

impl<'r> StreamTurn<'r> {
    pub(crate) const fn new(raw: &'r RobustMutex) -> Self {
        Self(raw)
    }

    /// Takes the turn, unless another thread has it.
    #[must_use]
    pub fn try_take(self) -> Option<StreamTurnGuard<'r>> {
        match self.0.try_lock() {
            0 => {}
            libc::EOWNERDEAD => self.0.make_consistent(),
            _ => return None,
        }
        Some(StreamTurnGuard { turn: self, here: PhantomData })
    }
}

impl Drop for StreamTurnGuard<'_> {
    fn drop(&mut self) {
        self.turn.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;

    #[test]
    fn one_thread_has_it_and_one_that_dies_gives_it_back() {
        let mut raw = MaybeUninit::<RobustMutex>::uninit();
        // SAFETY: room for it, which no other thread knows.
        let turn = unsafe {
            RobustMutex::init(raw.as_mut_ptr(), libc::PTHREAD_PRIO_NONE);
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
