//! The end of a lane in this process. The table of descriptors names sockets of a lane that is no more until it is done; whoever needs it waits so long.

use crate::base::locked::{Holding, Lock, Locked};
use crate::c::sys;
use crate::lane::Lane;
use crate::socket::open;
use crate::wait::epoll;
use core::cell::Cell;
use tickwire_link::control::Reason;

/// Held by the thread that ends a lane, until the table says what has become of its sockets.
static ENDING: Lock<()> = Lock::new(());

thread_local! {
    /// Whether this thread has it: a signal handler that interrupts it, because it cannot be put off, cannot wait for it.
    static MINE: Cell<bool> = const { Cell::new(false) };
}

/// Says, while it lives, that this thread has the lock.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        MINE.set(false);
    }
}

/// The lock, held: no other thread of this process is ending a lane.
pub(crate) struct Ending {
    // Dropped in this order.
    _lock: Locked<'static, ()>,
    _mine: Mine,
    /// Until the mark is off again.
    _holding: Holding,
}

/// Waits until no thread ends a lane, and keeps it so (across fork). `None` in a signal handler that interrupted the one that does.
///
/// It may be taken with the registry of `epoll` in hand, which finds out within that a lane is lost; and with it in hand, the lane's own lock.
pub(crate) fn hold() -> Option<Ending> {
    let holding = Holding::new();
    if MINE.get() {
        return None;
    }
    let lock = ENDING.lock();
    MINE.set(true);
    Some(Ending { _lock: lock, _mine: Mine, _holding: holding })
}

/// Waits until the table says what has become of the sockets of a lane that another thread is ending.
#[cold]
pub(crate) fn await_ending() {
    drop(hold());
}

impl Lane {
    /// The lane is over: connections fail, everything else goes on as what its kernel socket is.
    pub(crate) fn end(&self, reason: Reason) {
        if self.take_down(reason) {
            // At last, because nobody may be reading it.
            open::say_ended(reason);
        }
    }

    /// Says whether it has not been done before.
    fn take_down(&self, reason: Reason) -> bool {
        // A handler that jumped away would leave the rest undone.
        let _holding = Holding::new();
        let Some(mut ending) = hold() else { return false };
        if !self.is_over_from_now(reason) {
            return false;
        }
        open::lane_ended(self, reason, &mut ending);
        // Before the registry, with which in hand others wait for this.
        drop(ending);
        epoll::lane_ended();
        sys::ring(self.descriptors().1);
        // It hangs up: a thread may be asking at this moment, perhaps this one.
        crate::base::bell::ring();
        true
    }

    /// This process leaves the lane, which is over for it. The service learns of it by the end of the connection.
    pub(crate) fn leave(&self, reason: Reason) {
        self.end(reason);
        self.talk.hang_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

    #[test]
    fn whoever_needs_the_table_waits_until_a_lane_has_ended_but_not_a_handler_of_the_thread_that_ends_it() {
        let (waits, done) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let ending = hold().unwrap();
            assert!(hold().is_none(), "a handler would wait for itself");
            await_ending();
            scope.spawn(|| {
                waits.store(sys::thread(), SeqCst);
                await_ending();
                assert!(done.load(SeqCst));
            });
            while !sleeps(waits.load(SeqCst)) {
                std::thread::yield_now();
            }
            done.store(true, SeqCst);
            drop(ending);
        });
        drop(hold().unwrap());
    }

    fn sleeps(thread: u32) -> bool {
        std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).is_ok_and(|stat| stat.contains(") S "))
    }
}
