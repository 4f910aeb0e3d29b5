//! Whether the calling thread is inside the lane, where no handler may run: a signal that comes
//! meanwhile waits until it is out.

use crate::c::signal;
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<Where> = const { Cell::new(Where::Outside) };
}

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Outside,
    Inside,
    /// Inside, with a signal that waits until it is out.
    Signalled,
}

/// Marks the calling thread as inside the lane; `None` if it is already, which means that a signal
/// handler interrupted it there.
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

/// A signal waits until the calling thread, which is inside the lane, is out.
pub(crate) fn signal_put_off() {
    INSIDE.set(Where::Signalled);
}

/// The mark of [`enter`].
pub(crate) struct Inside;

impl Inside {
    /// Takes the mark off. True if a signal waits for that, which the caller must let through:
    /// [`signal::deliver`].
    #[must_use]
    pub(crate) fn leave(self) -> bool {
        core::mem::forget(self);
        INSIDE.replace(Where::Outside) == Where::Signalled
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if INSIDE.replace(Where::Outside) == Where::Signalled {
            signal::deliver();
        }
    }
}
