//! `tickwire testbed`: on Windows only its node, which a controller on Linux drives.

use crate::args::TestbedCommand;
use anyhow::Result;
use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(command: &TestbedCommand) -> Result<ExitCode> {
    match command {
        TestbedCommand::Node => {
            tickwire_node::serve(BufReader::new(stdin()), stdout())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
