//! The page's clock for the server, and whether it can be believed.

use super::ServeError;
use crate::hardware::{self, Look};
use std::path::{Path, PathBuf};
use tickclock::{Clock, Count, Parameters, Scale, Status};
use tickwire_clock::Nanos;
use tickwire_ntp::Stamp;
use tickwire_ntp::sandwich::Sandwich;
use tickwire_ntp::server::Host;

/// The clock, by which the server stamps.
#[derive(Debug)]
pub(super) struct Time {
    page: PathBuf,
    clock: Clock,
    nominal: Scale,
    looked: (Look, u32),
    /// The counter has broken, and the page is still that of before: it has had so many disruptions.
    broken: Option<u32>,
}

/// The clock for a batch of messages.
pub(super) struct Now {
    parameters: Parameters,
    pub(super) host: Host,
    pub(super) at: Sandwich,
    nominal: Scale,
}

impl Time {
    pub(super) fn open(page: &Path) -> Result<Self, ServeError> {
        let clock = Clock::open(page)?;
        let kind = clock.counter_kind();
        let nominal = hardware::nominal(kind).ok_or(ServeError::Counter(kind.name()))?;
        let looked = (Look::take(kind), clock.parameters().disruptions);
        Ok(Self { page: page.into(), clock, nominal, looked, broken: None })
    }

    /// Looks whether the counter is whole and the page is the daemon's. If something has happened, what.
    pub(super) fn look(&mut self) -> Option<String> {
        let (before, disruptions) = self.looked;
        let look = Look::take(self.clock.counter_kind());
        let now = self.clock.now();
        let known = self.clock.parameters().disruptions;
        self.looked = (look, known);
        if now.status.contains(Status::RETIRED) || now.status.contains(Status::STALE) {
            // A daemon that started anew may have made another page.
            if let Ok(new) = Self::open_again(&self.page, &self.clock) {
                *self = new;
            }
        }
        if self.broken.is_some_and(|then| then != known) {
            self.broken = None;
        }
        let what = look.broken_since(&before, self.nominal)?;
        // The daemon may have seen it first.
        self.broken = (disruptions == known).then_some(known);
        Some(format!("the counter has broken: {what}"))
    }

    fn open_again(page: &Path, old: &Clock) -> Result<Self, ServeError> {
        let new = Clock::open(page)?;
        if new.counter_kind() == old.counter_kind() && new.parameters() == old.parameters() {
            return Err(ServeError::Counter(new.counter_kind().name()));
        }
        drop(new);
        Self::open(page)
    }

    pub(super) fn sandwich(&self) -> Sandwich {
        Sandwich::take(self.clock.counter_kind(), self.nominal.period())
    }

    pub(super) fn count(&self) -> Count {
        self.clock.counter()
    }

    /// The clock at a moment.
    pub(super) fn now(&self, at: Sandwich) -> Now {
        let parameters = if self.broken.is_some() { Parameters::UNKNOWN } else { self.clock.parameters() };
        let host = Host::new(&parameters, &parameters.reading(at.count));
        Now { parameters, host, at, nominal: self.nominal }
    }
}

impl Now {
    /// From one count to a later one, in ns.
    pub(super) const fn span(&self, from: Count, to: Count) -> u64 {
        self.nominal.nanos(to.since(from)).unsigned_abs()
    }

    /// The time at a count near the moment. Who does not know it says what the system's clock shows, and that it does not know.
    pub(super) fn stamp(&self, count: Count) -> Stamp {
        if self.host == Host::UNSYNCHRONISED {
            return Stamp::from_unix(Nanos(self.at.realtime).plus(self.nominal.nanos(count.since(self.at.count))));
        }
        Stamp::from_unix(self.parameters.reading(count).utc())
    }
}
