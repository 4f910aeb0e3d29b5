//! Runs a tool to its end, with its output in the error.

use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Whether this process may make namespaces.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// The command cannot be started, or fails; the error contains its standard error.
pub fn run(command: &[&str]) -> Result<String> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    output(Command::new(program).args(arguments))
}

/// Like [`run`], for a prepared command.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    // Ctrl-C reaches only the lab, which ends its programs: the terminal must not end them earlier.
    let output =
        command.process_group(0).stdin(Stdio::null()).output().with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}): {}", output.status, words.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}
