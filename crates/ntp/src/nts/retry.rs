//! Backoff of key establishment: each attempt later, until a reply has been verified by the new
//! keys (RFC 8915 §4.2).
//!
//! The section asks for an exponential backoff: 10 s at first and at least, 1.5 times as long each
//! time, five days at most. The backoff must not reset before a key establishment has succeeded
//! *and* its own keys have been used with success. All of it is a SHOULD except for the last, which
//! is a MUST. Only the longest wait is shorter here.

const SECOND: i64 = 1_000_000_000;
/// The least time between two attempts; each further wait is half as long again.
const LEAST: i64 = 10 * SECOND;
/// The longest wait. The section's five days are its suggestion "until operational experience is
/// available". A clock that recovers a day after its server has failed its user, and 24 attempts a
/// day burden no server.
const MOST: i64 = 3600 * SECOND;

/// The state of the backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    wait: i64,
    next: i64,
    /// The last attempt has given keys, and no reply has been verified by them.
    agreed: bool,
}

impl Retry {
    /// The first attempt may begin at `now`, in ns of any monotonic clock.
    #[must_use]
    pub const fn new(now: i64) -> Self {
        Self { wait: LEAST, next: now, agreed: false }
    }

    /// The earliest time of the next attempt.
    #[must_use]
    pub const fn next(&self) -> i64 {
        self.next
    }

    /// An attempt begins at `now`.
    pub const fn began(&mut self, now: i64) {
        self.next = now.saturating_add(self.wait);
        self.wait += self.wait / 2;
        if self.wait > MOST {
            self.wait = MOST;
        }
        self.agreed = false;
    }

    /// The attempt has given keys.
    pub const fn agreed(&mut self) {
        self.agreed = true;
    }

    /// A reply was verified. If the last attempt gave keys, resets the backoff. Older keys may
    /// still be in use while attempts for new ones fail; they do not reset it.
    pub const fn proved(&mut self) {
        if self.agreed {
            self.wait = LEAST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_each_time_until_an_answer_is_proved() {
        let mut retry = Retry::new(5);
        assert_eq!(retry.next(), 5);
        let mut waits = Vec::new();
        for _ in 0..20 {
            let now = retry.next();
            retry.began(now);
            waits.push((retry.next() - now) / SECOND);
        }
        assert_eq!(waits[..5], [10, 15, 22, 33, 50]);
        assert_eq!(waits[19], 3600);
        let before = retry.next();
        retry.agreed();
        retry.proved();
        assert_eq!(retry.next(), before, "what is agreed on was agreed on just now");
        retry.began(before);
        assert_eq!(retry.next(), before + 10 * SECOND);
    }

    /// RFC 8915 §4.2: the backoff resets only after an attempt that has succeeded, and whose own
    /// keys have been used with success.
    #[test]
    fn old_keys_that_still_prove_answers_do_not_make_a_failing_agreement_begin_anew() {
        let mut retry = Retry::new(0);
        retry.began(0);
        retry.agreed();
        retry.proved();
        let mut waits = Vec::new();
        for _ in 0..5 {
            let now = retry.next();
            retry.began(now);
            // The attempt fails, and the server answers requests with the old keys.
            retry.proved();
            waits.push((retry.next() - now) / SECOND);
        }
        assert_eq!(waits, [10, 15, 22, 33, 50]);
        retry.agreed();
        let now = retry.next();
        retry.began(now);
        retry.proved();
        assert!(retry.next() - now > 50 * SECOND, "keys that have proved nothing");
    }
}
