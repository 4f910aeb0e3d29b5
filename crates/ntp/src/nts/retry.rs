//! When keys may be agreed on again: each time later, until an answer has proved that they are good
//! (RFC 8915 §4.2).
//!
//! The section asks for an exponential backoff: 10 s at first and at least, 1.5 times as long each
//! time, five days at most, and not to begin anew before an agreement has succeeded *and* its own
//! keys have been used with success. All of it is a SHOULD but for the last, which is a MUST. Only
//! the longest wait is shorter here.

const SECOND: i64 = 1_000_000_000;
/// The least time between two beginnings; each further wait is half as long again.
const LEAST: i64 = 10 * SECOND;
/// The most. The section's five days are its suggestion "until operational experience is
/// available"; a clock that is back a day after its server has failed its user, and 24
/// conversations a day burden no server.
const MOST: i64 = 3600 * SECOND;

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    wait: i64,
    next: i64,
    /// The last one that began has given keys, and no answer has been proved by them.
    agreed: bool,
}

impl Retry {
    /// The first agreement may begin at `now`, in ns of any clock that only runs forward.
    #[must_use]
    pub const fn new(now: i64) -> Self {
        Self { wait: LEAST, next: now, agreed: false }
    }

    /// The earliest time at which to begin the next.
    #[must_use]
    pub const fn next(&self) -> i64 {
        self.next
    }

    /// One begins at `now`.
    pub const fn began(&mut self, now: i64) {
        self.next = now.saturating_add(self.wait);
        self.wait += self.wait / 2;
        if self.wait > MOST {
            self.wait = MOST;
        }
        self.agreed = false;
    }

    /// It has given keys.
    pub const fn agreed(&mut self) {
        self.agreed = true;
    }

    /// An answer was proved: if by the keys that were agreed on last, whoever gave them can be
    /// asked again soon. Those from before may still be in use while others are agreed on in vain.
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

    /// RFC 8915 §4.2: only an agreement that has succeeded, and whose own keys have been used with
    /// success.
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
            // That fails, and the server answers what was asked with the keys from before.
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
