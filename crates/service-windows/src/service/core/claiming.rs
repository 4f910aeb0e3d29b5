//! Claims: entered into the registry and the tables, and ended.

use super::Core;
use crate::claims::{NewClaim, PortClaim};
use crate::packet_thread::{Begun, PacketPath};
use crate::service::handle_thread::PulledSocket;
use crate::users;
use std::io;
use std::sync::Arc;
use tickwire_card_windows::windivert::filter::DivertedPorts;
use tickwire_lane::control::{Claim, ClaimKind, Parts, Reason};
use tickwire_registry::{Bound, LaneId, ProvenSocket, TableChange, end_segments};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::table::SocketRow;

impl Core {
    /// Claims what a socket justifies.
    pub(in crate::service) fn claim(
        &mut self,
        lane: LaneId,
        wanted: (ClaimKind, Endpoint),
        socket: (PulledSocket, ProvenSocket),
    ) -> Result<(Claim, Endpoint), Reason> {
        let local = socket.1.bound.local;
        if wanted.0 == ClaimKind::Flow && self.others_have(lane, local, wanted.1) {
            return Err(Reason::PortTaken);
        }
        self.filter_has_room(lane, &socket.1.bound)?;
        let host = &self.host;
        let NewClaim { claim, changes } = self.claims.claim(lane, wanted, socket, |address| host.is_ours(address))?;
        if let Err(error) = self.apply(&Arc::from(changes)) {
            tracing::warn!(lane, %local, %error, "the driver does not take the packets of a port");
            let _ = self.claims.end(lane, claim);
            return Err(Reason::Device);
        }
        tracing::debug!(lane, claim = claim.0, %local, "claimed");
        Ok((claim, local))
    }

    /// Whether the driver's filter has room for a port beside those that the lane's user has there
    /// already. Neighbouring ports take less of it, and those of the block are in it once for all.
    fn filter_has_room(&self, lane: LaneId, bound: &Bound) -> Result<(), Reason> {
        let is_of_block = |port| self.block.as_ref().is_some_and(|block| block.contains(port));
        let (Some(most), Some(asking)) = (self.most_port_tests, self.lanes.get(&lane)) else { return Ok(()) };
        let (protocol, port) = (bound.protocol, bound.local.port);
        if is_of_block(port) {
            return Ok(());
        }
        let of_user = self.lanes.iter().filter(|(_, record)| record.user.id == asking.user.id);
        let lanes = of_user.map(|(&lane, _)| lane).collect();
        let mut ports = DivertedPorts::default();
        for (protocol, port) in self.claims.ports_of(&lanes).filter(|&(_, port)| !is_of_block(port)) {
            ports.set(protocol, port, true);
        }
        let is_new = ports.set(protocol, port, true);
        if is_new && ports.tests() > users::share_of(most) { Err(Reason::UserPortLimit) } else { Ok(()) }
    }

    /// Ports from which a program may connect. `None` if there is no block of such ports.
    pub(in crate::service) fn offer_ports(&mut self, count: usize) -> Option<Vec<u16>> {
        let Self { block, claims, .. } = self;
        block.as_mut().map(|block| block.offer(count, |port| claims.is_taken(port)))
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
    pub(in crate::service) fn release(&mut self, lane: LaneId, parts: &Parts) -> Result<(), Reason> {
        // What the program has sent before still leaves, for guard would refuse it after that. It
        // may be the last datagram of a socket that has been closed, or a connection's reset.
        self.packets.drain(lane);
        let (changes, sockets, outcome) = self.claims.release(lane, parts);
        self.withdraw(changes);
        drop(sockets);
        outcome
    }

    /// The addresses of the network card.
    pub(in crate::service) fn own_addresses(&self) -> Vec<Address> {
        self.host.own_addresses()
    }

    /// All claims of whole ports, and the files of their programs.
    pub(in crate::service) fn port_claims(&self) -> Vec<(PortClaim, Option<Arc<str>>)> {
        let image = |lane: LaneId| self.lanes.get(&lane).and_then(|record| record.image.clone());
        self.claims.ports().map(|port| (port, image(port.lane))).collect()
    }

    /// Ends a claim, if it is there, and has its program told. A listener's connections end with
    /// it, and their peers are told, too, if the address is still there to tell them from.
    pub(in crate::service) fn lose(&mut self, lane: LaneId, claim: Claim, reason: Reason) {
        let has_accepted = reason != Reason::Address && self.claims.is_listeners(claim);
        let mut ends = if has_accepted { self.ends(lane) } else { Vec::new() };
        let Ok((changes, socket)) = self.claims.end(lane, claim) else { return };
        // Connections that another claim of the lane holds go on.
        ends.retain(|end| !self.claims.owns(lane, end.local, end.remote));
        self.send_ends(lane, &ends);
        self.withdraw(changes);
        drop(socket);
        tracing::info!(lane, claim = claim.0, %reason, "a claim has ended");
        if let Some(record) = self.lanes.get(&lane) {
            record.mailbox.lose(claim, reason);
        }
    }

    /// Applies changes that give something. What takes the driver time is done on this thread,
    /// while packets are moved.
    fn apply(&self, changes: &Arc<[TableChange]>) -> io::Result<()> {
        let gone = || io::Error::other("the network card, or its driver, is gone");
        let first = Arc::clone(changes);
        let work = match self.packets.call(move |path| path.begin(&first)).ok_or_else(gone)? {
            Begun::Done(done) => return done,
            Begun::First(work) => work,
        };
        let (done, changes) = (work()?, Arc::clone(changes));
        let applied = self.packets.call(move |path| {
            path.take_prepared(done);
            path.apply(&changes)
        });
        applied.ok_or_else(gone)?
    }

    /// Leaves ports to the kernel that are not claimed any more, as soon as the driver does that.
    /// It is done on this thread, while packets are moved.
    pub(in crate::service) fn leave_ports(&self) {
        let Some(work) = self.packets.call(PacketPath::prepare_less).flatten() else { return };
        match work() {
            Ok(done) => drop(self.packets.call(move |path| path.take_prepared(done))),
            Err(error) => tracing::warn!(%error, "the driver goes on to take packets of ports that no lane has"),
        }
    }

    /// Leaves connections of the kernel that fall under a claim to it.
    pub(in crate::service) fn except(
        &mut self,
        lane: LaneId,
        claim: Claim,
        connections: &[(Endpoint, Endpoint)],
    ) -> Result<(), Reason> {
        let changes = self.claims.except(lane, claim, connections)?;
        tracing::debug!(lane, claim = claim.0, connections = connections.len(), "left to the kernel");
        self.apply(&Arc::from(changes)).map_err(|_| Reason::Device)
    }

    /// Whether connections are left to the kernel.
    pub(in crate::service) fn has_exceptions(&self) -> bool {
        self.claims.has_exceptions()
    }

    /// The kernel has only these connections any more.
    pub(in crate::service) fn retain_exceptions(&mut self, has: impl Fn(Endpoint, Endpoint) -> bool) {
        let changes = self.claims.retain_exceptions(has);
        self.withdraw(changes);
    }

    /// Applies changes that take something away.
    pub(super) fn withdraw(&self, changes: Vec<TableChange>) {
        if let Some(kept @ 1..) = self.packets.call(move |path| path.withdraw(&changes)) {
            tracing::warn!(ports = kept, "the driver goes on to take the packets of ports that no lane has");
        }
        // The kernel may have another socket at such a port soon.
        self.leave_ports();
    }
}
