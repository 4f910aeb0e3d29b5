//! The state of the clock at one moment: all that a reader needs, as integers, so that every reader
//! gets the same result.

use crate::scale::Scale;
use crate::time::{Count, Nanos};
use core::ops::{BitOr, BitOrAssign};

/// The status of a clock: a set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

impl Status {
    /// The time is known and within the bound.
    pub const SYNCHRONISED: Self = Self(1);
    /// The rate is not well known yet: the bound grows fast without a server.
    pub const WARMING_UP: Self = Self(1 << 1);
    /// No server has replied for several polls: the clock is free-running.
    pub const HOLDOVER: Self = Self(1 << 2);
    /// The values are older than the daemon's longest interval between publications: it has died or
    /// hangs. Readers detect this.
    pub const STALE: Self = Self(1 << 3);
    /// The counter has broken (suspend, migration): times from before and after cannot be compared,
    /// and none is known until servers reply. If the replies themselves reveal the break, the time
    /// is known at once, and the break shows in [`Parameters::disruptions`] only. Readers set this
    /// flag for a counter value from before the break ([`Parameters::since`]).
    pub const DISRUPTED: Self = Self(1 << 4);
    /// TAI - UTC is known, so TAI is right.
    pub const TAI_KNOWN: Self = Self(1 << 5);
    /// The instant lies within an inserted leap second: 23:59:60, for which UTC repeats 23:59:59.
    pub const LEAP_SECOND: Self = Self(1 << 6);
    /// The servers smear leap seconds: UTC follows them, so near a leap second its fraction of a
    /// second is wrong.
    pub const SMEARED: Self = Self(1 << 7);
    /// A daemon has replaced this page by another one: reopen it.
    pub const RETIRED: Self = Self(1 << 8);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::SYNCHRONISED, "synchronised"),
        (Self::WARMING_UP, "warming up"),
        (Self::HOLDOVER, "holdover"),
        (Self::STALE, "stale"),
        (Self::DISRUPTED, "disrupted"),
        (Self::TAI_KNOWN, "TAI known"),
        (Self::LEAP_SECOND, "leap second"),
        (Self::SMEARED, "smeared"),
        (Self::RETIRED, "retired"),
    ];

    /// Whether all flags of `other` are set.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether no flag is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// With `other`, if `condition` holds.
    #[must_use]
    #[inline]
    pub const fn with(self, other: Self, condition: bool) -> Self {
        if condition { Self(self.0 | other.0) } else { self }
    }

    /// Without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The names of the flags that are set. The first is `synchronised`, or `unknown` if that is
    /// not set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let unknown = (!self.contains(Self::SYNCHRONISED)).then_some("unknown");
        unknown
            .into_iter()
            .chain(Self::NAMES.into_iter().filter(move |(fact, _)| self.contains(*fact)).map(|(_, name)| name))
    }
}

impl BitOr for Status {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Status {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// By how much TAI is ahead of UTC, and when that changes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leap {
    /// TAI - UTC in whole seconds before [`Self::at`].
    pub offset: i32,
    /// +1: a second is inserted; -1: one is deleted; 0: nothing is announced.
    pub step: i32,
    /// The first instant of the new offset, in TAI: the beginning of 23:59:60, or what would have
    /// been that of 23:59:59.
    pub at: Nanos,
}

/// Distance of the clock from the primary reference (RFC 5905 §7.3), for a program that serves the
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The stratum of the server that is followed; 0 if it is not known.
    pub stratum: u8,
    /// Reference ID of that server: its IPv4 address, or the first 4 bytes of the MD5 hash of its
    /// IPv6 address.
    pub reference: u32,
    /// Round trip to the reference in ns; its half is part of the bound.
    pub delay: u64,
}

/// The clock, from its `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The status of the clock.
    pub status: Status,
    /// The counter at [`Self::time`].
    pub at: Count,
    /// The time at [`Self::at`], in TAI.
    pub time: Nanos,
    /// The local period, for times.
    pub local: Scale,
    /// The long-term period, for differences of time.
    pub difference: Scale,
    /// Estimated error of `time`, in ns: one standard deviation.
    pub error: u64,
    /// The maximum error of `time`, in ns.
    pub bound: u64,
    /// Growth of error and bound, in 2^-32 ns per ns.
    pub growth: u32,
    /// The daemon must publish again before this count.
    pub fresh_until: Count,
    /// TAI - UTC.
    pub leap: Leap,
    /// How often the counter has broken or the time was stepped since the page was made. Two
    /// counter values, and the times they convert to, can be compared if this did not change
    /// between them. A new page begins with 0, so it compares within one page only. The time is
    /// stepped if the published time contradicts the new one beyond both bounds. Then a majority of
    /// servers has outvoted the one that was followed, or the only server was set. If both can be
    /// right, the clock slews from one to the other.
    pub disruptions: u32,
    /// The first counter value that is comparable with the current ones: before it the counter
    /// broke or was not observed. If only one server replies and its time contradicts the counter,
    /// either of them may have jumped, and that counts as a break, too. A counter that went back
    /// repeats values: [`Self::disruptions`], stored with them, tells them apart.
    pub since: Count,
    /// The source of the time.
    pub root: Root,
}

