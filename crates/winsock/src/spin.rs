//! How long a thread that waits polls before it sleeps: as `TICKWIRE_SPIN` has it.

use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;
use tickwire_lane::spin::{SPIN_VARIABLE, Spin};

/// For so long a thread polls if there was traffic lately.
const ADAPTIVE: Duration = Duration::from_micros(100);

/// A thread that polls looks at least so often at what else it may wait for.
pub(crate) const SLICE: Duration = ADAPTIVE;

/// "Lately".
pub(crate) const LATELY: Duration = Duration::from_millis(5);

/// Without end, as far as programs live.
const ALWAYS: Duration = Duration::from_secs(1 << 30);

/// That of this process. What is not valid is said once.
fn spin() -> Spin {
    static SPIN: OnceLock<Spin> = OnceLock::new();
    *SPIN.get_or_init(|| {
        let text = std::env::var(SPIN_VARIABLE).unwrap_or_default();
        Spin::parse(&text).unwrap_or_else(|| {
            let _ = writeln!(
                std::io::stderr(),
                "tickwire: {SPIN_VARIABLE} is {text:?}, but must be adaptive, never, always or a number of microseconds; using adaptive"
            );
            Spin::Adaptive
        })
    })
}

/// For how long a thread polls now; `is_lately`: there was traffic within [`LATELY`].
pub(crate) fn budget(is_lately: bool) -> Duration {
    budget_of(spin(), is_lately)
}

fn budget_of(spin: Spin, is_lately: bool) -> Duration {
    match spin {
        Spin::Never => Duration::ZERO,
        Spin::Always => ALWAYS,
        Spin::For(time) => Duration::from_nanos(time.as_nanos()),
        Spin::Adaptive if is_lately => ADAPTIVE,
        Spin::Adaptive => Duration::ZERO,
    }
}

/// Whether threads ever poll.
pub(crate) fn does_poll() -> bool {
    spin() != Spin::Never
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tickwire_stack::time::Span;

    #[test]
    fn a_thread_polls_as_it_is_told_or_briefly_after_traffic() {
        let of = |spin| [true, false].map(|is_lately| budget_of(spin, is_lately));
        assert_eq!(of(Spin::Adaptive), [ADAPTIVE, Duration::ZERO]);
        assert_eq!(of(Spin::Never), [Duration::ZERO; 2]);
        assert_eq!(of(Spin::For(Span::from_micros(7))), [Duration::from_micros(7); 2]);
        let now = Instant::now();
        assert!(of(Spin::Always).iter().all(|budget| now + *budget > now + Duration::from_secs(1 << 20)));
    }
}
