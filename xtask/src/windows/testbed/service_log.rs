//! What the service's log says of the lane of a node: it has one lane, for one node.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// What the log says when a lane has ended.
const ENDED: &str = "a lane has ended";

/// Whether the lane has ended.
pub(super) fn has_ended(log: &str) -> bool {
    log.lines().any(|line| line.contains(ENDED))
}

/// What it has carried, as the controller has it. Each socket on it has claimed its port.
///
/// # Errors
/// If the log does not say so; if a packet was refused, or was no packet.
pub(super) fn proof(log: &str) -> Result<Value> {
    let line =
        log.lines().find(|line| line.contains(ENDED)).context("the service does not say that a lane has ended")?;
    let count = |name: &str| -> Result<u64> {
        let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|number| number.parse().ok()).with_context(|| format!("no {name}: {line}"))
    };
    for name in ["refused", "malformed"] {
        ensure!(count(name)? == 0, "{name} packets: {line}");
    }
    let claimed = log.lines().filter(|line| line.contains(" claimed lane=")).count();
    Ok(json!({
        "diverted": count("in_packets")?,
        "sent": count("out_packets")?,
        "lost": count("ring_full")?,
        "on_lane": claimed,
        "sockets": claimed,
    }))
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
}
