//! The API for programs.

use crate::counter::{self, Moved};
use crate::map::{MapFault, Mapping};
use crate::os;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tickwire_clockpage::{Count, CounterKind, PageFault, Parameters, Reading};

/// The path of the service's page on Linux.
pub const DEFAULT_PATH: &str = "/run/tickwire/clock";
/// The environment variable that names another page.
pub const VARIABLE: &str = "TICKWIRE_CLOCK";

/// The default page: that of [`VARIABLE`], or else the service's: [`DEFAULT_PATH`], and on Windows
/// `Tickwire\clock` in the machine's folder for program data. The variable is ignored in a program
/// with more privileges than its user, as for `secure_getenv(3)`.
#[must_use]
pub fn default_path() -> PathBuf {
    os::secure_variable(VARIABLE).map_or_else(service_path, PathBuf::from)
}

/// The service's page, whatever the environment says.
#[must_use]
pub fn service_path() -> PathBuf {
    os::service_page()
}

/// Why a page cannot be read.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no page.
    #[error(
        "there is no clock at {0}: start `tickwire service` or `tickwire clock run`, or name its page in {VARIABLE}"
    )]
    Missing(PathBuf),
    /// The system refused.
    #[error("cannot open the clock at {0}: {1}")]
    System(PathBuf, io::Error),
    /// The file is not a page, or not one that this program supports.
    #[error("{0} cannot be read as a clock: {1}")]
    Fault(PathBuf, PageFault),
    /// It is not a regular file.
    #[error("{0} is no ordinary file, so no clock")]
    Kind(PathBuf),
    /// This processor does not have the page's counter.
    #[error("{0} is about the counter {name}, which this processor has not", name = .1.name())]
    Counter(PathBuf, CounterKind),
    /// The time namespace may shift the page's counter for this program by an unknown offset.
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
            MapFault::System(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                OpenError::Missing(path.into())
            }
            MapFault::System(error) => OpenError::System(path.into(), error),
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

    /// The time now, by a counter that the processor may read before earlier instructions are
    /// complete. It takes half as long, but the reading may be early: by some tens of nanoseconds,
    /// or by a few hundred after a load from memory. So readings of two threads need not follow the
    /// order of events between them. Use it for logs and statistics, and [`Self::now`] where the
    /// order matters.
    #[inline]
    #[must_use]
    pub fn now_unordered(&self) -> Reading {
        self.read(counter::read_unordered).1
    }

    /// The time now, and the counter value for it.
    #[inline]
    #[must_use]
    pub fn now_with_counter(&self) -> (Count, Reading) {
        self.read(counter::read)
    }

    /// The time at a counter value that [`Self::counter`] returned earlier or that comes from a
    /// record. The time is unknown for a value that is ahead of the counter by more than the page
    /// is fresh for (5 s). It is also unknown for a value from before the counter broke (suspend,
    /// migration) or was first observed: then the status is *disrupted*.
    ///
    /// A program that stores values must store [`Reading::disruptions`] with them. If it has
    /// changed since, they cannot be compared with current values; if the counter went back,
    /// nothing else may show that. A new page begins with 0, so disruptions compare within one page
    /// only.
    #[inline]
    #[must_use]
    pub fn at(&self, count: Count) -> Reading {
        self.at_by(&self.parameters(), count)
    }

    /// The same by given parameters of this clock, for converting many values consistently.
    #[inline]
    #[must_use]
    pub fn at_by(&self, parameters: &Parameters, count: Count) -> Reading {
        parameters.reading_of(count, || self.counter())
    }

    /// The counter: the cheapest timestamp. [`Self::at`] converts it to the time later.
    #[inline]
    #[must_use]
    pub fn counter(&self) -> Count {
        counter::read(self.counter)
    }

    /// The kind of that counter.
    #[must_use]
    pub const fn counter_kind(&self) -> CounterKind {
        self.counter
    }

    /// Nanoseconds between two counter values by the difference clock, which corrections of the
    /// time do not affect: for spans below about 1000 s. `None` before the first reply of a server,
    /// because the period is not known yet. Also `None` for values whose time is unknown to
    /// [`Self::at`], and if the span does not fit 64 bits.
    #[inline]
    #[must_use]
    pub fn elapsed(&self, from: Count, to: Count) -> Option<i64> {
        self.elapsed_by(&self.parameters(), from, to)
    }

    #[inline]
    pub(crate) fn elapsed_by(&self, parameters: &Parameters, from: Count, to: Count) -> Option<i64> {
        parameters.elapsed_of(from, to, || self.counter())
    }

    /// The parameters on the page, for [`Self::at_by`].
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
