//! Receive calls that are under way: several, so that the driver always has room for packets, and
//! in the order in which it fills them. A word in memory says when one is done, so looking is no
//! system call.

use super::batch::ReceivedBatch;
use super::driver::Reception;
use super::library::{WinDivertLibrary, last_error};
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
    fn begin(&mut self, library: &WinDivertLibrary, handle: HANDLE) {
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
            (library.receive)(
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

/// All calls of a handle, the earliest first.
pub(super) struct PendingReceives(VecDeque<Receive>);

impl PendingReceives {
    /// Makes the calls.
    pub(super) fn begin(library: &WinDivertLibrary, handle: HANDLE) -> io::Result<Self> {
        let mut calls: VecDeque<Receive> = (0..RECEIVES).map(|_| Receive::new()).collect::<io::Result<_>>()?;
        calls.iter_mut().for_each(|call| call.begin(library, handle));
        Ok(Self(calls))
    }

    /// Takes what the earliest call has received into a batch, and makes it again.
    pub(super) fn take(
        &mut self,
        library: &WinDivertLibrary,
        handle: HANDLE,
        batch: &mut ReceivedBatch,
    ) -> io::Result<Reception> {
        let Some(call) = self.0.front_mut() else { return Ok(Reception::Ended) };
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
        call.begin(library, handle);
        self.0.rotate_left(1);
        Ok(reception)
    }

    /// The event that is set when the next packets are there; `None`: they are, or there will be
    /// none.
    pub(super) fn event(&self) -> Option<HANDLE> {
        let call = self.0.front()?;
        if call.is_done() {
            return None;
        }
        // It may have been set for a call before, late.
        call.event.reset();
        (!call.is_done()).then(|| call.event.handle())
    }
}
