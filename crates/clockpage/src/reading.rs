//! Converts a counter value to the time. The same function serves the current value, a value taken
//! earlier, and a column of a million of them.

use crate::parameters::{Parameters, Status};
use crate::time::{Count, Nanos};

const SECOND: i64 = 1_000_000_000;
/// The counters of two processors may differ, and a value read on one may be converted at once on
/// the other. The difference is always below this, in ns.
const APART: i64 = 1_000_000;
/// By how much the bound grows once the values are stale, in 2^-32 ns per ns: 2 ppm, more than the
/// rate of any quartz changes in a day indoors.
const STALE_GROWTH: u32 = (2e-6 * 4_294_967_296.0) as u32;

/// The time at one value of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The status of the clock.
    pub status: Status,
    /// TAI if `status` has [`Status::TAI_KNOWN`]; otherwise it is wrong by whole seconds.
    pub tai: Nanos,
    /// TAI - UTC in seconds at that time.
    pub offset: i32,
    /// Estimated error in ns: one standard deviation; `u64::MAX` if the time is unknown.
    pub error: u64,
    /// Maximum error of the time in ns; `u64::MAX` if the time is unknown.
    pub bound: u64,
    /// Nanoseconds since the values were published, negative before; `i64::MAX` if nothing was ever
    /// published.
    pub age: i64,
    /// [`Parameters::disruptions`].
    pub disruptions: u32,
}

impl Reading {
    /// Unix time: nanoseconds since 1970-01-01 00:00:00 UTC, without the leap seconds since.
    #[must_use]
    #[inline]
    pub const fn utc(&self) -> Nanos {
        self.tai.plus(-(self.offset as i64) * SECOND)
    }

    /// Whether the time is known: its bound is finite.
    #[must_use]
    #[inline]
    pub const fn is_known(&self) -> bool {
        self.bound != u64::MAX
    }

    /// The interval of Unix time that contains the true time: the whole range if the time is
    /// unknown. Across a leap second both ends use the TAI - UTC offset of the middle.
    #[must_use]
    #[inline]
    pub const fn interval(&self) -> (Nanos, Nanos) {
        if !self.is_known() {
            return (Nanos(i64::MIN), Nanos(i64::MAX));
        }
        let bound = if self.bound > i64::MAX as u64 { i64::MAX } else { self.bound as i64 };
        let utc = self.utc().0;
        (Nanos(utc.saturating_sub(bound)), Nanos(utc.saturating_add(bound)))
    }
}

impl Parameters {
    /// The time at a value of the counter, which may be from before or after the values were
    /// published. The time is unknown if the value is so far from them that its time does not fit
    /// 64 bits. It is also unknown for a value from before [`Self::since`], and then the status has
    /// *disrupted*.
    #[must_use]
    #[inline]
    pub const fn reading(&self, count: Count) -> Reading {
        let reading = self.reading_near(count);
        if count.0 >= self.since.0 && self.reaches(count, &reading) { reading } else { self.beyond(count, &reading) }
    }

    /// The same for a value that the caller claims to have read from the counter, itself or in a
    /// record. If the counter, which `now` reads, has not reached the value yet, it is from before
    /// a break, and its time is unknown. `now` is called only for a value beyond `fresh_until`: a
    /// value that is ahead by less than the page is fresh for is converted without this check.
    #[must_use]
    #[inline]
    pub fn reading_of(&self, count: Count, now: impl FnOnce() -> Count) -> Reading {
        let reading = self.reading(count);
        if count.0 > self.fresh_until.0 && self.is_ahead(count, now()) { self.beyond(count, &reading) } else { reading }
    }

    /// Whether the counter, now at `now`, has not reached `count` yet.
    #[cold]
    const fn is_ahead(&self, count: Count, now: Count) -> bool {
        let ahead = count.0.saturating_sub(now.0);
        ahead > i64::MAX as u64 || self.local.nanos(ahead as i64) > APART
    }

