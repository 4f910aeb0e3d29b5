//! Which thread of a lane sends packets of streams: one at a time, which keeps them in order
//! without the lane's lock.
//!
//! The turn is taken and returned under the lane's lock, and kept while that is released. A thread
//! that finds it taken leaves its packets to the owner, which checks for more, under the lock,
//! before it returns the turn. If the owner dies, the turn is free, and another thread must
//! complete what it had begun (`Stack::stream_recover`).

use crate::mutex::{Attempt, RobustMutex};
use std::fmt;
use std::marker::PhantomData;

/// The turn of a lane.
pub struct StreamTurn<'r, M>(&'r M);

/// The turn, taken. Returned when dropped, by the thread that took it.
#[must_use]
pub struct StreamTurnGuard<'r, M: RobustMutex> {
    turn: StreamTurn<'r, M>,
    /// A mutex must be unlocked by the thread that locked it.
    here: PhantomData<*const ()>,
}

impl<M> Clone for StreamTurn<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for StreamTurn<'_, M> {}

impl<M> fmt::Debug for StreamTurn<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamTurn")
    }
}

impl<'r, M: RobustMutex> StreamTurn<'r, M> {
    /// The turn whose mutex lies there.
    #[must_use]
    pub const fn new(mutex: &'r M) -> Self {
        Self(mutex)
    }

    /// Takes the turn, unless another thread has it.
    #[must_use]
    pub fn try_take(self) -> Option<StreamTurnGuard<'r, M>> {
        match self.0.try_lock() {
            Attempt::Taken => {}
            Attempt::HolderDied => self.0.make_consistent(),
            _ => return None,
        }
        Some(StreamTurnGuard { turn: self, here: PhantomData })
    }
}

impl<M: RobustMutex> Drop for StreamTurnGuard<'_, M> {
    fn drop(&mut self) {
        self.turn.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestMutex;

    #[test]
    fn one_thread_has_it_and_one_that_dies_gives_it_back() {
        let mutex = TestMutex::default();
        let turn = StreamTurn::new(&mutex);
        let guard = turn.try_take().unwrap();
        assert!(turn.try_take().is_none());
        drop(guard);
        std::mem::forget(turn.try_take());
        mutex.holder_dies();
        drop(turn.try_take().unwrap());
        assert!(turn.try_take().is_some());
    }
}
