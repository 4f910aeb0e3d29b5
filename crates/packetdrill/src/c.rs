//! The C boundary: all unsafe code of this crate, and all exported functions. C arguments become
//! safe values, results become return values and `errno`. A panic never leaves the library: the
//! call fails with `EIO`.
//!
//! This file has packetdrill's table; the calls and the access to packetdrill's memory have files
//! of their own.
//!
//! The order and the types of [`Interface`]'s fields are packetdrill's (`packetdrill.h`, `struct
//! packetdrill_interface`).
#![allow(unsafe_code)]

mod data;
mod memory;
mod network;
mod socket;
mod waiting;

use crate::errno::{Errno, Result};
use crate::machine::Machine;
use crate::setup::Setup;
use core::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_ulong, c_void};
use data::{read, readv, recv, recvfrom, recvmsg, send, sendmsg, sendto, splice, write, writev};
use libc::{epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, sockaddr, socklen_t, timeval};
use network::{gettimeofday, netdev_receive, netdev_send, usleep};
use socket::{accept, bind, close, connect, fcntl, ioctl, listen, option, pipe, setsockopt, shutdown, socket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use waiting::{epoll_create, epoll_ctl, epoll_wait, poll};

/// The host under test, for packetdrill's calls of the C library instead of its table
/// (`socket::getsockopt`).
static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(core::ptr::null_mut());

/// The table of functions that packetdrill calls. Each receives `userdata` first.
#[repr(C)]
pub(crate) struct Interface {
    userdata: *const Machine,
    free: unsafe extern "C" fn(*const Machine),
    socket: unsafe extern "C" fn(*const Machine, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(*const Machine, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: unsafe extern "C" fn(*const Machine, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(*const Machine, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(*const Machine, c_int, *const sockaddr, socklen_t) -> c_int,
    read: unsafe extern "C" fn(*const Machine, c_int, *mut c_void, usize) -> isize,
    readv: unsafe extern "C" fn(*const Machine, c_int, *const iovec, c_int) -> isize,
    recv: unsafe extern "C" fn(*const Machine, c_int, *mut c_void, usize, c_int) -> isize,
    recvfrom:
        unsafe extern "C" fn(*const Machine, c_int, *mut c_void, usize, c_int, *mut sockaddr, *mut socklen_t) -> isize,
    recvmsg: unsafe extern "C" fn(*const Machine, c_int, *mut msghdr, c_int) -> isize,
    write: unsafe extern "C" fn(*const Machine, c_int, *const c_void, usize) -> isize,
    writev: unsafe extern "C" fn(*const Machine, c_int, *const iovec, c_int) -> isize,
    send: unsafe extern "C" fn(*const Machine, c_int, *const c_void, usize, c_int) -> isize,
    sendto:
        unsafe extern "C" fn(*const Machine, c_int, *const c_void, usize, c_int, *const sockaddr, socklen_t) -> isize,
    sendmsg: unsafe extern "C" fn(*const Machine, c_int, *const msghdr, c_int) -> isize,
    fcntl: unsafe extern "C" fn(*const Machine, c_int, c_int, usize) -> c_int,
    ioctl: unsafe extern "C" fn(*const Machine, c_int, c_ulong, *mut c_int) -> c_int,
    close: unsafe extern "C" fn(*const Machine, c_int) -> c_int,
    shutdown: unsafe extern "C" fn(*const Machine, c_int, c_int) -> c_int,
    getsockopt: unsafe extern "C" fn(*const Machine, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: unsafe extern "C" fn(*const Machine, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: unsafe extern "C" fn(*const Machine, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(*const Machine, *const c_void, usize) -> c_int,
    netdev_receive: unsafe extern "C" fn(*const Machine, *mut c_void, *mut usize, *mut c_longlong) -> c_int,
    usleep: unsafe extern "C" fn(*const Machine, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(*const Machine, *mut timeval, *mut c_void) -> c_int,
    epoll_create: unsafe extern "C" fn(*const Machine, c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(*const Machine, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(*const Machine, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: unsafe extern "C" fn(*const Machine, *mut c_int) -> c_int,
    splice: unsafe extern "C" fn(*const Machine, c_int, *mut loff_t, c_int, *mut loff_t, usize, c_uint) -> isize,
}

/// Fills packetdrill's table in. Invalid flags end the process, with an error message: the
/// interface cannot return an error.
///
/// # Safety
/// `flags` is null or a C string, `interface` a table that may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    let flags = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: a C string, by the caller's promise.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
    };
    let machine = catch_unwind(|| Setup::parse(&flags).map(Machine::new));
    let machine = match machine {
        Ok(Ok(machine)) => Box::into_raw(Box::new(machine)).cast_const(),
        Ok(Err(wrong)) => {
            eprintln!("tickwire: --so_flags: {wrong}");
            std::process::exit(2);
        }
        Err(_) => std::process::abort(),
    };
    MACHINE.store(machine.cast_mut(), Ordering::Release);
    let table = Interface {
        userdata: machine,
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt: option,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller's table may be written; what it held is plain data.
    unsafe { interface.write(table) };
}

unsafe extern "C" fn free(machine: *const Machine) {
    MACHINE.store(core::ptr::null_mut(), Ordering::Release);
    // SAFETY: `init` made it, and this is the last call.
    drop(unsafe { Box::from_raw(machine.cast_mut()) });
}

/// Runs a call, and returns its result by C's convention.
fn answer<T: TryInto<isize>>(machine: *const Machine, call: impl FnOnce(&Machine) -> Result<T>) -> isize {
    // SAFETY: packetdrill hands back what `init` gave it, until it calls `free`.
    let machine = unsafe { &*machine };
    let done = catch_unwind(AssertUnwindSafe(|| call(machine))).unwrap_or(Err(Errno(libc::EIO)));
    match done {
        Ok(value) => value.try_into().unwrap_or(isize::MAX),
        Err(error) => {
            // SAFETY: the C library's own place for this thread's error number.
            unsafe { *libc::__errno_location() = error.0 };
            -1
        }
    }
}

/// As [`answer`], for calls that return an `int`.
fn number<T: TryInto<isize>>(machine: *const Machine, call: impl FnOnce(&Machine) -> Result<T>) -> c_int {
    answer(machine, call) as c_int
}

/// As [`number`], for calls without a result.
fn done(machine: *const Machine, call: impl FnOnce(&Machine) -> Result<()>) -> c_int {
    number(machine, |machine| call(machine).map(|()| 0isize))
}

fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
