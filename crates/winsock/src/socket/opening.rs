//! How a socket comes to the lane: when it is bound (UDP), when it listens, and when it connects.
//! The kernel's socket has the port all the while, and its name is the socket's.

use super::kernel_row;
use super::{Handled, Kind, Outcome, Socket, State, WinsockError};
use crate::lane::{Access, Lane, Waited, lane};
use crate::real;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use tickwire_lane::control::{Claim, ClaimKind, Reason};
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_stack::path::Query;
use tickwire_stack::tcp::{TcpOptions, TcpState};
use tickwire_stack::{Stack, StackError, TcpId};

/// So many ports that the service offers are tried, before the kernel is to choose one.
const MOST_OFFERS: usize = 8;

impl Socket {
    /// The kernel has the socket from now on.
    pub(super) fn leave(&self, state: &mut State, reason: Reason) {
        *state = State::Kernel { row: kernel_row::show(self, reason), reason };
        self.notices.hand_to_kernel(self.handle);
        self.tell_polls();
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
            self.choose_port(lane, any(self.family))?;
        }
        let local = real::name(self.handle)?;
        let opened = lane.enter(|access| {
            let id = access.stack.udp_open(self.udp_options())?;
            let bound = access.stack.udp_bind(id, local);
            if bound.is_err() {
                let _ = access.stack.udp_close(id);
            }
            bound.map(|()| id)
        });
        let Ok(id) = opened else {
            self.leave(&mut state, Reason::LaneFull);
            return Ok(());
        };
        // After the stack has the socket: from now on its packets come to the lane.
        match self.claim_name(lane, local) {
            Ok(claim) => {
                *state = State::Udp { id, claim };
                self.has_kernel_half.store(true, Relaxed);
            }
            Err(reason) => {
                let _ = lane.enter(|access| access.stack.udp_close(id));
                self.leave(&mut state, reason);
            }
        }
        drop(state);
        self.came_to_lane();
        Ok(())
    }

    /// Has the kernel bind the socket to a port that the service offers, or else to any.
    fn choose_port(&self, lane: &Lane, address: Address) -> Result<(), WinsockError> {
        // With SO_REUSEADDR the kernel would give it a port that another socket has.
        if !real::reuses_address(self.handle) {
            for _ in 0..MOST_OFFERS {
                let Some(port) = lane.offered_port(address) else { break };
                match real::bind(self.handle, self.family, Endpoint::new(address, port)) {
                    Err(WinsockError::IN_USE | WinsockError::NO_ACCESS) => (),
                    bound => return bound,
                }
            }
        }
        real::bind(self.handle, self.family, Endpoint::new(address, 0))
    }

    /// Claims the port of the kernel's socket, which has this name.
    fn claim_name(&self, lane: &Lane, local: Endpoint) -> Result<Claim, Reason> {
        let (claim, name) = lane.claim(ClaimKind::Bound, Endpoint::default(), real::handle_of(self.handle))?;
        if name == local {
            return Ok(claim);
        }
        lane.release(claim);
        Err(Reason::NotBound)
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
            let local = real::name(self.handle).map_err(|_| Reason::NotBound)?;
            let begun = lane.enter(|access| {
                // Accepted connections inherit them.
                let options = self.tcp_options(access.stack)?;
                access.stack.tcp_listen(&options, local, backlog)
            });
            let id = begun.map_err(|_| Reason::LaneFull)?;
            // After the stack listens: from now on the port's packets come to the lane.
            let claimed = self.claim_name(lane, local);
            let claim = claimed.inspect_err(|_| {
                let _ = lane.enter(|access| access.stack.tcp_close_listener(id, access.now));
            })?;
            let _ = self.port().listeners.set(claim);
            self.has_kernel_half.store(true, Relaxed);
            Ok(State::Listener { id, claim })
        };
        match begin() {
            Ok(begun) => *state = begun,
            Err(reason) => self.leave(&mut state, reason),
        }
        drop(state);
        self.came_to_lane();
    }

    /// The stack's defaults, with what the program has set.
    fn tcp_options(&self, stack: &Stack<'_>) -> Result<TcpOptions, StackError> {
        let mut options = stack.tcp_defaults();
        self.tcp_settings().into_iter().try_for_each(|setting| options.set(setting))?;
        Ok(options)
    }

    /// Takes a connection, as a new socket, and its peer.
    pub(crate) fn accept(&self) -> Outcome<(Self, Endpoint)> {
        let State::Listener { id, .. } = self.state() else {
            self.poll_before_accept();
            return Ok(Handled::Kernel);
        };
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        let when = (id.into(), self.receive_until());
        let accepted = match self.wait_with_half(lane, when, |access| access.stack.tcp_accept(id)) {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return Ok(Handled::Kernel),
            Err(_) if self.has_left() => return Ok(Handled::Kernel),
            Err(error) => return Err(error),
        };
        let remote = lane
            .enter(|access| access.stack.tcp_endpoints(accepted))
            .map_or_else(|_| Endpoint::default(), |(_, remote)| remote);
        let made = real::socket(self.family, Kind::Stream).inspect_err(|_| {
            let _ = lane.enter(|access| access.stack.tcp_abort(accepted, access.now));
        })?;
        let socket = Self::new(made, self.family, Kind::Stream);
        socket.take_connection(accepted, self);
        socket.set_nonblocking(self.is_nonblocking());
        Ok(Handled::Ours((socket, remote)))
    }

    /// Gets a connection that a listener has accepted.
    pub(crate) fn take_connection(&self, accepted: TcpId, listener: &Self) {
        *self.port.lock().unwrap_or_else(PoisonError::into_inner) = listener.port();
        self.established();
        self.inherit_settings(listener);
        *self.lock() = State::Tcp { id: accepted, claim: None };
    }

    /// The kernel has the socket, and its connection.
    pub(crate) fn stay_on_kernel(&self) {
        self.stay_because_of(Reason::Loopback);
    }

    fn stay_because_of(&self, reason: Reason) {
        let mut state = self.lock();
        if matches!(*state, State::Idle) {
            self.leave(&mut state, reason);
        }
    }

    /// The kernel has accepted a connection at this listener: it has that one, too.
    pub(crate) fn accepted_by_kernel(&self, handle: real::Handle) -> Self {
        let accepted = Self::new(handle, self.family, Kind::Stream);
        accepted.set_nonblocking(self.is_nonblocking());
        let reason = if let State::Kernel { reason, .. } = self.state() { reason } else { Reason::Loopback };
        accepted.stay_because_of(reason);
        accepted
    }

    /// Connects.
    pub(crate) fn connect(&self, remote: Endpoint) -> Outcome<()> {
        match self.kind {
            Kind::Datagram => self.connect_datagram(remote),
            Kind::Stream => self.connect_stream(remote),
        }
    }

    fn connect_datagram(&self, remote: Endpoint) -> Outcome<()> {
        // (With port 0, too, it is no peer: the socket forgets the one that it has.)
        if remote.address.is_unspecified() && remote.port != 0 && !self.has_left() {
            return Err(WinsockError::NOT_AVAILABLE);
        }
        if matches!(self.state(), State::Idle) && real::name(self.handle)?.port == 0 {
            // From the address by which the host reaches the peer, as the kernel does.
            let source = lane().and_then(|lane| lane.resolve(Query::to(remote.address)));
            match source.and_then(|source| Ok((lane()?, source))) {
                Ok((lane, source)) => self.choose_port(lane, source.address)?,
                Err(reason) => {
                    // (Another thread may have bound it meanwhile.)
                    self.stay_because_of(reason);
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
                match lane.resolve(Query::to(remote.address)) {
                    Ok(_) => connect()?,
                    // The kernel may reach it: by the loopback, for instance.
                    Err(reason) if self.leave_lane(reason) => return Ok(Handled::Kernel),
                    Err(_) => return Err(StackError::NoPath.into()),
                }
            }
            done => done?,
        }
        // From a peer it receives by the lane alone.
        self.has_kernel_half.store(peer.is_none(), Relaxed);
        self.notices.connects();
        self.look_for_notices();
        self.tell_polls();
        Ok(Handled::Ours(()))
    }

    /// A datagram socket has no peer any more.
    ///
    /// # Errors
    /// What the stack says.
    pub(crate) fn forget_peer(&self) -> Result<(), WinsockError> {
        if let (State::Udp { id, .. }, Ok(lane)) = (self.state(), lane()) {
            lane.enter(|access| access.stack.udp_connect(id, access.now, None, 0))?;
            self.has_kernel_half.store(true, Relaxed);
            self.look_for_notices();
        }
        Ok(())
    }

    fn connect_stream(&self, remote: Endpoint) -> Outcome<()> {
        if let State::Tcp { id, .. } = self.state()
            && !self.is_established()
            && !self.has_failed(id)
        {
            return self.connecting(id);
        }
        let Handled::Ours(id) = self.start_connection(remote)? else { return Ok(Handled::Kernel) };
        if self.is_nonblocking() { Err(WinsockError::WOULD_BLOCK) } else { self.connecting(id) }
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// If the socket has one, or cannot have any.
    pub(crate) fn start_connection(&self, remote: Endpoint) -> Outcome<TcpId> {
        let mut state = self.lock();
        match *state {
            State::Kernel { .. } => return Ok(Handled::Kernel),
            State::Tcp { .. } if self.is_established() => return Err(WinsockError::IS_CONNECTED),
            // After an attempt that has failed comes another one.
            State::Tcp { id, .. } if self.has_failed(id) => self.forget(&mut state),
            State::Tcp { .. } => return Err(WinsockError::ALREADY),
            State::Listener { .. } | State::Udp { .. } => return Err(WinsockError::INVALID),
            State::Idle => (),
        }
        self.failure.store(0, Relaxed);
        self.notices.connects();
        match self.begin_connection(remote) {
            Ok((id, claim)) => {
                *state = State::Tcp { id, claim: Some(claim) };
                drop(state);
                self.came_to_lane();
                Ok(Handled::Ours(id))
            }
            Err(reason) => {
                self.leave(&mut state, reason);
                Ok(Handled::Kernel)
            }
        }
    }

    /// Sends the SYN, from a port that the kernel's socket has.
    fn begin_connection(&self, remote: Endpoint) -> Result<(TcpId, Claim), Reason> {
        let lane = lane()?;
        if remote.address.is_loopback() {
            return Err(Reason::Loopback);
        }
        let source = lane.resolve(Query::to(remote.address))?;
        let name = real::name(self.handle).map_err(|_| Reason::NotBound)?;
        if name.port == 0 {
            self.choose_port(lane, source.address).map_err(|_| Reason::NotBound)?;
        }
        let (claim, local) = lane.claim(ClaimKind::Flow, remote, real::handle_of(self.handle))?;
        let begun = lane.enter(|access| {
            let options = self.tcp_options(access.stack)?;
            access.stack.tcp_connect(&options, local, remote, access.now)
        });
        let id = begun.map_err(|_| {
            lane.release(claim);
            Reason::LaneFull
        })?;
        Ok((id, claim))
    }

    /// Waits until a connection is there.
    fn connecting(&self, id: TcpId) -> Outcome<()> {
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        if self.is_nonblocking() {
            return match self.settled(id, lane) {
                None => Err(WinsockError::ALREADY),
                Some(Ok(())) => Err(WinsockError::IS_CONNECTED),
                Some(Err(error)) => Err(error),
            };
        }
        let result = match lane.wait(None, |access| outcome(access, id)) {
            Waited::Done(result) => self.settle(result),
            Waited::TimedOut => Err(WinsockError::TIMED_OUT),
            Waited::Lost => Err(WinsockError::NETWORK_DOWN),
        };
        result.map(Handled::Ours)
    }

    /// Whether an attempt to connect has ended, and how.
    pub(crate) fn settled(&self, id: TcpId, lane: &Lane) -> Option<Result<(), WinsockError>> {
        lane.enter(|access| outcome(access, id)).map(|result| self.settle(result))
    }

    fn settle(&self, result: Result<(), StackError>) -> Result<(), WinsockError> {
        match result {
            Ok(()) => self.established(),
            // The program may try again with the same socket. The error comes first: without it a
            // socket that has no connection any more would show nothing to a poll, and none looks
            // at it again.
            Err(error) => {
                self.failure.store(WinsockError::from(error).0, Relaxed);
                self.forget_connection();
            }
        }
        result.map_err(WinsockError::from)
    }

    /// A connection was not established.
    fn forget_connection(&self) {
        self.forget(&mut self.lock());
    }

    fn forget(&self, state: &mut State) {
        if let (State::Tcp { id, claim }, Ok(lane)) = (*state, lane()) {
            let _ = lane.enter(|access| access.stack.tcp_close(id, access.now));
            if let Some(claim) = claim {
                lane.release(claim);
            }
            *state = State::Idle;
        }
    }

    /// Whether an attempt to connect has failed, and no call has returned that.
    fn has_failed(&self, id: tickwire_stack::TcpId) -> bool {
        let state = lane().ok().map(|lane| lane.enter(|access| access.stack.tcp_state(id)));
        matches!(state, Some(Ok(TcpState::Closed)))
    }

    /// Whether a connection is there, or has been: it is looked at if that is not known.
    pub(crate) fn has_connected(&self) -> bool {
        if let (false, State::Tcp { id, .. }, Ok(lane)) = (self.is_established(), self.state(), lane()) {
            let state = lane.enter(|access| access.stack.tcp_state(id));
            let is_there = !matches!(state, Ok(TcpState::SynSent | TcpState::Closed) | Err(_));
            if is_there {
                self.established();
            }
        }
        self.is_established()
    }
}

/// How an attempt to connect has ended; `None` while it has not.
fn outcome(access: &mut Access<'_>, id: TcpId) -> Option<Result<(), StackError>> {
    match access.stack.tcp_state(id) {
        Ok(TcpState::SynSent | TcpState::SynReceived) => None,
        Ok(TcpState::Closed) => {
            let error = access.stack.tcp_take_error(id).ok().flatten();
            Some(Err(error.unwrap_or(StackError::TimedOut)))
        }
        Ok(_) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    }
}

/// The unspecified address of a family.
fn any(family: Family) -> Address {
    match family {
        Family::V4 => Address::ANY_V4,
        Family::V6 => Address::ANY,
    }
}
