//! A program that was started.

use crate::enter::Entered;
use crate::error::{EnterError, EnteredBy};
use crate::sys::{self, InterruptsIgnored, Job, LoadedEvent};
use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::time::{Duration, Instant};

/// How often it is looked whether the library is loaded.
const POLL: Duration = Duration::from_millis(1);

/// Whether the library is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadState {
    /// It is, and it has said that it is ready (see [`LOADED_EVENT`](crate::LOADED_EVENT)).
    Ready,
    /// It is, and the program's own code has not run before. It has not said that it is ready, or
    /// it does not say such a thing at all.
    Loaded,
    /// The loader is not that far yet.
    Pending,
    /// The process has ended, so it is not known: the library has not said that it is ready. If the
    /// loader ended the process, the exit code is one of an error (`0xc0000135`: a library is
    /// missing, for instance).
    Ended,
    /// It was not entered: the program runs without it.
    NotEntered,
}

/// A program that was started by [`Launch`](crate::Launch). If this process ends, or this value is
/// dropped, the program goes on, unless it is [bound](crate::Launch::bound).
#[derive(Debug)]
pub struct RunningProgram {
    process: OwnedHandle,
    id: u32,
    entered: Result<Entered, EnterError>,
    kept: Kept,
}

/// What is kept for a program.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) loaded: LoadedEvent,
    pub(crate) _interrupts: InterruptsIgnored,
    /// Of a program that is bound.
    pub(crate) _job: Option<Job>,
}

impl RunningProgram {
    pub(crate) const fn new(process: OwnedHandle, id: u32, entered: Result<Entered, EnterError>, kept: Kept) -> Self {
        Self { process, id, entered, kept }
    }

    /// Its process ID.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// How the library was entered.
    ///
    /// # Errors
    /// Why it was not. The program runs without it.
    pub fn entered(&self) -> Result<EnteredBy, &EnterError> {
        self.entered.as_ref().map(|entered| entered.by())
    }

    /// Whether the library is loaded.
    #[must_use]
    pub fn load_state(&self) -> LoadState {
        let Ok(entered) = self.entered else { return LoadState::NotEntered };
        if sys::wait(self.kept.loaded.as_handle(), Some(Duration::ZERO)).unwrap_or(false) {
            return LoadState::Ready;
        }
        let slot = match entered {
            Entered::ByThread => return LoadState::Loaded,
            Entered::ByImportTable(slot) => slot,
        };
        match slot.is_resolved(self.as_handle()) {
            Ok(true) => LoadState::Loaded,
            // Memory that cannot be read is that of a process that ends.
            Err(_) => LoadState::Ended,
            Ok(false) if sys::has_ended(self.as_handle()) => LoadState::Ended,
            Ok(false) => LoadState::Pending,
        }
    }

    /// Waits until the library is loaded or the process has ended, for this time.
    #[must_use]
    pub fn wait_until_loaded(&self, timeout: Duration) -> LoadState {
        let begin = Instant::now();
        loop {
            let state = self.load_state();
            if state != LoadState::Pending || begin.elapsed() >= timeout {
                return state;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the library has said that it is ready or the process has ended, for this time.
    #[must_use]
    pub fn wait_until_ready(&self, timeout: Duration) -> LoadState {
        if self.entered.is_ok() {
            // If this fails, the state says as much.
            let _ = sys::wait_for_either([self.kept.loaded.as_handle(), self.as_handle()], timeout);
        }
        self.load_state()
    }

    /// Waits until the program has ended, and returns its exit code. Ctrl-C and Ctrl-Break are the
    /// program's; they do not end this process.
    ///
    /// # Errors
    /// If Windows does not say.
    pub fn wait(&self) -> io::Result<u32> {
        sys::wait(self.as_handle(), None)?;
        sys::exit_code(self.as_handle())
    }
}

impl RunningProgram {
    /// Ends it at once, with this exit code.
    pub fn end(&self, code: u32) {
        sys::terminate(self.as_handle(), code);
    }
}

impl AsHandle for RunningProgram {
    /// The process.
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.process.as_handle()
    }
}
