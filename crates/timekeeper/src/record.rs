//! A record of all inputs of the clock, line by line as JSON, and its replay. The same state
//! machine over the same exchanges gives the same page, bit for bit.
//!
//! The first line is the clock's configuration. Exchanges, changed timeouts and breaks of the
//! counter follow, and the page as it was published after them, by which a replay checks itself.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tickclock::{Count, Leap, Nanos, Parameters, Scale, Status};
use tickwire_clock::ensemble::SourceConfig;
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::ensemble::table::Table;
use tickwire_clock::{Ensemble, Exchange, ServerState, ensemble};

/// Increases when the meaning of any line changes, and with every change of the algorithm that
/// makes another page of the same exchanges.
const VERSION: u32 = 4;
const SECOND: i64 = 1_000_000_000;
/// Limit of a line's length, in bytes: longer than any line that is written.
const LONGEST: usize = 64 * 1024;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Begin(Begin),
    Exchange(ExchangeRecord),
    /// The silence timeout of a server from now on.
    Patience {
        server: usize,
        ns: i64,
    },
    /// The counter had broken, and was at this value when that was found out.
    Disruption {
        at: u64,
    },
    Page(RecordedPage),
}

/// The clock's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    version: u32,
    counter: String,
    nominal: [u64; 2],
    rate_error: f64,
    holdover_after_ns: i64,
    fresh_for_ns: i64,
    tai_offset_s: Option<i32>,
    leap_seconds: Option<LeapSeconds>,
    /// How often the counter had broken, or the time was set, before; and since which value the
    /// counter was known not to have broken.
    disruptions: u32,
    since: u64,
    servers: Vec<Server>,
}

/// The table of leap seconds: Unix time in s and offset for each entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeapSeconds {
    entries: Vec<(i64, i32)>,
    expires_s: i64,
}

/// One of the servers, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: String,
    asymmetry_ns: f64,
    smeared: bool,
}

/// An exchange; times are Unix time, counts are the counter's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExchangeRecord {
    server: usize,
    sent: u64,
    server_received_ns: i64,
    server_sent_ns: i64,
    received: u64,
    stamp_error_ns: u32,
    synchronised: bool,
    stratum: u8,
    reference: u32,
    root_delay_ns: u64,
    root_dispersion_ns: u64,
    leap: i8,
}

/// The page as it was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPage {
    /// The clock's status flags (`Status`).
    pub status: u32,
    /// The counter when it was published.
    pub at: u64,
    /// The time then, in ns of TAI.
    pub tai_ns: i64,
    /// The local period in ns: numerator, and the denominator's power of two.
    pub local: [u64; 2],
    /// The long-term period, as `local`.
    pub difference: [u64; 2],
    /// Estimated error in ns.
    pub error_ns: u64,
    /// The most that the time could be wrong by, in ns.
    pub bound_ns: u64,
    /// By how much both grow, in 2^-32 ns per ns.
    pub growth: u32,
    /// Until when the page was good.
    pub fresh_until: u64,
    /// TAI - UTC in seconds, the announced leap, and its instant in ns of TAI.
    pub tai_utc_s: i32,
    /// See `tai_utc_s`.
    pub leap: i32,
    /// See `tai_utc_s`.
    pub leap_at_tai_ns: i64,
    /// How often the counter had broken, or the time was set.
    pub disruptions: u32,
    /// Since which value of the counter it was known not to have broken.
    pub since: u64,
}

const fn scale(scale: Scale) -> [u64; 2] {
    [scale.mult, scale.shift as u64]
}

impl From<&Parameters> for RecordedPage {
    fn from(parameters: &Parameters) -> Self {
        let Parameters { status: Status(status), at, time, local, difference, error, bound, growth, .. } = *parameters;
        let Leap { offset, step, at: leap_at } = parameters.leap;
        Self {
            status,
            at: at.0,
            tai_ns: time.0,
            local: scale(local),
            difference: scale(difference),
            error_ns: error,
            bound_ns: bound,
            growth,
            fresh_until: parameters.fresh_until.0,
            tai_utc_s: offset,
            leap: step,
            leap_at_tai_ns: leap_at.0,
            disruptions: parameters.disruptions,
            since: parameters.since.0,
        }
    }
}

