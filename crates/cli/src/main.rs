//! The one program that a person types.
//!
//! Each subcommand has a module; `args` defines the command line. May know all other crates; decides nothing that they could
//! decide. No unsafe code.
#![forbid(unsafe_code)]

mod args;
mod run;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => return run::run(&arguments),
        _ => Err(anyhow::anyhow!("not in this build yet")),
    };
    outcome.unwrap_or_else(|error: anyhow::Error| {
        // One sentence: what happened, and why, from the outside in.
        eprintln!("tickwire: {error:#}");
        ExitCode::FAILURE
    })
}
