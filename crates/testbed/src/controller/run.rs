//! One run: nodes are started, prepared, started off, watched, and asked what became of it.

use super::Error;
use super::place::{Acceleration, Hosts, Place};
use super::plan::channels;
use super::proof::Proof;
use super::remote::Remote;
use crate::node::Time;
use crate::node::protocol::{Channel, News, Order, Prepare, Progress, Received, Role, Sent, Start, VERSION};
use crate::outcome::{Carrier, Run, StreamFigures, Summary, Times, Timing, Usage};
use crate::pattern::{Pattern, Stream};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Until a node says that it is there: `ssh` may ask its user for a password meanwhile.
const APPEARS_WITHIN: Duration = Duration::from_secs(60);
/// Until its sockets are open: connecting is bounded by the node itself.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// From the order to the first message: so long it may take until all nodes have the order.
const LEAD: Duration = Duration::from_millis(1500);
/// How long after the end of a run nodes may take to say what became of it.
const TELLS_WITHIN: Duration = Duration::from_secs(60);
/// Until a producer that is told to stop says what it has sent.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Two nodes' clocks that are further apart than their bounds and this do not agree: it is how long it takes to ask both.
const ASKED_WITHIN: Duration = Duration::from_secs(2);

/// How one run is to be.
#[derive(Clone, Debug)]
pub(super) struct RunOptions {
    /// Which stack.
    pub carrier: Carrier,
    /// Which end is accelerated, if it is Tickwire's run: the consumer.
    pub consumer: bool,
    /// And the producers.
    pub producers: bool,
    /// As `tickwire run --spin`, for accelerated nodes.
    pub spin: Option<String>,
    /// When messages are due; the pattern's phases are made so already.
    pub timing: Timing,
    /// How many times the pattern's rate; its periods are so already.
    pub rate: u32,
    /// How long messages do not count.
    pub warm_up: Duration,
    /// How long they do.
    pub duration: Duration,
    /// The clock that all nodes share.
    pub time: Time,
    /// How long before a message is due a producer stops sleeping and watches the clock.
    pub watch: Duration,
    /// The first port of the consumer; each stream has one.
    pub first_port: u16,
}

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

/// A node with its part.
struct Member<'a> {
    place: &'a Place,
    remote: Remote,
    /// By `tickwire stat`.
    pid: u32,
    accelerated: bool,
    /// Its streams, as places in the pattern.
    streams: Vec<usize>,
    before: Proof,
    /// What a producer has told; of each of its streams.
    sent: Option<Vec<Sent>>,
    /// It has failed, or ended.
    gone: bool,
    progress: Vec<Progress>,
}

/// Runs `pattern`, whose phases are set, once.
///
/// # Errors
/// [`Error::Refused`] if nothing was sent, because a node cannot be reached, is of another version, cannot open its sockets, or has no clock. What
/// happens to nodes later is in the run's faults.
pub(super) fn run(
    hosts: &Hosts,
    pattern: &Pattern,
    options: &RunOptions,
    live: &mut dyn FnMut(&Live),
) -> Result<Run, Error> {
    let channels = channels(pattern, hosts, options.first_port);
    let refused = |error: anyhow::Error| Error::Refused(format!("{error:#}"));
    let (mut consumer, mut producers) = gathered(hosts, pattern, options).map_err(refused)?;
    let asked = Instant::now();
    let at_ns = prepared(&mut consumer, &mut producers, &channels, options).map_err(refused)?;
    let start = Start {
        at_ns: at_ns.saturating_add(nanos_i64(asked.elapsed() + LEAD)),
        warm_up_ns: nanos(options.warm_up),
        duration_ns: nanos(options.duration),
    };
    let mut measured = Measured::new(pattern, options, start);
    for member in producers.iter_mut().chain([&mut consumer]).filter(|member| member.accelerated) {
        member.before = Proof::ask(member.place, member.pid).map_err(refused)?;
    }
    // What happens from here on belongs to the run.
    for member in std::iter::once(&mut consumer).chain(&mut producers) {
        if let Err(error) = member.remote.order(&Order::Start(start)) {
            measured.fault(&error);
        }
    }
    measured.watch(&mut consumer, &mut producers, live);
    let received = measured.finish(&mut consumer, &producers);
    measured.prove(std::iter::once(&consumer).chain(&producers));
    Ok(measured.into_run(received))
}

