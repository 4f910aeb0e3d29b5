//! A call that waits at a socket of the kernel polls it before it sleeps: the tier of a program
//! without a lane, and of sockets that stay on the kernel. The rule is the lane's ([`spin`]).
//!
//! Polling asks the kernel whether the call would find something, and never changes the socket:
//! whether it blocks is a property that all handles and threads share. Then the program's own call
//! is made, which receives, or sleeps. If another thread has received meanwhile, it sleeps as it
//! does without this library.

use super::{Socket, State, WinsockError, kernel_row};
use crate::real::{self, Handle};
use crate::spin;
use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// One of so many looks at a socket asks also for what has no bytes: the end of a connection, an
/// error (another thread may have closed the socket), an empty datagram. To ask for bytes is by far
/// cheaper.
const WHOLE_LOOKS: u32 = 64;

/// What polling looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// Data, or the end.
    Data,
    /// Connections.
    Connection,
}

impl Awaited {
    /// Whether the kernel has it. `look`: how many looks were before.
    fn is_there(self, handle: Handle, look: u32) -> bool {
        let has_bytes = || self == Self::Data && real::waiting_bytes(handle) > 0;
        let is_whole = self == Self::Connection || look % WHOLE_LOOKS == WHOLE_LOOKS - 1;
        has_bytes() || (is_whole && real::would_return(handle, Duration::ZERO))
    }
}

impl Socket {
    /// A call is about to receive from the kernel's socket: polls.
    ///
    /// # Errors
    /// If the time is over that the program has set (`SO_RCVTIMEO`): polling counts.
    pub(super) fn poll_kernel(&self, row: Option<usize>) -> Result<(), WinsockError> {
        if self.is_nonblocking() {
            return Ok(());
        }
        let until = self.receive_until();
        if !self.poll_for(Awaited::Data, row, until) {
            return Ok(());
        }
        let Some(until) = until else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if real::would_return(self.handle, left) { Ok(()) } else { Err(WinsockError::TIMED_OUT) }
    }

    /// A call is about to accept at the kernel's socket: polls.
    pub(super) fn poll_before_accept(&self) {
        if let (State::Kernel { row, .. }, false) = (self.state(), self.is_nonblocking()) {
            self.poll_for(Awaited::Connection, row, None);
        }
    }

    /// Polls. Returns whether that was in vain.
    fn poll_for(&self, awaited: Awaited, row: Option<usize>, until: Option<Instant>) -> bool {
        let Some(polling) = Polling::begin() else { return false };
        let mut looks = 0..;
        let has_found = polling.poll(until, || awaited.is_there(self.handle, looks.next().unwrap_or_default()));
        if let Some(row) = row {
            kernel_row::count_poll(row, has_found);
        }
        !has_found
    }

    /// Notes what came of polling at several sockets, of which this is one.
    pub(crate) fn note_poll(&self, has_found: bool) {
        if let State::Kernel { row: Some(row), .. } = self.state() {
            kernel_row::count_poll(row, has_found);
        }
    }
}

/// A thread polls. There are fewer of them than processors, so that what they wait for can come.
/// (On one processor there is one.)
#[derive(Debug)]
pub(crate) struct Polling {
    time: Duration,
}

static POLLING: AtomicUsize = AtomicUsize::new(0);

static MOST: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, |count| (count.get() - 1).max(1)));

impl Polling {
    /// `None`: the thread is to sleep at once, because there was no traffic lately, or enough
    /// threads poll already.
    pub(crate) fn begin() -> Option<Self> {
        let time = spin::budget(since_traffic() < spin::LATELY);
        if time.is_zero() {
            return None;
        }
        let others = POLLING.fetch_add(1, Relaxed);
        let polling = Self { time };
        (others < *MOST).then_some(polling)
    }

    /// Looks again and again, until there is something, or the time is over: that for polling, or
    /// the call's own. Returns whether there is something.
    pub(crate) fn poll(&self, until: Option<Instant>, mut look: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + self.time;
        let end = until.map_or(end, |until| until.min(end));
        loop {
            if look() {
                note_traffic();
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::hint::spin_loop();
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        POLLING.fetch_sub(1, Relaxed);
    }
}

/// When the kernel last had something for a socket, in microseconds since [`BEGIN`]; 0: never.
static LAST_TRAFFIC: AtomicU64 = AtomicU64::new(0);

static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The kernel has had something for a socket.
pub(crate) fn note_traffic() {
    let now = BEGIN.elapsed().as_micros() as u64;
    LAST_TRAFFIC.store(now.max(1), Relaxed);
}

/// For how long it has had nothing.
fn since_traffic() -> Duration {
    match LAST_TRAFFIC.load(Relaxed) {
        0 => Duration::MAX,
        last => BEGIN.elapsed().saturating_sub(Duration::from_micros(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_polls_after_traffic_and_until_there_is_something() {
        assert_eq!(since_traffic(), Duration::MAX);
        assert!(Polling::begin().is_none());
        note_traffic();
        let polling = Polling { time: Duration::from_secs(1000) };
        let mut looks = 0;
        assert!(polling.poll(None, || {
            looks += 1;
            looks == 5
        }));
        assert!(!polling.poll(Some(Instant::now()), || false), "the call's own time is over");
        assert!(!Polling { time: Duration::ZERO }.poll(None, || false));
        // (Three values have been dropped that were not counted.)
        POLLING.store(*MOST, Relaxed);
        note_traffic();
        assert!(Polling::begin().is_none(), "too many");
        assert_eq!(POLLING.load(Relaxed), *MOST);
    }
}
