//! Paths that the host has not reported: guessed from a received packet, or requested.
//!
//! The sender of a packet controls the guess. It carries the answer to a SYN, because the host must
//! not be asked for every forged address. Once the handshake is complete, the path is requested
//! from the host, and data waits for the answer. A path that is gone when a connection needs it
//! (evicted, or its neighbour failed) is requested in the same way.

use crate::Stack;
use crate::error::{Result, StackError};
use crate::globals::REQUESTS;
use crate::ip::Packet;
use crate::path::{ASKED, GUESSED, PathInfo, PathState, Query};
use crate::path_cache::{ASK_AGAIN, RESOLVE_TIME};
use crate::time::Instant;

impl Stack<'_> {
    /// The path on which a SYN is answered. If none is known, the packet's own Ethernet addresses
    /// are the guess. The half-open connection counts as its guest until [`Stack::path_again`] or
    /// [`Stack::path_leave`].
    ///
    /// # Errors
    /// [`StackError::NoBuffers`] if there are too many guesses; [`StackError::NoPath`] and
    /// [`StackError::NeedPath`] if the host reported that the lane does not reach this source: a
    /// forged packet must not overrule it.
    pub(crate) fn path_infer(&mut self, packet: &Packet, query: &Query, now: Instant) -> Result<u32> {
        if let Some(index) = self.path_find(query) {
            let path = &mut self.mem.paths[index as usize];
            if path.inferred == GUESSED {
                (path.used, path.guests) = (1, path.guests.saturating_add(1));
                return Ok(index);
            }
            return self.path_again(query, now);
        }
        if self.mem.core.guesses as usize >= self.mem.paths.len() / 4 {
            return Err(StackError::NoBuffers);
        }
        let index = self.path_enter(query)?;
        let mtu = self.mem.core.default_mtu;
        let path = &mut self.mem.paths[index as usize];
        path.info = PathInfo {
            query: *query,
            source: packet.destination,
            interface: query.interface,
            mtu,
            source_mac: packet.destination_mac,
            next_hop_mac: packet.source_mac,
            state: PathState::Ready,
            ..PathInfo::default()
        };
        (path.guests, path.asked) = (1, now);
        self.path_mark(index, GUESSED);
        Ok(index)
    }

    /// A half-open connection has ended or is established: the last one evicts its guess.
    pub(crate) fn path_leave(&mut self, index: u32, query: &Query) {
        if let Some(path) = self.mem.paths.get_mut(index as usize)
            && path.info.query == *query
            && path.inferred == GUESSED
        {
            path.guests = path.guests.saturating_sub(1);
            if path.guests == 0 {
                self.path_evict(index);
            }
        }
    }

    /// The path for a packet whose earlier path is gone, or for a connection that is about to open.
    /// A path that is unknown, only guessed, or was unreachable some time ago is requested, and
    /// packets wait meanwhile.
    ///
    /// # Errors
    /// [`StackError::NoPath`] if the host reported so lately; [`StackError::NeedPath`] if too many
    /// requests are pending; [`StackError::NoBuffers`] if the cache is full of paths on which
    /// packets wait.
    #[cold]
    pub(crate) fn path_again(&mut self, query: &Query, now: Instant) -> Result<u32> {
        if let Some(index) = self.path_find(query) {
            let path = &mut self.mem.paths[index as usize];
            path.used = 1;
            match path.info.state {
                PathState::Ready | PathState::Resolving if path.inferred != GUESSED => return Ok(index),
                PathState::Unreachable | PathState::Kernel if now.since(path.asked) < RESOLVE_TIME => {
                    return Err(StackError::NoPath);
                }
                _ => {}
            }
        }
        if !self.request(query) {
            return Err(StackError::NeedPath);
        }
        let index = self.path_enter(query)?;
        let mtu = self.mem.core.default_mtu;
        let path = &mut self.mem.paths[index as usize];
        path.info.state = PathState::Resolving;
        path.info.mtu = if path.info.mtu == 0 { mtu } else { path.info.mtu };
        (path.asked, path.guests, path.used) = (now, 0, 1);
        self.path_mark(index, ASKED);
        let (core, at) = (&mut *self.mem.core, now + ASK_AGAIN);
        core.paths_at = if core.paths_at.is_never() { at } else { core.paths_at.min(at) };
        Ok(index)
    }

    /// Sets the origin of a path, and maintains the number of guesses.
    pub(crate) fn path_mark(&mut self, index: u32, inferred: u8) {
        let old = core::mem::replace(&mut self.mem.paths[index as usize].inferred, inferred);
        let core = &mut *self.mem.core;
        core.guesses = core.guesses + u32::from(inferred == GUESSED) - u32::from(old == GUESSED);
    }

    /// Whether [`Stack::take_request`] would return a query.
    #[must_use]
    pub fn has_request(&self) -> bool {
        self.mem.core.requests_len > 0
    }

    /// A path that the stack requests from the host ([`Stack::path_set`]); not urgent.
    pub fn take_request(&mut self) -> Option<Query> {
        let core = &mut *self.mem.core;
        if core.requests_len == 0 {
            return None;
        }
        let query = core.requests[core.requests_head as usize % REQUESTS];
        core.requests_head = (core.requests_head + 1) % REQUESTS as u32;
        core.requests_len -= 1;
        Some(query)
    }

    /// Queues a request to the host. False if too many are pending: whatever needs the path tries
    /// again.
    pub(crate) fn request(&mut self, query: &Query) -> bool {
        let core = &mut *self.mem.core;
        let (head, len) = (core.requests_head as usize, core.requests_len as usize);
        if (0..len).any(|i| core.requests[(head + i) % REQUESTS] == *query) {
            return true;
        }
        if len == REQUESTS {
            return false;
        }
        core.requests[(head + len) % REQUESTS] = *query;
        core.requests_len += 1;
        true
    }
}
