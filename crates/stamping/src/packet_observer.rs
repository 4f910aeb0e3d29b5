//! Timestamps by a driver that sees a UDP socket's packets pass, for those systems where Winsock
//! has none (before Windows 11 and Windows Server 2022), or none for the network card.

use std::fmt::Debug;
use std::net::SocketAddr;

/// A message of a connected socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedMessage<'m> {
    /// It is sent; otherwise it was received.
    pub is_outgoing: bool,
    /// The socket's port.
    pub local: u16,
    /// The other end.
    pub peer: SocketAddr,
    /// What is in it.
    pub bytes: &'m [u8],
}

/// A driver that sees packets pass.
pub trait PacketObserver: Debug + Send + Sync {
    /// When a message has passed, in counts of the performance counter. `None`: it has not (yet).
    fn passed(&self, message: &ObservedMessage<'_>) -> Option<i64>;

    /// A message is about to be sent: what has passed until now need not be kept.
    fn prepare(&self);

    /// Whether it sees no packets any more.
    fn has_ended(&self) -> bool;
}
