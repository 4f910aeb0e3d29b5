//! Receives all streams: one thread that waits for all sockets, like a program with many.

use crate::PROGRESS;
use crate::check;
use crate::error::NodeError;
use crate::os::Readiness;
use crate::protocol::{NodeReport, Order, Prepare, Start, StreamDestination};
use crate::stream_receiver::{Arrival, StreamReceiver};
use crate::talk::{Heard, Talk, unexpected};
use crate::tally::Tally;
use crate::time::Timepiece;
use crate::units::nanos;
use crate::usage::Metering;
use std::time::{Duration, Instant};

/// Buffer of one call: more than the largest datagram, so that an oversized one is not truncated to
/// the message size.
const BUFFER: usize = 256 << 10;
/// The longest wait; the controller's input is checked between two waits. It is not waited for with
/// the sockets, so that a wait costs what it costs in other programs.
const NAP: Duration = Duration::from_millis(100);
/// How long nothing may arrive, after the last message was sent, until the rest counts as lost.
const QUIET: Duration = Duration::from_secs(2);
/// The longest wait in all: the producers have ended before, so later messages are not theirs.
const LAST_WAIT: Duration = Duration::from_secs(60);

/// A consumer with its sockets open.
#[derive(Debug)]
pub(crate) struct Consumer {
    prepare: Prepare,
    time: Timepiece,
    readiness: Readiness,
    inlets: Vec<StreamReceiver>,
}

impl Consumer {
    /// Opens the sockets. Messages before the start queue in them.
    pub(crate) fn open(prepare: Prepare) -> Result<Self, NodeError> {
        let time = prepare.time.open()?;
        let mut readiness =
            Readiness::new().map_err(|source| NodeError::System { what: "wait for sockets", source })?;
        let open = |(channel, token): (&StreamDestination, u64)| {
            StreamReceiver::open(channel, prepare.address, &mut readiness, token)
        };
        let inlets = prepare.streams.iter().zip(0..).map(open).collect::<Result<_, _>>()?;
        Ok(Self { prepare, time, readiness, inlets })
    }

    /// The shared clock.
    pub(crate) fn time(&self) -> &Timepiece {
        &self.time
    }

    /// Receives until all sent messages have arrived, and reports them. Ends at the controller's
    /// order.
    pub(crate) fn run(self, start: &Start, talk: &Talk) -> Result<(), NodeError> {
        let Self { prepare, time, readiness, inlets } = self;
        let now = time.now_ns()?;
        check::start(start, &prepare.streams, now)?;
        let tally = |channel: &StreamDestination| {
            let (first, last) = start.numbers(&channel.stream);
            Tally::new(first, last, nanos(channel.stream.deadline))
        };
        let ahead = Duration::from_nanos(start.at_ns.abs_diff(now));
        let from = Instant::now() + ahead + Duration::from_nanos(start.warm_up_ns);
        let mut receiver = Receiver {
            inlets,
            tallies: prepare.streams.iter().map(tally).collect(),
            readiness,
            ready: Vec::new(),
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
        talk.say(NodeReport::Received { streams, usage: receiver.metering.end(), bound_ns: receiver.bound_ns })?;
        // The sockets stay open until then, so that they can be inspected on the host after the
        // run.
        match talk.wait()? {
            None | Some(Order::Stop) => Ok(()),
            Some(other) => Err(unexpected(&other, "`stop`")),
        }
    }
}

/// The messages still in flight, once the controller has said how many were sent.
struct Rest {
    sent: Vec<u64>,
    told: Instant,
    /// Number of messages at the last arrival, and its time.
    came: u64,
    last: Instant,
}

impl Rest {
    /// Whether to stop waiting.
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
    inlets: Vec<StreamReceiver>,
    /// One for each inlet.
    tallies: Vec<Tally>,
    readiness: Readiness,
    /// The tokens of the last wait.
    ready: Vec<u64>,
    arrival: Arrival,
    /// The clock's greatest error bound so far.
    bound_ns: Option<u64>,
    metering: Metering,
    buffer: Vec<u8>,
}

impl Receiver {
    /// Receives until the controller has said how much was sent and that has arrived, or it orders
    /// `stop`; returns false if it has gone.
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
                if talk.mention(NodeReport::Progress { streams: self.tallies.iter().map(Tally::progress).collect() })? {
                    self.tallies.iter_mut().for_each(Tally::progress_told);
                }
            }
        }
    }

    fn look_at_the_clock(&mut self) {
        self.bound_ns = self.bound_ns.max(self.arrival.time.bound_ns());
    }

    /// Waits once, and receives from the ready sockets.
    fn receive(&mut self) -> Result<(), NodeError> {
        let failed = |what| move |source| NodeError::System { what, source };
        let next = self.metering.next().map_or(NAP, |next| next.saturating_duration_since(Instant::now()).min(NAP));
        self.readiness.wait(next, &mut self.ready).map_err(failed("wait for messages"))?;
        for &token in &self.ready {
            let index = token as usize;
            if let (Some(inlet), Some(tally)) = (self.inlets.get_mut(index), self.tallies.get_mut(index)) {
                let received = inlet.receive(&mut self.readiness, &mut self.buffer, &self.arrival, tally);
                received.map_err(failed("watch a socket"))?;
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

    /// Reports streams without a producer's connection, although messages were sent.
    fn look_for_producers(&mut self, sent: &[u64]) {
        for ((inlet, tally), &sent) in self.inlets.iter().zip(&mut self.tallies).zip(sent) {
            if sent > 0 && inlet.is_waiting() {
                tally.fault(|| "no producer's connection came, or no message by it".into());
            }
        }
    }
}
