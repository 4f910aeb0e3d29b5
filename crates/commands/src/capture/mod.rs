//! `tickwire capture`: the packets that other tools cannot see.
//!
//! | module | purpose |
//! |---|---|
//! | `wanted` | what a capture is of, checked before it begins |
//! | `names` | the names of lanes, programs and network cards |
//! | `file` | the pcapng file |
//! | `wall_clock` | the time of day of packets' timestamps |
//!
//! How the service is asked, and how its packets arrive, is the system's: [`CaptureService`].

mod file;
mod names;
mod wall_clock;
mod wanted;

pub use wall_clock::WallClock;

use crate::args::capture::CaptureOptions;
use anyhow::{Context, Result, bail};
use file::CaptureFile;
use names::Names;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tickwire_lane::capture_record::CaptureRecord;
use tickwire_lane::control::{Reply, Request};

/// The longest time that packets stay in the buffer while no more come, so that a reader of the
/// file or pipe sees them soon.
const TIMEOUT: Duration = Duration::from_millis(100);
/// While no packets come, the interval at which the only lane of interest is checked to still
/// exist.
const LOOK: Duration = Duration::from_secs(1);
/// After Ctrl-C, what has come before is recorded for so long at most.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// The result of a wait for a captured packet.
#[derive(Debug)]
pub enum Turn<'a> {
    /// An entry: a record with its bytes ([`CaptureRecord::parse`]).
    Record(&'a [u8]),
    /// None within the time.
    Quiet,
    /// The service has ended the capture.
    Ended,
}

/// The service, as a capture needs it.
pub trait CaptureService {
    /// Where captured packets arrive.
    type Stream: CaptureStream;

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// The service is gone, stuck, or refuses.
    fn ask(&mut self, request: &Request) -> Result<Reply>;

    /// Begins a capture.
    ///
    /// # Errors
    /// As [`CaptureService::ask`].
    fn begin(&mut self, request: &Request) -> Result<Self::Stream>;

    /// How many packets of captures the service has lost so far.
    ///
    /// # Errors
    /// As [`CaptureService::ask`].
    fn lost(&mut self) -> Result<u64>;
}

/// Captured packets of the service.
pub trait CaptureStream {
    /// The next entry, if one comes within this time. A signal may end the wait.
    ///
    /// # Errors
    /// The system cannot read, or cannot wait.
    fn next(&mut self, time_limit: Duration) -> Result<Turn<'_>>;
}

/// Captures until Ctrl-C, until enough packets have come, or until the service ends.
/// `may_see_all`: this user captures the lanes of all users, and those that begin later. `clock`
/// converts the packets' timestamps.
///
/// # Errors
/// The service is gone or refuses, there is nothing to capture, or the file cannot be written.
pub fn run(
    arguments: &CaptureOptions,
    service: &mut impl CaptureService,
    may_see_all: bool,
    clock: WallClock,
) -> Result<()> {
    let end = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&end);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("cannot wait for Ctrl-C")?;

    let waits_for = wanted::check(&wanted::lanes(service)?, arguments, may_see_all)?;
    let mut names = Names::read(service)?;
    let out = Output::open(&arguments.write)?;
    let lost_before = service.lost()?;
    let request = Request::Capture { lane: arguments.lane.unwrap_or(0), snaplen: arguments.snaplen };
    let mut stream = service.begin(&request)?;
    let to = if is_stdout(&arguments.write) { "standard output".into() } else { arguments.write.display().to_string() };
    let cannot_write = || format!("cannot write to {to}");
    let out = out.empty().with_context(cannot_write)?;
    let mut file = CaptureFile::new(out, clock, arguments.snaplen).with_context(cannot_write)?;
    file.flush().with_context(cannot_write)?;
    eprintln!("tickwire: capturing to {to} (Ctrl-C ends)");
    if let Some(what) = waits_for {
        eprintln!("tickwire: waiting for {what}");
    }

    let mut count = 0;
    let mut looked = Instant::now();
    let mut told: Option<Instant> = None;
    while arguments.count.is_none_or(|most| count < most) {
        if told.is_none() && end.load(Ordering::Relaxed) {
            told = Some(Instant::now());
        }
        if told.is_some_and(|told| told.elapsed() > LONGEST_REST) {
            break;
        }
        match stream.next(if told.is_some() { Duration::ZERO } else { TIMEOUT })? {
            Turn::Quiet if told.is_some() => break,
            Turn::Ended => {
                eprintln!("tickwire: the service has ended the capture");
                break;
            }
            Turn::Quiet => {
                file.flush().with_context(cannot_write)?;
                if let Some(lane) = arguments.lane.filter(|_| looked.elapsed() >= LOOK) {
                    looked = Instant::now();
                    if wanted::lanes(service).is_ok_and(|lanes| lanes.iter().all(|other| other.number != lane)) {
                        eprintln!("tickwire: lane {lane} has ended");
                        break;
                    }
                }
            }
            Turn::Record(entry) => {
                let Some((record, bytes)) = CaptureRecord::parse(entry) else { continue };
                names.learn(service, record.lane);
                if arguments.program.as_ref().is_some_and(|program| !names.is(record.lane, program)) {
                    continue;
                }
                file.write(&record, bytes, || names.describe(&record)).with_context(cannot_write)?;
                count += 1;
            }
        }
    }
    file.flush().with_context(cannot_write)?;
    // The service may be gone.
    let lost = service.lost().map_or(0, |after| after.saturating_sub(lost_before));
    eprintln!("tickwire: {count} packets recorded, {lost} lost");
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Where captured packets go.
enum Output {
    Standard,
    /// It has what it had before.
    File(File),
}

impl Output {
    fn open(path: &Path) -> Result<Self> {
        if is_stdout(path) {
            if std::io::stdout().is_terminal() {
                bail!(
                    "packets are nothing for a terminal: name a file with -w, or pass standard output on to a program"
                );
            }
            return Ok(Self::Standard);
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        Ok(Self::File(file.with_context(|| format!("cannot create {}", path.display()))?))
    }

    /// Empties the file. To be called when the service has begun the capture: it may refuse it.
    fn empty(self) -> std::io::Result<BufWriter<Box<dyn Write>>> {
        let out: Box<dyn Write> = match self {
            Self::Standard => Box::new(std::io::stdout()),
            Self::File(file) => {
                // Pipes and devices have no length.
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                Box::new(file)
            }
        };
        Ok(BufWriter::with_capacity(1 << 16, out))
    }
}

/// The error for a reply of the wrong type.
fn unexpected(reply: &Reply) -> anyhow::Error {
    anyhow::anyhow!("the service gave an unexpected answer ({reply:?}): is it of another version?")
}
