//! Start-up, and its errors. The page is created before all other files: its lock shows that no
//! other daemon keeps this clock.

use super::{Daemon, PUBLISH, SECOND, monotonic, realtime};
use crate::cards::Cards;
use crate::config::{FileError, TimekeeperConfig};
use crate::event_log::EventLog;
use crate::hardware::{self, Look};
use crate::leap_table;
use crate::ntp_source::NtpSource;
use crate::os::{Stop, Waiter};
use crate::record::ExchangeRecorder;
use crate::server_config::PolledServer;
use crate::source;
use crate::state::{Known, State};
use crate::status_endpoints::StatusEndpoints;
use crate::system::{self, System};
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use tickclock::{CounterKind, CreateError, Scale, Status, Writer};
use tickwire_clock::Ensemble;
use tickwire_clock::ensemble;
use tracing::{info, warn};

/// The published page is stale after so many ns. A shorter delay only means that the daemon is
/// late.
const FRESH: i64 = 5 * SECOND;
/// Relative standard deviation of a quartz from the period that the kernel has measured.
const QUARTZ: f64 = 100e-6;

/// Why the daemon cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The page cannot be created.
    #[error(transparent)]
    Page(#[from] CreateError),
    /// The status socket or the metrics port cannot be opened.
    #[error("cannot open {0}: {1}")]
    Door(String, std::io::Error),
    /// No server is configured.
    #[error("no server is named: use --server HOST, or `servers` in the [clock] table of the configuration file")]
    NoServer,
    /// The system clock cannot be steered, or NTP's shared memory cannot be attached.
    #[error(transparent)]
    System(#[from] system::SystemError),
    /// There is no trusted certificate for a server that requires NTS.
    #[error(transparent)]
    Files(#[from] FileError),
    /// The record cannot be created.
    #[error("cannot record to {0}: {1}{hint}", hint = record_hint(.1))]
    Record(PathBuf, std::io::Error),
    /// The configured table of leap seconds cannot be used.
    #[error(transparent)]
    LeapSeconds(#[from] leap_table::TableError),
    /// The counter has no usable period.
    #[error("the counter {0} has no usable period")]
    Counter(&'static str),
    /// The system has nothing to wait for packets with.
    #[error("cannot wait for packets: {0}")]
    Wait(io::Error),
}

/// Why a daemon has ended early.
#[derive(Debug, Error)]
pub enum RunError {
    /// It could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refused to wait.
    #[error("the clock daemon cannot wait: {0}")]
    Wait(io::Error),
}

/// Keeps a clock until `stop` is readable, or on Windows signalled. [`crate::ask`] gives its status
/// meanwhile.
///
/// # Errors
/// Those of [`Daemon::start`] and [`Daemon::run`].
pub fn run(config: &TimekeeperConfig, stop: Stop<'_>) -> Result<(), RunError> {
    Daemon::start(config)?.run(stop).map_err(RunError::Wait)
}

fn record_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AlreadyExists => " (a record is never overwritten)",
        io::ErrorKind::NotFound => " (its directory must be there)",
        _ => "",
    }
}

impl Daemon {
    /// Creates the page and prepares to poll the servers.
    ///
    /// # Errors
    /// No server is configured, the counter is not usable, or a resource that the configuration
    /// requires is not available. Then nothing is left behind.
    pub fn start(config: &TimekeeperConfig) -> Result<Self, StartError> {
        if config.servers.is_empty() {
            return Err(StartError::NoServer);
        }
        config.check_trust(|_| true)?;
        let (kind, why) = hardware::choose();
        let measured = hardware::nominal(kind).ok_or(StartError::Counter(kind.name()))?;
        let writer = Writer::create(&config.page, kind)?;
        let state = State::new(config.state.as_deref(), &config.page);
        let looked = Look::take(kind);
        let warm = warm(&state, kind, &looked, measured);
        let nominal = warm.map_or(measured, |known| known.period);
        let status_endpoints = StatusEndpoints::open(&config.page, config.metrics)
            .map_err(|(which, error)| StartError::Door(which, error))?;
        let system = System::new(config)?;
        let ensemble = ensemble::EnsembleConfig {
            nominal,
            rate_error: warm.map_or(QUARTZ, |known| known.deviation()),
            holdover_after: source::silence_timeout((config.poll * 1e9) as i64),
            fresh_for: FRESH,
            tai_offset: config.tai_offset,
        };
        let known: Vec<_> = config.servers.iter().map(|server| server.known(config.smeared)).collect();
        let table = leap_table::read(config.leap_seconds.as_deref(), realtime())?;
        let now = monotonic();
        let sources = config.servers.iter().map(|server| NtpSource::new(config, server, kind, nominal, now)).collect();
        // Without the saved state it is unknown whether the counter has broken since the page was
        // written, so that counts as a break. Before the first page the counter was not monitored.
        let (last, written) = (writer.last(), !writer.is_blank());
        let disruptions = last.disruptions.wrapping_add(u32::from(warm.is_none() && written));
        let since = if warm.is_some() && written { last.since } else { looked.count };
        let recorder = config.record.as_ref().map(|path| {
            let names: Vec<_> = config.servers.iter().map(PolledServer::label).collect();
            let servers: Vec<_> = names.iter().map(String::as_str).zip(known.iter().copied()).collect();
            ExchangeRecorder::create(path)
                .and_then(|mut recorder| {
                    recorder
                        .begin(&ensemble, kind.name(), &servers, table.as_ref(), (disruptions, since))
                        .map(|()| recorder)
                })
                .map_err(|error| StartError::Record(path.clone(), error))
        });
        let recorder = recorder.transpose()?;
        let mut ensemble = Ensemble::new(ensemble, &known).after(disruptions, since);
        if let Some(table) = table {
            ensemble.set_leap_table(table);
        }
        info!(counter = kind.name(), why = %why, period_ns = nominal.period(), warm = warm.is_some(), page = %config.page.display(), "the clock starts");
        Ok(Self {
            kind,
            nominal,
            ensemble,
            sources,
            cards: Cards::new(config.hardware_stamps),
            status_endpoints,
            waiter: Waiter::new().map_err(StartError::Wait)?,
            system,
            page: config.page.clone(),
            state,
            inherited: warm.is_some() && last.status.contains(Status::SYNCHRONISED),
            looked,
            published: now - PUBLISH,
            recorder,
            event_log: EventLog::new(config.servers.len(), disruptions),
            handed: now,
            kept: now,
            writer,
        })
    }
}

/// The previous daemon's estimate of the counter's period, if it is still valid.
fn warm(state: &State, kind: CounterKind, now: &Look, measured: Scale) -> Option<Known> {
    let path = state.path().display();
    match state.read(kind, now, measured) {
        Ok(known) => known,
        Err(void) => {
            if void.is_usual() {
                info!(%path, "a cold start, because the clock's state is void: {void}");
            } else {
                warn!(%path, "a cold start, because the clock's state is not believed: {void}");
            }
            None
        }
    }
}
