//! The measurements of one run, collected from its nodes during it and at its end.

use super::node_session::{NodeSession, NodeSessions};
use super::run::RunOptions;
use super::validation::total;
use crate::node::protocol::{Order, Start, StreamResult};
use crate::outcome::{Carrier, LatencySummary, Run, StreamFigures, Times, Timing, Usage};
use crate::pattern::{Pattern, Stream};
use crate::units::{far, millis, nanos};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The most faults reported one by one: each of a thousand streams may have one.
const MOST_FAULTS: usize = 20;

/// Polling interval of a run.
const LOOK: Duration = Duration::from_millis(100);

/// Progress of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Live {
    /// The stack.
    pub carrier: Carrier,
    /// When messages are due.
    pub timing: Timing,
    /// Multiple of the pattern's rate.
    pub rate: u32,
    /// Seconds since the end of the warm-up; negative before it.
    pub elapsed_s: f64,
    /// Length of the measurement in seconds.
    pub duration_s: f64,
    /// The socket of the service that accelerates the consumer, if it is on this machine.
    #[serde(default)]
    pub service: Option<PathBuf>,
    /// Each stream, in the order of the pattern.
    pub streams: Vec<LiveStream>,
}

/// Progress of a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveStream {
    /// Its number.
    pub id: u32,
    /// Messages received so far.
    pub received: u64,
    /// Messages sent so far.
    pub sent: u64,
    /// The greatest recent latency, in ns.
    pub worst_ns: u64,
    /// The greatest so far, in ns.
    pub worst_ever_ns: u64,
    /// The deadline, in ns.
    pub deadline_ns: u64,
    /// Messages later than their deadline so far.
    pub late: u64,
}

/// The state of a run during the measurement.
pub(super) struct Measured<'a> {
    pattern: &'a Pattern,
    options: &'a RunOptions,
    start: Start,
    begun: Instant,
    live: Vec<LiveStream>,
    /// Messages sent of each stream, including the warm-up's.
    sent: Vec<u64>,
    release: Vec<LatencySummary>,
    faults: Vec<String>,
    /// Number of faults beyond [`MOST_FAULTS`].
    more_faults: usize,
    /// Diverted packets, sockets on lanes, and all sockets.
    proof: Option<(u64, u64, u64)>,
    /// Drops for lack of room in lanes: place and number.
    drops: Vec<(String, u64)>,
}

impl<'a> Measured<'a> {
    pub(super) fn new(pattern: &'a Pattern, options: &'a RunOptions, start: Start) -> Self {
        let live = |stream: &Stream| LiveStream {
            id: stream.id,
            deadline_ns: nanos(stream.deadline),
            ..LiveStream::default()
        };
        Self {
            pattern,
            options,
            start,
            begun: Instant::now() + options.timeouts.lead,
            live: pattern.streams.iter().map(live).collect(),
            sent: vec![0; pattern.streams.len()],
            release: vec![LatencySummary::default(); pattern.streams.len()],
            faults: Vec::new(),
            more_faults: 0,
            proof: None,
            drops: Vec::new(),
        }
    }

    pub(super) fn fault(&mut self, error: &anyhow::Error) {
        self.told(format!("{error:#}"));
    }

