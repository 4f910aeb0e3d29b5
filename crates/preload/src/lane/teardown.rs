//! The end of a lane in this process. Until it is complete, the descriptor table refers to sockets
//! of the ended lane; threads that need the table wait.

use crate::base::locked::SignalDeferral;
use crate::lane::observer::observer;
use crate::lane::{Lane, process_state};
use crate::sys;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use tickwire_lane::control::Reason;

/// Held by the thread that ends a lane, until the table shows what has become of its sockets. No
/// other thread of this process ends a lane meanwhile.
///
/// Not one of `base::locked`: the kernel clears its word in a child whose creation the library did
/// not see. Otherwise that child would wait for ever for a thread that it does not have.
pub(crate) struct Teardown {
    _holding: SignalDeferral,
}

impl Drop for Teardown {
    fn drop(&mut self) {
        process_state::ending().store(0, Release);
        sys::wake_all(process_state::ending());
    }
}

/// Waits until no thread ends a lane, and keeps it so (across fork). `None` in a signal handler
/// that interrupted the thread that ends it, because the handler cannot be deferred.
///
/// Lock order: it may be taken while the registry of `epoll` is held, because a lane may be found
/// lost there. The lane's own lock may be taken while this is held.
pub(crate) fn hold() -> Option<Teardown> {
    let holding = SignalDeferral::new();
    let (word, this) = (process_state::ending(), sys::thread());
    loop {
        match word.compare_exchange(0, this, Acquire, Relaxed) {
            Ok(_) => return Some(Teardown { _holding: holding }),
            Err(other) if other == this => return None,
            Err(other) => sys::wait_while(word, other),
        }
    }
}

/// Waits until the table shows what has become of the sockets of a lane that another thread is
/// ending.
#[cold]
pub(crate) fn await_ending() {
    drop(hold());
}

/// Whether a lane that ended for this reason did so because the service ended.
pub(crate) fn is_without_service(reason: Reason) -> bool {
    matches!(reason, Reason::Lost | Reason::Stopping)
}

/// Logs why the lane has ended, and the consequences. `connections` is how many descriptors of
/// connections were left on it.
fn say_ended(reason: Reason, connections: usize) {
    let what = match connections {
        0 => "its sockets go on with the kernel's stack",
        _ => "open connections are reset, other sockets go on with the kernel's stack",
    };
    let then = if is_without_service(reason) {
        "; new ones take the fast path when the service is back, listeners when the program is restarted"
    } else {
        ""
    };
    sys::say(&format!("the lane has ended ({reason}): {what}{then}"));
}

impl Lane {
    /// The lane is over: connections fail, and every other socket continues as its kernel socket.
    pub(crate) fn end(&self, reason: Reason) {
        if let Some(connections) = self.take_down(reason) {
            // Last, because standard error may have no reader.
            say_ended(reason, connections);
        }
    }

    /// Returns how many descriptors of connections the lane had; `None` if it was ended before.
    fn take_down(&self, reason: Reason) -> Option<usize> {
        // A handler that jumped away would leave the rest undone.
        let _holding = SignalDeferral::new();
        let ending = hold()?;
        if !self.is_over_from_now(reason) {
            return None;
        }
        let connections = (observer().ends)(self, reason);
        // Released before the registry is taken: threads that hold the registry wait for this.
        drop(ending);
        (observer().ended)();
        sys::ring(self.descriptors().1);
        // The helper closes the connection: a thread may be waiting for an answer at this moment,
        // perhaps this one.
        crate::base::wakeup_fd::ring();
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
    fn threads_wait_for_the_table_until_a_lane_has_ended_but_not_a_handler_of_the_thread_that_ends_it() {
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
                    libc::syscall(libc::SYS_exit_group, if process_state::is_stray() { 7 } else { 0 });
                }
                assert!(child > 0 && libc::waitpid(child, &raw mut status, 0) == child);
            }
            held.wait();
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
        });
    }
}
