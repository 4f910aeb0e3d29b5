//! The program `tickwire` for users on Windows. On other systems this crate is empty.
//!
//! | module | purpose |
//! |---|---|
//! | `run`, `stat`, `doctor`, `service`, `capture`, `testbed` | the subcommands, but for `clock` |
//! | `args`, `manual` | the definition of the command line; the long parts of its help |
//! | `client` | asks the service |
//! | `driver` | which drivers there are, and opening a network card by one |
//! | `nic` | which network card |
//! | `ports` | the block of ports from which programs connect |
//! | `installation` | the library beside this program |
//! | `sys` | calls of Windows |
//!
//! What is shown is the same as on Linux where it means the same, and is in `tickwire-show`. May
//! use all crates for Windows, and leaves decisions to them where it can. Unsafe code is in `sys`
//! only.
#![cfg(windows)]
#![deny(unsafe_code)]

mod args;
mod capture;
mod client;
mod doctor;
mod driver;
mod installation;
mod nic;
mod ntp_observer;
mod ports;
mod run;
mod service;
mod stat;
mod sys;
mod testbed;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;
use tickwire_show::sentence::sentence;
use tickwire_show::usage;
use tickwire_timekeeper::Daemon;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => return run::run(&arguments),
        Command::Service(arguments) => service::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Stat(arguments) => stat::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Clock(arguments) => tickwire_commands::clock::run(arguments, stamped_by_driver),
        Command::Capture(arguments) => capture::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Testbed(arguments) => testbed::run(&arguments.command),
    };
    outcome.unwrap_or_else(|error: anyhow::Error| {
        eprintln!("tickwire: {}", sentence(&error));
        if error.is::<usage::UsageError>() { ExitCode::from(usage::STATUS) } else { ExitCode::FAILURE }
    })
}

/// A clock in the foreground has the timestamps of WinDivert, if that is there.
fn stamped_by_driver(daemon: &mut Daemon) {
    if let Some(observer) = ntp_observer::open() {
        daemon.use_observer(observer);
    }
}
