//! The service without the command line around it: `service SOCKET [INTERFACE]...`. Logs to stderr.

use std::process::ExitCode;
use tickwire_service::{RunOptions, run};

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::DEBUG).init();
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().map(Into::into);
    match run(RunOptions { socket, interfaces: arguments.collect(), ..RunOptions::default() }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("service: {error}");
            ExitCode::FAILURE
        }
    }
}
