//! A part of a file that is sent (`TransmitFile`, `TransmitPackets`).

use super::Parts;
use crate::hook::boundary::WinsockError;
use crate::own_request::OwnRequest;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{ERROR_HANDLE_EOF, ERROR_IO_PENDING, GetLastError, HANDLE};
use windows_sys::Win32::Networking::WinSock::WSAENOBUFS;
use windows_sys::Win32::Storage::FileSystem::ReadFile;
use windows_sys::Win32::System::Threading::INFINITE;

/// So much is read at a time.
const CHUNK: usize = 1 << 16;

/// A part of a file: what is left of it, and what has been read.
#[derive(Debug)]
pub(crate) struct FileRange {
    file: OwnedHandle,
    offset: u64,
    /// `None`: to the file's end.
    left: Option<u64>,
    bytes: Box<[u8]>,
    chunk: Parts,
    is_at_end: bool,
}

impl FileRange {
    /// A part of a file that begins at an offset.
    ///
    /// # Errors
    /// If this is no open handle.
    ///
    /// # Safety
    /// The handle is the program's, and open during the call.
    pub(crate) unsafe fn new(file: HANDLE, offset: u64, length: Option<u64>) -> Result<Self, WinsockError> {
        // SAFETY: as the caller promises.
        let file =
            unsafe { BorrowedHandle::borrow_raw(file) }.try_clone_to_owned().map_err(|_| WinsockError::INVALID)?;
        // SAFETY: no memory.
        let chunk = unsafe { Parts::one(null_mut(), 0) };
        Ok(Self { file, offset, left: length, bytes: Box::default(), chunk, is_at_end: length == Some(0) })
    }

    /// Whether all has been read and sent.
    pub(super) fn is_over(&self) -> bool {
        self.is_at_end && self.chunk.left() == 0
    }

    /// What is next; nothing at the end.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn chunk(&mut self) -> Result<&mut Parts, WinsockError> {
        if self.chunk.left() == 0 && !self.is_at_end {
            if self.bytes.is_empty() {
                self.bytes = vec![0; CHUNK].into();
            }
            let wanted = self.left.map_or(CHUNK, |left| CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
            let count = read(&self.file, self.offset, &mut self.bytes[..wanted])?;
            self.offset += count as u64;
            self.left = self.left.map(|left| left - count as u64);
            self.is_at_end = count == 0 || self.left == Some(0);
            // SAFETY: bytes on the heap that this value has, and changes only when they were sent.
            self.chunk = unsafe { Parts::one(self.bytes.as_mut_ptr(), count) };
        }
        Ok(&mut self.chunk)
    }
}

/// Reads at an offset, from a file that may have been opened for overlapped requests.
fn read(file: &OwnedHandle, offset: u64, into: &mut [u8]) -> Result<usize, WinsockError> {
    let mut request = OwnRequest::new(offset).map_err(|_| WinsockError(WSAENOBUFS))?;
    let mut count = 0;
    // SAFETY: an open file; room for so many bytes. The request is complete before this returns.
    let result = unsafe {
        let (handle, room) = (file.as_raw_handle(), into.len() as u32);
        if ReadFile(handle, into.as_mut_ptr(), room, &raw mut count, request.overlapped()) != 0 {
            Ok(count)
        } else if GetLastError() == ERROR_IO_PENDING {
            request.finish(handle, INFINITE)
        } else {
            Err(io::Error::last_os_error())
        }
    };
    match result {
        Ok(count) => Ok(count as usize),
        Err(error) if error.raw_os_error() == Some(ERROR_HANDLE_EOF.cast_signed()) => Ok(0),
        Err(error) => Err(WinsockError(error.raw_os_error().unwrap_or(WSAENOBUFS))),
    }
}
