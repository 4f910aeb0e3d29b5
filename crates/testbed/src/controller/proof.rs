//! Which of the nodes' sockets are on a lane, and how much was diverted to it, by what the hosts' services say: figures of Tickwire are only figures of
//! Tickwire if its traffic took the lane.

use super::place::Place;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Stdio;

/// What a host's service says of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Proof {
    /// Packets that were diverted to lanes of this host since its service started.
    pub(super) diverted: u64,
    /// Sockets of the process that are on its lane.
    pub(super) on_lane: u64,
    /// All sockets of the process that its lane knows.
    pub(super) sockets: u64,
}

impl Proof {
    /// Asks the host's service.
    pub(super) fn ask(place: &Place, pid: u32) -> Result<Self> {
        let mut command = place.tickwire(&["stat", "--json"]);
        let output = command
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{}: cannot ask `tickwire stat`", place.name))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!("{}: `tickwire stat` failed: {}", place.name, words.trim());
        }
        let said = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{}: `tickwire stat --json` did not print JSON", place.name))?;
        Ok(Self::read(&said, pid))
    }

    fn read(said: &Value, pid: u32) -> Self {
        let lanes = said["lanes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let sockets =
            || lanes.iter().filter(|lane| lane["pid"] == pid).flat_map(|lane| lane["sockets"].as_array()).flatten();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            diverted: said.pointer("/host/counters/diverted").and_then(Value::as_u64).unwrap_or(0),
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
                { "pid": 5, "sockets": [socket(true), socket(false), socket(true)] },
                { "pid": 6, "sockets": [socket(true)] },
            ],
        });
        assert_eq!(Proof::read(&said, 5), Proof { diverted: 7, on_lane: 2, sockets: 3 });
        assert_eq!(Proof::read(&json!({}), 5), Proof::default());
    }
}
