//! The calls that create, name, configure, query and close descriptors.

#[cfg(not(test))]
use super::MACHINE;
use super::memory::{given, put_sized};
use super::{done, last_error, number};
use crate::errno::Errno;
use crate::machine::Machine;
use core::ffi::{c_int, c_ulong, c_void};
use libc::{sockaddr, socklen_t};
#[cfg(not(test))]
use std::sync::atomic::Ordering;

pub(super) unsafe extern "C" fn socket(machine: *const Machine, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    number(machine, |m| m.socket(domain, kind, protocol).map(|fd| fd as isize))
}

pub(super) unsafe extern "C" fn bind(
    machine: *const Machine,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill's address has that length.
    done(machine, |m| m.bind(fd, unsafe { given(address.cast(), len as usize) }?))
}

pub(super) unsafe extern "C" fn listen(machine: *const Machine, fd: c_int, backlog: c_int) -> c_int {
    done(machine, |m| m.listen(fd, backlog))
}

pub(super) unsafe extern "C" fn accept(
    machine: *const Machine,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    number(machine, |m| {
        let (new, name) = m.accept(fd)?;
        // SAFETY: as `accept` promises.
        unsafe { put_sized(&name, address.cast(), len, true) }?;
        Ok(new as isize)
    })
}

pub(super) unsafe extern "C" fn connect(
    machine: *const Machine,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill's address has that length.
    done(machine, |m| m.connect(fd, unsafe { given(address.cast(), len as usize) }?))
}

/// Variadic in C. A third argument, which not every command has, is passed like a named one on the
/// supported architectures (System V ABI for AMD64; Procedure Call Standard for the Arm 64-bit
/// Architecture).
pub(super) unsafe extern "C" fn fcntl(machine: *const Machine, fd: c_int, command: c_int, value: usize) -> c_int {
    number(machine, |m| m.fcntl(fd, command, value as i32).map(|flags| flags as isize))
}

/// Variadic in C, as [`fcntl`].
pub(super) unsafe extern "C" fn ioctl(
    machine: *const Machine,
    fd: c_int,
    request: c_ulong,
    value: *mut c_int,
) -> c_int {
    done(machine, |m| {
        let sets = request == libc::FIONBIO && !value.is_null();
        // SAFETY: of the requests that we know each has a pointer to a number.
        let given = if sets { Some(unsafe { *value }) } else { None };
        if let Some(told) = m.ioctl(fd, request, given)? {
            if value.is_null() {
                return Err(Errno(libc::EFAULT));
            }
            // SAFETY: the same.
            unsafe { *value = told };
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn close(machine: *const Machine, fd: c_int) -> c_int {
    done(machine, |m| {
        let ours = m.close(fd);
        match ours {
            Ok(()) | Err(Errno(libc::EBADF)) => {
                // SAFETY: the number's own descriptor: the null device, or a pipe's end.
                if unsafe { libc::close(fd) } == 0 { Ok(()) } else { Err(last_error()) }
            }
            Err(error) => Err(error),
        }
    })
}

pub(super) unsafe extern "C" fn shutdown(machine: *const Machine, fd: c_int, how: c_int) -> c_int {
    done(machine, |m| m.shutdown(fd, how))
}

pub(super) unsafe extern "C" fn option(
    machine: *const Machine,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    done(machine, |m| {
        let bytes = m.option(fd, level, name)?;
        // SAFETY: as `getsockopt` promises.
        unsafe { put_sized(&bytes, value, len, false) }
    })
}

/// The C library's `getsockopt`, for packetdrill's code events: they do not use the table for the
/// figures that they check, so this library must also be preloaded. Descriptors of the kernel go to
/// the kernel.
///
/// # Safety
/// As the C library's function of this name.
#[cfg(not(test))] // it would take the place of the test program's own
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: null, or what `init` made; packetdrill does not call this after `free`.
    let machine = unsafe { MACHINE.load(Ordering::Acquire).as_ref() };
    match machine {
        // SAFETY: the caller's promises are the same.
        Some(machine) if machine.call(|state| state.table.get(fd).is_ok()) => unsafe {
            option(machine, fd, level, name, value, len)
        },
        // SAFETY: the kernel looks at what it is given.
        _ => unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int },
    }
}

pub(super) unsafe extern "C" fn setsockopt(
    machine: *const Machine,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: as `setsockopt` promises.
    done(machine, |m| m.set_option(fd, level, name, unsafe { given(value, len as usize) }?))
}

pub(super) unsafe extern "C" fn pipe(machine: *const Machine, ends: *mut c_int) -> c_int {
    // SAFETY: as `pipe` promises.
    done(machine, |_| if unsafe { libc::pipe(ends) } == 0 { Ok(()) } else { Err(last_error()) })
}
