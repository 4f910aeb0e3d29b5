//! Lanes and claims, and the thread that moves packets.

use super::accelerated_host::AcceleratedHost;
use super::lane_grant::{LaneGrant, NewLane, new_lane};
use super::now_ns;
use crate::claims::{Claims, NewClaim};
use crate::forwarder::RingLosses;
use crate::packet_thread::PacketThread;
use std::collections::BTreeMap;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::sync::Arc;
use std::time::Instant;
use tickwire_card_windows::card::{CardWaker, PacketCard};
use tickwire_host_windows::ResolvedPath;
use tickwire_lane::control::{Claim, ClaimInfo, ClaimKind, LaneInfo, Name, Parts, Reason};
use tickwire_lane_windows::lane_memory::{LIMITS, LaneMemory, ReadRing, WriteRing};
use tickwire_registry::{LaneId, ProvenSocket, TableChange, end_frame, end_segments};
use tickwire_stack::Memory;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::path::Query;
use tickwire_steer::counters::LaneCounters;

/// At most so many lanes at a time.
const MOST_LANES: usize = 256;

/// So many frames are sent for a lane at once, before others' packets are looked at.
const ENDS: usize = 64;

#[derive(Debug)]
struct LaneRecord {
    memory: Arc<LaneMemory>,
    process: u32,
    program: Name,
    begun: Instant,
}

pub(super) struct Core {
    packets: PacketThread<ReadRing, WriteRing>,
    claims: Claims<OwnedHandle>,
    lanes: BTreeMap<LaneId, LaneRecord>,
    host: AcceleratedHost,
    last: LaneId,
}

impl Core {
    pub(super) fn start(card: Box<dyn PacketCard>, host: AcceleratedHost) -> io::Result<Self> {
        let packets = PacketThread::start(card, now_ns)?;
        let tables = host.tables();
        let gone = || io::Error::other("the network card, or its driver, is gone");
        packets.call(move |path| *path.forwarder().tables_mut() = tables).ok_or_else(gone)?;
        Ok(Self { packets, claims: Claims::default(), lanes: BTreeMap::new(), host, last: 0 })
    }

    pub(super) fn packets_waker(&self) -> Arc<dyn CardWaker> {
        self.packets.waker()
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
        if self.lanes.len() >= MOST_LANES {
            return Err(Reason::LaneLimit);
        }
        let NewLane { rings, waker, memory, grant } = new_lane().map_err(|error| {
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

    /// Ends a lane, whose program is gone. Its peers are told.
    pub(super) fn end_lane(&mut self, lane: LaneId) {
        let ends = self.end_frames(lane);
        for some in ends.chunks(ENDS) {
            let some = some.to_vec();
            self.packets.call(move |path| path.send_for(lane, some));
        }
        let (changes, sockets) = self.claims.end_lane(lane);
        // The lane sends what it has left before it loses its ports.
        let ended = self.packets.call(move |path| path.remove_lane(lane)).unwrap_or_default();
        self.apply_best(changes);
        drop(sockets);
        if self.lanes.remove(&lane).is_some() {
            let (LaneCounters { in_packets, out_packets, refused, .. }, losses) = ended;
            let refused = refused.iter().sum::<u64>();
            let RingLosses { ring_full, malformed } = losses;
            tracing::info!(lane, in_packets, out_packets, refused, ring_full, malformed, "a lane has ended");
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

    /// Releases claims.
    pub(super) fn release(&mut self, lane: LaneId, parts: &Parts) -> Result<(), Reason> {
        let (changes, sockets, outcome) = self.claims.release(lane, parts);
        self.apply_best(changes);
        drop(sockets);
        outcome
    }

    /// Applies changes that take something away.
    fn apply_best(&self, changes: Vec<TableChange>) {
        if let Some(Err(error)) = self.packets.call(move |path| path.apply(&changes)) {
            tracing::warn!(%error, "the driver goes on to take the packets of a port");
        }
    }

    /// The path to a destination.
    pub(super) fn resolve(&mut self, query: &Query) -> ResolvedPath {
        self.host.resolve(query)
    }

    /// Looks at a path again. Returns whether it has changed.
    pub(super) fn update(&mut self, path: &mut ResolvedPath) -> bool {
        self.host.update(path)
    }

    /// The lane that comes after another.
    pub(super) fn next_lane(&self, after: u64) -> Option<LaneInfo> {
        let (&lane, record) = self.lanes.iter().find(|(lane, _)| u64::from(**lane) > after)?;
        Some(LaneInfo {
            lane,
            pid: record.process,
            uid: 0,
            program: record.program,
            processes: 1,
            claims: self.claims.count(lane) as u32,
            age_ms: record.begun.elapsed().as_millis() as u64,
            interface: 0,
            reason: Reason::None,
            limits: LIMITS,
        })
    }

    /// The claim of a lane that comes after another.
    pub(super) fn next_claim(&self, lane: LaneId, after: Claim) -> Option<ClaimInfo> {
        self.claims.next(lane, after)
    }
}
