//! A lab of two hosts on one cable: the kernel's path and Tickwire's, measured by the same method.
//!
//! The sender is this program in host a, alone or under `tickwire run --require`. The receiver is
//! this program in host b, whose kernel timestamps each message when the cable's driver delivers
//! it. Both read one CLOCK_REALTIME. Timestamps of the sender's own driver exist on the kernel's
//! path only: a socket that requests them is a kernel socket under `tickwire run`, too. So these
//! have runs of their own, and the two paths are compared by runs that request none.

use crate::pace::Wait;
use crate::quantity::MessageCarrier;
use crate::receiver::{self, Receiver};
use crate::sender::{self, Message};
use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tickwire_lab::stat::Stat;
use tickwire_lab::{LabPair, Service};

/// Timeout for a sender beyond the longest duration of its run, because it has to start on a busy
/// machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for messages after the sender has sent the last one.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// The longest output of a sender, in bytes for each message.
const TOLD: u64 = 256;

/// The lab.
#[derive(Debug)]
pub(crate) struct Bench {
    // Declared before the hosts, so that it is dropped before its host.
    service: Option<Service>,
    pair: LabPair,
    program: PathBuf,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Run {
    /// All messages, including the warm-up.
    pub(crate) messages: Vec<Message>,
    /// For a run on Tickwire: the packets that the guard of its lane let out.
    pub(crate) lane_packets: Option<u64>,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) carrier: MessageCarrier,
    pub(crate) wait: Wait,
    /// Whether the sender's driver timestamps the messages.
    pub(crate) stamps: bool,
    pub(crate) messages: u32,
    pub(crate) frame: u32,
}

impl Bench {
    /// Creates the lab. Returns the reason too if it has no Tickwire.
    ///
    /// # Errors
    /// Not root, or no namespaces.
    pub(crate) fn new() -> Result<(Self, Option<String>)> {
        let program = std::env::current_exe().context("cannot find the running program")?;
        let pair = LabPair::new()?;
        let (service, why) = match Service::start(&pair.a) {
            Ok(service) => (Some(service), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Ok((Self { service, pair, program }, why))
    }

    /// Whether Tickwire runs in the lab.
    pub(crate) const fn has_tickwire(&self) -> bool {
        self.service.is_some()
    }

    /// One run.
    ///
    /// # Errors
    /// The sender fails, or its messages did not take the lane.
    pub(crate) fn run(&self, order: &Order) -> Result<Run> {
        let address = self.pair.b_v4().parse().context("the lab's address")?;
        let receiver = self.pair.b.within(|| Receiver::open(address))?.context("cannot receive")?;
        let to = receiver.address().context("cannot receive")?;
        let payload = sender::payload(order.frame, to.ip()).context("the frame is too short")?;
        let stop = AtomicBool::new(false);
        let (sent, arrivals) = std::thread::scope(|scope| {
            let collecting = scope.spawn(|| receiver.collect(payload, &stop));
            let sent = self.send(order, to);
            std::thread::sleep(UNDER_WAY);
            stop.store(true, Ordering::Relaxed);
            (sent, collecting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let mut run = sent?;
        receiver::enter(&mut run.messages, &arrivals);
        Ok(run)
    }

    /// Starts a sender and reads its output. The sender is kept until its lane has been checked.
    fn send(&self, order: &Order, to: SocketAddr) -> Result<Run> {
        let program = self.program.to_str().context("the path of this program is no text")?;
        let mut command = match order.carrier {
            MessageCarrier::Kernel => self.pair.a.command(program),
            MessageCarrier::Tickwire => self.pair.a.accelerated(program)?,
        };
        command.args(["jitter", "--send", &to.to_string(), "--samples", &order.messages.to_string()]);
        command.args(["--size", &order.frame.to_string()]);
        command.args(Some("--sleep").filter(|_| order.wait == Wait::Sleep));
        command.args(Some("--stamps").filter(|_| order.stamps));
        // A process group of its own: Ctrl-C ends the lab, which then ends its processes.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut sending = Sending(command.spawn().context("cannot start the sender")?);
        let messages = sending.told(order.messages)?;
        let lane_packets = match order.carrier {
            MessageCarrier::Kernel => None,
            MessageCarrier::Tickwire => {
                Some(proven(&Stat::read(&self.pair.a)?, sending.0.id(), messages.len() as u64)?)
            }
        };
        Ok(Run { messages, lane_packets })
    }
}

/// A sender; killed when dropped.
struct Sending(Child);

impl Sending {
    /// Reads the sender's output after it has sent its messages. This sleeps until then, because
    /// polling would take the processor from the measured program.
    fn told(&mut self, messages: u32) -> Result<Vec<Message>> {
        let out = self.0.stdout.take().context("no standard output")?;
        let timeout = PollTimeout::try_from(sender::longest(messages) + TIMEOUT).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLIN)], timeout)?;
        if ready == 0 {
            bail!("the sender did not end in time");
        }
        let mut line = String::new();
        let most = TOLD * u64::from(sender::WARM_UP + messages);
        BufReader::new(out).take(most).read_line(&mut line).context("cannot read what the sender tells")?;
        if line.is_empty() {
            let mut words = String::new();
            if let Some(mut said) = self.0.stderr.take() {
                said.read_to_string(&mut words).context("cannot read what the sender says")?;
            }
            bail!("the sender ended ({}): {}", self.0.wait()?, words.trim());
        }
        serde_json::from_str(&line).context("the sender told something else than its messages")
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The packets that the guards of a program's lanes let out. It is an error if they are fewer than
/// the messages, because then some took another path.
fn proven(stat: &Stat, process: u32, messages: u64) -> Result<u64> {
    let lanes = stat.lanes_of(process);
    let out = lanes.iter().filter_map(|lane| lane["guard"]["out_packets"].as_u64()).sum();
    if out < messages {
        bail!("the guard of its lane let out {out} of {messages} packets, so others took the kernel's path");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_packets_of_the_programs_own_lane_prove_its_path() {
        let lane = |process: u32, out: u64| json!({"pid": process, "guard": {"out_packets": out}});
        let stat = Stat { json: json!({"lanes": [lane(7, 250), lane(8, 1_000_000), {"pid": 9}]}) };
        assert_eq!(proven(&stat, 7, 250).unwrap(), 250);
        for (process, messages, words) in [
            (7, 251, "let out 250 of 251 packets"),
            (9, 1, "let out 0 of 1 packets"),
            (10, 1, "let out 0 of 1 packets"),
        ] {
            let error = proven(&stat, process, messages).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_sender_that_ends_is_told_with_its_words() {
        let start = |script: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            Sending(command.spawn().unwrap()).told(50).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(
            start("echo no service >&2; exit 69").unwrap_err(),
            "the sender ended (exit status: 69): no service"
        );
        assert!(start("echo hello").unwrap_err().starts_with("the sender told something else than its messages"));
        let one = r#"[{"due":1,"call":2,"driver":null,"wire":null,"peer":null}]"#;
        assert_eq!(start(&format!("echo '{one}'; cat")).unwrap().len(), 1);
    }
}
