//! The program `tickwire`: what it does is in a library for each operating system.
#![forbid(unsafe_code)]

#[cfg(unix)]
use tickwire_cli as program;
#[cfg(windows)]
use tickwire_cli_windows as program;

fn main() -> std::process::ExitCode {
    program::main()
}
