//! Lanes and claims, and the thread that moves packets.

use super::accelerated_host::AcceleratedHost;
use super::lane_grant::{LaneGrant, NewLane, new_lane};
use super::now_ns;
use crate::claims::{Claims, NewClaim};
use crate::figures;
use crate::forwarder::RingLosses;
use crate::packet_thread::{PacketThread, PathCounters};
use std::collections::BTreeMap;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::sync::Arc;
use std::time::Instant;
use tickwire_card_windows::card::{CardLosses, PacketCard};
use tickwire_host_windows::ResolvedPath;
use tickwire_lane::control::{
    Accelerated, Claim, ClaimInfo, ClaimKind, CountersOf, Figures, LaneInfo, Name, Parts, Reason,
};
use tickwire_lane_windows::lane_memory::{LIMITS, LaneMemory, ReadRing, WriteRing};
use tickwire_registry::{LaneId, ProvenSocket, TableChange, end_frame, end_segments};
use tickwire_stack::Memory;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::path::Query;
use tickwire_stack::table::SocketRow;
use tickwire_steer::counters::LaneCounters;

/// At most so many lanes at a time.
const MOST_LANES: usize = 256;

/// At most so many of them are of one process, which has use for one. (Those of a user are not
/// limited.)
const MOST_OF_PROCESS: usize = 4;

/// So often a part of a transmit ring is sent at a lane's end: more often than a full ring needs.
const MOST_DRAINS: usize = 2048;

/// So many frames are sent for a lane at once, before others' packets are looked at.
const ENDS: usize = 64;

#[derive(Debug)]
struct LaneRecord {
    memory: Arc<LaneMemory>,
    process: u32,
    program: Name,
    begun: Instant,
}

/// A connected program without a lane.
#[derive(Debug)]
struct UnservedProgram {
    process: u32,
    program: Name,
    reason: Reason,
    begun: Instant,
}

/// In listings, programs without a lane have numbers above this, which no lane has.
const UNSERVED: u64 = 1 << 32;

/// What a listing says of a program.
pub(super) struct ListedLane {
    /// Where the listing goes on.
    pub(super) cursor: u64,
    pub(super) info: LaneInfo,
    /// None if it has no lane.
    pub(super) memory: Option<Arc<LaneMemory>>,
}

pub(super) struct Core {
    packets: PacketThread<ReadRing, WriteRing>,
    claims: Claims<OwnedHandle>,
    lanes: BTreeMap<LaneId, LaneRecord>,
    host: AcceleratedHost,
    /// The driver's name.
    driver: &'static str,
    /// Programs that stay on the kernel, by a number for each.
    unserved: BTreeMap<u64, UnservedProgram>,
    last: LaneId,
    last_unserved: u64,
    generation: u64,
}

impl Core {
    pub(super) fn start(card: Box<dyn PacketCard>, driver: &'static str, host: AcceleratedHost) -> io::Result<Self> {
        let packets = PacketThread::start(card, now_ns)?;
        let tables = host.tables();
        let gone = || io::Error::other("the network card, or its driver, is gone");
        packets.call(move |path| *path.forwarder().tables_mut() = tables).ok_or_else(gone)?;
        let (claims, lanes, unserved) = (Claims::default(), BTreeMap::new(), BTreeMap::new());
        Ok(Self { packets, claims, lanes, host, driver, unserved, last: 0, last_unserved: 0, generation: 0 })
    }

    pub(super) fn has_lost_card(&self) -> bool {
        self.packets.has_ended()
    }

    pub(super) fn mtu(&self) -> u32 {
        self.host.mtu()
    }

    /// Makes a lane for a process.
    pub(super) fn new_lane(&mut self, process: u32, program: Name, layout: u64) -> Result<(LaneId, LaneGrant), Reason> {
        if layout != Memory::LAYOUT_HASH {
            return Err(Reason::Version);
        }
        let of_process = self.lanes.values().filter(|record| record.process == process).count();
        if self.lanes.len() >= MOST_LANES || of_process >= MOST_OF_PROCESS {
            return Err(Reason::LaneLimit);
        }
        let NewLane { rings, waker, memory, grant } = new_lane(self.packets.waker()).map_err(|error| {
            tracing::warn!(process, %error, "a program gets no lane");
            Reason::ServiceError
        })?;
        let lane = self.free_number().ok_or(Reason::LaneLimit)?;
        self.packets.call(move |path| path.add_lane(lane, rings, waker)).ok_or(Reason::Device)?;
        self.lanes.insert(lane, LaneRecord { memory, process, program, begun: Instant::now() });
        tracing::info!(lane, process, %program, "a lane begins");
        Ok((lane, grant))
    }

