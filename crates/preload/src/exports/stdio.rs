//! C's streams over sockets of ours (`fdopen`, `stdin` and the like) and `dprintf`.
//!
//! A stream of the C library reads and writes by calls inside that library, which cannot be
//! interposed. So a stream over a socket of ours is built on functions of ours (`fopencookie`).
//! Where such a socket becomes descriptor 0, 1 or 2, such a stream replaces the one of that name.

use super::variadic::{VariadicArguments, variadic};
use super::{answer, data, descriptor, export};
use crate::sys;
use crate::sys::errno::{Errno, Result};
use crate::sys::real;
use crate::table::fd::{Entry, TABLE};
use crate::table::streams;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::{FILE, off64_t, size_t, ssize_t};
use std::ffi::CStr;
use tickwire_linux_abi::ioctl::SIOCATMARK;

/// The functions of a stream.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn funlockfile(stream: *mut FILE);
    fn fflush_unlocked(stream: *mut FILE) -> c_int;
    fn __flbf(stream: *mut FILE) -> c_int;
    fn __fbufsize(stream: *mut FILE) -> size_t;
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vasprintf_chk(text: *mut *mut c_char, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// The position of the descriptor in `FILE`, in ints: after the flags and thirteen pointers, on
/// every 64-bit processor. The layout is public (`bits/types/struct_FILE.h`) because programs are
/// compiled with it.
const FILENO: usize = (8 + 13 * 8) / 4;
/// The value that `fopencookie` writes there.
const NO_DESCRIPTOR: c_int = -2;

/// Which of the three standard streams are ours.
static STANDARD: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// A cookie is the descriptor.
fn descriptor_of(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C" fn read_stream(cookie: *mut c_void, buffer: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the stream's buffer.
    unsafe { data::read(descriptor_of(cookie), buffer.cast(), len) }
}

/// Writes everything, as the C library does; bytes written before an error count.
unsafe extern "C" fn write_stream(cookie: *mut c_void, buffer: *const c_char, len: size_t) -> ssize_t {
    let mut done = 0;
    while done < len {
        // SAFETY: the rest of the stream's buffer.
        let written = unsafe { data::write(descriptor_of(cookie), buffer.add(done).cast(), len - done) };
        match usize::try_from(written) {
            Ok(n) if n > 0 => done += n,
            // A shorter count reports the failure.
            _ => break,
        }
    }
    done as ssize_t
}

unsafe extern "C" fn seek_stream(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: the stream's location; a socket cannot seek, but the number may refer to a file by
    // now.
    unsafe {
        let at = libc::lseek64(descriptor_of(cookie), *offset, whence);
        if at < 0 {
            return -1;
        }
        *offset = at;
    }
    0
}

unsafe extern "C" fn close_stream(cookie: *mut c_void) -> c_int {
    let fd = descriptor_of(cookie);
    let mut all = streams::list();
    if let Some(at) = all.iter().position(|&(_, its)| its == fd) {
        all.swap_remove(at);
    }
    drop(all);
    // SAFETY: a plain number.
    unsafe { descriptor::close(fd) }
}

/// A stream of ours over a descriptor.
///
/// # Safety
/// `mode` is a terminated string.
unsafe fn open(fd: c_int, mode: *const c_char) -> Result<*mut FILE> {
    sys::fcntl(fd, libc::F_GETFD, 0)?;
    let functions = Functions { read: read_stream, write: write_stream, seek: seek_stream, close: close_stream };
    // SAFETY: the functions take the cookie for what it is.
    let stream = unsafe { fopencookie(fd as usize as *mut c_void, mode, functions) };
    if stream.is_null() {
        return Err(Errno::last());
    }
    // `fileno` has to return the descriptor.
    let place = stream.cast::<c_int>().wrapping_add(FILENO);
    // SAFETY: within the structure, which no other thread knows yet.
    unsafe {
        if *place == NO_DESCRIPTOR {
            *place = fd;
        }
    }
    streams::list().push((stream as usize, fd));
    Ok(stream)
}

/// The variable of a standard stream, and its mode.
fn standard(fd: c_int) -> Option<(*mut *mut FILE, &'static CStr)> {
    match fd {
        0 => Some((&raw mut stdin, c"r")),
        1 => Some((&raw mut stdout, c"w")),
        2 => Some((&raw mut stderr, c"w")),
        _ => None,
    }
}

/// If a socket of ours is descriptor 0, 1 or 2 from now on, the stream of that name becomes one of
/// ours, for good, because it also works for other descriptors.
pub(super) fn stand_in(fd: c_int) {
    let Some((place, mode)) = standard(fd) else { return };
    if !matches!(TABLE.get(fd), Entry::Udp(_) | Entry::Tcp(_)) || STANDARD[fd as usize].swap(true, Relaxed) {
        return;
    }
    // SAFETY: the C library's variables, which programs may set; a terminated mode; buffering is
    // set before the first use.
    unsafe {
        let before = *place;
        let Ok(stream) = open(fd, mode.as_ptr()) else { return };
        let (by_line, none) = (__flbf(before) != 0, fd == 2 || __fbufsize(before) == 1);
        if fd > 0 && (by_line || none) {
            libc::setvbuf(stream, core::ptr::null_mut(), if by_line { libc::_IOLBF } else { libc::_IONBF }, 0);
        }
        *place = stream;
    }
}

/// Before a socket of ours becomes descriptor 0, 1 or 2: the buffered data of the present stream is
/// written to the file that this number referred to until now.
pub(super) fn before_stand_in(fd: c_int) {
    if let Some((place, _)) = standard(fd)
        && fd > 0
        && !STANDARD[fd as usize].load(Relaxed)
    {
        // SAFETY: the C library's stream.
        unsafe { flush(*place) };
    }
}

/// Flushes a stream unless another thread is using it.
///
/// # Safety
/// It is null or an open stream.
unsafe fn flush(stream: *mut FILE) {
    // SAFETY: by the caller's promise; the stream is locked in between.
    unsafe {
        if !stream.is_null() && ftrylockfile(stream) == 0 {
            fflush_unlocked(stream);
            funlockfile(stream);
        }
    }
}

/// At the program's end: the C library flushes its streams only after our sockets have been closed,
/// so they are flushed here.
pub(super) fn flush_all() {
    let all = streams::list().clone();
    for (stream, _) in all {
        // SAFETY: open, or it would have been taken off the list.
        unsafe { flush(stream as *mut FILE) };
    }
}

/// Writes formatted text to a socket of ours.
///
/// # Safety
/// `print` makes a string of the C library's.
unsafe fn print(fd: c_int, print: impl FnOnce(*mut *mut c_char) -> c_int) -> c_int {
    let mut text = core::ptr::null_mut();
    let len = print(&raw mut text);
    if len < 0 {
        return len;
    }
    // SAFETY: the string has as many bytes, and is freed once.
    unsafe {
        let done = write_stream(fd as usize as *mut c_void, text, len as usize);
        let error = crate::sys::errno::get();
        libc::free(text.cast());
        crate::sys::errno::set(error);
        if done == len as ssize_t { len } else { -1 }
    }
}

export! {
    /// `fdopen(3)`.
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if !TABLE.get(fd).is_socket() {
            // SAFETY: the program's arguments are passed on unchanged.
            return unsafe { real::fdopen(fd, mode) as *mut FILE };
        }
        let mut stream = core::ptr::null_mut();
        answer(|| {
            // SAFETY: the program's mode.
            stream = unsafe { open(fd, mode) }?;
            Ok(0)
        });
        stream
    }

    /// `vdprintf(3)`. A `va_list` is passed by its address.
    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe {
            if TABLE.get(fd).is_socket() {
                print(fd, |text| vasprintf(text, format, list))
            } else {
                real::vdprintf(fd, format, list)
            }
        }
    }

    /// The fortified `vdprintf`.
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe {
            if TABLE.get(fd).is_socket() {
                print(fd, |text| __vasprintf_chk(text, flag, format, list))
            } else {
                real::__vdprintf_chk(fd, flag, format, list)
            }
        }
    }

    /// `sockatmark(3)`, which makes its request inside the C library.
    fn sockatmark(fd: c_int) -> c_int {
        let mut mark = 0;
        // SAFETY: the place is ours.
        let done = unsafe { descriptor::ioctl(fd, SIOCATMARK, &raw mut mark as usize) };
        if done < 0 { done } else { mark }
    }
}

