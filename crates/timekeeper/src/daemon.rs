//! The event loop: runs what is due, then sleeps until a socket is readable or something is due.
//!
//! | module | purpose |
//! |---|---|
//! | `start` | start-up, and its errors |
//! | `status` | the status report, and the log of what has changed |

mod start;
mod status;
#[cfg(test)]
mod tests;

pub use start::{RunError, StartError, run};

use crate::cards::Cards;
use crate::event_log::EventLog;
use crate::hardware::Look;
use crate::ntp_source::NtpSource;
use crate::os::{Stop, Waiter};
use crate::record::ExchangeRecorder;
use crate::source::{Measurement, Source};
use crate::state::{Known, State};
use crate::status_endpoints::StatusEndpoints;
use crate::system::System;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
#[cfg(windows)]
use std::sync::Arc;
use std::time::Instant;
use tickclock::{CounterKind, Nanos, Parameters, Scale, Status, Writer, counter};
use tickwire_clock::Ensemble;
use tickwire_stamping::clocks;
#[cfg(windows)]
use tickwire_stamping::packet_observer::PacketObserver;
use tracing::{debug, info, warn};

const SECOND: i64 = 1_000_000_000;
/// Longest interval between two publications of the page, in ns.
const PUBLISH: i64 = SECOND;
/// Interval at which the system clock is steered and NTP's shared memory fed, in ns.
const HAND: i64 = SECOND;
/// Interval at which the counter's period is saved, in ns. A period known twice as well as the
/// saved one is saved earlier, at most once a second: a daemon that is killed soon after its start
/// keeps what it has learnt.
const KEEP: i64 = 60 * SECOND;
/// 2026-01-01 00:00:00 UTC: the present is not earlier, because this program is not older.
const WRITTEN: Nanos = Nanos(1_767_225_600 * SECOND);

/// The clock daemon.
#[derive(Debug)]
pub struct Daemon {
    kind: CounterKind,
    nominal: Scale,
    ensemble: Ensemble,
    sources: Vec<NtpSource>,
    cards: Cards,
    status_endpoints: StatusEndpoints,
    waiter: Waiter,
    system: System,
    page: PathBuf,
    state: State,
    /// The page still holds the previous daemon's parameters, which is better than nothing.
    inherited: bool,
    looked: Look,
    published: i64,
    handed: i64,
    kept: i64,
    recorder: Option<ExchangeRecorder<BufWriter<File>>>,
    event_log: EventLog,
    /// The page, and the lock that shows that this daemon is alive. It is dropped last. The next
    /// holder of the lock replaces leftover files beside the page by its own, and a daemon that
    /// still shuts down would remove those.
    writer: Writer,
}

impl Daemon {
    /// From now on a driver stamps the packets that it sees pass.
    #[cfg(windows)]
    pub fn use_observer(&mut self, observer: Arc<dyn PacketObserver>) {
        self.cards.observer = Some(observer);
    }