/// Words in a buffer.
pub(crate) const COUNT: usize = 15;
/// The first of these words, which are all that the time at a count needs.
pub(crate) const FOR_TIME: usize = 11;

impl Parameters {
    /// The time is unknown.
    pub const UNKNOWN: Self = Self {
        status: Status(0),
        at: Count(0),
        time: Nanos(0),
        local: Scale { mult: 0, shift: 0 },
        difference: Scale { mult: 0, shift: 0 },
        error: u64::MAX,
        bound: u64::MAX,
        growth: 0,
        fresh_until: Count(0),
        leap: Leap { offset: 0, step: 0, at: Nanos(0) },
        disruptions: 0,
        since: Count(0),
        root: Root { stratum: 0, reference: 0, delay: 0 },
    };

    pub(crate) fn to_words(self) -> [u64; COUNT] {
        [
            u64::from(self.status.0) | u64::from(self.disruptions) << 32,
            self.at.0,
            self.time.0 as u64,
            self.local.mult,
            u64::from(self.local.shift) | u64::from(self.difference.shift) << 32,
            self.error,
            self.bound,
            u64::from(self.growth),
            self.fresh_until.0,
            u64::from(self.leap.offset as u32) | u64::from(self.leap.step as u32) << 32,
            self.leap.at.0 as u64,
            self.difference.mult,
            u64::from(self.root.stratum) | u64::from(self.root.reference) << 32,
            self.root.delay,
            self.since.0,
        ]
    }

    #[inline]
    pub(crate) const fn from_words(words: &[u64; COUNT]) -> Self {
        let Some((for_time, _)) = words.split_first_chunk() else { return Self::UNKNOWN };
        Self {
            difference: Scale { mult: words[11], shift: (words[4] >> 32) as u32 & 63 },
            root: Root { stratum: words[12] as u8, reference: (words[12] >> 32) as u32, delay: words[13] },
            since: Count(words[14]),
            ..Self::for_time(for_time)
        }
    }

    /// Decodes only the words on which the time at a count depends.
    #[inline]
    pub(crate) const fn for_time(words: &[u64; FOR_TIME]) -> Self {
        // The shift is masked, because a reader must not panic on any page content.
        Self {
            status: Status(words[0] as u32),
            disruptions: (words[0] >> 32) as u32,
            at: Count(words[1]),
            time: Nanos(words[2] as i64),
            local: Scale { mult: words[3], shift: words[4] as u32 & 63 },
            error: words[5],
            bound: words[6],
            growth: words[7] as u32,
            fresh_until: Count(words[8]),
            leap: Leap {
                offset: words[9] as u32 as i32,
                step: (words[9] >> 32) as u32 as i32,
                at: Nanos(words[10] as i64),
            },
            ..Self::UNKNOWN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_known_is_said_to_be_so() {
        let names = |status: Status| status.names().collect::<Vec<_>>();
        assert_eq!(names(Status::default()), ["unknown"]);
        assert_eq!(names(Status::DISRUPTED | Status::STALE), ["unknown", "stale", "disrupted"]);
        assert_eq!(names(Status::SYNCHRONISED | Status::HOLDOVER), ["synchronised", "holdover"]);
    }

    proptest! {
        #[test]
        fn words_mean_what_they_were_made_of(a in any::<[u64; 8]>(), b in any::<[i32; 2]>(), c in any::<[u32; 2]>(), shifts in [0u32..63, 0u32..63]) {
            let parameters = Parameters {
                status: Status(c[0]),
                at: Count(a[0]),
                time: Nanos(a[1] as i64),
                local: Scale { mult: a[2], shift: shifts[0] },
                difference: Scale { mult: a[3], shift: shifts[1] },
                error: a[4],
                bound: a[5],
                growth: c[1] ^ 7,
                fresh_until: Count(a[0] ^ a[1]),
                leap: Leap { offset: b[0], step: b[1], at: Nanos(a[2] as i64) },
                disruptions: c[1],
                since: Count(a[7]),
                root: Root { stratum: a[3] as u8, reference: c[0] ^ c[1], delay: a[6] },
            };
            prop_assert_eq!(Parameters::from_words(&parameters.to_words()), parameters);
        }
    }
}