    fn told(&mut self, fault: String) {
        if self.faults.contains(&fault) {
            return;
        }
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        } else {
            self.more_faults += 1;
        }
    }

    /// Watches until all producers have finished or failed. If the consumer fails or the time is
    /// over, orders the producers to stop.
    pub(super) fn watch(&mut self, members: &mut NodeSessions<'_>, live: &mut dyn FnMut(&Live)) {
        let NodeSessions { consumer, producers } = members;
        let timeouts = self.options.timeouts;
        let end = self.begun + self.options.warm_up + self.options.duration + timeouts.tells;
        loop {
            let looked = consumer.listen(Instant::now() + LOOK);
            self.took(consumer, true);
            for producer in producers.iter_mut().filter(|producer| producer.sends()) {
                if let Err(error) = producer.listen(Instant::now()) {
                    self.fault(&error);
                    producer.gone = true;
                }
                self.took(producer, false);
            }
            live(&self.live(consumer));
            if let Err(error) = looked {
                self.fault(&error);
                consumer.gone = true;
                break;
            }
            if !producers.iter().any(NodeSession::sends) {
                return;
            }
            if Instant::now() > end {
                self.told(format!("producers had not sent all {} s after the end", timeouts.tells.as_secs()));
                break;
            }
        }
        self.stop(producers);
    }

    /// Stops all producers.
    fn stop(&mut self, producers: &mut [NodeSession<'_>]) {
        for producer in producers.iter_mut().filter(|producer| producer.sends()) {
            if let Err(error) = producer.order(&Order::Stop) {
                self.fault(&error);
                producer.gone = true;
            }
        }
        let until = Instant::now() + self.options.timeouts.stops;
        for producer in producers.iter_mut().filter(|producer| producer.sends()) {
            if let Err(error) = producer.stopped(until) {
                self.fault(&error);
            }
        }
    }

    /// Copies a node's progress.
    fn took(&mut self, member: &NodeSession<'_>, receives: bool) {
        for (&index, progress) in member.streams.iter().zip(&member.progress) {
            let live = &mut self.live[index];
            if receives {
                live.received = progress.messages;
                live.late = progress.late;
                live.worst_ns = progress.worst_ns;
                live.worst_ever_ns = live.worst_ever_ns.max(progress.worst_ns);
            } else {
                live.sent = progress.messages;
            }
        }
    }

    fn live(&self, consumer: &NodeSession<'_>) -> Live {
        let since = Instant::now().saturating_duration_since(self.begun).as_secs_f64();
        Live {
            carrier: self.options.carrier,
            timing: self.options.timing,
            rate: self.options.rate,
            elapsed_s: since - self.options.warm_up.as_secs_f64(),
            duration_s: self.options.duration.as_secs_f64(),
            service: consumer.place.service().filter(|_| consumer.accelerated),
            streams: self.live.clone(),
        }
    }

    /// Tells the consumer how much was sent, and collects its results.
    pub(super) fn finish(&mut self, members: &mut NodeSessions<'_>) -> Option<(Vec<StreamResult>, Usage)> {
        let NodeSessions { consumer, producers } = members;
        for producer in &*producers {
            for (place, &index) in producer.streams.iter().enumerate() {
                let told = producer.sent.as_ref().map(|sent| &sent[place]);
                // A failed producer has sent what it reported last, and perhaps more.
                self.sent[index] = told.map_or(producer.progress[place].messages, |sent| sent.messages);
                let Some(told) = told else { continue };
                self.release[index] = Times::from_pairs(&told.release).summary();
                let stream = &self.pattern.streams[index];
                let (_, last) = self.start.numbers(stream);
                let why = match &told.fault {
                    Some(fault) => fault.clone(),
                    None if told.messages == last => continue,
                    None => format!("of {last} messages it has sent {}, and does not say why", told.messages),
                };
                self.told(format!("{}: stream {}: {why}", producer.place.name, stream.id));
            }
        }
        if consumer.gone {
            return None;
        }
        match consumer.order(&Order::Finish { sent: self.sent.clone() }).and_then(|()| consumer.received()) {
            Ok((streams, usage)) => {
                for (index, received) in streams.iter().enumerate() {
                    self.doubt(index, received, consumer, producers);
                }
                self.doubt_clocks(consumer, producers);
                Some((streams, usage))
            }
            Err(error) => {
                self.fault(&error);
                None
            }
        }
    }

    /// Reports a fault if a measurement that decides on a stream is missing.
    fn doubt(
        &mut self,
        index: usize,
        received: &StreamResult,
        consumer: &NodeSession<'_>,
        producers: &[NodeSession<'_>],
    ) {
        let stream = &self.pattern.streams[index];
        let mut doubts: Vec<String> = received.fault.iter().cloned().collect();
        let known = total(&received.latency);
        if doubts.is_empty() && known != received.messages {
            doubts.push(format!("of {} messages it knows how long {known} took", received.messages));
        }
        if let Some(producer) = producers.iter().find(|producer| producer.streams.contains(&index)) {
            let bounds = consumer.bounds_ns(producer);
            if received.ahead_ns > bounds {
                doubts.push(format!(
                    "messages came up to {} before {} sent them: the two clocks are farther apart than the {} that they may be by what they say, so no latency is known",
                    far(received.ahead_ns),
                    producer.place.name,
                    far(bounds)
                ));
            }
        }
        for doubt in doubts {
            self.told(format!("{}: stream {}: {doubt}", consumer.place.name, stream.id));
        }
    }

    /// Reports clocks that were accurate enough at the start of the run but not at its end.
    fn doubt_clocks(&mut self, consumer: &NodeSession<'_>, producers: &[NodeSession<'_>]) {
        let pattern = self.pattern;
        for producer in producers {
            if let Some(stream) = producer.unjudged(consumer, |index| &pattern.streams[index]) {
                self.told(format!(
                    "{}: its clock and that of {} may have come to be {} apart meanwhile, and stream {} has a deadline of {} ms, so it cannot be judged: did one lose \
                     its time servers? (tickwire clock status)",
                    producer.place.name,
                    consumer.place.name,
                    far(consumer.bounds_ns(producer)),
                    stream.id,
                    millis(stream.deadline)
                ));
            }
        }
    }

    /// Asks the services whether the traffic of accelerated nodes used their lanes.
    pub(super) fn prove(&mut self, members: &mut NodeSessions<'_>) {
        let (mut diverted, mut on_lane, mut sockets) = (0_u64, 0_u64, 0_u64);
        let mut any = false;
        for member in members.all().filter(|member| member.accelerated) {
            any = true;
            let after = member.proof(self.options.timeouts.answers);
            // Counted at the start of the run: by now producers have closed their connections. Each
            // stream has at least one. What is proven at the end counts all that there were.
            let counted = match &after {
                Ok(after) if member.place.is_proven_at_end() => after,
                _ => &member.before,
            };
            let of = counted.sockets.max(member.streams.len() as u64);
            on_lane = on_lane.saturating_add(counted.on_lane);
            sockets = sockets.saturating_add(of);
            if counted.on_lane < of {
                self.told(format!(
                    "{}: only {} of its {of} sockets were on its lane, so the kernel carried the others (tickwire stat says why)",
                    member.place.name, counted.on_lane
                ));
            }
            match after {
                Ok(after) => {
                    if !after.is_proof_since(&member.before) {
                        self.told(format!(
                            "{}: nothing was diverted to its lane, so the kernel carried its traffic",
                            member.place.name
                        ));
                    }
                    diverted = diverted.saturating_add(after.diverted.saturating_sub(member.before.diverted));
                    let lost = after.lost.saturating_sub(member.before.lost);
                    if lost > 0 {
                        self.drops.push((format!("{}, for want of room in its lane", member.place.name), lost));
                    }
                }
                Err(error) => self.fault(&error),
            }
        }
        self.proof = any.then_some((diverted, on_lane, sockets));
    }

    /// The result of the run. Without the consumer's results no stream has figures.
    pub(super) fn into_run(mut self, received: Option<(Vec<StreamResult>, Usage)>) -> Run {
        let measured = received.is_some();
        let (received, usage) = received.unwrap_or_default();
        let figures = |(index, stream): (usize, &Stream)| {
            let (first, _) = self.start.numbers(stream);
            let sent = self.sent[index].saturating_sub(first);
            let got = received.get(index).cloned().unwrap_or_default();
            let latency = Times::from_pairs(&got.latency).summary();
            StreamFigures {
                sent,
                received: got.messages,
                lost: sent.saturating_sub(got.messages),
                duplicates: got.duplicates,
                reordered: got.reordered,
                corrupt: got.corrupt,
                late: got.late,
                before_sent: got.before_sent,
                // The histogram's steps are rounded up, by a thousandth: a message in time must not
                // be shown as later than its deadline.
                latency: if got.late == 0 { latency.at_most(nanos(stream.deadline)) } else { latency },
                waited: Times::from_pairs(&got.waited).summary(),
                slowest_waited_ns: got.slowest_waited_ns.map(|ns| ns.min(latency.max_ns)),
                histogram: got.latency,
                release: self.release[index],
            }
        };
        let streams = self.pattern.streams.iter().enumerate().filter(|_| measured).map(figures).collect();
        if self.more_faults > 0 {
            self.faults.push(format!("and {} more", self.more_faults));
        }
        Run {
            carrier: self.options.carrier,
            timing: self.options.timing,
            rate: self.options.rate,
            duration_ns: self.start.duration_ns,
            streams,
            consumer: usage,
            diverted: self.proof.map(|(diverted, ..)| diverted),
            accelerated: self.proof.map(|(_, on_lane, sockets)| (on_lane, sockets)),
            drops: self.drops,
            faults: self.faults,
        }
    }
}
