//! The lane's own descriptors: at numbers that the program cannot ask for, and entered in the table
//! so that its `close` spares them.
//!
//! A descriptor's number may lie above the soft limit, if that was higher when it was made; `dup2`
//! to such a number fails. Only where the hard limit leaves no room are they at the highest numbers
//! below, where they conflict with a program that wants exactly these.

use crate::base::locked::SignalDeferral;
use crate::sys;
use crate::sys::errno::Result;
use crate::table::fd::{Entry, TABLE};
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Where the lane's descriptors begin, counted down from the limit of this process.
const BELOW_LIMIT: c_int = 128;

/// The thread that moves or closes a descriptor of the lane, or prevents that; 0 if none does.
static STILL: AtomicU32 = AtomicU32::new(0);

/// While it lives, no other thread moves or closes a descriptor of the lane: the table and the open
/// descriptors agree.
pub(crate) struct Still {
    _holding: SignalDeferral,
}

impl Drop for Still {
    fn drop(&mut self) {
        STILL.store(0, Release);
        sys::wake_all(&STILL);
    }
}

/// Waits until no descriptor of the lane is being moved, and keeps it so. Also across fork, which
/// would otherwise leave the child a descriptor that is not entered, and a raised limit. `None` in
/// a signal handler that interrupted the thread that moves them, because the handler cannot be
/// deferred.
///
/// The last in the lock order: no thread takes another lock while it holds this one. Not one of
/// `base::locked`: a child whose creation the library did not see closes its parent's descriptors,
/// and would wait for ever for a thread that it does not have.
pub(crate) fn still() -> Option<Still> {
    let holding = SignalDeferral::new();
    let this = sys::thread();
    loop {
        match STILL.compare_exchange(0, this, Acquire, Relaxed) {
            Ok(_) => return Some(Still { _holding: holding }),
            Err(other) if other == this => return None,
            Err(other) if sys::thread_lives(other) => sys::wait_while(&STILL, other),
            Err(other) => {
                let _ = STILL.compare_exchange(other, 0, Relaxed, Relaxed);
            }
        }
    }
}

/// Moves a descriptor to a high number, close-on-exec, and protects it.
pub(crate) fn keep(fd: c_int) -> Result<c_int> {
    // A handler that jumped away in between would leave the limit raised.
    let _holding = SignalDeferral::new();
    let _still = still();
    let moved = high_duplicate(fd).or_else(|_| sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3));
    sys::close(fd);
    let moved = moved?;
    TABLE.set(moved, Entry::Lane);
    Ok(moved)
}

/// A duplicate at one of the numbers for the lane's descriptors.
fn high_duplicate(fd: c_int) -> Result<c_int> {
    let limit = sys::descriptor_limit();
    let floor = (limit - BELOW_LIMIT).max(limit / 2);
    sys::duplicate_above_limit(fd).or_else(|_| sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor))
}

/// Has the kernel enlarge the process's descriptor table now to what the lane's descriptors need.
/// The kernel does it within a few microseconds while the process has one thread. Later, with
/// several, it waits for an RCU grace period (`expand_fdtable`), which takes 10 ms and more.
pub(crate) fn make_room() {
    let _holding = SignalDeferral::new();
    let _still = still();
    let Ok(event) = sys::eventfd() else { return };
    if let Ok(high) = high_duplicate(event) {
        sys::close(high);
    }
    sys::close(event);
}

/// As [`make_room`], in every program, whether or not it will have a lane. Not where the table
/// would be large (8 bytes for each possible descriptor), nor under a filter of system calls, which
/// may kill the program for one of these.
pub(crate) fn make_room_early() {
    const MOST: c_int = 32_768;
    if sys::descriptor_limit() <= MOST && !sys::is_filtered() {
        make_room();
    }
}

/// Closes a protected descriptor.
pub(crate) fn release(fd: c_int) {
    let _still = still();
    if TABLE.replace(fd, Entry::Lane, Entry::Foreign) {
        sys::close(fd);
    }
}

/// Closes a descriptor of ours, protected or not.
pub(crate) fn discard(fd: c_int) {
    let _still = still();
    TABLE.set(fd, Entry::Foreign);
    sys::close(fd);
}

