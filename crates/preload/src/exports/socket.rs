//! Exports for sockets: creating, naming, connecting, options.

use super::{answer, export, stdio};
use crate::socket::kernel;
use crate::socket::open;
use crate::socket::ops;
use crate::socket::options;
use crate::socket::packet_sockets;
use crate::sys::errno::{Errno, Result};
use crate::sys::name;
use crate::sys::{guarded, real};
use crate::table::fd::{Entry, TABLE};
use core::ffi::{c_int, c_void};
use libc::{sockaddr, sockaddr_storage, socklen_t};
use tickwire_linux_abi::sockaddr::MAX_NAME;

/// The program's address as bytes, cut to what an IP address can have.
///
/// # Errors
/// `EFAULT` if there is none; `EINVAL` if it is longer than any kernel accepts (as is a negative
/// length), without reading any of it.
///
/// # Safety
/// `address` is the program's to give.
unsafe fn bytes_of(address: *const sockaddr, len: socklen_t) -> Result<([u8; MAX_NAME], usize)> {
    if len as usize > size_of::<sockaddr_storage>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: by the caller's promise.
    unsafe { name::read(address, len) }?.ok_or(guarded::FAULT)
}

/// Stores a name that the stack knows, or asks the kernel.
unsafe fn store_name(
    fd: c_int,
    peer: bool,
    address: *mut sockaddr,
    len: *mut socklen_t,
    kernel: unsafe fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
) -> c_int {
    if let Entry::Tcp(_) | Entry::CLOSING = TABLE.get(fd) {
        let mut known = None;
        let done = answer(|| {
            known = ops::socket_name(fd, peer)?;
            Ok(0)
        });
        if done < 0 {
            return done;
        }
        if let Some((bytes, n)) = known {
            if address.is_null() || len.is_null() {
                return answer(|| Err(guarded::FAULT));
            }
            // SAFETY: the program's place for the name.
            return answer(|| unsafe { name::store(&bytes[..n], address, len) }.map(|()| 0));
        }
    }
    // SAFETY: the program's arguments are passed on unchanged.
    unsafe { kernel(fd, address, len) }
}

unsafe fn accept_any(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    if !TABLE.get(fd).is_socket() {
        // SAFETY: the program's arguments are passed on unchanged.
        let new = unsafe { real::accept4(fd, address, len, flags) };
        if new >= 0 && matches!(TABLE.get(fd), Entry::Kernel(_) | Entry::Unlisted(_)) {
            let _ = super::caught(|| {
                kernel::accepted_beside(fd, new);
                Ok(())
            });
        }
        return new;
    }
    answer(|| {
        if !address.is_null() && len.is_null() {
            return Err(guarded::FAULT);
        }
        let (new, bytes, n) = ops::accept(fd, flags)?;
        stdio::stand_in(new);
        // SAFETY: the program's place for the name.
        unsafe { name::store(&bytes[..n], address, len) }.inspect_err(|_| {
            // The program never gets the number. As in the kernel, the connection is lost.
            // SAFETY: a number of ours that no other thread knows.
            unsafe { super::descriptor::close(new) };
        })?;
        Ok(new)
    })
}

/// The result of a call with which the program has begun to capture packets.
#[cold]
fn opened(done: c_int) -> c_int {
    answer(|| {
        packet_sockets::opened();
        Ok(done)
    })
}

export! {
    /// `socket(2)`.
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        if open::wanted(domain, kind, protocol).is_none() {
            // SAFETY: plain numbers.
            let fd = unsafe { real::socket(domain, kind, protocol) };
            if fd >= 0 && packet_sockets::sees_packets(domain, kind, protocol) {
                return opened(fd);
            }
            return fd;
        }
        answer(|| {
            // A constructor of another library may run before this library's.
            super::observer::install();
            open::socket(domain, kind, protocol).inspect(|&fd| stdio::stand_in(fd))
        })
    }

    /// `bind(2)`.
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: the program's arguments are passed on unchanged.
            let done = unsafe { real::bind(fd, address, len) };
            // SAFETY: the program's address.
            let name = if done == 0 { unsafe { bytes_of(address, len) }.ok() } else { None };
            return match name {
                Some((bytes, n)) if packet_sockets::sees_packets_of(&bytes[..n]) => opened(done),
                _ => done,
            };
        }
        answer(|| {
            // SAFETY: the program's address.
            let (bytes, n) = unsafe { bytes_of(address, len) }?;
            ops::bind(fd, &bytes[..n]).map(|()| 0)
        })
    }

    /// `connect(2)`.
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::connect(fd, address, len) };
        }
        answer(|| {
            // SAFETY: the program's address.
            let (bytes, n) = unsafe { bytes_of(address, len) }?;
            ops::connect(fd, &bytes[..n]).map(|()| 0)
        })
    }

    /// `listen(2)`.
    fn listen(fd: c_int, backlog: c_int) -> c_int {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: plain numbers.
            return unsafe { real::listen(fd, backlog) };
        }
        answer(|| ops::listen(fd, backlog).map(|()| 0))
    }

    /// `accept(2)`.
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { accept_any(fd, address, len, 0) }
    }

    /// `accept4(2)`.
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { accept_any(fd, address, len, flags) }
    }

    /// `shutdown(2)`.
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: plain numbers.
            return unsafe { real::shutdown(fd, how) };
        }
        answer(|| ops::shutdown(fd, how).map(|()| 0))
    }

    /// `getsockname(2)`.
    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { store_name(fd, false, address, len, real::getsockname) }
    }

    /// `getpeername(2)`.
    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { store_name(fd, true, address, len, real::getpeername) }
    }

    /// `setsockopt(2)`.
    fn setsockopt(fd: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        let kernel = || unsafe { real::setsockopt(fd, level, option, value, len) };
        if !TABLE.get(fd).is_socket() {
            return kernel();
        }
        if name::is_negative(len) {
            return answer(|| Err(Errno(libc::EINVAL)));
        }
        let n = (len as usize).min(512);
        let bytes = if value.is_null() {
            &[]
        } else if guarded::can_read(value.cast::<u8>(), n) {
            // SAFETY: the program's value, as far as it was checked.
            unsafe { core::slice::from_raw_parts(value.cast::<u8>(), n) }
        } else {
            return kernel();
        };
        answer(|| {
            let kernel = || if kernel() < 0 { Err(Errno::last()) } else { Ok(()) };
            options::program_sets(fd, level, option, bytes, kernel).map(|()| 0)
        })
    }

    /// `getsockopt(2)`.
    fn getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        // The kernel refuses one that is not accessible, or is negative.
        // SAFETY: any bytes are a number.
        let room = || unsafe { guarded::load(len) }.ok().filter(|&room| !name::is_negative(room));
        if TABLE.get(fd).is_socket()
            && !value.is_null()
            && let Some(room) = room()
        {
            let mut known = None;
            let done = answer(|| {
                known = options::get(fd, level, option)?;
                Ok(0)
            });
            if done < 0 {
                return done;
            }
            if let Some((bytes, whole)) = known {
                let n = whole.min(room as usize);
                // SAFETY: the program's places; as many bytes are known.
                return answer(|| unsafe {
                    if !guarded::copy(bytes.as_ptr(), value.cast(), n) {
                        return Err(guarded::FAULT);
                    }
                    guarded::store(n as socklen_t, len).map(|()| 0)
                });
            }
        }
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { real::getsockopt(fd, level, option, value, len) }
    }
}
