//! A program's processor time between two instants.

use crate::os::{self, ProcessorTime};
use crate::units::nanos;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Processor time of a program while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// User time.
    pub user_ns: u64,
    /// System time.
    pub system_ns: u64,
    /// Duration of the measurement.
    pub elapsed_ns: u64,
    /// How long the receiving thread was runnable without a processor: after a wakeup, or after
    /// preemption or a yield while it polled. `None` where the kernel does not report it
    /// (`/proc/thread-self/schedstat`).
    pub ready_ns: Option<u64>,
}

/// Measures this process between two instants, and the calling thread's wait for a processor.
#[derive(Debug)]
pub(crate) struct Metering {
    from: Instant,
    until: Instant,
    begin: Option<State>,
    end: Option<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    at: Instant,
    used: ProcessorTime,
}

impl State {
    fn now(at: Instant) -> Option<Self> {
        os::processor_time().map(|used| Self { at, used })
    }
}

impl Metering {
    pub(crate) const fn new(from: Instant, until: Instant) -> Self {
        Self { from, until, begin: None, end: None }
    }

    /// When [`Self::look`] is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        match (&self.begin, &self.end) {
            (None, _) => Some(self.from),
            (Some(_), None) => Some(self.until),
            (Some(_), Some(_)) => None,
        }
    }

    /// Takes a sample if one of the instants has passed.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.begin.is_none() && now >= self.from {
            self.begin = State::now(now);
        }
        if self.begin.is_some() && self.end.is_none() && now >= self.until {
            self.end = State::now(now);
        }
    }

    /// The usage since the beginning, until now if the end is still ahead; zero before the
    /// beginning.
    pub(crate) fn end(&self) -> Usage {
        let end = self.end.or_else(|| State::now(Instant::now()));
        let (Some(begin), Some(end)) = (self.begin, end) else {
            return Usage::default();
        };
        Usage {
            user_ns: nanos(end.used.user.saturating_sub(begin.used.user)),
            system_ns: nanos(end.used.system.saturating_sub(begin.used.system)),
            elapsed_ns: nanos(end.at - begin.at),
            ready_ns: end.used.ready.zip(begin.used.ready).map(|(end, begin)| nanos(end.saturating_sub(begin))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_was_taken_is_between_the_instants() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut metering = Metering::new(at(10), at(50));
        assert_eq!(metering.next(), Some(at(10)));
        metering.look(at(9));
        assert_eq!(metering.end(), Usage::default(), "not begun");
        metering.look(at(12));
        assert_eq!(metering.next(), Some(at(50)));
        metering.look(at(49));
        assert_eq!(metering.next(), Some(at(50)));
        metering.look(at(57));
        assert_eq!(metering.next(), None);
        metering.look(at(100));
        assert_eq!(metering.end().elapsed_ns, 45_000_000);
    }

    #[test]
    fn work_shows() {
        let mut metering = Metering::new(Instant::now(), Instant::now() + Duration::from_secs(1_000));
        metering.look(Instant::now());
        while metering.end().user_ns + metering.end().system_ns == 0 {
            std::hint::black_box(0);
        }
        assert!(metering.end().elapsed_ns > 0);
    }
}
