//! A node of the testbed as a program of its own, for hosts without `tickwire`: it obeys a
//! controller on standard input and output, as `tickwire testbed node` does.

use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    match tickwire_node::serve(BufReader::new(stdin()), stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed_node: {error}");
            ExitCode::FAILURE
        }
    }
}