/// All nodes, each of our version.
fn gathered<'a>(
    hosts: &'a Hosts,
    pattern: &Pattern,
    options: &RunOptions,
) -> anyhow::Result<(Member<'a>, Vec<Member<'a>>)> {
    let ours = options.carrier == Carrier::Tickwire;
    let start = |place: &'a Place, accelerated: bool, streams: Vec<usize>| {
        let acceleration = accelerated.then(|| Acceleration { spin: options.spin.clone() });
        let remote = Remote::start(place, place.node(acceleration.as_ref()))?;
        let progress = vec![Progress::default(); streams.len()];
        Ok::<_, anyhow::Error>(Member {
            place,
            remote,
            pid: 0,
            accelerated,
            streams,
            before: Proof::default(),
            sent: None,
            gone: false,
            progress,
        })
    };
    let mut consumer = start(&hosts.consumer, ours && options.consumer, (0..pattern.streams.len()).collect())?;
    let mut producers = Vec::new();
    for (place, numbers) in &hosts.producers {
        let mine = |(_, stream): &(usize, &Stream)| numbers.contains(&stream.producer);
        let streams: Vec<usize> = pattern.streams.iter().enumerate().filter(mine).map(|(index, _)| index).collect();
        if !streams.is_empty() {
            producers.push(start(place, ours && options.producers, streams)?);
        }
    }
    let until = Instant::now() + APPEARS_WITHIN;
    for member in std::iter::once(&mut consumer).chain(&mut producers) {
        member.pid = member.greet(until)?;
    }
    Ok((consumer, producers))
}