variadic! {
    /// `dprintf(3)`.
    fn dprintf => run_dprintf;
    /// The fortified `dprintf`.
    fn __dprintf_chk => run_dprintf_chk;
}

unsafe extern "C" fn run_dprintf(mut arguments: VariadicArguments) -> c_int {
    // SAFETY: the program's arguments: a number, a format, and the format's arguments.
    unsafe {
        let (fd, format) = (arguments.next() as c_int, arguments.next() as *const c_char);
        let mut list = arguments.rest();
        vdprintf(fd, format, (&raw mut list).cast())
    }
}

unsafe extern "C" fn run_dprintf_chk(mut arguments: VariadicArguments) -> c_int {
    // SAFETY: as above, with a flag.
    unsafe {
        let (fd, flag) = (arguments.next() as c_int, arguments.next() as c_int);
        let format = arguments.next() as *const c_char;
        let mut list = arguments.rest();
        __vdprintf_chk(fd, flag, format, (&raw mut list).cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn line(stream: *mut FILE) -> String {
        let mut text = [0 as c_char; 100];
        // SAFETY: a buffer of as many bytes, and a stream of ours.
        unsafe {
            let got = libc::fgets(text.as_mut_ptr(), 100, stream);
            assert!(!got.is_null());
            CStr::from_ptr(got).to_str().unwrap().to_owned()
        }
    }

    #[test]
    fn a_stream_over_a_connection_reads_writes_buffers_and_closes() {
        let fd = testing::connected(7);
        // SAFETY: streams of this test alone.
        unsafe {
            let output = fdopen(descriptor::dup(fd), c"w".as_ptr());
            let input = fdopen(fd, c"r".as_ptr());
            assert_eq!(libc::fileno(input), fd);
            libc::fputs(c"one\ntwo\n".as_ptr(), output);
            assert_eq!(sys::option(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
            assert_eq!(testing::receive(fd, 1, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)), "it is in the buffer");
            assert_eq!(libc::fflush(output), 0);
            assert_eq!((line(input), line(input)), ("one\n".into(), "two\n".into()));
            libc::setvbuf(output, core::ptr::null_mut(), libc::_IOLBF, 0);
            libc::fputs(c"three\n".as_ptr(), output);
            assert_eq!(line(input), "three\n");
            assert_eq!(libc::fseek(input, 0, libc::SEEK_SET), -1);
            libc::fputs(c"at the end".as_ptr(), output);
            crate::socket::ops::shutdown(fd, libc::SHUT_RD).unwrap();
            assert_eq!(libc::fclose(output), 0);
            assert_eq!(libc::fclose(input), 0);
        }
        assert!(!TABLE.get(fd).is_socket());
        assert!(!streams::list().iter().any(|&(_, its)| its == fd));
    }

    #[test]
    fn one_stream_may_go_both_ways_and_a_wrong_mode_is_an_error() {
        let fd = testing::connected(7);
        // SAFETY: streams of this test alone.
        unsafe {
            assert!(fdopen(fd, c"x".as_ptr()).is_null());
            assert_eq!(crate::sys::errno::get(), libc::EINVAL);
            let both = fdopen(fd, c"r+".as_ptr());
            for _ in 0..3 {
                libc::fputs(c"there and back\n".as_ptr(), both);
                libc::fflush(both);
                assert_eq!(line(both), "there and back\n");
            }
            libc::fclose(both);
        }
    }

    #[test]
    fn dprintf_writes_to_a_connection() {
        type Print = unsafe extern "C" fn(c_int, *const c_char, ...) -> c_int;
        // SAFETY: `dprintf` is variadic in all but its Rust type.
        let dprintf: Print = unsafe { core::mem::transmute(dprintf as unsafe extern "C" fn() -> c_int) };
        let fd = testing::connected(7);
        // SAFETY: what the format says.
        let n = unsafe { dprintf(fd, c"%s %d %.2f|".as_ptr(), c"text".as_ptr(), 42, 1.5f64) };
        assert_eq!(testing::receive(fd, n as usize, libc::MSG_WAITALL), Ok(b"text 42 1.50|".to_vec()));
        testing::close(fd);
    }
}
