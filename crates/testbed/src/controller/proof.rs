//! The nodes' sockets on a lane, and the packets diverted to it, as the hosts' services report
//! them. A run counts as Tickwire's only if its traffic used the lane.

use super::host::NodeHost;
use super::stderr_tail::StderrTail;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The longest answer of a service, in bytes: a thousand sockets take less than 1 MiB.
const LONGEST: u64 = 16 << 20;

/// A service's report on one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// Packets diverted to lanes of this host since its service started.
    pub diverted: u64,
    /// Packets that the process has sent through its lane.
    pub sent: u64,
    /// Packets for the process that its lane had no room for.
    pub lost: u64,
    /// Sockets of the process that are on its lane.
    pub on_lane: u64,
    /// All sockets of the process that its lane knows.
    pub sockets: u64,
}

/// A running command, killed when dropped.
struct Asked(Child);

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Proof {
    /// Asks the host's service.
    ///
    /// # Errors
    /// It did not answer within this time, or the answer is invalid.
    pub(super) fn ask(place: &NodeHost, pid: u32, within: Duration) -> Result<Self> {
        let name = &place.name;
        let until = Instant::now() + within;
        let mut command = place.tickwire(&["stat", "--json"]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_string_lossy().into_owned();
        let mut asked = Asked(command.spawn().with_context(|| format!("{name}: cannot start `{program}`"))?);
        let (stdout, stderr) =
            (asked.0.stdout.take().context("no output")?, asked.0.stderr.take().context("no errors")?);
        let words = StderrTail::of(stderr);
        let (answer, answered) = channel();
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let read = stdout.take(LONGEST).read_to_end(&mut said);
            // The receiver may be gone after a timeout; then the result is not needed.
            let _ = answer.send(read.map(|_| said));
        });
        let late = || format!("{name}: `tickwire stat` did not answer within {} s", within.as_secs());
        let said = answered.recv_timeout(until.saturating_duration_since(Instant::now())).ok().with_context(late)??;
        let status = loop {
            match asked.0.try_wait()? {
                Some(status) => break status,
                None if Instant::now() > until => bail!("{}", late()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if !status.success() {
            match words.line() {
                line if line.is_empty() => bail!("{name}: `tickwire stat` failed ({status})"),
                line => bail!("{name}: `tickwire stat` failed ({status}): {line}"),
            }
        }
        let said = serde_json::from_slice(&said)
            .ok()
            .with_context(|| format!("{name}: `tickwire stat --json` did not print JSON"))?;
        Ok(Self::read(&said, pid))
    }

    /// Whether packets used the lane since `before`: received ones, or sent ones where none are
    /// received.
    pub(super) const fn is_proof_since(&self, before: &Self) -> bool {
        self.diverted > before.diverted || self.sent > before.sent
    }

    fn read(said: &Value, pid: u32) -> Self {
        let lanes = said["lanes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let own = || lanes.iter().filter(|lane| lane["pid"] == pid);
        let sockets = || own().flat_map(|lane| lane["sockets"].as_array()).flatten();
        let of_guard = |name: &str| own().filter_map(|lane| lane["guard"][name].as_u64()).fold(0, u64::saturating_add);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            diverted: said.pointer("/host/counters/diverted").and_then(Value::as_u64).unwrap_or(0),
            sent: of_guard("out_packets"),
            lost: of_guard("lost_ring_full"),
            on_lane: count(sockets().filter(|socket| socket["accelerated"] == true).count()),
            sockets: count(sockets().count()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sockets_are_counted_of_the_process_that_was_asked_for() {
        let socket = |accelerated: bool| json!({ "accelerated": accelerated });
        let said = json!({
            "host": { "counters": { "diverted": 7 } },
            "lanes": [
                { "pid": 5, "guard": { "out_packets": 9, "lost_ring_full": 4 }, "sockets": [socket(true), socket(false), socket(true)] },
                { "pid": 6, "guard": { "out_packets": 1 }, "sockets": [socket(true)] },
            ],
        });
        assert_eq!(Proof::read(&said, 5), Proof { diverted: 7, sent: 9, lost: 4, on_lane: 2, sockets: 3 });
        assert_eq!(Proof::read(&json!({}), 5), Proof::default());
    }
}