/// Has all sockets opened, and says what time it is by the shared clock.
fn prepared(
    consumer: &mut Member<'_>,
    producers: &mut [Member<'_>],
    channels: &[Channel],
    options: &RunOptions,
) -> anyhow::Result<i64> {
    // Producers connect to what the consumer has opened.
    consumer.prepare(Role::Consumer, channels, options)?;
    let (now_ns, bound_ns) = consumer.ready()?;
    let asked = Instant::now();
    for producer in producers.iter_mut() {
        producer.prepare(Role::Producer, channels, options)?;
    }
    for producer in producers {
        let (theirs_ns, their_bound_ns) = producer.ready()?;
        let here_ns = now_ns.saturating_add(nanos_i64(asked.elapsed()));
        let allowed =
            nanos(ASKED_WITHIN).saturating_add(bound_ns.unwrap_or(0)).saturating_add(their_bound_ns.unwrap_or(0));
        if theirs_ns.abs_diff(here_ns) > allowed.saturating_add(nanos(asked.elapsed())) {
            anyhow::bail!(
                "{}: its clock is {:.3} s from that of {}: give both the same time servers",
                producer.place.name,
                theirs_ns.abs_diff(here_ns) as f64 / 1e9,
                consumer.place.name
            );
        }
    }
    Ok(now_ns.saturating_add(nanos_i64(asked.elapsed())))
}

impl Member<'_> {
    /// Waits until it is there; its process number.
    fn greet(&mut self, until: Instant) -> anyhow::Result<u32> {
        match self.remote.next(until)? {
            Some(News::Hello { version, program, pid, .. }) => {
                let ours = env!("CARGO_PKG_VERSION");
                if version != VERSION || program != ours {
                    anyhow::bail!(
                        "{}: its tickwire is {program}, this one is {ours}: install the same on all hosts",
                        self.place.name
                    );
                }
                Ok(pid)
            }
            Some(_) => anyhow::bail!("{}: what was started there is no node of the testbed", self.place.name),
            None => anyhow::bail!("{}: no answer within {} s", self.place.name, APPEARS_WITHIN.as_secs()),
        }
    }

    fn prepare(&mut self, role: Role, channels: &[Channel], options: &RunOptions) -> anyhow::Result<()> {
        let streams = self.streams.iter().map(|&index| channels[index].clone()).collect();
        let watch_ns = nanos(options.watch);
        let prepare = Prepare { role, address: self.place.address, streams, time: options.time.clone(), watch_ns };
        self.remote.order(&Order::Prepare(prepare))
    }

    fn ready(&mut self) -> anyhow::Result<(i64, Option<u64>)> {
        match self.remote.next(Instant::now() + READY_WITHIN)? {
            Some(News::Ready { now_ns, bound_ns }) => Ok((now_ns, bound_ns)),
            Some(_) => anyhow::bail!("{}: it did something else than it was told", self.place.name),
            None => anyhow::bail!("{}: its sockets were not open within {} s", self.place.name, READY_WITHIN.as_secs()),
        }
    }

    /// Whether it may still be sending.
    fn sends(&self) -> bool {
        self.sent.is_none() && !self.gone
    }

    /// Ends its sending.
    fn stop(&mut self) -> anyhow::Result<()> {
        self.remote.order(&Order::Stop)?;
        let until = Instant::now() + STOPS_WITHIN;
        while Instant::now() < until {
            if self.listen(until)? {
                return Ok(());
            }
        }
        anyhow::bail!("{}: it did not stop within {} s", self.place.name, STOPS_WITHIN.as_secs())
    }

    /// What the consumer has got.
    fn received(&mut self) -> anyhow::Result<(Vec<Received>, Usage)> {
        let until = Instant::now() + TELLS_WITHIN;
        while let Some(news) = self.remote.next(until)? {
            match news {
                News::Progress { .. } => {}
                News::Received { streams, usage } if streams.len() == self.streams.len() => {
                    return Ok((streams, usage));
                }
                _ => anyhow::bail!("{}: it said what was not asked for", self.place.name),
            }
        }
        anyhow::bail!("{}: it did not say what it had got within {} s", self.place.name, TELLS_WITHIN.as_secs())
    }

    /// Takes what it says until then, if it does; `true` once a producer has told what it has sent.
    fn listen(&mut self, until: Instant) -> anyhow::Result<bool> {
        match self.remote.next(until)? {
            None => {}
            Some(News::Progress { streams }) if streams.len() == self.streams.len() => self.progress = streams,
            Some(News::Sent { streams }) if streams.len() == self.streams.len() => self.sent = Some(streams),
            Some(_) => anyhow::bail!("{}: it said what was not asked for", self.place.name),
        }
        Ok(self.sent.is_some())
    }
}

/// What is known of a run while it lasts.
struct Measured<'a> {
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
    fn new(pattern: &'a Pattern, options: &'a RunOptions, start: Start) -> Self {
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

    fn fault(&mut self, error: &anyhow::Error) {
        let said = format!("{error:#}");
        if !self.faults.contains(&said) {
            self.faults.push(said);
        }
    }

    /// Until all producers have sent all, or are gone; or the consumer is, or time is over: then producers are told to stop.
    fn watch(&mut self, consumer: &mut Member<'_>, producers: &mut [Member<'_>], live: &mut dyn FnMut(&Live)) {
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
    fn finish(&mut self, consumer: &mut Member<'_>, producers: &[Member<'_>]) -> Option<(Vec<Received>, Usage)> {
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
    fn prove<'m>(&mut self, members: impl Iterator<Item = &'m Member<'m>>) {
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

    fn into_run(self, received: Option<(Vec<Received>, Usage)>) -> Run {
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

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn nanos_i64(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
