//! The clock daemon as a thread of the service. Its failures are logged, and packets are moved all
//! the same.

use crate::driver::Driver;
use crate::ntp_observer;
use std::os::windows::io::AsHandle;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tickwire_lane_windows::event::wait_for;
use tickwire_timekeeper::packet_observer::PacketObserver;
use tickwire_timekeeper::{Daemon, StopEvent, TimekeeperConfig};

/// After a failure the clock is tried again after this time: an address may not exist yet, or
/// another daemon may be about to end.
const AGAIN: Duration = Duration::from_secs(5);

/// The clock's thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct ClockThread {
    stop: Arc<StopEvent>,
    thread: JoinHandle<()>,
}

impl ClockThread {
    /// Starts it. `None`: Windows makes none, which the log says.
    /// `driver`: that of the service, which may stamp packets.
    pub(super) fn start(config: TimekeeperConfig, driver: Driver) -> Option<Self> {
        let start = || {
            let stop = Arc::new(StopEvent::new()?);
            let told = Arc::clone(&stop);
            let thread =
                std::thread::Builder::new().name("clock".into()).spawn(move || keep(&config, driver, &told))?;
            std::io::Result::Ok(Self { stop, thread })
        };
        start().inspect_err(|error| tracing::error!(%error, "there is no clock: its thread cannot be made")).ok()
    }

    /// Ends the clock. What it has published stays, and its bound grows.
    pub(super) fn end(self) {
        self.stop.set();
        // A failure of the thread is caught and logged there.
        let _ = self.thread.join();
    }
}

/// Keeps the clock until the event is set.
fn keep(config: &TimekeeperConfig, driver: Driver, stop: &StopEvent) {
    let mut told = String::new();
    let observer = (driver == Driver::WinDivert).then(ntp_observer::open).flatten();
    loop {
        let ended = catch_unwind(AssertUnwindSafe(|| attempt(config, observer.as_ref(), stop)));
        let Err(error) = ended.unwrap_or_else(|_| Err("the clock daemon has failed, see above".into())) else { return };
        // Once, not at each attempt.
        if told != error {
            tracing::error!("there is no clock, and it is tried again: {error}");
            told = error;
        }
        if !matches!(wait_for(&[stop.as_handle()], Some(AGAIN)), Ok(None)) {
            return;
        }
    }
}

/// Keeps the clock until the event is set, or until it fails.
fn attempt(
    config: &TimekeeperConfig,
    observer: Option<&Arc<dyn PacketObserver>>,
    stop: &StopEvent,
) -> Result<(), String> {
    let mut daemon = Daemon::start(config).map_err(|error| error.to_string())?;
    if let Some(observer) = observer {
        daemon.use_observer(Arc::clone(observer));
    }
    daemon.run(stop.as_handle()).map_err(|error| format!("the clock daemon cannot wait: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tickwire_timekeeper::config::PolledServer;

    fn config(page: &std::path::Path) -> TimekeeperConfig {
        let servers = vec![PolledServer::named("127.0.0.1:9").unwrap()];
        TimekeeperConfig { servers, page: page.to_path_buf(), ..TimekeeperConfig::default() }
    }

    #[test]
    fn a_clock_answers_until_it_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("clock");
        let clock = ClockThread::start(config(&page), Driver::None).unwrap();
        let begin = Instant::now();
        let report = loop {
            match tickwire_timekeeper::ask(&page) {
                Ok(report) => break report,
                Err(error) => assert!(begin.elapsed() < Duration::from_secs(30), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(report.sources.len(), 1);
        clock.end();
        assert!(tickwire_timekeeper::ask(&page).is_err(), "a clock that has ended answers");
    }

    #[test]
    fn a_clock_that_cannot_start_is_tried_again_until_it_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        // A folder in the page's place.
        let clock = ClockThread::start(config(folder.path()), Driver::None).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(!clock.thread.is_finished(), "it has given up");
        clock.end();
    }
}
