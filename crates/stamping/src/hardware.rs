//! Conversion of a network card's timestamps to counts of the counter. Arithmetic only: no I/O, and
//! no clock.
//!
//! ```text
//! card's clock --readings of both--> CLOCK_REALTIME --cross timestamps--> counter
//! ```
//!
//! A card stamps by its own clock. That clock may be off by hundreds of ppm, have any epoch, and be
//! steered by other daemons (ptp4l, phc2sys). It is read together with CLOCK_REALTIME just before a
//! request and just after its reply. A timestamp between these two readings is interpolated, so
//! neither epoch nor rate matter. A step does: it shows as an impossible rate.
//!
//! Two rules keep the result at least as good as with the kernel's timestamps:
//!
//! * Both ends of an exchange use the same kind of timestamp. The path between card and kernel,
//!   interrupts and queues, takes microseconds. If it were part of one direction only, half of it
//!   would be an error of the time that no round trip shows.
//! * A packet is on the wire between the kernel's timestamps. Ends outside of these belong to
//!   another exchange. The uncertainty of the readings of the card's clock, half of their width, is
//!   added to the round trip, up to the kernel's timestamps: there it is part of the bound, and a
//!   slow reading weighs like a queue.

use tickclock::Count;

/// Greatest relative rate difference between the card's clock and the system's; more means that a
/// clock was set. Oscillators are good to 100 ppm, and servos add some hundreds.
const MOST_RATE: f64 = 1e-3;
/// Greatest relative change of its rate from one exchange to the next.
const MOST_CHANGE: f64 = 50e-6;
/// Steps below this many ns are not detected, and readings that claim to be exact (cross
/// timestamps) may be off by it.
const STEP: i64 = 1_000;
/// How much, in ns, kernel and card may seem to disagree: the error of the cross timestamps.
pub const SLACK: i64 = 500;

/// Why an exchange has no timestamps of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Lack {
    /// The card can stamp few packets at a time, or only those that its filter matches.
    #[error("the card has not stamped the request")]
    Departure,
    /// See [`Self::Departure`].
    #[error("the card has not stamped the answer")]
    Arrival,
    /// The card is gone, or being reset.
    #[error("the card's clock could not be read")]
    Unread,
    /// Set by ptp4l, phc2sys or an administrator; or the system's clock was set.
    #[error("the card's clock was set during the exchange")]
    Set,
    /// Another card has stamped: the one of another route, or of another port of a bond.
    #[error("the stamps are of another clock than the card's")]
    Foreign,
    /// The timestamps lie outside of the time in which the packets were on their way.
    #[error("the card's stamps contradict the kernel's")]
    Contradiction,
}

/// The card's clock between two readings of CLOCK_REALTIME, all in ns. The card's clock may have
/// any epoch: TAI, UTC, or its power-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triple {
    /// CLOCK_REALTIME before.
    pub before: i64,
    /// The card's clock.
    pub card: i64,
    /// CLOCK_REALTIME after.
    pub after: i64,
}

/// Simultaneous readings of a card's clock and the system's, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardReading {
    /// CLOCK_REALTIME, in the middle of the reading.
    pub realtime: i64,
    /// The card's clock.
    pub card: i64,
    /// Half of the reading's duration: the greatest time between the two.
    pub doubt: i64,
}

impl CardReading {
    /// The quickest valid reading; `None` if there is none.
    #[must_use]
    pub fn quickest(triples: &[Triple]) -> Option<Self> {
        let reading = |one: &Triple| {
            // Negative if the system's clock was set during the reading.
            let width = one.after.checked_sub(one.before).filter(|&width| width >= 0)?;
            Some(Self { realtime: one.before + width / 2, card: one.card, doubt: width / 2 + width % 2 })
        };
        triples.iter().filter_map(reading).min_by_key(|one| one.doubt)
    }

    /// Progress of the card's clock and of the system's since an earlier reading, and the
    /// uncertainty of both.
    fn since(&self, before: &Self) -> (f64, f64, f64) {
        let went = |now: i64, then: i64| (i128::from(now) - i128::from(then)) as f64;
        let doubt = self.doubt as f64 + before.doubt as f64 + STEP as f64;
        (went(self.card, before.card), went(self.realtime, before.realtime), doubt)
    }
}

/// State of a card's clock, kept from one exchange to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Track {
    last: Option<CardReading>,
}

