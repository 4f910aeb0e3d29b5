//! Exports that replace the program: the exec family with an explicit or the present environment. (The forms with a variable number of
//! arguments, `execl` and its kin, go to the C library; sockets do not outlive them.)

use super::{export, real};
use crate::exec;
use core::ffi::{c_char, c_int};
use std::ffi::CString;

type Strings = *const *const c_char;

unsafe extern "C" {
    /// The present environment.
    static environ: Strings;
}

/// Runs an exec with an environment that tells the new program of its lane.
///
/// # Safety
/// `envp` is null or a terminated list.
unsafe fn with_environment(envp: Strings, run: impl FnOnce(Strings) -> c_int) -> c_int {
    let mut addition = None;
    let _ = super::caught(|| {
        addition = exec::before().and_then(|text| CString::new(text).ok());
        Ok(())
    });
    let run = |envp| {
        let _ = super::caught(|| {
            exec::now();
            Ok(())
        });
        let done = run(envp);
        let before = crate::errno::get();
        exec::failed();
        crate::errno::set(before);
        done
    };
    let Some(addition) = addition else { return run(envp) };
    let mut list = Vec::new();
    let mut at = envp;
    // SAFETY: a terminated list by the caller's promise.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            list.push(*at);
            at = at.add(1);
        }
    }
    list.push(addition.as_ptr());
    list.push(core::ptr::null());
    run(list.as_ptr())
}

export! {
    /// `execve(2)`.
    fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
        // SAFETY: the program's arguments; the environment is the program's and one more.
        unsafe { with_environment(envp, |envp| real::execve(path, argv, envp)) }
    }

    /// `execv(3)`.
    fn execv(path: *const c_char, argv: Strings) -> c_int {
        // SAFETY: as above, with the present environment.
        unsafe { with_environment(environ, |envp| real::execve(path, argv, envp)) }
    }

    /// `execvp(3)`.
    fn execvp(file: *const c_char, argv: Strings) -> c_int {
        // SAFETY: as above.
        unsafe { with_environment(environ, |envp| real::execvpe(file, argv, envp)) }
    }

    /// `execvpe(3)`.
    fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
        // SAFETY: as above.
        unsafe { with_environment(envp, |envp| real::execvpe(file, argv, envp)) }
    }

    /// `fexecve(3)`.
    fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int {
        // SAFETY: as above.
        unsafe { with_environment(envp, |envp| real::fexecve(fd, argv, envp)) }
    }

    /// `execveat(2)`.
    fn execveat(dirfd: c_int, path: *const c_char, argv: Strings, envp: Strings, flags: c_int) -> c_int {
        // SAFETY: as above.
        unsafe { with_environment(envp, |envp| real::execveat(dirfd, path, argv, envp, flags)) }
    }
}
