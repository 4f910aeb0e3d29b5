//! The `tickwire` program.
//!
//! It may use all other crates, and leaves decisions to them where it can. No unsafe code.
//!
//! | module | purpose |
//! |---|---|
//! | `run`, `stat`, `watch`, `doctor`, `capture` | the subcommands of the data plane |
//! | `service`, `clock` | the subcommands of the two daemons |
//! | `testbed`, `jitter`, `counters` | the subcommands that measure |
//! | `args`, `manual` | the definition of the command line; the long parts of the man pages |
//! | `client` | asks the service |
//! | `study`, `html` | progress and result of a study; a report's file |
//! | `output`, `layout` | standard output; text cut to a terminal's width |
//! | `log` | the service's log on standard error |
//! | `usage` | errors of the command line that the parser cannot find |
#![forbid(unsafe_code)]

mod args;
mod capture;
mod client;
mod clock;
mod counters;
mod doctor;
mod html;
mod jitter;
mod layout;
mod log;
mod output;
mod run;
mod service;
mod stat;
mod study;
mod testbed;
mod usage;
mod watch;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;
use tickwire_testbed::sanitize_terminal::sanitized;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => return run::run(&arguments),
        Command::Service(arguments) => service::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Stat(arguments) => stat::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Capture(arguments) => capture::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Clock(arguments) => clock::run(arguments),
        Command::Counters(arguments) => counters::run(&arguments),
        Command::Testbed(arguments) => testbed::run(arguments.command),
        Command::Jitter(arguments) => jitter::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    outcome.unwrap_or_else(|error: anyhow::Error| {
        eprintln!("tickwire: {}", sentence(&error));
        if error.is::<usage::Usage>() { ExitCode::from(usage::STATUS) } else { ExitCode::FAILURE }
    })
}

/// The error and its causes as one sentence. Some errors include their cause, which is not
/// repeated. File names and text from other machines are in it, so control characters are escaped.
fn sentence(error: &anyhow::Error) -> String {
    let said = error.chain().map(ToString::to_string).fold(String::new(), |said, reason| match said.as_str() {
        "" => reason,
        text if text.ends_with(&reason) => said,
        text => format!("{text}: {reason}"),
    });
    said.split('\n').map(|line| sanitized(line, usize::MAX)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::sentence;
    use anyhow::{Context, anyhow};

    #[test]
    fn no_reason_is_said_twice() {
        let missing = || std::io::Error::from_raw_os_error(2);
        let inner = Err::<(), _>(missing()).context("cannot read x: No such file or directory (os error 2)");
        let outer = inner.context("the study failed").unwrap_err();
        assert_eq!(sentence(&outer), "the study failed: cannot read x: No such file or directory (os error 2)");
        assert_eq!(sentence(&anyhow!("one")), "one");
        assert_eq!(sentence(&anyhow!("a\u{1b}[2J\nb\u{202e}")), "a\\u{1b}[2J\nb\\u{202e}");
        let plain = Err::<(), _>(missing()).context("cannot read x").unwrap_err();
        assert_eq!(sentence(&plain), "cannot read x: No such file or directory (os error 2)");
    }
}
