//! Exports and hooks about processes: start, fork, end.

use super::{export, real};
use crate::process::{self, ForkLocks};
use crate::{lane, open};
use core::ffi::c_int;
use libc::pid_t;
use std::cell::RefCell;

thread_local! {
    /// The locks held by the thread that forks, between the two sides of the fork.
    static LOCKS: RefCell<Option<ForkLocks<'static>>> = const { RefCell::new(None) };
}

extern "C" fn prepare() {
    let _ = super::caught(|| {
        if let Some(lane) = lane::current().filter(|_| open::any()) {
            process::before_fork(lane);
            LOCKS.with(|locks| *locks.borrow_mut() = Some(process::fork_locks(lane)));
        }
        Ok(())
    });
}

extern "C" fn parent() {
    let _ = super::caught(|| {
        LOCKS.with(|locks| drop(locks.borrow_mut().take()));
        Ok(())
    });
}

extern "C" fn child() {
    let _ = super::caught(|| {
        LOCKS.with(|locks| drop(locks.borrow_mut().take()));
        if let Some(lane) = lane::current() {
            process::after_fork_in_child(lane);
        }
        Ok(())
    });
}

extern "C" fn at_exit() {
    let _ = super::caught(|| {
        process::at_exit();
        Ok(())
    });
}

/// Runs when the library is loaded, before the program.
extern "C" fn load() {
    real::resolve_all();
    // SAFETY: functions of ours that live as long as the process.
    unsafe {
        libc::pthread_atfork(Some(prepare), Some(parent), Some(child));
        libc::atexit(at_exit);
    }
    let _ = super::caught(|| {
        crate::exec::inherit();
        Ok(())
    });
}

#[cfg(not(test))]
#[used]
// SAFETY: the loader calls each entry of this section once, as a function without arguments that it needs.
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

export! {
    /// `fork(2)`. The hooks do the work, for forks inside the C library, too; here the parent learns the child's number.
    fn fork() -> pid_t {
        // SAFETY: no arguments.
        let pid = unsafe { real::fork() };
        if pid != 0 {
            let before = crate::errno::get();
            let _ = super::caught(|| {
                if let Some(lane) = lane::current() {
                    process::after_fork_in_parent(lane, pid);
                }
                Ok(())
            });
            crate::errno::set(before);
        }
        pid
    }

    /// `vfork(2)`: as `fork`, since a child that borrows its parent's memory would close the parent's sockets in our table.
    fn vfork() -> pid_t {
        // SAFETY: no arguments.
        unsafe { fork() }
    }

    /// `_exit(2)`: what was sent still arrives.
    fn _exit(status: c_int) -> ! {
        at_exit();
        // SAFETY: ends the process.
        unsafe {
            libc::syscall(libc::SYS_exit_group, status);
            core::hint::unreachable_unchecked()
        }
    }

    /// `_Exit(3)`.
    #[allow(non_snake_case, reason = "the C library's name")]
    fn _Exit(status: c_int) -> ! {
        // SAFETY: ends the process.
        unsafe { _exit(status) }
    }
}
