//! Signals: blocked while a lane is held, and their effect.

use core::ffi::c_int;
use core::mem::{MaybeUninit, zeroed};
use libc::sigset_t;

/// Signals that a fault of the running code raises. Blocked, such a fault would end the program
/// without running its handler.
pub(crate) const FAULTS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// Blocks every signal of this thread except those of faults, and returns the previous mask.
pub(crate) fn block_signals() -> sigset_t {
    // SAFETY: both sets are ours and filled in before use; blocking is always allowed.
    unsafe {
        let (mut all, mut before) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        for signal in FAULTS {
            libc::sigdelset(&raw mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    }
}

/// Restores the mask that [`block_signals`] returned.
pub(crate) fn restore_signals(before: &sigset_t) {
    // SAFETY: a set that the system returned.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, core::ptr::null_mut()) };
}

/// Unblocks these signals of this thread, a bit each.
pub(crate) fn unblock_signals(signals: u64) {
    // SAFETY: a set of our own.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&raw mut set);
        (1..=64).filter(|signal| signals & 1 << (signal - 1) != 0).for_each(|signal| {
            libc::sigaddset(&raw mut set, signal);
        });
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
    }
}

/// The effect of the pending signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signals {
    /// There are none.
    None,
    /// No handler runs: they are ignored, or end or stop the process. (Ignored signals stay
    /// pending, too, while they are blocked.)
    Silent,
    /// Handlers run; `restart` is true if all of them were installed with `SA_RESTART`.
    Handled { restart: bool },
}

/// The effect of the pending signals that `mask` does not block.
pub(crate) fn waiting_signals(mask: &sigset_t) -> Signals {
    // SAFETY: all zero is a valid set; the system fills it in.
    let pending = unsafe {
        let mut pending: sigset_t = zeroed();
        libc::sigpending(&raw mut pending);
        pending
    };
    let mut found = Signals::None;
    for signal in 1..=64 {
        // SAFETY: the sets are valid.
        let waits =
            unsafe { libc::sigismember(&raw const pending, signal) == 1 && libc::sigismember(mask, signal) == 0 };
        if !waits {
            continue;
        }
        found = match (found, handler_restarts(signal)) {
            (Signals::Handled { restart }, Some(this)) => Signals::Handled { restart: restart && this },
            (_, Some(restart)) => Signals::Handled { restart },
            (Signals::None, None) => Signals::Silent,
            (found, None) => found,
        };
    }
    found
}

/// Whether the handler of a signal, if it has one, was installed with `SA_RESTART`.
fn handler_restarts(signal: c_int) -> Option<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only reads; the result is used only if filled in.
    let action = unsafe {
        if libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) < 0 {
            return None;
        }
        action.assume_init()
    };
    (action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN)
        .then_some(action.sa_flags & libc::SA_RESTART != 0)
}

/// Whether an interrupted call restarts: true if every handler of the program was installed with
/// `SA_RESTART` (which of them ran cannot be seen from here).
pub(crate) fn handlers_restart() -> bool {
    // Handlers of faults do not interrupt waits.
    (1..=64).filter(|signal| !FAULTS.contains(signal)).all(|signal| handler_restarts(signal).unwrap_or(true))
}

/// Raises SIGPIPE in this thread.
pub(crate) fn raise_pipe() {
    // SAFETY: a plain number.
    unsafe { libc::raise(libc::SIGPIPE) };
}
