//! Removes the devices of lanes, each in a thread of its own.
//!
//! The kernel takes a device out of all lists at once, and then waits, without a limit, until it is
//! no longer in use. A program can prolong that: it writes to its lane's device from memory whose
//! page fault is not resolved. Such a device blocks only its own thread.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;
use tickwire_host::RouteNetlink;

/// A device that is not removed after so long is not waited for any longer, and the next has its
/// turn. Removing one takes up to tens of milliseconds.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The devices whose removal is announced or under way.
#[derive(Debug, Default)]
struct Removals {
    open: Mutex<BTreeSet<u32>>,
    fewer: Condvar,
}

impl Removals {
    fn open(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a device is removed; false if that takes too long.
    fn wait_for(&self, index: u32) -> bool {
        let waiting = self.fewer.wait_timeout_while(self.open(), TIMEOUT, |open| open.contains(&index));
        !waiting.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Removes devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remover(Arc<Removals>);

impl Remover {
    /// Announces the removal of a device by [`Remover::remove`]: from here on it counts as present.
    pub(crate) fn announce(&self, index: u32) {
        self.0.open().insert(index);
    }

    /// Whether a device's removal is announced or under way.
    pub(crate) fn is_removing(&self, index: u32) -> bool {
        self.0.open().contains(&index)
    }

    /// Removes a device, and waits for that, but for a limited time.
    pub(crate) fn remove(&self, index: u32) {
        self.announce(index);
        let removals = Arc::clone(&self.0);
        let begun = Builder::new().name("removing".into()).stack_size(256 << 10).spawn(move || {
            if let Err(error) = RouteNetlink::open().and_then(|mut host| host.delete_link(index)) {
                tracing::warn!(index, %error, "a lane's device could not be removed");
            }
            removals.open().remove(&index);
            removals.fewer.notify_all();
        });
        if let Err(error) = begun {
            tracing::error!(index, %error, "no thread to remove a lane's device: raise the service's limit of tasks (TasksMax)");
            self.0.open().remove(&index);
            return;
        }
        if !self.0.wait_for(index) {
            tracing::warn!(index, "a lane's device is removed later: some process is still in the midst of using it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_stays_is_waited_for_so_long_and_no_longer() {
        let remover = Remover::default();
        assert!(remover.0.wait_for(7), "its removal is not announced");
        remover.announce(7);
        assert!(remover.is_removing(7) && !remover.is_removing(8));
        let begun = std::time::Instant::now();
        assert!(!remover.0.wait_for(7));
        assert!(begun.elapsed() >= TIMEOUT);
    }
}
