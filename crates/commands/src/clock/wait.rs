//! `tickwire clock wait`: waits until the clock is good enough, for scripts that start a program
//! which needs it.

use super::NOT_SYNCHRONISED;
use super::units::span;
use crate::args::clock::ClockWait;
use anyhow::Result;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tickclock::{Clock, OpenError, Reading, Status};

/// The polling interval.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(arguments: &ClockWait) -> Result<ExitCode> {
    let begin = Instant::now();
    let within = (arguments.bound * 1e3) as u64;
    let page = arguments.page.path();
    let mut progress = Progress::new(&page, arguments);
    let mut clock = None;
    loop {
        if clock.is_none() {
            match Clock::open(&page) {
                Ok(opened) => clock = Some(opened),
                // The daemon may be about to start.
                Err(OpenError::Missing(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let now = clock.as_ref().map(Clock::now);
        if now.is_some_and(|now| now.bound <= within && !now.status.contains(Status::STALE)) {
            return Ok(ExitCode::SUCCESS);
        }
        if now.is_some_and(|now| now.status.contains(Status::RETIRED)) {
            clock = None;
        }
        let state = state(&page, now.as_ref());
        if arguments.timeout.is_some_and(|timeout| begin.elapsed().as_secs_f64() >= timeout) {
            drop(progress);
            let waited = begin.elapsed().as_secs_f64();
            eprintln!("tickwire: after {waited:.1} s {}", super::why::lacking(&page, now.as_ref(), within));
            return Ok(ExitCode::from(NOT_SYNCHRONISED));
        }
        progress.show(&state);
        std::thread::sleep(LOOK);
    }
}

/// Why it is not good enough.
fn state(page: &Path, now: Option<&Reading>) -> String {
    match now {
        None => format!("there is no clock at {}", page.display()),
        Some(now) if now.bound == u64::MAX => "the time is not known".to_owned(),
        Some(now) if now.status.contains(Status::STALE) => {
            format!("the bound is {}, and {}", span(now.bound as f64), super::why::STALE)
        }
        Some(now) => format!("the bound is {}", span(now.bound as f64)),
    }
}

/// Progress for a user at a terminal; a script sees nothing.
struct Progress {
    shown: bool,
    /// The text on the line, and since when.
    line: String,
    changed: Option<Instant>,
}

impl Progress {
    /// The shortest time that a line is shown, so that it can be read.
    const LEAST_SHOWN: Duration = Duration::from_millis(500);

    fn new(page: &Path, arguments: &ClockWait) -> Self {
        let shown = std::io::stderr().is_terminal();
        if shown {
            let mut what = format!("waiting for {} to be good to {}", page.display(), span(arguments.bound * 1e3));
            if let Some(timeout) = arguments.timeout {
                // Writing to a string does not fail.
                let _ = write!(what, ", for {timeout} s at most");
            }
            eprintln!("tickwire: {what}");
        }
        Self { shown, line: String::new(), changed: None }
    }

    fn show(&mut self, state: &str) {
        let due = self.changed.is_none_or(|changed| changed.elapsed() >= Self::LEAST_SHOWN);
        if self.shown && due && self.line != state {
            self.line = state.to_owned();
            self.changed = Some(Instant::now());
            // Back to the beginning of the line, and clear it.
            eprint!("\r\x1b[K{state}");
            let _ = std::io::stderr().flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown && !self.line.is_empty() {
            eprint!("\r\x1b[K");
        }
    }
}
