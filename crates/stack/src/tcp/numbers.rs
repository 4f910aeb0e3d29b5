//! The numbers of a connection, for whoever holds both ends against each other.

use super::seq::Seq;
use super::socket::Socket;
use crate::Stack;
use crate::addr::Endpoint;

/// Where a connection is in the space of sequence numbers, in both directions (RFC 9293 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// This end.
    pub local: Endpoint,
    /// The other one.
    pub remote: Endpoint,
    /// ISS and IRS: they tell connections apart that follow each other between the same ends.
    pub iss: Seq,
    /// See `iss`.
    pub irs: Seq,
    /// SND.UNA.
    pub una: Seq,
    /// SND.NXT: the number after the last that was ever sent.
    pub nxt: Seq,
    /// FIN has been sent: the last number before SND.NXT is its own.
    pub fin_sent: bool,
    /// RCV.NXT.
    pub received: Seq,
    /// The right edge of the window that was offered last.
    pub edge: Seq,
}

impl Numbers {
    /// Those of a connection that has just opened, and offers nothing yet.
    #[must_use]
    pub fn new(local: Endpoint, remote: Endpoint, iss: u32, irs: u32) -> Self {
        let (iss, irs) = (Seq(iss), Seq(irs));
        let (una, received) = (iss + 1, irs + 1);
        Self { local, remote, iss, irs, una, nxt: una, fin_sent: false, received, edge: received }
    }

    fn of(s: &Socket) -> Self {
        let Socket { local, remote, iss, irs, edge, .. } = *s;
        let fin_sent = s.fin_queued && s.send.unsent() == 0;
        Self { local, remote, iss, irs, una: s.send.una, nxt: s.send.nxt, fin_sent, received: s.recv.next, edge }
    }
}

impl Stack<'_> {
    /// The numbers of all connections that are open, or on their way to their end.
    pub fn tcp_numbers(&self) -> impl Iterator<Item = Numbers> {
        self.mem.tcp.iter().filter(|s| s.state.is_synchronized()).map(Numbers::of)
    }
}
