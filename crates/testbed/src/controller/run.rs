//! One run: starts the nodes, prepares them, gives the start order, watches, and collects the
//! results.

use super::TestbedError;
use super::host::{Acceleration, Hosts, NodeHost};
use super::measured::{Live, Measured};
use super::node_session::{NodeSession, NodeSessions};
use super::plan::channels;
use super::proof::Proof;
use super::remote::Remote;
use super::timeouts::Timeouts;
use crate::node::NodeClock;
use crate::node::protocol::{NodeRole, Order, Start, StreamDestination};
use crate::outcome::{Carrier, Run, Timing};
use crate::pattern::{Pattern, Stream};
use crate::units::{far, millis, nanos};
use anyhow::bail;
use std::time::{Duration, Instant};

/// Two clocks disagree if they differ by more than their bounds and this: the time that it takes to
/// read both.
const ASKED_WITHIN: Duration = Duration::from_secs(2);

/// Options of one run.
#[derive(Clone, Debug)]
pub(super) struct RunOptions {
    /// The stack.
    pub carrier: Carrier,
    /// Whether the consumer is accelerated, if it is Tickwire's run.
    pub consumer: bool,
    /// Whether the producers are.
    pub producers: bool,
    /// As `tickwire run --spin`, for accelerated nodes.
    pub spin: Option<String>,
    /// When messages are due; the pattern's phases are already set accordingly.
    pub timing: Timing,
    /// Multiple of the pattern's rate; its periods are already set accordingly.
    pub rate: u32,
    /// Length of the warm-up, whose messages do not count.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub duration: Duration,
    /// The clock that all nodes share.
    pub time: NodeClock,
    /// How long before a message is due a producer stops sleeping and polls the clock.
    pub watch: Duration,
    /// The first port of the consumer; each stream has one.
    pub first_port: u16,
    /// Timeouts of nodes.
    pub timeouts: Timeouts,
}

/// Runs `pattern`, whose phases are set, once. Returns the results, and the error bound of a
/// latency in ns.
///
/// # Errors
/// [`TestbedError::Refused`] if nothing was sent, because a node cannot be reached, is of another
/// version, cannot open its sockets, or has no clock, or none accurate enough for its deadlines.
/// Later failures of nodes are in the run's faults.
pub(super) fn run(
    hosts: &Hosts,
    pattern: &Pattern,
    options: &RunOptions,
    live: &mut dyn FnMut(&Live),
) -> Result<(Run, u64), TestbedError> {
    let channels = channels(pattern, hosts, options.first_port);
    let refused = |error: anyhow::Error| TestbedError::Refused(format!("{error:#}"));
    let mut members = gathered(hosts, pattern, options).map_err(refused)?;
    let (now_ns, asked) = prepared(&mut members, &channels, options).map_err(refused)?;
    for member in members.all().filter(|member| member.accelerated && !member.place.is_proven_at_end()) {
        member.before = Proof::ask(member.place, member.pid, options.timeouts.answers).map_err(refused)?;
    }
    // Nothing slow may come between this and the order.
    let start = Start {
        at_ns: now_ns.saturating_add(nanos_i64(asked.elapsed() + options.timeouts.lead)),
        warm_up_ns: nanos(options.warm_up),
        duration_ns: nanos(options.duration),
    };
    let mut measured = Measured::new(pattern, options, start);
    // Failures from here on are faults of the run.
    for member in members.all() {
        if let Err(error) = member.order(&Order::Start(start)) {
            measured.fault(&error);
        }
    }
    measured.watch(&mut members, live);
    let received = measured.finish(&mut members);
    measured.prove(&mut members);
    let farthest = members.producers.iter().map(|producer| producer.bound_ns).max().unwrap_or(0);
    Ok((measured.into_run(received), members.consumer.bound_ns.saturating_add(farthest)))
}

/// Starts all nodes, and checks their versions.
fn gathered<'a>(hosts: &'a Hosts, pattern: &Pattern, options: &RunOptions) -> anyhow::Result<NodeSessions<'a>> {
    let ours = options.carrier == Carrier::Tickwire;
    let start = |place: &'a NodeHost, accelerated: bool, streams: Vec<usize>| {
        let acceleration = accelerated.then(|| Acceleration { spin: options.spin.clone() });
        let timeouts = place.timeouts(&options.timeouts);
        let remote = Remote::start(place, place.node(acceleration.as_ref()), streams.len(), &timeouts)?;
        Ok::<_, anyhow::Error>(NodeSession::new(place, remote, timeouts, accelerated, streams))
    };
    let consumer = start(&hosts.consumer, ours && options.consumer, (0..pattern.streams.len()).collect())?;
    let mut members = NodeSessions { consumer, producers: Vec::new() };
    for (place, numbers) in &hosts.producers {
        let mine = |(_, stream): &(usize, &Stream)| numbers.contains(&stream.producer);
        let streams: Vec<usize> = pattern.streams.iter().enumerate().filter(mine).map(|(index, _)| index).collect();
        if !streams.is_empty() {
            members.producers.push(start(place, ours && options.producers && place.can_be_accelerated(), streams)?);
        }
    }
    let until = Instant::now() + options.timeouts.appears;
    for member in members.all() {
        member.pid = member.greet(until)?;
    }
    Ok(members)
}

/// Lets all nodes open their sockets; returns a reading of the shared clock, and its instant.
fn prepared(
    members: &mut NodeSessions<'_>,
    channels: &[StreamDestination],
    options: &RunOptions,
) -> anyhow::Result<(i64, Instant)> {
    // The consumer's sockets must be open before producers connect.
    members.consumer.prepare(NodeRole::Consumer, channels, options)?;
    let now_ns = members.consumer.ready()?;
    let asked = Instant::now();
    for producer in &mut members.producers {
        producer.prepare(NodeRole::Producer, channels, options)?;
    }
    let NodeSessions { consumer, producers } = members;
    for producer in producers {
        let theirs_ns = producer.ready()?;
        let here_ns = now_ns.saturating_add(nanos_i64(asked.elapsed()));
        let bounds = consumer.bounds_ns(producer);
        let names = (&producer.place.name, &consumer.place.name);
        if theirs_ns.abs_diff(here_ns) > nanos(ASKED_WITHIN + asked.elapsed()).saturating_add(bounds) {
            let apart = theirs_ns.abs_diff(here_ns) as f64 / 1e9;
            bail!("{}: its clock is {apart:.3} s from that of {}: give both the same time servers", names.0, names.1);
        }
        if let Some(stream) = producer.unjudged(consumer, |index| &channels[index].stream) {
            bail!(
                "{}: its clock and that of {} may be {} apart, and stream {} has a deadline of {} ms, which could not be judged: wait until both clocks are in \
                 sync, or give them nearer time servers (tickwire clock status)",
                names.0,
                names.1,
                far(bounds),
                stream.id,
                millis(stream.deadline)
            );
        }
    }
    Ok((now_ns, asked))
}

fn nanos_i64(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
