//! What is measured in one run: gathered from its nodes while it lasts and when it ends.

use super::member::{Member, TELLS_WITHIN};
use super::proof::Proof;
use super::run::{LEAD, RunOptions, nanos};
use crate::node::protocol::{Order, Received, Start};
use crate::outcome::{Carrier, Run, StreamFigures, Summary, Times, Timing, Usage};
use crate::pattern::{Pattern, Stream};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How far a run is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Live {
    /// Which stack.
    pub carrier: Carrier,
    /// When messages are due.
    pub timing: Timing,
    /// How many times the pattern's rate.
    pub rate: u32,
    /// Seconds since messages count; negative during the warm-up.
    pub elapsed_s: f64,
    /// How long they do.
    pub duration_s: f64,
    /// The socket of the service that the consumer is accelerated by, if it is on this machine.
    #[serde(default)]
    pub service: Option<PathBuf>,
    /// Each stream, in the order of the pattern.
    pub streams: Vec<LiveStream>,
}

/// How far a stream is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveStream {
    /// Its number.
    pub id: u32,
    /// Messages received so far.
    pub received: u64,
    /// Messages sent so far.
    pub sent: u64,
    /// The greatest latency lately, in ns.
    pub worst_ns: u64,
    /// The greatest so far, in ns.
    pub worst_ever_ns: u64,
    /// What is allowed, in ns.
    pub deadline_ns: u64,
    /// Messages later than their deadline so far.
    pub late: u64,
}

/// What is known of a run while it lasts.
pub(super) struct Measured<'a> {
    pattern: &'a Pattern,
    options: &'a RunOptions,
    start: Start,
    begun: Instant,
    live: Vec<LiveStream>,
    /// Messages sent of each stream, those of the warm-up among them.
    sent: Vec<u64>,
    release: Vec<Summary>,
    faults: Vec<String>,
    /// Diverted packets; sockets on lanes and in all.
    proof: Option<(u64, u64, u64)>,
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
            begun: Instant::now() + LEAD,
            live: pattern.streams.iter().map(live).collect(),
            sent: vec![0; pattern.streams.len()],
            release: vec![Summary::default(); pattern.streams.len()],
            faults: Vec::new(),
            proof: None,
        }
    }

    pub(super) fn fault(&mut self, error: &anyhow::Error) {
        let said = format!("{error:#}");
        if !self.faults.contains(&said) {
            self.faults.push(said);
        }
    }

    /// Until all producers have sent all, or are gone; or the consumer is, or time is over: then producers are told to stop.
    pub(super) fn watch(
        &mut self,
        consumer: &mut Member<'_>,
        producers: &mut [Member<'_>],
        live: &mut dyn FnMut(&Live),
    ) {
        let end = self.begun + self.options.warm_up + self.options.duration + TELLS_WITHIN;
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
            if !producers.iter().any(Member::sends) {
                return;
            }
            if Instant::now() > end {
                self.fault(&anyhow::anyhow!("producers had not sent all {} s after the end", TELLS_WITHIN.as_secs()));
                break;
            }
        }
        for producer in producers.iter_mut().filter(|producer| producer.sends()) {
            if let Err(error) = producer.stop() {
                self.fault(&error);
            }
        }
    }

    /// Takes over a node's progress.
    fn took(&mut self, member: &Member<'_>, receives: bool) {
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

    fn live(&self, consumer: &Member<'_>) -> Live {
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

    /// Tells the consumer how much there is to come, and asks what has.
    pub(super) fn finish(
        &mut self,
        consumer: &mut Member<'_>,
        producers: &[Member<'_>],
    ) -> Option<(Vec<Received>, Usage)> {
        for producer in producers {
            for (place, &index) in producer.streams.iter().enumerate() {
                let told = producer.sent.as_ref().map(|sent| &sent[place]);
                // A producer that is gone has sent what it had told before, and perhaps more.
                self.sent[index] = told.map_or(producer.progress[place].messages, |sent| sent.messages);
                let Some(told) = told else { continue };
                self.release[index] = Times::from_pairs(&told.release).summary();
                if let Some(fault) = &told.fault {
                    self.fault(&anyhow::anyhow!(
                        "{}: stream {}: {fault}",
                        producer.place.name,
                        self.pattern.streams[index].id
                    ));
                }
            }
        }
        if consumer.gone {
            return None;
        }
        let told = consumer.remote.order(&Order::Finish { sent: self.sent.clone() }).and_then(|()| consumer.received());
        match told {
            Ok((streams, usage)) => {
                for (stream, received) in self.pattern.streams.iter().zip(&streams) {
                    if let Some(fault) = &received.fault {
                        self.faults.push(format!("{}: stream {}: {fault}", consumer.place.name, stream.id));
                    }
                }
                Some((streams, usage))
            }
            Err(error) => {
                self.fault(&error);
                None
            }
        }
    }

    /// Asks the services whether the traffic of accelerated nodes took their lanes.
    pub(super) fn prove<'m>(&mut self, members: impl Iterator<Item = &'m Member<'m>>) {
        let (mut diverted, mut on_lane, mut sockets) = (0, 0, 0);
        let mut any = false;
        for member in members.filter(|member| member.accelerated) {
            any = true;
            match Proof::ask(member.place, member.pid) {
                Ok(after) => {
                    let more = after.diverted.saturating_sub(member.before.diverted);
                    if more == 0 {
                        self.faults.push(format!(
                            "{}: nothing was diverted to its lane, so the kernel carried its traffic",
                            member.place.name
                        ));
                    }
                    diverted += more;
                    // As they were when the run began: by now producers have ended their connections.
                    on_lane += member.before.on_lane;
                    sockets += member.before.sockets;
                }
                Err(error) => self.fault(&error),
            }
        }
        self.proof = any.then_some((diverted, on_lane, sockets));
    }

    pub(super) fn into_run(self, received: Option<(Vec<Received>, Usage)>) -> Run {
        let (received, usage) = received.unwrap_or_default();
        let figures = |(index, stream): (usize, &Stream)| {
            let (first, _) = self.start.numbers(stream);
            let sent = self.sent[index].saturating_sub(first);
            let got = received.get(index).cloned().unwrap_or_default();
            let latency = Times::from_pairs(&got.latency);
            StreamFigures {
                sent,
                received: got.messages,
                lost: sent.saturating_sub(got.messages),
                duplicates: got.duplicates,
                reordered: got.reordered,
                corrupt: got.corrupt,
                late: got.late,
                before_sent: got.before_sent,
                latency: latency.summary(),
                histogram: got.latency,
                release: self.release[index],
            }
        };
        Run {
            carrier: self.options.carrier,
            timing: self.options.timing,
            rate: self.options.rate,
            duration_ns: self.start.duration_ns,
            streams: self.pattern.streams.iter().enumerate().map(figures).collect(),
            consumer: usage,
            diverted: self.proof.map(|(diverted, ..)| diverted),
            accelerated: self.proof.map(|(_, on_lane, sockets)| (on_lane, sockets)),
            drops: Vec::new(),
            faults: self.faults,
        }
    }
}
