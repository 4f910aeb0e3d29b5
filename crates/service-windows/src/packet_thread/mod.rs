//! The thread that moves packets between a network card and its lanes. It owns the card, the rings
//! and the rules; other threads of the service have it run jobs.

use crate::capture_tap::{CaptureNumber, CaptureTap};
use crate::claimed_ports::ClaimedPorts;
use crate::forwarder::{Forwarder, LaneRings, OutgoingFrame, RingLosses};
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tickwire_card_windows::card::{CardLosses, CardWaker, PacketCard, ReceivedFrame, SlowWork};
use tickwire_lane::record_ring::{ProducerMemory, RingMemory, Wakes};
use tickwire_registry::TableChange;
use tickwire_stack::addr::Endpoint;
use tickwire_steer::counters::{HostCounters, LaneCounters};
use tickwire_steer::tables::{LaneNumber, Tables};
use tickwire_steer::{FrameArrival, Kernel, KernelSocket, Merged};

/// At most so many frames are received before lanes may send.
const BATCH: u32 = 64;

/// For so long after a packet the thread polls, before it sleeps.
const POLL: Duration = Duration::from_micros(100);

/// How often what packets have taught is tidied up.
const TIDY: Duration = Duration::from_secs(1);

/// A lane is drained so many times at most: by then its ring is empty, unless its program goes on
/// to send.
const MOST_DRAINS: usize = 2048;

/// Wakes the threads of a lane's program.
pub trait LaneWaker: Send {
    /// Wakes those.
    fn wake(&self, wakes: Wakes);
}

/// What the thread has.
pub struct PacketPath<R, P> {
    card: Box<dyn PacketCard>,
    forwarder: Forwarder<R, P>,
    wakers: BTreeMap<LaneNumber, Box<dyn LaneWaker>>,
    /// Those of captures.
    readers: BTreeMap<CaptureNumber, Box<dyn LaneWaker>>,
    claimed: ClaimedPorts,
    now_ns: fn() -> u64,
    /// Frames that the card could not send.
    unsent: u64,
}

/// What has become of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCounters {
    /// Packets that lanes have received.
    pub diverted: u64,
    /// Packets that were the kernel's.
    pub passed: u64,
    /// Frames that the card could not send, or give back.
    pub unsent: u64,
    /// What the card has lost.
    pub losses: CardLosses,
}

/// What has become of a change that gives lanes something.
pub enum Begun {
    /// It is done, or the driver has refused it.
    Done(io::Result<()>),
    /// This is to be done first.
    First(SlowWork),
}

/// A kernel of which nothing is known about its sockets: a peer's SYN between the ends of a lane's
/// flow is the flow's.
struct UnknownKernel;

impl Kernel for UnknownKernel {
    fn tcp_socket(&self, _: Endpoint, _: Endpoint) -> Option<KernelSocket> {
        None
    }
}

impl<R: RingMemory, P: ProducerMemory> PacketPath<R, P> {
    fn new(card: Box<dyn PacketCard>, now_ns: fn() -> u64) -> Self {
        let (forwarder, claimed) = (Forwarder::new(), ClaimedPorts::default());
        let (wakers, readers) = (BTreeMap::new(), BTreeMap::new());
        Self { card, forwarder, wakers, readers, claimed, now_ns, unsent: 0 }
    }

    /// Lanes, rules and counters.
    pub fn forwarder(&mut self) -> &mut Forwarder<R, P> {
        &mut self.forwarder
    }

    /// The network card, its addresses and those from which lanes may send are these.
    ///
    /// # Errors
    /// If the driver cannot follow yet: then packets to new addresses are the kernel's for a while.
    pub fn set_host(&mut self, host: Tables) -> io::Result<()> {
        let nic = self.card.nic();
        let tables = self.forwarder.tables_mut();
        (tables.nics, tables.addresses, tables.sources) = (host.nics, host.addresses, host.sources);
        let of_card = tables.addresses.keys().filter(|key| key.nic == nic);
        self.card.set_addresses(&mut of_card.map(|key| key.address))
    }

