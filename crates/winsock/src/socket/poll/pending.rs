//! A poll that waits.

use super::layout::{PollInput, PollRecord};
use super::of_kernel::KernelPoll;
use crate::notice::Condition;
use crate::real::Handle;
use crate::socket::Socket;
use crate::socket::request::{Ended, HandleMode, Request};
use std::sync::Arc;
use std::time::Instant;
use windows_sys::Win32::Foundation::{NTSTATUS, STATUS_CANCELLED, STATUS_SUCCESS, STATUS_TIMEOUT};

/// A socket that a poll asks for.
#[derive(Debug)]
pub(super) struct Polled {
    /// What the program has passed.
    pub(super) record: PollRecord,
    /// `None`: this library does not know it.
    pub(super) socket: Option<Arc<Socket>>,
}

impl Polled {
    /// Whether only the kernel has it.
    pub(super) fn is_of_kernel(&self) -> bool {
        self.socket.as_ref().is_none_or(|socket| socket.is_kernels())
    }

    /// What is the case, if it is not the kernel's.
    pub(super) fn found(&self) -> Option<PollRecord> {
        self.socket.as_ref().and_then(|socket| socket.polled(self.record.bits))
    }
}

/// The kernel's part of a poll.
#[derive(Debug)]
pub(super) enum KernelPart {
    /// It has none.
    None,
    /// It is to be begun, by the thread that does so.
    Wanted,
    /// It is under way.
    Running(KernelPoll),
}

/// Where the program wants the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputPlace(pub(super) *mut u8);

// SAFETY: the program's memory, which is the poll's until it has ended.
unsafe impl Send for OutputPlace {}

/// How a poll ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This is the case. (Nothing, if it was not to wait, or another poll has ended it.)
    Found(Vec<PollRecord>),
    /// The time is over.
    TimedOut,
    /// The program has ended it.
    Cancelled,
    /// The kernel's part has failed.
    Failed(NTSTATUS),
}

/// A poll.
#[derive(Debug)]
pub(super) struct PendingPoll {
    pub(super) request: Request,
    /// How its file tells of completions.
    pub(super) mode: HandleMode,
    /// The handle of the driver by which the program has begun it.
    pub(super) file: Handle,
    pub(super) input: PollInput,
    pub(super) output: OutputPlace,
    pub(super) sockets: Vec<Polled>,
    pub(super) until: Option<Instant>,
    pub(super) kernel: KernelPart,
}

impl PendingPoll {
    /// The handles of its sockets; the same one may come twice.
    pub(super) fn handles(&self) -> impl Iterator<Item = Handle> {
        self.sockets.iter().map(|polled| polled.record.handle)
    }

    /// What has become the case at a socket: the first that the program asks for. (It may have
    /// passed the same one twice.)
    pub(super) fn found_at(&self, handle: Handle) -> Option<PollRecord> {
        self.sockets.iter().filter(|polled| polled.record.handle == handle).find_map(Polled::found)
    }

    /// What is told of a socket that is being closed.
    pub(super) fn closed(&self, handle: Handle) -> Vec<PollRecord> {
        let closed = PollRecord { handle, bits: Condition::CLOSED.0, status: STATUS_SUCCESS };
        self.handles().filter(|other| *other == handle).map(|_| closed).collect()
    }

    /// The sockets that the kernel is to poll.
    pub(super) fn of_kernel(&self) -> Vec<PollRecord> {
        self.sockets.iter().filter(|polled| polled.is_of_kernel()).map(|polled| polled.record).collect()
    }

    /// Tells the program that it has ended. Returns the status that a call would return, and the
    /// kernel's part, if that is to be ended.
    pub(super) fn end(self, outcome: &Outcome, is_at_once: bool) -> (NTSTATUS, Option<KernelPoll>) {
        let Self { request, mode, input, output, kernel, .. } = self;
        let ended = ended(&input, outcome, |bytes| {
            // SAFETY: the program's output, which is at least as long as its input: an output has
            // no more sockets than that. It is the poll's until the request is complete.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), output.0, bytes.len()) };
        });
        request.complete(ended, &mode, is_at_once);
        let running = if let KernelPart::Running(running) = kernel { Some(running) } else { None };
        (ended.status, running)
    }
}

/// What the program is told, after the output has been written.
fn ended(input: &PollInput, outcome: &Outcome, write: impl FnOnce(&[u8])) -> Ended {
    let (status, found) = match outcome {
        Outcome::Found(found) => (STATUS_SUCCESS, &found[..]),
        Outcome::TimedOut => (STATUS_TIMEOUT, &[][..]),
        Outcome::Cancelled => return Ended { status: STATUS_CANCELLED, ..Ended::done(0) },
        Outcome::Failed(status) => return Ended { status: *status, ..Ended::done(0) },
    };
    let bytes = input.output(found);
    write(&bytes);
    Ended { status, ..Ended::done(bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::STATUS_INVALID_HANDLE;

    #[test]
    fn an_end_tells_its_status_and_what_was_found() {
        let record = PollRecord { handle: 4, bits: 1, status: 0 };
        let input = PollInput::own(-5, vec![PollRecord { bits: u32::MAX, ..record }; 2]);
        for (outcome, status, len) in [
            (Outcome::Found(vec![record]), STATUS_SUCCESS, 32),
            (Outcome::Found(vec![record; 2]), STATUS_SUCCESS, 48),
            (Outcome::Found(Vec::new()), STATUS_SUCCESS, 16),
            (Outcome::TimedOut, STATUS_TIMEOUT, 16),
            (Outcome::Cancelled, STATUS_CANCELLED, 0),
            (Outcome::Failed(STATUS_INVALID_HANDLE), STATUS_INVALID_HANDLE, 0),
        ] {
            let mut output = Vec::new();
            let ended = ended(&input, &outcome, |bytes| output = bytes.to_vec());
            assert_eq!((ended.status, ended.bytes, output.len()), (status, len, len), "{outcome:?}");
            // The count lies behind the timeout.
            let count = output.get(8).map_or(0, |count| usize::from(*count));
            assert_eq!(count, len.saturating_sub(16) / 16, "{outcome:?}");
        }
    }
}
