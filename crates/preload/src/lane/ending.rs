//! The end of a lane in this process. The table of descriptors names sockets of a lane that is no
//! more until it is done; whoever needs it waits so long.

use crate::base::locked::Holding;
use crate::c::sys;
use crate::lane::{Lane, here};
use crate::socket::close;
use crate::wait::epoll;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use tickwire_link::control::Reason;

/// Held by the thread that ends a lane, until the table says what has become of its sockets: no
/// other thread of this process does.
///
/// Not one of `base::locked`: its word is emptied in a child of which we did not hear, which would
/// wait for ever for a thread that it does not have.
pub(crate) struct Ending {
    _holding: Holding,
}

impl Drop for Ending {
    fn drop(&mut self) {
        here::ending().store(0, Release);
        sys::wake_all(here::ending());
    }
}

/// Waits until no thread ends a lane, and keeps it so (across fork). `None` in a signal handler
/// that interrupted the one that does, because it cannot be put off.
///
/// It may be taken with the registry of `epoll` in hand, which finds out within that a lane is
/// lost; and with it in hand, the lane's own lock.
pub(crate) fn hold() -> Option<Ending> {
    let holding = Holding::new();
    let (word, this) = (here::ending(), sys::thread());
    loop {
        match word.compare_exchange(0, this, Acquire, Relaxed) {
            Ok(_) => return Some(Ending { _holding: holding }),
            Err(other) if other == this => return None,
            Err(other) => sys::wait_while(word, other),
        }
    }
}

/// Waits until the table says what has become of the sockets of a lane that another thread is
/// ending.
#[cold]
pub(crate) fn await_ending() {
    drop(hold());
}

impl Lane {
    /// The lane is over: connections fail, everything else goes on as what its kernel socket is.
    pub(crate) fn end(&self, reason: Reason) {
        if let Some(connections) = self.take_down(reason) {
            // At last, because nobody may be reading it.
            close::say_ended(reason, connections);
        }
    }

    /// How many descriptors of connections it had; `None` if it has been done before.
    fn take_down(&self, reason: Reason) -> Option<usize> {
        // A handler that jumped away would leave the rest undone.
        let _holding = Holding::new();
        let mut ending = hold()?;
        if !self.is_over_from_now(reason) {
            return None;
        }
        let connections = close::lane_ended(self, reason, &mut ending);
        // Before the registry, with which in hand others wait for this.
        drop(ending);
        epoll::lane_ended();
        sys::ring(self.descriptors().1);
        // It hangs up: a thread may be asking at this moment, perhaps this one.
        crate::base::bell::ring();
        Some(connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::fd::{Entry, TABLE};
    use crate::testing;
    use core::ffi::c_int;
    use std::sync::Barrier;
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
            testing::until_it_sleeps(&waits, || false);
            done.store(true, SeqCst);
            drop(ending);
        });
        drop(hold().unwrap());
    }

    #[test]
    fn whether_there_is_anything_to_tell_the_service_is_not_known_before_the_end() {
        let (asks, fd) = (AtomicU32::new(0), sys::eventfd().unwrap());
        std::thread::scope(|scope| {
            let ending = hold().unwrap();
            let asking = scope.spawn(|| {
                asks.store(sys::thread(), SeqCst);
                crate::lane::start::why_unlisted()
            });
            testing::until_it_sleeps(&asks, || asking.is_finished());
            TABLE.set(fd, Entry::Unlisted(Reason::Idle.code().into()));
            drop(ending);
            assert!(asking.join().unwrap().is_some(), "the helper would be gone when it is called");
        });
        TABLE.set(fd, Entry::Foreign);
        sys::close(fd);
    }

    #[test]
    fn a_child_of_which_we_did_not_hear_does_not_wait_for_a_thread_that_only_its_parent_has() {
        testing::lane();
        let held = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ending = hold().unwrap();
                held.wait();
                held.wait();
            });
            held.wait();
            let mut status: c_int = -1;
            // SAFETY: a fork without the C library's knowledge. The child only takes a lock of
            // ours, and is ended by a signal should it wait.
            unsafe {
                let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t;
                if child == 0 {
                    libc::alarm(20);
                    await_ending();
                    libc::syscall(libc::SYS_exit_group, if here::is_stray() { 7 } else { 0 });
                }
                assert!(child > 0 && libc::waitpid(child, &raw mut status, 0) == child);
            }
            held.wait();
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
        });
    }
}
