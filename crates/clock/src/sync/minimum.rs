//! The shortest round trip: that of a packet without queueing.
//!
//! Rhat = min RTT_i over a history of half a window to a whole one (after RADclock). Each half
//! window a new minimum begins, so that nothing older than the history counts and nothing younger
//! than half of it is lost.

/// A minimum over a sliding window.
#[derive(Clone, Debug)]
pub(crate) struct Minimum {
    half: f64,
    begun: f64,
    now: f64,
    next: f64,
}

impl Minimum {
    /// A minimum that drops values older than `window` seconds and keeps those younger than half of
    /// it.
    pub(crate) fn new(window: f64) -> Self {
        Self { half: window / 2.0, begun: f64::NEG_INFINITY, now: f64::INFINITY, next: f64::INFINITY }
    }

    /// Adds a value at `at` seconds.
    pub(crate) fn take(&mut self, at: f64, value: f64) {
        if at - self.begun >= self.half {
            self.begun = at;
            self.now = self.next.min(value);
            self.next = value;
        }
        self.now = self.now.min(value);
        self.next = self.next.min(value);
    }

    /// Restarts with this value.
    pub(crate) fn set(&mut self, at: f64, value: f64) {
        (self.begun, self.now, self.next) = (at, value, value);
    }

    /// The minimum; infinite before the first value.
    pub(crate) fn get(&self) -> f64 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_after_a_window_and_remembers_for_half_of_one() {
        let mut minimum = Minimum::new(100.0);
        minimum.take(0.0, 5.0);
        for second in 1..300 {
            minimum.take(f64::from(second), 7.0);
            let old = minimum.get() == 5.0;
            assert!(old || second >= 50, "{second}");
            assert!(!old || second < 100, "{second}");
        }
        minimum.set(300.0, 9.0);
        assert_eq!(minimum.get(), 9.0);
    }
}
