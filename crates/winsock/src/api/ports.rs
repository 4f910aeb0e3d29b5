//! Completion ports: which port a handle has, and threads that wait at one.

use crate::hook::boundary::caught;
use crate::hook::{ntdll, reentrancy};
use crate::lane::{exit_gate, has_packets, lane_if_begun};
use crate::socket::kernel_polling::{Polling, note_traffic};
use crate::socket::request::file_modes;
use crate::socket::request::port::{CompletionInformation, CompletionPort, posted};
use crate::socket::table;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS, STATUS_SUCCESS, STATUS_TIMEOUT};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;
use windows_sys::Win32::System::WindowsProgramming::FILE_SKIP_COMPLETION_PORT_ON_SUCCESS;

/// `FileCompletionInformation`: a handle gets a port.
const COMPLETION: i32 = 30;
/// `FileIoCompletionNotificationInformation`: what is not to be posted.
const COMPLETION_NOTIFICATION: i32 = 41;
/// `FileReplaceCompletionInformation`: a handle gets another port, or none.
const REPLACE_COMPLETION: i32 = 61;

pub(super) unsafe extern "system" fn nt_set_information_file(
    file: HANDLE,
    status: *mut IO_STATUS_BLOCK,
    information: *const c_void,
    len: u32,
    class: i32,
) -> NTSTATUS {
    // SAFETY: the caller's arguments, unchanged.
    let outcome = unsafe { ntdll::NT_SET_INFORMATION_FILE.get()(file, status, information, len, class) };
    if outcome >= 0 && !reentrancy::is_inside() {
        // SAFETY: the kernel has read so many bytes.
        caught((), || unsafe { note(file, information, len, class) });
    }
    outcome
}

/// Notes what the kernel has accepted about a handle.
///
/// # Safety
/// So many bytes can be read.
unsafe fn note(file: HANDLE, information: *const c_void, len: u32, class: i32) {
    let has = |wanted: usize| len as usize >= wanted && !information.is_null();
    match class {
        COMPLETION | REPLACE_COMPLETION if has(size_of::<CompletionInformation>()) => {
            // SAFETY: as the caller promises.
            let information = unsafe { information.cast::<CompletionInformation>().read_unaligned() };
            let given = (information.port != 0).then_some(information);
            match table::get(file.addr()) {
                Some(socket) => {
                    let port = given.and_then(|given| CompletionPort::new(given).ok());
                    if port.is_some() {
                        SOCKETS_HAVE_PORTS.store(true, Relaxed);
                    }
                    socket.set_mode(|mode| mode.port = port);
                }
                None => file_modes::note_port(file.addr(), given),
            }
        }
        COMPLETION_NOTIFICATION if has(4) => {
            // SAFETY: as the caller promises.
            let flags = unsafe { information.cast::<u32>().read_unaligned() };
            let skips_success = flags & FILE_SKIP_COMPLETION_PORT_ON_SUCCESS != 0;
            match table::get(file.addr()) {
                Some(socket) => socket.set_mode(|mode| mode.skips_success = skips_success),
                None => file_modes::note_skips_success(file.addr(), skips_success),
            }
        }
        _ => {}
    }
}

pub(super) unsafe extern "system" fn nt_remove_io_completion(
    port: HANDLE,
    key: *mut usize,
    context: *mut usize,
    status: *mut IO_STATUS_BLOCK,
    timeout: *const i64,
) -> NTSTATUS {
    // SAFETY: the caller's arguments.
    let outcome = unsafe {
        poll_lane(timeout);
        polled_remove(timeout, |timeout| ntdll::NT_REMOVE_IO_COMPLETION.get()(port, key, context, status, timeout))
    };
    // It may tell that a request was cancelled because the process ends.
    exit_gate::pass();
    outcome
}

pub(super) unsafe extern "system" fn nt_remove_io_completion_ex(
    port: HANDLE,
    entries: *mut c_void,
    count: u32,
    removed: *mut u32,
    timeout: *const i64,
    is_alertable: u8,
) -> NTSTATUS {
    // SAFETY: the caller's arguments.
    let outcome = unsafe {
        poll_lane(timeout);
        let remove =
            |timeout| ntdll::NT_REMOVE_IO_COMPLETION_EX.get()(port, entries, count, removed, timeout, is_alertable);
        // One that is alertable runs code of the program, which must not count as this library's.
        if is_alertable == 0 { polled_remove(timeout, remove) } else { remove(timeout) }
    };
    exit_gate::pass();
    outcome
}

/// Some socket has been given a port.
static SOCKETS_HAVE_PORTS: AtomicBool = AtomicBool::new(false);

/// Removes a completion from a port. If all sockets are the kernel's, the thread polls the port
/// before it sleeps: by removing without waiting, again and again.
///
/// # Safety
/// The timeout can be read, or is null: without end. `remove` may be called with either.
unsafe fn polled_remove(timeout: *const i64, remove: impl Fn(*const i64) -> NTSTATUS) -> NTSTATUS {
    static NOW: i64 = 0;
    if !SOCKETS_HAVE_PORTS.load(Relaxed) || has_packets() || reentrancy::is_inside() {
        return remove(timeout);
    }
    // SAFETY: as the caller promises. Units of 100 ns, below zero from now on.
    let time = unsafe { timeout.as_ref() }.copied();
    let begin = Instant::now();
    let polled = caught(None, || {
        let polling = Polling::begin().filter(|_| time != Some(0))?;
        let relative = time.filter(|time| *time < 0).map(|time| time.unsigned_abs().saturating_mul(100));
        let until = relative.and_then(|time_ns| begin.checked_add(Duration::from_nanos(time_ns)));
        let mut outcome = STATUS_TIMEOUT;
        polling.poll(until, || {
            outcome = remove(&raw const NOW);
            outcome != STATUS_TIMEOUT
        });
        Some(outcome)
    });
    match polled {
        Some(STATUS_TIMEOUT) | None => {
            let passed = i64::try_from(begin.elapsed().as_nanos() / 100).unwrap_or(i64::MAX);
            // (0 would be a time in the past, which is the same.)
            let left = time.map(|time| if time < 0 { time.saturating_add(passed).min(0) } else { time });
            let outcome = remove(left.as_ref().map_or(null(), |left| &raw const *left));
            if outcome == STATUS_SUCCESS {
                caught((), note_traffic);
            }
            outcome
        }
        Some(outcome) => outcome,
    }
}

/// A thread is about to wait at a port. It polls the lane first, if there were packets lately: then
/// no other thread is woken for them, and it finds their completions.
///
/// # Safety
/// The timeout can be read, or is null: without end.
unsafe fn poll_lane(timeout: *const i64) {
    let Some(lane) = lane_if_begun().filter(|_| !reentrancy::is_inside()) else { return };
    // SAFETY: as the caller promises.
    let waits = timeout.is_null() || unsafe { *timeout } != 0;
    caught((), || lane.poll_for_events(waits, posted));
}
