//! packetdrill's memory: arguments become safe values, and results are written back.

use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::slice;
use libc::{iovec, socklen_t};

/// The most bytes of one call; scripts need less, and no length makes the library allocate more.
pub(super) const MOST: usize = 64 << 20;

/// The bytes of a caller's buffer.
///
/// # Safety
/// Null, or `len` bytes that may be read for as long as the answer is used.
pub(super) unsafe fn given<'a>(from: *const c_void, len: usize) -> Result<&'a [u8]> {
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
pub(super) unsafe fn put(bytes: &[u8], to: *mut c_void, room: usize) {
    if !to.is_null() {
        // SAFETY: by the caller's promise; ours are not the caller's.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len().min(room)) };
    }
}

/// Writes a value to a C buffer with a value-result length: on entry its size, on return the
/// value's length.
///
/// # Safety
/// `len` null or valid; `to` null or with as many bytes as that says.
pub(super) unsafe fn put_sized(bytes: &[u8], to: *mut c_void, len: *mut socklen_t, full: bool) -> Result<()> {
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
pub(super) unsafe fn parts<'a>(iov: *const iovec, count: usize) -> Result<&'a [iovec]> {
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

/// The content of scattered buffers, at most [`MOST`] bytes.
///
/// # Safety
/// As [`given`], for each part.
pub(super) unsafe fn gather(parts: &[iovec]) -> Result<Vec<u8>> {
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
pub(super) unsafe fn scatter(mut bytes: &[u8], parts: &[iovec]) {
    for part in parts {
        let (head, tail) = bytes.split_at(bytes.len().min(part.iov_len));
        // SAFETY: by the caller's promise.
        unsafe { put(head, part.iov_base, part.iov_len) };
        bytes = tail;
    }
}

pub(super) fn room(parts: &[iovec]) -> usize {
    parts.iter().fold(0, |sum, part| part.iov_len.saturating_add(sum)).min(MOST)
}