    /// A number that no lane has; none is used again before all others have been.
    fn free_number(&mut self) -> Option<LaneId> {
        (0..=MOST_LANES).find_map(|_| {
            self.last = self.last.checked_add(1).unwrap_or(1);
            (!self.lanes.contains_key(&self.last)).then_some(self.last)
        })
    }

    /// Ends a lane, whose program is gone: what it has left is sent, then its peers are told, and
    /// then its ports are free.
    pub(super) fn end_lane(&mut self, lane: LaneId) {
        let is_left = |_: &usize| self.packets.call(move |path| path.drain(lane)).is_some_and(|sent| sent > 0);
        let _ = (0..MOST_DRAINS).take_while(is_left).count();
        for some in self.end_frames(lane).chunks(ENDS) {
            let some = some.to_vec();
            self.packets.call(move |path| path.send_for(lane, some));
        }
        let (changes, sockets) = self.claims.end_lane(lane);
        self.withdraw(changes);
        let ended = self.packets.call(move |path| path.remove_lane(lane)).unwrap_or_default();
        drop(sockets);
        self.log_kernel_sockets(lane);
        self.log_counters();
        if self.lanes.remove(&lane).is_some() {
            let (LaneCounters { in_packets, out_packets, refused, .. }, losses) = ended;
            let refused = refused.iter().sum::<u64>();
            let RingLosses { ring_full, malformed } = losses;
            tracing::info!(lane, in_packets, out_packets, refused, ring_full, malformed, "a lane has ended");
        }
    }

    /// Logs what has become of the packets of all lanes, and of the kernel's.
    fn log_counters(&self) {
        if let Some(counters) = self.packets.call(|path| path.counters()) {
            let PathCounters { diverted, passed, unsent, losses } = counters;
            let CardLosses { malformed, strays, truncated } = losses;
            tracing::info!(diverted, passed, unsent, malformed, strays, truncated, "packets so far");
        }
    }

    /// Says why sockets of a lane's program stayed on the kernel, as the program has noted it. Rows
    /// of closed sockets keep their reasons.
    fn log_kernel_sockets(&self, lane: LaneId) {
        let rows = self.lanes.get(&lane).map_or(&[][..], |record| record.memory.rows());
        let mut counts = BTreeMap::<u32, usize>::new();
        for row in rows {
            *counts.entry(row.reason.get()).or_default() += 1;
        }
        // What the program has written is any number.
        let known = counts.into_iter().filter_map(|(code, sockets)| Some((Reason::from_code(code)?, sockets)));
        for (reason, sockets) in known.filter(|(reason, _)| *reason != Reason::None) {
            tracing::info!(lane, sockets, %reason, "sockets stay on the kernel");
        }
    }

    /// The frames that end the live connections of a lane, as its program has noted them.
    fn end_frames(&self, lane: LaneId) -> Vec<Vec<u8>> {
        let rows = self.lanes.get(&lane).map_or(&[][..], |record| record.memory.rows());
        let owns = |local, remote| self.claims.owns(lane, local, remote);
        rows.iter().flat_map(|row| end_segments(row, owns)).filter_map(|end| end_frame(&end)).collect()
    }

    /// Claims what a socket justifies.
    pub(super) fn claim(
        &mut self,
        lane: LaneId,
        wanted: (ClaimKind, Endpoint),
        socket: (OwnedHandle, ProvenSocket),
    ) -> Result<(Claim, Endpoint), Reason> {
        let local = socket.1.bound.local;
        if wanted.0 == ClaimKind::Flow && self.others_have(lane, local, wanted.1) {
            return Err(Reason::PortTaken);
        }
        let host = &self.host;
        let NewClaim { claim, changes } = self.claims.claim(lane, wanted, socket, |address| host.is_ours(address))?;
        let applied = self.packets.call(move |path| path.apply(&changes)).ok_or(Reason::Device)?;
        if let Err(error) = applied {
            tracing::warn!(lane, %local, %error, "the driver does not take the packets of a port");
            let _ = self.claims.end(lane, claim);
            return Err(Reason::Device);
        }
        tracing::debug!(lane, claim = claim.0, %local, "claimed");
        Ok((claim, local))
    }

    /// Whether another lane has a live connection between the same ends, which it has accepted.
    fn others_have(&self, lane: LaneId, local: Endpoint, remote: Endpoint) -> bool {
        let has = |row: &SocketRow| {
            (row.local.get(), row.remote.get()) == (local, remote) && !end_segments(row, |_, _| true).is_empty()
        };
        let others = self.lanes.iter().filter(|(other, _)| **other != lane && self.claims.owns(**other, local, remote));
        others.into_iter().any(|(_, record)| record.memory.rows().iter().any(has))
    }

