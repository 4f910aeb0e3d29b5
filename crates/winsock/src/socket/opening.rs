//! How a socket comes to the lane: when it is bound (UDP), when it listens, and when it connects.
//! The kernel's socket has the port all the while, and its name is the socket's.

use super::kernel_row;
use super::{Handled, Kind, Outcome, Socket, State, WinsockError};
use crate::lane::{Waited, lane};
use crate::real;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_stack::StackError;
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::path::Query;
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::udp::UdpOptions;

impl Socket {
    /// The kernel has the socket from now on.
    fn leave(&self, state: &mut State, reason: Reason) {
        *state = State::Kernel { row: kernel_row::show(self, reason) };
    }

    /// The socket has been bound. One of UDP receives from now on.
    pub(crate) fn bound(&self) {
        if self.kind == Kind::Datagram {
            let _ = self.open_datagram();
        }
    }

    /// Puts a UDP socket on the lane, and has the kernel bind it before, if it is not.
    pub(super) fn open_datagram(&self) -> Result<(), WinsockError> {
        let mut state = self.lock();
        if !matches!(*state, State::Idle) {
            return Ok(());
        }
        let lane = match lane() {
            Ok(lane) => lane,
            Err(reason) => {
                self.leave(&mut state, reason);
                return Ok(());
            }
        };
        if real::name(self.handle)?.port == 0 {
            real::bind(self.handle, Endpoint::new(any(self.family), 0))?;
        }
        let (claim, local) = match lane.claim(ClaimKind::Bound, Endpoint::default(), real::handle_of(self.handle)) {
            Ok(claimed) => claimed,
            Err(reason) => {
                self.leave(&mut state, reason);
                return Ok(());
            }
        };
        let opened = lane.enter(|access| {
            let id = access.stack.udp_open(UdpOptions::default())?;
            let bound = access.stack.udp_bind(id, local);
            if bound.is_err() {
                let _ = access.stack.udp_close(id);
            }
            bound.map(|()| id)
        });
        match opened {
            Ok(id) => {
                self.has_kernel_half.store(local.address.is_unspecified(), Relaxed);
                *state = State::Udp { id, claim };
            }
            Err(_) => {
                lane.release(claim);
                self.leave(&mut state, Reason::LaneFull);
            }
        }
        Ok(())
    }

    /// The kernel's socket listens: so does the stack from now on.
    pub(crate) fn listening(&self, backlog: u32) {
        let mut state = self.lock();
        if let State::Listener { id, .. } = *state {
            if let Ok(lane) = lane() {
                let _ = lane.enter(|access| access.stack.tcp_set_backlog(id, backlog));
            }
            return;
        }
        if !matches!(*state, State::Idle) || self.kind != Kind::Stream {
            return;
        }
        let begin = || -> Result<State, Reason> {
            let lane = lane()?;
            let (claim, local) = lane.claim(ClaimKind::Bound, Endpoint::default(), real::handle_of(self.handle))?;
            let begun = lane.enter(|access| {
                let options = access.stack.tcp_defaults();
                let id = access.stack.tcp_listen(&options, local, backlog)?;
                // Accepted connections inherit it.
                let setting = TcpSetting::NoDelay(self.is_prompt.load(Relaxed));
                access.stack.tcp_listener_set(id, setting).map(|()| id)
            });
            let id = begun.map_err(|_| {
                lane.release(claim);
                Reason::LaneFull
            })?;
            self.has_kernel_half.store(local.address.is_unspecified(), Relaxed);
            Ok(State::Listener { id, claim })
        };
        match begin() {
            Ok(begun) => *state = begun,
            Err(reason) => self.leave(&mut state, reason),
        }
    }

    /// Takes a connection, as a new socket, and its peer.
    pub(crate) fn accept(&self) -> Outcome<(Self, Endpoint)> {
        let State::Listener { id, .. } = self.state() else { return Ok(Handled::Kernel) };
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        if !self.wait_for_half(id.into(), self.receive_until())? {
            return Ok(Handled::Kernel);
        }
        let accepted = self.wait(lane, self.receive_until(), |access| access.stack.tcp_accept(id))?;
        let remote = lane
            .enter(|access| access.stack.tcp_endpoints(accepted))
            .map_or_else(|_| Endpoint::default(), |(_, remote)| remote);
        let made = real::socket(self.family, Kind::Stream).inspect_err(|_| {
            let _ = lane.enter(|access| access.stack.tcp_abort(accepted, access.now));
        })?;
        let socket = Self { port: Arc::clone(&self.port), ..Self::new(made, self.family, Kind::Stream) };
        *socket.lock() = State::Tcp { id: accepted, claim: None };
        socket.set_nonblocking(self.is_nonblocking());
        socket.is_established.store(true, Relaxed);
        socket.is_prompt.store(self.is_prompt.load(Relaxed), Relaxed);
        Ok(Handled::Ours((socket, remote)))
    }

    /// Connects.
    pub(crate) fn connect(&self, remote: Endpoint) -> Outcome<()> {
        match self.kind {
            Kind::Datagram => self.connect_datagram(remote),
            Kind::Stream => self.connect_stream(remote),
        }
    }

