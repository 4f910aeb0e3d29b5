//! Polls begin, are looked at, and end.
//!
//! The lock of this module is taken before the one of a socket's state and the lane's, and after
//! that of a socket's requests.

use super::layout::{PollInput, PollRecord};
use super::of_kernel::ready_now;
use super::pending::{KernelPart, Outcome, OutputPlace, PendingPoll, Polled};
use super::timeout::PollEnd;
use super::waiting::{Counted, WaitingPolls, Which, is_any, watch_kernel_half};
use crate::lane::{Lane, lane_if_begun};
use crate::real::Handle;
use crate::socket::request::{Request, file_modes};
use crate::socket::{Socket, table};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use windows_sys::Win32::Foundation::{NTSTATUS, STATUS_PENDING};

static POLLS: LazyLock<Mutex<WaitingPolls>> = LazyLock::new(Mutex::default);

fn polls() -> MutexGuard<'static, WaitingPolls> {
    POLLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A poll, as a program begins it.
#[derive(Debug)]
pub(crate) struct NewPoll {
    /// The handle of the driver.
    pub(crate) file: Handle,
    /// What is asked for.
    pub(crate) input: PollInput,
    /// Where the output goes: there is room for as much as the input has.
    pub(crate) output: *mut u8,
}

/// Begins a poll. Returns the call's status; `None`: the kernel is to do it all.
pub(crate) fn begin(new: NewPoll, request: impl FnOnce() -> Request, lane: &Lane) -> Option<NTSTATUS> {
    // What happens at a socket from now on is looked at.
    let counted = Counted::new();
    let NewPoll { file, input, output } = new;
    let with_socket = |record: &PollRecord| Polled { record: *record, socket: table::get(record.handle) };
    let sockets: Vec<Polled> = input.records.iter().map(with_socket).collect();
    let is_of_kernel: Vec<bool> = sockets.iter().map(Polled::is_of_kernel).collect();
    if is_of_kernel.iter().all(|is_of_kernel| *is_of_kernel) {
        return None;
    }
    let kernels: Vec<PollRecord> =
        sockets.iter().zip(&is_of_kernel).filter(|(_, is_of_kernel)| **is_of_kernel).map(|(it, _)| it.record).collect();
    let kernel = if kernels.is_empty() { KernelPart::None } else { KernelPart::Wanted };
    // If the kernel refuses one, it says so to the program.
    let ready = if kernels.is_empty() { Vec::new() } else { ready_now(kernels).ok()? };
    let mut ready = ready.into_iter().peekable();
    let known = || sockets.iter().filter_map(|polled| polled.socket.as_ref());
    known().for_each(|socket| watch_kernel_half(socket, lane));
    let mode = file_modes::mode_of(file);
    let end = PollEnd::of(input.timeout());

    let mut polls = polls();
    // One that has been closed meanwhile has been told to the polls that there were.
    if known().any(|socket| table::get(socket.handle).is_none_or(|now| !Arc::ptr_eq(&now, socket))) {
        return None;
    }
    for ended in polls.main.ended_by(input.records.iter().map(|record| record.handle), input.is_exclusive()) {
        polls.end(ended, &Outcome::Found(Vec::new()));
    }
    let found: Vec<PollRecord> = sockets
        .iter()
        .zip(is_of_kernel)
        .filter_map(|(polled, is_of_kernel)| match is_of_kernel {
            true => ready.next_if(|ready| ready.handle == polled.record.handle),
            false => polled.found(),
        })
        .collect();
    let until = if let PollEnd::At(at) = end { Some(at) } else { None };
    let (request, output) = (request(), OutputPlace(output));
    let poll = PendingPoll { request, mode, file, input, output, sockets, until, kernel };
    if !found.is_empty() || end == PollEnd::AtOnce {
        return Some(poll.end(&Outcome::Found(found), true).0);
    }
    polls.insert(poll, counted, lane);
    Some(STATUS_PENDING)
}

/// Something has happened at a socket, perhaps.
pub(crate) fn look(socket: &Socket) {
    if let (true, Some(lane)) = (is_any(), lane_if_begun()) {
        polls().look(socket, lane);
    }
}

/// A handle is being closed: a socket that is polled, or the handle by which polls were begun.
pub(crate) fn closing(handle: Handle) {
    if is_any() {
        let mut polls = polls();
        for number in polls.of_socket.of(handle) {
            if let Some((poll, _)) = polls.waiting.get(&number) {
                let closed = poll.closed(handle);
                polls.end(number, &Outcome::Found(closed));
            }
        }
        polls.cancel(handle, Which::All);
    }
}

/// Cancels polls that were begun by a handle. Returns whether there were any.
pub(crate) fn cancel(file: Handle, which: Which) -> bool {
    is_any() && polls().cancel(file, which)
}

/// Ends polls whose time is over, and goes on with the kernel's parts. Called by the thread that
/// does so, which never ends.
pub(crate) fn on_alarm(lane: &Lane) {
    // Also if none waits: then the alarm is to have no time any more.
    let mut polls = polls();
    polls.expire(Instant::now());
    polls.advance_kernel(lane.alarm_event());
    lane.ring_at(polls.deadline());
}