    /// Keeps the clock until `stop` is readable, or on Windows signalled. The published page stays.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(&mut self, stop: Stop<'_>) -> io::Result<()> {
        loop {
            let now = monotonic();
            self.look();
            self.ask(now);
            if now - self.published >= PUBLISH {
                self.publish(now);
            }
            if now - self.handed >= HAND {
                self.handed = now;
                let parameters = self.ensemble.parameters(counter::read(self.kind));
                self.system.turn(now, self.kind, self.nominal, &self.looked, &parameters);
            }
            if now - self.kept >= KEEP || now - self.kept >= SECOND && self.knows_better() {
                self.keep(now);
            }
            if self.awaits_reply() {
                self.receive();
            }
            if self.wait(stop)? {
                self.publish(monotonic());
                self.keep(monotonic());
                self.system.end();
                info!(page = %self.page.display(), "the clock ends: what was published stays, and its bound grows");
                return Ok(());
            }
            self.receive();
            if self.status_endpoints.receive() {
                let report = self.report();
                self.status_endpoints.answer(&report);
            }
        }
    }

    /// Runs each source that is due.
    fn ask(&mut self, now: i64) {
        for number in 0..self.sources.len() {
            let (before, rest) = self.sources.split_at_mut(number);
            let Some((source, after)) = rest.split_first_mut() else { return };
            let twin = |address| {
                let other = before.iter().chain(after.iter()).find(|other| other.polls(address))?;
                Some(other.name().to_owned())
            };
            source.run(now, &mut self.cards, &twin);
        }
    }

    /// Spins while a reply is imminent; returns whether something can be received. It lasts less
    /// than a millisecond, and only where the program stamps packets.
    fn awaits_reply(&self) -> bool {
        while self.sources.iter().any(Source::is_imminent) {
            if self.sources.iter().any(Source::is_readable) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until a socket is readable or something is due. Returns `true` when it is time to
    /// stop.
    fn wait(&self, stop: Stop<'_>) -> io::Result<bool> {
        let now = monotonic();
        let wakeup = self.sources.iter().map(|source| source.wakeup(now)).min().unwrap_or(i64::MAX);
        let due = wakeup.min(self.published + PUBLISH).min(self.handed + HAND);
        let status = &self.status_endpoints;
        let clients = status.due().map_or(PUBLISH, |due| {
            let left = due.saturating_duration_since(Instant::now());
            i64::try_from(left.as_nanos()).unwrap_or(PUBLISH)
        });
        // An iteration of the loop before the due time does nothing.
        let left = (due - now).min(clients).clamp(0, PUBLISH);
        let sources = self.sources.iter().filter_map(|source| source.socket());
        self.waiter.wait(stop, sources.chain(status.readable()), status.writable(), status.reports(), left)
    }

    /// Passes received replies to the clock.
    fn receive(&mut self) {
        let now = monotonic();
        let near = about(realtime());
        let mut exchanges = Vec::new();
        for (number, source) in self.sources.iter_mut().enumerate() {
            exchanges.extend(source.receive(now, near).into_iter().map(|one| (number, one)));
            if let Some(silence_timeout) = source.new_silence_timeout() {
                record(&mut self.recorder, |to| to.silence_timeout(number, silence_timeout));
                self.ensemble.set_silence_timeout(number, silence_timeout);
            }
        }
        // The counter may have broken within any of these exchanges. All are dropped, including
        // those that ended before the break: the servers are polled again.
        if exchanges.is_empty() || self.look() {
            return;
        }
        for (number, one) in exchanges {
            if !self.take(now, number, &one) {
                break;
            }
        }
        let parameters = self.publish(monotonic());
        record(&mut self.recorder, |to| to.page(&parameters));
    }

    /// Passes an exchange to the clock. Returns `false` if the clock infers from it that the
    /// counter has broken: other exchanges from before the break are void.
    fn take(&mut self, now: i64, number: usize, one: &Measurement) -> bool {
        record(&mut self.recorder, |to| to.exchange(number, &one.exchange, one.announced));
        let breaks = self.ensemble.breaks();
        let outcome = self.ensemble.exchange(number, &one.exchange, one.announced);
        let source = &mut self.sources[number];
        match &outcome {
            Ok(outcome) => debug!(server = source.name(), ?outcome, "exchange"),
            Err(refusal) => debug!(server = source.name(), %refusal, "exchange refused"),
        }
        source.processed(now, one.quality, outcome.map(drop).map_err(|refusal| refusal.to_string()));
        if self.ensemble.breaks() == breaks {
            return true;
        }
        warn!(what = "the servers contradict the clock", "the counter has broken");
        self.disrupted();
        false
    }

    /// Handles a break of the counter that the keeper knows of: discards everything that depends on
    /// earlier counts, and polls the servers anew.
    fn disrupted(&mut self) {
        let now = monotonic();
        self.sources.iter_mut().for_each(|source| source.disrupt(now));
        self.system.disrupt();
        self.inherited = false;
    }

    /// Publishes the clock; returns the keeper's parameters.
    fn publish(&mut self, now: i64) -> Parameters {
        let parameters = self.ensemble.parameters(counter::read(self.kind));
        self.inherited &= !parameters.status.contains(Status::SYNCHRONISED);
        if !self.inherited {
            let mut shown = parameters;
            shown.root.reference = self.ensemble.chosen().map_or(0, |chosen| self.sources[chosen].reference());
            self.writer.publish(&shown);
        }
        self.published = now;
        self.tell(now, &parameters);
        parameters
    }

    /// The current estimate of the counter's period.
    fn known(&self) -> Option<Known> {
        // Not from the published clock: while that slews from one server to another, its period is
        // not the counter's.
        let clock = self.ensemble.followed(self.looked.count)?;
        Some(Known { period: Scale::from_period(clock.period)?, rate_error: clock.error_rate * 1e-9 })
    }

    /// Whether the estimate is enough better than the saved one to be saved.
    fn knows_better(&self) -> bool {
        self.known().is_some_and(|known| self.state.is_outdone_by(&known))
    }

    /// Saves the estimate of the counter's period for the next start.
    fn keep(&mut self, now: i64) {
        self.kept = now;
        self.look();
        if let Some(known) = self.known() {
            self.state.write(self.kind, &self.looked, known);
        }
    }

    /// Checks whether the counter has broken since the last look.
    fn look(&mut self) -> bool {
        let look = Look::take(self.kind);
        let broken = look.broken_since(&self.looked, self.nominal);
        self.looked = look;
        let Some(what) = broken else { return false };
        warn!(what, "the counter has broken");
        self.ensemble.disrupt(look.count);
        record(&mut self.recorder, |to| to.disruption(look.count));
        self.disrupted();
        self.publish(monotonic());
        true
    }
}

/// Records until a write fails; from then on the clock runs without a record.
fn record(
    recorder: &mut Option<ExchangeRecorder<BufWriter<File>>>,
    what: impl FnOnce(&mut ExchangeRecorder<BufWriter<File>>) -> io::Result<()>,
) {
    if let Some(Err(error)) = recorder.as_mut().map(what) {
        warn!(%error, "the record ends here: it cannot be written");
        *recorder = None;
    }
}

fn monotonic() -> i64 {
    clocks::monotonic()
}

/// The system clock.
fn realtime() -> Nanos {
    Nanos(clocks::realtime())
}

/// The approximate time, which determines the era of a server's timestamp if it is right to within
/// 68 years (RFC 5905 §6). A host without a battery-backed clock starts in 1970, but the time is
/// never before [`WRITTEN`].
fn about(clock: Nanos) -> Nanos {
    clock.max(WRITTEN)
}
