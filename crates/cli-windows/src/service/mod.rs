//! `tickwire service`: in the foreground, or as a service of Windows.
//!
//! | module | purpose |
//! |---|---|
//! | `configuration` | the configuration file |
//! | `clock` | the thread that keeps the clock |
//! | `log_file` | the log of the service of Windows |
//! | `manager` | the service of Windows: entering, removing, and running as one |
//! | `users` | which users may be accelerated |

mod clock;
mod configuration;
mod log_file;
mod manager;
mod users;

use crate::args::Service;
use crate::{driver, nic};
use anyhow::{Context, Result};
use clock::ClockThread;
use std::os::windows::io::AsHandle;
use std::sync::Arc;
use tickwire_host_windows::{WindowsFirewall, read_tables};
use tickwire_lane_windows::event::WakeEvent;
use tickwire_service_windows::service::{AcceleratedHost, ServiceParts, WindowsService};

/// Does what the command line says.
pub(crate) fn run(arguments: &Service) -> Result<()> {
    if arguments.install {
        return manager::install(arguments);
    }
    if arguments.uninstall {
        return manager::uninstall();
    }
    if arguments.managed {
        return manager::run();
    }
    tickwire_show::log::begin();
    let stop = Arc::new(WakeEvent::new().context("cannot make an event")?);
    let interrupted = Arc::clone(&stop);
    ctrlc::set_handler(move || interrupted.set()).context("cannot wait for Ctrl-C")?;
    serve(arguments, &stop, || Ok(()))
}

/// Serves programs until the event is set. `ready`: what to do when they can connect.
fn serve(arguments: &Service, stop: &WakeEvent, ready: impl FnOnce() -> Result<()>) -> Result<()> {
    let file = configuration::read(arguments.config.file.as_deref())?;
    let tables = read_tables().context("cannot read the network interfaces")?;
    let interface = nic::choose(&tables, arguments.interface.as_deref())?;
    let (opened, driver) = driver::open(arguments.driver, interface)?;
    let host = AcceleratedHost::open(opened.nic).context("cannot read addresses and routes")?;
    let pipe = arguments.socket.pipe();
    let users = users::sid(arguments.socket_group.as_deref())?;
    let firewall = Arc::new(WindowsFirewall::start().context("cannot start a thread")?);
    let (pipe_name, card, ports) = (pipe.into(), opened.card, arguments.ports.0.clone());
    let parts = ServiceParts { pipe: pipe_name, users, card, driver: driver.name(), host, firewall, ports };
    let mut service = WindowsService::start(parts)?;
    tracing::info!(interface = %interface.alias, driver = driver.name(), pipe, "the service runs");
    let clock = file.clock.and_then(|config| ClockThread::start(config, driver));
    let outcome = ready().and_then(|()| Ok(service.run(stop.as_handle())?));
    if let Some(clock) = clock {
        clock.end();
    }
    outcome?;
    tracing::info!("the service ends");
    Ok(())
}
