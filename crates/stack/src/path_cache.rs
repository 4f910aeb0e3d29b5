//! The path cache: looked up like the host's routes, filled by the host, and evicted by the clock
//! algorithm when it is full.

#[cfg(any(test, feature = "owned"))]
mod invariants;

use crate::Stack;
use crate::addr::Address;
use crate::error::{Result, StackError};
use crate::frame::{FrameId, flag};
use crate::path::{ASKED, GUESSED, Path, PathInfo, PathState, Query, Waiting};
use crate::pool::PoolLink;
use crate::queue::Queued;
use crate::time::{Instant, Span};
use crate::udp::MOST_SEGMENTS;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;

/// Most frames that wait for one neighbour: all segments of one send ([`MOST_SEGMENTS`]), or a
/// datagram in fragments of 576 bytes.
const WAITING_PER_PATH: u32 = MOST_SEGMENTS as u32;
/// How long packets wait for a neighbour, and how long "unreachable" stays valid.
pub(crate) const RESOLVE_TIME: Span = Span::from_secs(3);
/// For each neighbour that fails, all connections are checked while the lane's lock is held. A peer
/// that forges neighbours by the thousand must not delay the others: this many at a time, and the
/// next ones this much later.
const GIVEN_UP_TOGETHER: u32 = 8;
const NEXT_GIVEN_UP: Span = Span::from_millis(1);

/// After this long without an answer the request to the host is repeated.
pub(crate) const ASK_AGAIN: Span = Span::from_millis(500);