impl Track {
    /// The card's transmit and receive timestamps as CLOCK_REALTIME, by readings before and after.
    ///
    /// # Errors
    /// The clock was set between the readings, or the timestamps are of another clock.
    pub fn realtime(&mut self, before: &CardReading, after: &CardReading, stamps: [i64; 2]) -> Result<[i64; 2], Lack> {
        let last = self.last.replace(*after);
        let (card, system, doubt) = after.since(before);
        if system <= 0.0 || card <= 0.0 {
            return Err(Lack::Set);
        }
        // The previous rate, if valid: it is not if either clock was set since.
        let rate = last.and_then(|last| {
            let (card, system, doubt) = before.since(&last);
            let rate = card / system - 1.0;
            (system > 0.0 && rate.abs() <= MOST_RATE).then_some((rate, doubt / system))
        });
        let (rate, uncertain) = match rate {
            Some((rate, uncertain)) if uncertain < MOST_RATE => (rate, uncertain + MOST_CHANGE),
            _ => (0.0, MOST_RATE),
        };
        if (card - system * (1.0 + rate)).abs() > doubt + uncertain * system {
            return Err(Lack::Set);
        }
        let span = i128::from(after.realtime) - i128::from(before.realtime);
        let of = i128::from(after.card) - i128::from(before.card);
        let realtime = |stamp: i64| {
            let into = i128::from(stamp) - i128::from(before.card);
            let may = |one: &CardReading| i128::from(one.doubt) + i128::from(STEP);
            let within = (-may(before)..=of + may(after)).contains(&into);
            // Readings far apart may have uncertainties beyond any real clock: a result that is no
            // valid time is no timestamp.
            let at = into.checked_mul(span).map(|product| i128::from(before.realtime) + product / of);
            at.filter(|_| within).and_then(|at| i64::try_from(at).ok()).ok_or(Lack::Foreign)
        };
        Ok([realtime(stamps[0])?, realtime(stamps[1])?])
    }
}

/// The ends of an exchange by the card's timestamps, widened by `doubt` counts but kept inside the
/// kernel's, which may be off by `slack`.
///
/// # Errors
/// The card's ends are not inside the kernel's.
pub fn inside(kernel: [Count; 2], card: [Count; 2], doubt: i64, slack: i64) -> Result<[Count; 2], Lack> {
    let may = doubt.saturating_add(slack);
    // Positive: inside.
    let (sent, received) = (card[0].since(kernel[0]), kernel[1].since(card[1]));
    if sent < -may || received < -may || card[1].since(card[0]) <= 0 {
        return Err(Lack::Contradiction);
    }
    let ends =
        [kernel[0].plus(sent.saturating_sub(doubt).max(0)), kernel[1].plus(-received.saturating_sub(doubt).max(0))];
    if ends[1].since(ends[0]) > 0 { Ok(ends) } else { Err(Lack::Contradiction) }
}

