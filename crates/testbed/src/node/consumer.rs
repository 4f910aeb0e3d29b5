//! Receives all streams: one thread and one epoll instance, as a program has them that has many
//! sockets.

use super::PROGRESS;
use super::check;
use super::error::NodeError;
use super::inlet::{Arrival, Inlet};
use super::protocol::{Channel, News, Order, Prepare, Start};
use super::talk::{Heard, Talk, unexpected};
use super::tally::Tally;
use super::time::Timepiece;
use super::usage::Metering;
use crate::units::nanos;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent};
use std::time::{Duration, Instant};

/// All that one call can give: more than the largest datagram, so that none is cut to a message's
/// size.
const BUFFER: usize = 256 << 10;
/// Sockets that one wait tells of. Those that are left are told of first by the next.
const EVENTS: usize = 64;
/// How long a wait may be: between two the controller is heard. Its input is not waited for beside
/// the sockets, so that a wait is what it is in other programs.
const NAP: Duration = Duration::from_millis(100);
/// How long nothing may come, after the last message was sent, until the rest counts as lost.
const QUIET: Duration = Duration::from_secs(2);
/// How long it waits in all: what comes later was not sent by producers that have ended.
const LAST_WAIT: Duration = Duration::from_secs(60);

/// A consumer with its sockets open.
#[derive(Debug)]
pub(super) struct Consumer {
    prepare: Prepare,
    time: Timepiece,
    epoll: Epoll,
    inlets: Vec<Inlet>,
}

impl Consumer {
    /// Opens the sockets. What comes before the start waits in them.
    pub(super) fn open(prepare: Prepare) -> Result<Self, NodeError> {
        let time = prepare.time.open()?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| NodeError::System { what: "make an epoll instance", source: errno.into() })?;
        let open = |(channel, token): (&Channel, u64)| Inlet::open(channel, prepare.address, &epoll, token);
        let inlets = prepare.streams.iter().zip(0..).map(open).collect::<Result<_, _>>()?;
        Ok(Self { prepare, time, epoll, inlets })
    }

    /// The clock by which it goes.
    pub(super) fn time(&self) -> &Timepiece {
        &self.time
    }

    /// Receives until all that was sent has come, and tells of it. Ends when the controller says
    /// so.
    pub(super) fn run(self, start: &Start, talk: &Talk) -> Result<(), NodeError> {
        let Self { prepare, time, epoll, inlets } = self;
        let now = time.now_ns()?;
        check::start(start, &prepare.streams, now)?;
        let tally = |channel: &Channel| {
            let (first, last) = start.numbers(&channel.stream);
            Tally::new(first, last, nanos(channel.stream.deadline))
        };
        let ahead = Duration::from_nanos(start.at_ns.abs_diff(now));
        let from = Instant::now() + ahead + Duration::from_nanos(start.warm_up_ns);
        let mut receiver = Receiver {
            inlets,
            tallies: prepare.streams.iter().map(tally).collect(),
            epoll,
            arrival: Arrival { time, at_ns: start.at_ns },
            bound_ns: None,
            metering: Metering::new(from, from + Duration::from_nanos(start.duration_ns)),
            buffer: vec![0; BUFFER],
        };
        if !receiver.until_finished(talk)? {
            return Ok(());
        }
        let streams = receiver.tallies.iter().map(Tally::received).collect();
        receiver.look_at_the_clock();
        talk.say(News::Received { streams, usage: receiver.metering.end(), bound_ns: receiver.bound_ns })?;
        // The sockets stay until then: who looks at the host after the run finds them.
        match talk.wait()? {
            None | Some(Order::Stop) => Ok(()),
            Some(other) => Err(unexpected(&other, "`stop`")),
        }
    }
}

/// What is still to come, once the controller has told how much was sent.
struct Rest {
    sent: Vec<u64>,
    told: Instant,
    /// How many messages there were when one came last, and when that was.
    came: u64,
    last: Instant,
}

