//! One node with its part in a run: what it is told, and what it says.

use super::believable::believable;
use super::patience::Patience;
use super::place::Place;
use super::proof::Proof;
use super::remote::Remote;
use super::run::RunOptions;
use crate::node::protocol::{Channel, News, Order, Prepare, Progress, Received, Role, Sent, VERSION};
use crate::outcome::Usage;
use crate::pattern::Stream;
use crate::units::nanos;
use anyhow::{Result, bail};
use std::time::Instant;

/// A node with its part.
pub(super) struct Member<'a> {
    pub(super) place: &'a Place,
    remote: Remote,
    patience: Patience,
    /// By `tickwire stat`.
    pub(super) pid: u32,
    pub(super) accelerated: bool,
    /// Its streams, as places in the pattern.
    pub(super) streams: Vec<usize>,
    /// How far its clock may have been wrong at most, in ns, by what it has told so far: when its
    /// sockets were open, and at the end.
    pub(super) bound_ns: u64,
    pub(super) before: Proof,
    /// What a producer has told; of each of its streams.
    pub(super) sent: Option<Vec<Sent>>,
    /// It has failed, or ended.
    pub(super) gone: bool,
    pub(super) progress: Vec<Progress>,
    /// When it said something last.
    heard: Instant,
}

impl<'a> Member<'a> {
    /// The node that was started as `remote`.
    pub(super) fn new(
        place: &'a Place,
        remote: Remote,
        patience: Patience,
        accelerated: bool,
        streams: Vec<usize>,
    ) -> Self {
        Self {
            place,
            remote,
            patience,
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

    /// Waits until it is there; its process number.
    pub(super) fn greet(&mut self, until: Instant) -> Result<u32> {
        match self.hear(until)? {
            Some(News::Hello { version, program, pid, .. }) => {
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
            None => bail!("{}: no answer within {} s", self.place.name, self.patience.appears.as_secs()),
        }
    }

    pub(super) fn prepare(&mut self, role: Role, channels: &[Channel], options: &RunOptions) -> Result<()> {
        let streams = self.streams.iter().map(|&index| channels[index].clone()).collect();
        let watch_ns = nanos(options.watch);
        let prepare = Prepare { role, address: self.place.address, streams, time: options.time.clone(), watch_ns };
        self.order(&Order::Prepare(prepare))
    }

    /// Waits until its sockets are open; the shared clock as it read it then, in ns.
    pub(super) fn ready(&mut self) -> Result<i64> {
        match self.hear(Instant::now() + self.patience.ready)? {
            Some(News::Ready { now_ns, bound_ns }) => {
                self.bound_ns = bound_ns.unwrap_or(0);
                Ok(now_ns)
            }
            Some(_) => bail!("{}: it did something else than it was told", self.place.name),
            None => {
                bail!("{}: its sockets were not open within {} s", self.place.name, self.patience.ready.as_secs())
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

    /// Waits until a producer that was told to stop has said what it has sent.
    pub(super) fn stopped(&mut self, until: Instant) -> Result<()> {
        while Instant::now() < until {
            if self.listen(until)? {
                return Ok(());
            }
        }
        bail!("{}: it did not stop within {} s", self.place.name, self.patience.stops.as_secs())
    }

    /// What the consumer has got.
    pub(super) fn received(&mut self) -> Result<(Vec<Received>, Usage)> {
        let until = Instant::now() + self.patience.tells;
        while Instant::now() < until {
            match self.hear(until)? {
                Some(News::Progress { .. }) | None => {}
                Some(News::Received { streams, usage, bound_ns }) => {
                    self.bound_was(bound_ns);
                    return Ok((streams, usage));
                }
                Some(_) => bail!("{}: it said what was not asked for", self.place.name),
            }
        }
        bail!("{}: it did not say what it had got within {} s", self.place.name, self.patience.tells.as_secs())
    }

    /// Takes what it says until then, if it does; `true` once a producer has told what it has sent.
    pub(super) fn listen(&mut self, until: Instant) -> Result<bool> {
        match self.hear(until)? {
            None if self.heard.elapsed() > self.patience.silent => {
                bail!("{}: nothing was heard of it for {} s", self.place.name, self.patience.silent.as_secs())
            }
            None => {}
            Some(News::Progress { streams }) => self.progress = streams,
            Some(News::Sent { streams, bound_ns }) => {
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

    /// By how many ns what it tells of its clock and what another one does may be wrong together.
    pub(super) fn bounds_ns(&self, other: &Self) -> u64 {
        self.bound_ns.saturating_add(other.bound_ns)
    }

    /// Which of its streams has the shortest deadline, if that cannot be judged, because its clock
    /// and another one may be as far apart.
    pub(super) fn unjudged<'p>(&self, other: &Self, stream: impl Fn(usize) -> &'p Stream) -> Option<&'p Stream> {
        let nearest = self.streams.iter().map(|&index| stream(index)).min_by_key(|stream| stream.deadline)?;
        (self.bounds_ns(other) >= nanos(nearest.deadline)).then_some(nearest)
    }

    /// Nothing more is wanted of it.
    pub(super) fn let_go(&mut self) {
        self.remote.let_go();
    }

    /// The next that it says until then, if it can be so.
    fn hear(&mut self, until: Instant) -> Result<Option<News>> {
        let news = self.remote.next(until)?;
        if let Some(news) = &news {
            self.heard = Instant::now();
            if let Err(why) = believable(news, self.streams.len()) {
                bail!("{}: it says what cannot be: {why}", self.place.name);
            }
        }
        Ok(news)
    }
}

/// All nodes of a run.
pub(super) struct Members<'a> {
    pub(super) consumer: Member<'a>,
    pub(super) producers: Vec<Member<'a>>,
}

impl<'a> Members<'a> {
    /// The consumer first.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        std::iter::once(&mut self.consumer).chain(&mut self.producers)
    }
}

impl Drop for Members<'_> {
    fn drop(&mut self) {
        // All at once, so that several that hang are waited for no longer than one.
        self.all().for_each(Member::let_go);
    }
}