/// Transmission time of a message on the wire, in ns; 0 if the speed is not known. A card stamps
/// the beginning of a frame, also of a received one; a kernel, as the server's, can only stamp its
/// end. Without this correction, replies would seem faster than requests by a frame's transmission
/// time. (chronyd does the same.)
#[must_use]
pub fn on_the_wire(bytes: usize, v6: bool, mbits: Option<u32>) -> i64 {
    // Ethernet header and FCS, IP header, UDP header.
    let frame = 14 + 4 + if v6 { 40 } else { 20 } + 8 + bytes as i64;
    mbits.filter(|&mbits| mbits != 0).map_or(0, |mbits| frame * 8 * 1000 / i64::from(mbits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    /// A simulated card's clock, as a function of the system's time.
    #[derive(Clone, Copy)]
    struct Virtual {
        epoch: i64,
        ppm: f64,
        /// Steps forward at the first value's time by the second value.
        step: Option<(i64, i64)>,
    }

    impl Virtual {
        fn at(&self, time: i64) -> i64 {
            let stepped = self.step.filter(|(at, _)| time >= *at).map_or(0, |(_, by)| by);
            self.epoch + time + (time as f64 * self.ppm * 1e-6) as i64 + stepped
        }

        /// A reading that takes `width`; the card's clock is actually read after the fraction
        /// `part` of it.
        fn read(&self, time: i64, width: i64, part: f64) -> CardReading {
            let card = self.at(time + (width as f64 * part) as i64);
            CardReading::quickest(&[Triple { before: time, card, after: time + width }]).unwrap()
        }

        /// An exchange at `begin`, whose ends are 20 us and `took` ns later.
        fn exchange(&self, track: &mut Track, begin: i64, took: i64, width: i64) -> Result<[i64; 2], Lack> {
            let before = self.read(begin, width, 0.5);
            let ends = [begin + 20_000, begin + took];
            let after = self.read(begin + took + 20_000, width, 0.5);
            let found = track.realtime(&before, &after, ends.map(|end| self.at(end)))?;
            Ok([found[0] - ends[0], found[1] - ends[1]])
        }
    }

    #[test]
    fn neither_epoch_nor_rate_matter() {
        let now = 1_790_000_000 * SECOND;
        for epoch in [37 * SECOND, 0, -now + 5, 3600 * SECOND] {
            for ppm in [0.0, 700.0, -999.0] {
                let card = Virtual { epoch, ppm, step: None };
                let mut track = Track::default();
                // Round trips from a LAN's to a satellite's, one exchange a second.
                for (number, took) in [100_000, 1_000_000, SECOND / 2, 50_000].into_iter().enumerate() {
                    let errors = card.exchange(&mut track, now + number as i64 * SECOND, took, 1000).unwrap();
                    assert!(errors.iter().all(|error| error.abs() <= 2), "{epoch} {ppm} {took}: {errors:?}");
                }
            }
        }
    }

    #[test]
    fn an_exchange_during_which_the_clock_was_set_has_no_stamps() {
        let now = 1_790_000_000 * SECOND;
        for by in [37 * SECOND, -SECOND, 20_000, -20_000] {
            let card = Virtual { epoch: 0, ppm: 200.0, step: Some((now + SECOND + 60_000, by)) };
            let mut track = Track::default();
            card.exchange(&mut track, now, 100_000, 1000).unwrap();
            assert_eq!(card.exchange(&mut track, now + SECOND, 100_000, 1000), Err(Lack::Set), "{by}");
            let after = card.exchange(&mut track, now + 2 * SECOND, 100_000, 1000).unwrap();
            assert!(after.iter().all(|error| error.abs() <= 2), "{by}: {after:?}");
        }
    }

    #[test]
    fn a_small_step_shows_in_a_long_exchange_because_the_rate_is_known() {
        let now = 1_790_000_000 * SECOND;
        // 50 us in 0.1 s is 500 ppm: possible for an oscillator, but not as a sudden change.
        let card = Virtual { epoch: 0, ppm: 100.0, step: Some((now + SECOND + 60_000, 50_000)) };
        let mut track = Track::default();
        card.exchange(&mut track, now, 100_000_000, 1000).unwrap();
        assert_eq!(card.exchange(&mut track, now + SECOND, 100_000_000, 1000), Err(Lack::Set));
    }

    #[test]
    fn a_step_between_exchanges_costs_nothing_in_a_lan() {
        let now = 1_790_000_000 * SECOND;
        for by in [37 * SECOND, -20_000, 300_000] {
            let card = Virtual { epoch: 0, ppm: -50.0, step: Some((now + SECOND / 2, by)) };
            let mut track = Track::default();
            for number in 0..3 {
                let errors = card.exchange(&mut track, now + number * SECOND, 100_000, 1000).unwrap();
                assert!(errors.iter().all(|error| error.abs() <= 2), "{by}: {errors:?}");
            }
        }
    }

    #[test]
    fn stamps_of_another_clock_are_known_by_their_time() {
        let now = 1_790_000_000 * SECOND;
        let (card, other) =
            (Virtual { epoch: 37 * SECOND, ppm: 0.0, step: None }, Virtual { epoch: 0, ppm: 0.0, step: None });
        let (before, after) = (card.read(now, 1000, 0.5), card.read(now + 100_000, 1000, 0.5));
        let mut track = Track::default();
        let stamps = [card.at(now + 20_000), other.at(now + 80_000)];
        assert_eq!(track.realtime(&before, &after, stamps), Err(Lack::Foreign));
        // A late timestamp of the previous exchange.
        let stamps = [card.at(now - SECOND), card.at(now + 80_000)];
        assert_eq!(track.realtime(&before, &after, stamps), Err(Lack::Foreign));
    }

    #[test]
    fn the_quickest_reading_counts_and_what_is_none_does_not() {
        let triple = |before, card, after| Triple { before, card, after };
        let all = [triple(0, 10, 900), triple(1000, 20, 1101), triple(2000, 30, 1999), triple(i64::MIN, 0, i64::MAX)];
        assert_eq!(CardReading::quickest(&all), Some(CardReading { realtime: 1050, card: 20, doubt: 51 }));
        assert_eq!(CardReading::quickest(&all[2..]), None);
    }

    #[test]
    fn what_a_reading_leaves_open_is_in_the_round_trip_up_to_the_kernels_stamps() {
        let kernel = [Count(1_000), Count(51_000)];
        let card = [Count(9_000), Count(41_000)];
        assert_eq!(inside(kernel, card, 0, 500), Ok(card));
        assert_eq!(inside(kernel, card, 600, 500), Ok([Count(8_400), Count(41_600)]));
        assert_eq!(inside(kernel, card, 9_000, 500), Ok([Count(1_000), Count(50_000)]));
        assert_eq!(inside(kernel, card, i64::MAX, 500), Ok(kernel));
        // Outside, but within the error of both.
        assert_eq!(inside(kernel, [Count(600), card[1]], 0, 500), Ok([Count(1_000), card[1]]));
        assert_eq!(inside(kernel, [Count(400), card[1]], 0, 500), Err(Lack::Contradiction));
        assert_eq!(inside(kernel, [card[0], Count(51_600)], 0, 500), Err(Lack::Contradiction));
        assert_eq!(inside(kernel, [card[1], card[0]], 0, 500), Err(Lack::Contradiction));
    }

    #[test]
    fn doubts_that_no_clock_has_are_refused() {
        let reading = |realtime, card| CardReading { realtime, card, doubt: i64::MAX / 4 };
        let (before, after) = (reading(0, 0), reading(i64::MAX / 8, 1));
        assert_eq!(Track::default().realtime(&before, &after, [i64::MAX / 8, 0]), Err(Lack::Foreign));
        let widest = CardReading::quickest(&[Triple { before: 0, card: 0, after: i64::MAX }]);
        assert_eq!(widest.unwrap().doubt, i64::MAX / 2 + 1);
    }

    #[test]
    fn frames_take_their_time() {
        // 48 bytes are a frame of 94 without preamble.
        assert_eq!(on_the_wire(48, false, Some(100)), 7_520);
        assert_eq!(on_the_wire(48, false, Some(1_000)), 752);
        assert_eq!(on_the_wire(48, true, Some(10_000)), 91);
        assert_eq!(on_the_wire(48, true, None), 0);
    }

    proptest! {
        /// For any noise of the readings, the true ends are inside the result, and the result is
        /// inside the kernel's timestamps.
        #[test]
        fn the_truth_is_inside(
            ppm in -900.0..900.0f64, epoch in -1_000_000_000_000i64..1_000_000_000_000,
            widths in [1i64..40_000, 1..40_000], parts in [0.0..1.0f64, 0.0..1.0], took in 40_000i64..50_000_000,
        ) {
            let begin = 1_790_000_000 * SECOND;
            let card = Virtual { epoch, ppm, step: None };
            let ends = [begin + widths[0] + 5_000, begin + widths[0] + took];
            let before = card.read(begin, widths[0], parts[0]);
            let after = card.read(ends[1] + 10_000, widths[1], parts[1]);
            let found = Track::default().realtime(&before, &after, ends.map(|end| card.at(end))).unwrap();
            // The kernel stamps the request before it is on the wire, and the reply after it was. A
            // count is a ns.
            let kernel = [Count((ends[0] - 3_000) as u64), Count((ends[1] + 8_000) as u64)];
            let doubt = before.doubt.max(after.doubt);
            let [sent, received] = inside(kernel, found.map(|at| Count(at as u64)), doubt, SLACK).unwrap();
            prop_assert!(sent >= kernel[0] && sent.0 as i64 <= ends[0] + 2);
            prop_assert!(received <= kernel[1] && received.0 as i64 >= ends[1] - 2);
        }

        #[test]
        fn nothing_that_a_card_says_is_too_much(
            numbers in any::<[i64; 8]>(), doubts in [0i64..=i64::MAX / 4, 0..=i64::MAX / 4], doubt in 0..i64::MAX,
        ) {
            let [a, b, c, d, e, f, g, h] = numbers;
            let mut track = Track::default();
            for (a, b, c, d) in [(a, b, c, d), (e, f, g, h)] {
                let reading = |realtime: i64, card, doubt| CardReading { realtime: realtime / 4, card, doubt };
                let _ = track.realtime(&reading(a, b, doubts[0]), &reading(c, d, doubts[1]), [b, e]);
                let [a, b, c, d] = [a, b, c, d].map(|n| Count(n as u64 >> 2));
                let _ = inside([a, b], [c, d], doubt / 4, SLACK);
                let _ = CardReading::quickest(&[Triple { before: numbers[0], card: numbers[1], after: numbers[2] }]);
            }
        }
    }
}
