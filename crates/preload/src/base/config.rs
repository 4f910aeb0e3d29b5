//! What the environment asks of the library.

use tickwire_stack::time::Span;

/// How long a waiting thread polls the lane before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spin {
    /// Sleep at once.
    Never,
    /// Never sleep.
    Always,
    /// Spin for this long.
    For(Span),
    /// Spin briefly if there was traffic lately.
    Adaptive,
}

/// The settings of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `TICKWIRE_SPIN`.
    pub(crate) spin: Spin,
    /// `TICKWIRE_REQUIRE`: refuse to run without acceleration.
    pub(crate) require: bool,
    /// `TICKWIRE_LOG`: say more on standard error.
    pub(crate) verbose: bool,
    /// `TICKWIRE_NOTED`: `tickwire run` has said already that no service answers.
    pub(crate) noted: bool,
}

impl Spin {
    /// Reads `never`, `always`, `adaptive` or microseconds.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "adaptive" => Some(Self::Adaptive),
            "never" | "0" => Some(Self::Never),
            "always" => Some(Self::Always),
            number => {
                number.parse().ok().filter(|&us: &u64| us <= 1_000_000_000).map(|us| Self::For(Span::from_micros(us)))
            }
        }
    }
}

impl Settings {
    /// Reads them from a lookup of environment variables; also says what was not understood.
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> (Self, Option<String>) {
        let on = |name: &str| get(name).is_some_and(|v| !v.is_empty() && v != "0");
        let text = get("TICKWIRE_SPIN").unwrap_or_default();
        let (spin, complaint) = match Spin::parse(&text) {
            Some(spin) => (spin, None),
            None => (
                Spin::Adaptive,
                Some(format!(
                    "TICKWIRE_SPIN is '{text}', but must be 'adaptive', 'never', 'always' or a number of microseconds; using adaptive"
                )),
            ),
        };
        (
            Self { spin, require: on("TICKWIRE_REQUIRE"), verbose: on("TICKWIRE_LOG"), noted: on("TICKWIRE_NOTED") },
            complaint,
        )
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
    }

    #[test]
    fn a_setting_that_is_not_understood_is_named_and_the_default_used() {
        let (settings, complaint) = Settings::read(|name| (name == "TICKWIRE_SPIN").then(|| "soon".into()));
        assert_eq!(settings.spin, Spin::Adaptive);
        assert!(complaint.is_some_and(|c| c.contains("'soon'")));
        let (settings, complaint) = Settings::read(|name| (name == "TICKWIRE_REQUIRE").then(|| "1".into()));
        assert!(settings.require && !settings.verbose && complaint.is_none());
    }
}
