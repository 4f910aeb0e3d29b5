//! The progress of a long measurement, on standard error: on a terminal the current step, otherwise
//! (a log file) whole lines without escape codes.

use std::io::{self, IsTerminal, Stderr, Write};

/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// The progress of a run with sequential steps.
pub(crate) struct Progress<W = Stderr> {
    out: W,
    terminal: bool,
    step: String,
}

impl Progress {
    /// On standard error.
    pub(crate) fn new() -> Self {
        Self::on(io::stderr(), io::stderr().is_terminal())
    }
}

// Output errors are ignored: a measurement must not end because its progress cannot be shown.
impl<W: Write> Progress<W> {
    fn on(out: W, terminal: bool) -> Self {
        Self { out, terminal, step: String::new() }
    }

    /// Begins a step. On a terminal it replaces the step before, unless that was kept.
    pub(crate) fn begin(&mut self, step: String) {
        if self.terminal {
            let _ = write!(self.out, "{CLEAR}{step} ... ");
            let _ = self.out.flush();
        }
        self.step = step;
    }

    /// Ends a step with a line of its own.
    pub(crate) fn keep(&mut self, how: &str) {
        let _ = if self.terminal { writeln!(self.out, "{how}") } else { writeln!(self.out, "{} ... {how}", self.step) };
    }

    /// Summarises many steps, for a log; a terminal has shown each of them.
    pub(crate) fn sum(&mut self, line: &str) {
        if !self.terminal {
            let _ = writeln!(self.out, "{line}");
        }
    }

    /// Prints a message before the first step.
    pub(crate) fn say(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}");
    }

    /// Ends the progress: clears the terminal's line for the next output.
    pub(crate) fn clear(&mut self) {
        if self.terminal {
            let _ = write!(self.out, "{CLEAR}");
            let _ = self.out.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(terminal: bool) -> String {
        let mut out = Vec::new();
        let mut progress = Progress::on(&mut out, terminal);
        progress.begin("one".into());
        progress.begin("two".into());
        progress.keep("failed");
        progress.sum("both");
        progress.clear();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_sees_each_step_and_a_log_whole_lines() {
        assert_eq!(written(true), "\r\x1b[Kone ... \r\x1b[Ktwo ... failed\n\r\x1b[K");
        assert_eq!(written(false), "two ... failed\nboth\n");
    }
}
