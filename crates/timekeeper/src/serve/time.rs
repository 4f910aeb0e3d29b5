//! The page's clock for the server, and whether it is valid.

use super::server::ServeError;
use crate::hardware::{self, Look};
use std::path::{Path, PathBuf};
use tickclock::{Clock, Count, CounterKind, Nanos, OpenError, Parameters, Scale, Status, counter};
use tickwire_ntp::Stamp;
use tickwire_ntp::server::SystemVariables;
use tickwire_stamping::cross_timestamp::CrossTimestamp;

/// The clock that the server takes its timestamps from.
#[derive(Debug)]
pub(super) struct Time {
    page: PathBuf,
    /// `None`: there is no page yet.
    clock: Option<Clock>,
    kind: CounterKind,
    nominal: Scale,
    looked: (Look, u32),
    /// Set if the counter has broken and the page is still from before: the page's number of
    /// disruptions.
    broken: Option<u32>,
    /// The last logged reason why the page cannot be opened.
    said: Option<String>,
}

/// The clock for a batch of messages.
pub(super) struct Now {
    parameters: Parameters,
    pub(super) host: SystemVariables,
    pub(super) at: CrossTimestamp,
    nominal: Scale,
}

/// A change of the clock, for the log.
#[derive(Debug)]
pub(super) enum Event {
    /// There is a new page. `anew`: it uses another counter, so earlier counts are void.
    Opened { anew: bool },
    /// There is no readable page.
    Away(String),
    /// The counter has broken.
    Broken(String),
}

