//! The loop: whatever is due, then sleep until something comes or is due.

use crate::config::Config;
use crate::hardware::{self, Look};
use crate::source::Source;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use std::os::fd::BorrowedFd;
use thiserror::Error;
use tickclock::{CounterKind, CreateError, Nanos, Scale, Writer, counter};
use tickwire_clock::Keeper;
use tickwire_clock::keeper;
use tickwire_ntp::socket::Quality;
use tracing::{debug, info, warn};

const SECOND: i64 = 1_000_000_000;
/// The page is published at least so often, in ns.
const PUBLISH: i64 = SECOND;
/// What was published is stale after so many ns: a daemon that is late by less is just late.
const FRESH: i64 = 5 * SECOND;
/// While a name is being looked up, the answer is looked for so often, in ns.
const LOOK: i64 = SECOND / 20;
/// Holdover begins after so many intervals.
const INTERVALS: f64 = 8.0;

/// Why the daemon cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The page cannot be made.
    #[error(transparent)]
    Page(#[from] CreateError),
    /// There is nobody to ask.
    #[error("no server is named: use --server HOST, or `servers` in the [clock] table of the configuration file")]
    NoServer,
    /// The counter runs at an impossible speed.
    #[error("the counter {0} has no usable period")]
    Counter(&'static str),
}

/// The clock daemon.
#[derive(Debug)]
pub struct Daemon {
    kind: CounterKind,
    nominal: Scale,
    keeper: Keeper,
    sources: Vec<Source>,
    writer: Writer,
    looked: Look,
    published: i64,
}

impl Daemon {
    /// Makes the page and gets ready to ask.
    ///
    /// # Errors
    /// There is no server, no counter, or the page cannot be made.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        if config.servers.is_empty() {
            return Err(StartError::NoServer);
        }
        let (kind, why) = hardware::choose();
        let nominal = hardware::nominal(kind).ok_or(StartError::Counter(kind.name()))?;
        let writer = Writer::create(&config.page, kind)?;
        info!(counter = kind.name(), why, period_ns = nominal.period(), page = %config.page.display(), "the clock starts");
        let keeper = keeper::Config {
            nominal,
            rate_error: 100e-6,
            holdover_after: (config.poll * INTERVALS * 1e9) as i64 + 2 * SECOND,
            fresh_for: FRESH,
            tai_offset: config.tai_offset,
            smeared: config.smeared,
        };
        let asymmetries: Vec<_> = config.servers.iter().map(|server| server.asymmetry * 1e3).collect();
        let now = monotonic();
        let sources = config.servers.iter().map(|server| Source::new(config, server, kind, nominal, now)).collect();
        let keeper = Keeper::new(keeper, &asymmetries);
        Ok(Self { kind, nominal, keeper, sources, writer, looked: Look::take(kind), published: now - PUBLISH })
    }

    /// Keeps the clock until `stop` is readable. What was published stays.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> nix::Result<()> {
        loop {
            let now = monotonic();
            self.look();
            for source in &mut self.sources {
                source.run(now, random());
            }
            if now - self.published >= PUBLISH {
                self.publish(now);
            }
            if self.wait(stop)? {
                self.publish(monotonic());
                return Ok(());
            }
            self.receive();
        }
    }

    /// Sleeps until something comes or is due; `true`: it is time to stop.
    fn wait(&self, stop: BorrowedFd<'_>) -> nix::Result<bool> {
        let looking = self.sources.iter().any(Source::is_looking_up);
        let due = self.sources.iter().filter_map(Source::due).min().unwrap_or(i64::MAX).min(self.published + PUBLISH);
        let left = (due - monotonic()).max(0).min(if looking { LOOK } else { PUBLISH });
        // Rounded up: a turn of the loop before something is due does nothing.
        let timeout = PollTimeout::try_from((left + 999_999) / 1_000_000).unwrap_or(PollTimeout::ZERO);
        let stop = PollFd::new(stop, PollFlags::POLLIN);
        let sockets = self.sources.iter().filter_map(Source::descriptor);
        let mut all: Vec<_> = [stop].into_iter().chain(sockets.map(|fd| PollFd::new(fd, PollFlags::POLLIN))).collect();
        match poll(&mut all, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(all[0].any().unwrap_or(true)),
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self) {
        let now = monotonic();
        let near = realtime();
        let mut fresh = false;
        for (number, source) in self.sources.iter_mut().enumerate() {
            let mut came = Vec::new();
            source.receive(now, near, |one| came.push(one));
            for one in came {
                match one {
                    Ok(one) => {
                        if one.quality == Quality::Program {
                            debug!(server = source.name(), "the kernel gave no stamps");
                        }
                        match self.keeper.exchange(number, &one.exchange, one.announced) {
                            Ok(outcome) => debug!(server = source.name(), ?outcome, "exchange"),
                            Err(refusal) => debug!(server = source.name(), %refusal, "exchange refused"),
                        }
                        fresh = true;
                    }
                    Err(why) => debug!(server = source.name(), why, "answer rejected"),
                }
            }
        }
        if fresh {
            self.publish(monotonic());
        }
    }

    fn publish(&mut self, now: i64) {
        self.writer.publish(&self.keeper.parameters(counter::read(self.kind)));
        self.published = now;
    }

    /// Whether the counter is still whole.
    fn look(&mut self) {
        let look = Look::take(self.kind);
        if let Some(what) = look.broken_since(&self.looked, self.nominal) {
            warn!(what, "the counter has broken: the clock begins anew");
            self.keeper.disrupt();
            self.publish(monotonic());
        }
        self.looked = look;
    }
}

fn monotonic() -> i64 {
    ns(ClockId::CLOCK_MONOTONIC)
}

/// About the time, to within decades: of which era a server's stamp is.
fn realtime() -> Nanos {
    Nanos(ns(ClockId::CLOCK_REALTIME))
}

fn ns(clock: ClockId) -> i64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() * SECOND + time.tv_nsec())
}

/// Numbers that nobody can guess.
fn random() -> [u64; 2] {
    let mut bytes = [[0; 8]; 2];
    for word in &mut bytes {
        // It fails on no Linux that has started; without it there is no safe request.
        getrandom::fill(word).expect("the kernel's random numbers");
    }
    bytes.map(u64::from_ne_bytes)
}
