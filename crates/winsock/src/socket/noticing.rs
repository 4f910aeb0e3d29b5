//! What is the case at a socket, and telling the program of it.

use super::{Handled, Outcome, Socket, State, WinsockError};
use crate::lane::{Access, lane, lane_if_begun};
use crate::notice::condition::{Connection, of_datagrams, of_listener};
use crate::notice::{Condition, Enumerated, Target, record};
use crate::real;
use crate::socket::poll;
use std::sync::atomic::Ordering::Relaxed;
use tickwire_stack::tcp::{RecvFlags, TcpState};
use tickwire_stack::{Ready, SocketId, SocketKind, TcpId, UdpId};
use windows_sys::Win32::Networking::WinSock::{WSAECONNABORTED, WSAECONNRESET, WSAENETDOWN, WSAENOBUFS};

impl Socket {
    /// What is the case at the socket, which is this one in the stack.
    pub(crate) fn condition(&self, access: &mut Access<'_>, id: SocketId) -> Condition {
        let Ok(ready) = access.stack.readiness(id) else { return Condition::CLOSED };
        match id.kind {
            SocketKind::Tcp => {
                TcpId::try_from(id).map_or(Condition::CLOSED, |id| self.of_connection(access, id, ready))
            }
            SocketKind::Listener => of_listener(ready),
            _ => {
                let peer = UdpId::try_from(id).and_then(|id| access.stack.udp_names(id));
                of_datagrams(ready, peer.is_ok_and(|(_, peer)| peer.is_some()))
            }
        }
    }

    fn of_connection(&self, access: &mut Access<'_>, id: TcpId, ready: Ready) -> Condition {
        let Ok(state) = access.stack.tcp_state(id) else { return Condition::CLOSED };
        let was_established = match state {
            TcpState::SynSent | TcpState::SynReceived => false,
            TcpState::Closed | TcpState::Free => self.is_established(),
            _ => {
                self.established();
                true
            }
        };
        let mut has_unread = || {
            let flags = RecvFlags { peek: true };
            access.stack.tcp_recv(id, access.now, flags, &mut &mut [0_u8][..]).is_ok_and(|count| count > 0)
        };
        let has_told_error = self.failure.load(Relaxed) != 0;
        // Urgent bytes that stay among the others are read as those are, and no exception.
        let ready = if self.is_urgent_inline() { Ready(ready.0 & !Ready::PRI.0) } else { ready };
        let has_unread = match ready {
            // At the end a connection is ready to be read, too. (An error would be taken.)
            _ if !ready.contains(Ready::IN) || ready.contains(Ready::ERR) => false,
            _ if ready.contains(Ready::RDHUP) => has_unread(),
            _ => true,
        };
        Connection { state, ready, has_unread, was_established, has_told_error }.condition()
    }

    /// What is the case at a socket of this kind on a lane that is lost: calls return, and fail.
    pub(crate) fn condition_if_lost(&self, id: SocketId) -> Condition {
        match id.kind {
            SocketKind::Tcp if self.is_established() => Condition::CONNECTED | Condition::WRITE | Condition::RESET,
            SocketKind::Tcp => Condition::REFUSED,
            SocketKind::Listener => Condition::ACCEPT,
            _ => Condition::READ | Condition::WRITE,
        }
    }

    /// What is the case, of both halves.
    pub(super) fn condition_now(&self, id: SocketId) -> Condition {
        let mut found = match lane() {
            Ok(lane) if !lane.is_lost() => lane.enter(|access| self.condition(access, id)),
            _ => self.condition_if_lost(id),
        };
        let readable = || real::is_readable(self.handle).then_some(()).ok_or(WinsockError::WOULD_BLOCK);
        if self.ask_kernel(readable).is_some() {
            found |= if id.kind == SocketKind::Listener { Condition::ACCEPT } else { Condition::READ };
        }
        found
    }

    /// The error of an event.
    pub(super) fn error_of(&self, id: SocketId, event: u32) -> i32 {
        let lane = match lane() {
            Ok(lane) if !lane.is_lost() => lane,
            _ => return WSAENETDOWN,
        };
        let (Ok(id), record::CONNECT | record::CLOSE) = (TcpId::try_from(id), event) else { return 0 };
        let (state, pending) = lane.enter(|access| {
            // It stays for the program's next call.
            let pending = access.stack.tcp_take_error(id).ok().flatten();
            if let Some(error) = pending {
                let _ = access.stack.tcp_keep_error(id, error);
            }
            (access.stack.tcp_state(id), pending)
        });
        let told = self.failure.load(Relaxed);
        let error = pending.map_or(told, |error| WinsockError::from(error).0);
        match event {
            _ if state != Ok(TcpState::Closed) => 0,
            record::CONNECT if self.is_established() => 0,
            record::CONNECT if error == 0 => WinsockError::TIMED_OUT.0,
            record::CONNECT => error,
            // Of these two the documentation knows.
            _ if error == 0 || error == WSAECONNRESET => error,
            _ => WSAECONNABORTED,
        }
    }

