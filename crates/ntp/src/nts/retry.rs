//! When keys may be agreed on again: each time later, until an answer has proved that they are good (RFC 8915 §4.2).

const SECOND: i64 = 1_000_000_000;
/// The least time between two beginnings, and what each further one waits longer.
const LEAST: i64 = 10 * SECOND;
/// The most. The RFC suggests five days; a clock that is back a day after its server has failed its user, and 24 questions a day are no burden.
const MOST: i64 = 3600 * SECOND;

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    wait: i64,
    next: i64,
}

impl Retry {
    /// The first agreement may begin at `now`, in ns of any clock that only runs forward.
    #[must_use]
    pub const fn new(now: i64) -> Self {
        Self { wait: LEAST, next: now }
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
    }

    /// An answer was proved by the keys: whoever gave them can be asked again soon.
    pub const fn proved(&mut self) {
        self.wait = LEAST;
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
        retry.proved();
        assert_eq!(retry.next(), before, "what is agreed on was agreed on just now");
        retry.began(before);
        assert_eq!(retry.next(), before + 10 * SECOND);
    }
}
