//! Opening, binding, connecting and closing UDP sockets, and their errors.

use super::{MOST_SEGMENTS, Socket, UdpOptions, pending, shut};
use crate::addr::{Address, Endpoint, Family};
use crate::demux::UDP;
use crate::error::{Result, StackError};
use crate::ids::{Ready, UdpId};
use crate::ip::{IcmpError, IcmpKind};
use crate::path::{PathState, Query};
use crate::time::Instant;
use crate::{SocketIndex, Stack, UdpIndex};

/// Packets in the transmit queue from which UDP sockets must wait.
const QUEUE_FULL: usize = 512;

/// Socket states as Linux numbers them in its tables.
const CONNECTED: u32 = 1;
const UNCONNECTED: u32 = 7;

impl Stack<'_> {
    /// Opens a UDP socket, not bound yet.
    ///
    /// # Errors
    /// [`StackError::NoBuffers`] if the lane has as many as it can hold.
    pub fn udp_open(&mut self, options: UdpOptions) -> Result<UdpId> {
        let index = self.open()?;
        self.mem.udp[index] = Socket::new(options);
        self.row(index).state.set(UNCONNECTED);
        self.id_of(index).try_into()
    }

    /// Binds a socket: from now on it receives datagrams to that address (or to any, `0.0.0.0` or
    /// `::`) and port. The host has already decided whether the port is available. Several sockets
    /// of the lane may share one: the one bound last gets a datagram, unless
    /// [`UdpOptions::reuse_port`] spreads them.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if it is connected, or the port is 0.
    pub fn udp_bind(&mut self, id: UdpId, local: Endpoint) -> Result<()> {
        let index = self.check(id)?;
        let socket = &mut self.mem.udp[index];
        if socket.remote.port != 0 || local.port == 0 {
            return Err(StackError::Invalid);
        }
        (socket.local, socket.bound) = (local, local);
        let UdpOptions { v6only, reuse_port, .. } = socket.options;
        self.demux_bind(index, local, (v6only, reuse_port))?;
        self.row(index).local.set(local);
        Ok(())
    }

    /// Connects a bound socket: it sends to that peer by default, receives from it only, and
    /// reports ICMP errors. `interface` is the outgoing one; 0: the host may choose. `None`
    /// disconnects the socket.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if it is not bound or the port is 0;
    /// [`StackError::NetworkUnreachable`] if the addresses do not match; [`StackError::NeedPath`]
    /// and [`StackError::NoPath`] as for sending.
    pub fn udp_connect(&mut self, id: UdpId, now: Instant, remote: Option<Endpoint>, interface: u32) -> Result<()> {
        let bound = self.mem.udp[self.check(id)?].bound.address;
        self.udp_connect_from(id, now, remote, bound, interface)
    }

    /// The same from one of the host's addresses; an unspecified one leaves the choice to the host.
    ///
    /// # Errors
    /// As for [`Stack::udp_connect`].
    pub fn udp_connect_from(
        &mut self,
        id: UdpId,
        now: Instant,
        remote: Option<Endpoint>,
        from: Address,
        interface: u32,
    ) -> Result<()> {
        let index = self.check(id)?;
        let Socket { bound, options, .. } = self.mem.udp[index];
        if bound.port == 0 {
            return Err(StackError::Invalid);
        }
        let Some(remote) = remote else {
            self.demux_bind(index, bound, (options.v6only, options.reuse_port))?;
            let socket = &mut self.mem.udp[index];
            (socket.local, socket.remote, socket.interface) = (bound, Endpoint::default(), 0);
            let row = self.row(index);
            row.local.set(bound);
            row.remote.set(Endpoint::default());
            row.state.set(UNCONNECTED);
            return Ok(());
        };
        if remote.port == 0 {
            return Err(StackError::Invalid);
        }
        let query = Query::to(remote.address).by(interface).of_service(options.tos);
        let path = self.path_lookup(&query.from(from), now)?;
        let source = self.udp_source(from, options.v6only, remote.address, path)?;
        // From the chosen address packets may take another path than the one by which it was
        // chosen.
        let path = self.path_lookup(&query.from(source), now)?;
        let local = Endpoint::new(source, bound.port);
        let same = self.mem.udp[index].remote == remote && self.mem.udp[index].local == local;
        if !same {
            self.demux_connect(index, local, remote)?;
        }
        let socket = &mut self.mem.udp[index];
        (socket.local, socket.remote, socket.interface, socket.path) = (local, remote, interface, path);
        let row = self.row(index);
        row.local.set(local);
        row.remote.set(remote);
        row.state.set(CONNECTED);
        Ok(())
    }

    /// The source address of a datagram to `destination`: the bound one, or the one that the host
    /// prefers on that path.
    pub(super) fn udp_source(&self, bound: Address, v6only: bool, destination: Address, path: u32) -> Result<Address> {
        let info = self.mem.paths[path as usize].info;
        let family = destination.family();
        let fits = match bound {
            Address::ANY => family == Family::V6 || !v6only,
            _ => bound.family() == family,
        };
        if !fits {
            return Err(StackError::NetworkUnreachable);
        }
        let source = if bound.is_unspecified() || bound.is_multicast() { info.source } else { bound };
        if source.is_unspecified() || source.family() != family || info.state == PathState::Kernel {
            return Err(StackError::NetworkUnreachable);
        }
        Ok(source)
    }

    /// A socket's options.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_options(&self, id: UdpId) -> Result<UdpOptions> {
        Ok(self.mem.udp[self.check(id)?].options)
    }

    /// Replaces a socket's options. `v6only` has no effect once it is bound.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_set_options(&mut self, id: UdpId, options: UdpOptions) -> Result<()> {
        let index = self.check(id)?;
        self.mem.core.fill.room_for(options.rcvbuf);
        self.mem.udp[index].options = options;
        Ok(())
    }

    /// The local address of a socket and, if connected, its peer's.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_names(&self, id: UdpId) -> Result<(Endpoint, Option<Endpoint>)> {
        let socket = &self.mem.udp[self.check(id)?];
        Ok((socket.local, (socket.remote.port != 0).then_some(socket.remote)))
    }

    /// The outgoing interface to a connected socket's peer; 0 if the host may choose.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_interface(&self, id: UdpId) -> Result<u32> {
        Ok(self.mem.udp[self.check(id)?].interface)
    }

    /// The largest IP packet that is known to reach a connected socket's peer, in bytes.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::NotConnected`], also if the path to the peer has been
    /// evicted.
    pub fn udp_path_mtu(&self, id: UdpId, now: Instant) -> Result<u32> {
        let socket = &self.mem.udp[self.check(id)?];
        // Not the path that the socket used last: it may have sent elsewhere.
        let Socket { local, remote, interface, options, .. } = socket;
        let query = Query::to(remote.address).from(local.address).by(*interface).of_service(options.tos);
        let path = self.path_get(&query).filter(|path| socket.remote.port != 0 && path.inferred == 0);
        path.map(|path| path.udp_mtu(now)).filter(|&mtu| mtu != 0).ok_or(StackError::NotConnected)
    }

    /// Shuts one or both directions of a connected socket. As on Linux, datagrams are still
    /// received after receiving was shut, but no call waits for them ([`Stack::udp_is_shut`]).
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::NotConnected`], though the shutdown takes effect, as on
    /// Linux.
    pub fn udp_shutdown(&mut self, id: UdpId, receive: bool, send: bool) -> Result<()> {
        let index = self.check(id)?;
        let socket = &mut self.mem.udp[index];
        socket.shut |= if receive { shut::RECEIVE } else { 0 } | if send { shut::SEND } else { 0 };
        let connected = socket.remote.port != 0;
        self.notify(id.into(), Ready::IN | Ready::OUT | Ready::HUP | Ready::RDHUP);
        if connected { Ok(()) } else { Err(StackError::NotConnected) }
    }

    /// Whether receiving was shut: a call that would wait for a datagram returns the end instead.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_is_shut(&self, id: UdpId) -> Result<bool> {
        Ok(self.mem.udp[self.check(id)?].shut & shut::RECEIVE != 0)
    }

    /// Takes the pending error of a socket (`SO_ERROR`).
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_take_error(&mut self, id: UdpId) -> Result<Option<StackError>> {
        let index = self.check(id)?;
        Ok(self.mem.udp[index].take_error())
    }

    /// Puts a taken error back for the next call, unless another one is pending. An error that no
    /// socket can have pending is dropped.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_keep_error(&mut self, id: UdpId, error: StackError) -> Result<()> {
        let index = self.check(id)?;
        let socket = &mut self.mem.udp[index];
        if socket.pending == 0 {
            socket.pending = pending::code(error);
        }
        if socket.pending != 0 {
            self.notify(id.into(), Ready::ERR);
        }
        Ok(())
    }

    /// Closes a socket; unread datagrams are lost.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_close(&mut self, id: UdpId) -> Result<()> {
        let index = self.check(id)?;
        while self.udp_pop(index) {}
        self.drop_memberships(index);
        self.release(index);
        self.udp_write_space();
        Ok(())
    }

    /// The readiness of a UDP socket.
    pub(crate) fn udp_readiness(&self, index: UdpIndex) -> Ready {
        let socket = &self.mem.udp[index];
        let mut ready = Ready::NONE;
        if socket.count > 0 || socket.shut & shut::RECEIVE != 0 {
            ready |= Ready::IN;
        }
        if socket.shut & shut::RECEIVE != 0 {
            ready |= Ready::RDHUP;
        }
        if socket.shut == shut::RECEIVE | shut::SEND {
            ready |= Ready::HUP;
        }
        if self.udp_has_room() {
            ready |= Ready::OUT;
        }
        if socket.pending != 0 {
            ready |= if socket.options.exceptional_errors { Ready::ERR | Ready::PRI } else { Ready::ERR };
        }
        ready
    }

    /// An ICMP error about one of our datagrams.
    pub(crate) fn udp_icmp(&mut self, now: Instant, error: &IcmpError) {
        let connected = self.find_connected(UDP, error.local, error.remote);
        let socket = connected.or_else(|| self.find_bound(UDP, error.local, error.remote));
        let Some(SocketIndex::Udp(index)) = socket else { return self.mem.counters.icmp_in_unmatched.inc() };
        let mut report = match error.kind {
            // Soft errors may be transient, and Linux does not report them to UDP either.
            IcmpKind::Undelivered { error, hard } => hard.then_some(error),
            IcmpKind::TooBig(mtu) => {
                // Only for the destination to which this socket has sent last: a little more to
                // guess (RFC 5927 §4).
                let path = self.mem.paths.get(self.mem.udp[index].path as usize);
                if path.is_none_or(|path| path.info.query.destination != error.remote.address) {
                    return self.mem.counters.icmp_in_unmatched.inc();
                }
                self.learn_pmtu(now, error.remote.address, mtu, false);
                // As on Linux: the next datagram is fragmented, or refused, but this one is lost.
                (self.mem.udp[index].options.mtu_discover != super::MtuDiscover::Dont)
                    .then_some(StackError::MessageTooLong)
            }
        };
        // An unconnected socket could not tell to which of its datagrams an error belongs (RFC 1122
        // §4.1.3.3 and Linux without IP_RECVERR).
        if connected.is_none() {
            report = None;
        }
        if let Some(report) = report {
            self.mem.udp[index].pending = pending::code(report);
            let id = self.id_of(index);
            self.notify(id, Ready::ERR);
        }
    }

    /// How many frames must be free for a socket to be writable. They are a reserve for others, and
    /// hold all datagrams of one split send, which a writable socket must not refuse. (In a lane of
    /// a few hundred frames they must not be most of the frames.)
    fn udp_kept(&self) -> usize {
        let all = self.mem.frames.meta.len();
        (all / 8).max(MOST_SEGMENTS.min(all / 4))
    }

    /// Whether a send would not block: there is room in the transmit queue, and there are frames
    /// beyond the reserve.
    pub(super) fn udp_has_room(&self) -> bool {
        self.prompt_len() < QUEUE_FULL && self.mem.frames.available() > self.udp_kept()
    }

    /// Records when there is no room to send, so that sockets are notified when there is some
    /// again.
    pub(crate) fn udp_note_room(&mut self) {
        if !self.udp_has_room() {
            self.mem.core.udp_full = 1;
        }
    }

    /// Notifies all sockets that there is room to send again, but only with some hysteresis:
    /// otherwise readiness would change with every packet.
    pub(crate) fn udp_write_space(&mut self) {
        let all = self.mem.frames.meta.len();
        let plenty = || self.prompt_len() < QUEUE_FULL / 2 && self.mem.frames.available() > self.udp_kept() + all / 32;
        if self.mem.core.udp_full == 0 || !plenty() {
            return;
        }
        self.mem.core.udp_full = 0;
        for index in self.mem.udp.indices() {
            let id = self.id_of(index);
            if id.generation & 1 == 1 {
                self.notify(id, Ready::OUT);
            }
        }
    }
}
