//! Shutdown and close. A connection goes on after its socket is closed, until all that was sent has
//! been acknowledged and its end, too. So long its port stays taken.

use super::kernel_row;
use super::{Handled, Outcome, PortInUse, Socket, State, WinsockError};
use crate::lane::{Lane, lane, lane_if_begun};
use crate::real;
use std::os::windows::io::OwnedHandle;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use tickwire_lane::control::{Claim, Reason};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::{Shutdown, TcpState};

impl Socket {
    /// `shutdown`.
    pub(crate) fn shutdown(&self, how: Shutdown) -> Outcome<()> {
        let Ok(lane) = lane() else { return Ok(Handled::Kernel) };
        match self.state() {
            State::Idle | State::Kernel { .. } => return Ok(Handled::Kernel),
            State::Tcp { id, .. } => lane.enter(|access| access.stack.tcp_shutdown(id, access.now, how))?,
            State::Udp { id, .. } => {
                let (receive, send) = (how != Shutdown::Write, how != Shutdown::Read);
                lane.enter(|access| access.stack.udp_shutdown(id, receive, send))?;
            }
            State::Listener { .. } => return Err(WinsockError::NOT_CONNECTED),
        }
        if how != Shutdown::Write {
            self.is_receive_shut.store(true, Relaxed);
        }
        if how != Shutdown::Read {
            self.is_send_shut.store(true, Relaxed);
        }
        lane.wake_all();
        Ok(Handled::Ours(()))
    }

    /// `DisconnectEx`: both directions end. If the program will use the socket `again`, it has none
    /// of the connection from now on.
    pub(crate) fn disconnect(&self, again: bool) -> Result<(), WinsockError> {
        self.shutdown(Shutdown::Both)?;
        if again && let Some(closing) = self.close() {
            for flag in [&self.is_established, &self.is_receive_shut, &self.is_send_shut] {
                flag.store(false, Relaxed);
            }
            self.failure.store(0, Relaxed);
            closing.go_on(None);
        }
        Ok(())
    }

    /// The kernel has the socket from now on. Returns whether that is so: a connection cannot leave
    /// the lane, nor can a socket with requests under way.
    pub(crate) fn leave_lane(&self, reason: Reason) -> bool {
        // Before the state is locked: requests look at it while they are.
        let has_requests = self.has_requests();
        let mut state = self.lock();
        match *state {
            State::Kernel { .. } => return true,
            State::Idle => {}
            State::Tcp { .. } => return false,
            State::Udp { .. } | State::Listener { .. } if has_requests => return false,
            State::Udp { id, claim } => {
                let Some(lane) = lane_if_begun() else { return false };
                let _ = lane.enter(|access| access.stack.udp_close(id));
                lane.release(claim);
            }
            State::Listener { id, claim } => {
                let Some(lane) = lane_if_begun() else { return false };
                let _ = lane.enter(|access| access.stack.tcp_close_listener(id, access.now));
                // Connections that it has accepted keep the port. The socket itself does not: it
                // stays open, and the kernel's connections would never come to it.
                let port = std::mem::take(&mut *self.port.lock().unwrap_or_else(PoisonError::into_inner));
                Closing::Listener { claim, port }.go_on(None);
            }
        }
        self.has_kernel_half.store(false, Relaxed);
        if lane_if_begun().is_some_and(|lane| lane.forget_kernel_half(self.handle)) {
            real::signal_no_more(self.handle, self.is_nonblocking());
        }
        self.leave(&mut state, reason);
        true
    }

    /// Ends a connection at once: its peer sees a reset.
    pub(crate) fn abort(&self) {
        if let (State::Tcp { id, .. }, Some(lane)) = (self.state(), lane_if_begun()) {
            let _ = lane.enter(|access| access.stack.tcp_abort(id, access.now));
        }
    }

    /// The two ends of a connection, this host's first.
    ///
    /// # Errors
    /// If it has none on the lane.
    pub(crate) fn ends(&self) -> Result<(Endpoint, Endpoint), WinsockError> {
        let (State::Tcp { id, .. }, Some(lane)) = (self.state(), lane_if_begun()) else {
            return Err(WinsockError::NOT_CONNECTED);
        };
        lane.enter(|access| access.stack.tcp_endpoints(id)).map_err(WinsockError::from)
    }