impl Stack<'_> {
    /// The path that answers a query, for use in an `IpSend`.
    ///
    /// # Errors
    /// [`StackError::NeedPath`] if the path must be requested from the host, or was and is not
    /// answered yet; [`StackError::NoPath`] if it reported that there is none.
    pub(crate) fn path_lookup(&mut self, query: &Query, now: Instant) -> Result<u32> {
        let index = self.path_find(query).ok_or(StackError::NeedPath)?;
        let path = &mut self.mem.paths[index as usize];
        path.used = 1;
        match path.info.state {
            _ if path.inferred != 0 => Err(StackError::NeedPath),
            PathState::Ready | PathState::Resolving => Ok(index),
            // The host's verdict expires: after a while, ask again.
            PathState::Unreachable if now.since(path.asked) < RESOLVE_TIME => Err(StackError::NoPath),
            PathState::Unreachable | PathState::Free | PathState::Kernel => Err(StackError::NeedPath),
        }
    }

    /// The host's answer to a query: enters or replaces the path, and sends or drops the packets
    /// that waited for it.
    pub fn path_set(&mut self, info: PathInfo, now: Instant) {
        if let Some(own) = info.from_chosen() {
            self.path_set(own, now);
        }
        if info.state == PathState::Free {
            return self.path_forget(&info.query);
        }
        let Ok(index) = self.path_enter(&info.query) else { return };
        let path = &mut self.mem.paths[index as usize];
        // While the host resolves a neighbour in use again, the old next hop stays in use, if the
        // host reported it.
        if info.state == PathState::Resolving && path.info.state == PathState::Ready && path.inferred == 0 {
            path.info = PathInfo { state: PathState::Ready, next_hop_mac: path.info.next_hop_mac, ..info };
        } else {
            path.info = info;
        }
        path.asked = now;
        if info.state == PathState::Ready {
            path.found = now;
        }
        self.path_mark(index, 0);
        let path = &mut self.mem.paths[index as usize];
        match path.info.state {
            PathState::Ready => self.release_waiting(index),
            PathState::Resolving => {
                if self.mem.core.paths_at.is_never() {
                    self.mem.core.paths_at = now + RESOLVE_TIME;
                }
            }
            _ => self.drop_waiting(index),
        }
        self.tcp_path_changed(now, index);
    }

    /// The path of a query, if it is cached.
    #[must_use]
    pub fn path_get(&self, query: &Query) -> Option<&Path> {
        self.path_find(query).map(|index| &self.mem.paths[index as usize])
    }

    /// Removes a path; the next packet that needs it requests it again.
    pub fn path_forget(&mut self, query: &Query) {
        if let Some(index) = self.path_find(query) {
            self.path_evict(index);
        }
    }

    /// Queues a packet on its path. Fills in the link-layer addresses of the frame when they are
    /// known.
    pub(crate) fn path_send(&mut self, index: u32, packet: Queued) -> Result<()> {
        let path = &mut self.mem.paths[index as usize];
        match path.info.state {
            PathState::Ready => {
                let info = path.info;
                self.write_macs(&info, packet);
                self.enqueue(packet);
                Ok(())
            }
            PathState::Resolving => {
                self.wait(index, packet);
                Ok(())
            }
            PathState::Unreachable => Err(StackError::NoPath),
            PathState::Free | PathState::Kernel => Err(StackError::NeedPath),
        }
    }

    fn write_macs(&mut self, info: &PathInfo, packet: Queued) {
        let link = &mut self.mem.frames.bytes_mut(packet.frame)[usize::from(packet.offset)..][..12];
        let destination = info.query.destination;
        let next_hop = if destination.is_multicast() { destination.multicast_mac() } else { info.next_hop_mac };
        link[..6].copy_from_slice(&next_hop.0);
        link[6..].copy_from_slice(&info.source_mac.0);
    }

    /// Queues a packet until its next hop is resolved. As in the kernel's neighbour queue
    /// (`unres_qlen_bytes`) the oldest packet is dropped for it. The sender is not notified; it
    /// would only retry until the neighbour is resolved or fails.
    fn wait(&mut self, index: u32, packet: Queued) {
        // A packet waits as a whole, or not at all.
        let frames = u32::from(packet.rest) + 1;
        while !self.has_places(index, frames) {
            if !self.drop_oldest(index) {
                // Packets for other neighbours have taken all slots.
                return self.drop_packet(packet);
            }
        }
        let path = &mut self.mem.paths[index as usize];
        let mut piece = Some(packet);
        while let Some(packet) = piece
            && let Some(slot) = self.mem.core.free_waiting.take(self.mem.waiting)
        {
            piece = packet.continued(&self.mem.frames);
            self.mem.waiting[slot as usize] = Waiting { link: PoolLink::NONE, packet };
            match path.waiting_tail.get() {
                Some(tail) => self.mem.waiting[tail as usize].link = PoolLink::to(slot),
                None => path.waiting_head = PoolLink::to(slot),
            }
            path.waiting_tail = PoolLink::to(slot);
            path.waiting += 1;
            self.mem.frames.meta[packet.frame as usize].flags |= flag::QUEUED;
        }
        self.mem.counters.path_waits.inc();
    }

    /// Whether `frames` more can wait on a path.
    fn has_places(&self, index: u32, frames: u32) -> bool {
        let left = self.mem.waiting.len() - self.mem.core.free_waiting.used();
        frames as usize <= left && self.mem.paths[index as usize].waiting + frames <= WAITING_PER_PATH
    }

    fn next_waiting(&mut self, index: u32) -> Option<Queued> {
        let path = &mut self.mem.paths[index as usize];
        let slot = path.waiting_head.get()?;
        let Waiting { link, packet } = core::mem::take(&mut self.mem.waiting[slot as usize]);
        path.waiting_head = link;
        if link.is_none() {
            path.waiting_tail = PoolLink::NONE;
        }
        path.waiting -= 1;
        self.mem.core.free_waiting.give(self.mem.waiting, slot);
        Some(packet)
    }

    fn release_waiting(&mut self, index: u32) {
        let info = self.mem.paths[index as usize].info;
        let mut begins = true;
        while let Some(piece) = self.next_waiting(index) {
            if begins {
                self.write_macs(&info, piece);
            }
            begins = piece.rest == 0;
            self.enqueue_piece(piece);
        }
    }

    fn drop_waiting(&mut self, index: u32) {
        while self.drop_oldest(index) {}
    }

    /// Drops the oldest packet that waits on a path. False if none waits there.
    fn drop_oldest(&mut self, index: u32) -> bool {
        let mut more = true;
        while more {
            let Some(piece) = self.next_waiting(index) else { return false };
            more = piece.rest > 0;
            self.let_go(piece.frame);
        }
        self.mem.counters.path_drops.inc();
        true
    }

    /// Drops a packet for which there is no slot to wait in.
    fn drop_packet(&mut self, packet: Queued) {
        let mut piece = Some(packet);
        while let Some(dropped) = piece {
            piece = dropped.continued(&self.mem.frames);
            self.let_go(dropped.frame);
        }
        self.mem.counters.path_drops.inc();
    }

    /// A frame is not sent after all: it is freed, unless it belongs to a connection, which
    /// retransmits it.
    fn let_go(&mut self, frame: FrameId) {
        let meta = &mut self.mem.frames.meta[frame as usize];
        meta.flags &= !flag::QUEUED;
        if meta.flags & flag::FREE_ON_COMPLETE != 0 {
            self.mem.frames.give(frame);
        }
    }

    /// Fails neighbours that have not answered in time, and repeats unanswered requests: the
    /// process that took a request may have died with it. Called when [`Stack::deadline`] is due.
    pub(crate) fn paths_on_time(&mut self, now: Instant) {
        if self.mem.core.paths_at.is_never() || now < self.mem.core.paths_at {
            return;
        }
        self.mem.core.paths_at = Instant::NEVER;
        let mut given_up = 0;
        for index in 0..self.mem.paths.len() as u32 {
            let path = &mut self.mem.paths[index as usize];
            if path.info.state != PathState::Resolving {
                continue;
            }
            if now.since(path.asked) >= RESOLVE_TIME {
                if given_up == GIVEN_UP_TOGETHER {
                    self.mem.core.paths_at = now + NEXT_GIVEN_UP;
                    return;
                }
                given_up += 1;
                path.info.state = PathState::Unreachable;
                path.asked = now;
                self.drop_waiting(index);
                self.tcp_path_changed(now, index);
            } else {
                let mut at = path.asked + RESOLVE_TIME;
                if path.inferred == ASKED {
                    at = at.min(now + ASK_AGAIN);
                    let query = path.info.query;
                    let _ = self.request(&query);
                }
                let core = &mut *self.mem.core;
                core.paths_at = if core.paths_at.is_never() { at } else { core.paths_at.min(at) };
            }
        }
    }

    /// All paths to a destination are in one bucket.
    fn path_bucket(&self, destination: Address) -> usize {
        let secret = self.mem.core.secret;
        let mut hasher = SipHasher13::new_with_keys(secret[2], secret[3]);
        hasher.write(&destination.0);
        hasher.finish() as usize & (self.mem.path_buckets.len() - 1)
    }

    pub(crate) fn path_find(&self, query: &Query) -> Option<u32> {
        let mut at = self.mem.path_buckets[self.path_bucket(query.destination)];
        while let Some(index) = at.get() {
            let path = &self.mem.paths[index as usize];
            if path.info.query == *query {
                return Some(index);
            }
            at = path.link;
        }
        None
    }

    /// Calls `work` for each path to a destination, whatever its source and interface.
    pub(crate) fn each_path_to(&mut self, destination: Address, mut work: impl FnMut(&mut Path)) {
        let mut at = self.mem.path_buckets[self.path_bucket(destination)];
        while let Some(index) = at.get() {
            let path = &mut self.mem.paths[index as usize];
            at = path.link;
            if path.info.query.destination == destination {
                work(path);
            }
        }
    }

    /// The path that answers a query; created if there is none.
    pub(crate) fn path_enter(&mut self, query: &Query) -> Result<u32> {
        if let Some(index) = self.path_find(query) {
            return Ok(index);
        }
        if self.mem.core.free_paths.used() == self.mem.paths.len() {
            self.path_make_room();
        }
        let index = self.mem.core.free_paths.take(self.mem.paths).ok_or(StackError::NoBuffers)?;
        let bucket = self.path_bucket(query.destination);
        let info = PathInfo { query: *query, ..PathInfo::default() };
        // Not marked as used yet: unused new paths replace each other before they evict paths in
        // use.
        let mut path = Path { info, ..Path::default() };
        self.each_path_to(query.destination, |known| path.learn_from(known));
        path.link = core::mem::replace(&mut self.mem.path_buckets[bucket], PoolLink::to(index));
        self.mem.paths[index as usize] = path;
        Ok(index)
    }

    /// Evicts a path that was not used since the hand last passed. Paths on which packets wait are
    /// spared, and so are guesses: they are freed with the connections that need them, and have a
    /// limit of their own.
    fn path_make_room(&mut self) {
        let n = self.mem.paths.len() as u32;
        for _ in 0..2 * n {
            let index = self.mem.core.path_hand % n;
            self.mem.core.path_hand = (index + 1) % n;
            let path = &mut self.mem.paths[index as usize];
            if path.waiting == 0 && path.inferred != GUESSED && core::mem::take(&mut path.used) == 0 {
                return self.path_evict(index);
            }
        }
    }

    pub(crate) fn path_evict(&mut self, index: u32) {
        self.drop_waiting(index);
        self.path_mark(index, 0);
        let bucket = self.path_bucket(self.mem.paths[index as usize].info.query.destination);
        let next = self.mem.paths[index as usize].link;
        let mut at = self.mem.path_buckets[bucket];
        if at.get() == Some(index) {
            self.mem.path_buckets[bucket] = next;
        } else {
            while let Some(i) = at.get() {
                let path = &mut self.mem.paths[i as usize];
                if path.link.get() == Some(index) {
                    path.link = next;
                    break;
                }
                at = path.link;
            }
        }
        self.mem.paths[index as usize] = Path::default();
        self.mem.core.free_paths.give(self.mem.paths, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Limits, OwnedMemory};

    #[test]
    fn neighbours_that_do_not_answer_are_given_up_a_few_at_a_time() {
        const MADE_UP: u8 = 100;
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 4, paths: 256, ..Limits::DEFAULT });
        let (mut stack, mut now) = (memory.stack(), Instant::from_nanos(1_000_000_000));
        stack.init(&crate::StackConfig::default());
        let all = (0..MADE_UP).map(|last| Query::to(Address::v4([10, 0, 0, last])));
        for query in all.clone() {
            stack.path_set(PathInfo { query, state: PathState::Resolving, ..PathInfo::default() }, now);
        }
        let begun = now;
        let mut given_up = 0;
        while given_up < u32::from(MADE_UP) {
            now = stack.deadline().expect("there are more");
            stack.on_time(now);
            let is_given_up = |query: &Query| stack.path_get(query).unwrap().info.state == PathState::Unreachable;
            let by_now = all.clone().filter(is_given_up).count() as u32;
            assert!(by_now > given_up && by_now - given_up <= GIVEN_UP_TOGETHER, "{by_now} after {given_up}");
            given_up = by_now;
        }
        assert_eq!(now.since(begun), RESOLVE_TIME + NEXT_GIVEN_UP.times(12));
        assert!(stack.deadline().is_none());
    }

    /// A PMTU that a router reports for a peer applies to each path to it, also to one that is
    /// requested later.
    #[test]
    fn what_was_learnt_of_a_way_holds_for_a_later_one_to_the_same_peer() {
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 4, paths: 16, ..Limits::DEFAULT });
        let (mut stack, now) = (memory.stack(), Instant::from_nanos(1_000_000_000));
        stack.init(&crate::StackConfig::default());
        let peer = Address::v4([10, 0, 0, 2]);
        let mut tell = |query| {
            stack.path_set(PathInfo { query, mtu: 1500, state: PathState::Ready, ..PathInfo::default() }, now);
            let mtus = stack.path_get(&query).map(|path| (path.mtu(now), path.udp_mtu(now)));
            stack.learn_pmtu(now, peer, 700, true);
            stack.learn_pmtu(now, peer, 600, false);
            mtus.unwrap()
        };
        assert_eq!(tell(Query::to(peer).by(1)), (1500, 1500));
        assert_eq!(tell(Query::to(peer).by(2)), (700, 600));
        assert_eq!(tell(Query::to(Address::v4([10, 0, 0, 3]))), (1500, 1500));
    }
}
