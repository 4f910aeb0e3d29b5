//! Whether the helper watches the connection to the service. An answer wakes it as well as the
//! thread that sent the request. Where thousands of connections are opened, each of these wakeups
//! would be spurious. During such a time the threads that wait for answers read the service's
//! unsolicited messages, and notify the helper (see `lane::session`). While one of them reads, no
//! other thread can; the helper has other work and does not wait for the connection.

use tickwire_stack::time::{Instant, Span};

/// For this long the helper does not watch the connection to the service after a spurious wakeup
/// (an answer to another thread), or while another thread waits for an answer.
pub(super) const DEAF: Span = Span::from_millis(5);

/// Until when the helper does not watch, after its last spurious wakeup.
#[derive(Default)]
pub(super) struct ControlPoll {
    deaf_until: Instant,
}

impl ControlPoll {
    /// For how long it does not watch from now on; `None` if it does.
    pub(super) fn rests(&self, now: Instant) -> Option<Span> {
        (now < self.deaf_until).then(|| self.deaf_until.since(now))
    }

    /// The connection was readable, and delivered this many pushes.
    pub(super) fn woken(&mut self, now: Instant, pushes: usize) {
        if pushes == 0 {
            self.later(now);
        }
    }

    /// Another thread is waiting for an answer.
    pub(super) fn later(&mut self, now: Instant) {
        self.deaf_until = now + DEAF;
    }

    /// The helper has sent a request itself.
    pub(super) fn listens(&mut self) {
        self.deaf_until = Instant::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_others_wake_it_now_and_then_and_what_is_said_unasked_at_once() {
        let (mut ear, mut woken) = (ControlPoll::default(), 0);
        let begin = Instant::from_nanos(1_000_000_000);
        // A connection is opened every 100 us, for a second.
        for number in 0..10_000 {
            let now = begin + Span::from_micros(100).times(number);
            if ear.rests(now).is_none() {
                ear.woken(now, 0);
                woken += 1;
            }
        }
        assert_eq!(woken, 200);
        let now = begin + Span::from_secs(1);
        assert!(ear.rests(now).is_none_or(|rests| rests <= DEAF));
        let later = now + DEAF;
        ear.woken(later, 1);
        assert_eq!(ear.rests(later), None, "a push was for us, and the next one is");
        ear.later(later);
        assert_eq!(ear.rests(later), Some(DEAF), "and then it looks again");
        ear.listens();
        assert_eq!(ear.rests(later), None);
    }
}
