//! One node in its role in a run: the orders to it, and its reports.

use super::host::NodeHost;
use super::proof::Proof;
use super::remote::Remote;
use super::run::RunOptions;
use super::timeouts::Timeouts;
use super::validation::validate;
use crate::node::protocol::{
    NodeReport, NodeRole, Order, Prepare, Progress, Sent, StreamDestination, StreamResult, VERSION,
};
use crate::outcome::Usage;
use crate::pattern::Stream;
use crate::units::nanos;
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

/// A node in its role.
pub(super) struct NodeSession<'a> {
    pub(super) place: &'a NodeHost,
    remote: Remote,
    timeouts: Timeouts,
    /// Its PID, as in `tickwire stat`.
    pub(super) pid: u32,
    pub(super) accelerated: bool,
    /// Its streams, as indices in the pattern.
    pub(super) streams: Vec<usize>,
    /// Greatest error bound of its clock, in ns, of the bounds that it reported when its sockets
    /// were open and at the end.
    pub(super) bound_ns: u64,
    pub(super) before: Proof,
    /// A producer's final report on each of its streams.
    pub(super) sent: Option<Vec<Sent>>,
    /// The node has failed, or ended.
    pub(super) gone: bool,
    pub(super) progress: Vec<Progress>,
    /// Time of the last message to or from it.
    heard: Instant,
}

impl<'a> NodeSession<'a> {
    /// The node that was started as `remote`.
    pub(super) fn new(
        place: &'a NodeHost,
        remote: Remote,
        timeouts: Timeouts,
        accelerated: bool,
        streams: Vec<usize>,
    ) -> Self {
        Self {
            place,
            remote,
            timeouts,
            pid: 0,
            accelerated,
            progress: vec![Progress::default(); streams.len()],
            streams,
            bound_ns: 0,
            before: Proof::default(),
            sent: None,
            gone: false,
            heard: Instant::now(),
        }
    }

    /// Waits for its first message; returns its PID.
    pub(super) fn greet(&mut self, until: Instant) -> Result<u32> {
        match self.hear(until)? {
            Some(NodeReport::Hello { version, program, pid, .. }) => {
                let ours = env!("CARGO_PKG_VERSION");
                if version != VERSION || program != ours {
                    bail!(
                        "{}: its tickwire is {program}, this one is {ours}: install the same on all hosts",
                        self.place.name
                    );
                }
                Ok(pid)
            }
            Some(_) => bail!("{}: what was started there is no node of the testbed", self.place.name),
            None => bail!("{}: no answer within {} s", self.place.name, self.timeouts.appears.as_secs()),
        }
    }

    pub(super) fn prepare(
        &mut self,
        role: NodeRole,
        channels: &[StreamDestination],
        options: &RunOptions,
    ) -> Result<()> {
        let streams = self.streams.iter().map(|&index| channels[index].clone()).collect();
        let watch_ns = nanos(options.watch);
        let prepare = Prepare { role, address: self.place.address, streams, time: options.time.clone(), watch_ns };
        self.order(&Order::Prepare(prepare))
    }

    /// Waits until its sockets are open; returns its reading of the shared clock then, in ns.
    pub(super) fn ready(&mut self) -> Result<i64> {
        match self.hear(Instant::now() + self.timeouts.ready)? {
            Some(NodeReport::Ready { now_ns, bound_ns }) => {
                self.bound_ns = bound_ns.unwrap_or(0);
                Ok(now_ns)
            }
            Some(_) => bail!("{}: it did something else than it was told", self.place.name),
            None => {
                bail!("{}: its sockets were not open within {} s", self.place.name, self.timeouts.ready.as_secs())
            }
        }
    }

    pub(super) fn order(&mut self, order: &Order) -> Result<()> {
        self.heard = Instant::now();
        self.remote.order(order)
    }

    /// Whether it may still be sending.
    pub(super) fn sends(&self) -> bool {
        self.sent.is_none() && !self.gone
    }

