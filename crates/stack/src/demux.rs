//! Demultiplexing: which socket gets a packet. One hash table holds connected sockets by their
//! 4-tuple, another holds listening and bound sockets by port. The cost of a packet does not depend
//! on the number of sockets.

#[cfg(any(test, feature = "owned"))]
pub(crate) mod invariants;
#[cfg(test)]
mod tests;

use crate::addr::{Address, Endpoint, Family};
use crate::error::{Result, StackError};
use crate::pool::PoolLink;
use crate::{ListenerIndex, SocketIndex, Stack};
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use zerocopy::FromZeros;

/// IP protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// IP protocol number of UDP.
pub(crate) const UDP: u8 = 17;

/// The table of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
enum Place {
    #[default]
    Nowhere = 0,
    Connected = 1,
    Bound = 2,
}

shared_layout! { enum Place { Nowhere, Connected, Bound } }

/// A socket's entry in the tables.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Node {
    next: PoolLink,
    bucket: u32,
    local: Endpoint,
    remote: Endpoint,
    protocol: u8,
    /// For sockets bound to `::`: IPv6 only, no IPv4.
    v6only: u8,
    /// Flows are spread over this socket and others with the same binding (`SO_REUSEPORT`).
    spread: u8,
    place: Place,
}

shared_layout! { Node { next, bucket, local, remote, protocol, v6only, spread, place } }

/// How well a bound socket matches a packet; the best wins.
fn fit(bound: Address, v6only: bool, wanted: Address) -> Option<u8> {
    if bound == wanted {
        return Some(3);
    }
    match (wanted.family(), bound) {
        (Family::V4, Address::ANY_V4) => Some(2),
        (Family::V6, Address::ANY) => Some(2),
        (Family::V4, Address::ANY) if !v6only => Some(1),
        _ => None,
    }
}

const fn protocol_of(socket: SocketIndex) -> u8 {
    match socket {
        SocketIndex::Udp(_) => UDP,
        _ => TCP,
    }
}