/// How many descriptors the kernel's table of this process would have room for without the lane's,
/// which are at high numbers.
pub(crate) fn room_of_program() -> c_int {
    // A descriptor that is being moved would count as the program's highest, and a set would be
    // read far beyond its end.
    let _still = still();
    let is_programs = |&fd: &c_int| TABLE.get(fd) != Entry::Lane;
    let highest = match sys::open_descriptors() {
        Some(open) => open.filter(is_programs).max(),
        // Without `/proc` each is looked at, which takes some milliseconds.
        None => {
            let is_open = |&fd: &c_int| sys::fcntl(fd, libc::F_GETFD, 0).is_ok();
            (0..sys::descriptor_limit()).rev().filter(is_programs).find(is_open)
        }
    };
    room_for(highest.unwrap_or(0))
}

/// The size of the kernel's table with this descriptor (`alloc_fdtable` of Linux).
fn room_for(highest: c_int) -> c_int {
    const SMALLEST: c_int = 64;
    const STEP: u32 = 128;
    if highest < SMALLEST { SMALLEST } else { ((highest as u32 / STEP + 1).next_power_of_two() * STEP) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_table_is_as_large_as_it_would_be_without_us() {
        let sizes = [0, 63, 64, 127, 128, 255, 256, 1023, 1024, 20_000].map(room_for);
        assert_eq!(sizes, [64, 64, 128, 128, 256, 256, 512, 1024, 2048, 32_768]);
        let kept = keep(sys::eventfd().unwrap()).unwrap();
        let room = room_of_program();
        assert!(room < kept, "{room}, ours is {kept}");
        release(kept);
    }

    #[test]
    fn one_of_ours_on_its_way_is_not_taken_for_the_programs() {
        let looks = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let moving = still().unwrap();
            assert!(still().is_none(), "a handler would wait for itself");
            // As `keep` does.
            let bell = sys::eventfd().unwrap();
            let moved = sys::duplicate_above_limit(bell)
                .or_else(|_| sys::fcntl(bell, libc::F_DUPFD_CLOEXEC, sys::descriptor_limit() - BELOW_LIMIT))
                .unwrap();
            let looking = scope.spawn(|| {
                looks.store(sys::thread(), Release);
                room_of_program()
            });
            crate::testing::until_it_sleeps(&looks, || looking.is_finished());
            TABLE.set(moved, Entry::Lane);
            drop(moving);
            let room = looking.join().unwrap();
            assert!(room < moved, "{room}, ours is {moved}");
            release(moved);
            sys::close(bell);
        });
    }

    #[test]
    fn no_fork_comes_while_one_of_ours_is_on_its_way() {
        let forking = crate::process::lane_processes::locks(|_| ());
        assert_eq!(STILL.load(Relaxed), sys::thread());
        drop(forking);
        assert_ne!(STILL.load(Relaxed), sys::thread());
    }

    #[test]
    fn a_thread_that_only_the_parent_has_is_not_waited_for() {
        let mut status: c_int = -1;
        let held = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _still = still().unwrap();
                held.wait();
                held.wait();
            });
            held.wait();
            // SAFETY: a fork without the C library's knowledge. The child only takes a lock of
            // ours, and is ended by a signal should it wait.
            unsafe {
                let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t;
                if child == 0 {
                    libc::alarm(20);
                    libc::syscall(libc::SYS_exit_group, if still().is_some() { 7 } else { 0 });
                }
                assert!(child > 0 && libc::waitpid(child, &raw mut status, 0) == child);
            }
            held.wait();
        });
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
    }

    #[test]
    fn our_descriptors_are_beyond_the_programs_reach_and_its_limit_stays() {
        // Other threads must not move a descriptor while the limit is lower.
        let _still = still();
        let limit = sys::descriptor_limit();
        sys::set_descriptor_limit(500).unwrap();
        let kept = keep(sys::eventfd().unwrap()).unwrap();
        assert!(kept >= 500, "{kept}");
        assert_eq!(sys::descriptor_limit(), 500);
        // SAFETY: plain numbers.
        assert_eq!(unsafe { crate::sys::real::dup2(2, kept) }, -1);
        sys::ring(kept);
        release(kept);
        sys::set_descriptor_limit(limit).unwrap();
    }
}
