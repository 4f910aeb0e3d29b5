//! What a program calls.

use crate::counter::{self, Moved};
use crate::map::{MapFault, Mapping};
use nix::errno::Errno;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tickwire_clock::Count;
use tickwire_clock::page::{CounterKind, Fault, Parameters, Reading};

/// Where the service has its page.
pub const DEFAULT_PATH: &str = "/run/tickwire/clock";
/// The environment variable that names another page.
pub const VARIABLE: &str = "TICKWIRE_CLOCK";

/// The page to read if the program names none: the variable's, except in a program with more rights
/// than its user (as `secure_getenv(3)`), or the service's.
#[must_use]
pub fn default_path() -> PathBuf {
    crate::c::secure_variable(VARIABLE).map_or_else(|| DEFAULT_PATH.into(), PathBuf::from)
}

/// Why a page cannot be read.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is none.
    #[error(
        "there is no clock at {0}: start `tickwire service` or `tickwire clock run`, or name its page in {VARIABLE}"
    )]
    Missing(PathBuf),
    /// The system refused.
    #[error("cannot open the clock at {0}: {1}")]
    System(PathBuf, Errno),
    /// It is not a page, or not one that this program understands.
    #[error("{0} cannot be read as a clock: {1}")]
    Fault(PathBuf, Fault),
    /// It is no ordinary file.
    #[error("{0} is no ordinary file, so no clock")]
    Kind(PathBuf),
    /// This processor does not have the page's counter.
    #[error("{0} is about the counter {name}, which this processor has not", name = .1.name())]
    Counter(PathBuf, CounterKind),
    /// This program may see the page's counter differently.
    #[error("{0} is about the counter {name}, of which this program cannot tell how far it is moved for it: {2}", name = .1.name())]
    Moved(PathBuf, CounterKind, Moved),
}

/// The machine's clock, open for reading. Any number of threads may share it.
#[derive(Debug)]
pub struct Clock {
    mapping: Mapping,
    counter: CounterKind,
}

impl Clock {
    /// Opens [`default_path`].
    ///
    /// # Errors
    /// No daemon has made a page there, or it cannot be read.
    pub fn open_default() -> Result<Self, OpenError> {
        Self::open(default_path())
    }

    /// Opens a page.
    ///
    /// # Errors
    /// No daemon has made a page there, or it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let (mapping, counter) = Mapping::reader(path).map_err(|fault| match fault {
            MapFault::System(Errno::ENOENT | Errno::ENOTDIR) => OpenError::Missing(path.into()),
            MapFault::System(errno) => OpenError::System(path.into(), errno),
            MapFault::Kind => OpenError::Kind(path.into()),
            MapFault::Page(fault) => OpenError::Fault(path.into(), fault),
        })?;
        if !counter::exists(counter) {
            return Err(OpenError::Counter(path.into(), counter));
        }
        counter::is_common(counter).map_err(|why| OpenError::Moved(path.into(), counter, why))?;
        Ok(Self { mapping, counter })
    }

    /// The time now.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Reading {
        self.now_with_counter().1
    }

    /// The time now, by a counter that the processor may read before everything that precedes is
    /// complete: in half the time, but early by some tens of nanoseconds, or a few hundred behind a
    /// load from memory. So readings of two threads need not be in the order of what happened
    /// between them. For logs and statistics; [`Self::now`] is for what depends on the order.
    #[inline]
    #[must_use]
    pub fn now_unordered(&self) -> Reading {
        self.read(counter::read_unordered).1
    }

    /// The time now, and the counter then.
    #[inline]
    #[must_use]
    pub fn now_with_counter(&self) -> (Count, Reading) {
        self.read(counter::read)
    }

    /// The time at a value of the counter that [`Self::counter`] gave earlier, or that stands in a
    /// record. Nothing is known of a value that the counter has not come to yet by more than the
    /// page is fresh for (5 s), nor of one from before it broke (suspend, migration) or before
    /// anybody watched it: the status is *disrupted* then.
    ///
    /// Who keeps values for later keeps [`Reading::disruptions`] beside them: if it has changed
    /// since, they cannot be compared with values from now, and where the counter has gone back,
    /// nothing else may show that. A new page begins with 0, so disruptions compare within one page
    /// only.
    #[inline]
    #[must_use]
    pub fn at(&self, count: Count) -> Reading {
        self.at_by(&self.parameters(), count)
    }

    /// The same by parameters that this clock gave before: for converting many values by the same
    /// ones.
    #[inline]
    #[must_use]
    pub fn at_by(&self, parameters: &Parameters, count: Count) -> Reading {
        parameters.reading_of(count, || self.counter())
    }

    /// The counter: the cheapest stamp there is; [`Self::at`] tells later what time that was.
    #[inline]
    #[must_use]
    pub fn counter(&self) -> Count {
        counter::read(self.counter)
    }

    /// Which counter that is.
    #[must_use]
    pub const fn counter_kind(&self) -> CounterKind {
        self.counter
    }

    /// Nanoseconds between two values of the counter, by the difference clock, into which no
    /// correction of the time enters: for spans below about 1000 s. `None` before the first answer
    /// of a server, when nobody knows how long a count takes; of values of which [`Self::at`] knows
    /// nothing; and if the span is more than 64 bits hold.
    #[inline]
    #[must_use]
    pub fn elapsed(&self, from: Count, to: Count) -> Option<i64> {
        self.elapsed_by(&self.parameters(), from, to)
    }

    #[inline]
    pub(crate) fn elapsed_by(&self, parameters: &Parameters, from: Count, to: Count) -> Option<i64> {
        parameters.elapsed_of(from, to, || self.counter())
    }

    /// All that the page says: for [`Self::at_by`].
    #[inline]
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        self.mapping.page().read(|| ()).map_or(Parameters::UNKNOWN, |(parameters, ())| parameters)
    }

    #[inline]
    pub(crate) fn read(&self, counter: impl Fn(CounterKind) -> Count) -> (Count, Reading) {
        self.mapping.page().time(|| counter(self.counter)).unwrap_or_else(|| {
            let count = self.counter();
            (count, Parameters::UNKNOWN.reading(count))
        })
    }
}