impl ExchangeRecord {
    fn new(server: usize, exchange: &Exchange, announced: Announcement) -> Self {
        let Exchange { sent, server_received, server_sent, received, server: state, stamp_error } = *exchange;
        Self {
            server,
            sent: sent.0,
            server_received_ns: server_received.0,
            server_sent_ns: server_sent.0,
            received: received.0,
            stamp_error_ns: stamp_error,
            synchronised: state.synchronised,
            stratum: state.stratum,
            reference: state.reference,
            root_delay_ns: state.root_delay,
            root_dispersion_ns: state.root_dispersion,
            leap: match announced {
                Announcement::None => 0,
                Announcement::Insert => 1,
                Announcement::Delete => -1,
            },
        }
    }

    const fn exchange(&self) -> Exchange {
        Exchange {
            sent: Count(self.sent),
            server_received: Nanos(self.server_received_ns),
            server_sent: Nanos(self.server_sent_ns),
            received: Count(self.received),
            server: ServerState {
                synchronised: self.synchronised,
                stratum: self.stratum,
                reference: self.reference,
                root_delay: self.root_delay_ns,
                root_dispersion: self.root_dispersion_ns,
            },
            stamp_error: self.stamp_error_ns,
        }
    }
}

/// Writes a record.
#[derive(Debug)]
pub struct ExchangeRecorder<W: Write> {
    to: W,
}

impl ExchangeRecorder<BufWriter<File>> {
    /// Creates a new file; an existing one is kept as it is, and is an error.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufWriter::new(File::create_new(path)?)))
    }
}

