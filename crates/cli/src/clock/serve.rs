//! `tickwire clock serve`: this host's time for others, until it is told to end.

use crate::args::ClockServe;
use anyhow::{Context, Result, anyhow};
use std::os::fd::AsFd;
use std::process::ExitCode;
use tickwire_timekeeper::TimeServer;
use tickwire_timekeeper::serve::listen;

pub(super) fn run(arguments: &ClockServe) -> Result<ExitCode> {
    crate::log::begin();
    let config = super::configured(arguments.config.as_deref())?;
    let page = arguments.page.or(&config.page);
    let mut serve = config.serve;
    if !arguments.listen.is_empty() {
        let listen = arguments.listen.iter().map(|text| listen(text).map_err(|what| anyhow!("--listen {what}")));
        serve.listen = listen.collect::<Result<_>>()?;
    }
    if !arguments.allow.is_empty() {
        let allow = arguments.allow.iter().map(|text| text.parse().with_context(|| format!("--allow {text}")));
        serve.allow = allow.collect::<Result<_>>()?;
    }
    serve.rate = arguments.rate.unwrap_or(serve.rate);
    serve.burst = arguments.burst.unwrap_or(serve.burst);
    serve.check()?;
    let stop = super::until_told()?;
    let mut server = TimeServer::start(&serve, &page)?;
    server.run(stop.as_fd()).context("the server cannot wait")?;
    Ok(ExitCode::SUCCESS)
}
