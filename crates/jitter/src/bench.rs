//! A lab of two hosts on one cable: the kernel's path and Tickwire's, by the same method.
//!
//! What sends is this program, in host a, as it is or under `tickwire run --require`. What receives
//! is this program, in host b, whose kernel stamps each message when the cable's driver hands it
//! over. Both read one CLOCK_REALTIME. Stamps of the sender's own driver are the kernel's path
//! only: a socket that asks for them is the kernel's under `tickwire run`, too. So these are taken
//! in runs of their own, and the two paths are compared by runs that ask for nothing.

use crate::pace::Wait;
use crate::quantity::Carrier;
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
use tickwire_lab::{Pair, Service};

/// For so long beyond its own bound a sender is waited for: it has to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// For so long messages may be on their way after the sender has sent the last.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// The longest answer of a sender, in bytes for each message.
const TOLD: u64 = 256;

/// The lab.
#[derive(Debug)]
pub(crate) struct Bench {
    // Before the hosts: the service ends with its host still there.
    service: Option<Service>,
    pair: Pair,
    program: PathBuf,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Run {
    /// With the warm-up.
    pub(crate) messages: Vec<Message>,
    /// Of a run on Tickwire: the packets that the guard of its lane let out.
    pub(crate) lane_packets: Option<u64>,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) carrier: Carrier,
    pub(crate) wait: Wait,
    /// Whether the sender's driver stamps it.
    pub(crate) stamps: bool,
    pub(crate) messages: u32,
    pub(crate) frame: u32,
}

impl Bench {
    /// Makes the lab; and why it has no Tickwire if it has none.
    ///
    /// # Errors
    /// Not root, or no namespaces.
    pub(crate) fn new() -> Result<(Self, Option<String>)> {
        let program = std::env::current_exe().context("cannot find the running program")?;
        let pair = Pair::new()?;
        let (service, why) = match Service::start(&pair.a) {
            Ok(service) => (Some(service), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Ok((Self { service, pair, program }, why))
    }

    /// Whether Tickwire runs here.
    pub(crate) const fn has_tickwire(&self) -> bool {
        self.service.is_some()
    }

    /// One run.
    ///
    /// # Errors
    /// The sender fails, or what was to take the lane did not.
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

    /// Starts a sender and takes in what it tells; it is kept until its lane has been looked at.
    fn send(&self, order: &Order, to: SocketAddr) -> Result<Run> {
        let program = self.program.to_str().context("the path of this program is no text")?;
        let mut command = match order.carrier {
            Carrier::Kernel => self.pair.a.command(program),
            Carrier::Tickwire => self.pair.a.accelerated(program)?,
        };
        command.args(["jitter", "--send", &to.to_string(), "--samples", &order.messages.to_string()]);
        command.args(["--size", &order.frame.to_string()]);
        command.args(Some("--sleep").filter(|_| order.wait == Wait::Sleep));
        command.args(Some("--stamps").filter(|_| order.stamps));
        // Ctrl-C ends the lab, which then ends what runs in it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut sending = Sending(command.spawn().context("cannot start the sender")?);
        let messages = sending.told(order.messages)?;
        let lane_packets = match order.carrier {
            Carrier::Kernel => None,
            Carrier::Tickwire => Some(proven(&Stat::read(&self.pair.a)?, sending.0.id(), messages.len() as u64)?),
        };
        Ok(Run { messages, lane_packets })
    }
}

/// A sender; killed when dropped.
struct Sending(Child);

impl Sending {
    /// What it tells when it has sent so many messages. Asleep until then: who looks again and
    /// again takes the processor from what is measured.
    fn told(&mut self, messages: u32) -> Result<Vec<Message>> {
        let out = self.0.stdout.take().context("no standard output")?;
        let patience = PollTimeout::try_from(sender::longest(messages) + PATIENCE).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLIN)], patience)?;
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

/// The packets that the guards of a program's lanes let out: at least so many, or it was not
/// Tickwire's path.
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
