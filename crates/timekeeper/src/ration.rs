//! How much a stranger can make us say: so many lines at once, and one a minute later on.

/// Lines at once.
const AT_ONCE: u32 = 8;
/// After so many ns there may be another.
const ANOTHER: i64 = 60_000_000_000;

/// What is left of a subject's lines in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ration {
    left: u32,
    /// Since when there is one more to come.
    since: i64,
}

impl Default for Ration {
    fn default() -> Self {
        Self { left: AT_ONCE, since: 0 }
    }
}

impl Ration {
    /// Takes a line at `now`, in ns of a clock that only runs forward, if one is left.
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
        let mut ration = Ration::default();
        let hour = 60 * ANOTHER;
        let said = |ration: &mut Ration, from: i64, times: i64| {
            (0..times).filter(|second| ration.take(from + second * 1_000_000_000)).count()
        };
        assert_eq!(said(&mut ration, hour, 60), 8);
        assert_eq!(said(&mut ration, hour + ANOTHER, 3600), 60);
        assert_eq!(said(&mut ration, 100 * hour, 60), 8, "after a rest");
    }
}
