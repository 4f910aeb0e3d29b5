//! Lanes and claims, and the thread that moves packets.
//!
//! | module | purpose |
//! |---|---|
//! | `claiming` | claims |
//! | `listing` | what tools are shown of it |

mod claiming;
mod listing;

pub(super) use listing::ListedLane;

use super::accelerated_host::AcceleratedHost;
use super::capture::{CaptureGrant, new_capture, permitted};
use super::handle_thread::PulledSocket;
use super::lane_grant::{LaneGrant, NewLane, new_lane};
use super::mailbox::Mailbox;
use super::now_ns;
use crate::capture_tap::CaptureNumber;
use crate::claims::Claims;
use crate::forwarder::RingLosses;
use crate::packet_thread::{PacketThread, PathCounters};
use crate::port_block::PortBlock;
use crate::users::{Resource, User, UserShare, Users};
use listing::UnservedProgram;
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;
use tickwire_card_windows::card::{CardLosses, PacketCard};
use tickwire_host_windows::ResolvedPath;
use tickwire_lane::control::{Name, Reason};
use tickwire_lane_windows::lane_memory::{LaneMemory, ReadRing, WriteRing};
use tickwire_lane_windows::thread_priority;
use tickwire_registry::{EndSegment, LaneId, end_frame, end_segments};
use tickwire_stack::Memory;
use tickwire_stack::path::Query;
use tickwire_steer::counters::{GuardRefusal, LaneCounters};

/// At most so many lanes at a time.
const MOST_LANES: usize = 256;

/// At most so many of them are of one process, which has use for one.
const MOST_OF_PROCESS: usize = 4;

/// At most so many captures at a time: each packet is copied for each that has its lane.
const MOST_CAPTURES: usize = 8;

/// So many of them only administrators may have, which look for what is wrong with others' lanes.
const ADMINISTRATORS_CAPTURES: usize = 1;

/// So many frames are sent for a lane at once, before others' packets are looked at.
const ENDS: usize = 64;

/// The program of a new lane.
#[derive(Clone, Debug)]
pub(super) struct LaneProgram {
    /// Its process.
    pub(super) process: u32,
    /// The full path of its file, if Windows says it.
    pub(super) image: Option<Arc<str>>,
    /// What its connection's thread is told by.
    pub(super) mailbox: Arc<Mailbox>,
    /// Its user.
    pub(super) user: User,
}

#[derive(Debug)]
struct LaneRecord {
    memory: Arc<LaneMemory>,
    process: u32,
    image: Option<Arc<str>>,
    mailbox: Arc<Mailbox>,
    user: User,
    /// The lane counts for the user.
    _share: UserShare,
    program: Name,
    begun: Instant,
}

pub(super) struct Core {
    packets: PacketThread<ReadRing, WriteRing>,
    claims: Claims<PulledSocket>,
    lanes: BTreeMap<LaneId, LaneRecord>,
    host: AcceleratedHost,
    /// The ports that are offered for connections.
    block: Option<PortBlock>,
    /// The driver's name.
    driver: &'static str,
    /// There is a driver: lanes get packets.
    has_driver: bool,
    /// The most tests that claimed ports may take in its filter.
    most_port_tests: Option<usize>,
    /// Programs that stay on the kernel, by a number for each.
    unserved: BTreeMap<u64, UnservedProgram>,
    last: LaneId,
    last_unserved: u64,
    /// Captures that run, each of which counts for its user.
    captures: BTreeMap<CaptureNumber, UserShare>,
    last_capture: CaptureNumber,
    generation: u64,
    /// The driver has not followed the addresses.
    is_behind: bool,
}

impl Core {
    pub(super) fn start(
        mut card: Box<dyn PacketCard>,
        driver: &'static str,
        host: AcceleratedHost,
        ports: Option<RangeInclusive<u16>>,
    ) -> io::Result<Self> {
        let (has_driver, most_port_tests) = (card.has_driver(), card.most_port_tests());
        let block = ports.map(|ports| {
            card.set_block(ports.clone());
            PortBlock::new(ports)
        });
        let packets = PacketThread::start(card, now_ns)?;
        if let Some(Err(error)) = packets.call(|_| thread_priority::raise()) {
            tracing::warn!(%error, "the thread that moves packets has an ordinary priority");
        }
        let tables = host.tables();
        let gone = || io::Error::other("the network card, or its driver, is gone");
        packets.call(move |path| path.set_host(tables)).ok_or_else(gone)??;
        let (claims, lanes, unserved) = (Claims::default(), BTreeMap::new(), BTreeMap::new());
        let (last, last_unserved, captures, last_capture, generation) = (0, 0, BTreeMap::new(), 0, 0);
        Ok(Self {
            packets,
            claims,
            lanes,
            host,
            block,
            driver,
            has_driver,
            most_port_tests,
            unserved,
            last,
            last_unserved,
            captures,
            last_capture,
            generation,
            is_behind: false,
        })
    }

    pub(super) fn has_lost_card(&self) -> bool {
        self.packets.has_ended()
    }

    /// Whether lanes can have packets.
    ///
    /// # Errors
    /// Why not: all sockets stay on the kernel.
    pub(super) fn packets_come(&self) -> Result<(), Reason> {
        if self.has_driver { Ok(()) } else { Err(Reason::NoDriver) }
    }

    pub(super) fn mtu(&self) -> u32 {
        self.host.mtu()
    }

