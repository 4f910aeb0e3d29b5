//! Packets between network cards and lanes.
//!
//! A packet that a card has received is judged by divert, and copied into the receive rings of the
//! lanes that get it. A packet that a program has put into its transmit ring is first copied out of
//! it, because the program can change that memory at any time. The copy is judged by guard and
//! sent. One thread does all of this, so packets stay in order and nothing is locked.

use crate::capture_tap::CaptureTaps;
use std::collections::BTreeMap;
use tickwire_card_windows::card::LONGEST_FRAME;
use tickwire_lane::capture_record::CaptureRecord;
use tickwire_lane::record_ring::{ProducerMemory, RecordProducer, RecordRing, RingMemory, Wakes};
use tickwire_registry::TableChange;
use tickwire_stack::ReceiveMetadata;
use tickwire_stack::addr::Mac;
use tickwire_steer::counters::LaneCounters;
use tickwire_steer::tables::{LaneNumber, NicIndex, Tables};
use tickwire_steer::{DivertVerdict, FrameArrival, FrameDeparture, GuardVerdict, divert, guard};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// At most so many packets of a lane are sent before it is the next one's turn.
const TURN: u32 = 32;

/// The slot of the service among the processes that use a ring ([`RecordRing::arm`]).
const SERVICE: usize = 0;

/// A lane's rings, as the service has them.
#[derive(Debug)]
pub struct LaneRings<R, P> {
    /// From the card to the program.
    pub receive: RecordProducer<P>,
    /// From the program to the card.
    pub transmit: RecordRing<R>,
}

#[derive(Debug)]
struct ForwardedLane<R, P> {
    rings: LaneRings<R, P>,
    /// Something has been put into the receive ring and not published.
    has_news: bool,
    /// Packets that found no room in the receive ring.
    lost: u64,
    /// Records of the transmit ring that are incomplete, or longer than any card sends.
    malformed: u64,
}

/// All lanes of a host, and the rules for them.
#[derive(Debug)]
pub struct Forwarder<R, P> {
    tables: Tables,
    lanes: BTreeMap<LaneNumber, ForwardedLane<R, P>>,
    /// The lane whose turn to send is next.
    next: LaneNumber,
    frame: Vec<u8>,
    captures: CaptureTaps<P>,
}

/// What a lane has lost between the service and its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLosses {
    /// Received packets that found no room in its ring.
    pub ring_full: u64,
    /// Records in its transmit ring that were incomplete, or longer than any card sends.
    pub malformed: u64,
}

/// A frame that a lane may send.
#[derive(Debug)]
pub struct OutgoingFrame<'f> {
    /// By which network card.
    pub nic: NicIndex,
    /// The frame, from its Ethernet header on.
    pub bytes: &'f [u8],
}

impl<R: RingMemory, P: ProducerMemory> Default for Forwarder<R, P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: RingMemory, P: ProducerMemory> Forwarder<R, P> {
    /// A host without lanes.
    #[must_use]
    pub fn new() -> Self {
        let (tables, captures) = (Tables::default(), CaptureTaps::default());
        Self { tables, lanes: BTreeMap::new(), next: 0, frame: vec![0; LONGEST_FRAME], captures }
    }

    /// The rules: addresses, network cards and groups of the host. (Claims come by
    /// [`Forwarder::apply`], lanes by [`Forwarder::add_lane`].)
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// The rules, and what has been counted.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The captures of packets between card and lanes.
    pub fn captures(&mut self) -> &mut CaptureTaps<P> {
        &mut self.captures
    }

    /// Follows the registry of claims.
    pub fn apply(&mut self, changes: &[TableChange]) {
        changes.iter().for_each(|change| change.apply(&mut self.tables));
    }

    /// A lane begins.
    pub fn add_lane(&mut self, lane: LaneNumber, rings: LaneRings<R, P>) {
        self.tables.lanes.insert(lane);
        self.tables.lane_counters.entry(lane).or_default();
        self.lanes.insert(lane, ForwardedLane { rings, has_news: false, lost: 0, malformed: 0 });
    }

    /// A lane has ended; its claims are released by [`Forwarder::apply`]. What its program has left
    /// in the transmit ring is lost, unless it was [sent](Forwarder::transmit_lane) before. Returns
    /// what it has received and sent, and lost.
    pub fn remove_lane(&mut self, lane: LaneNumber) -> (LaneCounters, RingLosses) {
        let losses = self.losses(lane);
        self.lanes.remove(&lane);
        self.tables.lanes.remove(&lane);
        self.captures.forget_lane(lane);
        self.tables.sent_fragments.retain(|&(of, _), _| of != lane);
        (self.tables.lane_counters.remove(&lane).unwrap_or_default(), losses)
    }

    /// Judges a received frame, and puts it into the rings of the lanes that get it. Their programs
    /// see it after [`Forwarder::publish`]. Returns whether the kernel is to have it, too.
    pub fn receive(&mut self, frame: &[u8], packet: &ReceiveMetadata, arrival: &FrameArrival<'_>) -> bool {
        match divert(&mut self.tables, frame, arrival) {
            DivertVerdict::Lane(lane) => {
                self.deliver(lane, frame, packet);
                false
            }
            DivertVerdict::Kernel { copies } => {
                copies.into_iter().for_each(|lane| self.deliver(lane, frame, packet));
                true
            }
        }
    }

