//! Standard output, which may be a full disk or a reader that has enough.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Prints; says whether whoever reads us wants more.
pub(crate) fn print(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `head` has enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        done => done.context("cannot write to standard output").map(|()| true),
    }
}
