//! Shutdown and close. A connection goes on after its socket is closed, until all that was sent has
//! been acknowledged and its end, too. So long its port stays taken.

use super::kernel_row;
use super::{Handled, Outcome, PortInUse, Socket, State, WinsockError};
use crate::lane::{Lane, lane, lane_if_begun};
use std::sync::Arc;
use tickwire_lane::control::Claim;
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
        lane.wake_all();
        Ok(Handled::Ours(()))
    }

    /// The program has closed its last handle. What the lane has of the socket ends, as far as it
    /// can at once; the rest is returned.
    pub(crate) fn close(&self) -> Option<Closing> {
        let before = std::mem::replace(&mut *self.lock(), State::Idle);
        if let State::Kernel { row: Some(row) } = before {
            kernel_row::hide(row);
        }
        let lane = lane_if_begun()?;
        let closing = match before {
            State::Idle | State::Kernel { .. } => None,
            State::Udp { id, claim } => {
                let _ = lane.enter(|access| access.stack.udp_close(id));
                lane.release(claim);
                None
            }
            State::Listener { id, claim } => {
                let _ = lane.enter(|access| access.stack.tcp_close_listener(id, access.now));
                Some(Closing::Listener { claim, port: Arc::clone(&self.port) })
            }
            State::Tcp { id, claim } => lane.enter(|access| {
                let ends = access.stack.tcp_endpoints(id);
                let _ = access.stack.tcp_close(id, access.now);
                let port = Arc::clone(&self.port);
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
