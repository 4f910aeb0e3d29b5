//! How far a long measurement has come, on standard error: on a terminal the step under way,
//! anywhere else (a log file) whole lines without escape codes.

use std::io::{self, IsTerminal, Stderr, Write};

/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// The progress of a run that does one step after the other.
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

// That progress cannot be shown is no reason to end a measurement: errors of the output are
// ignored.
impl<W: Write> Progress<W> {
    fn on(out: W, terminal: bool) -> Self {
        Self { out, terminal, step: String::new() }
    }

    /// A step begins. On a terminal it takes the place of the step before, unless that was kept.
    pub(crate) fn begin(&mut self, step: String) {
        if self.terminal {
            let _ = write!(self.out, "{CLEAR}{step} ... ");
            let _ = self.out.flush();
        }
        self.step = step;
    }

    /// The step has ended in a way that is worth a line of its own.
    pub(crate) fn keep(&mut self, how: &str) {
        let _ = if self.terminal { writeln!(self.out, "{how}") } else { writeln!(self.out, "{} ... {how}", self.step) };
    }

    /// Many steps have ended: a line for the log; a terminal has seen each of them.
    pub(crate) fn sum(&mut self, line: &str) {
        if !self.terminal {
            let _ = writeln!(self.out, "{line}");
        }
    }

    /// Something to know before it begins.
    pub(crate) fn say(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}");
    }

    /// Nothing more will come: leaves a terminal's line empty for what is printed next.
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
