//! The protocol between controller and node: one JSON line for each message
//! ([`lines`](crate::lines)), over the node's standard input and output.
//!
//! | controller | node | meaning |
//! |---|---|---|
//! | | `Hello` | the node is running; contains its version |
//! | `Prepare` | `Ready` | sockets are open (consumer first, then producers, which connect) |
//! | `Start` | | send, or receive, from this instant |
//! | | `Progress` | twice a second |
//! | | `Sent` | a producer has sent all |
//! | `Finish` | `StreamResult` | the consumer has waited for messages in flight |
//! | `Stop` | `Sent`, `StreamResult` | the same, earlier; after it the node ends |
//! | `Stop` | | after that, or before `Start`: the node ends |
//!
//! A node with a fatal error sends `Failed` and ends. It also ends, without a message, at the end
//! of its standard input. Both sides treat their input as hostile: lines have a greatest length
//! ([`LONGEST_LINE`], [`LONGEST_ORDER`]), and numbers are checked.

use crate::stream::Stream;
use crate::time::NodeClock;
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The protocol version: nodes of another version are not used.
pub const VERSION: u32 = 4;
/// The longest line of a node, in bytes: a thousand streams' histograms.
pub const LONGEST_LINE: u64 = 256 << 20;
/// The longest line of a controller: a thousand streams.
pub const LONGEST_ORDER: u64 = 4 << 20;

/// The most messages of one run: the consumer keeps a bit for each, and numbers have 32 bits.
pub const MOST_MESSAGES: u64 = 1 << 32;

/// The controller's orders.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Open sockets.
    Prepare(Prepare),
    /// Send, or receive.
    Start(Start),
    /// To the consumer: how many messages were sent of each stream, in the order of `Prepare`. It
    /// waits for those in flight, then reports.
    Finish {
        /// Messages sent, including the warm-up's.
        sent: Vec<u64>,
    },
    /// Stop sending now.
    Stop,
}

/// A node's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// Its role.
    pub role: NodeRole,
    /// Its address on the data network: where the consumer listens, and where producers send from.
    pub address: IpAddr,
    /// The streams of this producer, or all streams for the consumer.
    pub streams: Vec<StreamDestination>,
    /// The clock that all nodes share.
    pub time: NodeClock,
    /// A node that waits for an instant sleeps until this long before it, and then polls the clock.
    /// 0: it sleeps through.
    pub watch_ns: u64,
}

/// A node's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// It sends.
    Producer,
    /// It receives.
    Consumer,
}

/// A stream and its destination.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamDestination {
    /// The stream; its phase is set.
    pub stream: Stream,
    /// Destination: the consumer's address or a group, and a port that no other stream of this
    /// experiment has.
    pub to: SocketAddr,
}

/// Start of a run. Message k of a stream is due at `at_ns` + phase + k periods, and counts if that
/// is not before the end of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// When the first period begins, by the shared clock.
    pub at_ns: i64,
    /// Length of the warm-up, whose messages do not count.
    pub warm_up_ns: u64,
    /// Length of the measurement after it.
    pub duration_ns: u64,
}

impl Start {
    /// The number of a stream's first message that counts, and of the first that is no longer sent.
    #[must_use]
    pub fn numbers(&self, stream: &Stream) -> (u64, u64) {
        let period = stream.period.as_nanos().max(1);
        let phase = stream.phase.unwrap_or_default().as_nanos();
        let after = |ns: u128| u64::try_from(ns.saturating_sub(phase).div_ceil(period)).unwrap_or(u64::MAX);
        (after(self.warm_up_ns.into()), after(u128::from(self.warm_up_ns) + u128::from(self.duration_ns)))
    }
}

/// A node's reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeReport {
    /// The node is running.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The version of its program.
        program: String,
        /// Its host's name.
        host: String,
        /// Its PID, by which `tickwire stat` identifies its lane.
        pid: u32,
    },
    /// Its sockets are open.
    Ready {
        /// Its reading of the shared clock, in ns.
        now_ns: i64,
        /// Error bound of that, in ns; none for the machine's own counter, which is the reference
        /// itself.
        bound_ns: Option<u64>,
    },
    /// Progress of each stream, in the order of `Prepare`.
    Progress {
        /// Each stream.
        streams: Vec<Progress>,
    },
    /// A producer's final report.
    Sent {
        /// Each stream, in the order of `Prepare`.
        streams: Vec<Sent>,
        /// Greatest error bound of the shared clock during the run, in ns; `u64::MAX` if it has
        /// lost the time, none for a machine's own counter.
        bound_ns: Option<u64>,
    },
    /// The consumer's final report.
    Received {
        /// Each stream, in the order of `Prepare`.
        streams: Vec<StreamResult>,
        /// Its processor time from the end of the warm-up to the end of the run, when the last
        /// message is due.
        usage: Usage,
        /// As a producer's.
        bound_ns: Option<u64>,
    },
    /// A fatal error.
    Failed {
        /// Why, in one sentence.
        why: String,
    },
}

/// Progress of a stream, including the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Messages sent, or received, so far.
    pub messages: u64,
    /// The consumer: the greatest latency since the previous report, 0 if no message arrived.
    pub worst_ns: u64,
    /// The consumer: messages later than their deadline, so far.
    pub late: u64,
}

/// A producer's result for a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// Messages sent, including the warm-up's.
    pub messages: u64,
    /// Delay of its calls after the due time, without the warm-up's.
    pub release: Vec<(u64, u64)>,
    /// Why it ended before the last message, if it did.
    pub fault: Option<String>,
}

/// The consumer's result for a stream, without the warm-up's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamResult {
    /// How many different messages.
    pub messages: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// How many arrived after one that was sent later.
    pub reordered: u64,
    /// How many had wrong content, or were no messages of the stream. The warm-up's count here:
    /// their number cannot be known.
    pub corrupt: u64,
    /// How many arrived after their deadline.
    pub late: u64,
    /// How many arrived before they were sent, by the clock.
    pub before_sent: u64,
    /// By how much at most, in ns.
    pub ahead_ns: u64,
    /// Their latencies.
    pub latency: Vec<(u64, u64)>,
    /// How long they waited in the consumer's host: from the driver's timestamp of their last
    /// packet until the program received them. Messages without a timestamp of their own are
    /// missing: a call that receives several messages of a connection has that of the last packet
    /// only.
    pub waited: Vec<(u64, u64)>,
    /// The same of the slowest message, in ns, if its packet had a timestamp.
    pub slowest_waited_ns: Option<u64>,
    /// Why it ended before the last message, if it did.
    pub fault: Option<String>,
}
