//! How a call wants to wait, and what its attempts know.

use crate::sys::NO_FD;
use crate::sys::errno::Errno;
use libc::{pollfd, sigset_t};
use tickwire_stack::time::{Instant, Span};

/// How often a polling thread checks for signals and the kernel's descriptors.
pub(super) const LOOK: Span = Span::from_micros(50);

/// The call's time is over. Never an error number of the system: `ETIMEDOUT` is the error of a
/// connection on which nothing gets through.
pub(crate) const TIMED_OUT: Errno = Errno(-3);

/// How a call wants to wait.
pub(crate) struct WaitPlan<'a> {
    /// The descriptions of the sockets on which it waits; if empty, any event of the lane causes a
    /// new attempt.
    pub(crate) on: &'a [u32],
    /// It waits for an event that makes no socket ready, or while no other thread may enter: it
    /// watches the rings and the timers itself.
    pub(crate) watches: bool,
    /// The first [`OWN`] entries are the lane's; then the kernel descriptors whose readiness also
    /// ends a sleep.
    pub(crate) fds: &'a mut [pollfd],
    /// Until when; `None` without end.
    pub(crate) until: Option<Instant>,
    /// Signal mask during the wait (`ppoll`, `pselect`, `epoll_pwait`).
    pub(crate) mask: Option<&'a sigset_t>,
    /// Whether Linux restarts this call when a handler installed with `SA_RESTART` has run.
    pub(crate) restart: bool,
}

impl<'a> WaitPlan<'a> {
    /// Waits on the sockets of these descriptions, and is restarted unless its time is limited, as
    /// Linux does with calls on one socket.
    pub(crate) fn new(on: &'a [u32], fds: &'a mut [pollfd], until: Option<Instant>) -> Self {
        Self { on, watches: false, fds, until, mask: None, restart: until.is_none() }
    }
}

/// How many entries of a list are the lane's: the TAP device and the receive ring (or the standby
/// ring), and the thread's wakeup instance.
pub(crate) const OWN: usize = 3;

/// What an attempt knows of the kernel's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelHint {
    /// Only what the attempt itself found at its last check.
    Unknown,
    /// One of them ended the sleep: check them.
    Speaks,
    /// The sleep has just ended without them, or their readiness ends the coming sleep.
    Silent,
}

/// A list with the lane's own entries and one other.
pub(crate) fn and(other: pollfd) -> [pollfd; OWN + 1] {
    let mut places = [NO_FD; OWN + 1];
    places[OWN] = other;
    places
}

impl KernelHint {
    /// Whether they are to be checked now, after the last check at `looked`.
    pub(crate) fn wants_look(self, now: Instant, looked: Instant) -> bool {
        match self {
            Self::Unknown => now.since(looked) >= LOOK,
            Self::Speaks => true,
            Self::Silent => false,
        }
    }
}