impl Time {
    /// Opens the page. While there is none, the time is unknown; an invalid page is an error.
    pub(super) fn open(page: &Path) -> Result<Self, ServeError> {
        let clock = match Clock::open(page) {
            Ok(clock) => Some(clock),
            Err(OpenError::Missing(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let kind = clock.as_ref().map_or_else(|| hardware::choose().0, Clock::counter_kind);
        let nominal = hardware::nominal(kind).ok_or(ServeError::Counter(kind.name()))?;
        let mut time =
            Self { page: page.into(), clock, kind, nominal, looked: (Look::take(kind), 0), broken: None, said: None };
        time.looked.1 = time.parameters().disruptions;
        Ok(time)
    }

    /// Whether there is a page.
    pub(super) const fn is_there(&self) -> bool {
        self.clock.is_some()
    }

    /// Checks that the counter has not broken and that the page is still the daemon's; returns what
    /// has changed.
    pub(super) fn look(&mut self) -> Option<Event> {
        let gone = self.clock.as_ref().is_none_or(|clock| {
            let status = clock.now().status;
            status.contains(Status::RETIRED) || status.contains(Status::STALE)
        });
        if gone && let Some(event) = self.open_again() {
            return Some(event);
        }
        let (before, disruptions) = self.looked;
        let look = Look::take(self.kind);
        let known = self.parameters().disruptions;
        self.looked = (look, known);
        if self.broken.is_some_and(|then| then != known) {
            self.broken = None;
        }
        let what = look.broken_since(&before, self.nominal)?;
        // Unless the daemon has published the break already.
        self.broken = (disruptions == known).then_some(known);
        Some(Event::Broken(what))
    }

    /// Opens the page again: a restarted daemon may have created another one.
    fn open_again(&mut self) -> Option<Event> {
        let new = match Clock::open(&self.page) {
            Ok(new) => new,
            // That there is no page was logged at the start.
            Err(OpenError::Missing(_)) if self.clock.is_none() => return None,
            Err(error) => {
                let said = match error {
                    OpenError::Missing(page) => format!("there is none at {} any more", page.display()),
                    error => error.to_string(),
                };
                let event = (self.said.as_ref() != Some(&said)).then(|| Event::Away(said.clone()));
                self.said = Some(said);
                return event;
            }
        };
        let same = |old: &Clock| new.counter_kind() == old.counter_kind() && new.parameters() == old.parameters();
        if self.clock.as_ref().is_some_and(same) {
            return None;
        }
        let kind = new.counter_kind();
        let anew = kind != self.kind;
        if anew {
            self.nominal = hardware::nominal(kind)?;
            self.kind = kind;
        }
        self.looked = (Look::take(kind), new.parameters().disruptions);
        self.clock = Some(new);
        (self.broken, self.said) = (None, None);
        Some(Event::Opened { anew })
    }

    pub(super) fn cross_timestamp(&self) -> CrossTimestamp {
        CrossTimestamp::take(self.kind, self.nominal.period())
    }

    pub(super) fn count(&self) -> Count {
        counter::read(self.kind)
    }

    fn parameters(&self) -> Parameters {
        self.clock.as_ref().map_or(Parameters::UNKNOWN, Clock::parameters)
    }

    /// The clock at a moment.
    pub(super) fn now(&self, at: CrossTimestamp) -> Now {
        let parameters = if self.broken.is_some() { Parameters::UNKNOWN } else { self.parameters() };
        let host = SystemVariables::new(&parameters, &parameters.reading(at.count));
        Now { parameters, host, at, nominal: self.nominal }
    }
}

impl Now {
    /// From one count to a later one, in ns.
    pub(super) const fn span(&self, from: Count, to: Count) -> u64 {
        self.nominal.nanos(to.since(from)).unsigned_abs()
    }

    /// The time at a count near the moment. While it is unknown, the system clock's time; the
    /// reply then says that it is not synchronised.
    pub(super) fn stamp(&self, count: Count) -> Stamp {
        if self.host == SystemVariables::UNSYNCHRONISED {
            return Stamp::from_unix(Nanos(self.at.realtime).plus(self.nominal.nanos(count.since(self.at.count))));
        }
        Stamp::from_unix(self.parameters.reading(count).utc())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickclock::Writer;

    const KIND: CounterKind = CounterKind::MonotonicRaw;

    fn known() -> Parameters {
        let scale = Scale::from_period(1.0).unwrap();
        Parameters {
            status: Status::SYNCHRONISED,
            at: counter::read(KIND),
            time: Nanos(1_790_000_000_000_000_000),
            local: scale,
            difference: scale,
            error: 1,
            bound: 100,
            fresh_until: Count(u64::MAX / 2),
            root: tickclock::Root { stratum: 1, reference: 1, delay: 1 },
            ..Parameters::UNKNOWN
        }
    }

    #[test]
    fn after_a_break_of_the_counter_nothing_is_told_until_the_daemon_has_seen_it() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        let writer = Writer::create(&page, KIND).unwrap();
        writer.publish(&known());
        let mut time = Time::open(&page).unwrap();
        let knows = |time: &Time| time.now(time.cross_timestamp()).host != SystemVariables::UNSYNCHRONISED;
        assert!(time.look().is_none() && knows(&time));
        time.looked.0.slept -= 60_000_000_000;
        assert!(matches!(time.look(), Some(Event::Broken(_))));
        assert!(!knows(&time), "the page is still that of before");
        writer.publish(&Parameters { disruptions: 1, ..known() });
        assert!(time.look().is_none() && knows(&time));
    }

    #[test]
    fn a_page_that_cannot_be_read_is_told_of_once() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        let mut time = Time::open(&page).unwrap();
        assert!(time.look().is_none() && !time.is_there(), "that it is not there was said at the start");
        std::fs::write(&page, "a letter").unwrap();
        assert!(matches!(time.look(), Some(Event::Away(why)) if why.contains("it has 8 bytes")));
        assert!(time.look().is_none());
        std::fs::remove_file(&page).unwrap();
        assert!(time.look().is_none());
        let writer = Writer::create(&page, KIND).unwrap();
        writer.publish(&known());
        assert!(matches!(time.look(), Some(Event::Opened { .. })) && time.is_there());
    }
}
