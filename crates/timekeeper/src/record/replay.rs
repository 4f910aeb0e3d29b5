//! Replays a record, and checks it on the way.

use super::SECOND;
use super::line::{Begin, ExchangeRecord, LeapSeconds, Line, RecordedPage, Server, VERSION};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tickclock::{Count, Nanos, Scale};
use tickwire_clock::Ensemble;
use tickwire_clock::ensemble::table::Table;
use tickwire_clock::ensemble::{self, SourceConfig};

/// Limit of a line's length, in bytes: longer than any line that is written.
pub(super) const LONGEST: usize = 64 * 1024;

/// Why a record cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, io::Error),
    /// It is no record.
    #[error("{0} is no record of a clock, such as `tickwire clock run --record` writes: {1}")]
    Foreign(PathBuf, &'static str),
    /// A line is invalid.
    #[error("{file}, line {line}: {what}")]
    Wrong {
        /// Where.
        file: PathBuf,
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Replayed {
    /// The counter that was recorded.
    pub counter: String,
    /// The servers' names.
    pub servers: Vec<String>,
    /// Exchanges that were used.
    pub used: u64,
    /// Exchanges that were not, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Breaks of the counter.
    pub disruptions: u64,
    /// Pages that were published.
    pub pages: u64,
    /// Pages that the replay did not reproduce bit for bit from the same exchanges.
    pub different: u64,
    /// The line of the first of these.
    pub first_different: Option<usize>,
    /// The record ends within a line: its writer was killed, or is still running.
    pub cut: bool,
    /// The last page, as the replay gives it.
    pub page: Option<RecordedPage>,
}

/// Replays a file; `each` gets every page as the replay gives it.
///
/// # Errors
/// It cannot be read, or is no record; the error names the line.
pub fn replay(path: &Path, each: impl FnMut(&RecordedPage)) -> Result<Replayed, ReplayError> {
    let read = |error| ReplayError::Read(path.into(), error);
    let file = File::open(path).map_err(read)?;
    replay_from(io::BufReader::new(file), each).map_err(|error| match error {
        Fault::Read(error) if error.kind() == io::ErrorKind::IsADirectory => {
            ReplayError::Foreign(path.into(), "it is a directory")
        }
        Fault::Read(error) => read(error),
        Fault::Foreign(what) => ReplayError::Foreign(path.into(), what),
        Fault::Wrong(line, what) => ReplayError::Wrong { file: path.into(), line, what },
    })
}

#[derive(Debug)]
pub(super) enum Fault {
    Read(io::Error),
    Foreign(&'static str),
    Wrong(usize, String),
}

/// Reads the next line with its newline, or as much of it as there is.
fn next(from: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), Fault> {
    line.clear();
    io::Read::take(from, LONGEST as u64).read_until(b'\n', line).map(|_| ()).map_err(Fault::Read)
}

/// Parses the first line: the clock's configuration.
fn begun(line: &[u8]) -> Result<Begin, Fault> {
    /// What the first line of every version has.
    #[derive(Deserialize)]
    struct Any {
        begin: OfVersion,
    }
    #[derive(Deserialize)]
    struct OfVersion {
        version: u32,
    }
    let foreign = || Fault::Foreign("its first line does not say how a clock was set up");
    let line = match line.split_last() {
        None => return Err(Fault::Foreign("it is empty")),
        Some((b'\n', line)) => line,
        Some(_) => return Err(foreign()),
    };
    let Any { begin: OfVersion { version } } = serde_json::from_slice(line).map_err(|_| foreign())?;
    let wrong = |what: String| Fault::Wrong(1, what);
    if version != VERSION {
        return Err(wrong(format!(
            "the record is of version {version}, this program replays version {VERSION}: they belong to different Tickwires"
        )));
    }
    match serde_json::from_slice(line).map_err(|error| wrong(no_line(&error)))? {
        Line::Begin(begin) => Ok(begin),
        _ => Err(foreign()),
    }
}

fn no_line(error: &serde_json::Error) -> String {
    format!("it is no line of a record: {error}")
}

pub(super) fn replay_from(mut from: impl BufRead, mut each: impl FnMut(&RecordedPage)) -> Result<Replayed, Fault> {
    let mut text = Vec::new();
    next(&mut from, &mut text)?;
    let begin = begun(&text)?;
    let mut ensemble = begin.ensemble().map_err(|what| Fault::Wrong(1, what))?;
    let servers = begin.servers.into_iter().map(|server| server.name).collect();
    let mut replayed = Replayed { counter: begin.counter, servers, ..Replayed::default() };
    for number in 2.. {
        next(&mut from, &mut text)?;
        let wrong = |what: String| Fault::Wrong(number, what);
        let Some((b'\n', line)) = text.split_last() else {
            if text.len() == LONGEST {
                return Err(wrong("it is longer than any line of a record".into()));
            }
            replayed.cut = !text.is_empty();
            break;
        };
        match serde_json::from_slice(line).map_err(|error| wrong(no_line(&error)))? {
            Line::Begin(_) => return Err(wrong("the record begins for a second time".into())),
            Line::Exchange(ExchangeRecord { server, .. }) | Line::SilenceTimeout { server, .. }
                if server >= replayed.servers.len() =>
            {
                return Err(wrong(format!("there is no server {server}")));
            }
            Line::SilenceTimeout { server, ns } => ensemble.set_silence_timeout(server, ns),
            Line::Exchange(record) => {
                match ensemble.exchange(record.server, &record.exchange(), record.announced().map_err(wrong)?) {
                    Ok(_) => replayed.used += 1,
                    Err(refusal) => *replayed.refused.entry(refusal.to_string()).or_default() += 1,
                }
            }
            Line::Disruption { at } => {
                ensemble.disrupt(Count(at));
                replayed.disruptions += 1;
            }
            Line::Page(recorded) => {
                let page = RecordedPage::from(&ensemble.parameters(Count(recorded.at)));
                replayed.pages += 1;
                if page != recorded {
                    replayed.different += 1;
                    replayed.first_different.get_or_insert(number);
                }
                each(&page);
                replayed.page = Some(page);
            }
        }
    }
    Ok(replayed)
}

impl Begin {
    fn ensemble(&self) -> Result<Ensemble, String> {
        let [mult, shift] = self.nominal;
        let nominal = Scale { mult, shift: u32::try_from(shift).unwrap_or(u32::MAX) };
        if mult >= 1 << 54 || shift > 62 || Scale::from_period(nominal.period()).is_none() {
            return Err("the nominal period is no counter's".into());
        }
        // A daemon cannot have started with anything else: its configuration has the same limits.
        if !(1e-12..=1e-2).contains(&self.rate_error) {
            return Err("the error of the rate is not between 1e-12 and 0.01".into());
        }
        if self.holdover_after_ns < 0 || self.fresh_for_ns < 0 {
            return Err("a span of time is negative".into());
        }
        if self.tai_offset_s.is_some_and(|offset| !(0..=1000).contains(&offset)) {
            return Err("TAI - UTC is not between 0 and 1000 s".into());
        }
        if self.servers.iter().any(|server| !(-1e9..=1e9).contains(&server.asymmetry_ns)) {
            return Err("a server's asymmetry is more than a second".into());
        }
        if self.servers.is_empty() || self.servers.len() > 64 {
            return Err("there must be 1 to 64 servers".into());
        }
        let config = ensemble::EnsembleConfig {
            nominal,
            rate_error: self.rate_error,
            holdover_after: self.holdover_after_ns,
            fresh_for: self.fresh_for_ns,
            tai_offset: self.tai_offset_s,
        };
        let source = |server: &Server| SourceConfig { asymmetry: server.asymmetry_ns, smeared: server.smeared };
        let mut ensemble = Ensemble::new(config, &self.servers.iter().map(source).collect::<Vec<_>>())
            .after(self.disruptions, Count(self.since));
        if let Some(LeapSeconds { entries, expires_s }) = &self.leap_seconds {
            let unix = |seconds: i64| Nanos(seconds.saturating_mul(SECOND));
            let entries = entries.iter().map(|&(at, offset)| (unix(at), offset)).collect();
            ensemble.set_leap_table(Table::new(entries, unix(*expires_s)).map_err(|error| error.to_string())?);
        }
        Ok(ensemble)
    }
}
