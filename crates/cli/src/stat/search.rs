//! The cost limit of the search for programs that the service does not know.
//!
//! It reads the mappings of every process, which holds each of them up for a moment, and a process
//! may have any number of mappings and descriptors. So a search has a deadline, and repeated
//! readings do not search every time.

use std::time::{Duration, Instant};
use tickwire_show::stat::Lane;

/// Each of the three steps of a search takes this long at most.
const LONGEST: Duration = Duration::from_millis(500);
/// A search that took a time `t` is repeated after `PART * t` at the earliest.
const PART: u32 = 20;

/// The deadline of one step of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn of_a_search() -> Self {
        Self(Instant::now() + LONGEST)
    }

    pub(super) fn has_passed(self) -> bool {
        Instant::now() >= self.0
    }

    #[cfg(test)]
    pub(super) fn passed() -> Self {
        Self(Instant::now())
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub(super) struct SearchResult {
    pub(super) programs: Vec<Lane>,
    /// All processes were checked before the deadline.
    pub(super) complete: bool,
}

/// The searches of one `stat` or `watch`, over all of its readings.
#[derive(Debug, Default)]
pub(crate) struct Search {
    last: Option<(Instant, SearchResult)>,
    rest: Duration,
}

impl Search {
    /// Whether another search is due.
    pub(super) fn is_due(&self) -> bool {
        self.last.as_ref().is_none_or(|(ended, _)| ended.elapsed() >= self.rest)
    }

    /// Stores the result of a search, and how long it took.
    pub(super) fn keep(&mut self, found: SearchResult, took: Duration) {
        self.rest = took * PART;
        self.last = Some((Instant::now(), found));
    }

    /// The latest result, without the programs that the service lists by now.
    pub(super) fn latest(&self, listed: &[Lane]) -> SearchResult {
        let Some((_, found)) = &self.last else { return SearchResult::default() };
        let mut found = found.clone();
        found.programs.retain(|program| listed.iter().all(|lane| lane.pid != program.pid));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(pid: u32) -> Lane {
        Lane { pid, ..Lane::default() }
    }

    #[test]
    fn searching_takes_a_small_part_of_the_time() {
        let mut search = Search::default();
        assert!(search.is_due(), "nothing is known");
        search.keep(SearchResult::default(), Duration::ZERO);
        assert!(search.is_due(), "it costs nothing");
        search.keep(SearchResult::default(), Duration::from_secs(60));
        assert!(!search.is_due());
    }

    #[test]
    fn what_was_found_stays_until_the_service_lists_it() {
        let mut search = Search::default();
        assert!(!search.latest(&[]).complete, "nothing was looked at");
        search.keep(SearchResult { programs: vec![program(5), program(7)], complete: true }, Duration::ZERO);
        let latest = search.latest(&[program(7), program(9)]);
        assert_eq!(latest.programs.iter().map(|program| program.pid).collect::<Vec<_>>(), [5]);
        assert!(latest.complete);
    }
}
