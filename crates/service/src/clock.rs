//! The clock daemon as a thread of the service. Its failures are logged, and the fast path
//! continues.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use tickwire_timekeeper::{Daemon, TimekeeperConfig};

/// After a failure the clock is tried again after this time, in milliseconds: an address may not
/// exist yet, or another daemon may be about to end.
const AGAIN: u16 = 5000;

/// The clock's thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Closing it tells the thread to end.
    stopper: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    /// Starts the clock's thread.
    pub(crate) fn start(config: TimekeeperConfig) -> Self {
        let start = || {
            let (stop, stopper) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
            let thread = std::thread::Builder::new().name("clock".into()).spawn(move || keep(&config, stop.as_fd()))?;
            Ok((stopper, thread))
        };
        match start() {
            Ok((stopper, thread)) => Self { stopper: Some(stopper), thread: Some(thread) },
            Err(error) => {
                let error: std::io::Error = error;
                tracing::error!(%error, "there is no clock: its thread cannot be made");
                Self { stopper: None, thread: None }
            }
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.stopper.take());
        if let Some(thread) = self.thread.take() {
            // A failure of the thread is caught and logged there.
            let _ = thread.join();
        }
    }
}

/// Runs the clock until `stop` is readable.
fn keep(config: &TimekeeperConfig, stop: BorrowedFd<'_>) {
    let mut told = String::new();
    loop {
        let ended = std::panic::catch_unwind(|| attempt(config, stop));
        let Err(error) = ended.unwrap_or_else(|_| Err("the clock daemon has failed, see above".into())) else { return };
        // Once, not at each attempt.
        if told != error {
            tracing::error!("there is no clock, and it is tried again: {error}");
            told = error;
        }
        let mut stopped = [PollFd::new(stop, PollFlags::POLLIN)];
        if !matches!(poll(&mut stopped, PollTimeout::from(AGAIN)), Ok(0) | Err(Errno::EINTR)) {
            return;
        }
    }
}

/// Runs the clock until `stop` is readable, or until it fails.
fn attempt(config: &TimekeeperConfig, stop: BorrowedFd<'_>) -> Result<(), String> {
    let mut daemon = Daemon::start(config).map_err(|error| error.to_string())?;
    daemon.run(stop).map_err(|error| format!("the clock daemon cannot wait: {error}"))
}
