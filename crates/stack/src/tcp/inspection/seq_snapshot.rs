//! The sequence numbers of a connection, for tests that compare both ends.

use crate::Stack;
use crate::addr::Endpoint;
use crate::ids::{SocketId, SocketKind};
use crate::tcp::connection::socket::Socket;
use crate::tcp::wire::seq::Seq;

/// Where a connection is in the space of sequence numbers, in both directions (RFC 9293 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqSnapshot {
    /// Its slot. The generation changes when the program closes its handle.
    pub id: SocketId,
    /// The program has closed its handle.
    pub orphan: bool,
    /// This end.
    pub local: Endpoint,
    /// The other one.
    pub remote: Endpoint,
    /// ISS and IRS: they distinguish successive connections between the same endpoints, unless both
    /// were made of one SYN cookie.
    pub iss: Seq,
    /// See `iss`.
    pub irs: Seq,
    /// SND.UNA.
    pub una: Seq,
    /// SND.NXT: the number after the last that was ever sent.
    pub nxt: Seq,
    /// FIN has been sent: it takes the last number before SND.NXT.
    pub fin_sent: bool,
    /// RCV.NXT.
    pub received: Seq,
    /// The right edge of the window that was offered last.
    pub edge: Seq,
}

impl SeqSnapshot {
    /// The numbers of a connection that has just opened, and offers no window yet.
    #[must_use]
    pub fn new(local: Endpoint, remote: Endpoint, iss: u32, irs: u32) -> Self {
        let (iss, irs) = (Seq(iss), Seq(irs));
        let (una, received) = (iss + 1, irs + 1);
        let id = SocketId { kind: SocketKind::Tcp, index: 0, generation: 1 };
        let (orphan, fin_sent) = (false, false);
        Self { id, orphan, local, remote, iss, irs, una, nxt: una, fin_sent, received, edge: received }
    }

    /// Whether this is the same connection as `before`, and not one that replaced it.
    #[must_use]
    pub fn is_still(&self, before: &Self) -> bool {
        let closed = u32::from(self.orphan && !before.orphan);
        let id = SocketId { generation: before.id.generation.wrapping_add(2 * closed), ..before.id };
        self.id == id && (self.iss, self.irs) == (before.iss, before.irs)
    }

    fn of(id: SocketId, s: &Socket) -> Self {
        let Socket { orphan, local, remote, iss, irs, .. } = *s;
        let fin_sent = s.closing.fin_queued && s.send.unsent() == 0;
        let (una, nxt, received, edge) = (s.send.una, s.send.nxt, s.recv.next, s.receive_window.edge);
        Self { id, orphan, local, remote, iss, irs, una, nxt, fin_sent, received, edge }
    }
}

impl Stack<'_> {
    /// The numbers of all connections that are open or closing.
    pub fn tcp_numbers(&self) -> impl Iterator<Item = SeqSnapshot> {
        let open = self.mem.tcp.enumerate().filter(|(_, s)| s.state.is_synchronized());
        open.map(|(index, s)| SeqSnapshot::of(self.id_of(index), s))
    }
}
