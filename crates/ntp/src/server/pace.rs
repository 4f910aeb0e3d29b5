//! When an answer will leave: what the way from the program to the driver usually takes.
//!
//! An answer's transmit stamp is written before it goes its way through the kernel. Of what that
//! took lately the shortest counts: a stamp that is too early adds to the round trip that the
//! client sees, and so to its bound. One that is too late would not; so what is added to a stamp is
//! also added to the dispersion.

/// How many departures are remembered, and how many must be known before they count.
const REMEMBERED: usize = 32;
const ENOUGH: usize = 8;
/// Longer than this, in counts of any real counter, no way within a host takes: such a stamp is
/// another message's.
const LONGEST: i64 = 1 << 28;

/// What the way takes, in counts.
#[derive(Clone, Debug)]
pub struct Pace {
    /// From the reading of the counter to the departure of the first message, of each of the last
    /// departures.
    leads: [i64; REMEMBERED],
    known: usize,
    next: usize,
    /// From one message of a batch to the next.
    each: i64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { leads: [0; REMEMBERED], known: 0, next: 0, each: 0 }
    }
}

impl Pace {
    /// How long after the reading of the counter message number `place` of a batch leaves.
    #[must_use]
    pub fn lead(&self, place: usize) -> i64 {
        match self.leads[..self.known].iter().min() {
            Some(quickest) if self.known >= ENOUGH => quickest + self.each * place as i64,
            _ => 0,
        }
    }

    /// A batch of so many messages took the kernel so long.
    pub const fn took(&mut self, messages: usize, counts: i64) {
        if messages >= 8 && 0 <= counts && counts < LONGEST {
            let each = counts / messages as i64;
            self.each += (each - self.each) / 8;
        }
    }

    /// Message number `place` of a batch left so long after the reading. `false`: that cannot be.
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
        let mut pace = Pace::default();
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
        let mut pace = Pace::default();
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