impl<W: Write> ExchangeRecorder<W> {
    /// Writes to `to`.
    pub const fn new(to: W) -> Self {
        Self { to }
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, line)?;
        self.to.write_all(b"\n")
    }

    /// The first line: the clock's configuration, its counter, its servers by name, the table of
    /// leap seconds, and the arguments of [`Ensemble::after`].
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn begin(
        &mut self,
        config: &ensemble::EnsembleConfig,
        counter: &str,
        servers: &[(&str, SourceConfig)],
        table: Option<&Table>,
        (disruptions, since): (u32, Count),
    ) -> io::Result<()> {
        let server = |&(name, SourceConfig { asymmetry, smeared }): &(&str, SourceConfig)| Server {
            name: name.into(),
            asymmetry_ns: asymmetry,
            smeared,
        };
        let servers = servers.iter().map(server).collect();
        let leap_seconds = table.map(|table| LeapSeconds {
            entries: table.entries().iter().map(|&(at, offset)| (at.0.div_euclid(SECOND), offset)).collect(),
            expires_s: table.expires().0.div_euclid(SECOND),
        });
        self.line(&Line::Begin(Begin {
            version: VERSION,
            counter: counter.into(),
            nominal: scale(config.nominal),
            rate_error: config.rate_error,
            holdover_after_ns: config.holdover_after,
            fresh_for_ns: config.fresh_for,
            tai_offset_s: config.tai_offset,
            leap_seconds,
            disruptions,
            since: since.0,
            servers,
        }))
    }

    /// Writes an exchange, before the clock processes it.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn exchange(&mut self, server: usize, exchange: &Exchange, announced: Announcement) -> io::Result<()> {
        self.line(&Line::Exchange(ExchangeRecord::new(server, exchange, announced)))
    }

    /// Writes a server's new silence timeout.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn silence_timeout(&mut self, server: usize, ns: i64) -> io::Result<()> {
        self.line(&Line::Patience { server, ns })
    }

    /// Writes a break of the counter, which is at this value now.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn disruption(&mut self, at: Count) -> io::Result<()> {
        self.line(&Line::Disruption { at: at.0 })
    }

    /// Writes the page that is published now; the file is complete up to here.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn page(&mut self, parameters: &Parameters) -> io::Result<()> {
        self.line(&Line::Page(parameters.into()))?;
        self.to.flush()
    }
}

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
enum Fault {
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

fn replay_from(mut from: impl BufRead, mut each: impl FnMut(&RecordedPage)) -> Result<Replayed, Fault> {
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
            Line::Exchange(ExchangeRecord { server, .. }) | Line::Patience { server, .. }
                if server >= replayed.servers.len() =>
            {
                return Err(wrong(format!("there is no server {server}")));
            }
            Line::Patience { server, ns } => ensemble.set_silence_timeout(server, ns),
            Line::Exchange(told) => {
                match ensemble.exchange(told.server, &told.exchange(), told.announced().map_err(wrong)?) {
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

impl ExchangeRecord {
    fn announced(&self) -> Result<Announcement, String> {
        match self.leap {
            0 => Ok(Announcement::None),
            1 => Ok(Announcement::Insert),
            -1 => Ok(Announcement::Delete),
            other => Err(format!("a leap is 1, 0 or -1 second, not {other}")),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// A record of a simulated hour: wander, lost replies, another path, a break of the counter,
    /// and a server that lies.
    fn record() -> Vec<u8> {
        use tickwire_sim::{Oscillator, OscillatorWander, SimulatedTimeServer};
        let nominal = Scale::from_period(0.4).unwrap();
        let config = ensemble::EnsembleConfig {
            nominal,
            rate_error: 100e-6,
            holdover_after: 10_000_000_000,
            fresh_for: 5_000_000_000,
            tai_offset: None,
        };
        let known = [0.1, 1.0 / 3.0, 0.0].map(|asymmetry| SourceConfig { asymmetry, smeared: false });
        let unix = |seconds: i64| Nanos(seconds * SECOND);
        let table = Table::new(vec![(unix(1_483_228_800), 37)], unix(1_800_000_000)).unwrap();
        let mut recorder = ExchangeRecorder::new(Vec::new());
        let names: Vec<_> = ["a", "b", "c"].into_iter().zip(known).collect();
        recorder.begin(&config, "TSC", &names, Some(&table), (3, Count(7))).unwrap();
        let mut ensemble = Ensemble::new(config, &known).after(3, Count(7));
        ensemble.set_leap_table(table);
        let mut oscillator = Oscillator::new(2.5e9, OscillatorWander::OFFICE, 1);
        let mut servers = [1, 2, 3].map(SimulatedTimeServer::new);
        servers[1].loss = 300_000;
        servers[2].error = 5e6;
        for second in 0..3600 {
            if second == 1800 {
                servers[0].forth.least += 50_000.0;
                oscillator.jump(-1_000_000_000);
                let now = oscillator.now();
                let count = oscillator.count(now);
                ensemble.disrupt(count);
                recorder.disruption(count).unwrap();
            }
            if second == 900 {
                ensemble.set_silence_timeout(0, 1_000_000_000);
                recorder.silence_timeout(0, 1_000_000_000).unwrap();
            }
            for (number, server) in servers.iter_mut().enumerate() {
                let at = f64::from(second) + 0.01 * number as f64;
                let Some(exchange) = server.exchange(at, &mut oscillator) else { continue };
                recorder.exchange(number, &exchange, Announcement::None).unwrap();
                let _ = ensemble.exchange(number, &exchange, Announcement::None);
                let now = oscillator.now();
                recorder.page(&ensemble.parameters(oscillator.count(now))).unwrap();
            }
        }
        recorder.to
    }

    #[test]
    fn a_replay_gives_the_same_pages_to_the_last_bit() {
        let record = record();
        let mut pages = 0;
        let replayed = replay_from(&*record, |_| pages += 1).unwrap();
        assert_eq!((replayed.different, replayed.disruptions, replayed.cut), (0, 1, false));
        assert!(replayed.pages > 9_000 && replayed.pages == pages && replayed.used > 9_000, "{replayed:?}");
        assert_eq!(replayed.servers, ["a", "b", "c"]);
        let cut = replay_from(&record[..record.len() - 10], |_| ()).unwrap();
        assert!(cut.cut && cut.pages == replayed.pages - 1);
    }

    #[test]
    fn what_was_changed_afterwards_shows() {
        let text = String::from_utf8(record()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let place = 1 + lines.iter().position(|line| line.starts_with("{\"page\"")).unwrap();
        let changed = text.replacen("\"fresh_until\":", "\"fresh_until\":1", 1);
        let replayed = replay_from(changed.as_bytes(), |_| ()).unwrap();
        assert_eq!((replayed.different, replayed.first_different), (1, Some(place)));
    }

    /// The paths of the numbers in a line.
    fn figures(value: &Value, at: &str, to: &mut Vec<String>) {
        match value {
            Value::Number(_) => to.push(at.into()),
            Value::Array(all) => all.iter().enumerate().for_each(|(i, value)| figures(value, &format!("{at}/{i}"), to)),
            Value::Object(all) => all.iter().for_each(|(name, value)| figures(value, &format!("{at}/{name}"), to)),
            _ => {}
        }
    }

    #[test]
    fn no_figure_makes_a_replay_panic() {
        let record = String::from_utf8(record()).unwrap();
        let mut lines: Vec<_> =
            record.lines().take(64).map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        lines.push(serde_json::json!({"patience": {"server": 1, "ns": 130_000_000_000_i64}}));
        let others =
            [0.into(), 1.into(), (-1).into(), i32::MAX.into(), i64::MAX.into(), i64::MIN.into(), u64::MAX.into()];
        let others: Vec<Value> = others.into_iter().chain([1e308.into(), 1e-308.into()]).collect();
        let mut replays = 0;
        // The beginning, an exchange and its page, the same much later, and the last line.
        for line in [0, 1, 2, 61, 62, 64] {
            let mut places = Vec::new();
            figures(&lines[line], "", &mut places);
            for (place, other) in places.iter().flat_map(|place| others.iter().map(move |other| (place, other))) {
                let mut changed = lines.clone();
                *changed[line].pointer_mut(place).unwrap() = other.clone();
                let text: String = changed.iter().map(|line| format!("{line}\n")).collect();
                // Replayed or refused, both will do.
                let _ = replay_from(text.as_bytes(), |_| ());
                replays += 1;
            }
        }
        assert!(replays > 500, "{replays}");
    }

    #[test]
    fn what_is_something_else_is_told_in_a_sentence() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let said = |path: &Path| replay(path, |_| ()).unwrap_err().to_string();
        let no_record = |path: &Path, why: &str| {
            let path = path.display();
            format!("{path} is no record of a clock, such as `tickwire clock run --record` writes: {why}")
        };
        assert_eq!(said(directory.path()), no_record(directory.path(), "it is a directory"));
        let long = vec![b'x'; LONGEST + 1];
        for (bytes, why) in [
            (&b""[..], "it is empty"),
            (b"To be or not to be\nthat is the question\n", "its first line does not say how a clock was set up"),
            (b"\x7fELF\0\xff\xfe", "its first line does not say how a clock was set up"),
            (&long, "its first line does not say how a clock was set up"),
            (b"{\"disruption\":{\"at\":1}}\n", "its first line does not say how a clock was set up"),
            (b"{\"begin\":{\"version\":4", "its first line does not say how a clock was set up"),
        ] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(said(&file), no_record(&file, why));
        }
        std::fs::remove_file(&file).unwrap();
        assert!(said(&file).starts_with("cannot read "), "{}", said(&file));
    }

    #[test]
    fn what_is_wrong_in_a_record_is_told_with_its_line() {
        let record = String::from_utf8(record()).unwrap();
        let begin = record.lines().next().unwrap();
        let long = format!("{begin}\n{}\n", "x".repeat(LONGEST + 1));
        for (text, number, words) in [
            ("{\"begin\":{\"version\":3,\"counter\":\"TSC\"}}\n", 1, "of version 3, this program replays version"),
            (&begin.replace(&format!("\"version\":{VERSION}"), "\"version\":9").add("\n"), 1, "of version 9"),
            (&begin.replace("\"nominal\":[", "\"nominal\":[9").add("\n"), 1, "no counter's"),
            (&begin.replace("\"rate_error\":0.0001", "\"rate_error\":1.0").add("\n"), 1, "1e-12 and 0.01"),
            (&begin.replace("\"fresh_for_ns\":", "\"fresh_for_ns\":-").add("\n"), 1, "is negative"),
            (&begin.replace("\"tai_offset_s\":null", "\"tai_offset_s\":1001").add("\n"), 1, "0 and 1000"),
            (&begin.replace("\"asymmetry_ns\":0.1", "\"asymmetry_ns\":1.1e9").add("\n"), 1, "more than a second"),
            (&begin.replace("\"counter\"", "\"clock\"").add("\n"), 1, "it is no line of a record: unknown field"),
            (&format!("{begin}\n{begin}\n"), 2, "for a second time"),
            (&format!("{begin}\n{{\"page\":{{}}}}\n"), 2, "missing field"),
            (
                &format!(
                    "{}\n",
                    record.lines().take(2).collect::<Vec<_>>().join("\n").replace("{\"server\":0", "{\"server\":7")
                ),
                2,
                "there is no server 7",
            ),
            (&format!("{begin}\n{{\"patience\":{{\"server\":3,\"ns\":1}}}}\n"), 2, "there is no server 3"),
            (&long, 2, "longer than any line"),
        ] {
            match replay_from(text.as_bytes(), |_| ()) {
                Err(Fault::Wrong(line, what)) => {
                    assert!(line == number && what.contains(words), "{words}: {line}: {what}")
                }
                other => panic!("{words}: {other:?}"),
            }
        }
    }

    trait Add {
        fn add(self, end: &str) -> String;
    }

    impl Add for String {
        fn add(self, end: &str) -> String {
            self + end
        }
    }
}
