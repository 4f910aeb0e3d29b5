//! The program `tickwire` for users on Linux. Elsewhere this crate is empty.
//!
//! It may use all other crates, and leaves decisions to them where it can. No unsafe code.
//!
//! | module | purpose |
//! |---|---|
//! | `run`, `stat`, `watch`, `doctor`, `capture` | the subcommands of the data plane |
//! | `service` | the subcommand of the service; `clock` is in `tickwire-commands` |
//! | `testbed`, `jitter`, `counters` | the subcommands that measure |
//! | `args`, `manual` | the definition of the command line; the long parts of the man pages |
//! | `client` | asks the service |
//! | `study`, `html` | progress and result of a study; a report's file |
#![forbid(unsafe_code)]
#![cfg(unix)]

mod args;
mod capture;
mod client;
mod counters;
mod doctor;
mod html;
mod jitter;
mod run;
mod service;
mod stat;
mod study;
mod testbed;
mod watch;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;
use tickwire_show::sentence::sentence;
use tickwire_show::usage;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => return run::run(&arguments),
        Command::Service(arguments) => service::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Stat(arguments) => stat::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Capture(arguments) => capture::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Clock(arguments) => tickwire_commands::clock::run(arguments, |_| ()),
        Command::Counters(arguments) => counters::run(&arguments),
        Command::Testbed(arguments) => testbed::run(arguments.command),
        Command::Jitter(arguments) => jitter::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    outcome.unwrap_or_else(|error: anyhow::Error| {
        eprintln!("tickwire: {}", sentence(&error));
        if error.is::<usage::UsageError>() { ExitCode::from(usage::STATUS) } else { ExitCode::FAILURE }
    })
}
