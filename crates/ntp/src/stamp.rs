//! NTP's time formats (RFC 5905 §6).

use tickwire_clockpage::Nanos;

/// Seconds from NTP's epoch (1900) to Unix's (1970).
const EPOCHS: i64 = 2_208_988_800;
const SECOND: i64 = 1_000_000_000;

/// An NTP timestamp: seconds since 1900 modulo 2^32, and their 2^-32th parts. 0 means "unknown".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Unix time, in the era that puts it nearest to `near` (within 68 years). Rounded to the
    /// nearest nanosecond.
    #[must_use]
    pub const fn to_unix(self, near: Nanos) -> Nanos {
        let seconds = near.0.div_euclid(SECOND) + EPOCHS;
        // Distance of this timestamp from the expected second, modulo 2^32 seconds.
        let distance = ((self.0 >> 32) as u32).wrapping_sub(seconds as u32) as i32;
        let fraction = (self.0 & 0xffff_ffff) * SECOND as u64;
        let ns = ((fraction + (1 << 31)) >> 32) as i64;
        Nanos((seconds - EPOCHS + distance as i64).saturating_mul(SECOND).saturating_add(ns))
    }

    /// From Unix time. The fraction is rounded up, so that the conversion back gives the same
    /// nanosecond.
    #[must_use]
    pub const fn from_unix(time: Nanos) -> Self {
        let seconds = (time.0.div_euclid(SECOND) + EPOCHS) as u64;
        let ns = time.0.rem_euclid(SECOND) as u64;
        Self(seconds << 32 | (ns << 32).div_ceil(SECOND as u64))
    }
}

/// NTP short format: an interval in units of 2^-16 s. Used for a server's root delay and
/// dispersion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Short(pub u32);

impl Short {
    /// In nanoseconds, rounded up: it is an error bound, and must not become smaller.
    #[must_use]
    pub const fn to_ns(self) -> u64 {
        (self.0 as u64 * SECOND as u64).div_ceil(1 << 16)
    }

    /// In nanoseconds, rounded down: for subtraction from an error bound.
    #[must_use]
    pub const fn to_ns_below(self) -> u64 {
        (self.0 as u64 * SECOND as u64) >> 16
    }

    /// From nanoseconds, rounded down; saturates at 18 hours.
    #[must_use]
    pub const fn from_ns_below(ns: u64) -> Self {
        let units = ((ns as u128) << 16) / SECOND as u128;
        if units > u32::MAX as u128 { Self(u32::MAX) } else { Self(units as u32) }
    }

    /// From nanoseconds, rounded up; saturates at 18 hours.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        let units = ((ns as u128) << 16).div_ceil(SECOND as u128);
        if units > u32::MAX as u128 { Self(u32::MAX) } else { Self(units as u32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn eras_follow_each_other() {
        // 2036-02-07 06:28:16 UTC: era 1 begins (RFC 5905 figure 4).
        let turn = Nanos(2_085_978_496 * SECOND);
        assert_eq!(Stamp::from_unix(turn).0, 0);
        assert_eq!(Stamp::from_unix(turn.plus(-1)).0 >> 32, 0xffff_ffff);
        assert_eq!(Stamp(5 << 32).to_unix(turn.plus(-20 * SECOND)), turn.plus(5 * SECOND));
        assert_eq!(Stamp(0xffff_ffff << 32).to_unix(turn.plus(SECOND)), turn.plus(-SECOND));
        assert_eq!(Stamp(EPOCHS as u64 * (1 << 32)).to_unix(Nanos(1)), Nanos(0));
    }

    #[test]
    fn errors_are_rounded_up() {
        assert_eq!(Short(1).to_ns(), 15_259);
        assert_eq!(Short::from_ns(1), Short(1));
        assert_eq!(Short::from_ns(SECOND as u64), Short(1 << 16));
        assert_eq!(Short::from_ns(u64::MAX), Short(u32::MAX));
        assert_eq!((Short::from_ns_below(15_258), Short::from_ns_below(15_259)), (Short(0), Short(1)));
        assert_eq!((Short(1).to_ns_below(), Short::from_ns_below(u64::MAX)), (15_258, Short(u32::MAX)));
    }

    proptest! {
        #[test]
        fn there_and_back(ns in -4_000_000_000_000_000_000i64..4_000_000_000_000_000_000, off in -2_000_000_000i64..2_000_000_000) {
            let near = Nanos(ns.saturating_add(off * SECOND));
            prop_assert_eq!(Stamp::from_unix(Nanos(ns)).to_unix(near), Nanos(ns));
        }

        #[test]
        fn any_stamp_is_some_time(bits in any::<u64>(), near in any::<i64>()) {
            let _ = Stamp(bits).to_unix(Nanos(near));
        }
    }
}