    /// Waits for the final report of a producer that was ordered to stop.
    pub(super) fn stopped(&mut self, until: Instant) -> Result<()> {
        while Instant::now() < until {
            if self.listen(until)? {
                return Ok(());
            }
        }
        bail!("{}: it did not stop within {} s", self.place.name, self.timeouts.stops.as_secs())
    }

    /// Waits for the consumer's results.
    pub(super) fn received(&mut self) -> Result<(Vec<StreamResult>, Usage)> {
        let until = Instant::now() + self.timeouts.tells;
        while Instant::now() < until {
            match self.hear(until)? {
                Some(NodeReport::Progress { .. }) | None => {}
                Some(NodeReport::Received { streams, usage, bound_ns }) => {
                    self.bound_was(bound_ns);
                    return Ok((streams, usage));
                }
                Some(_) => bail!("{}: it said what was not asked for", self.place.name),
            }
        }
        bail!("{}: it did not say what it had got within {} s", self.place.name, self.timeouts.tells.as_secs())
    }

    /// Processes a report that arrives until then; returns `true` once a producer has sent its
    /// final report.
    pub(super) fn listen(&mut self, until: Instant) -> Result<bool> {
        match self.hear(until)? {
            None if self.heard.elapsed() > self.timeouts.silent => {
                bail!("{}: nothing was heard of it for {} s", self.place.name, self.timeouts.silent.as_secs())
            }
            None => {}
            Some(NodeReport::Progress { streams }) => self.progress = streams,
            Some(NodeReport::Sent { streams, bound_ns }) => {
                self.bound_was(bound_ns);
                self.sent = Some(streams);
            }
            Some(_) => bail!("{}: it said what was not asked for", self.place.name),
        }
        Ok(self.sent.is_some())
    }

    fn bound_was(&mut self, bound_ns: Option<u64>) {
        self.bound_ns = self.bound_ns.max(bound_ns.unwrap_or(0));
    }

    /// Sum of the error bounds of its clock and another one, in ns.
    pub(super) fn bounds_ns(&self, other: &Self) -> u64 {
        self.bound_ns.saturating_add(other.bound_ns)
    }

    /// Its stream with the shortest deadline, if that is not longer than the possible difference
    /// between its clock and another one, so that it cannot be judged.
    pub(super) fn unjudged<'p>(&self, other: &Self, stream: impl Fn(usize) -> &'p Stream) -> Option<&'p Stream> {
        let nearest = self.streams.iter().map(|&index| stream(index)).min_by_key(|stream| stream.deadline)?;
        (self.bounds_ns(other) >= nanos(nearest.deadline)).then_some(nearest)
    }

    /// What its lane has carried so far. Where that is known at its end only, this ends it.
    pub(super) fn proof(&mut self, within: Duration) -> Result<Proof> {
        if !self.place.is_proven_at_end() {
            return Proof::ask(self.place, self.pid, within);
        }
        self.remote.ended();
        self.place.proof_at_end().with_context(|| self.remote.end())
    }

    /// Starts its shutdown.
    pub(super) fn let_go(&mut self) {
        self.remote.let_go();
    }

    /// The next report that arrives until then, after validation.
    fn hear(&mut self, until: Instant) -> Result<Option<NodeReport>> {
        let report = self.remote.next(until)?;
        if let Some(report) = &report {
            self.heard = Instant::now();
            if let Err(why) = validate(report, self.streams.len()) {
                bail!("{}: it says what cannot be: {why}", self.place.name);
            }
        }
        Ok(report)
    }
}

/// All nodes of a run.
pub(super) struct NodeSessions<'a> {
    pub(super) consumer: NodeSession<'a>,
    pub(super) producers: Vec<NodeSession<'a>>,
}

impl<'a> NodeSessions<'a> {
    /// All members, the consumer first.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut NodeSession<'a>> {
        std::iter::once(&mut self.consumer).chain(&mut self.producers)
    }
}

impl Drop for NodeSessions<'_> {
    fn drop(&mut self) {
        // Shuts all down at once, so that several hanging nodes take no longer than one.
        self.all().for_each(NodeSession::let_go);
    }
}
