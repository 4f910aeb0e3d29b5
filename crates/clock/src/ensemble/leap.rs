//! Leap seconds: announced by servers, applied by readers, and removed from server timestamps.

use super::calendar::civil;
use super::table::Table;
use tickwire_clockpage::{Leap, Nanos};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Within this many ns before and after a leap second a server timestamp is ambiguous.
const GREY: i64 = 2 * SECOND;

/// The leap indicator of a server for the end of the day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announcement {
    /// Nothing.
    #[default]
    None,
    /// A second is inserted.
    Insert,
    /// A second is deleted.
    Delete,
}

/// Servers may smear a leap second this long before and after it, in ns.
const SPREAD: i64 = DAY;
/// A leap second of the table is published this long before it, in ns.
const AHEAD: i64 = 190 * DAY;

/// The current leap second state.
#[derive(Clone, Debug)]
pub(super) struct Leaps {
    leap: Leap,
    table: Option<Table>,
    /// `leap` is from the table.
    tabled: bool,
}

impl Leaps {
    pub(super) const fn new(offset: i32) -> Self {
        Self { leap: Leap { offset, step: 0, at: Nanos(0) }, table: None, tabled: false }
    }

    pub(super) fn set_table(&mut self, table: Table) {
        self.table = Some(table);
    }

    /// Whether the table is valid at `unix`, so that TAI - UTC is certain.
    pub(super) fn certain(&self, unix: Nanos) -> bool {
        self.table.as_ref().is_some_and(|table| unix < table.expires())
    }

    /// Whether servers may be smearing a leap second at `tai`.
    pub(super) const fn spread(&self, tai: Nanos) -> bool {
        self.leap.step != 0 && tai.since(self.leap.at).unsigned_abs() < SPREAD as u64
    }

    /// Updates the current leap second for this Unix time of the clock.
    pub(super) fn look_up(&mut self, unix: Nanos) {
        self.leap = self.about(unix);
        self.tabled = self.certain(unix);
    }

    /// The leap second around this Unix time, which may be far from the clock's: by the table until
    /// it expires. Then its last entry stays valid until servers announce something.
    fn about(&self, unix: Nanos) -> Leap {
        let told = self.table.as_ref().filter(|table| self.tabled || unix < table.expires());
        let Some(table) = told else { return self.leap };
        let unix = unix.min(table.expires().plus(-1));
        // A leap second stays known for a day after it, because readers convert counts from before
        // it, and servers may be late.
        let (offset, next) = table.at(unix.plus(-DAY));
        match next.filter(|(at, _)| at.since(unix) < AHEAD) {
            Some((midnight, new)) => leap(midnight, offset, new - offset),
            None => Leap { offset, step: 0, at: Nanos(0) },
        }
    }

    /// Whether the current leap second is from the table.
    pub(super) const fn is_tabled(&self) -> bool {
        self.tabled
    }

    /// Withdraws a leap second that did not happen: the announcement was wrong.
    pub(super) const fn withdraw(&mut self) {
        self.leap = Leap { step: 0, at: Nanos(0), ..self.leap };
    }

    pub(super) const fn leap(&self) -> Leap {
        self.leap
    }

    /// TAI of a server timestamp; `None` if it is so near to a leap second that it is ambiguous.
    pub(super) fn tai_of(&self, unix: Nanos) -> Option<Nanos> {
        // Looked up for this timestamp, not for the clock: a server that was stepped may be years
        // off, with leap seconds between.
        let Leap { offset, step, at } = self.about(unix);
        let tai = unix.plus(i64::from(offset) * SECOND);
        if step == 0 || tai.since(at) < -GREY {
            Some(tai)
        } else if tai.since(at) > GREY {
            Some(tai.plus(i64::from(step) * SECOND))
        } else {
            None
        }
    }

    /// Processes the announcements of the agreeing servers, at `now` in TAI. A majority must
    /// announce the same.
    pub(super) fn announce(&mut self, announced: impl Iterator<Item = Announcement>, now: Nanos) {
        let Leap { offset, step, at } = self.leap;
        // The table overrides the servers until it expires.
        if self.certain(now.plus(-i64::from(offset) * SECOND)) {
            return;
        }
        let past = step != 0 && now.since(at) >= 0;
        // A past leap second stays known, because readers convert counts from before it; only
        // another one replaces it.
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
        let offset = if past { offset.saturating_add(step) } else { offset };
        let unix = now.plus(-i64::from(offset) * SECOND);
        match next_leap(unix).filter(|_| wanted != 0) {
            Some(midnight) => self.leap = leap(midnight, offset, wanted),
            // Withdrawn: it was announced by mistake, or is no longer announced by a majority.
            None if !past => self.leap = Leap { offset, step: 0, at: Nanos(0) },
            None => {}
        }
    }
}

/// The leap second at a midnight of Unix time. An inserted 23:59:60 begins at this midnight; a
/// deleted second is the one before it.
const fn leap(midnight: Nanos, offset: i32, step: i32) -> Leap {
    let at = midnight.plus(offset as i64 * SECOND + if step > 0 { 0 } else { -SECOND });
    Leap { offset, step, at }
}

/// The end of the day if that can have a leap second: the last day of June or December (ITU-R
/// TF.460).
fn next_leap(unix: Nanos) -> Option<Nanos> {
    let day = unix.0.div_euclid(DAY) + 1;
    day.checked_mul(DAY).filter(|_| matches!(civil(day), (_, 1 | 7, 1))).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2016-12-31 12:00:00 UTC, twelve hours before a real leap second.
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
        // Announcements that continue into the new year are ignored.
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
    fn a_table_knows_better_than_servers_until_it_expires() {
        let at = |seconds: i64| Nanos(seconds * SECOND);
        let entries = vec![(at(MIDNIGHT - 86_400 * 549), 36), (at(MIDNIGHT), 37)];
        let mut leaps = Leaps::new(0);
        leaps.set_table(Table::new(entries, at(MIDNIGHT + 86_400 * 100)).unwrap());
        leaps.look_up(at(NOON));
        let expected = Leap { offset: 36, step: 1, at: tai(MIDNIGHT, 36) };
        assert_eq!(leaps.leap(), expected);
        leaps.announce([Announcement::Delete].into_iter(), tai(NOON, 36));
        assert_eq!(leaps.leap(), expected);
        leaps.look_up(at(MIDNIGHT + 80_000));
        assert_eq!(leaps.leap(), expected, "just over");
        leaps.look_up(at(MIDNIGHT + 90_000));
        assert_eq!(leaps.leap(), Leap { offset: 37, step: 0, at: Nanos(0) });
        // 2017-06-30: the table has expired.
        let june = MIDNIGHT + 180 * 86_400 + 43_200;
        leaps.look_up(at(june));
        leaps.announce([Announcement::Insert].into_iter(), tai(june, 37));
        assert_eq!(leaps.leap().step, 1);
    }
}
