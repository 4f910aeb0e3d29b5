//! The library's own locks. A signal handler that waits for a lock held by the thread it
//! interrupted would deadlock, and many socket calls may be made in a handler (POSIX.1-2024,
//! 2.4.3). So signals are deferred while the calling thread holds a lock, as they are inside the
//! lane.

use crate::base::deferred_signals;
use core::ops::{Deref, DerefMut};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread holds a lock.
pub(crate) fn any() -> bool {
    HELD.get() != 0
}

/// Defers signals for as long as it lives.
pub(crate) struct SignalDeferral(());

impl SignalDeferral {
    /// From here on.
    pub(crate) fn new() -> Self {
        HELD.set(HELD.get() + 1);
        Self(())
    }
}

impl Drop for SignalDeferral {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        deferred_signals::deliver_any();
    }
}

/// A lock.
pub(crate) struct Lock<T>(Mutex<T>);

/// It, held.
pub(crate) struct Locked<'l, T> {
    // Dropped in this order.
    value: MutexGuard<'l, T>,
    _holding: SignalDeferral,
}

impl<T> Lock<T> {
    /// Around a value.
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Takes the lock. A panic of a thread that held it does not prevent that: the data under our
    /// locks is consistent at any time.
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let holding = SignalDeferral::new();
        Locked { value: self.0.lock().unwrap_or_else(PoisonError::into_inner), _holding: holding }
    }

    /// Takes it if it is free.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, T>> {
        let holding = SignalDeferral::new();
        let value = match self.0.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Locked { value, _holding: holding })
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
