//! Prediction of a reply's departure, from the usual latency between program and driver.
//!
//! A reply's transmit timestamp is written before the kernel processes the packet. The prediction
//! adds the shortest recent latency: a timestamp that is too early adds to the client's round trip,
//! and so to its bound. One that is too late would not. So what is added to a timestamp is also
//! added to the dispersion.

/// How many departures are recorded, and how many are needed for a prediction.
const REMEMBERED: usize = 32;
const ENOUGH: usize = 8;
/// No path within a host takes longer than this, in counts of any real counter: such a timestamp
/// belongs to another message.
const LONGEST: i64 = 1 << 28;

/// The latency from program to driver, in counts.
#[derive(Clone, Debug)]
pub struct TxLatency {
    /// For each of the last departures: from the reading of the counter to the departure of the
    /// batch's first message.
    leads: [i64; REMEMBERED],
    known: usize,
    next: usize,
    /// From one message of a batch to the next.
    each: i64,
}

impl Default for TxLatency {
    fn default() -> Self {
        Self { leads: [0; REMEMBERED], known: 0, next: 0, each: 0 }
    }
}

impl TxLatency {
    /// How long after the reading of the counter message number `place` of a batch leaves.
    #[must_use]
    pub fn lead(&self, place: usize) -> i64 {
        match self.leads[..self.known].iter().min() {
            Some(quickest) if self.known >= ENOUGH => quickest + self.each * place as i64,
            _ => 0,
        }
    }

    /// The kernel took `counts` for a batch of `messages`.
    pub const fn took(&mut self, messages: usize, counts: i64) {
        if messages >= 8 && 0 <= counts && counts < LONGEST {
            let each = counts / messages as i64;
            self.each += (each - self.each) / 8;
        }
    }

    /// Message number `place` of a batch left `after` counts after the reading. Returns `false` if
    /// that is implausible.
    pub fn left(&mut self, place: usize, after: i64) -> bool {
        let plausible = (0..LONGEST).contains(&after);
        if plausible {
            self.leads[self.next] = (after - self.each * place as i64).max(0);
            self.next = (self.next + 1) % REMEMBERED;
            self.known = REMEMBERED.min(self.known + 1);
        }
        plausible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_of_the_last_departures_counts() {
        let mut pace = TxLatency::default();
        assert_eq!(pace.lead(0), 0);
        for after in [5000, 4000, 7000, 6000, 6000, 6000, 6000, 6000] {
            assert_eq!(pace.lead(0), 0, "too little is known");
            assert!(pace.left(0, after));
        }
        assert_eq!(pace.lead(0), 4000);
        for _ in 0..REMEMBERED {
            assert!(pace.left(0, 6000));
        }
        assert_eq!(pace.lead(0), 6000, "older ones are forgotten");
        assert!(!pace.left(0, -1) && !pace.left(0, i64::MAX));
        assert_eq!(pace.lead(0), 6000);
    }

    #[test]
    fn later_messages_of_a_batch_leave_later() {
        let mut pace = TxLatency::default();
        for _ in 0..100 {
            pace.took(10, 40_000);
        }
        assert_eq!(pace.lead(1), 0, "too little is known");
        for _ in 0..ENOUGH {
            assert!(pace.left(9, 40_000));
        }
        let (first, last) = (pace.lead(0), pace.lead(9));
        assert_eq!(last, 40_000);
        assert!((4000..5000).contains(&first), "{first}");
    }
}
