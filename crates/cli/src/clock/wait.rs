//! `tickwire clock wait`: until the clock is good enough, for scripts that start something which needs it.

use crate::args::{ClockWait, NOT_SYNCHRONISED};
use anyhow::Result;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tickclock::{Clock, OpenError, Status};

/// How often to look.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(arguments: &ClockWait) -> Result<ExitCode> {
    let begin = Instant::now();
    let within = (arguments.bound * 1e3) as u64;
    let page = arguments.page.path();
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
        if arguments.timeout.is_some_and(|timeout| begin.elapsed().as_secs_f64() >= timeout) {
            let state = match now {
                None => format!("there is no clock at {}", page.display()),
                Some(now) if now.bound == u64::MAX => "the time is not known".to_owned(),
                Some(now) => format!("the bound is {}", super::show::span(now.bound as f64)),
            };
            eprintln!("tickwire: after {:.1} s {state}", begin.elapsed().as_secs_f64());
            return Ok(ExitCode::from(NOT_SYNCHRONISED));
        }
        std::thread::sleep(LOOK);
    }
}
