//! One run: nodes are started, prepared, started off, watched, and asked what became of it.

use super::Error;
use super::measured::{Live, Measured};
use super::member::{Member, Members};
use super::patience::Patience;
use super::place::{Acceleration, Hosts, Place};
use super::plan::channels;
use super::proof::Proof;
use super::remote::Remote;
use crate::node::Time;
use crate::node::protocol::{Channel, Order, Role, Start};
use crate::outcome::{Carrier, Run, Timing};
use crate::pattern::{Pattern, Stream};
use crate::units::{far, millis, nanos};
use anyhow::bail;
use std::time::{Duration, Instant};

/// Two nodes' clocks that are further apart than their bounds and this do not agree: it is how long
/// it takes to ask both.
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
    /// How long nodes are waited for.
    pub patience: Patience,
}

/// Runs `pattern`, whose phases are set, once. Beside what became of it: by how many ns a latency
/// may have been wrong.
///
/// # Errors
/// [`Error::Refused`] if nothing was sent, because a node cannot be reached, is of another version,
/// cannot open its sockets, or has no clock, or none by which its deadlines could be judged. What
/// happens to nodes later is in the run's faults.
pub(super) fn run(
    hosts: &Hosts,
    pattern: &Pattern,
    options: &RunOptions,
    live: &mut dyn FnMut(&Live),
) -> Result<(Run, u64), Error> {
    let channels = channels(pattern, hosts, options.first_port);
    let refused = |error: anyhow::Error| Error::Refused(format!("{error:#}"));
    let mut members = gathered(hosts, pattern, options).map_err(refused)?;
    let (now_ns, asked) = prepared(&mut members, &channels, options).map_err(refused)?;
    for member in members.all().filter(|member| member.accelerated) {
        member.before = Proof::ask(member.place, member.pid, options.patience.answers).map_err(refused)?;
    }
    // Nothing that takes its time may come between this and the order.
    let start = Start {
        at_ns: now_ns.saturating_add(nanos_i64(asked.elapsed() + options.patience.lead)),
        warm_up_ns: nanos(options.warm_up),
        duration_ns: nanos(options.duration),
    };
    let mut measured = Measured::new(pattern, options, start);
    // What happens from here on belongs to the run.
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

/// All nodes, each of our version.
fn gathered<'a>(hosts: &'a Hosts, pattern: &Pattern, options: &RunOptions) -> anyhow::Result<Members<'a>> {
    let ours = options.carrier == Carrier::Tickwire;
    let start = |place: &'a Place, accelerated: bool, streams: Vec<usize>| {
        let acceleration = accelerated.then(|| Acceleration { spin: options.spin.clone() });
        let remote = Remote::start(place, place.node(acceleration.as_ref()), streams.len(), &options.patience)?;
        Ok::<_, anyhow::Error>(Member::new(place, remote, options.patience, accelerated, streams))
    };
    let consumer = start(&hosts.consumer, ours && options.consumer, (0..pattern.streams.len()).collect())?;
    let mut members = Members { consumer, producers: Vec::new() };
    for (place, numbers) in &hosts.producers {
        let mine = |(_, stream): &(usize, &Stream)| numbers.contains(&stream.producer);
        let streams: Vec<usize> = pattern.streams.iter().enumerate().filter(mine).map(|(index, _)| index).collect();
        if !streams.is_empty() {
            members.producers.push(start(place, ours && options.producers, streams)?);
        }
    }
    let until = Instant::now() + options.patience.appears;
    for member in members.all() {
        member.pid = member.greet(until)?;
    }
    Ok(members)
}

/// Has all sockets opened, and says what time it is by the shared clock, and at which instant.
fn prepared(members: &mut Members<'_>, channels: &[Channel], options: &RunOptions) -> anyhow::Result<(i64, Instant)> {
    // Producers connect to what the consumer has opened.
    members.consumer.prepare(Role::Consumer, channels, options)?;
    let now_ns = members.consumer.ready()?;
    let asked = Instant::now();
    for producer in &mut members.producers {
        producer.prepare(Role::Producer, channels, options)?;
    }
    let Members { consumer, producers } = members;
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
