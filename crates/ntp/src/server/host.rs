//! What this host announces about its own clock, from the clock page: leap indicator, stratum and
//! root figures (RFC 5905 §7.3).

use crate::packet::{LeapIndicator, Mode, NtpPacket};
use crate::stamp::{Short, Stamp};
use tickwire_clockpage::{Parameters, Reading, Status};

/// A day, in ns: a leap second is announced for the last day only (RFC 5905 figure 9).
const DAY: i64 = 86_400_000_000_000;
/// A clock whose error bound exceeds this, in ns, counts as unsynchronised.
const USELESS: u64 = 1_000_000_000;
/// A reading takes less than 2^-25 s.
const PRECISION: i8 = -25;
/// The stratum of an unsynchronised server.
const NONE: u8 = 16;

/// A host's clock as a reply announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemVariables {
    /// Leap second announced, or not synchronised.
    pub leap: LeapIndicator,
    /// Stratum of the source plus one; 16: not synchronised.
    pub stratum: u8,
    /// Reference ID of the source.
    pub reference_id: u32,
    /// Round trip to the reference.
    pub root_delay: Short,
    /// Greatest possible error of the clock, without half the `root_delay`, in ns.
    pub dispersion: u64,
    /// When the clock was set last.
    pub reference_timestamp: Stamp,
}

impl SystemVariables {
    /// The clock is not synchronised, and the reply says so.
    pub const UNSYNCHRONISED: Self = Self {
        leap: LeapIndicator::Unknown,
        stratum: NONE,
        reference_id: 0,
        root_delay: Short(0),
        dispersion: u64::MAX,
        reference_timestamp: Stamp(0),
    };

    /// From a clock page and a reading of it.
    #[must_use]
    pub fn new(parameters: &Parameters, reading: &Reading) -> Self {
        let root = parameters.root;
        let stratum = root.stratum.saturating_add(1);
        let known = reading.status.contains(Status::SYNCHRONISED) && !reading.status.contains(Status::RETIRED);
        if !known || reading.bound > USELESS || root.stratum == 0 || stratum >= NONE {
            return Self::UNSYNCHRONISED;
        }
        // The client adds the dispersion and half the delay; their sum is the bound, rounded up.
        let root_delay = Short::from_ns_below(root.delay.min(2 * reading.bound));
        let dispersion = reading.bound - (root_delay.to_ns_below() / 2).min(reading.bound);
        let leap = parameters.leap;
        let left = leap.at.since(reading.tai);
        Self {
            leap: match leap.step {
                1 if 0 < left && left <= DAY => LeapIndicator::Insert,
                -1 if 0 < left && left <= DAY => LeapIndicator::Delete,
                _ => LeapIndicator::None,
            },
            stratum,
            reference_id: root.reference,
            root_delay,
            dispersion,
            reference_timestamp: Stamp::from_unix(parameters.reading(parameters.at).utc()),
        }
    }

    /// The reply to a request, without its timestamps.
    #[must_use]
    pub const fn answer(&self, request: &NtpPacket) -> NtpPacket {
        NtpPacket {
            leap: self.leap,
            version: request.version,
            mode: Mode::Server,
            stratum: self.stratum,
            poll: request.poll,
            precision: PRECISION,
            root_delay: self.root_delay,
            root_dispersion: Short::from_ns(self.dispersion),
            reference_id: self.reference_id,
            reference_timestamp: self.reference_timestamp,
            origin_timestamp: Stamp(0),
            receive_timestamp: Stamp(0),
            transmit_timestamp: Stamp(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickwire_clockpage::{Count, Leap, Nanos, Root, Scale};

    const SECOND: i64 = 1_000_000_000;

    fn page(bound: u64, delay: u64) -> Parameters {
        let scale = Scale::from_period(1.0).unwrap();
        Parameters {
            status: Status::SYNCHRONISED,
            at: Count(0),
            time: Nanos(1_790_000_000 * SECOND),
            local: scale,
            difference: scale,
            error: 0,
            bound,
            fresh_until: Count(u64::MAX >> 1),
            leap: Leap { offset: 37, step: 0, at: Nanos(0) },
            root: Root { stratum: 1, reference: 0xc000_0201, delay },
            ..Parameters::UNKNOWN
        }
    }

    fn host(page: &Parameters) -> SystemVariables {
        SystemVariables::new(page, &page.reading(page.at))
    }

    #[test]
    fn a_clock_that_is_known_tells_how_well() {
        let said = host(&page(100_000, 80_000));
        assert_eq!((said.leap, said.stratum, said.reference_id), (LeapIndicator::None, 2, 0xc000_0201));
        assert_eq!(said.root_delay, Short(5));
        assert_eq!(said.dispersion, 100_000 - 38_146);
        assert_eq!(said.reference_timestamp, Stamp::from_unix(Nanos((1_790_000_000 - 37) * SECOND)));
    }

    #[test]
    fn a_clock_that_is_not_known_says_so() {
        let good = page(100_000, 80_000);
        let retired = Parameters { status: good.status | Status::RETIRED, ..good };
        let far = Parameters { root: Root { stratum: 15, ..good.root }, ..good };
        let alone = Parameters { root: Root { stratum: 0, ..good.root }, ..good };
        for page in [Parameters::UNKNOWN, page(2_000_000_000, 0), retired, far, alone] {
            assert_eq!(host(&page), SystemVariables::UNSYNCHRONISED, "{page:?}");
        }
        let said = SystemVariables::UNSYNCHRONISED.answer(&NtpPacket::request(Stamp(1)));
        assert_eq!((said.leap, said.stratum), (LeapIndicator::Unknown, 16));
    }

    #[test]
    fn a_leap_second_is_announced_on_its_day() {
        let good = page(100_000, 80_000);
        for (step, before, said) in [
            (1, DAY + 1, LeapIndicator::None),
            (1, DAY, LeapIndicator::Insert),
            (-1, 1, LeapIndicator::Delete),
            (1, 0, LeapIndicator::None),
            (0, 1, LeapIndicator::None),
        ] {
            let leap = Leap { step, at: good.time.plus(before), ..good.leap };
            assert_eq!(host(&Parameters { leap, ..good }).leap, said, "{step} in {before} ns");
        }
    }

    proptest! {
        #[test]
        fn dispersion_and_half_the_delay_are_never_less_than_the_bound(bound in 0u64..USELESS, delay in any::<u64>()) {
            let said = host(&page(bound, delay)).answer(&NtpPacket::request(Stamp(1)));
            let client = u128::from(said.root_dispersion.0) * 2 + u128::from(said.root_delay.0);
            prop_assert!(client * 1_000_000_000 >= u128::from(bound) * 131_072, "{said:?}");
            prop_assert!(client * 1_000_000_000 < u128::from(bound + 40_000) * 131_072, "and not much more: {said:?}");
        }
    }
}
