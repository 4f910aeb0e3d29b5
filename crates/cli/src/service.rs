//! `tickwire service`: the service crate does it.

use crate::args::service::{AttachMode, Service};
use anyhow::Result;
use tickwire_service::{Attach, Options};

/// Runs the service until it is told to end.
pub(crate) fn run(arguments: Service) -> Result<()> {
    crate::log::begin();
    tickwire_service::run(options(arguments))?;
    Ok(())
}

fn options(arguments: Service) -> Options {
    Options {
        config: arguments.config.file,
        interfaces: arguments.interfaces,
        socket: arguments.socket.named(),
        socket_mode: arguments.socket_mode,
        socket_group: arguments.socket_group,
        attach: arguments.attach.map(|mode| match mode {
            AttachMode::Auto => Attach::Auto,
            AttachMode::Native => Attach::Native,
            AttachMode::Generic => Attach::Generic,
            AttachMode::Tc => Attach::Tc,
        }),
        untagged: arguments.untagged,
        stop: None,
    }
}
