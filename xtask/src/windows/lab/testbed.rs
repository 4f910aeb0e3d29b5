//! The pattern of 2015 with its consumer, and one of its producers, on Windows.

use crate::windows::build::Profile;
use crate::windows::testbed;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The streams of the pattern.
const STREAMS: usize = 48;

/// The producer on Windows: it has long messages, and short ones of each transport.
const PRODUCER: &str = "12";

/// Every message of 48 streams arrives once, whole and in order, on the kernel's sockets and on the
/// lane. All sockets of the consumer and of a producer on Windows are on their lanes, whose
/// counters show the packets.
pub(super) fn consumer() -> Result<()> {
    let mut controller = testbed::controller(Profile::Debug)?;
    controller.args(["--duration", "5", "--warm-up", "1", "--started", PRODUCER, "--json"]);
    let output = testbed::starts_nodes(&mut controller, Profile::Debug)?.output().context("the controller")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("no report: {said}"))?;
    let streams = report["streams"].as_array().context("no streams")?;
    ensure!(streams.len() == STREAMS, "{} streams", streams.len());
    let mut by_tcp = 0;
    for (carrier, stream) in ["kernel", "tickwire"].into_iter().flat_map(|c| streams.iter().map(move |s| (c, s))) {
        let count = |name: &str| stream[carrier][name].as_u64().with_context(|| format!("no {name}: {stream}"));
        ensure!(count("received")? > 0 && count("received")? == count("sent")?, "{carrier}: {stream}");
        for fault in ["lost", "duplicates", "reordered", "corrupt"] {
            ensure!(count(fault)? == 0, "{fault} on {carrier}: {stream}");
        }
        if carrier == "tickwire" && stream["transport"].as_str().is_some_and(|name| name.ends_with("tcp")) {
            by_tcp += count("received")?;
        }
    }
    let runs = report["runs"].as_array().context("no runs")?;
    let ours = runs.iter().find(|run| run["carrier"] == "tickwire").context("no run on the lane")?;
    ensure!(runs.iter().all(|run| run["faults"] == serde_json::json!([])), "{runs:?}");
    // Each message by TCP is at least one packet.
    ensure!(ours["diverted"].as_u64().is_some_and(|diverted| diverted >= by_tcp), "{by_tcp} messages: {ours}");
    Ok(())
}