    /// Whether the conversion did not overflow or saturate.
    const fn reaches(&self, count: Count, reading: &Reading) -> bool {
        let wrapped = (count.0 >= self.at.0) != (count.since(self.at) >= 0);
        let offset = reading.offset as i64 * SECOND;
        match self.time.0.checked_add(reading.age) {
            Some(tai) => {
                !wrapped && reading.age != i64::MAX && reading.age != i64::MIN && tai.checked_sub(offset).is_some()
            }
            None => false,
        }
    }

    /// The reading of a value that is too far away, or from before the counter broke.
    #[cold]
    const fn beyond(&self, count: Count, reading: &Reading) -> Reading {
        let end = if self.local.mult == 0 || count.0 >= self.at.0 { i64::MAX } else { i64::MIN };
        Reading {
            status: reading.status.without(Status::SYNCHRONISED).with(Status::DISRUPTED, count.0 < self.since.0),
            error: u64::MAX,
            bound: u64::MAX,
            age: end,
            ..*reading
        }
    }

    /// The same for a value within 2^63 counts and 200 years of the publication. The counter's
    /// current value always is.
    #[must_use]
    #[inline]
    pub const fn reading_near(&self, count: Count) -> Reading {
        let age = self.local.nanos(count.since(self.at));
        let tai = Nanos(self.time.0.saturating_add(age));
        let mut status = self.status;
        let mut offset = self.leap.offset;
        if self.leap.step != 0 {
            let since = tai.since(self.leap.at);
            if since >= 0 {
                offset = offset.wrapping_add(self.leap.step);
            }
            status = status.with(Status::LEAP_SECOND, self.leap.step > 0 && since >= 0 && since < SECOND);
        }
        let beyond = count.since(self.fresh_until);
        let mut grown = grown(age.unsigned_abs(), self.growth);
        if beyond > 0 {
            status = status.with(Status::STALE, true);
            grown = grown.saturating_add(self::grown(self.local.nanos(beyond).unsigned_abs(), STALE_GROWTH));
        }
        let reading = Reading {
            status,
            tai,
            offset,
            error: self.error.saturating_add(grown),
            bound: self.bound.saturating_add(grown),
            age,
            disruptions: self.disruptions,
        };
        if status.contains(Status::SYNCHRONISED) { reading } else { self.unknown(&reading) }
    }

    /// The reading of a page whose time is unknown.
    #[cold]
    const fn unknown(&self, reading: &Reading) -> Reading {
        let age = if self.local.mult == 0 { i64::MAX } else { reading.age };
        Reading { error: u64::MAX, bound: u64::MAX, age, ..*reading }
    }

    /// Nanoseconds between two values of the counter, by the difference clock: smooth, because no
    /// correction of the time enters it. Good for spans below about 1000 s; beyond, take the
    /// difference of two readings. `None` if the period is not known yet, if one of the values is
    /// from before [`Self::since`], or if the result does not fit 64 bits.
    #[must_use]
    #[inline]
    pub const fn elapsed(&self, from: Count, to: Count) -> Option<i64> {
        if from.0 < self.since.0 || to.0 < self.since.0 {
            return None;
        }
        let counts = to.since(from);
        let wrapped = (to.0 >= from.0) != (counts >= 0);
        match self.difference.nanos(counts) {
            i64::MIN | i64::MAX => None,
            _ if wrapped || self.difference.mult == 0 => None,
            ns => Some(ns),
        }
    }

    /// The same between values that the caller claims to have read, as for [`Self::reading_of`].
    #[must_use]
    #[inline]
    pub fn elapsed_of(&self, from: Count, to: Count, now: impl FnOnce() -> Count) -> Option<i64> {
        let last = if from.0 > to.0 { from } else { to };
        if last.0 > self.fresh_until.0 && self.is_ahead(last, now()) { None } else { self.elapsed(from, to) }
    }

    /// The count at which the clock shows this TAI time, saturated to 64 bits.
    #[must_use]
    pub const fn count_at(&self, tai: Nanos) -> Count {
        Count(self.at.0.saturating_add_signed(self.local.counts(tai.0.saturating_sub(self.time.0))))
    }
}

