//! Results: figures of streams and runs, as in JSON. All times are in nanoseconds.

pub use tickwire_node::times::{LatencySummary, Times};
pub use tickwire_node::usage::Usage;

use crate::pattern::{Pattern, Stream, Transport};
use crate::time::TimeFigures;
use crate::units::millis;
use serde::{Deserialize, Serialize};

/// Results of one stream in one run, without the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// Messages that the producer has sent.
    pub sent: u64,
    /// Of these, how many the consumer received.
    pub received: u64,
    /// How many it never received.
    pub lost: u64,
    /// Duplicates received.
    pub duplicates: u64,
    /// How many arrived after one that was sent later.
    pub reordered: u64,
    /// How many had wrong content.
    pub corrupt: u64,
    /// How many arrived after their deadline, without lost ones.
    pub late: u64,
    /// How many seem to arrive before they were sent: two machines' clocks differ by more than the
    /// latency.
    pub before_sent: u64,
    /// Latency from the producer's call to the consumer having all of the message. If the previous
    /// call had not returned when the message was due, latency counts from the due time.
    pub latency: LatencySummary,
    /// The same as pairs of a time and the number of messages at about that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
    /// Delay of the producer's calls after the due time.
    pub release: LatencySummary,
    /// How long messages waited in the consumer's host: from the driver's timestamp of their last
    /// packet until the program received them. Only messages with a timestamp.
    #[serde(default)]
    pub waited: LatencySummary,
    /// The same of the slowest message; none if it had no timestamp.
    #[serde(default)]
    pub slowest_waited_ns: Option<u64>,
}

impl StreamFigures {
    /// Whether there was a message, and every one arrived once, whole, in order and in time.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.sent > 0
            && self.received == self.sent
            && [self.lost, self.duplicates, self.reordered, self.corrupt, self.late].iter().all(|&count| count == 0)
    }

    /// The share of the slowest message's latency that it waited in the consumer's host; none if
    /// unknown.
    #[must_use]
    pub fn slowest_share(&self) -> Option<f64> {
        let waited = self.slowest_waited_ns.filter(|_| self.latency.max_ns > 0)?;
        Some((waited as f64 / self.latency.max_ns as f64).min(1.0))
    }

    /// The same figures without the histogram, which is by far their largest part.
    #[must_use]
    pub fn without_histogram(&self) -> Self {
        Self { histogram: Vec::new(), ..self.clone() }
    }
}

/// Which stack carried the traffic of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// The kernel's.
    Kernel,
    /// Tickwire's, at the consumer, the producers, or both.
    Tickwire,
}

/// When messages are due within their periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// As in the pattern; streams without a phase at random (by the seed).
    Pattern,
    /// All at once: the worst case of a switch (slide 6 of 2015).
    Synchronised,
    /// At random, by the seed.
    Unscheduled,
    /// In disjoint slots.
    Scheduled,
}

/// One run: the pattern once, on one stack, with one timing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which stack carried it.
    pub carrier: Carrier,
    /// When messages were due.
    pub timing: Timing,
    /// Multiple of the pattern's rate.
    pub rate: u32,
    /// Duration of the measurement, after the warm-up.
    pub duration_ns: u64,
    /// Each stream's figures, in the order of the pattern.
    pub streams: Vec<StreamFigures>,
    /// The consumer's processor time.
    pub consumer: Usage,
    /// Packets diverted to the consumer's lane, if the service of its host reported them: the proof
    /// that its traffic used the lane.
    pub diverted: Option<u64>,
    /// The consumer's sockets on the lane, and its total.
    pub accelerated: Option<(u64, u64)>,
    /// Packet drops during the run, as far as visible: the place, and the number.
    pub drops: Vec<(String, u64)>,
    /// Faults of nodes, in words; empty if there were none.
    pub faults: Vec<String>,
}

impl Run {
    /// How many streams were met.
    #[must_use]
    pub fn met(&self) -> usize {
        self.streams.iter().filter(|stream| stream.is_met()).count()
    }

    /// Whether every stream was met and no node failed.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.faults.is_empty() && !self.streams.is_empty() && self.met() == self.streams.len()
    }
}

/// A stream's description in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamDescription {
    /// Its number.
    pub id: u32,
    /// Its producer's number.
    pub producer: u16,
    /// Its transport.
    pub transport: Transport,
    /// Message size in bytes.
    pub size_bytes: u32,
    /// Period of messages.
    pub period_ms: f64,
    /// The deadline.
    pub deadline_ms: f64,
}

impl From<&Stream> for StreamDescription {
    fn from(stream: &Stream) -> Self {
        Self {
            id: stream.id,
            producer: stream.producer,
            transport: stream.transport,
            size_bytes: stream.size,
            period_ms: millis(stream.period),
            deadline_ms: millis(stream.deadline),
        }
    }
}

/// All runs of one command.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The traffic pattern.
    pub pattern: Pattern,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The machine, or the machines.
    pub machines: Vec<String>,
    /// The rate of the links to and from the switch, in bits per second, if known.
    pub link_bps: Option<u64>,
    /// The clock that timed the messages, and its error bound, in words.
    pub clock: String,
    /// The comparison of stacks: the pattern at its own rate and timing.
    pub runs: Vec<Run>,
    /// The comparison of timings, if any: the same stack, one run for each.
    pub timings: Vec<Run>,
    /// The sweep, if any: increasing multiples of the pattern's rate.
    pub sweep: Vec<Run>,
    /// Accuracy of a clock on this machine, if requested; or why it is unknown, in words.
    pub time: Option<Result<TimeFigures, String>>,
}

impl Experiment {
    /// The run that determines the verdict: Tickwire's, else the kernel's. None if nothing was
    /// measured.
    #[must_use]
    pub fn judged(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.carrier == Carrier::Tickwire).or_else(|| self.runs.first())
    }

    /// Whether every run has figures of all streams, good or bad.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let all = self.runs.iter().chain(&self.timings).chain(&self.sweep);
        all.map(|run| run.streams.len()).all(|streams| streams == self.pattern.streams.len())
    }
}
