//! What controller and node say to each other: a line of JSON each ([`lines`](super::lines)), over
//! the node's standard input and output.
//!
//! | controller | node | meaning |
//! |---|---|---|
//! | | `Hello` | the node is there, and is of this version |
//! | `Prepare` | `Ready` | sockets are open (consumer first, then producers, which connect) |
//! | `Start` | | send, or receive, from this instant on |
//! | | `Progress` | twice a second |
//! | | `Sent` | a producer has sent all |
//! | `Finish` | `Received` | the consumer has waited for what is still on its way |
//! | `Stop` | `Sent`, `Received` | the same, earlier; after it the node ends |
//! | `Stop` | | after that, or before `Start`: the node ends |
//!
//! A node that cannot go on says `Failed` and ends; it also ends, without a word, when its standard
//! input does. What comes is hostile on both sides: lines have a greatest length ([`LONGEST_LINE`],
//! [`LONGEST_ORDER`]), and numbers are checked.

use super::time::Time;
use crate::outcome::Usage;
use crate::pattern::Stream;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The version of all that stands here: nodes of another one are not used.
pub const VERSION: u32 = 4;
/// The longest line of a node, in bytes: a thousand streams' histograms.
pub const LONGEST_LINE: u64 = 256 << 20;
/// The longest line of a controller: a thousand streams.
pub const LONGEST_ORDER: u64 = 4 << 20;

/// Messages of one run: the consumer keeps a bit for each, and numbers have 32.
pub const MOST_MESSAGES: u64 = 1 << 32;

/// What the controller says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Open sockets.
    Prepare(Prepare),
    /// Send, or receive.
    Start(Start),
    /// To the consumer: so many messages were sent of each stream, in the order of `Prepare`; wait
    /// for those that are on their way, then tell.
    Finish {
        /// How many were sent, those of the warm-up among them.
        sent: Vec<u64>,
    },
    /// End sending now.
    Stop,
}

/// What a node is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// Which end it is.
    pub role: Role,
    /// Its address on the data network: where the consumer listens, and where producers send from.
    pub address: IpAddr,
    /// The streams that it sends, or all.
    pub streams: Vec<Channel>,
    /// The clock that all nodes share.
    pub time: Time,
    /// A node that waits for an instant sleeps until so long before it, and then watches the clock.
    /// 0: it sleeps until it is over.
    pub watch_ns: u64,
}

/// Which end a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It sends.
    Producer,
    /// It receives.
    Consumer,
}

/// A stream, and where it goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// The stream; its phase is set.
    pub stream: Stream,
    /// Where the consumer gets it: its address or a group, and a port that no other stream of this
    /// experiment has.
    pub to: SocketAddr,
}

/// When it begins. Message k of a stream is due at `at_ns` + phase + k periods, and is counted if
/// that is not before the end of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// When the first period begins, by the shared clock.
    pub at_ns: i64,
    /// How long messages do not count.
    pub warm_up_ns: u64,
    /// How long they do, after that.
    pub duration_ns: u64,
}

impl Start {
    /// The number of a stream's first message that counts, and of the first that is not sent any
    /// more.
    #[must_use]
    pub fn numbers(&self, stream: &Stream) -> (u64, u64) {
        let period = stream.period.as_nanos().max(1);
        let phase = stream.phase.unwrap_or_default().as_nanos();
        let after = |ns: u128| u64::try_from(ns.saturating_sub(phase).div_ceil(period)).unwrap_or(u64::MAX);
        (after(self.warm_up_ns.into()), after(u128::from(self.warm_up_ns) + u128::from(self.duration_ns)))
    }
}

/// What a node says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum News {
    /// It is there.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The version of its program.
        program: String,
        /// Its host's name.
        host: String,
        /// Its process number, by which `tickwire stat` knows its lane.
        pid: u32,
    },
    /// Its sockets are open.
    Ready {
        /// The shared clock as it reads it now, in ns.
        now_ns: i64,
        /// How far that may be wrong, in ns; none of a machine's own counter, which is the measure
        /// itself.
        bound_ns: Option<u64>,
    },
    /// How far it is: of each stream in the order of `Prepare`.
    Progress {
        /// Each stream.
        streams: Vec<Progress>,
    },
    /// What a producer has sent.
    Sent {
        /// Each stream, in the order of `Prepare`.
        streams: Vec<Sent>,
        /// How far the shared clock may have been wrong meanwhile, at most, in ns; `u64::MAX` if it
        /// has lost the time, none of a machine's own counter.
        bound_ns: Option<u64>,
    },
    /// What the consumer has got.
    Received {
        /// Each stream, in the order of `Prepare`.
        streams: Vec<Received>,
        /// Its processor time from the end of the warm-up to the end of the run, when the last
        /// message is due.
        usage: Usage,
        /// As a producer's.
        bound_ns: Option<u64>,
    },
    /// It cannot go on.
    Failed {
        /// Why, in one sentence.
        why: String,
    },
}

/// How far a stream is. Those of the warm-up count here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Messages sent, or received, so far.
    pub messages: u64,
    /// The consumer: the greatest latency since the news before, 0 if none came.
    pub worst_ns: u64,
    /// The consumer: messages later than their deadline, so far.
    pub late: u64,
}

/// What a producer has sent of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// How many messages, those of the warm-up among them.
    pub messages: u64,
    /// How much later than due it called, of those that count.
    pub release: Vec<(u64, u64)>,
    /// Why it ended before the last message, if it did.
    pub fault: Option<String>,
}

/// What the consumer has got of a stream; those of the warm-up do not count here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// How many different messages.
    pub messages: u64,
    /// How many came again.
    pub duplicates: u64,
    /// How many came after one that was sent later.
    pub reordered: u64,
    /// How many had another content than was sent, or were no messages of the stream. Those of the
    /// warm-up count: nobody can say which number they had.
    pub corrupt: u64,
    /// How many came later than the deadline allows.
    pub late: u64,
    /// How many came before they were sent, by the clock.
    pub before_sent: u64,
    /// By how much at most, in ns.
    pub ahead_ns: u64,
    /// How long they took.
    pub latency: Vec<(u64, u64)>,
    /// How long they waited in the consumer's host: from the driver's stamp of their last packet
    /// until the program had them. Those without a stamp of their own are
    /// missing: a call that takes several messages of a connection tells that of the last packet.
    pub waited: Vec<(u64, u64)>,
    /// The same of the message that took longest, in ns, if its packet had a stamp.
    pub slowest_waited_ns: Option<u64>,
    /// Why it ended before the last message, if it did.
    pub fault: Option<String>,
}
