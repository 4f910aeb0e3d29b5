//! Statistics of the requests.

use std::fmt;
use std::time::{Duration, Instant};
use tickwire_ntp::Kiss;
use tickwire_ntp::server::{ReplyKind, Silence};

/// The statistics are logged at this interval, if they have changed.
const TELL: Duration = Duration::from_secs(3600);

/// Numbers of requests, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answered with the time, in basic mode.
    pub basic: u64,
    /// Answered with the time, in interleaved mode.
    pub interleaved: u64,
    /// Answered with a RATE kiss: they come too often.
    pub told_rate: u64,
    /// Answered with a DENY kiss: they are not allowed.
    pub told_denied: u64,
    /// Not answered, because they came too often.
    pub too_often: u64,
    /// Not answered, because they are not allowed.
    pub not_allowed: u64,
    /// Messages that are not requests.
    pub garbage: u64,
    /// Replies that the kernel did not send.
    pub unsent: u64,
}

impl Tally {
    pub(super) const fn silent(&mut self, why: Silence) {
        match why {
            Silence::Malformed(_) | Silence::Mode => self.garbage += 1,
            Silence::NotAllowed => self.not_allowed += 1,
            Silence::TooOften => self.too_often += 1,
        }
    }

    pub(super) const fn answered(&mut self, kind: ReplyKind) {
        match kind {
            ReplyKind::Basic { .. } => self.basic += 1,
            ReplyKind::Interleaved => self.interleaved += 1,
            ReplyKind::Kiss(Kiss::Rate) => self.told_rate += 1,
            ReplyKind::Kiss(_) => self.told_denied += 1,
        }
    }
}

/// The statistics logged last, and when the last hour ended.
#[derive(Debug)]
pub(super) struct LoggedTally {
    at: Instant,
    tally: Tally,
}

impl LoggedTally {
    /// Nothing was logged until `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self { at: now, tally: Tally::default() }
    }

    /// Whether an hour ends at `now` in which the tally has changed.
    pub(super) fn is_news(&mut self, now: Instant, tally: &Tally) -> bool {
        if now.duration_since(self.at) < TELL {
            return false;
        }
        self.at = now;
        std::mem::replace(&mut self.tally, *tally) != *tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { basic, interleaved, told_rate, told_denied, too_often, not_allowed, garbage, unsent } = self;
        write!(
            f,
            "{basic} requests in basic and {interleaved} in interleaved mode; too often: {}, not allowed: {}, garbage: {garbage}, not sent: {unsent}",
            too_often + told_rate,
            not_allowed + told_denied
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_each_hour_in_which_it_has_changed() {
        let begin = Instant::now();
        let mut told = LoggedTally::new(begin);
        let mut tally = Tally::default();
        let mut hours = Vec::new();
        for minute in 1..=8 * 60 {
            // Requests come all through the third hour, and once in the fifth.
            tally.basic += u64::from((2 * 60 + 1..=3 * 60).contains(&minute) || minute == 4 * 60 + 30);
            if told.is_news(begin + Duration::from_secs(60 * minute), &tally) {
                hours.push((minute / 60, tally.basic));
            }
        }
        assert_eq!(hours, [(3, 60), (5, 61)]);
    }
}
