//! How long a thread that waits polls before it sleeps: as `TICKWIRE_SPIN` has it. The values mean
//! what they mean on Linux.

use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

/// The variable: `adaptive`, `never`, `always`, or microseconds.
const VARIABLE: &str = "TICKWIRE_SPIN";

/// For so long a thread polls if there was traffic lately.
const ADAPTIVE: Duration = Duration::from_micros(100);

/// A thread that polls looks at least so often at what else it may wait for.
pub(crate) const SLICE: Duration = ADAPTIVE;

/// "Lately".
pub(crate) const LATELY: Duration = Duration::from_millis(5);

/// Without end, as far as programs live.
const ALWAYS: Duration = Duration::from_secs(1_000_000_000);

/// How long a thread polls before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spin {
    Never,
    Always,
    For(Duration),
    /// For [`ADAPTIVE`], if there was traffic lately.
    Adaptive,
}

impl Spin {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "adaptive" => Some(Self::Adaptive),
            "never" | "0" => Some(Self::Never),
            "always" => Some(Self::Always),
            number => {
                number.parse().ok().filter(|&us| us <= 1_000_000_000).map(|us| Self::For(Duration::from_micros(us)))
            }
        }
    }

    fn budget(self, is_lately: bool) -> Duration {
        match self {
            Self::Never => Duration::ZERO,
            Self::Always => ALWAYS,
            Self::For(time) => time,
            Self::Adaptive if is_lately => ADAPTIVE,
            Self::Adaptive => Duration::ZERO,
        }
    }
}

/// That of this process. What is not valid is said once.
fn spin() -> Spin {
    static SPIN: OnceLock<Spin> = OnceLock::new();
    *SPIN.get_or_init(|| {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Spin::parse(&text).unwrap_or_else(|| {
            let _ = writeln!(
                std::io::stderr(),
                "tickwire: {VARIABLE} is {text:?}, but must be adaptive, never, always or a number of microseconds; using adaptive"
            );
            Spin::Adaptive
        })
    })
}

/// For how long a thread polls now; `is_lately`: there was traffic within [`LATELY`].
pub(crate) fn budget(is_lately: bool) -> Duration {
    spin().budget(is_lately)
}

/// Whether threads ever poll.
pub(crate) fn does_poll() -> bool {
    spin() != Spin::Never
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_those_of_linux() {
        for (text, spin) in [
            ("", Spin::Adaptive),
            ("adaptive", Spin::Adaptive),
            ("never", Spin::Never),
            ("0", Spin::Never),
            ("always", Spin::Always),
            ("250", Spin::For(Duration::from_micros(250))),
        ] {
            assert_eq!(Spin::parse(text), Some(spin), "{text}");
        }
        for wrong in ["soon", "-1", "1000000001", "1.5"] {
            assert_eq!(Spin::parse(wrong), None, "{wrong}");
        }
        assert_eq!([true, false].map(|lately| Spin::Adaptive.budget(lately)), [ADAPTIVE, Duration::ZERO]);
        assert_eq!(Spin::Never.budget(true), Duration::ZERO);
        assert!(Spin::Always.budget(false) > Spin::For(ADAPTIVE).budget(false));
    }
}
