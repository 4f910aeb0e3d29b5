//! Rate limit for log lines that a peer can trigger: a burst, then one line a minute.

/// Lines in a burst.
const AT_ONCE: u32 = 8;
/// Interval between lines after the burst, in ns.
const ANOTHER: i64 = 60_000_000_000;

/// The token bucket of a subject's log lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRateLimit {
    left: u32,
    /// When the next line began to accrue.
    since: i64,
}

impl Default for LogRateLimit {
    fn default() -> Self {
        Self { left: AT_ONCE, since: 0 }
    }
}

impl LogRateLimit {
    /// Takes a line at `now`, in ns of a monotonic clock; returns whether one was left.
    pub(crate) fn take(&mut self, now: i64) -> bool {
        let come = (now.saturating_sub(self.since) / ANOTHER).max(0);
        if self.left == AT_ONCE {
            self.since = now;
        } else {
            self.since = self.since.saturating_add(come * ANOTHER);
            self.left = self.left.saturating_add(come.try_into().unwrap_or(AT_ONCE)).min(AT_ONCE);
        }
        let some = self.left > 0;
        self.left = self.left.saturating_sub(1);
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_a_minute() {
        let mut log_limit = LogRateLimit::default();
        let hour = 60 * ANOTHER;
        let said = |log_limit: &mut LogRateLimit, from: i64, times: i64| {
            (0..times).filter(|second| log_limit.take(from + second * 1_000_000_000)).count()
        };
        assert_eq!(said(&mut log_limit, hour, 60), 8);
        assert_eq!(said(&mut log_limit, hour + ANOTHER, 3600), 60);
        assert_eq!(said(&mut log_limit, 100 * hour, 60), 8, "after a rest");
    }
}
