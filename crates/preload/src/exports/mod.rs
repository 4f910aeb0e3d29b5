//! The top of the library: the functions that the dynamic linker sees. Unsafe code is here and in
//! `sys` only.
//!
//! An exported function decides by one lookup in the descriptor table whether the library handles
//! the call. If not, the C library's function is called as if this library were not there.
//! Otherwise the C arguments become safe values, and the result becomes a return value and `errno`.
//! A panic inside never leaves the library: the call fails with `EIO` and the reason is logged.
//! Only the unwinding of a cancelled thread may pass (see `cancel`).
//!
//! | file | purpose |
//! |---|---|
//! | `socket` | creating, naming, connecting; options |
//! | `data` | `read` and `write`, `send` and `recv`, in all their forms |
//! | `message` | the program's messages (`msghdr`), and calls that move them |
//! | `send_file`, `splice` | `sendfile`; `splice` between a pipe and a connection |
//! | `waiting` | `poll`, `select`, `epoll` |
//! | `descriptor` | `close`, `dup`, `fcntl`, `ioctl` |
//! | `stdio` | C's streams over sockets of ours |
//! | `process`, `exec`, `spawn` | start, fork and end of processes; programs that are started |
//! | `signal` | handlers that interrupt a thread inside the lane |
//! | `cancel` | `pthread_cancel` of a thread that is in a call of this library |
//! | `variadic` | functions with a variable number of arguments |
//! | `direct`, `handle` | `syscall`; functions that are looked up in the C library by a handle |
//! | `observer` | what happens above when a claim or the lane is lost: `lane::Observer` |
//! | `counting` | allocations of a thread, for tests |

pub(crate) mod cancel;
#[cfg(any(test, fuzzing))]
pub(crate) mod counting;
pub(crate) mod data;
pub(crate) mod descriptor;
mod direct;
mod exec;
mod handle;
mod message;
pub(crate) mod observer;
mod process;
pub(crate) mod send_file;
pub(crate) mod signal;
pub(crate) mod socket;
mod spawn;
pub(crate) mod splice;
mod stdio;
mod variadic;
pub(crate) mod waiting;

use crate::sys::cancellation;
use crate::sys::errno::{self, CANCELLED, Errno, Result};
use core::ffi::c_int;
use libc::ssize_t;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Declares functions under their C names; in this crate's own tests, and under the fuzzer, they
/// are not exported.
macro_rules! export {
    ($( $(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block )*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[cfg_attr(not(any(test, fuzzing)), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret $body
    )*};
}
pub(crate) use export;

/// Runs this library's part of a call; panics become `EIO`.
fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Errno(libc::EIO)))
}

/// The result of a call that returns a length. `errno` changes on failure only.
pub(crate) fn answer_len(call: impl FnMut() -> Result<usize>) -> ssize_t {
    match finished(call) {
        Some(n) => n as ssize_t,
        None => -1,
    }
}

/// The result of a call that returns a number. `errno` changes on failure only.
pub(crate) fn answer(call: impl FnMut() -> Result<c_int>) -> c_int {
    finished(call).unwrap_or(-1)
}

/// Runs a call to its end and sets `errno`. A thread that was cancelled meanwhile ends here, where
/// no lock is held.
fn finished<T: Copy>(mut call: impl FnMut() -> Result<T>) -> Option<T> {
    let before = errno::get();
    loop {
        let shield = cancellation::begin();
        let done = caught(&mut call);
        cancellation::end(shield);
        match done {
            Ok(answer) => {
                errno::set(before);
                return Some(answer);
            }
            // If this returns, another thread had this thread's number. The call, which has done
            // nothing yet, starts again.
            Err(CANCELLED) => cancellation::act(),
            Err(Errno(code)) => {
                errno::set(code);
                return None;
            }
        }
    }
}