/// The growth over a span of `ns`, at `growth` 2^-32 ns per ns, rounded up.
#[inline]
const fn grown(ns: u64, growth: u32) -> u64 {
    // The product is below 2^96, so the quotient is below 2^64.
    ((ns as u128 * growth as u128 + 0xffff_ffff) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Leap;
    use crate::scale::Scale;
    use proptest::prelude::*;

    const AT: Count = Count(1_000_000_000_000);

    fn parameters() -> Parameters {
        let half = Scale::from_period(0.5).unwrap();
        Parameters {
            status: Status::SYNCHRONISED,
            at: AT,
            time: Nanos(100 * SECOND),
            local: half,
            difference: half,
            error: 10,
            bound: 100,
            growth: 1 << 12,
            fresh_until: AT.plus(20 * 2_000_000_000),
            leap: Leap { offset: 37, step: 0, at: Nanos(0) },
            disruptions: 3,
            ..Parameters::UNKNOWN
        }
    }

    #[test]
    fn the_bound_grows_in_both_directions_and_faster_once_stale() {
        let p = parameters();
        assert_eq!(
            p.reading(p.at),
            Reading { status: p.status, tai: p.time, offset: 37, error: 10, bound: 100, age: 0, disruptions: 3 }
        );
        for seconds in [-10i64, 10] {
            let reading = p.reading(p.at.plus(seconds * 2_000_000_000));
            assert_eq!(reading.age, seconds * SECOND);
            assert_eq!(reading.utc(), Nanos((63 + seconds) * SECOND));
            assert_eq!((reading.bound, reading.error), (100 + 9537, 10 + 9537));
            assert_eq!(reading.interval(), (reading.utc().plus(-9637), reading.utc().plus(9637)));
        }
        let stale = p.reading(p.at.plus(30 * 2_000_000_000));
        assert!(stale.status.contains(Status::STALE));
        assert_eq!(stale.bound, 100 + 28_611 + 19_998);
        let unknown = Parameters { status: Status::default(), ..p }.reading(p.at);
        assert_eq!(unknown.bound, u64::MAX);
        assert_eq!(unknown.interval(), (Nanos(i64::MIN), Nanos(i64::MAX)));
        assert_eq!(unknown.age, 0, "a daemon that knows nothing yet has published so just now");
        assert_eq!(Parameters::UNKNOWN.reading(Count(7)).age, i64::MAX, "nothing was published");
    }

    #[test]
    fn of_a_count_that_is_too_far_away_nothing_is_known() {
        let p = parameters();
        for (count, known) in
            [(Count(0), true), (AT.plus(i64::MAX), true), (Count(AT.0 + (1 << 63)), false), (Count(u64::MAX), false)]
        {
            let reading = p.reading(count);
            assert_eq!(reading.is_known(), known, "{count:?}: {reading:?}");
            assert_eq!(reading.status.contains(Status::SYNCHRONISED), known, "{count:?}");
            assert_eq!(reading.error == u64::MAX, !known, "{count:?}");
            assert_eq!(reading.age > 0, count > AT, "{count:?}: {reading:?}");
        }
        // The nanoseconds of 64 bits end in 2262.
        let slow = Parameters { local: Scale::from_period(1e3).unwrap(), ..p };
        let last = slow.count_at(Nanos(i64::MAX));
        assert!(slow.reading(last.plus(-1)).is_known() && !slow.reading(last.plus(1)).is_known());
        assert_eq!(slow.reading(last.plus(1)).age, i64::MAX);
        let late = Parameters { at: Count(u64::MAX - 5), ..p };
        assert_eq!(late.reading(Count(0)).age, i64::MIN, "it does not run round");
        assert_eq!(p.elapsed(Count(0), Count(u64::MAX)), None);
        assert_eq!(p.elapsed(Count(u64::MAX), Count(0)), None);
        assert_eq!(p.elapsed(Count(0), Count(i64::MAX as u64)), Some(i64::MAX / 2 + 1));
        let slow = Parameters { difference: Scale::from_period(1e3).unwrap(), ..p };
        assert_eq!(slow.elapsed(Count(0), Count(i64::MAX as u64)), None);
    }

    #[test]
    fn of_a_count_from_before_a_break_nothing_is_known() {
        let p = Parameters { since: AT.plus(-1000), ..parameters() };
        let whole = |count: i64| (p.reading(AT.plus(count)).is_known(), p.elapsed(AT.plus(count), AT));
        assert_eq!(whole(-1000), (true, Some(500)));
        assert_eq!(whole(-1001), (false, None));
        assert_eq!(p.elapsed(AT, AT.plus(-1001)), None);
        let before = p.reading(AT.plus(-1001));
        assert_eq!(before.status, Status::DISRUPTED, "{before:?}");
        assert_eq!(before.interval(), (Nanos(i64::MIN), Nanos(i64::MAX)));
        assert!(p.reading_near(AT.plus(-1001)).is_known(), "which is asked of the counter's value now only");
    }

    #[test]
    fn of_a_count_that_the_counter_has_not_come_to_nothing_is_known() {
        let p = parameters();
        let now = p.fresh_until;
        // 1 ms: processors' counters may be apart.
        for (ahead, known) in [(-1, true), (2_000_000, true), (2_000_002, false), (i64::MAX, false)] {
            let count = now.plus(ahead);
            assert_eq!(p.reading_of(count, || now).is_known(), known, "{ahead}");
            assert_eq!(p.elapsed_of(AT, count, || now), p.elapsed(AT, count).filter(|_| known), "{ahead}");
            assert_eq!(p.elapsed_of(count, AT, || now), p.elapsed(count, AT).filter(|_| known), "{ahead}");
        }
        assert!(!p.reading_of(Count(u64::MAX), || now).is_known());
        assert!(!p.reading_of(now.plus(2_000_002), || now).status.contains(Status::SYNCHRONISED));
        let asked = || panic!("what a page is fresh for needs no counter");
        assert!(p.reading_of(now, asked).is_known() && p.elapsed_of(now, AT, asked).is_some());
    }

    #[test]
    fn a_leap_second_is_applied_at_its_instant() {
        let p = parameters();
        // 23:59:60 begins 10 s later.
        let at = |step: i32, tenths: i64| {
            let leap = Leap { offset: 37, step, at: p.time.plus(10 * SECOND) };
            let reading = Parameters { leap, ..p }.reading(p.at.plus(tenths * 200_000_000));
            (reading.utc().0 / 100_000_000, reading.status.contains(Status::LEAP_SECOND))
        };
        assert_eq!(at(1, 99), (630 + 99, false));
        assert_eq!(at(1, 100), (630 + 90, true), "the second before it is repeated");
        assert_eq!(at(1, 109), (630 + 99, true));
        assert_eq!(at(1, 110), (630 + 100, false));
        assert_eq!(at(-1, 99), (630 + 99, false));
        assert_eq!(at(-1, 100), (630 + 110, false), "a second is left out");
    }

    #[test]
    fn waiting_finds_the_count_of_an_instant() {
        let p = parameters();
        assert_eq!(p.reading(p.count_at(Nanos(123_456_789_012))).tai, Nanos(123_456_789_012));
        assert_eq!(p.elapsed(Count(10), Count(30)), Some(10));
        assert_eq!(Parameters::UNKNOWN.elapsed(Count(10), Count(30)), None);
    }

    proptest! {
        #[test]
        fn nothing_that_a_page_may_hold_makes_a_reader_panic(words in any::<[u64; 15]>(), counts in any::<[u64; 2]>()) {
            let p = Parameters::from_words(&words);
            let reading = p.reading(Count(counts[0]));
            let (earliest, latest) = reading.interval();
            prop_assert!(earliest <= latest || reading.utc().0 < i64::MIN / 2 || reading.utc().0 > i64::MAX / 2);
            let _ = (p.elapsed(Count(counts[0]), Count(counts[1])), p.count_at(reading.tai));
            let _ = p.reading_of(Count(counts[0]), || Count(counts[1]));
        }
    }
}
