//! `tickwire testbed`.

mod progress;
mod run;
mod time;

pub(crate) use progress::name;

use crate::args::testbed::TestbedCommand;
use anyhow::Result;
use std::process::ExitCode;
use tickwire_show::usage::UsageError;
use tickwire_testbed::TestbedError;

pub(crate) fn run(command: TestbedCommand) -> Result<ExitCode> {
    match command {
        TestbedCommand::Run(arguments) => run::run(&arguments),
        TestbedCommand::Time(arguments) => time::run(&arguments),
        TestbedCommand::Node => node(),
    }
}

fn node() -> Result<ExitCode> {
    let input = std::io::BufReader::new(std::io::stdin());
    tickwire_testbed::node::serve(input, std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// A plan that is refused is an error of the command line.
fn usage(error: TestbedError) -> anyhow::Error {
    match error {
        TestbedError::Refused(why) => UsageError::new(why).into(),
        TestbedError::Broken(error) => error,
    }
}
