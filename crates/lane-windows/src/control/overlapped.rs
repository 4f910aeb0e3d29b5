//! Overlapped operations on one end of a pipe, each with its memory and its event.
//!
//! Windows uses the buffer and the `OVERLAPPED` of an operation until that has ended. So both lie
//! in memory of their own, which neither moves nor is freed before.
//!
//! Windows aborts the operations of a thread that ends. Such an operation is started again by the
//! thread that asks for its result next.

use super::frame::MAX_FRAME;
use super::sys::Event;
use crate::sys::code;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::{NonNull, null_mut};
use windows_sys::Win32::Foundation::{
    ERROR_IO_INCOMPLETE, ERROR_IO_PENDING, ERROR_NO_DATA, ERROR_OPERATION_ABORTED, ERROR_PIPE_CONNECTED, GetLastError,
    STATUS_PENDING,
};
use windows_sys::Win32::Storage::FileSystem::{ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Pipes::{ConnectNamedPipe, DisconnectNamedPipe};
use windows_sys::core::BOOL;

/// What Windows uses while an operation runs.
struct Memory {
    overlapped: OVERLAPPED,
    buffer: [u8; MAX_FRAME],
}

/// One operation at a time.
struct Operation {
    memory: NonNull<Memory>,
    /// Set when the operation has ended.
    event: Event,
    is_pending: bool,
    /// The error with which it could not be started.
    refused: Option<u32>,
    /// How many bytes of the buffer are to be written.
    len: usize,
}

// SAFETY: the memory belongs to this operation, and to Windows while it runs.
unsafe impl Send for Operation {}

impl Operation {
    fn new() -> io::Result<Self> {
        let memory = Box::new(Memory { overlapped: OVERLAPPED::default(), buffer: [0; MAX_FRAME] });
        let event = Event::new()?;
        Ok(Self { memory: NonNull::from(Box::leak(memory)), event, is_pending: false, refused: None, len: 0 })
    }

    /// Starts it by a call that gets the buffer and the `OVERLAPPED`. If it cannot be started, its
    /// event is set, and its result is that error.
    fn start(&mut self, call: impl FnOnce(*mut u8, *mut OVERLAPPED) -> BOOL) {
        if self.is_pending {
            return;
        }
        self.event.reset();
        self.refused = None;
        let memory = self.memory.as_ptr();
        let event = self.event.as_handle().as_raw_handle();
        // SAFETY: the memory is alive, and no operation runs that uses it.
        let (overlapped, buffer) = unsafe {
            (*memory).overlapped = OVERLAPPED { hEvent: event, ..OVERLAPPED::default() };
            (&raw mut (*memory).overlapped, (&raw mut (*memory).buffer).cast())
        };
        if call(buffer, overlapped) != 0 {
            self.is_pending = true;
            return;
        }
        // SAFETY: the call only reads a field of the thread.
        match unsafe { GetLastError() } {
            ERROR_IO_PENDING => self.is_pending = true,
            error => {
                self.refused = Some(error);
                // An own event can be set.
                let _ = self.event.set();
            }
        }
    }

    /// Its result: how many bytes. `None` while it runs, and if none was started.
    fn poll(&mut self, pipe: BorrowedHandle<'_>) -> io::Result<Option<usize>> {
        match self.refused {
            Some(error) => Err(io::Error::from_raw_os_error(error.cast_signed())),
            None if self.is_pending => self.result(pipe, false),
            None => Ok(None),
        }
    }

    fn result(&mut self, pipe: BorrowedHandle<'_>, waits: bool) -> io::Result<Option<usize>> {
        let mut len = 0;
        let overlapped = self.overlapped();
        // SAFETY: an operation was started with this `OVERLAPPED`, which is alive.
        let done = unsafe { GetOverlappedResult(pipe.as_raw_handle(), overlapped, &raw mut len, waits.into()) };
        let error = io::Error::last_os_error();
        // SAFETY: the field is alive; Windows may change it at any time.
        let status = unsafe { (&raw const (*overlapped).Internal).read_volatile() };
        if done != 0 {
            self.is_pending = false;
            return Ok(Some(len as usize));
        }
        if code(&error) == ERROR_IO_INCOMPLETE {
            return Ok(None);
        }
        self.is_pending = status == STATUS_PENDING as usize;
        Err(error)
    }

    /// Ends it. Returns whether it has been carried out.
    fn cancel(&mut self, pipe: BorrowedHandle<'_>) -> bool {
        if !self.is_pending {
            return false;
        }
        // If it has just ended there is nothing to cancel.
        // SAFETY: an open pipe, and the `OVERLAPPED` of an operation on it, which is alive.
        unsafe { CancelIoEx(pipe.as_raw_handle(), self.overlapped()) };
        self.result(pipe, true).is_ok()
    }

    fn overlapped(&self) -> *mut OVERLAPPED {
        // SAFETY: the memory is alive.
        unsafe { &raw mut (*self.memory.as_ptr()).overlapped }
    }

    /// The first bytes of the buffer. Only between operations.
    fn bytes(&self, len: usize) -> &[u8] {
        if self.is_pending {
            return &[];
        }
        // SAFETY: the memory is alive, and no operation runs that writes to it.
        let buffer = unsafe { &(*self.memory.as_ptr()).buffer };
        &buffer[..len.min(MAX_FRAME)]
    }

    /// Puts bytes into the buffer, which are to be written.
    fn fill(&mut self, bytes: &[u8]) {
        if self.is_pending {
            return;
        }
        self.len = bytes.len().min(MAX_FRAME);
        // SAFETY: the memory is alive, and no operation runs that reads it.
        let buffer = unsafe { &mut (*self.memory.as_ptr()).buffer };
        buffer[..self.len].copy_from_slice(&bytes[..self.len]);
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // Windows would write to the memory. It is cancelled before, so this does not happen.
        if !self.is_pending {
            // SAFETY: made by `Box::leak`, and not used any more.
            drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
        }
    }
}

/// One end of a pipe in message mode: one read and one write at a time.
pub(super) struct Pipe {
    handle: OwnedHandle,
    read: Operation,
    write: Operation,
    /// A message may have so many bytes.
    read_size: u32,
}

impl Pipe {
    /// An end that was opened for overlapped operations.
    pub(super) fn new(handle: OwnedHandle, read_size: usize) -> io::Result<Self> {
        let read_size = read_size.min(MAX_FRAME) as u32;
        Ok(Self { handle, read: Operation::new()?, write: Operation::new()?, read_size })
    }

    pub(super) fn handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }

    /// Set when there is something to [`Pipe::poll_read`], or to [`Pipe::poll_listen`].
    pub(super) fn read_event(&self) -> BorrowedHandle<'_> {
        self.read.event.as_handle()
    }

    /// Set when what was written is gone.
    pub(super) fn write_event(&self) -> BorrowedHandle<'_> {
        self.write.event.as_handle()
    }

    /// Waits for a client, without blocking.
    pub(super) fn listen(&mut self) {
        let pipe = self.handle.as_raw_handle();
        // SAFETY: an open pipe; the `OVERLAPPED` is alive until the operation has ended.
        self.read.start(|_, overlapped| unsafe { ConnectNamedPipe(pipe, overlapped) });
    }

    /// Whether a client has connected. One that has left again does not count: the next one is
    /// waited for.
    pub(super) fn poll_listen(&mut self) -> io::Result<bool> {
        loop {
            let error = match self.read.poll(self.handle.as_handle()) {
                Ok(done) => return Ok(done.is_some()),
                Err(error) => error,
            };
            match code(&error) {
                ERROR_PIPE_CONNECTED => return Ok(true),
                ERROR_OPERATION_ABORTED => {}
                ERROR_NO_DATA => self.disconnect(),
                _ => return Err(error),
            }
            self.listen();
        }
    }

    /// Sends a client away, so that the end can listen again.
    pub(super) fn disconnect(&mut self) {
        self.read.cancel(self.handle.as_handle());
        self.write.cancel(self.handle.as_handle());
        // If it is not connected there is nothing to do.
        // SAFETY: an open pipe, of which this is the server's end.
        unsafe { DisconnectNamedPipe(self.handle.as_raw_handle()) };
    }

    /// Starts to read a message.
    pub(super) fn start_read(&mut self) {
        let (pipe, size) = (self.handle.as_raw_handle(), self.read_size);
        // SAFETY: an open pipe; the buffer has room for so many bytes; both are alive until the
        // operation has ended.
        self.read.start(|buffer, overlapped| unsafe { ReadFile(pipe, buffer, size, null_mut(), overlapped) });
    }

    /// The message that was read, `None` if none is there yet.
    pub(super) fn poll_read(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match self.read.poll(self.handle.as_handle()) {
                Ok(None) => return Ok(None),
                Ok(Some(len)) => return Ok(Some(self.read.bytes(len))),
                Err(error) if code(&error) == ERROR_OPERATION_ABORTED => self.start_read(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts to write a message. Only if [`Pipe::poll_write`] has said that there is room.
    pub(super) fn start_write(&mut self, frame: &[u8]) {
        self.write.fill(frame);
        self.restart_write();
    }

    fn restart_write(&mut self) {
        let (pipe, len) = (self.handle.as_raw_handle(), self.write.len as u32);
        // SAFETY: an open pipe; the buffer has so many bytes; both are alive until the operation
        // has ended.
        self.write.start(|buffer, overlapped| unsafe { WriteFile(pipe, buffer, len, null_mut(), overlapped) });
    }

    /// Whether the last message was written, or there was none.
    pub(super) fn poll_write(&mut self) -> io::Result<bool> {
        loop {
            match self.write.poll(self.handle.as_handle()) {
                Ok(None) => return Ok(!self.write.is_pending),
                Ok(Some(_)) => return Ok(true),
                Err(error) if code(&error) == ERROR_OPERATION_ABORTED => self.restart_write(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the message back that is being written. Returns whether it was written before that.
    pub(super) fn cancel_write(&mut self) -> bool {
        self.write.cancel(self.handle.as_handle())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.read.cancel(self.handle.as_handle());
        self.write.cancel(self.handle.as_handle());
    }
}
