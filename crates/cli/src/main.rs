//! The one program that a person types.
//!
//! Each subcommand has a module; `args` defines the command line. May know all other crates; decides nothing that they could
//! decide. No unsafe code.
#![forbid(unsafe_code)]

mod args;
mod capture;
mod client;
mod clock;
mod counters;
mod doctor;
mod log;
mod output;
mod run;
mod service;
mod stat;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => return run::run(&arguments),
        Command::Service(arguments) => service::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Stat(arguments) => stat::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Capture(arguments) => capture::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Clock(arguments) => clock::run(arguments),
        Command::Counters(arguments) => counters::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    outcome.unwrap_or_else(|error: anyhow::Error| {
        // One sentence: what happened, and why, from the outside in.
        eprintln!("tickwire: {error:#}");
        ExitCode::FAILURE
    })
}
