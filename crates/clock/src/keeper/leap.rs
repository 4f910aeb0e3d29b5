//! Leap seconds: announced by servers, applied by readers, and taken out of what servers say.

use crate::page::Leap;
use crate::time::Nanos;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Around a leap nobody can tell what a server's stamp means: for so many ns before and after.
const GREY: i64 = 2 * SECOND;

/// What a server announces for the end of the day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announcement {
    /// Nothing.
    #[default]
    None,
    /// A second more.
    Insert,
    /// A second less.
    Delete,
}

/// The leap seconds that matter now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaps {
    leap: Leap,
}

impl Leaps {
    pub(super) const fn new(offset: i32) -> Self {
        Self { leap: Leap { offset, step: 0, at: Nanos(0) } }
    }

    pub(super) const fn leap(&self) -> Leap {
        self.leap
    }

    /// TAI of a server's stamp; `None` so near to a leap that it may mean two instants.
    pub(super) fn tai_of(&self, unix: Nanos) -> Option<Nanos> {
        let Leap { offset, step, at } = self.leap;
        let tai = unix.plus(i64::from(offset) * SECOND);
        if step == 0 || tai.since(at) < -GREY {
            Some(tai)
        } else if tai.since(at) > GREY {
            Some(tai.plus(i64::from(step) * SECOND))
        } else {
            None
        }
    }

    /// What the servers that agree announce, at `now` in TAI. Most must say the same.
    pub(super) fn announce(&mut self, announced: impl Iterator<Item = Announcement>, now: Nanos) {
        let Leap { offset, step, at } = self.leap;
        let past = step != 0 && now.since(at) >= 0;
        // The leap that is over stays known, because readers convert counts from before it; only another one takes its place.
        if past && now.since(at) < DAY {
            return;
        }
        let (mut servers, mut votes) = (0, [0; 2]);
        for one in announced {
            servers += 1;
            match one {
                Announcement::None => {}
                Announcement::Insert => votes[0] += 1,
                Announcement::Delete => votes[1] += 1,
            }
        }
        let wanted = if votes[0] * 2 > servers {
            1
        } else if votes[1] * 2 > servers {
            -1
        } else {
            0
        };
        let offset = if past { offset + step } else { offset };
        let unix = now.plus(-i64::from(offset) * SECOND);
        match next_leap(unix).filter(|_| wanted != 0) {
            // 23:59:60 begins where the next day would; what is left out is the second before.
            Some(midnight) => {
                let at = midnight.plus(i64::from(offset) * SECOND + if wanted > 0 { 0 } else { -SECOND });
                self.leap = Leap { offset, step: wanted, at };
            }
            // Withdrawn: it was a mistake, or few said so.
            None if !past => self.leap = Leap { offset, step: 0, at: Nanos(0) },
            None => {}
        }
    }
}

/// The end of the day if leap seconds can come then: it is the last of June or of December (ITU-R TF.460).
fn next_leap(unix: Nanos) -> Option<Nanos> {
    let day = unix.0.div_euclid(DAY) + 1;
    matches!(civil(day), (_, 1 | 7, 1)).then_some(Nanos(day * DAY))
}

/// Year, month and day of the month of a day since 1970 in the Gregorian calendar (Hinnant's `civil_from_days`).
#[must_use]
pub const fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // The year begins in March.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + (month <= 2) as i64, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2016-12-31 12:00:00 UTC, twelve hours before a real one.
    const NOON: i64 = 1_483_185_600;
    const MIDNIGHT: i64 = 1_483_228_800;

    fn tai(unix_seconds: i64, offset: i64) -> Nanos {
        Nanos((unix_seconds + offset) * SECOND)
    }

    #[test]
    fn the_leap_second_of_2016() {
        let mut leaps = Leaps::new(36);
        leaps.announce([Announcement::Insert, Announcement::Insert, Announcement::None].into_iter(), tai(NOON, 36));
        assert_eq!(leaps.leap(), Leap { offset: 36, step: 1, at: tai(MIDNIGHT, 36) });
        assert_eq!(leaps.tai_of(Nanos((MIDNIGHT - 5) * SECOND)), Some(tai(MIDNIGHT - 5, 36)));
        assert_eq!(leaps.tai_of(Nanos(MIDNIGHT * SECOND - 1)), None);
        assert_eq!(leaps.tai_of(Nanos((MIDNIGHT + 5) * SECOND)), Some(tai(MIDNIGHT + 5, 37)));
        // Servers that go on announcing it in the new year mean nothing by it.
        leaps.announce([Announcement::Insert].into_iter(), tai(MIDNIGHT + 5, 37));
        assert_eq!(leaps.leap().at, tai(MIDNIGHT, 36));
    }

    #[test]
    fn few_or_at_the_wrong_time_are_not_believed() {
        let mut leaps = Leaps::new(37);
        leaps.announce([Announcement::Insert, Announcement::None].into_iter(), tai(NOON, 37));
        assert_eq!(leaps.leap().step, 0);
        leaps.announce([Announcement::Delete].into_iter(), tai(NOON - 86_400, 37));
        assert_eq!(leaps.leap().step, 0, "the 30th");
        leaps.announce([Announcement::Delete].into_iter(), tai(NOON, 37));
        assert_eq!(leaps.leap(), Leap { offset: 37, step: -1, at: tai(MIDNIGHT - 1, 37) });
        leaps.announce([Announcement::None].into_iter(), tai(NOON + 60, 37));
        assert_eq!(leaps.leap().step, 0, "withdrawn");
    }

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(-1), (1969, 12, 31));
    }
}
