//! What became of the requests.

use std::fmt;
use tickwire_ntp::Kiss;
use tickwire_ntp::server::{Kind, Silence};

/// Numbers of requests, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answered with the time, in basic mode.
    pub basic: u64,
    /// Answered with the time, in interleaved mode.
    pub interleaved: u64,
    /// Answered that they come too often.
    pub told_rate: u64,
    /// Answered that they are not allowed.
    pub told_denied: u64,
    /// Not answered, because they came too often.
    pub too_often: u64,
    /// Not answered, because they are not allowed.
    pub not_allowed: u64,
    /// No requests.
    pub garbage: u64,
    /// Answers that the system did not send.
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

    pub(super) const fn answered(&mut self, kind: Kind) {
        match kind {
            Kind::Basic { .. } => self.basic += 1,
            Kind::Interleaved => self.interleaved += 1,
            Kind::Kiss(Kiss::Rate) => self.told_rate += 1,
            Kind::Kiss(_) => self.told_denied += 1,
        }
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
