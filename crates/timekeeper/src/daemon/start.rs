//! What the daemon needs to begin, and why it cannot: the page first, whose lock says that no other
//! daemon keeps this clock.

use super::{Daemon, PUBLISH, SECOND, monotonic, realtime};
use crate::cards::Cards;
use crate::config::{Config, FileError, Server};
use crate::doors::Doors;
use crate::hardware::{self, Look};
use crate::leap_table;
use crate::news::News;
use crate::record::Recorder;
use crate::source::{self, Source};
use crate::state::{Known, State};
use crate::system::{self, System};
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use tickclock::{CounterKind, CreateError, Scale, Status, Writer};
use tickwire_clock::Keeper;
use tickwire_clock::keeper;
use tracing::{info, warn};

/// What was published is stale after so many ns: a daemon that is late by less is just late.
const FRESH: i64 = 5 * SECOND;
/// How far a quartz may be from what the kernel has measured: standard deviation, relative.
const QUARTZ: f64 = 100e-6;

/// Why the daemon cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The page cannot be made.
    #[error(transparent)]
    Page(#[from] CreateError),
    /// The places where it tells how it is cannot be opened.
    #[error("cannot open {0}: {1}")]
    Door(String, std::io::Error),
    /// There is nobody to ask.
    #[error("no server is named: use --server HOST, or `servers` in the [clock] table of the configuration file")]
    NoServer,
    /// The time cannot be handed on as it is to be.
    #[error(transparent)]
    System(#[from] system::Error),
    /// Nobody can vouch for a server that is to be asked with NTS.
    #[error(transparent)]
    Files(#[from] FileError),
    /// There is no place for the record.
    #[error("cannot record to {0}: {1}{hint}", hint = record_hint(.1))]
    Record(PathBuf, std::io::Error),
    /// The table of leap seconds that the user has named is none.
    #[error(transparent)]
    LeapSeconds(#[from] leap_table::TableError),
    /// The counter runs at an impossible speed.
    #[error("the counter {0} has no usable period")]
    Counter(&'static str),
}

fn record_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AlreadyExists => " (a record is never overwritten)",
        io::ErrorKind::NotFound => " (its directory must be there)",
        _ => "",
    }
}

impl Daemon {
    /// Makes the page and gets ready to ask.
    ///
    /// # Errors
    /// There is no server, no counter, or something that it is to have from the beginning cannot be
    /// had. Then nothing is left behind.
    pub fn start(config: &Config) -> Result<Self, StartError> {
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
        let doors =
            Doors::open(&config.page, config.metrics).map_err(|(which, error)| StartError::Door(which, error))?;
        let system = System::new(config)?;
        let keeper = keeper::Config {
            nominal,
            rate_error: warm.map_or(QUARTZ, |known| known.deviation()),
            holdover_after: source::patience((config.poll * 1e9) as i64),
            fresh_for: FRESH,
            tai_offset: config.tai_offset,
        };
        let known: Vec<_> = config.servers.iter().map(|server| server.known(config.smeared)).collect();
        let table = leap_table::read(config.leap_seconds.as_deref(), realtime())?;
        let now = monotonic();
        let sources = config.servers.iter().map(|server| Source::new(config, server, kind, nominal, now)).collect();
        // Without the state nobody knows whether the counter has broken since the page was written;
        // and before there was a page, nobody watched it.
        let (last, written) = (writer.last(), !writer.is_blank());
        let disruptions = last.disruptions.wrapping_add(u32::from(warm.is_none() && written));
        let since = if warm.is_some() && written { last.since } else { looked.count };
        let recorder = config.record.as_ref().map(|path| {
            let names: Vec<_> = config.servers.iter().map(Server::label).collect();
            let servers: Vec<_> = names.iter().map(String::as_str).zip(known.iter().copied()).collect();
            Recorder::create(path)
                .and_then(|mut recorder| {
                    recorder
                        .begin(&keeper, kind.name(), &servers, table.as_ref(), (disruptions, since))
                        .map(|()| recorder)
                })
                .map_err(|error| StartError::Record(path.clone(), error))
        });
        let recorder = recorder.transpose()?;
        let mut keeper = Keeper::new(keeper, &known).after(disruptions, since);
        if let Some(table) = table {
            keeper.set_leap_table(table);
        }
        info!(counter = kind.name(), why = %why, period_ns = nominal.period(), warm = warm.is_some(), page = %config.page.display(), "the clock starts");
        Ok(Self {
            kind,
            nominal,
            keeper,
            sources,
            cards: Cards::new(config.hardware_stamps),
            doors,
            system,
            page: config.page.clone(),
            state,
            inherited: warm.is_some() && last.status.contains(Status::SYNCHRONISED),
            looked,
            published: now - PUBLISH,
            recorder,
            news: News::new(config.servers.len(), disruptions),
            handed: now,
            kept: now,
            writer,
        })
    }
}

/// What the daemon before this one knew of the counter, if that is still worth something.
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
