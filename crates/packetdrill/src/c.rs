//! The C boundary: all unsafe code of this crate, and all that is exported. C arguments become safe values, answers become return values and
//! `errno`. A panic never leaves the library: the call fails with `EIO`.
//!
//! The order and the types of [`Interface`]'s fields are packetdrill's (`packetdrill.h`, `struct packetdrill_interface`).
#![allow(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::machine::Machine;
use crate::options::TCP_INQ;
use crate::setup::Setup;
use core::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use core::slice;
use libc::{epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, sockaddr, socklen_t, timeval};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use tickwire_stack::time::Span;

/// The most that one call may move; a script asks for less, and no length makes us take more memory.
const MOST: usize = 64 << 20;

/// The host under test, for what packetdrill asks of the C library instead of its table ([`getsockopt`]).
static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(core::ptr::null_mut());

/// The table of functions that packetdrill calls. Each gets `userdata` first.
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

/// Fills packetdrill's table in. Flags that are wrong end the process, with a sentence that says why: the interface cannot refuse.
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

/// Runs a call: the answer as C expects it.
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

/// As [`answer`], of calls that answer an `int`.
fn number<T: TryInto<isize>>(machine: *const Machine, call: impl FnOnce(&Machine) -> Result<T>) -> c_int {
    answer(machine, call) as c_int
}

/// As [`number`], of calls that answer nothing.
fn done(machine: *const Machine, call: impl FnOnce(&Machine) -> Result<()>) -> c_int {
    number(machine, |machine| call(machine).map(|()| 0isize))
}

fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// The bytes that a script hands in.
///
/// # Safety
/// Null, or `len` bytes that may be read for as long as the answer is used.
unsafe fn given<'a>(from: *const c_void, len: usize) -> Result<&'a [u8]> {
    match (from.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno(libc::EFAULT)),
        // SAFETY: by the caller's promise.
        _ => Ok(unsafe { slice::from_raw_parts(from.cast(), len) }),
    }
}

/// Copies bytes out, as many as fit.
///
/// # Safety
/// Null, or `room` bytes that may be written.
unsafe fn put(bytes: &[u8], to: *mut c_void, room: usize) {
    if !to.is_null() {
        // SAFETY: by the caller's promise; ours are not the caller's.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len().min(room)) };
    }
}

/// Writes a value that C asked for with a length that says how much room there is, and then how long it is.
///
/// # Safety
/// `len` null or valid; `to` null or with as many bytes as that says.
unsafe fn put_sized(bytes: &[u8], to: *mut c_void, len: *mut socklen_t, full: bool) -> Result<()> {
    if to.is_null() || len.is_null() {
        return Ok(());
    }
    // SAFETY: by the caller's promise.
    unsafe {
        let room = *len as usize;
        put(bytes, to, room);
        *len = if full { bytes.len() } else { bytes.len().min(room) } as socklen_t;
    }
    Ok(())
}