    /// What has been counted since the beginning.
    #[must_use]
    pub fn counters(&self) -> PathCounters {
        let HostCounters { diverted, passed, .. } = self.forwarder.tables().counters;
        PathCounters { diverted, passed, unsent: self.unsent, losses: self.card.losses() }
    }

    /// A lane begins.
    pub fn add_lane(&mut self, lane: LaneNumber, rings: LaneRings<R, P>, waker: Box<dyn LaneWaker>) {
        self.forwarder.add_lane(lane, rings);
        self.wakers.insert(lane, waker);
    }

    /// A capture begins.
    pub fn add_capture(&mut self, number: CaptureNumber, tap: CaptureTap<P>, reader: Box<dyn LaneWaker>) {
        self.forwarder.captures().add(number, tap);
        self.readers.insert(number, reader);
    }

    /// A capture has ended.
    pub fn remove_capture(&mut self, number: CaptureNumber) {
        self.forwarder.captures().remove(number);
        self.readers.remove(&number);
    }

    /// Sends frames on behalf of a lane whose program is gone.
    pub fn send_for(&mut self, lane: LaneNumber, frames: Vec<Vec<u8>>) {
        let Self { card, forwarder, unsent, .. } = self;
        let send = |frame: OutgoingFrame<'_>| *unsent += u64::from(card.send(frame.bytes).is_err());
        forwarder.send_for(lane, frames, (self.now_ns)(), send);
        *unsent += card.flush();
    }

    /// Sends what a lane's program has left in its transmit ring, some of it. Returns how many
    /// packets that were: 0 if there are none left.
    pub fn drain(&mut self, lane: LaneNumber) -> u32 {
        let Self { card, forwarder, unsent, .. } = self;
        let send = |frame: OutgoingFrame<'_>| *unsent += u64::from(card.send(frame.bytes).is_err());
        let sent = forwarder.transmit_lane(lane, (self.now_ns)(), send);
        *unsent += card.flush();
        sent
    }

    /// A lane has ended. Returns what it has received and sent, and lost.
    pub fn remove_lane(&mut self, lane: LaneNumber) -> (LaneCounters, RingLosses) {
        self.wakers.remove(&lane);
        self.forwarder.remove_lane(lane)
    }

    /// As [`PacketPath::apply`], unless the driver takes time for it: then the work is returned,
    /// which is to be done on another thread, before [`PacketPath::take_prepared`] and `apply`.
    pub fn begin(&mut self, changes: &[TableChange]) -> Begun {
        match self.card.prepare(&self.claimed.new_ports(changes)) {
            Some(work) => Begun::First(work),
            None => Begun::Done(self.apply(changes)),
        }
    }

    /// What takes the driver time of leaving ports to the kernel.
    pub fn prepare_less(&mut self) -> Option<SlowWork> {
        self.card.prepare_less()
    }

    /// Takes the result of the driver's work.
    pub fn take_prepared(&mut self, done: Box<dyn Any + Send>) {
        self.card.take_prepared(done);
    }

    /// Follows the registry of claims where it gives something, and has the driver take the packets
    /// of claimed ports.
    ///
    /// # Errors
    /// If the driver refuses a port: then nothing has changed.
    pub fn apply(&mut self, changes: &[TableChange]) -> io::Result<()> {
        self.claimed.follow(changes, &mut *self.card)?;
        self.forwarder.apply(changes);
        Ok(())
    }

    /// Follows the registry of claims where it takes something away. That holds whatever the driver
    /// says. Returns how many ports it goes on to take the packets of; they are given back to the
    /// kernel one by one.
    pub fn withdraw(&mut self, changes: &[TableChange]) -> usize {
        self.forwarder.apply(changes);
        let card = &mut *self.card;
        changes.iter().filter(|change| self.claimed.follow(std::slice::from_ref(*change), card).is_err()).count()
    }

