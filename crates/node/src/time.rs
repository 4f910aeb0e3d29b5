//! The shared clock of all nodes of an experiment, and waiting until an instant.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tickclock::counter::{self, Moved};
use tickclock::{Clock, CounterKind, OpenError, Reading, Status, default_path};

/// The longest sleep. After each, the clock is read again, because it may have been corrected, and
/// `quit` is checked.
const NAP: Duration = Duration::from_millis(100);

/// The choice of clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeClock {
    /// The machine's own counter in nanoseconds (`CLOCK_MONOTONIC_RAW`), for nodes on one machine.
    Machine,
    /// The Tickwire clock of each node's machine.
    Page {
        /// Its page; none: the default one.
        path: Option<PathBuf>,
    },
}

/// Why the shared clock does not provide the time.
#[derive(Debug, Error)]
pub enum TimeError {
    /// There is no readable page.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The offset of the counter in this program's time namespace is unknown.
    #[error("it cannot be told how far CLOCK_MONOTONIC_RAW is moved for this program: {0}")]
    Moved(Moved),
    /// The clock does not know the time yet, or any more.
    #[error("the clock at {} does not know the time{}", .0.display(), because(*.1))]
    Unknown(PathBuf, Status),
    /// Times before and after the event are not comparable.
    #[error("the clock at {} was set, its counter broke or a leap second was made: times from before and after cannot be compared", .0.display())]
    Set(PathBuf),
    /// A new daemon has created a new page.
    #[error("another clock daemon has made a new page in place of {}", .0.display())]
    Retired(PathBuf),
}

fn because(status: Status) -> &'static str {
    if status.contains(Status::STALE) {
        ": its daemon has ended or hangs"
    } else if status.contains(Status::DISRUPTED) {
        ": the machine's counter broke, and no server has answered since"
    } else {
        ": no server has answered yet"
    }
}

impl NodeClock {
    /// Opens the clock for reading.
    ///
    /// # Errors
    /// There is no clock, or it does not know the time.
    pub fn open(&self) -> Result<Timepiece, TimeError> {
        let timepiece = match self {
            Self::Machine => {
                counter::is_common(CounterKind::MonotonicRaw).map_err(TimeError::Moved)?;
                Timepiece(Kind::Machine)
            }
            Self::Page { path } => {
                let path = path.clone().unwrap_or_else(default_path);
                let clock = Clock::open(&path)?;
                let first = clock.now();
                Timepiece(Kind::Page(Page { path, clock, first }))
            }
        };
        timepiece.now_ns()?;
        Ok(timepiece)
    }
}

/// The shared clock, open for reading. Any number of threads may share it.
#[derive(Debug)]
pub struct Timepiece(Kind);

#[derive(Debug)]
enum Kind {
    Machine,
    Page(Page),
}

#[derive(Debug)]
struct Page {
    path: PathBuf,
    clock: Clock,
    /// Its first reading, the baseline for all later ones.
    first: Reading,
}

impl Timepiece {
    /// The time now, in nanoseconds: since 1970, or of the machine's counter. All times that it
    /// returns are comparable.
    ///
    /// # Errors
    /// The clock has lost the time, or was set.
    #[inline]
    pub fn now_ns(&self) -> Result<i64, TimeError> {
        self.now_and_bound().map(|(now_ns, _)| now_ns)
    }

    /// The time now and its error bound, in nanoseconds; no bound for the machine's counter, which
    /// is the reference itself.
    ///
    /// # Errors
    /// The clock has lost the time, or was set.
    #[inline]
    pub fn now_and_bound(&self) -> Result<(i64, Option<u64>), TimeError> {
        match &self.0 {
            Kind::Machine => Ok((counter::read(CounterKind::MonotonicRaw).0 as i64, None)),
            Kind::Page(page) => {
                let now = page.clock.now();
                match fault(&page.first, &now, &page.path) {
                    None => Ok((now.utc().0, Some(now.bound))),
                    Some(error) => Err(error),
                }
            }
        }
    }