    fn deliver(&mut self, number: LaneNumber, frame: &[u8], packet: &ReceiveMetadata) {
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        let (monotonic_ns, nic) = (packet.at.as_nanos(), packet.interface);
        self.captures.copy(CaptureRecord { monotonic_ns, lane: number, nic, length: 0, outgoing: false }, frame);
        if lane.rings.receive.put(packet, &[frame]) {
            lane.has_news = true;
        } else {
            lane.lost += 1;
        }
    }

    /// Shows programs what they have received since the last call, and has sleeping threads woken.
    pub fn publish(&mut self, mut wake: impl FnMut(LaneNumber, Wakes)) {
        for (&number, lane) in &mut self.lanes {
            if std::mem::take(&mut lane.has_news) {
                match lane.rings.receive.publish() {
                    Wakes::None => (),
                    wakes => wake(number, wakes),
                }
            }
        }
    }

    /// Sends what programs have put into their transmit rings, a bounded number of packets of each
    /// lane. Returns how many were taken out: 0 if there was nothing to do.
    pub fn transmit(&mut self, now_ns: u64, mut send: impl FnMut(OutgoingFrame<'_>)) -> u32 {
        let lanes: Vec<LaneNumber> = {
            let (before, from) = (self.lanes.range(..self.next), self.lanes.range(self.next..));
            from.chain(before).filter(|(_, lane)| !lane.rings.transmit.is_empty()).map(|(&lane, _)| lane).collect()
        };
        if let Some(first) = lanes.first() {
            self.next = first + 1;
        }
        lanes.into_iter().map(|lane| self.transmit_lane(lane, now_ns, &mut send)).sum()
    }

    /// Sends frames on behalf of a lane, whose program is gone, as far as the lane may send them.
    pub fn send_for(
        &mut self,
        lane: LaneNumber,
        frames: impl IntoIterator<Item = Vec<u8>>,
        now_ns: u64,
        mut send: impl FnMut(OutgoingFrame<'_>),
    ) {
        let Self { tables, captures, .. } = self;
        for mut frame in frames {
            leave((tables, captures), lane, &mut frame, now_ns, &mut send);
        }
    }

    /// Sends what a lane has put into its transmit ring, a bounded number of packets. Returns how
    /// many were taken out.
    pub fn transmit_lane(&mut self, number: LaneNumber, now_ns: u64, mut send: impl FnMut(OutgoingFrame<'_>)) -> u32 {
        let Self { tables, lanes, frame, captures, .. } = self;
        // Longer ones are not even copied: no card sends them.
        let longest = tables.nics.values().map(|nic| nic.mtu as usize + ETHERNET).max().unwrap_or(0).min(frame.len());
        let Some(lane) = lanes.get_mut(&number) else { return 0 };
        let malformed = &mut lane.malformed;
        let taken = lane.rings.transmit.read(TURN, |packet, read| {
            let Some(frame) = frame[..longest].get_mut(..packet.len as usize) else {
                *malformed += 1;
                return;
            };
            read(0, frame);
            leave((tables, captures), number, frame, now_ns, &mut send);
        });
        if taken == 0 && !lane.rings.transmit.is_empty() {
            // A program of ours publishes complete records only.
            lane.malformed += 1;
            lane.rings.transmit.skip_all();
        }
        taken
    }

    /// The thread is about to sleep: programs that send wake it. Returns `false` if there is
    /// something to send already. To be followed by [`Forwarder::disarm`].
    #[must_use]
    pub fn arm(&self) -> bool {
        self.lanes.values().for_each(|lane| lane.rings.transmit.arm(SERVICE));
        self.lanes.values().all(|lane| lane.rings.transmit.is_empty())
    }

    /// The thread is awake.
    pub fn disarm(&self) {
        self.lanes.values().for_each(|lane| lane.rings.transmit.disarm(SERVICE));
    }

    /// What a lane has lost.
    #[must_use]
    pub fn losses(&self, lane: LaneNumber) -> RingLosses {
        let lane = self.lanes.get(&lane);
        lane.map(|lane| RingLosses { ring_full: lane.lost, malformed: lane.malformed }).unwrap_or_default()
    }

    /// To be called about once a second, and when the tables are crowded: forgets what packets have
    /// taught and no longer holds.
    pub fn tidy(&mut self, now_ns: u64) {
        self.tables.forget_old(now_ns);
    }
}

/// Sends a frame of a lane, if guard lets it out.
fn leave<P: ProducerMemory>(
    (tables, captures): (&mut Tables, &mut CaptureTaps<P>),
    lane: LaneNumber,
    frame: &mut [u8],
    now_ns: u64,
    send: &mut impl FnMut(OutgoingFrame<'_>),
) {
    match guard(tables, lane, frame, &FrameDeparture { now_ns, tag: None }) {
        GuardVerdict::Out { nic, path } => {
            if let Some(hop) = path {
                set_macs(frame, hop.destination, hop.source);
            }
            captures.copy(CaptureRecord { monotonic_ns: now_ns, lane, nic: 0, length: 0, outgoing: true }, frame);
            send(OutgoingFrame { nic, bytes: frame });
        }
        GuardVerdict::Refused(_) => (),
    }
}

/// Gives a frame, which is long enough because guard has let it out, these Ethernet addresses.
fn set_macs(frame: &mut [u8], destination: Mac, source: Mac) {
    if let Some(macs) = frame.get_mut(..12) {
        macs[..6].copy_from_slice(&destination.0);
        macs[6..].copy_from_slice(&source.0);
    }
}

#[cfg(test)]
mod tests;
