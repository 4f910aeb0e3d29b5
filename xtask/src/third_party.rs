//! Getting programs of others: clients of registries and compilers, in bounded time, and only when
//! their input has changed.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The timeout of a registry's client or of a compiler.
const TIMEOUT_SECONDS: &str = "900";
/// The lines of an installer's output that are kept if it fails.
const LAST_LINES: usize = 12;

/// Makes something unless it was made from the same input before, which a file (the stamp) tells.
pub(crate) fn made(stamp: &Path, shown: &str, input: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    if fs::read_to_string(stamp).is_ok_and(|before| before == input) {
        return Ok(());
    }
    eprintln!("installing: {shown}");
    make()?;
    fs::write(stamp, input).with_context(|| format!("cannot write {}", stamp.display()))
}

/// A command that ends in time.
pub(crate) fn bounded(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("timeout");
    // In the foreground, so that Ctrl-C reaches it, too.
    command.args(["--foreground", "--kill-after=10", TIMEOUT_SECONDS]).args(words).current_dir(folder);
    command
}

/// Runs a command to its end; an error has the last lines of its output, for the rows that need its
/// result.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let shown = command.get_args().skip(3).map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {shown}"))?;
    if !output.status.success() {
        let words = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
        let lines: Vec<&str> = words.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("; ");
        bail!("`{shown}` failed ({}): {last}", output.status);
    }
    Ok(())
}