impl Rest {
    /// Whether nothing more is waited for.
    fn is_over(&mut self, tallies: &[Tally]) -> bool {
        let now = Instant::now();
        let came = tallies.iter().map(Tally::came).sum();
        if came != self.came {
            (self.came, self.last) = (came, now);
        }
        self.sent.iter().zip(tallies).all(|(&sent, tally)| tally.came() >= sent)
            || now - self.last >= QUIET
            || now - self.told >= LAST_WAIT
    }
}

/// A consumer while it receives.
struct Receiver {
    inlets: Vec<Inlet>,
    /// Of each inlet.
    tallies: Vec<Tally>,
    epoll: Epoll,
    arrival: Arrival,
    /// How far the clock may have been wrong, at most.
    bound_ns: Option<u64>,
    metering: Metering,
    buffer: Vec<u8>,
}

impl Receiver {
    /// Receives until the controller has said how much was sent and that has come, or it says
    /// `stop`; false if it has gone.
    fn until_finished(&mut self, talk: &Talk) -> Result<bool, NodeError> {
        let mut told = Instant::now();
        let mut rest: Option<Rest> = None;
        loop {
            self.receive()?;
            match talk.hear(Duration::ZERO)? {
                Heard::Nothing => {}
                Heard::End => return Ok(false),
                Heard::Order(Order::Stop) => return Ok(true),
                Heard::Order(Order::Finish { sent }) if rest.is_none() => rest = Some(self.rest(sent)?),
                Heard::Order(other) => return Err(unexpected(&other, "`finish`, once, or `stop`")),
            }
            if let Some(rest) = &mut rest
                && rest.is_over(&self.tallies)
            {
                self.look_for_producers(&rest.sent);
                return Ok(true);
            }
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                self.look_at_the_clock();
                if talk.mention(News::Progress { streams: self.tallies.iter().map(Tally::progress).collect() })? {
                    self.tallies.iter_mut().for_each(Tally::progress_told);
                }
            }
        }
    }

    fn look_at_the_clock(&mut self) {
        self.bound_ns = self.bound_ns.max(self.arrival.time.bound_ns());
    }

    /// Waits once, and takes what has come.
    fn receive(&mut self) -> Result<(), NodeError> {
        let failed = |what| move |source| NodeError::System { what, source };
        let next = self.metering.next().map_or(NAP, |next| next.saturating_duration_since(Instant::now()).min(NAP));
        let mut events = [EpollEvent::empty(); EVENTS];
        let ready = match self.epoll.wait(&mut events, next.as_micros().div_ceil(1_000) as u16) {
            Err(Errno::EINTR) => 0,
            ready => ready.map_err(|errno| failed("wait for messages")(errno.into()))?,
        };
        for event in &events[..ready] {
            let index = event.data() as usize;
            if let (Some(inlet), Some(tally)) = (self.inlets.get_mut(index), self.tallies.get_mut(index)) {
                inlet.receive(&self.epoll, &mut self.buffer, &self.arrival, tally).map_err(failed("watch a socket"))?;
            }
        }
        self.metering.look(Instant::now());
        Ok(())
    }

    fn rest(&self, sent: Vec<u64>) -> Result<Rest, NodeError> {
        if sent.len() != self.tallies.len() {
            let why = format!("`finish` is about {} streams, but there are {}", sent.len(), self.tallies.len());
            return Err(NodeError::Impossible(why));
        }
        let now = Instant::now();
        Ok(Rest { sent, told: now, came: 0, last: now })
    }

    /// Says of which streams no producer came, though it is said to have sent.
    fn look_for_producers(&mut self, sent: &[u64]) {
        for ((inlet, tally), &sent) in self.inlets.iter().zip(&mut self.tallies).zip(sent) {
            if sent > 0 && inlet.is_waiting() {
                tally.fault(|| "no producer's connection came, or no message by it".into());
            }
        }
    }
}