    /// A call has taken the error by which the connection has ended.
    pub(crate) fn note_failure(&self, error: WinsockError) {
        let has_ended = match (self.state(), lane()) {
            (State::Tcp { id, .. }, Ok(lane)) => {
                lane.enter(|access| access.stack.tcp_state(id)) == Ok(TcpState::Closed)
            }
            _ => false,
        };
        if has_ended {
            // The first stays.
            let _ = self.failure.compare_exchange(0, error.0, Relaxed, Relaxed);
        }
    }

    /// The program asks for network events, to be told to a target, or takes that back (`None`).
    /// The socket does not block from then on.
    ///
    /// # Errors
    /// If the stack can watch no more sockets.
    pub(crate) fn ask_for_events(&self, target: Option<Target>, events: u32) -> Outcome<()> {
        {
            let state = self.lock();
            if matches!(*state, State::Kernel { .. }) {
                return Ok(Handled::Kernel);
            }
            // A socket that goes to the kernel takes it along: that is done with this lock held.
            self.notices.ask(target, events);
        }
        self.set_nonblocking(true);
        real::set_nonblocking(self.handle, true);
        self.watch()?;
        self.look_for_notices();
        Ok(Handled::Ours(()))
    }

    /// Has events of the socket delivered, if it is on the lane.
    fn watch(&self) -> Result<(), WinsockError> {
        let (Some(id), Ok(lane)) = (self.on_lane(), lane()) else { return Ok(()) };
        lane.watch(id, self.handle).map_err(|_| WinsockError(WSAENOBUFS))?;
        if self.has_kernel_half() {
            lane.watch_kernel_half(self.handle);
        }
        Ok(())
    }

    /// The socket is on the lane from now on, perhaps.
    pub(super) fn came_to_lane(&self) {
        self.tell_polls();
        if self.notices.are_asked_for() {
            // Without room for it the program is told of what its own calls find.
            let _ = self.watch();
            self.look_for_notices();
        }
    }

    /// Polls of the socket are to look at it again: it is something else from now on. (Locks may be
    /// held.)
    pub(super) fn tell_polls(&self) {
        if let (Some(lane), true) = (lane_if_begun(), poll::is_any()) {
            lane.note(self.handle);
        }
    }

    /// Whether the kernel has all of the socket.
    pub(crate) fn is_kernels(&self) -> bool {
        matches!(self.state(), State::Kernel { .. })
    }

    /// `FIONBIO`. What the kernel's socket does follows it, as far as it can: where this library
    /// asks it for events it does not block. Of a socket of the kernel this is noted when the
    /// kernel has agreed: it refuses while it tells of events.
    ///
    /// # Errors
    /// If the socket is to block, and the program asks for events.
    pub(crate) fn change_blocking(&self, is_nonblocking: bool) -> Outcome<()> {
        if self.is_kernels() {
            return Ok(Handled::Kernel);
        }
        if !is_nonblocking && self.notices.are_asked_for() {
            return Err(WinsockError::INVALID);
        }
        self.set_nonblocking(is_nonblocking);
        real::set_nonblocking(self.handle, is_nonblocking);
        Ok(Handled::Ours(()))
    }

    /// Records what is the case, if the program asks for it, and tells of it.
    pub(super) fn look_for_notices(&self) {
        let state = self.state();
        let Some(id) = state.id() else { return };
        let was_accepted = matches!(state, State::Tcp { claim: None, .. });
        let present = || record::present(self.condition_now(id), was_accepted);
        self.notices.look(self.handle, present, |event| self.error_of(id, event));
    }

    /// A call has been made that enables these events.
    pub(crate) fn enable_events(&self, events: u32) {
        if self.notices.are_asked_for() {
            self.notices.enable(events);
            self.look_for_notices();
        }
    }

    /// What has been recorded, after `reset` has been called. `None`: the kernel has the socket.
    pub(crate) fn take_events(&self, reset: impl FnOnce()) -> Option<Enumerated> {
        let state = self.lock();
        (!matches!(*state, State::Kernel { .. })).then(|| self.notices.take(reset))
    }

    /// An accepted socket begins with what the program asks for at this listener.
    pub(crate) fn hand_on(&self, accepted: &Self) {
        accepted.notices.inherit(&self.notices);
        accepted.came_to_lane();
    }

    /// As [`Self::hand_on`], for one that the kernel has accepted. It has not inherited what the
    /// program asks for, but what this library does.
    pub(crate) fn hand_on_by_kernel(&self, accepted: real::Handle) {
        self.notices.hand_to_accepted(accepted);
        if !self.notices.are_asked_for() {
            real::set_nonblocking(accepted, self.is_nonblocking());
        }
    }
}

impl State {
    /// The socket in the stack; `None` if it is not there.
    pub(super) fn id(self) -> Option<SocketId> {
        match self {
            Self::Idle | Self::Kernel { .. } => None,
            Self::Udp { id, .. } => Some(id.into()),
            Self::Listener { id, .. } => Some(id.into()),
            Self::Tcp { id, .. } => Some(id.into()),
        }
    }
}