    /// Makes a lane for a process.
    pub(super) fn new_lane(
        &mut self,
        users: &Users,
        of: &LaneProgram,
        program: Name,
        layout: u64,
    ) -> Result<(LaneId, LaneGrant), Reason> {
        let LaneProgram { process, image, mailbox, user } = of.clone();
        if layout != Memory::LAYOUT_HASH {
            return Err(Reason::Version);
        }
        let of_process = self.lanes.values().filter(|record| record.process == process).count();
        if self.lanes.len() >= MOST_LANES || of_process >= MOST_OF_PROCESS {
            return Err(Reason::LaneLimit);
        }
        let share = users.take(&user.id, Resource::Lane)?;
        let NewLane { rings, waker, memory, grant } = new_lane(self.packets.waker()).map_err(|error| {
            tracing::warn!(process, %error, "a program gets no lane");
            Reason::ServiceError
        })?;
        let lane = self.free_number().ok_or(Reason::LaneLimit)?;
        self.packets.call(move |path| path.add_lane(lane, rings, waker)).ok_or(Reason::Device)?;
        self.lanes.insert(
            lane,
            LaneRecord { memory, process, image, mailbox, user, _share: share, program, begun: Instant::now() },
        );
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
        self.packets.drain(lane);
        self.send_ends(lane, &self.ends(lane));
        let (changes, sockets) = self.claims.end_lane(lane);
        self.withdraw(changes);
        let ended = self.packets.call(move |path| path.remove_lane(lane)).unwrap_or_default();
        drop(sockets);
        self.log_kernel_sockets(lane);
        self.log_counters();
        if self.lanes.remove(&lane).is_some() {
            let (LaneCounters { in_packets, out_packets, refused, .. }, losses) = ended;
            log_refusals(lane, &refused);
            let refused = refused.iter().sum::<u64>();
            let RingLosses { ring_full, malformed } = losses;
            tracing::info!(lane, in_packets, out_packets, refused, ring_full, malformed, "a lane has ended");
        }
    }

    /// Logs what has become of the packets of all lanes, and of the kernel's.
    fn log_counters(&self) {
        if let Some(counters) = self.packets.call(|path| path.counters()) {
            let PathCounters { diverted, passed, unsent, losses } = counters;
            let CardLosses { malformed, strays, truncated, no_room } = losses;
            tracing::info!(diverted, passed, unsent, malformed, strays, truncated, no_room, "packets so far");
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

    /// The segments that end the live connections of a lane, as its program has noted them.
    fn ends(&self, lane: LaneId) -> Vec<EndSegment> {
        let rows = self.lanes.get(&lane).map_or(&[][..], |record| record.memory.rows());
        let owns = |local, remote| self.claims.owns(lane, local, remote);
        rows.iter().flat_map(|row| end_segments(row, owns)).collect()
    }

    /// Sends such segments, which the lane may still send.
    fn send_ends(&self, lane: LaneId, ends: &[EndSegment]) {
        for some in ends.chunks(ENDS) {
            let some = some.iter().filter_map(end_frame).collect();
            self.packets.call(move |path| path.send_for(lane, some));
        }
    }

    /// Reads addresses and routes again, and ends claims whose addresses have gone. Returns whether
    /// the driver and the lanes have what Windows has now: else it is to be tried again.
    pub(super) fn refresh(&mut self) -> bool {
        let has_changed = match self.host.refresh() {
            Ok(has_changed) => has_changed,
            Err(error) => {
                tracing::warn!(%error, "the host's addresses and routes cannot be read");
                return false;
            }
        };
        if has_changed || self.is_behind {
            let new = self.host.tables();
            let followed = self.packets.call(move |path| path.set_host(new));
            self.is_behind = matches!(followed, Some(Err(_)));
            if let Some(Err(error)) = followed {
                tracing::warn!(%error, "the driver does not follow the addresses yet");
            }
        }
        if has_changed {
            self.generation += 1;
            for (lane, claim) in self.claims.stranded(|address| self.host.is_ours(address)) {
                self.lose(lane, claim, Reason::Address);
            }
        }
        !self.is_behind
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

    /// Begins a capture of this lane's packets, or of those of all lanes (0), as far as the user
    /// may have them.
    pub(super) fn begin_capture(
        &mut self,
        users: &Users,
        user: &User,
        lane: LaneId,
        snaplen: u32,
    ) -> Result<(CaptureNumber, CaptureGrant), Reason> {
        let kept = if user.is_administrator { 0 } else { ADMINISTRATORS_CAPTURES };
        if self.captures.len() >= MOST_CAPTURES - kept {
            return Err(Reason::CaptureLimit);
        }
        let share = users.take(&user.id, Resource::Capture)?;
        let lanes = self.lanes.iter().map(|(&lane, record)| (lane, &record.user));
        let lanes = permitted(user, lane, lanes)?;
        let (tap, reader, grant) = new_capture(lanes, snaplen).map_err(|error| {
            tracing::warn!(%error, "a capture cannot begin");
            Reason::ServiceError
        })?;
        self.last_capture += 1;
        let number = self.last_capture;
        self.packets.call(move |path| path.add_capture(number, tap, Box::new(reader))).ok_or(Reason::Device)?;
        self.captures.insert(number, share);
        tracing::info!(capture = number, lane, snaplen, "a capture begins");
        Ok((number, grant))
    }

    /// Ends a capture.
    pub(super) fn end_capture(&mut self, number: CaptureNumber) {
        if self.captures.remove(&number).is_some() {
            self.packets.call(move |path| path.remove_capture(number));
            tracing::info!(capture = number, "a capture has ended");
        }
    }
}

/// Logs why guard has refused packets of a lane, if it has.
fn log_refusals(lane: LaneId, refused: &[u64; GuardRefusal::ALL.len()]) {
    let counted = GuardRefusal::ALL.iter().zip(refused).filter(|(_, count)| **count > 0);
    let reasons: Vec<String> = counted.map(|(reason, count)| format!("{}={count}", reason.name())).collect();
    if !reasons.is_empty() {
        tracing::info!(lane, reasons = reasons.join(","), "packets were refused");
    }
}
