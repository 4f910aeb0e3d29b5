//! Test nodes: shell scripts, reached by an `ssh` that is that shell. They report what honest nodes
//! never would.

use super::host::{Hosts, NodeHost, Way};
use super::run::RunOptions;
use super::timeouts::Timeouts;
use crate::node::NodeClock;
use crate::node::protocol::{NodeReport, Progress, Sent, StreamResult, VERSION};
use crate::outcome::{Carrier, Timing, Usage};
use crate::pattern::{Pattern, sample};
use std::time::Duration;

/// The node's PID, as in `tickwire stat`.
pub(super) const PID: u32 = 5;
/// How many messages each stream has in the run of [`options`].
pub(super) const MESSAGES: u64 = 10;

/// Timeouts as short as a busy machine permits.
pub(super) const HASTY: Timeouts = Timeouts {
    appears: Duration::from_secs(20),
    ready: Duration::from_secs(2),
    answers: Duration::from_secs(2),
    lead: Duration::from_millis(50),
    silent: Duration::from_secs(2),
    tells: Duration::from_secs(2),
    stops: Duration::from_secs(2),
    ends: Duration::from_secs(1),
};

/// Prints a report, in a script.
pub(super) fn say(report: &NodeReport) -> String {
    format!("printf '%s\\n' '{}'\n", serde_json::to_string(report).unwrap().replace('\'', r"'\''"))
}

/// Waits for an order, in a script; it is in `$order`.
pub(super) const HEAR: &str = "IFS= read -r order || exit 0\n";

/// The first message.
pub(super) fn hello() -> String {
    let program = env!("CARGO_PKG_VERSION").to_owned();
    say(&NodeReport::Hello { version: VERSION, program, host: "h".into(), pid: PID })
}

/// A script up to the order to start.
pub(super) fn begun() -> String {
    [&hello(), HEAR, &say(&NodeReport::Ready { now_ns: 0, bound_ns: Some(1_000) }), HEAR].concat()
}

/// The same, followed by endless progress reports on so many streams.
pub(super) fn lively(streams: usize) -> String {
    let progress = say(&NodeReport::Progress { streams: vec![Progress::default(); streams] });
    [&begun(), "while sleep 0.2; do\n", &progress, "done &\n"].concat()
}

/// All messages of one stream, with a latency of a millisecond each.
pub(super) fn all_received() -> StreamResult {
    StreamResult { messages: MESSAGES, latency: vec![(1_000_000, MESSAGES)], ..StreamResult::default() }
}

/// A consumer with these results.
pub(super) fn consumer(streams: &[StreamResult]) -> String {
    consumer_with_clock(streams, 1_000)
}

/// The same, whose clock had this bound at the end.
pub(super) fn consumer_with_clock(streams: &[StreamResult], bound_ns: u64) -> String {
    let usage = Usage { user_ns: 1, system_ns: 1, elapsed_ns: 100, ready_ns: None };
    [&begun(), HEAR, &say(&NodeReport::Received { streams: streams.to_vec(), usage, bound_ns: Some(bound_ns) }), HEAR]
        .concat()
}

/// A producer that has sent `messages` of its streams.
pub(super) fn producer(messages: &[u64]) -> String {
    producer_with_clock(messages, 1_000)
}

/// The same, whose clock had this bound at the end.
pub(super) fn producer_with_clock(messages: &[u64], bound_ns: u64) -> String {
    let sent = |&messages: &u64| Sent { messages, release: vec![(1_000, messages)], fault: None };
    let streams = messages.iter().map(sent).collect();
    [&begun(), &say(&NodeReport::Sent { streams, bound_ns: Some(bound_ns) }), HEAR].concat()
}

/// The arguments of an `ssh` that runs this script. The script gets the destination as `$3` and the
/// command as `$4`.
pub(super) fn ssh(script: &str) -> Vec<String> {
    ["sh", "-c", script, "sh"].map(str::to_owned).to_vec()
}

/// A host that runs this script for any command.
pub(super) fn place(name: &str, last: u8, script: &str) -> NodeHost {
    let way = Way::Ssh { command: ssh(script), destination: name.into() };
    NodeHost { name: name.into(), address: [192, 0, 2, last].into(), tickwire: "tickwire".into(), way }
}

/// A consumer `daq` and a producer `sensors` of all streams.
pub(super) fn hosts(consumer: &str, producer: &str) -> Hosts {
    Hosts { consumer: place("daq", 1, consumer), producers: vec![(place("sensors", 2, producer), vec![1])] }
}

/// A number of streams, each with 10 messages in the run of [`options`].
pub(super) fn pattern(streams: u32) -> Pattern {
    let streams = (1..=streams).map(|id| crate::pattern::Stream { phase: Some(Duration::ZERO), ..sample(id) });
    Pattern { name: "test".into(), streams: streams.collect() }
}

/// A tenth of a second on the kernel.
pub(super) fn options() -> RunOptions {
    RunOptions {
        carrier: Carrier::Kernel,
        consumer: true,
        producers: false,
        spin: None,
        timing: Timing::Pattern,
        rate: 1,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(100),
        time: NodeClock::Page { path: None },
        watch: Duration::ZERO,
        first_port: 47_000,
        timeouts: HASTY,
    }
}