    fn connect_datagram(&self, remote: Endpoint) -> Outcome<()> {
        if matches!(self.state(), State::Idle) && real::name(self.handle)?.port == 0 {
            // From the address by which the host reaches the peer, as the kernel does.
            let source = lane().and_then(|lane| lane.resolve(Query::to(remote.address)));
            match source {
                Ok(source) => real::bind(self.handle, Endpoint::new(source.address, 0))?,
                Err(reason) => {
                    self.leave(&mut self.lock(), reason);
                    return Ok(Handled::Kernel);
                }
            }
        }
        self.open_datagram()?;
        let State::Udp { id, .. } = self.state() else { return Ok(Handled::Kernel) };
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let peer = (remote.port != 0).then_some(remote);
        let connect = || lane.enter(|access| access.stack.udp_connect(id, access.now, peer, 0));
        match connect() {
            Err(StackError::NeedPath) => {
                lane.resolve(Query::to(remote.address)).map_err(|_| WinsockError::from(StackError::NoPath))?;
                connect()?;
            }
            done => done?,
        }
        Ok(Handled::Ours(()))
    }

    fn connect_stream(&self, remote: Endpoint) -> Outcome<()> {
        let mut state = self.lock();
        match *state {
            State::Kernel { .. } => return Ok(Handled::Kernel),
            State::Tcp { .. } if self.is_established() => return Err(WinsockError::IS_CONNECTED),
            State::Tcp { id, .. } => {
                drop(state);
                return self.connecting(id);
            }
            State::Listener { .. } | State::Udp { .. } => return Err(WinsockError::INVALID),
            State::Idle => (),
        }
        match self.begin_connection(remote) {
            Ok(begun) => *state = begun,
            Err(reason) => {
                self.leave(&mut state, reason);
                return Ok(Handled::Kernel);
            }
        }
        let State::Tcp { id, .. } = *state else { return Ok(Handled::Kernel) };
        drop(state);
        if self.is_nonblocking() { Err(WinsockError::WOULD_BLOCK) } else { self.connecting(id) }
    }

    /// Sends the SYN, from a port that the kernel's socket has.
    fn begin_connection(&self, remote: Endpoint) -> Result<State, Reason> {
        let lane = lane()?;
        if remote.address.is_loopback() {
            return Err(Reason::Loopback);
        }
        let source = lane.resolve(Query::to(remote.address))?;
        let name = real::name(self.handle).map_err(|_| Reason::NotBound)?;
        if name.port == 0 {
            real::bind(self.handle, Endpoint::new(source.address, 0)).map_err(|_| Reason::NotBound)?;
        }
        let (claim, local) = lane.claim(ClaimKind::Flow, remote, real::handle_of(self.handle))?;
        let begun = lane.enter(|access| {
            let options = access.stack.tcp_defaults();
            let id = access.stack.tcp_connect(&options, local, remote, access.now)?;
            let setting = TcpSetting::NoDelay(self.is_prompt.load(Relaxed));
            access.stack.tcp_set(id, access.now, setting).map(|()| id)
        });
        let id = begun.map_err(|_| {
            lane.release(claim);
            Reason::LaneFull
        })?;
        Ok(State::Tcp { id, claim: Some(claim) })
    }

    /// Waits until a connection is there.
    fn connecting(&self, id: tickwire_stack::TcpId) -> Outcome<()> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let is_there = |access: &mut crate::lane::Access<'_>| match access.stack.tcp_state(id) {
            Ok(TcpState::SynSent | TcpState::SynReceived) => None,
            Ok(TcpState::Closed) => {
                let error = access.stack.tcp_take_error(id).ok().flatten();
                Some(Err(error.unwrap_or(StackError::TimedOut)))
            }
            Ok(_) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        let result = if self.is_nonblocking() {
            match lane.enter(is_there) {
                None => return Err(WinsockError::ALREADY),
                Some(Ok(())) => Err(WinsockError::IS_CONNECTED),
                Some(Err(error)) => Err(error.into()),
            }
        } else {
            match lane.wait(None, is_there) {
                Waited::Done(result) => result.map_err(WinsockError::from),
                Waited::TimedOut => Err(WinsockError::TIMED_OUT),
                Waited::Lost => Err(WinsockError::NETWORK_DOWN),
            }
        };
        match result {
            Ok(()) | Err(WinsockError::IS_CONNECTED) => self.is_established.store(true, Relaxed),
            // The program may try again with the same socket.
            Err(_) => self.forget_connection(),
        }
        result.map(Handled::Ours)
    }

    /// A connection was not established.
    fn forget_connection(&self) {
        let Ok(lane) = lane() else { return };
        let mut state = self.lock();
        if let State::Tcp { id, claim } = *state {
            let _ = lane.enter(|access| access.stack.tcp_close(id, access.now));
            if let Some(claim) = claim {
                lane.release(claim);
            }
            *state = State::Idle;
        }
    }

    /// Whether a connection is there, or has been: it is looked at if that is not known.
    pub(crate) fn has_connected(&self) -> bool {
        if let (false, State::Tcp { id, .. }, Ok(lane)) = (self.is_established(), self.state(), lane()) {
            let state = lane.enter(|access| access.stack.tcp_state(id));
            let is_there = !matches!(state, Ok(TcpState::SynSent | TcpState::Closed) | Err(_));
            self.is_established.store(is_there, Relaxed);
        }
        self.is_established()
    }
}

/// The unspecified address of a family.
fn any(family: Family) -> Address {
    match family {
        Family::V4 => Address::ANY_V4,
        Family::V6 => Address::ANY,
    }
}
