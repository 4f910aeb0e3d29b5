//! `tickwire service`: runs the service crate.

use crate::args::service::{AttachMode, Service};
use anyhow::Result;
use std::time::Duration;
use tickwire_service::{Attach, RunOptions};

/// When the service ends, the time that programs have to hand their connections over to the kernel.
const HAND_OVER: Duration = Duration::from_secs(2);

/// Runs the service until a signal ends it.
pub(crate) fn run(arguments: Service) -> Result<()> {
    tickwire_show::log::begin();
    tickwire_service::run(options(arguments))?;
    Ok(())
}

fn options(arguments: Service) -> RunOptions {
    RunOptions {
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
        hand_over: HAND_OVER,
    }
}
