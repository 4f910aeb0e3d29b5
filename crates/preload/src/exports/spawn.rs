//! Exports that start a program in a new process: `posix_spawn` and its file actions.

use super::exec::{Strings, extended};
use super::export;
use crate::process::spawn;
use crate::sys::real;
use core::ffi::{c_char, c_int};
use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use std::ffi::CString;

/// Starts a program with an environment that names the lane, if it inherits sockets of ours.
///
/// # Safety
/// `envp` is null or a terminated list, `pid` null or a place for a number.
unsafe fn with_share(
    pid: *mut pid_t,
    actions: *const posix_spawn_file_actions_t,
    envp: Strings,
    run: impl FnOnce(*mut pid_t, Strings) -> c_int,
) -> c_int {
    let mut share = None;
    let before = crate::sys::errno::get();
    let _ = super::caught(|| {
        share = spawn::before(actions as usize);
        Ok(())
    });
    crate::sys::errno::set(before);
    let Some((share, addition)) = share else { return run(pid, envp) };
    let addition = CString::new(addition).unwrap_or_default();
    // SAFETY: by the caller's promise.
    let list = unsafe { extended(envp, &addition) };
    let mut child = 0;
    let error = run(&raw mut child, list.as_ptr());
    if error == 0 && !pid.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { *pid = child };
    }
    let before = crate::sys::errno::get();
    let _ = super::caught(|| {
        share.settle((error == 0).then_some(child as u32));
        Ok(())
    });
    crate::sys::errno::set(before);
    error
}

/// Records what happens to a list of file actions.
fn note(done: c_int, work: impl FnOnce()) -> c_int {
    if done == 0 {
        let _ = super::caught(|| {
            work();
            Ok(())
        });
    }
    done
}

export! {
    /// `posix_spawn(3)`.
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, argv: Strings, envp: Strings) -> c_int {
        // SAFETY: the program's arguments; the environment is the program's and one more.
        unsafe { with_share(pid, actions, envp, |pid, envp| real::posix_spawn(pid, path, actions, attributes, argv, envp)) }
    }

    /// `posix_spawnp(3)`.
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, argv: Strings, envp: Strings) -> c_int {
        // SAFETY: as above.
        unsafe { with_share(pid, actions, envp, |pid, envp| real::posix_spawnp(pid, file, actions, attributes, argv, envp)) }
    }

    /// `posix_spawn_file_actions_init(3)`.
    fn posix_spawn_file_actions_init(actions: *mut posix_spawn_file_actions_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        note(unsafe { real::posix_spawn_file_actions_init(actions) }, || spawn::gives_nothing(actions as usize))
    }

    /// `posix_spawn_file_actions_destroy(3)`.
    fn posix_spawn_file_actions_destroy(actions: *mut posix_spawn_file_actions_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        note(unsafe { real::posix_spawn_file_actions_destroy(actions) }, || spawn::gives_nothing(actions as usize))
    }

    /// `posix_spawn_file_actions_adddup2(3)`.
    fn posix_spawn_file_actions_adddup2(actions: *mut posix_spawn_file_actions_t, fd: c_int, new: c_int) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        note(unsafe { real::posix_spawn_file_actions_adddup2(actions, fd, new) }, || spawn::gives(actions as usize, fd))
    }
}
