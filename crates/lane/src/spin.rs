//! How long a waiting thread polls its lane before it sleeps (`TICKWIRE_SPIN`).

use tickwire_stack::time::Span;

/// The environment variable by which programs are told.
pub const SPIN_VARIABLE: &str = "TICKWIRE_SPIN";

/// The longest time that can be named, in microseconds.
pub const LONGEST_SPIN_US: u64 = 1_000_000_000;

/// How long a waiting thread polls the lane before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Sleep at once.
    Never,
    /// Never sleep.
    Always,
    /// Spin for this long.
    For(Span),
    /// Spin briefly if there was traffic lately.
    Adaptive,
}

impl Spin {
    /// Reads `never`, `always`, `adaptive` or microseconds.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "adaptive" => Some(Self::Adaptive),
            "never" | "0" => Some(Self::Never),
            "always" => Some(Self::Always),
            number => {
                let us = number.parse().ok().filter(|us| *us <= LONGEST_SPIN_US);
                us.map(|us| Self::For(Span::from_micros(us)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spin_policies_are_words_or_microseconds() {
        assert_eq!(Spin::parse("never"), Some(Spin::Never));
        assert_eq!(Spin::parse("always"), Some(Spin::Always));
        assert_eq!(Spin::parse("250"), Some(Spin::For(Span::from_micros(250))));
        assert_eq!(Spin::parse(""), Some(Spin::Adaptive));
        assert_eq!(Spin::parse("soon"), None);
        assert_eq!(Spin::parse("-1"), None);
        assert_eq!(Spin::parse("1000000001"), None);
    }
}