impl Stack<'_> {
    /// A keyed hash over both endpoints, so that a peer cannot aim at one bucket (or at one of
    /// several listeners).
    pub(crate) fn flow_hash(&self, protocol: u8, local: Endpoint, remote: Endpoint) -> u64 {
        let secret = self.mem.core.secret;
        let mut hasher = SipHasher13::new_with_keys(secret[0], secret[1]);
        let mut key = [0; 40];
        key[..16].copy_from_slice(&local.address.0);
        key[16..32].copy_from_slice(&remote.address.0);
        key[32..34].copy_from_slice(&local.port.to_be_bytes());
        key[34..36].copy_from_slice(&remote.port.to_be_bytes());
        key[36] = protocol;
        hasher.write(&key);
        hasher.finish()
    }

    fn connected_bucket(&self, protocol: u8, local: Endpoint, remote: Endpoint) -> usize {
        self.flow_hash(protocol, local, remote) as usize & (self.mem.connected.len() - 1)
    }

    /// Ports are chosen on this host, so this hash needs no key.
    fn bound_bucket(&self, protocol: u8, port: u16) -> usize {
        (usize::from(port) ^ usize::from(protocol) << 8) & (self.mem.bound.len() - 1)
    }

    /// Enters a connected socket. Of UDP sockets with the same endpoints (the host lets them share
    /// a port) the one that was connected last is found, as on Linux.
    ///
    /// # Errors
    /// [`StackError::AddressInUse`] if that connection exists (TCP).
    pub(crate) fn demux_connect(
        &mut self,
        socket: impl Into<SocketIndex>,
        local: Endpoint,
        remote: Endpoint,
    ) -> Result<()> {
        let socket = socket.into();
        let protocol = protocol_of(socket);
        if protocol == TCP && self.find_connected(protocol, local, remote).is_some() {
            return Err(StackError::AddressInUse);
        }
        self.demux_remove(socket);
        let slot = self.slot_of(socket).ok_or(StackError::Stale)?;
        let bucket = self.connected_bucket(protocol, local, remote);
        let next = core::mem::replace(&mut self.mem.connected[bucket], PoolLink::to(slot as u32));
        self.mem.nodes[slot] = Node {
            next,
            bucket: bucket as u32,
            local,
            remote,
            protocol,
            v6only: 0,
            spread: 0,
            place: Place::Connected,
        };
        Ok(())
    }

    /// Enters a listening or bound socket. Several may share an address and port, which the host
    /// has decided already. Flows are spread over those that are `spread` (`SO_REUSEPORT`); of
    /// others the one that was bound last is found (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// [`StackError::Stale`] if there is no such slot.
    pub(crate) fn demux_bind(
        &mut self,
        socket: impl Into<SocketIndex>,
        local: Endpoint,
        (v6only, spread): (bool, bool),
    ) -> Result<()> {
        let socket = socket.into();
        self.demux_remove(socket);
        let protocol = protocol_of(socket);
        let slot = self.slot_of(socket).ok_or(StackError::Stale)?;
        let bucket = self.bound_bucket(protocol, local.port);
        let next = core::mem::replace(&mut self.mem.bound[bucket], PoolLink::to(slot as u32));
        self.mem.nodes[slot] = Node {
            next,
            bucket: bucket as u32,
            local,
            remote: Endpoint::default(),
            protocol,
            v6only: v6only.into(),
            spread: spread.into(),
            place: Place::Bound,
        };
        Ok(())
    }

    /// Removes a socket from its table, if it is in one.
    pub(crate) fn demux_remove(&mut self, socket: impl Into<SocketIndex>) {
        let Some(slot) = self.slot_of(socket) else { return };
        let Some(&Node { next, bucket, place, .. }) = self.mem.nodes.get(slot) else { return };
        let bucket = bucket as usize;
        let head = match place {
            Place::Nowhere => return,
            Place::Connected => &mut self.mem.connected[bucket],
            Place::Bound => &mut self.mem.bound[bucket],
        };
        if head.get() == Some(slot as u32) {
            *head = next;
        } else {
            let mut at = *head;
            while let Some(i) = at.get() {
                let node = &mut self.mem.nodes[i as usize];
                if node.next.get() == Some(slot as u32) {
                    node.next = next;
                    break;
                }
                at = node.next;
            }
        }
        self.mem.nodes[slot] = Node::default();
    }

    /// The connected socket with exactly these endpoints.
    pub(crate) fn find_connected(&self, protocol: u8, local: Endpoint, remote: Endpoint) -> Option<SocketIndex> {
        let mut at = self.mem.connected[self.connected_bucket(protocol, local, remote)];
        while let Some(slot) = at.get() {
            let node = &self.mem.nodes[slot as usize];
            if node.local == local && node.remote == remote && node.protocol == protocol {
                return self.socket_of_slot(slot as usize);
            }
            at = node.next;
        }
        None
    }

    /// The socket bound to that port that matches the address best; of equal ones the one that was
    /// bound last, as on Linux. If flows are spread over that one and others, the hash of the flow
    /// decides, so that a flow stays with its socket.
    pub(crate) fn find_bound(&self, protocol: u8, local: Endpoint, remote: Endpoint) -> Option<SocketIndex> {
        let spread = |slot: u32| self.mem.nodes[slot as usize].spread != 0;
        // The walk begins with the socket that was bound last.
        let (mut best, mut count, mut found) = (0, 0u64, None);
        for (slot, score) in self.bound_to(protocol, local) {
            if score > best {
                (best, count, found) = (score, spread(slot).into(), Some(slot));
            } else if score == best && count > 0 {
                count += u64::from(spread(slot));
            }
        }
        if count > 1 {
            let nth = (self.flow_hash(protocol, local, remote) >> 32) % count;
            found = self
                .bound_to(protocol, local)
                .filter(|&(slot, score)| score == best && spread(slot))
                .nth(nth as usize)
                .map(|(slot, _)| slot);
        }
        found.and_then(|slot| self.socket_of_slot(slot as usize))
    }

    /// The listener for a connection to `local` from `remote`.
    pub(crate) fn find_listener(&self, local: Endpoint, remote: Endpoint) -> Option<ListenerIndex> {
        match self.find_bound(TCP, local, remote)? {
            SocketIndex::Listener(index) => Some(index),
            _ => None,
        }
    }

    /// Every socket bound to that port and address or to any address, with its rank (higher is
    /// better).
    pub(crate) fn bound_to(&self, protocol: u8, local: Endpoint) -> impl Iterator<Item = (u32, u8)> {
        let mut at = self.bound_first(protocol, local.port);
        core::iter::from_fn(move || {
            let (slot, score, next) = self.bound_next(at, protocol, local)?;
            at = next;
            Some((slot, score))
        })
    }

    /// The start of a walk over the sockets bound to a port.
    pub(crate) fn bound_first(&self, protocol: u8, port: u16) -> PoolLink {
        self.mem.bound[self.bound_bucket(protocol, port)]
    }

    /// The next socket of such a walk from `at` on, its rank, and where the walk continues. For
    /// walks during which the sockets change (but not their bindings).
    pub(crate) fn bound_next(&self, mut at: PoolLink, protocol: u8, local: Endpoint) -> Option<(u32, u8, PoolLink)> {
        while let Some(slot) = at.get() {
            let node = &self.mem.nodes[slot as usize];
            at = node.next;
            if node.local.port == local.port
                && node.protocol == protocol
                && let Some(score) = fit(node.local.address, node.v6only != 0, local.address)
            {
                return Some((slot, score, at));
            }
        }
        None
    }
}
