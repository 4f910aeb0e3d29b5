//! The end of a program's standard error. Output of any length is accepted, and a descendant may
//! keep the pipe open.

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickwire_show::sanitize_terminal::sanitized;

/// Bytes kept of the end.
const KEPT: usize = 2000;
/// The longest line shown, in characters.
const LONGEST: usize = 500;
/// Timeout for the rest of the output after a program's end: `ssh` may leave a process behind that
/// keeps its standard error open (`ControlPersist`).
const TIMEOUT: Duration = Duration::from_millis(500);

/// Reads standard error to its end.
#[derive(Debug)]
pub(super) struct StderrTail {
    kept: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
}

impl StderrTail {
    /// Starts to read.
    pub(super) fn of(from: impl Read + Send + 'static) -> Self {
        let kept = Arc::default();
        let heard = Arc::clone(&kept);
        Self { kept, listener: std::thread::spawn(move || keep(from, &heard)) }
    }

    /// The last line of a program that has ended.
    pub(super) fn line(&self) -> String {
        let until = Instant::now() + TIMEOUT;
        while !self.listener.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = lock(&self.kept);
        fit(String::from_utf8_lossy(&said).trim().lines().next_back().unwrap_or_default())
    }
}

/// Sanitizes foreign text for display.
pub(super) fn fit(said: &str) -> String {
    sanitized(said.trim(), LONGEST)
}

fn keep(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut kept = lock(kept);
        kept.extend_from_slice(&buffer[..count]);
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
    }
}

fn lock(kept: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_told_without_what_a_terminal_obeys() {
        let said = b"a banner\r\nssh: \x1b]0;x\x07no route\r\n\n".as_slice();
        assert_eq!(StderrTail::of(said).line(), "ssh: \\u{1b}]0;x\\u{7}no route");
        assert_eq!(StderrTail::of(&b""[..]).line(), "");
    }

    #[test]
    fn of_much_the_end_is_kept_and_a_descendant_that_leaves_it_open_is_not_waited_for() {
        let (from, mut to) = std::io::pipe().unwrap();
        let words = StderrTail::of(from);
        std::io::Write::write_all(&mut to, &b"x".repeat(100_000)).unwrap();
        assert!(words.line().chars().count() <= LONGEST + 1);
        assert!(lock(&words.kept).len() <= KEPT);
        drop(to);
    }
}
