//! A token bucket: the rate of requests on one connection.

use std::time::{Duration, Instant};

/// The size of a burst, in seconds of the steady rate.
const BURST_SECONDS: u32 = 2;

/// The shortest wait for a token: many short waits would be work, too.
const PAUSE: Duration = Duration::from_millis(10);

/// A bucket that fills at a steady rate and is emptied by one token per request.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: u32,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second, tokens: f64::from(per_second) * f64::from(BURST_SECONDS), filled: now }
    }

    fn fill(&mut self, now: Instant) {
        let rate = f64::from(self.per_second);
        let passed: Duration = now.saturating_duration_since(self.filled);
        self.filled = now;
        self.tokens = (self.tokens + passed.as_secs_f64() * rate).min(rate * f64::from(BURST_SECONDS));
    }

    /// When there will be a token again; `None` if there is one now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Instant> {
        self.fill(now);
        let missing = 1.0 - self.tokens;
        // Rounded up, so that there is one then.
        let wait = Duration::from_secs_f64(missing.max(0.0) / f64::from(self.per_second)) + Duration::from_micros(1);
        (missing > 0.0).then(|| now + wait.max(PAUSE))
    }

    /// Takes a token; `false` if there is none: the rate is exceeded.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.fill(now);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_a_flood_does_not() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        assert!((0..20).all(|_| bucket.take(start)));
        assert!(!bucket.take(start));
        let later = start + Duration::from_millis(350);
        assert!((0..3).all(|_| bucket.take(later)));
        assert!(!bucket.take(later));
        let next = bucket.next(later).unwrap();
        assert!(next >= later + PAUSE && next <= later + Duration::from_millis(110));
        assert!(bucket.next(next).is_none() && bucket.take(next));
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..1000).take_while(|_| bucket.take(much_later)).count(), 20, "it does not overflow");
    }
}
