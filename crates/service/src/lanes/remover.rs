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

/// So many are removed at a time. The kernel removes one device after the other, but it waits at
/// the same time for the last users of several.
const AT_A_TIME: usize = 4;

#[derive(Debug, Default)]
struct Open {
    /// The devices whose removal is announced or under way.
    devices: BTreeSet<u32>,
    /// Threads that remove one.
    threads: usize,
}

#[derive(Debug, Default)]
struct Removals {
    open: Mutex<Open>,
    fewer: Condvar,
}

impl Removals {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for as long as this is so; false if that takes too long.
    fn wait_while(&self, is_so: impl Fn(&Open) -> bool) -> bool {
        let waiting = self.fewer.wait_timeout_while(self.open(), TIMEOUT, |open| is_so(open));
        !waiting.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// A device is removed.
    fn end(&self, index: u32) {
        let mut open = self.open();
        open.devices.remove(&index);
        open.threads -= 1;
        drop(open);
        self.fewer.notify_all();
    }
}

/// Removes devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remover(Arc<Removals>);

impl Remover {
    /// Announces the removal of a device by [`Remover::begin`]: from here on it counts as present.
    pub(crate) fn announce(&self, index: u32) {
        self.0.open().devices.insert(index);
    }

    /// Whether a device's removal is announced or under way.
    pub(crate) fn is_removing(&self, index: u32) -> bool {
        self.0.open().devices.contains(&index)
    }

    /// Begins to remove a device: `before` runs first, and `held` is dropped at the end. If several
    /// others are being removed, waits for one of them, but for a limited time.
    pub(crate) fn begin(&self, index: u32, before: impl FnOnce() + Send + 'static, held: impl Send + 'static) {
        self.announce(index);
        if !self.0.wait_while(|open| open.threads >= AT_A_TIME) {
            tracing::warn!("devices of lanes are removed later: some process is still in the midst of using them");
        }
        let removals = Arc::clone(&self.0);
        self.0.open().threads += 1;
        let begun = Builder::new().name("removing".into()).stack_size(256 << 10).spawn(move || {
            before();
            if let Err(error) = RouteNetlink::open().and_then(|mut host| host.delete_link(index)) {
                tracing::warn!(index, %error, "a lane's device could not be removed");
            }
            drop(held);
            removals.end(index);
        });
        if let Err(error) = begun {
            tracing::error!(index, %error, "no thread to remove a lane's device: raise the service's limit of tasks (TasksMax)");
            self.0.end(index);
        }
    }

    /// Waits until all devices are removed whose removal has begun, but for a limited time.
    pub(crate) fn wait(&self) {
        if !self.0.wait_while(|open| open.threads > 0) {
            let left = self.0.open().threads;
            tracing::warn!(
                left,
                "devices of lanes are removed later: some process is still in the midst of using them"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    /// No device has this index.
    const NONE: u32 = i32::MAX as u32;

    #[test]
    fn several_are_removed_at_a_time_and_one_that_stays_is_waited_for_so_long() {
        let remover = Remover::default();
        let (end, ends) = channel::<()>();
        let ends = Arc::new(Mutex::new(ends));
        let begun = Instant::now();
        for number in 0..AT_A_TIME as u32 {
            let ends = Arc::clone(&ends);
            remover.begin(
                NONE - number,
                move || {
                    let _ = ends.lock().unwrap_or_else(PoisonError::into_inner).recv();
                },
                (),
            );
        }
        assert!(begun.elapsed() < TIMEOUT && remover.is_removing(NONE) && !remover.is_removing(7));
        // All threads are taken.
        let another = NONE - AT_A_TIME as u32;
        remover.begin(another, || (), ());
        assert!(begun.elapsed() >= TIMEOUT);
        drop(end);
        remover.wait();
        assert!(!remover.is_removing(NONE) && !remover.is_removing(another));
    }
}
