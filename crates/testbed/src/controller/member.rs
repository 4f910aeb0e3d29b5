//! One node with its part in a run: what it is told, and what it says.

use super::place::Place;
use super::proof::Proof;
use super::remote::Remote;
use super::run::{RunOptions, nanos};
use crate::node::protocol::{Channel, News, Order, Prepare, Progress, Received, Role, Sent, VERSION};
use crate::outcome::Usage;
use std::time::{Duration, Instant};

/// Until a node says that it is there: `ssh` may ask its user for a password meanwhile.
pub(super) const APPEARS_WITHIN: Duration = Duration::from_secs(60);
/// Until its sockets are open: connecting is bounded by the node itself.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long after the end of a run nodes may take to say what became of it.
pub(super) const TELLS_WITHIN: Duration = Duration::from_secs(60);
/// Until a producer that is told to stop says what it has sent.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// A node with its part.
pub(super) struct Member<'a> {
    pub(super) place: &'a Place,
    pub(super) remote: Remote,
    /// By `tickwire stat`.
    pub(super) pid: u32,
    pub(super) accelerated: bool,
    /// Its streams, as places in the pattern.
    pub(super) streams: Vec<usize>,
    pub(super) before: Proof,
    /// What a producer has told; of each of its streams.
    pub(super) sent: Option<Vec<Sent>>,
    /// It has failed, or ended.
    pub(super) gone: bool,
    pub(super) progress: Vec<Progress>,
}

impl Member<'_> {
    /// Waits until it is there; its process number.
    pub(super) fn greet(&mut self, until: Instant) -> anyhow::Result<u32> {
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

    pub(super) fn prepare(&mut self, role: Role, channels: &[Channel], options: &RunOptions) -> anyhow::Result<()> {
        let streams = self.streams.iter().map(|&index| channels[index].clone()).collect();
        let watch_ns = nanos(options.watch);
        let prepare = Prepare { role, address: self.place.address, streams, time: options.time.clone(), watch_ns };
        self.remote.order(&Order::Prepare(prepare))
    }

    pub(super) fn ready(&mut self) -> anyhow::Result<(i64, Option<u64>)> {
        match self.remote.next(Instant::now() + READY_WITHIN)? {
            Some(News::Ready { now_ns, bound_ns }) => Ok((now_ns, bound_ns)),
            Some(_) => anyhow::bail!("{}: it did something else than it was told", self.place.name),
            None => anyhow::bail!("{}: its sockets were not open within {} s", self.place.name, READY_WITHIN.as_secs()),
        }
    }

    /// Whether it may still be sending.
    pub(super) fn sends(&self) -> bool {
        self.sent.is_none() && !self.gone
    }

    /// Ends its sending.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
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
    pub(super) fn received(&mut self) -> anyhow::Result<(Vec<Received>, Usage)> {
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
    pub(super) fn listen(&mut self, until: Instant) -> anyhow::Result<bool> {
        match self.remote.next(until)? {
            None => {}
            Some(News::Progress { streams }) if streams.len() == self.streams.len() => self.progress = streams,
            Some(News::Sent { streams }) if streams.len() == self.streams.len() => self.sent = Some(streams),
            Some(_) => anyhow::bail!("{}: it said what was not asked for", self.place.name),
        }
        Ok(self.sent.is_some())
    }
}
