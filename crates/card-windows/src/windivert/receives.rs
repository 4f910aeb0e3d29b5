//! Receive calls that are under way: several, so that the driver always has room for packets, and
//! in the order in which it fills them. A word in memory says when one is done, so looking is no
//! system call.
//!
//! Windows cancels the calls of a thread that ends, and has the thread that has made a call see to
//! its end. A handle may be opened by a thread of a program's connection. So the thread that takes
//! packets makes all calls. Until it does, the driver keeps packets in the handle's queue.

use super::batch::ReceivedBatch;
use super::driver::Reception;
use super::library::{ReceiveFn, last_error};
use super::record::RECORD_BYTES;
use crate::event::Event;
use std::collections::VecDeque;
use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire};
use windows_sys::Win32::Foundation::{
    ERROR_INSUFFICIENT_BUFFER, ERROR_IO_PENDING, ERROR_MORE_DATA, ERROR_NO_DATA, HANDLE, STATUS_PENDING, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::IO::{GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::WaitForSingleObject;

/// So many are under way.
const RECEIVES: usize = 4;

/// For so long the end of a call is waited for after its handle has been closed.
const LONGEST_END_MS: u32 = 2000;

/// What the system writes while a call is under way.
#[repr(C)]
struct Control {
    overlapped: OVERLAPPED,
    /// Bytes of records: of the room, and then of what was received.
    record_bytes: u32,
}

/// How a call stands that has been made.
enum Outcome {
    /// It is under way.
    Pending,
    /// So many bytes, and records.
    Received(usize, usize),
    /// An error of Windows.
    Failed(u32),
}

/// One call.
struct Receive {
    /// Owned, and not moved. The system writes it until the call is done.
    control: *mut Control,
    /// It is set when the call is done.
    event: Event,
    /// The system writes the memory that it owns until the call is done.
    batch: ReceivedBatch,
    /// The error with which the system has refused to begin the call.
    refused: Option<u32>,
}

// SAFETY: what it points to is its own, and the system writes from no thread of its own choice that
// matters to this.
unsafe impl Send for Receive {}

impl Receive {
    fn new() -> io::Result<Self> {
        // SAFETY: zeroes are valid for numbers and null pointers.
        let control = Box::into_raw(Box::new(unsafe { zeroed::<Control>() }));
        match Event::new(true) {
            Ok(event) => Ok(Self { control, event, batch: ReceivedBatch::default(), refused: None }),
            Err(error) => {
                // SAFETY: it was made above, and nothing else has it.
                drop(unsafe { Box::from_raw(control) });
                Err(error)
            }
        }
    }

    /// Makes the call. It must not be under way.
    fn begin(&mut self, receive: ReceiveFn, handle: HANDLE) {
        let (bytes, records) = self.batch.room();
        let record_bytes = (records.len() * RECORD_BYTES) as u32;
        // SAFETY: the call is not under way, so nothing else uses what `control` points to.
        unsafe {
            let mut overlapped: OVERLAPPED = zeroed();
            overlapped.hEvent = self.event.handle();
            *self.control = Control { overlapped, record_bytes };
        }
        // SAFETY: an open handle. All memory stays where it is until the call is done: `control`
        // and what the batch owns are on the heap, and neither is used or freed before.
        let is_done = unsafe {
            receive(
                handle,
                bytes.as_mut_ptr().cast(),
                bytes.len() as u32,
                null_mut(),
                0,
                records.as_mut_ptr(),
                &raw mut (*self.control).record_bytes,
                &raw mut (*self.control).overlapped,
            )
        };
        let error = last_error();
        // In both cases the system says in `overlapped` how it has ended, or will.
        let has_begun = is_done != 0 || error == ERROR_IO_PENDING;
        self.refused = (!has_begun).then_some(error);
    }

    fn is_done(&self) -> bool {
        // SAFETY: the word is aligned, lives as long as `self`, and is written by the system at
        // most once more.
        let status = unsafe { AtomicUsize::from_ptr(&raw mut (*self.control).overlapped.Internal) };
        self.refused.is_some() || status.load(Acquire) != STATUS_PENDING as usize
    }

    fn outcome(&self, handle: HANDLE) -> Outcome {
        if !self.is_done() {
            return Outcome::Pending;
        }
        if let Some(code) = self.refused {
            return Outcome::Failed(code);
        }
        let mut bytes = 0;
        // SAFETY: a call that is done, and room for the result.
        let is_right = unsafe { GetOverlappedResult(handle, &raw const (*self.control).overlapped, &raw mut bytes, 0) };
        if is_right == 0 {
            return Outcome::Failed(last_error());
        }
        // SAFETY: the call is done, so the system writes no more.
        let record_bytes = unsafe { (*self.control).record_bytes };
        Outcome::Received(bytes as usize, record_bytes as usize / RECORD_BYTES)
    }
}

impl Drop for Receive {
    fn drop(&mut self) {
        // SAFETY: an open event.
        let is_over =
            self.is_done() || unsafe { WaitForSingleObject(self.event.handle(), LONGEST_END_MS) } == WAIT_OBJECT_0;
        if is_over && self.is_done() {
            // SAFETY: it was made by `Box::into_raw`, and the system does not write it any more.
            drop(unsafe { Box::from_raw(self.control) });
        } else {
            // The system may still write it all: it is given up. So is the batch.
            std::mem::forget(std::mem::take(&mut self.batch));
        }
    }
}

/// All calls of a handle.
pub(super) struct PendingReceives {
    /// The earliest first.
    calls: VecDeque<Receive>,
    have_begun: bool,
}

impl PendingReceives {
    /// Room for the calls. They are made by the first [`PendingReceives::take`].
    ///
    /// # Errors
    /// If the process has too many handles.
    pub(super) fn new() -> io::Result<Self> {
        let calls = (0..RECEIVES).map(|_| Receive::new()).collect::<io::Result<_>>()?;
        Ok(Self { calls, have_begun: false })
    }

    /// Takes what the earliest call has received into a batch, and makes it again. To be called by
    /// one thread, which lives as long as the handle is used.
    pub(super) fn take(
        &mut self,
        receive: ReceiveFn,
        handle: HANDLE,
        batch: &mut ReceivedBatch,
    ) -> io::Result<Reception> {
        if !std::mem::replace(&mut self.have_begun, true) {
            self.calls.iter_mut().for_each(|call| call.begin(receive, handle));
        }
        let Some(call) = self.calls.front_mut() else { return Ok(Reception::Ended) };
        let reception = match call.outcome(handle) {
            Outcome::Pending => return Ok(Reception::Nothing),
            Outcome::Failed(ERROR_NO_DATA) => return Ok(Reception::Ended),
            Outcome::Failed(ERROR_INSUFFICIENT_BUFFER | ERROR_MORE_DATA) => Reception::Truncated,
            Outcome::Failed(code) => return Err(io::Error::from_raw_os_error(code.cast_signed())),
            Outcome::Received(bytes, records) => {
                call.batch.filled(bytes, records);
                std::mem::swap(&mut call.batch, batch);
                Reception::Packets
            }
        };
        call.begin(receive, handle);
        self.calls.rotate_left(1);
        Ok(reception)
    }

    /// The event that is set when the next packets are there; `None`: they are or may be, or there
    /// will be none.
    pub(super) fn event(&self) -> Option<HANDLE> {
        let call = self.calls.front().filter(|_| self.have_begun)?;
        if call.is_done() {
            return None;
        }
        // It may have been set for a call before, late.
        call.event.reset();
        (!call.is_done()).then(|| call.event.handle())
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::AddressRecord;
    use super::*;
    use std::ffi::c_void;
    use std::fs::File;
    use std::io::Write;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use std::ptr::null;
    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_OVERLAPPED, PIPE_ACCESS_INBOUND, ReadFile};
    use windows_sys::Win32::System::Pipes::{CreateNamedPipeW, PIPE_TYPE_MESSAGE};

    /// As the library's function: a call to the driver that may be under way when it returns.
    unsafe extern "C" fn receive(
        handle: HANDLE,
        bytes: *mut c_void,
        room: u32,
        _: *mut u32,
        _: u64,
        _: *mut AddressRecord,
        record_bytes: *mut u32,
        overlapped: *mut OVERLAPPED,
    ) -> i32 {
        // SAFETY: the caller's: all of it lives until the call is done.
        unsafe {
            *record_bytes = RECORD_BYTES as u32;
            ReadFile(handle, bytes.cast(), room, null_mut(), overlapped)
        }
    }

    /// What a handle of the driver is read from, and where its packets come from.
    fn pipe(name: &str) -> (OwnedHandle, File) {
        let path = format!(r"\\.\pipe\tickwire-{name}-{}", std::process::id());
        let wide: Vec<u16> = path.encode_utf16().chain([0]).collect();
        let open = PIPE_ACCESS_INBOUND | FILE_FLAG_OVERLAPPED;
        // SAFETY: a path that ends with a zero, and no attributes.
        let handle = unsafe { CreateNamedPipeW(wide.as_ptr(), open, PIPE_TYPE_MESSAGE, 1, 0, 1 << 16, 0, null()) };
        assert_ne!(handle, INVALID_HANDLE_VALUE);
        // SAFETY: a new handle, which nothing else owns.
        let reader = unsafe { OwnedHandle::from_raw_handle(handle) };
        (reader, File::options().write(true).open(path).unwrap())
    }

    /// Waits for the next packets.
    fn next(calls: &mut PendingReceives, handle: HANDLE) -> ReceivedBatch {
        let mut batch = ReceivedBatch::default();
        loop {
            match calls.take(receive, handle, &mut batch).unwrap() {
                Reception::Packets => return batch,
                Reception::Nothing => (),
                other => panic!("{other:?}"),
            }
            if let Some(event) = calls.event() {
                // SAFETY: an open event.
                assert_eq!(unsafe { WaitForSingleObject(event, 10_000) }, WAIT_OBJECT_0);
            }
        }
    }

    #[test]
    fn a_handle_that_another_thread_has_opened_receives_after_the_end_of_that_thread() {
        let (reader, mut writer) = pipe("receives");
        let handle = reader.as_raw_handle();
        let mut calls = std::thread::spawn(|| PendingReceives::new().unwrap()).join().unwrap();
        assert!(calls.event().is_none(), "the calls are still to be made");
        let mut packet = vec![0x45, 0, 0, 21, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0];
        for number in 0..3 * RECEIVES as u8 {
            packet[20] = number;
            writer.write_all(&packet).unwrap();
            let mut batch = next(&mut calls, handle);
            let received = batch.next_packet(&mut 0).unwrap();
            assert_eq!(batch.bytes(&received), packet);
        }
        // The calls that are under way end with the handle.
        drop(reader);
        drop(calls);
    }
}