    /// The program has closed its last handle. What the lane has of the socket ends, as far as it
    /// can at once; the rest is returned.
    pub(crate) fn close(&self) -> Option<Closing> {
        self.cancel(|_| true);
        let before = std::mem::replace(&mut *self.lock(), State::Idle);
        // Those that have been begun in the meantime.
        self.cancel(|_| true);
        // From now on the program is told of nothing, also if another thread is about to do so.
        self.notices.ask(None, 0);
        if let State::Kernel { row: Some(row), .. } = before {
            kernel_row::hide(row);
        }
        let lane = lane_if_begun()?;
        self.has_kernel_half.store(false, Relaxed);
        lane.forget_kernel_half(self.handle);
        let closing = match before {
            State::Idle | State::Kernel { .. } => None,
            State::Udp { id, claim } => {
                let _ = lane.enter(|access| access.stack.udp_close(id));
                lane.release(claim);
                None
            }
            State::Listener { id, claim } => {
                let _ = lane.enter(|access| access.stack.tcp_close_listener(id, access.now));
                Some(Closing::Listener { claim, port: self.port() })
            }
            State::Tcp { id, claim } => lane.enter(|access| {
                let ends = access.stack.tcp_endpoints(id);
                let _ = access.stack.tcp_close(id, access.now);
                let port = self.port();
                ends.ok().map(|(local, remote)| Closing::Connection { local, remote, claim, _port: port })
            }),
        };
        lane.wake_all();
        closing
    }
}

/// What goes on after its socket has been closed.
#[derive(Debug)]
pub(crate) enum Closing {
    /// A connection: the stack knows it by its ends.
    Connection {
        /// This host's end.
        local: Endpoint,
        /// The peer's end.
        remote: Endpoint,
        /// Its flow; `None` for one that a listener has accepted.
        claim: Option<Claim>,
        /// Its port, perhaps a listener's, which this keeps in use.
        _port: Arc<PortInUse>,
    },
    /// A listener's port, for connections that it has accepted.
    Listener {
        /// The port's.
        claim: Claim,
        /// It.
        port: Arc<PortInUse>,
    },
}

impl Closing {
    /// Goes on until it has ended. So long a handle of the kernel's socket stays open, if it has a
    /// port.
    pub(crate) fn go_on(self, kept: Option<OwnedHandle>) {
        let Ok(lane) = lane() else { return };
        if self.has_ended(lane) {
            return;
        }
        let mut kept = kept;
        lane.finish(Box::new(move |lane, at_end| {
            if at_end.0 {
                return self.is_acknowledged(lane);
            }
            let has_ended = self.has_ended(lane);
            if has_ended {
                drop(kept.take());
            }
            has_ended
        }));
    }

    /// Whether the kernel's socket has a port of its own.
    pub(crate) fn has_own_port(&self) -> bool {
        !matches!(self, Self::Connection { claim: None, .. })
    }

    /// Whether the peer has all that was sent, and the connection's end.
    pub(crate) fn is_acknowledged(&self, lane: &Lane) -> bool {
        let Self::Connection { local, remote, .. } = self else { return true };
        lane.enter(|access| match access.stack.tcp_closed(*local, *remote) {
            None => true,
            Some(id) => matches!(access.stack.tcp_state(id), Ok(TcpState::FinWait2 | TcpState::TimeWait) | Err(_)),
        })
    }

    /// Whether it has ended; then its port is free.
    pub(crate) fn has_ended(&self, lane: &Lane) -> bool {
        match self {
            Self::Connection { local, remote, claim, .. } => {
                let is_over = lane.enter(|access| access.stack.tcp_closed(*local, *remote).is_none());
                if is_over && let Some(claim) = claim {
                    lane.release(*claim);
                }
                is_over
            }
            Self::Listener { claim, port } => {
                // The only one that still has it.
                let is_over = Arc::strong_count(port) == 1;
                if is_over {
                    lane.release(*claim);
                }
                is_over
            }
        }
    }
}
