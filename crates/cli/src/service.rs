//! `tickwire service`: the log, and the service crate does the rest.

use crate::args::{AttachMode, Service};
use anyhow::Result;
use std::io::IsTerminal;
use tickwire_service::{Attach, Options};
use tracing_subscriber::EnvFilter;

/// Runs the service until it is told to end.
pub(crate) fn run(arguments: Service) -> Result<()> {
    let filter = EnvFilter::builder().with_default_directive(tracing_subscriber::filter::LevelFilter::INFO.into());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // The journal has stamps of its own.
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.without_time().init()
    } else {
        log.init()
    }
    tickwire_service::run(options(arguments))?;
    Ok(())
}

fn options(arguments: Service) -> Options {
    Options {
        config: arguments.config,
        interfaces: arguments.interfaces,
        socket: arguments.socket.socket,
        socket_mode: arguments.socket_mode,
        socket_group: arguments.socket_group,
        attach: arguments.attach.map(|mode| match mode {
            AttachMode::Auto => Attach::Auto,
            AttachMode::Native => Attach::Native,
            AttachMode::Generic => Attach::Generic,
            AttachMode::Tc => Attach::Tc,
        }),
        stop: None,
    }
}
