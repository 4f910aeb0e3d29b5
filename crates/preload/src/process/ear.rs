//! Whether the helper watches the connection to the service. An answer wakes it, too, beside the
//! thread that asked; where connections are opened by the thousand, that would be for nothing each
//! time. What the service says unasked at such a time those who await answers find, and tell (see
//! `lane::session`). While one of them does, nobody else can listen; the helper has others to care
//! for, and does not wait for it.

use tickwire_stack::time::{Instant, Span};

/// For so long the helper does not watch the connection to the service after it was woken for an
/// answer that somebody else awaited, or while somebody awaits one.
pub(super) const DEAF: Span = Span::from_millis(5);

/// When the helper was last woken in vain.
#[derive(Default)]
pub(super) struct Ear {
    deaf_until: Instant,
}

impl Ear {
    /// For how long it does not watch from now on; `None` if it does.
    pub(super) fn rests(&self, now: Instant) -> Option<Span> {
        (now < self.deaf_until).then(|| self.deaf_until.since(now))
    }

    /// The connection showed something, and so many pushes there were.
    pub(super) fn woken(&mut self, now: Instant, pushes: usize) {
        if pushes == 0 {
            self.later(now);
        }
    }

    /// Somebody awaits an answer.
    pub(super) fn later(&mut self, now: Instant) {
        self.deaf_until = now + DEAF;
    }

    /// The helper has asked something itself.
    pub(super) fn listens(&mut self) {
        self.deaf_until = Instant::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_others_wake_it_now_and_then_and_what_is_said_unasked_at_once() {
        let (mut ear, mut woken) = (Ear::default(), 0);
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
