//! `tickwire clock run`: the daemon alone, until a signal or Ctrl-C ends it.

use crate::args::clock::ClockRun;
use anyhow::{Context, Result};
#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(windows)]
use std::os::windows::io::AsHandle;
use std::process::ExitCode;
use tickwire_show::usage::UsageError;
use tickwire_timekeeper::Daemon;
use tickwire_timekeeper::config::PolledServer;

pub(super) fn run(arguments: &ClockRun, prepare: impl FnOnce(&mut Daemon)) -> Result<ExitCode> {
    tickwire_show::log::begin();
    let mut config = super::configured(arguments.config.file.as_deref())?;
    if !arguments.servers.is_empty() {
        let named = |name: &String| PolledServer::named(name).map_err(|what| UsageError::of("--server", what));
        config.servers = arguments.servers.iter().map(named).collect::<Result<_, _>>()?;
        for server in &mut config.servers {
            server.nts = arguments.nts;
            server.nts_ca = arguments.nts_ca.as_ref().map(|file| std::path::absolute(file).unwrap_or(file.clone()));
        }
    }
    if let Some(poll) = arguments.poll {
        config.poll = poll;
        config.longest_poll = config.longest_poll.max(poll);
    }
    config.page = arguments.page.or(&config.page);
    if arguments.record.is_some() {
        config.record.clone_from(&arguments.record);
    }
    // Reading the file has validated its settings; this validates the options.
    config.check().map_err(UsageError::new)?;
    let stop = super::stop::until_told()?;
    let mut daemon = Daemon::start(&config)?;
    prepare(&mut daemon);
    #[cfg(unix)]
    let stop = stop.as_fd();
    #[cfg(windows)]
    let stop = stop.as_handle();
    daemon.run(stop).context("the daemon cannot wait")?;
    Ok(ExitCode::SUCCESS)
}
