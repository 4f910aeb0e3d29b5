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
    /// Those of them that a thread is removing and that have not taken too long yet.
    awaited: BTreeSet<u32>,
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

    /// Waits until at most so many devices are awaited. Those that take too long are not awaited
    /// any longer.
    fn wait_for(&self, most: usize) {
        let waiting = self.fewer.wait_timeout_while(self.open(), TIMEOUT, |open| open.awaited.len() > most);
        let (mut open, result) = waiting.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            let devices = std::mem::take(&mut open.awaited);
            tracing::warn!(
                ?devices,
                "devices of lanes are removed later: some process is still in the midst of using them"
            );
        }
    }
}

/// A removal that is under way; it is over when this is dropped.
struct Running {
    removals: Arc<Removals>,
    index: u32,
}

impl Running {
    fn begin(removals: &Arc<Removals>, index: u32) -> Self {
        removals.open().awaited.insert(index);
        Self { removals: Arc::clone(removals), index }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut open = self.removals.open();
        open.devices.remove(&self.index);
        open.awaited.remove(&self.index);
        drop(open);
        self.removals.fewer.notify_all();
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

    /// The devices whose removal is announced or under way.
    pub(crate) fn removing(&self) -> Vec<u32> {
        self.0.open().devices.iter().copied().collect()
    }

    /// Begins to remove a device: `before` runs first, and `held` is dropped at the end. If several
    /// others are being removed, waits for one of them, but for a limited time.
    pub(crate) fn begin(&self, index: u32, before: impl FnOnce() + Send + 'static, held: impl Send + 'static) {
        self.announce(index);
        self.0.wait_for(AT_A_TIME - 1);
        let job = Arc::new(Mutex::new(Some((before, held, Running::begin(&self.0, index)))));
        let taken = |job: &Mutex<Option<_>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
        let own = Arc::clone(&job);
        let begun = Builder::new().name("removing".into()).stack_size(256 << 10).spawn(move || {
            let Some((before, held, running)) = taken(&own) else { return };
            before();
            if let Err(error) = RouteNetlink::open().and_then(|mut host| host.delete_link(index)) {
                tracing::warn!(index, %error, "a lane's device could not be removed");
            }
            drop((held, running));
        });
        if let Err(error) = begun {
            tracing::error!(index, %error, "no thread to remove a lane's device: raise the service's limit of tasks (TasksMax)");
            // The device goes with its last descriptor, which the program may have.
            if let Some((before, held, running)) = taken(&job) {
                before();
                drop((held, running));
            }
        }
    }

    /// Waits until all devices are removed whose removal has begun, but for a limited time.
    pub(crate) fn wait(&self) {
        self.0.wait_for(0);
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
        // One of them would have to end. Once it has taken too long, no other waits for it.
        let another = NONE - AT_A_TIME as u32;
        remover.begin(another, || (), ());
        assert!(begun.elapsed() >= TIMEOUT);
        let begun = Instant::now();
        remover.begin(another - 1, || (), ());
        remover.wait();
        assert!(begun.elapsed() < TIMEOUT);
        assert_eq!(remover.removing().len(), AT_A_TIME);
        drop(end);
        while !remover.removing().is_empty() {
            std::thread::yield_now();
        }
    }
}
