//! The table of leap seconds from the host's time zone data: IERS' `leap-seconds.list`, or tzdata's
//! `leapseconds`. It lists a leap second half a year ahead. Until it expires it also excludes any
//! other one, whatever servers announce.

use super::calendar::day_of;
use core::fmt;
use tickwire_clockpage::Nanos;

const SECOND: i64 = 1_000_000_000;
/// Seconds from the NTP epoch (1900) to the Unix epoch.
const NTP_TO_UNIX: i64 = 2_208_988_800;
/// TAI - UTC in 1972, before the first leap second.
const FIRST: i32 = 10;

/// The changes of TAI - UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Unix time at which an offset begins, and the offset in seconds; ascending.
    entries: Vec<(Nanos, i32)>,
    expires: Nanos,
}

/// Why a text cannot be parsed as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedTable {
    /// The line, counted from 1; 0 means the table as a whole.
    pub line: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for MalformedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl core::error::Error for MalformedTable {}

impl Table {
    /// A table of these entries: Unix time at which an offset begins, and the offset in seconds.
    ///
    /// # Errors
    /// There are no entries, they are out of order, or two successive ones differ by other than one
    /// second.
    pub fn new(entries: Vec<(Nanos, i32)>, expires: Nanos) -> Result<Self, MalformedTable> {
        let wrong = |what| MalformedTable { line: 0, what };
        if entries.is_empty() {
            return Err(wrong("no leap second is in it"));
        }
        if entries.windows(2).any(|two| two[0].0 >= two[1].0 || two[1].1.abs_diff(two[0].1) != 1) {
            return Err(wrong("leap seconds are out of order, or of more than a second"));
        }
        Ok(Self { entries, expires })
    }

    /// Parses either of the two formats.
    ///
    /// # Errors
    /// The line that is wrong.
    pub fn parse(text: &str) -> Result<Self, MalformedTable> {
        let (mut entries, mut expires) = (Vec::new(), None);
        for (number, line) in text.lines().enumerate() {
            let wrong = |what| MalformedTable { line: number + 1, what };
            let words: Vec<_> = line.split_whitespace().collect();
            match *words.as_slice() {
                ["#@", ntp, ..] => {
                    let seconds: i64 = ntp.parse().map_err(|_| wrong("the expiry is no number"))?;
                    expires = Some(unix(seconds, NTP_TO_UNIX).ok_or(wrong("the expiry is no time"))?);
                }
                ["#expires", seconds, ..] => {
                    let seconds = seconds.parse().map_err(|_| wrong("the expiry is no number"))?;
                    expires = Some(unix(seconds, 0).ok_or(wrong("the expiry is no time"))?);
                }
                [] => {}
                [word, ..] if word.starts_with('#') || word == "Expires" => {}
                ["Leap", year, month, day, _, sign, ..] => {
                    let midnight = midnight_after(year, month, day).ok_or(wrong("no date"))?;
                    let before = entries.last().map_or(FIRST, |&(_, offset)| offset);
                    let step = match sign {
                        "+" => 1,
                        "-" => -1,
                        _ => return Err(wrong("a leap second is + or -")),
                    };
                    entries.push((midnight, before + step));
                }
                [ntp, offset, ..] => {
                    let seconds: i64 = ntp.parse().map_err(|_| wrong("expected the seconds since 1900"))?;
                    let at = unix(seconds, NTP_TO_UNIX).ok_or(wrong("no time"))?;
                    let offset = offset.parse().ok().filter(|offset: &i32| offset.abs() < 10_000);
                    entries.push((at, offset.ok_or(wrong("expected TAI - UTC in seconds"))?));
                }
                _ => return Err(wrong("no line of a table of leap seconds")),
            }
        }
        let expires = expires.ok_or(MalformedTable { line: 0, what: "it does not say when it expires" })?;
        Self::new(entries, expires)
    }

    /// Unix time at which each offset begins, and the offset.
    #[must_use]
    pub fn entries(&self) -> &[(Nanos, i32)] {
        &self.entries
    }

    /// The end of the table's validity.
    #[must_use]
    pub const fn expires(&self) -> Nanos {
        self.expires
    }

    /// TAI - UTC at this Unix time by the table, and the next change: its Unix time and the new
    /// offset.
    pub(super) fn at(&self, unix: Nanos) -> (i32, Option<(Nanos, i32)>) {
        let later = self.entries.partition_point(|&(at, _)| at <= unix);
        let first = self.entries[0].1;
        let now = later.checked_sub(1).map_or(first, |number| self.entries[number].1);
        (now, self.entries.get(later).copied())
    }
}

fn unix(seconds: i64, epoch: i64) -> Option<Nanos> {
    seconds.checked_sub(epoch)?.checked_mul(SECOND).map(Nanos)
}

fn midnight_after(year: &str, month: &str, day: &str) -> Option<Nanos> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    let year = year.parse().ok().filter(|year| (1970..2200).contains(year))?;
    let day: i64 = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    unix((day_of(year, month as i64, day) + 1) * 86_400, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IERS: &str = "# comment\n#$ 3676924800\n#@ 3991593600\n2272060800 10 # 1 Jan 1972\n2287785600 11\n3692217600      37      # 1 Jan 2017\n";
    const TZDATA: &str = "# Leap YEAR MON DAY\nLeap\t1972\tJun\t30\t23:59:60\t+\tS\nLeap\t2016\tDec\t31\t23:59:60\t+\tS\n\
                          #updated 1\n#expires 1782604800 (2026-06-28 00:00:00 UTC)\n";

    #[test]
    fn both_formats_are_read() {
        let wrong = Table::parse(IERS).unwrap_err();
        assert_eq!(wrong.what, "leap seconds are out of order, or of more than a second", "26 of them are left out");
        let iers = Table::parse(&IERS.replace(" 11", " 11 #").replace("37 ", "12 ")).unwrap();
        assert_eq!(iers.expires(), Nanos(1_782_604_800 * SECOND));
        assert_eq!(iers.at(Nanos(78_796_799 * SECOND)), (10, Some((Nanos(78_796_800 * SECOND), 11))));
        let tzdata = Table::parse(TZDATA).unwrap();
        assert_eq!(tzdata.expires(), iers.expires());
        assert_eq!(tzdata.entries(), [(Nanos(78_796_800 * SECOND), 11), (Nanos(1_483_228_800 * SECOND), 12)]);
        assert_eq!(tzdata.at(Nanos(1_483_228_800 * SECOND)), (12, None));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line) in [
            ("", 0),
            ("#@ 3991593600\n", 0),
            ("2272060800 10\n", 0),
            ("#@ soon\n", 1),
            ("#@ 1\n\nLeap 1972 Foo 30 23:59:60 + S\n", 3),
            ("#@ 1\nLeap 1972 Jun 30 23:59:60 ? S\n", 2),
            ("2272060800 ten\n", 1),
            ("yesterday 10\n", 1),
            ("2272060800\n", 1),
            ("9223372036854775807 10\n", 1),
        ] {
            assert_eq!(Table::parse(text).unwrap_err().line, line, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Leap|#@|#expires|[0-9]{1,19}|\\+|-|Jun|Dec|\\PC|[ \t\n]){0,60}") {
            let _ = Table::parse(&text);
        }
    }
}
