//! All polls of the process.
//!
//! The lock of this module is taken before the one of a socket's state and the lane's, and after
//! that of a socket's requests.

use super::exclusive::MainPolls;
use super::index::Index;
use super::layout::{PollInput, PollRecord};
use super::of_kernel::{KernelPoll, ready_now};
use super::pending::{KernelPart, Outcome, OutputPlace, PendingPoll, Polled};
use super::timeout::PollEnd;
use crate::lane::{Lane, lane_if_begun};
use crate::real::Handle;
use crate::socket::request::{Request, file_modes};
use crate::socket::{Socket, table};
use std::collections::{BTreeSet, HashMap};
use std::os::windows::io::BorrowedHandle;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use windows_sys::Win32::Foundation::{NTSTATUS, STATUS_CANCELLED, STATUS_PENDING};

/// Polls that wait, or are about to. While it is zero nothing is looked at, and no lock is taken.
static COUNT: AtomicUsize = AtomicUsize::new(0);

static POLLS: LazyLock<Mutex<Polls>> = LazyLock::new(Mutex::default);

fn polls() -> MutexGuard<'static, Polls> {
    POLLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether polls wait.
pub(crate) fn is_any() -> bool {
    COUNT.load(SeqCst) != 0
}

/// A poll that counts.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Self {
        COUNT.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, SeqCst);
    }
}

#[derive(Debug, Default)]
struct Polls {
    waiting: HashMap<u64, (PendingPoll, Counted)>,
    of_socket: Index,
    of_file: Index,
    /// By the address of its status block.
    of_request: HashMap<usize, u64>,
    main: MainPolls,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Those with a part of the kernel's.
    of_kernel: BTreeSet<u64>,
    /// Parts of the kernel's that are being cancelled.
    ending: Vec<KernelPoll>,
    last: u64,
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
    lane.ring_at(polls.deadlines.first().map(|(at, _)| *at));
}

fn watch_kernel_half(socket: &Socket, lane: &Lane) {
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

impl Polls {
    fn insert(&mut self, poll: PendingPoll, counted: Counted, lane: &Lane) {
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
            lane.ring_at(self.deadlines.first().map(|(at, _)| *at));
        }
        // What is ready by now is told as an event, which waits for this lock.
        poll.sockets.iter().filter_map(|polled| polled.socket.as_ref()).for_each(|socket| watch(socket, lane));
        self.waiting.insert(number, (poll, counted));
    }

    /// Ends a poll.
    fn end(&mut self, number: u64, outcome: &Outcome) {
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

    fn look(&mut self, socket: &Socket, lane: &Lane) {
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

    fn cancel(&mut self, file: Handle, which: Which) -> bool {
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

    fn expire(&mut self, now: Instant) {
        while let Some((_, number)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.end(number, &Outcome::TimedOut);
        }
    }

    /// Begins the kernel's parts, and takes what they have found.
    fn advance_kernel(&mut self, event: BorrowedHandle<'_>) {
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