/// The parts of a scattered buffer.
///
/// # Safety
/// As for `readv`: null or `count` parts.
unsafe fn parts<'a>(iov: *const iovec, count: usize) -> Result<&'a [iovec]> {
    match (iov.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno(libc::EFAULT)),
        (_, 1..=1024) => {
            // SAFETY: by the caller's promise.
            Ok(unsafe { slice::from_raw_parts(iov, count) })
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// All that scattered buffers hold, at most [`MOST`] bytes.
///
/// # Safety
/// As [`given`], for each part.
unsafe fn gather(parts: &[iovec]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in parts {
        // SAFETY: by the caller's promise.
        let all = unsafe { given(part.iov_base, part.iov_len) }?;
        bytes.extend_from_slice(&all[..all.len().min(MOST - bytes.len())]);
    }
    Ok(bytes)
}

/// Writes bytes into scattered buffers.
///
/// # Safety
/// As [`put`], for each part.
unsafe fn scatter(mut bytes: &[u8], parts: &[iovec]) {
    for part in parts {
        let (head, tail) = bytes.split_at(bytes.len().min(part.iov_len));
        // SAFETY: by the caller's promise.
        unsafe { put(head, part.iov_base, part.iov_len) };
        bytes = tail;
    }
}

fn room(parts: &[iovec]) -> usize {
    parts.iter().fold(0, |sum, part| part.iov_len.saturating_add(sum)).min(MOST)
}

unsafe extern "C" fn socket(machine: *const Machine, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    number(machine, |m| m.socket(domain, kind, protocol).map(|fd| fd as isize))
}

unsafe extern "C" fn bind(machine: *const Machine, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: packetdrill's address has that length.
    done(machine, |m| m.bind(fd, unsafe { given(address.cast(), len as usize) }?))
}

unsafe extern "C" fn listen(machine: *const Machine, fd: c_int, backlog: c_int) -> c_int {
    done(machine, |m| m.listen(fd, backlog))
}

unsafe extern "C" fn accept(machine: *const Machine, fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    number(machine, |m| {
        let (new, name) = m.accept(fd)?;
        // SAFETY: as `accept` promises.
        unsafe { put_sized(&name, address.cast(), len, true) }?;
        Ok(new as isize)
    })
}

unsafe extern "C" fn connect(machine: *const Machine, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: packetdrill's address has that length.
    done(machine, |m| m.connect(fd, unsafe { given(address.cast(), len as usize) }?))
}

unsafe extern "C" fn read(machine: *const Machine, fd: c_int, to: *mut c_void, len: usize) -> isize {
    // SAFETY: as `recv` without flags.
    unsafe { recv(machine, fd, to, len, 0) }
}

unsafe extern "C" fn readv(machine: *const Machine, fd: c_int, iov: *const iovec, count: c_int) -> isize {
    answer(machine, |m| {
        // SAFETY: as `readv` promises.
        let parts = unsafe { parts(iov, usize::try_from(count).unwrap_or(usize::MAX)) }?;
        let got = m.receive(fd, room(parts), 0)?;
        // SAFETY: the same.
        unsafe { scatter(&got.bytes, parts) };
        Ok(got.len)
    })
}

unsafe extern "C" fn recv(machine: *const Machine, fd: c_int, to: *mut c_void, len: usize, flags: c_int) -> isize {
    answer(machine, |m| {
        let got = m.receive(fd, len.min(MOST), flags)?;
        // SAFETY: as `recv` promises.
        unsafe { put(&got.bytes, to, len) };
        Ok(got.len)
    })
}

unsafe extern "C" fn recvfrom(
    machine: *const Machine,
    fd: c_int,
    to: *mut c_void,
    len: usize,
    flags: c_int,
    _address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> isize {
    if !address_len.is_null() {
        // SAFETY: as `recvfrom` promises. A stream's message has no sender of its own.
        unsafe { *address_len = 0 };
    }
    // SAFETY: as `recvfrom` promises.
    unsafe { recv(machine, fd, to, len, flags) }
}

unsafe extern "C" fn recvmsg(machine: *const Machine, fd: c_int, message: *mut msghdr, flags: c_int) -> isize {
    answer(machine, |m| {
        // SAFETY: as `recvmsg` promises.
        let message = unsafe { message.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        // SAFETY: the same.
        let parts = unsafe { parts(message.msg_iov, message.msg_iovlen) }?;
        let got = m.receive(fd, room(parts), flags)?;
        // SAFETY: the same.
        unsafe { scatter(&got.bytes, parts) };
        message.msg_namelen = 0;
        message.msg_flags = got.flags;
        let mut control = Vec::new();
        if let Some(left) = got.left {
            let words = [libc::IPPROTO_TCP, TCP_INQ, left.min(i32::MAX as u32) as i32, 0];
            control.extend(20usize.to_ne_bytes()); // header and four bytes of data
            control.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }
        if message.msg_controllen < control.len() {
            message.msg_flags |= libc::MSG_CTRUNC;
            control.clear();
        }
        // SAFETY: the same; there is as much room as was looked at.
        unsafe { put(&control, message.msg_control, message.msg_controllen) };
        message.msg_controllen = control.len();
        Ok(got.len)
    })
}

unsafe extern "C" fn write(machine: *const Machine, fd: c_int, from: *const c_void, len: usize) -> isize {
    // SAFETY: as `send` without flags.
    unsafe { send(machine, fd, from, len, 0) }
}

unsafe extern "C" fn writev(machine: *const Machine, fd: c_int, iov: *const iovec, count: c_int) -> isize {
    answer(machine, |m| {
        // SAFETY: as `writev` promises.
        let bytes = unsafe { gather(parts(iov, usize::try_from(count).unwrap_or(usize::MAX))?) }?;
        m.send(fd, &bytes, 0, None)
    })
}

unsafe extern "C" fn send(machine: *const Machine, fd: c_int, from: *const c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: as `sendto` without an address.
    unsafe { sendto(machine, fd, from, len, flags, core::ptr::null(), 0) }
}

unsafe extern "C" fn sendto(
    machine: *const Machine,
    fd: c_int,
    from: *const c_void,
    len: usize,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> isize {
    answer(machine, |m| {
        // SAFETY: as `sendto` promises.
        let bytes = unsafe { given(from, len.min(MOST)) }?;
        // SAFETY: the same.
        let address = unsafe { given(address.cast(), address_len as usize) }?;
        m.send(fd, bytes, flags, (!address.is_empty()).then_some(address))
    })
}

unsafe extern "C" fn sendmsg(machine: *const Machine, fd: c_int, message: *const msghdr, flags: c_int) -> isize {
    answer(machine, |m| {
        // SAFETY: as `sendmsg` promises.
        let message = unsafe { message.as_ref() }.ok_or(Errno(libc::EFAULT))?;
        // SAFETY: the same.
        let bytes = unsafe { gather(parts(message.msg_iov, message.msg_iovlen)?) }?;
        // SAFETY: the same.
        let address = unsafe { given(message.msg_name, message.msg_namelen as usize) }?;
        m.send(fd, &bytes, flags, (!address.is_empty()).then_some(address))
    })
}

/// Variadic in C; a third argument, which not every command has, lies where a named one does on the processors that Linux programs of ours
/// run on (System V ABI for AMD64; Procedure Call Standard for the Arm 64-bit Architecture).
unsafe extern "C" fn fcntl(machine: *const Machine, fd: c_int, command: c_int, value: usize) -> c_int {
    number(machine, |m| m.fcntl(fd, command, value as i32).map(|flags| flags as isize))
}

/// Variadic in C, as [`fcntl`].
unsafe extern "C" fn ioctl(machine: *const Machine, fd: c_int, request: c_ulong, value: *mut c_int) -> c_int {
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

unsafe extern "C" fn close(machine: *const Machine, fd: c_int) -> c_int {
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

unsafe extern "C" fn shutdown(machine: *const Machine, fd: c_int, how: c_int) -> c_int {
    done(machine, |m| m.shutdown(fd, how))
}

unsafe extern "C" fn option(
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

/// The C library's `getsockopt`, for packetdrill's code events: it does not ask the table for the figures that they check, so this library is
/// to be preloaded as well. Descriptors that are not ours go to the kernel.
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

unsafe extern "C" fn setsockopt(
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

unsafe extern "C" fn poll(machine: *const Machine, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    number(machine, |m| {
        if fds.is_null() && count > 0 {
            return Err(Errno(libc::EFAULT));
        }
        let count = usize::try_from(count).ok().filter(|&n| n <= 1024).ok_or(Errno(libc::EINVAL))?;
        let fds = if count == 0 {
            &mut []
        } else {
            // SAFETY: as `poll` promises.
            unsafe { slice::from_raw_parts_mut(fds, count) }
        };
        let asked: Vec<_> = fds.iter().map(|p| (p.fd, p.events)).collect();
        let ready = m.poll(&asked, timeout)?;
        fds.iter_mut().zip(&ready).for_each(|(p, &ready)| p.revents = ready);
        Ok(ready.iter().filter(|&&ready| ready != 0).count())
    })
}

unsafe extern "C" fn netdev_send(machine: *const Machine, packet: *const c_void, len: usize) -> c_int {
    done(machine, |m| {
        // SAFETY: packetdrill's packet has that length.
        let packet = unsafe { given(packet, len) }?;
        if m.call(|state| state.wire.receive(packet)) { Ok(()) } else { Err(Errno(libc::EINVAL)) }
    })
}

unsafe extern "C" fn netdev_receive(
    machine: *const Machine,
    to: *mut c_void,
    len: *mut usize,
    time: *mut c_longlong,
) -> c_int {
    done(machine, |m| {
        if len.is_null() || time.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let sent = m.next_sent();
        let packet = sent.as_ref().map_or(&[][..], |sent| &sent.packet);
        // SAFETY: packetdrill's buffer is as long as it says, and both numbers are its own.
        unsafe {
            let room = *len;
            put(packet, to, room);
            *len = packet.len().min(room);
            if let Some(sent) = &sent {
                *time = (sent.at.as_nanos() / 1000) as c_longlong;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn usleep(machine: *const Machine, micros: c_uint) -> c_int {
    done(machine, |m| {
        m.sleep(Span::from_micros(micros.into()));
        Ok(())
    })
}

unsafe extern "C" fn gettimeofday(machine: *const Machine, time: *mut timeval, _zone: *mut c_void) -> c_int {
    done(machine, |m| {
        let micros = m.time().as_nanos() / 1000;
        let value = timeval { tv_sec: (micros / 1_000_000) as _, tv_usec: (micros % 1_000_000) as c_long };
        // SAFETY: packetdrill's own variable.
        unsafe { time.as_mut() }.map(|time| *time = value).ok_or(Errno(libc::EFAULT))
    })
}

unsafe extern "C" fn epoll_create(machine: *const Machine, size: c_int) -> c_int {
    number(machine, |m| m.epoll_create(size).map(|fd| fd as isize))
}

unsafe extern "C" fn epoll_ctl(
    machine: *const Machine,
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    done(machine, |m| {
        // SAFETY: null or packetdrill's event.
        let event = if event.is_null() { None } else { Some(unsafe { event.read_unaligned() }) };
        if event.is_none() && operation != libc::EPOLL_CTL_DEL {
            return Err(Errno(libc::EFAULT));
        }
        m.epoll_ctl(epoll, operation, fd, event.map_or((0, 0), |event| (event.events, event.u64)))
    })
}

unsafe extern "C" fn epoll_wait(
    machine: *const Machine,
    epoll: c_int,
    to: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    number(machine, |m| {
        let events = m.epoll_wait(epoll, usize::try_from(most).unwrap_or(0), timeout)?;
        for (at, &(events, u64)) in events.iter().enumerate() {
            // SAFETY: as `epoll_wait` promises, there is room for `most` of them.
            unsafe { to.add(at).write_unaligned(epoll_event { events, u64 }) };
        }
        Ok(events.len())
    })
}

unsafe extern "C" fn pipe(machine: *const Machine, ends: *mut c_int) -> c_int {
    // SAFETY: as `pipe` promises.
    done(machine, |_| if unsafe { libc::pipe(ends) } == 0 { Ok(()) } else { Err(last_error()) })
}

/// Between one of our sockets and a pipe; what a pipe holds fits into a buffer.
unsafe extern "C" fn splice(
    machine: *const Machine,
    from: c_int,
    from_at: *mut loff_t,
    to: c_int,
    to_at: *mut loff_t,
    len: usize,
    _flags: c_uint,
) -> isize {
    answer(machine, |m| {
        if !from_at.is_null() || !to_at.is_null() {
            return Err(Errno(libc::ESPIPE));
        }
        let len = len.min(65_536);
        if m.call(|state| state.table.get(from).is_ok()) {
            let got = m.receive(from, len, 0)?;
            // SAFETY: the buffer is as long as is said.
            let put = unsafe { libc::write(to, got.bytes.as_ptr().cast(), got.bytes.len()) };
            return if put == got.bytes.len() as isize { Ok(got.len) } else { Err(last_error()) };
        }
        let mut bytes = vec![0u8; len];
        // SAFETY: the buffer is as long as is said.
        let got = unsafe { libc::read(from, bytes.as_mut_ptr().cast(), len) };
        let got = usize::try_from(got).map_err(|_| last_error())?;
        m.send(to, &bytes[..got], 0, None)
    })
}
