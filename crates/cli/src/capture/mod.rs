//! `tickwire capture`: the packets that tcpdump cannot see.

mod clock;
mod file;
mod stream;
mod wanted;

use crate::args::capture::Capture;
use crate::client::{Client, unexpected};
use anyhow::{Context, Result, bail};
use clock::WallClock;
use file::File;
use std::collections::HashMap;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stream::{Stream, Turn};
use tickwire_lane::control::{CountersOf, Reply, Request};
use tickwire_lane_linux::bpf::{CaptureRecord, HostCounter};

/// The longest time that packets stay in the buffer while no more come, so that a reader of the
/// file or pipe sees them soon.
const TIMEOUT: Duration = Duration::from_millis(100);
/// While no packets come, the interval at which the only lane of interest is checked to still
/// exist.
const LOOK: Duration = Duration::from_secs(1);

/// Captures until Ctrl-C, until enough packets have come, or until the service ends.
pub(crate) fn run(arguments: &Capture) -> Result<()> {
    let end = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&end);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("cannot wait for Ctrl-C")?;

    let mut client = Client::connect(&arguments.socket.path())?;
    let waits_for = wanted::check(&wanted::lanes(&mut client)?, arguments, nix::unistd::geteuid().is_root())?;
    let mut names = Names::read(&mut client)?;
    let out = open(&arguments.write)?;
    let lost_before = lost(&mut client)?;
    let request = Request::Capture { lane: arguments.lane.unwrap_or(0), snaplen: arguments.snaplen };
    let (reply, mut descriptors) = client.ask(&request)?;
    let Reply::Capturing = reply else { return Err(unexpected(&reply)) };
    let mut stream = Stream::new(descriptors.take(0).context("the service gave no stream")?);
    let clock = WallClock::new().context("cannot read the clocks")?;
    let to = if is_stdout(&arguments.write) { "standard output".into() } else { arguments.write.display().to_string() };
    let cannot_write = || format!("cannot write to {to}");
    let mut file = File::new(out, clock, arguments.snaplen).with_context(cannot_write)?;
    file.flush().with_context(cannot_write)?;
    eprintln!("tickwire: capturing to {to} (Ctrl-C ends)");
    if let Some(what) = waits_for {
        eprintln!("tickwire: waiting for {what}");
    }

    let mut count = 0;
    let mut looked = Instant::now();
    while !end.load(Ordering::Relaxed) && arguments.count.is_none_or(|most| count < most) {
        match stream.next(TIMEOUT)? {
            Turn::Ended => {
                eprintln!("tickwire: the service has ended the capture");
                break;
            }
            Turn::Quiet => {
                file.flush().with_context(cannot_write)?;
                if let Some(lane) = arguments.lane.filter(|_| looked.elapsed() >= LOOK) {
                    looked = Instant::now();
                    if wanted::lanes(&mut client).is_ok_and(|lanes| lanes.iter().all(|other| other.number != lane)) {
                        eprintln!("tickwire: lane {lane} has ended");
                        break;
                    }
                }
            }
            Turn::Record(entry) => {
                let Some((record, bytes)) = CaptureRecord::parse(entry) else { continue };
                names.learn(&mut client, record.lane);
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
    let lost = lost(&mut client).map_or(0, |after| after.saturating_sub(lost_before));
    eprintln!("tickwire: {count} packets recorded, {lost} lost");
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn open(path: &Path) -> Result<BufWriter<Box<dyn Write>>> {
    let out: Box<dyn Write> = if is_stdout(path) {
        if std::io::stdout().is_terminal() {
            bail!("packets are nothing for a terminal: name a file with -w, or pass standard output on to a program");
        }
        Box::new(std::io::stdout())
    } else {
        Box::new(std::fs::File::create(path).with_context(|| format!("cannot create {}", path.display()))?)
    };
    Ok(BufWriter::with_capacity(1 << 16, out))
}

fn lost(client: &mut Client) -> Result<u64> {
    match client.ask(&Request::Counters { of: CountersOf::Host, lane: 0 })?.0 {
        Reply::Counters { figures } => {
            Ok(figures.as_slice().get(HostCounter::CaptureLost as usize).copied().unwrap_or(0))
        }
        reply => Err(unexpected(&reply)),
    }
}

/// The names of lanes and network cards.
#[derive(Default)]
struct Names {
    /// Program and process by lane; none if the service does not know.
    programs: HashMap<u32, Option<(String, u32)>>,
    cards: HashMap<u32, String>,
}

impl Names {
    fn read(client: &mut Client) -> Result<Self> {
        let mut names = Self::default();
        let mut after = 0;
        while let Reply::Interface { info } = client.ask(&Request::ListInterfaces { after })?.0 {
            after = info.interface;
            names.cards.insert(after, info.name.as_str().to_owned());
        }
        Ok(names)
    }

    /// Asks the service about a lane at its first packet.
    fn learn(&mut self, client: &mut Client, lane: u32) {
        if self.programs.contains_key(&lane) {
            return;
        }
        let before = u64::from(lane).saturating_sub(1);
        let program = match client.ask(&Request::ListLanes { after: before }) {
            Ok((Reply::LaneInfo { info, .. }, _)) if info.lane == lane => {
                Some((info.program.as_str().to_owned(), info.pid))
            }
            _ => None,
        };
        self.programs.insert(lane, program);
    }

    /// Whether a lane is that of a program, by its name or process number.
    fn is(&self, lane: u32, wanted: &str) -> bool {
        let program = self.programs.get(&lane).and_then(Option::as_ref);
        program.is_some_and(|(name, pid)| wanted::is(name, *pid, wanted))
    }

    /// Name and description of the interface of a record.
    fn describe(&self, record: &CaptureRecord) -> (String, String) {
        let lane = record.lane;
        let who = match self.programs.get(&lane) {
            Some(Some((name, pid))) => format!("{name} (process {pid})"),
            _ => format!("the program of lane {lane}"),
        };
        if record.outgoing {
            return (format!("lane{lane}"), format!("sent by {who}"));
        }
        let card = self.cards.get(&record.nic).cloned().unwrap_or_else(|| format!("if{}", record.nic));
        (format!("lane{lane}:{card}"), format!("came by {card} for {who}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_named_after_lane_card_and_program() {
        let mut names = Names::default();
        names.cards.insert(2, "eth0".into());
        names.programs.insert(5, Some(("nginx".into(), 77)));
        let record = CaptureRecord { monotonic_ns: 0, lane: 5, nic: 2, length: 60, outgoing: false };
        assert_eq!(names.describe(&record), ("lane5:eth0".into(), "came by eth0 for nginx (process 77)".into()));
        let sent = CaptureRecord { outgoing: true, ..record };
        assert_eq!(names.describe(&sent), ("lane5".into(), "sent by nginx (process 77)".into()));
        assert!(names.is(5, "nginx") && names.is(5, "77") && !names.is(5, "redis") && !names.is(6, "nginx"));
    }
}