    /// Moves what there is at this time. Returns whether there was something.
    fn turn(&mut self, now_ns: u64) -> io::Result<bool> {
        let Self { card, forwarder, .. } = self;
        let nic = card.nic();
        let mut received = 0;
        while received < BATCH {
            let Some(ReceivedFrame { bytes, packet, tag }) = card.receive()? else { break };
            received += 1;
            let segment = u32::from(packet.segment);
            let merged = (segment > 0).then_some(Merged { segment, packets: None });
            let arrival = FrameArrival { nic, now_ns: packet.at.as_nanos(), tag, merged, kernel: &UnknownKernel };
            if forwarder.receive(bytes, &packet, &arrival) {
                card.pass()?;
            }
        }
        let wakers = &self.wakers;
        self.forwarder.publish(|lane, wakes| {
            if let Some(waker) = wakers.get(&lane) {
                waker.wake(wakes);
            }
        });
        let Self { card, forwarder, unsent, .. } = self;
        let sent = forwarder.transmit(now_ns, |frame| *unsent += u64::from(card.send(frame.bytes).is_err()));
        let readers = &self.readers;
        forwarder.captures().publish(|number, wakes| {
            if let Some(reader) = readers.get(&number) {
                reader.wake(wakes);
            }
        });
        if received > 0 || sent > 0 {
            *unsent += card.flush();
        }
        Ok(received > 0 || sent > 0)
    }

    fn sleep(&mut self) {
        if self.forwarder.arm() {
            self.card.wait(TIDY);
        }
        self.forwarder.disarm();
    }
}

type Job<R, P> = Box<dyn FnOnce(&mut PacketPath<R, P>) + Send>;

/// The thread, as the rest of the service has it. It ends when this is dropped.
pub struct PacketThread<R, P> {
    jobs: Option<Sender<Job<R, P>>>,
    waker: Arc<dyn CardWaker>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl<R: RingMemory + 'static, P: ProducerMemory + 'static> PacketThread<R, P> {
    /// Starts it. `now_ns`: the clock by which arrivals are stamped, and idle time is measured.
    ///
    /// # Errors
    /// If there is no room for a thread.
    pub fn start(card: Box<dyn PacketCard>, now_ns: fn() -> u64) -> io::Result<Self> {
        let waker = card.waker();
        let (jobs, received) = channel();
        let begin = move || run(card, now_ns, &received);
        let thread = std::thread::Builder::new().name("packets".into()).spawn(begin)?;
        Ok(Self { jobs: Some(jobs), waker, thread: Some(thread) })
    }

    /// Has the thread do something, and waits for its answer. `None`: the thread has ended, because
    /// the card is gone.
    pub fn call<T: Send + 'static>(&self, job: impl FnOnce(&mut PacketPath<R, P>) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        let job: Job<R, P> = Box::new(move |path| {
            let _ = answer.send(job(path));
        });
        self.jobs.as_ref()?.send(job).ok()?;
        self.waker.wake();
        answered.recv().ok()
    }

    /// Sends what a lane's program has left in its transmit ring. Other lanes have their turns
    /// meanwhile.
    pub fn drain(&self, lane: LaneNumber) {
        let is_left = |_: &usize| self.call(move |path| path.drain(lane)).is_some_and(|sent| sent > 0);
        let _ = (0..MOST_DRAINS).take_while(is_left).count();
    }

    /// What ends the thread's sleep: for programs that have put something into a transmit ring.
    #[must_use]
    pub fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::clone(&self.waker)
    }

    /// Whether the thread has ended, because the card is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<R, P> Drop for PacketThread<R, P> {
    fn drop(&mut self) {
        self.jobs = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run<R: RingMemory, P: ProducerMemory>(
    card: Box<dyn PacketCard>,
    now_ns: fn() -> u64,
    jobs: &Receiver<Job<R, P>>,
) -> io::Result<()> {
    let mut path = PacketPath::new(card, now_ns);
    // The clock is read once a turn: that takes a part of the time that an idle turn takes.
    let (mut busy, mut tidied) = (now_ns(), now_ns());
    loop {
        // All: the wakeups of several may have become one.
        loop {
            match jobs.try_recv() {
                Ok(job) => job(&mut path),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        let now = now_ns();
        let since = |before: u64| Duration::from_nanos(now.saturating_sub(before));
        if path.turn(now)? {
            busy = now;
        } else if since(busy) > POLL {
            path.sleep();
        }
        if since(tidied) > TIDY || path.forwarder.tables().is_crowded() {
            path.forwarder.tidy(now);
            tidied = now;
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod xdp_tests;
