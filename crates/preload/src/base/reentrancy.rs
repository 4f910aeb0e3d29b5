//! Whether the calling thread is inside the lane, where no handler may run: a signal that arrives
//! meanwhile is delivered when the thread has left it.

use crate::base::deferred_signals;
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<Where> = const { Cell::new(Where::Outside) };
}

/// Where a thread is, as seen by signal handling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Outside,
    Inside,
    /// Inside, with a pending signal that is delivered when the thread has left.
    Signalled,
}

/// Marks the calling thread as inside the lane; `None` if it is inside already, which means that a
/// signal handler interrupted it there.
pub(crate) fn enter() -> Option<Inside> {
    INSIDE.with(|place| {
        if place.get() != Where::Outside {
            return None;
        }
        place.set(Where::Inside);
        Some(Inside)
    })
}

/// Whether the calling thread is inside the lane.
pub(crate) fn is_inside() -> bool {
    INSIDE.get() != Where::Outside
}

/// A signal is pending until the calling thread, which is inside the lane, has left.
pub(crate) fn signal_put_off() {
    INSIDE.set(Where::Signalled);
}

/// The mark that [`enter`] sets.
pub(crate) struct Inside;

impl Inside {
    /// Removes the mark. True if a signal is pending, which the caller must deliver:
    /// [`deferred_signals::deliver`].
    #[must_use]
    pub(crate) fn leave(self) -> bool {
        core::mem::forget(self);
        INSIDE.replace(Where::Outside) == Where::Signalled
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if INSIDE.replace(Where::Outside) == Where::Signalled {
            deferred_signals::deliver();
        }
    }
}
