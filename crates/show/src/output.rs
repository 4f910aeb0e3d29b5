//! Standard output, which may be a full disk or a closed pipe.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Prints; returns whether the reader of standard output wants more.
///
/// # Errors
/// If it cannot be written.
pub fn print(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        done => done.context("cannot write to standard output").map(|()| true),
    }
}
