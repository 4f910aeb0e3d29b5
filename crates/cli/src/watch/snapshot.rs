//! The state of clock, service and testbed at one moment.

use crate::args::watch::Watch;
use crate::client::Client;
use crate::stat::{self, Search};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tickwire_show::stat::StatReading;
use tickwire_testbed::live::{self, Seen, Shown};
use tickwire_timekeeper::Report;

/// Everything that is shown. An error says what is missing and what to do about it.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) clock: Result<Report, String>,
    pub(crate) service: Result<StatReading, String>,
    pub(crate) testbed: Result<Watched, String>,
}

/// A run of the testbed.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The state that it has published.
    pub(crate) shown: Shown,
    /// How long ago that was.
    pub(crate) age: Duration,
    /// The number of other runs.
    pub(crate) others: usize,
}

/// The sources of snapshots.
#[derive(Debug)]
pub(crate) struct Sources {
    page: PathBuf,
    socket: PathBuf,
    /// The user has named the socket. Otherwise the one of a running testbed's lab is preferred.
    named: bool,
    run: Option<u32>,
    search: Mutex<Search>,
}

impl Sources {
    pub(crate) fn new(arguments: &Watch) -> Self {
        Self {
            page: arguments.page.path(),
            socket: arguments.socket.path(),
            named: arguments.socket.socket.is_some(),
            run: arguments.run,
            search: Mutex::default(),
        }
    }

    /// Queries the clock daemon, the service and the testbed. It waits a few seconds at most for
    /// each that does not answer.
    pub(crate) fn look(&self) -> Snapshot {
        let testbed = self.watched(live::runs());
        let lab = testbed.as_ref().ok().and_then(|watched| watched.shown.live.as_ref()?.service.clone());
        let socket = lab.filter(|_| !self.named).unwrap_or_else(|| self.socket.clone());
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot {
            clock: tickwire_commands::clock::ask(&self.page).map_err(|error| error.to_string()),
            service: Client::connect(&socket)
                .and_then(|mut client| stat::gather(&mut client, &mut search))
                .map_err(|error| format!("{error:#}")),
            testbed,
        }
    }

    /// The requested run, or else the latest.
    fn watched(&self, runs: Vec<Seen>) -> Result<Watched, String> {
        let others = runs.len().saturating_sub(1);
        let wanted = |seen: &Seen| self.run.is_none_or(|pid| seen.shown.pid == pid);
        let found = runs.into_iter().find(wanted).map(|Seen { shown, age }| Watched { shown, age, others });
        found.ok_or_else(|| match self.run {
            Some(pid) => format!("process {pid} runs no testbed that this user may watch"),
            None => "no testbed runs: start one with `tickwire testbed run`, as this user or as root".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: u32) -> Seen {
        let text = r#"{"since_s": 1, "pattern": "p", "streams": [], "step": null, "live": null}"#;
        let mut shown: Shown = serde_json::from_str(text).unwrap();
        shown.pid = pid;
        Seen { shown, age: Duration::ZERO }
    }

    #[test]
    fn the_latest_run_is_watched_unless_another_is_asked_for() {
        let sources =
            |run| Sources { page: "/p".into(), socket: "/s".into(), named: true, run, search: Mutex::default() };
        let runs = || vec![seen(7), seen(5)];
        let watched = sources(None).watched(runs()).unwrap();
        assert_eq!((watched.shown.pid, watched.others), (7, 1));
        assert_eq!(sources(Some(5)).watched(runs()).unwrap().shown.pid, 5);
        assert!(sources(Some(6)).watched(runs()).unwrap_err().contains("process 6"));
        assert!(sources(None).watched(Vec::new()).unwrap_err().contains("tickwire testbed run"));
    }
}
