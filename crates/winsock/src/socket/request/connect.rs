//! Requests that connect (`ConnectEx`).

use super::Ended;
use super::send::Send;
use crate::hook::boundary::WinsockError;
use crate::lane::Lane;
use crate::socket::{Socket, State};

/// A request that connects, and then sends.
#[derive(Debug)]
pub(crate) struct Connect {
    /// What is sent first.
    pub(crate) first: Send,
}

impl Connect {
    /// Tries it. The connection has been begun.
    pub(super) fn attempt(&mut self, socket: &Socket, lane: &Lane) -> Option<Ended> {
        let State::Tcp { id, .. } = socket.state() else {
            return Some(Ended::failed(WinsockError::NOT_CONNECTED));
        };
        if !socket.is_established()
            && let Err(error) = socket.settled(id, lane)?
        {
            return Some(Ended::failed(error));
        }
        self.first.stream(id, lane).map(|result| result.map_or_else(Ended::failed, Ended::done))
    }
}