    /// Releases claims.
    pub(super) fn release(&mut self, lane: LaneId, parts: &Parts) -> Result<(), Reason> {
        let (changes, sockets, outcome) = self.claims.release(lane, parts);
        self.withdraw(changes);
        drop(sockets);
        outcome
    }

    /// Applies changes that take something away.
    fn withdraw(&self, changes: Vec<TableChange>) {
        if let Some(kept @ 1..) = self.packets.call(move |path| path.withdraw(&changes)) {
            tracing::warn!(ports = kept, "the driver goes on to take the packets of ports that no lane has");
        }
    }

    /// Reads addresses and routes again. Returns whether they have changed since the last call.
    pub(super) fn refresh(&mut self) -> bool {
        let has_changed = self.host.refresh();
        if has_changed {
            let new = self.host.tables();
            self.packets.call(move |path| {
                let tables = path.forwarder().tables_mut();
                (tables.nics, tables.addresses, tables.sources) = (new.nics, new.addresses, new.sources);
            });
            self.generation += 1;
        }
        has_changed
    }

    /// A number that changes when addresses or routes do.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The path to a destination.
    pub(super) fn resolve(&mut self, query: &Query) -> ResolvedPath {
        self.host.resolve(query)
    }

    /// Looks at a path again. Returns whether it has changed.
    pub(super) fn update(&mut self, path: &mut ResolvedPath) -> bool {
        self.host.update(path)
    }

    /// The program that comes after another in a listing: those with a lane, then the others.
    pub(super) fn next_lane(&self, after: u64) -> Option<ListedLane> {
        let lanes = after.checked_add(1).and_then(|first| LaneId::try_from(first).ok());
        if let Some((&lane, record)) = lanes.and_then(|first| self.lanes.range(first..).next()) {
            let claims = self.claims.count(lane) as u32;
            let info = LaneInfo { lane, claims, ..listed(record.process, record.program, record.begun) };
            return Some(ListedLane { cursor: lane.into(), info, memory: Some(Arc::clone(&record.memory)) });
        }
        let (&number, program) = self.unserved.range(after.saturating_sub(UNSERVED) + 1..).next()?;
        let info = LaneInfo { reason: program.reason, ..listed(program.process, program.program, program.begun) };
        Some(ListedLane { cursor: UNSERVED + number, info, memory: None })
    }

    /// Listings are to say that a program has no lane. Returns a number for it.
    pub(super) fn note_unserved(&mut self, process: u32, program: Name, reason: Reason) -> u64 {
        self.last_unserved += 1;
        tracing::debug!(process, %program, %reason, "a program stays on the kernel");
        self.unserved.insert(self.last_unserved, UnservedProgram { process, program, reason, begun: Instant::now() });
        self.last_unserved
    }

    /// It is gone.
    pub(super) fn forget_unserved(&mut self, number: u64) {
        self.unserved.remove(&number);
    }

    /// The network card, if it comes after an index.
    pub(super) fn next_interface(&self, after: u32) -> Option<Accelerated> {
        let card = self.host.describe(self.driver);
        (card.interface > after).then_some(card)
    }

    /// What has been counted.
    pub(super) fn figures(&self, of: CountersOf, lane: LaneId) -> Result<Figures, Reason> {
        let read = self.packets.call(move |path| {
            let unsent = path.counters().unsent;
            let forwarder = path.forwarder();
            match of {
                CountersOf::Host => Some(figures::host(&forwarder.tables().counters, unsent)),
                CountersOf::Lane => {
                    let losses = forwarder.losses(lane);
                    forwarder.tables().lane_counters.get(&lane).map(|counters| figures::lane(counters, losses))
                }
            }
        });
        read.ok_or(Reason::Device)?.ok_or(Reason::LaneGone)
    }

    /// The claim of a lane that comes after another.
    pub(super) fn next_claim(&self, lane: LaneId, after: Claim) -> Option<ClaimInfo> {
        self.claims.next(lane, after)
    }
}

/// What a listing says of each program.
fn listed(process: u32, program: Name, begun: Instant) -> LaneInfo {
    LaneInfo {
        lane: 0,
        pid: process,
        // Users of Windows have no numbers.
        uid: 0,
        program,
        processes: 1,
        claims: 0,
        age_ms: begun.elapsed().as_millis() as u64,
        interface: 0,
        reason: Reason::None,
        limits: LIMITS,
    }
}
