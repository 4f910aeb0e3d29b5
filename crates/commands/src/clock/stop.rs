//! What ends a daemon that runs in the foreground: on Linux a signal, on Windows Ctrl-C.

#[cfg(unix)]
pub use unix::until_told;
#[cfg(windows)]
pub(super) use windows::until_told;

#[cfg(unix)]
mod unix {
    use anyhow::{Context, Result};
    use std::os::fd::OwnedFd;
    use std::sync::Mutex;

    /// A descriptor for a daemon to wait on: it reports hang-up once a signal has come.
    ///
    /// # Errors
    /// The system has no more descriptors, or another handler is there already.
    pub fn until_told() -> Result<OwnedFd> {
        let (stop, stopper) = nix::unistd::pipe().context("cannot make a pipe")?;
        let stopper = Mutex::new(Some(stopper));
        // Closing the write end wakes the waiter.
        ctrlc::set_handler(move || drop(stopper.lock().map(|mut stopper| stopper.take())))
            .context("cannot wait for signals")?;
        Ok(stop)
    }
}

#[cfg(windows)]
mod windows {
    use anyhow::{Context, Result};
    use std::sync::Arc;
    use tickwire_timekeeper::StopEvent;

    /// An event for a daemon to wait on: it is set once Ctrl-C has come.
    pub(in crate::clock) fn until_told() -> Result<Arc<StopEvent>> {
        let stop = Arc::new(StopEvent::new().context("cannot make an event")?);
        let told = Arc::clone(&stop);
        ctrlc::set_handler(move || told.set()).context("cannot wait for Ctrl-C")?;
        Ok(stop)
    }
}
