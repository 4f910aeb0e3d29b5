//! Exports that replace the program: the exec family.

use super::export;
use super::variadic::{VariadicArguments, variadic};
use crate::process::exec;
use crate::sys::real;
use core::ffi::{CStr, c_char, c_int};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

pub(super) type Strings = *const *const c_char;

/// What a program needs to take its sockets over: this library, and the service's address. As they
/// were when this program began.
static NEEDED: OnceLock<Vec<CString>> = OnceLock::new();

/// Stores them, before the program can change its environment.
pub(super) fn remember_environment() {
    NEEDED.get_or_init(|| {
        let names = [OsStr::from_bytes(b"LD_PRELOAD"), OsStr::from_bytes(b"TICKWIRE_SOCKET")];
        let entry = |name: &&OsStr| {
            let value = std::env::var_os(name)?;
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
        };
        names.iter().filter_map(entry).collect()
    });
}

/// An environment with one more entry, for a program that inherits sockets, and with the entries it
/// needs for that, if the program that starts it has left them out. The list is valid for as long
/// as `envp` and `addition`.
///
/// # Safety
/// `envp` is null or a terminated list.
pub(super) unsafe fn extended(envp: Strings, addition: &CStr) -> Vec<*const c_char> {
    let mut list = Vec::new();
    let mut at = envp;
    let mut missing: Vec<&CString> = NEEDED.get().map(|all| all.iter().collect()).unwrap_or_default();
    // SAFETY: a terminated list of strings by the caller's promise.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            list.push(*at);
            let name = CStr::from_ptr(*at).to_bytes().split(|&byte| byte == b'=').next();
            missing.retain(|entry| entry.as_bytes().split(|&byte| byte == b'=').next() != name);
            at = at.add(1);
        }
    }
    list.extend(missing.iter().map(|entry| entry.as_ptr()));
    list.push(addition.as_ptr());
    list.push(core::ptr::null());
    list
}

unsafe extern "C" {
    /// The present environment.
    pub(super) static environ: Strings;
}

/// Runs an exec with an environment that names the lane for the new program.
///
/// # Safety
/// `envp` is null or a terminated list.
unsafe fn with_environment(envp: Strings, run: impl FnOnce(Strings) -> c_int) -> c_int {
    let mut addition = None;
    let _ = super::caught(|| {
        addition = exec::before().and_then(|text| CString::new(text).ok());
        Ok(())
    });
    let continues = addition.is_some();
    let run = |envp| {
        let closed = super::caught(|| Ok(exec::now(continues))).ok().flatten();
        let done = run(envp);
        let before = crate::sys::errno::get();
        exec::failed(closed);
        crate::sys::errno::set(before);
        done
    };
    let Some(addition) = addition else { return run(envp) };
    // SAFETY: by the caller's promise.
    let list = unsafe { extended(envp, &addition) };
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

/// The arguments of an exec that lists them, up to the null that ends them.
///
/// # Safety
/// The remaining arguments are strings, and a null ends them.
unsafe fn listed(arguments: &mut VariadicArguments) -> Vec<*const c_char> {
    let mut list = Vec::new();
    loop {
        // SAFETY: by the caller's promise.
        let next = unsafe { arguments.next() } as *const c_char;
        list.push(next);
        if next.is_null() {
            return list;
        }
    }
}

variadic! {
    /// `execl(3)`.
    fn execl => run_execl;
    /// `execlp(3)`.
    fn execlp => run_execlp;
    /// `execle(3)`.
    fn execle => run_execle;
}

unsafe extern "C" fn run_execl(mut arguments: VariadicArguments) -> c_int {
    // SAFETY: the program's arguments: a path, strings, null.
    unsafe {
        let path = arguments.next() as *const c_char;
        execv(path, listed(&mut arguments).as_ptr())
    }
}

unsafe extern "C" fn run_execlp(mut arguments: VariadicArguments) -> c_int {
    // SAFETY: as above.
    unsafe {
        let file = arguments.next() as *const c_char;
        execvp(file, listed(&mut arguments).as_ptr())
    }
}

unsafe extern "C" fn run_execle(mut arguments: VariadicArguments) -> c_int {
    // SAFETY: as above, and the environment after the null.
    unsafe {
        let path = arguments.next() as *const c_char;
        let argv = listed(&mut arguments);
        let envp = arguments.next() as Strings;
        execve(path, argv.as_ptr(), envp)
    }
}
