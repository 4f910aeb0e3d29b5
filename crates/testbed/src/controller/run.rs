//! One run: nodes are started, prepared, started off, watched, and asked what became of it.

use super::Error;
use super::measured::{Live, Measured};
use super::member::{APPEARS_WITHIN, Member};
use super::place::{Acceleration, Hosts, Place};
use super::plan::channels;
use super::proof::Proof;
use super::remote::Remote;
use crate::node::Time;
use crate::node::protocol::{Channel, Order, Progress, Role, Start};
use crate::outcome::{Carrier, Run, Timing};
use crate::pattern::{Pattern, Stream};
use std::time::{Duration, Instant};

/// From the order to the first message: so long it may take until all nodes have the order.
pub(super) const LEAD: Duration = Duration::from_millis(1500);
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

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn nanos_i64(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
