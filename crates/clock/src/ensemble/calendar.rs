//! Days and dates of the Gregorian calendar (Hinnant, "chrono-Compatible Low-Level Date
//! Algorithms").

/// Year, month and day of month for a day number since 1970 (`civil_from_days`).
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

/// The day number since 1970 for a date (`days_from_civil`).
pub(super) const fn day_of(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(-1), (1969, 12, 31));
        for day in (-100_000..100_000).step_by(13) {
            let (year, month, date) = civil(day);
            assert_eq!(day_of(year, month, date), day);
        }
    }
}
