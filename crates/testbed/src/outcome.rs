//! What became of the messages: figures of streams and runs, as they stand in JSON. All times are
//! in nanoseconds.

use crate::pattern::{Pattern, Stream, Transport};
use crate::time::TimeFigures;
use crate::units::millis;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that is told apart; longer ones count as this.
const LONGEST_NS: u64 = 100_000_000_000;

/// Times of many messages, to three digits.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // The bounds are constants that the histogram accepts.
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds are valid"))
    }
}

impl Times {
    /// Enters one; below 1 ns and above 100 s count as these.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.clamp(1, LONGEST_NS));
    }

    /// Enters all of another.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// What a table shows of them; zeros if there are none.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let at = |quantile| self.0.value_at_quantile(quantile);
        Summary {
            count: self.0.len(),
            min_ns: self.0.min(),
            mean_ns: self.0.mean().round() as u64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.0.max(),
        }
    }

    /// The histogram as pairs: a time, and how many there were of about that.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
    }

    /// From such pairs; those that are not times of a histogram count as the nearest that are.
    #[must_use]
    pub fn from_pairs(pairs: &[(u64, u64)]) -> Self {
        let mut times = Self::default();
        for &(ns, count) in pairs {
            times.0.saturating_record_n(ns.clamp(1, LONGEST_NS), count);
        }
        times
    }
}

/// What a table shows of many times. All zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// The least.
    pub min_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 of 100 were at most this.
    pub p90_ns: u64,
    /// 99 of 100 were at most this.
    pub p99_ns: u64,
    /// 999 of 1000 were at most this.
    pub p999_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

impl Summary {
    /// The same of times of which it is known that none was longer than this.
    #[must_use]
    pub fn at_most(self, ns: u64) -> Self {
        let Self { count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns } = self;
        let [min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns] =
            [min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns].map(|time| time.min(ns));
        Self { count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns }
    }
}

/// What became of one stream's messages in one run. Those of the warm-up are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// Messages that the producer's program has sent.
    pub sent: u64,
    /// Of these, how many the consumer's program has got.
    pub received: u64,
    /// How many it never got.
    pub lost: u64,
    /// How many came again.
    pub duplicates: u64,
    /// How many came after one that was sent later.
    pub reordered: u64,
    /// How many had another content than was sent.
    pub corrupt: u64,
    /// How many came later than the deadline allows. What was lost is not among them.
    pub late: u64,
    /// How many seem to have come before they were sent: two machines' clocks differ by more than
    /// the message took.
    pub before_sent: u64,
    /// From the producer's call to the consumer's program having all of the message. If the
    /// producer could not call when the message was due, because the call for the one before had
    /// not returned, from when it was due.
    pub latency: Summary,
    /// The same as pairs of a time and how many there were of about that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
    /// How much later than due the producer called.
    pub release: Summary,
    /// How long messages waited in the consumer's host: from the stamp that the driver gave to
    /// their last packet until the program had them. Of those that had a stamp.
    #[serde(default)]
    pub waited: Summary,
    /// The same of the message that took longest; none if it had no stamp.
    #[serde(default)]
    pub slowest_waited_ns: Option<u64>,
}

impl StreamFigures {
    /// Whether every message came, once, whole, in order and in time; and there was one.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.sent > 0
            && self.received == self.sent
            && [self.lost, self.duplicates, self.reordered, self.corrupt, self.late].iter().all(|&count| count == 0)
    }

    /// Which part of its time the message that took longest waited in the consumer's host; none if
    /// that is not known.
    #[must_use]
    pub fn slowest_share(&self) -> Option<f64> {
        let waited = self.slowest_waited_ns.filter(|_| self.latency.max_ns > 0)?;
        Some((waited as f64 / self.latency.max_ns as f64).min(1.0))
    }

    /// The same figures without the histogram, which is by far the longest of them.
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
    /// As the pattern says; streams of which it says nothing, at random (by the seed).
    Pattern,
    /// All at once: the worst case of a switch (slide 6 of 2015).
    Synchronised,
    /// At random, by the seed.
    Unscheduled,
    /// In slots of their own.
    Scheduled,
}

/// Processor time of a program while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// In the program.
    pub user_ns: u64,
    /// In the kernel for it.
    pub system_ns: u64,
    /// How long it was measured.
    pub elapsed_ns: u64,
    /// For how long the thread that receives was ready to run, and had no processor: it had been
    /// woken, or others had taken their turn, also if it offered it while it polled. `None` where
    /// the kernel does not say (`/proc/thread-self/schedstat`).
    pub ready_ns: Option<u64>,
}

/// One run: the pattern once, on one stack, with one timing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which stack carried it.
    pub carrier: Carrier,
    /// When messages were due.
    pub timing: Timing,
    /// How many times the pattern's rate.
    pub rate: u32,
    /// How long it was measured, after the warm-up.
    pub duration_ns: u64,
    /// Each stream's figures, in the order of the pattern.
    pub streams: Vec<StreamFigures>,
    /// The consumer's processor time.
    pub consumer: Usage,
    /// Packets that were diverted to the consumer's lane, if the service of its host said so: the
    /// proof that its traffic took it.
    pub diverted: Option<u64>,
    /// The consumer's sockets on the lane, and in all.
    pub accelerated: Option<(u64, u64)>,
    /// Where packets were dropped meanwhile, as far as that could be seen: the place, and how many.
    pub drops: Vec<(String, u64)>,
    /// What went wrong with nodes, in words; empty if all went well.
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

/// What a stream is, in the words of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamDescription {
    /// Its number.
    pub id: u32,
    /// Its producer's number.
    pub producer: u16,
    /// How its messages travel.
    pub transport: Transport,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// From one message to the next.
    pub period_ms: f64,
    /// What is allowed.
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
    /// What was sent.
    pub pattern: Pattern,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// Where it was: the machine, or the machines.
    pub machines: Vec<String>,
    /// The rate of the links to and from the switch, in bits per second, if it is known.
    pub link_bps: Option<u64>,
    /// Which clock told when messages were sent and had come, and how far it may be wrong, in
    /// words.
    pub clock: String,
    /// The comparison of stacks: the pattern at its own rate and timing.
    pub runs: Vec<Run>,
    /// The comparison of timings, if there was one: the same stack, one run for each.
    pub timings: Vec<Run>,
    /// The sweep, if there was one: more and more of the pattern's rate.
    pub sweep: Vec<Run>,
    /// How good a clock was on this machine, if that was asked for; or why that is not known, in
    /// words.
    pub time: Option<Result<TimeFigures, String>>,
}

impl Experiment {
    /// The run that the verdict is about: Tickwire's, else the kernel's. None if nothing was
    /// measured.
    #[must_use]
    pub fn judged(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.carrier == Carrier::Tickwire).or_else(|| self.runs.first())
    }

    /// Whether of each run that was to be made the figures of all streams are there, whatever they
    /// are.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let all = self.runs.iter().chain(&self.timings).chain(&self.sweep);
        all.map(|run| run.streams.len()).all(|streams| streams == self.pattern.streams.len())
    }
}
