//! `tickwire clock serve`: the NTP server, until a signal ends it.

use crate::args::clock::ClockServe;
use anyhow::{Context, Result};
use std::os::fd::AsFd;
use std::process::ExitCode;
use tickwire_show::usage::UsageError;
use tickwire_timekeeper::TimeServer;
use tickwire_timekeeper::serve::listen;

pub(super) fn run(arguments: &ClockServe) -> Result<ExitCode> {
    tickwire_show::log::begin();
    let config = super::configured(arguments.config.file.as_deref())?;
    let page = arguments.page.or(&config.page);
    let mut serve = config.serve;
    if !arguments.listen.is_empty() {
        let listen = arguments.listen.iter().map(|text| listen(text).map_err(|what| UsageError::of("--listen", what)));
        serve.listen = listen.collect::<Result<_, _>>()?;
    }
    if !arguments.allow.is_empty() {
        let allow = arguments.allow.iter().map(|text| text.parse().map_err(|what| UsageError::of("--allow", what)));
        serve.allow = allow.collect::<Result<_, UsageError>>()?;
    }
    serve.rate = arguments.rate.unwrap_or(serve.rate);
    serve.burst = arguments.burst.unwrap_or(serve.burst);
    serve.check().map_err(UsageError::new)?;
    let stop = super::stop::until_told()?;
    let mut server = TimeServer::start(&serve, &page)?;
    server.run(stop.as_fd()).context("the server cannot wait")?;
    Ok(ExitCode::SUCCESS)
}
