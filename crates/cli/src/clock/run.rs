//! `tickwire clock run`: the daemon alone, until it is told to end.

use crate::args::ClockRun;
use anyhow::{Context, Result};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Mutex;
use tickwire_timekeeper::config::Server;
use tickwire_timekeeper::{Config, Daemon};

pub(super) fn run(arguments: &ClockRun) -> Result<ExitCode> {
    crate::log::begin();
    let mut config = match &arguments.config {
        Some(file) => Config::read(file)?,
        None => Config::read_default()?,
    };
    if !arguments.servers.is_empty() {
        config.servers = arguments.servers.iter().map(|name| Server::named(name)).collect();
    }
    if let Some(poll) = arguments.poll {
        config.poll = poll;
        config.longest_poll = config.longest_poll.max(poll);
    }
    if arguments.page.page.is_some() || std::env::var_os(tickclock::VARIABLE).is_some() {
        config.page = arguments.page.path();
    }
    let (stop, stopper) = nix::unistd::pipe().context("cannot make a pipe")?;
    let stopper = Mutex::new(Some(stopper));
    // Closing it wakes the daemon.
    ctrlc::set_handler(move || drop(stopper.lock().map(|mut stopper| stopper.take())))
        .context("cannot wait for signals")?;
    let mut daemon = Daemon::start(&config)?;
    daemon.run(stop.as_fd()).context("the daemon cannot wait")?;
    Ok(ExitCode::SUCCESS)
}
