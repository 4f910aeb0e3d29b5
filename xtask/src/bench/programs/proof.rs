//! Proof that a measurement's traffic crossed the stack at an accelerated end: the lane's counters,
//! and the reasons where it did not.

use super::ways::End;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tickwire_lab::stat::Stat;
use tickwire_lab::{LabHost, Process, tools};

/// A measurement with fewer packets than this is invalid.
const FEWEST: u64 = 100;
/// The timeout of `tickwire stat`.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What `tickwire stat --json` showed of one end during a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Lanes of earlier programs.
    old: BTreeSet<u64>,
    /// Packets that were diverted to lanes before.
    before: u64,
    diverted: u64,
    /// Packets in and out of the lanes of this measurement, at most.
    through_lanes: u64,
    /// Sockets that were on the kernel, or in part, with the reason.
    reasons: BTreeSet<String>,
}

impl Seen {
    /// Before the programs start.
    pub(super) fn begin(host: &LabHost) -> Result<Self> {
        let stat = read(host)?;
        let old = stat.all_lanes().iter().filter_map(|lane| lane["lane"].as_u64()).collect();
        Ok(Self { old, before: stat.diverted(), ..Self::default() })
    }

    /// Adds another reading.
    pub(super) fn add(&mut self, stat: &Stat) {
        self.diverted = self.diverted.max(stat.diverted().saturating_sub(self.before));
        let is_new = |lane: &&Value| lane["lane"].as_u64().is_none_or(|number| !self.old.contains(&number));
        let lanes: Vec<&Value> = stat.all_lanes().iter().filter(is_new).collect();
        self.through_lanes = self.through_lanes.max(lanes.iter().map(|lane| packets(lane)).sum());
        self.reasons.extend(lanes.iter().flat_map(|lane| reasons(lane)));
    }

    /// A lower bound of the packets that crossed the stack at this end.
    pub(super) fn crossed(&self) -> u64 {
        self.diverted.max(self.through_lanes)
    }

    pub(super) fn reasons(&self) -> impl Iterator<Item = &String> {
        self.reasons.iter()
    }

    /// Fails unless as many packets crossed as the measurement must have had.
    pub(super) fn check(&self, end: End, packets: u64) -> Result<()> {
        let (crossed, needed) = (self.crossed(), packets.max(FEWEST));
        if crossed >= needed {
            return Ok(());
        }
        let reasons: Vec<&str> = self.reasons().map(String::as_str).collect();
        let reasons = if reasons.is_empty() { "`tickwire stat` gives no reason".into() } else { reasons.join("; ") };
        bail!("NOT ON TICKWIRE: {crossed} of at least {needed} packets crossed the stack of the {end}: {reasons}")
    }
}

/// One reading, bounded in time.
pub(super) fn read(host: &LabHost) -> Result<Stat> {
    let mut command = host.command(&tools::tickwire()?.to_string_lossy());
    command.args(["stat", "--json"]);
    let text = Process::spawn(command)?.success(TIMEOUT)?;
    Ok(Stat { json: serde_json::from_str(&text).context("`tickwire stat --json` did not print JSON")? })
}

fn packets(lane: &Value) -> u64 {
    ["in_packets", "out_packets"].iter().filter_map(|name| lane["guard"][name].as_u64()).sum()
}

fn reasons(lane: &Value) -> Vec<String> {
    let program = lane["program"].as_str().unwrap_or("?");
    let mut reasons: Vec<String> =
        lane["reason"].as_str().map(|reason| format!("{program}: {reason}")).into_iter().collect();
    for socket in lane["sockets"].as_array().into_iter().flatten() {
        let Some(reason) = socket["reason"].as_str() else { continue };
        let part = if socket["accelerated"] == true { " in part" } else { "" };
        let protocol = socket["protocol"].as_str().unwrap_or("?");
        let local = socket["local"].as_str().unwrap_or("*");
        // Without ephemeral ports: they would make every reason unique.
        let address = local.rsplit_once(':').map_or(local, |(address, _)| address);
        reasons.push(format!("{program}, {protocol} at {address}{part}: {reason}"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stat(diverted: u64, lane: u64, packets: u64) -> Stat {
        let socket =
            json!({"protocol": "tcp", "local": "10.77.0.1:4711", "accelerated": false, "reason": "an old socket"});
        let lane = json!({
            "lane": lane, "program": "client", "accelerated": true, "reason": null,
            "guard": {"in_packets": packets, "out_packets": packets}, "sockets": [socket],
        });
        Stat { json: json!({"host": {"counters": {"diverted": diverted}}, "lanes": [lane]}) }
    }

    fn seen(readings: &[Stat]) -> Seen {
        let mut seen = Seen { before: 1000, old: BTreeSet::from([1]), ..Seen::default() };
        readings.iter().for_each(|stat| seen.add(stat));
        seen
    }

    #[test]
    fn packets_count_by_divert_and_by_the_lanes_of_the_measurement() {
        assert_eq!(seen(&[stat(1400, 2, 150), stat(1500, 2, 10)]).crossed(), 500);
        assert_eq!(seen(&[stat(1001, 2, 300)]).crossed(), 600, "a sender only");
        assert_eq!(seen(&[stat(1001, 1, 300)]).crossed(), 1, "a lane of the program before");
    }

    #[test]
    fn too_few_packets_are_told_with_the_reasons() {
        let seen = seen(&[stat(1040, 2, 0)]);
        let told = seen.check(End::Server, 2000).unwrap_err().to_string();
        assert!(
            told.starts_with("NOT ON TICKWIRE: 40 of at least 2000 packets") && told.contains("the server"),
            "{told}"
        );
        assert!(told.ends_with("client, tcp at 10.77.0.1: an old socket"), "{told}");
        assert!(seen.check(End::Server, 0).is_err());
        let mut enough = seen.clone();
        enough.add(&stat(3000, 2, 0));
        enough.check(End::Server, 2000).unwrap();
    }
}
