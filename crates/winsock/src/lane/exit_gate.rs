//! The end of the process. Windows ends all other threads before it closes sockets. This library
//! closes them earlier, to have what was sent arrive, and the other threads must not see that: they
//! stay in their calls.

use std::sync::OnceLock;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// So long threads stay in their calls. By then the process has ended, unless it waits for one of
/// them, which has a lock (the loader's, in `DllMain`).
const LONGEST: Duration = Duration::from_secs(5);

/// The end of the process.
#[derive(Debug)]
struct Ending {
    /// The thread that ends it.
    thread: ThreadId,
    begun: Instant,
}

static ENDING: OnceLock<Ending> = OnceLock::new();

/// The calling thread ends the process. Returns whether it is the first to do so.
pub(crate) fn close() -> bool {
    let thread = thread::current().id();
    ENDING.get_or_init(|| Ending { thread, begun: Instant::now() }).thread == thread
}

/// Returns unless another thread ends the process. The caller has no lock of this library.
pub(crate) fn pass() {
    if let Some(ending) = ENDING.get() {
        ending.pass(thread::current().id(), LONGEST);
    }
}

impl Ending {
    fn pass(&self, caller: ThreadId, longest: Duration) {
        let left = || longest.saturating_sub(self.begun.elapsed());
        while self.thread != caller && !left().is_zero() {
            thread::park_timeout(left());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_threads_stay_and_not_without_end() {
        let own = thread::current().id();
        let ending = Ending { thread: own, begun: Instant::now() };
        ending.pass(own, Duration::MAX);
        let other = thread::spawn(|| thread::current().id()).join().unwrap();
        let begin = Instant::now();
        ending.pass(other, Duration::from_millis(50));
        assert!(begin.elapsed() + begin.duration_since(ending.begun) >= Duration::from_millis(50));
        ending.pass(other, Duration::ZERO);
    }
}
