//! What the service's log says of lanes: the proof that a lane has carried traffic.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// What the log says when a lane has ended.
const ENDED: &str = "a lane has ended";

/// What a lane has carried that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EndedLane {
    /// Packets that it has received, and that it has sent.
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Received packets that found no room in its ring.
    pub(super) lost: u64,
}

/// Whether a lane has ended.
pub(super) fn has_ended(log: &str) -> bool {
    log.contains(ENDED)
}

/// The lanes that have ended, in order.
///
/// # Errors
/// If a figure is missing; if a packet was refused, or was no packet.
pub(super) fn ended_lanes(log: &str) -> Result<Vec<EndedLane>> {
    log.lines().filter(|line| line.contains(ENDED)).map(ended).collect()
}

fn ended(line: &str) -> Result<EndedLane> {
    let count = |name: &str| -> Result<u64> {
        let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|number| number.parse().ok()).with_context(|| format!("no {name}: {line}"))
    };
    for name in ["refused", "malformed"] {
        ensure!(count(name)? == 0, "{name} packets: {line}");
    }
    Ok(EndedLane { received: count("in_packets")?, sent: count("out_packets")?, lost: count("ring_full")? })
}

/// What the only lane has carried, as the testbed's controller has it. Each socket on it has
/// claimed its port.
///
/// # Errors
/// If the log does not say so; if a packet was refused, or was no packet.
pub(super) fn proof(log: &str) -> Result<Value> {
    let lanes = ended_lanes(log)?;
    let EndedLane { received, sent, lost } =
        *lanes.first().context("the service does not say that a lane has ended")?;
    let claimed = log.lines().filter(|line| line.contains(" claimed lane=")).count();
    Ok(json!({ "diverted": received, "sent": sent, "lost": lost, "on_lane": claimed, "sockets": claimed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ready\n\
        2026-11-30T22:00:00Z  INFO core: a lane begins lane=1 process=5 program=x\n\
        2026-11-30T22:00:00Z DEBUG core: claimed lane=1 claim=1 local=10.0.0.1:1\n\
        2026-11-30T22:00:00Z DEBUG core: claimed lane=1 claim=2 local=10.0.0.1:2\n";

    fn log(refused: u32) -> String {
        format!(
            "{LOG}2026-11-30T22:00:00Z  INFO core: a lane has ended lane=1 in_packets=9 out_packets=8 refused={refused} ring_full=7 malformed=0\n"
        )
    }

    #[test]
    fn the_lane_of_a_node_is_proven_by_the_log() {
        assert!(!has_ended(LOG) && proof(LOG).is_err());
        assert!(has_ended(&log(0)));
        let expected = json!({ "diverted": 9, "sent": 8, "lost": 7, "on_lane": 2, "sockets": 2 });
        assert_eq!(proof(&log(0)).unwrap(), expected);
        assert!(proof(&log(3)).unwrap_err().to_string().starts_with("refused packets"));
    }

    #[test]
    fn each_lane_that_has_ended_is_told() {
        let lane = EndedLane { received: 9, sent: 8, lost: 7 };
        assert_eq!(ended_lanes(&(log(0) + &log(0))).unwrap(), [lane, lane]);
        assert_eq!(ended_lanes(LOG).unwrap(), []);
    }
}
