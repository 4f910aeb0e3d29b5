//! The polls that wait, by their numbers, and what is known of them by handle.

use super::exclusive::MainPolls;
use super::index::Index;
use super::of_kernel::KernelPoll;
use super::pending::{KernelPart, Outcome, PendingPoll};
use crate::lane::{Lane, lane_if_begun};
use crate::real::Handle;
use crate::socket::Socket;
use std::collections::{BTreeSet, HashMap};
use std::os::windows::io::BorrowedHandle;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;
use windows_sys::Win32::Foundation::STATUS_CANCELLED;

/// Polls that wait, or are about to. While it is zero nothing is looked at, and no lock is taken.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether polls wait.
pub(crate) fn is_any() -> bool {
    COUNT.load(SeqCst) != 0
}

/// A poll that counts.
#[derive(Debug)]
pub(super) struct Counted;

impl Counted {
    pub(super) fn new() -> Self {
        COUNT.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, SeqCst);
    }
}

/// The polls that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingPolls {
    pub(super) waiting: HashMap<u64, (PendingPoll, Counted)>,
    pub(super) of_socket: Index,
    of_file: Index,
    /// By the address of its status block.
    of_request: HashMap<usize, u64>,
    pub(super) main: MainPolls,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Those with a part of the kernel's.
    of_kernel: BTreeSet<u64>,
    /// Parts of the kernel's that are being cancelled.
    ending: Vec<KernelPoll>,
    last: u64,
}

/// Which polls of a handle are cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// The one of this status block.
    Request(usize),
    /// Those that this thread has begun.
    Thread(u32),
    /// All.
    All,
}

/// Has the kernel tell of its half of a socket, if it has one.
pub(super) fn watch_kernel_half(socket: &Socket, lane: &Lane) {
    if socket.has_kernel_half() {
        lane.watch_kernel_half(socket.handle);
    }
}

/// From now on what happens at a socket is told.
fn watch(socket: &Socket, lane: &Lane) {
    watch_kernel_half(socket, lane);
    if let Some(id) = socket.on_lane() {
        let _ = lane.watch(id, socket.handle);
    }
}

impl WaitingPolls {
    /// A poll waits from now on.
    pub(super) fn insert(&mut self, poll: PendingPoll, counted: Counted, lane: &Lane) {
        self.last += 1;
        let number = self.last;
        for handle in poll.handles() {
            self.of_socket.insert(handle, number);
            self.main.begin(number, handle, poll.input.is_exclusive());
        }
        self.of_file.insert(poll.file, number);
        self.of_request.insert(poll.request.address(), number);
        if let KernelPart::Wanted = poll.kernel {
            self.of_kernel.insert(number);
            lane.ring();
        }
        if let Some(until) = poll.until {
            self.deadlines.insert((until, number));
            lane.ring_at(self.deadline());
        }
        // What is ready by now is told as an event, which waits for this lock.
        poll.sockets.iter().filter_map(|polled| polled.socket.as_ref()).for_each(|socket| watch(socket, lane));
        self.waiting.insert(number, (poll, counted));
    }

    /// Ends a poll.
    pub(super) fn end(&mut self, number: u64, outcome: &Outcome) {
        let Some((poll, _counted)) = self.waiting.remove(&number) else { return };
        for handle in poll.handles() {
            self.of_socket.remove(handle, number);
            self.main.end(number, handle);
        }
        self.of_file.remove(poll.file, number);
        self.of_request.remove(&poll.request.address());
        self.of_kernel.remove(&number);
        if let Some(until) = poll.until {
            self.deadlines.remove(&(until, number));
        }
        if let (_, Some(running)) = poll.end(outcome, false) {
            self.abandon(running);
        }
    }

    /// A part of the kernel's is not needed any more.
    fn abandon(&mut self, running: KernelPoll) {
        running.cancel();
        self.ending.retain(|ending| !ending.has_ended());
        self.ending.push(running);
    }

    /// Looks at the polls of a socket.
    pub(super) fn look(&mut self, socket: &Socket, lane: &Lane) {
        for number in self.of_socket.of(socket.handle) {
            let Some((poll, _)) = self.waiting.get_mut(&number) else { continue };
            if let Some(found) = poll.found_at(socket.handle) {
                self.end(number, &Outcome::Found(vec![found]));
            } else if !socket.is_kernels() {
                // It may have come to the lane.
                watch(socket, lane);
            } else if !matches!(&poll.kernel, KernelPart::Running(running) if running.has(socket.handle)) {
                // It was not the kernel's when the poll began.
                let before = std::mem::replace(&mut poll.kernel, KernelPart::Wanted);
                if let KernelPart::Running(running) = before {
                    self.abandon(running);
                }
                self.of_kernel.insert(number);
                lane.ring();
            }
        }
    }

    /// Cancels polls. Returns whether there were any.
    pub(super) fn cancel(&mut self, file: Handle, which: Which) -> bool {
        let numbers = match which {
            Which::Request(address) => self.of_request.get(&address).copied().into_iter().collect(),
            Which::Thread(_) | Which::All => self.of_file.of(file),
        };
        let mut is_any = false;
        for number in numbers {
            let Some((poll, _)) = self.waiting.get(&number) else { continue };
            let is_threads = !matches!(which, Which::Thread(thread) if poll.request.thread() != thread);
            if poll.file == file && is_threads {
                self.end(number, &Outcome::Cancelled);
                is_any = true;
            }
        }
        is_any
    }

    /// The next time at which one ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends polls whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((_, number)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.end(number, &Outcome::TimedOut);
        }
    }

    /// Begins the kernel's parts, and takes what they have found.
    pub(super) fn advance_kernel(&mut self, event: BorrowedHandle<'_>) {
        // Beginning one resets the event: so all are looked at afterwards.
        for number in self.of_kernel.clone() {
            let Some((poll, _)) = self.waiting.get_mut(&number) else { continue };
            if let KernelPart::Wanted = poll.kernel {
                match KernelPoll::start(poll.of_kernel(), event) {
                    Ok(running) => poll.kernel = KernelPart::Running(running),
                    Err(status) => self.end(number, &Outcome::Failed(status)),
                }
            }
        }
        for number in self.of_kernel.clone() {
            let Some((poll, _)) = self.waiting.get_mut(&number) else { continue };
            let KernelPart::Running(running) = &poll.kernel else { continue };
            match running.found() {
                None => {}
                // Its handle was closed, or the program has cancelled what it has under way there.
                Some(Err(STATUS_CANCELLED)) => {
                    poll.kernel = KernelPart::Wanted;
                    if let Some(lane) = lane_if_begun() {
                        lane.ring();
                    }
                }
                Some(Err(status)) => self.end(number, &Outcome::Failed(status)),
                Some(Ok(found)) => self.end(number, &Outcome::Found(found)),
            }
        }
        self.ending.retain(|ending| !ending.has_ended());
    }
}