    /// The error bound now, in nanoseconds: [`u64::MAX`] if it has lost the time or was set, none
    /// for the machine's counter.
    #[must_use]
    pub fn bound_ns(&self) -> Option<u64> {
        self.now_and_bound().map_or(Some(u64::MAX), |(_, bound_ns)| bound_ns)
    }

    /// Waits until this instant, and returns the first reading that is not before it; none if
    /// `quit` is set first. It sleeps until `watch_ns` before it (a system call each 100 ms), and
    /// then spins on the clock, so a processor is busy for that long.
    ///
    /// # Errors
    /// The clock has lost the time, or was set.
    pub fn wait_until(&self, ns: i64, watch_ns: u64, quit: &AtomicBool) -> Result<Option<i64>, TimeError> {
        loop {
            let now = self.now_ns()?;
            if now >= ns {
                return Ok(Some(now));
            }
            if quit.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let left = ns.abs_diff(now);
            if left > watch_ns {
                std::thread::sleep(Duration::from_nanos(left - watch_ns).min(NAP));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Why a reading is not comparable with the first one.
#[inline]
fn fault(first: &Reading, now: &Reading, path: &Path) -> Option<TimeError> {
    if now.status.contains(Status::RETIRED) {
        return Some(TimeError::Retired(path.into()));
    }
    if !now.is_known() {
        return Some(TimeError::Unknown(path.into(), now.status));
    }
    // An offset between TAI and UTC that was unknown at first may become known: UTC does not change
    // then.
    let leapt = now.offset != first.offset && first.status.contains(Status::TAI_KNOWN);
    (now.disruptions != first.disruptions || leapt).then(|| TimeError::Set(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickclock::Nanos;

    const KNOWN: Reading = Reading {
        status: Status(Status::SYNCHRONISED.0 | Status::TAI_KNOWN.0),
        tai: Nanos(5),
        offset: 37,
        error: 1,
        bound: 2,
        age: 0,
        disruptions: 3,
    };

    fn told(now: Reading) -> Option<String> {
        fault(&KNOWN, &now, Path::new("/page")).map(|error| error.to_string())
    }

    #[test]
    fn only_times_that_can_be_compared_are_told() {
        assert_eq!(told(KNOWN), None);
        assert_eq!(told(Reading { bound: 1_000_000, status: Status::TAI_KNOWN, ..KNOWN }), None, "a bound that grows");
        let unknown = Reading { bound: u64::MAX, ..KNOWN };
        for (now, words) in [
            (unknown, "no server has answered yet"),
            (Reading { status: Status::STALE, ..unknown }, "its daemon has ended"),
            (Reading { status: Status::DISRUPTED, ..unknown }, "counter broke"),
            (Reading { disruptions: 4, ..KNOWN }, "was set"),
            (Reading { offset: 38, ..KNOWN }, "leap second"),
            (Reading { status: Status::RETIRED, ..KNOWN }, "another clock daemon"),
        ] {
            let told = told(now).unwrap();
            assert!(told.contains("/page") && told.contains(words), "{told}");
        }
    }

    #[test]
    fn the_difference_from_tai_may_be_learnt_during_a_run() {
        let first = Reading { status: Status::SYNCHRONISED, offset: 0, ..KNOWN };
        assert!(fault(&first, &KNOWN, Path::new("/page")).is_none());
    }

    #[test]
    fn a_page_that_does_not_exist_is_named() {
        let missing = NodeClock::Page { path: Some("/nowhere/clock".into()) };
        assert!(missing.open().unwrap_err().to_string().contains("/nowhere/clock"));
    }

    #[test]
    fn waiting_ends_not_before_the_instant() {
        let clock = NodeClock::Machine.open().unwrap();
        let go_on = AtomicBool::new(false);
        let now = clock.now_ns().unwrap();
        for watch_ns in [0, 100_000, u64::MAX] {
            let instant = clock.now_ns().unwrap() + 1_000_000;
            assert!(clock.wait_until(instant, watch_ns, &go_on).unwrap().unwrap() >= instant);
        }
        assert!(clock.wait_until(i64::MIN, 0, &go_on).unwrap().unwrap() >= now, "the past");
        assert_eq!(clock.wait_until(i64::MAX, 0, &AtomicBool::new(true)).unwrap(), None);
    }
}
