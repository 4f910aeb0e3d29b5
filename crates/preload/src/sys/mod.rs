//! The bottom of the library: the real C library, the system calls that this library makes for
//! itself behind safe functions, the program's memory, and the mapped memory of a lane. Nothing
//! here uses this library's own exports but `syscall`, which passes on all system calls that are
//! made here.
//!
//! | module | purpose |
//! |---|---|
//! | `real` | the C library's functions that this library interposes |
//! | `errno` | the C library's error number, and error numbers as results of calls |
//! | `cancellation` | threads that were cancelled |
//! | `guarded` | copies from and to the program's memory, where a bad pointer is an error |
//! | `iov`, `name` | lists of buffers and socket addresses in the program's memory |
//! | `scheduling` | scheduling policies and sets of processors, as settings name them |
//! | `shared_stack` | the stack in the mapped memory of a lane, and the lock around it |
//! | `wire` | where the stack's packets come from and go to |
//! | the others | system calls, one file for each kind; all are used through this module |

pub(crate) mod cancellation;
mod clock;
mod descriptor;
mod epoll;
pub(crate) mod errno;
pub(crate) mod guarded;
pub(crate) mod inbox;
pub(crate) mod iov;
mod message;
pub(crate) mod name;
mod option;
mod process;
pub(crate) mod real;
mod schedule;
pub(crate) mod scheduling;
pub(crate) mod shared_stack;
mod signal;
mod socket;
mod waiting;
pub(crate) mod wire;

pub(crate) use clock::{now, timespec};
#[cfg(test)]
pub(crate) use descriptor::set_descriptor_limit;
pub(crate) use descriptor::{
    TABLE_LIMIT, borrowed, close, descriptor_limit, duplicate_above_limit, fcntl, memory_file, open_descriptors, owned,
    replace, set_nonblocking, status, too_many_descriptors,
};
pub(crate) use epoll::{epoll_create, epoll_ctl, epoll_take};
pub(crate) use message::{ControlBuffer, Extras, receive, send};
pub(crate) use option::{
    congestion, detach_filter, linger, option, option_bytes, refused_by_kernel, set_option, set_option_bytes,
};
pub(crate) use process::{
    children_are_elsewhere, is_administrator, is_filtered, may_filter_calls, parent_is_elsewhere, process,
    process_lives, thread, thread_lives, thread_name, wipe_in_children,
};
pub(crate) use schedule::{
    affinity, become_ordinary, become_real_time, current_processor, is_granted_real_time, is_ordinary, open_to_read,
    processors_online, read_from_begin, real_time_priority, set_affinity, set_policy,
};
pub(crate) use signal::{
    FAULTS, Signals, block_signals, handlers_restart, raise_pipe, restore_signals, unblock_signals, waiting_signals,
};
pub(crate) use socket::{accept, bind, connect, listen, namespace, shutdown, socket, socket_inode, socket_name};
pub(crate) use waiting::{NO_FD, drain, eventfd, ppoll, readable, ring, ring_one, wait_while, wake_all};

use crate::sys::errno::{Errno, Result};
use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The target of a pointer to something that is never freed.
pub(crate) fn leaked<T>(at: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: such pointers are null or come from `Box::leak`.
    unsafe { at.load(Ordering::Acquire).as_ref() }
}

/// Sets the thread's error number.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library gives every thread its own valid place.
    unsafe { *libc::__errno_location() = value };
}

fn check(answer: c_int) -> Result<c_int> {
    if answer < 0 { Err(Errno::last()) } else { Ok(answer) }
}

/// The result of a direct system call. Calls that wait are direct: the C library's are cancellation
/// points, and there must be none inside the lane (see `exports::cancel`).
pub(super) fn called(answer: libc::c_long) -> Result<usize> {
    usize::try_from(answer).map_err(|_| Errno::last())
}

/// The size of the kernel's signal set, in bytes.
const KERNEL_SIGNALS: usize = 8;

/// Random words from the kernel.
pub(crate) fn random() -> Result<[u64; 4]> {
    let mut words = [0u64; 4];
    // SAFETY: as many bytes as the array has.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), size_of_val(&words), 0) };
    if got == size_of_val(&words) as isize { Ok(words) } else { Err(Errno::last()) }
}

/// Removes a variable from the environment and returns it; only while the program has one thread.
pub(crate) fn take_variable(name: &core::ffi::CStr) -> Option<String> {
    // SAFETY: a terminated name; the text is copied before the environment changes. The caller runs
    // before the program does.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        if text.is_null() {
            return None;
        }
        let copy = core::ffi::CStr::from_ptr(text).to_str().ok().map(str::to_owned);
        libc::unsetenv(name.as_ptr());
        copy
    }
}

/// Writes a line to standard error in one write.
pub(crate) fn say(text: &str) {
    let line = format!("tickwire: {text}\n");
    // SAFETY: the bytes are ours.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}
