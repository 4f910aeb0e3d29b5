//! Handing a live connection over to another stack of the same host (the kernel's, by
//! `TCP_REPAIR`).
//!
//! The connection is suspended first: it sends nothing, accepts nothing, and its timers do not run.
//! The peer retransmits segments dropped meanwhile, because they are not acknowledged. Then its
//! sequence numbers and bytes are read out, and it is freed without notifying the peer. If the
//! other stack does not accept it, it resumes here as if some packets had been lost.

use crate::addr::Endpoint;
use crate::demux::TCP;
use crate::error::{Result, StackError};
use crate::frame::Frames;
use crate::ids::{Ready, TcpId};
use crate::tcp::connection::socket::{Pending, Socket, TcpState};
use crate::tcp::send::output::Hold;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{SocketIndex, Stack};

/// Everything that another stack must know of a connection except its bytes
/// ([`Stack::tcp_leaving_bytes`]). The sequence numbers are those of data: neither side's FIN
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// This end.
    pub local: Endpoint,
    /// The other one.
    pub remote: Endpoint,
    /// The interface to which it is bound, 0 if to none.
    pub interface: u32,
    /// The type of service of its packets, without the bits of ECN.
    pub tos: u8,
    /// SND.UNA: the number of the first byte of the send queue.
    pub send_una: u32,
    /// Bytes in the send queue that are in flight.
    pub in_flight: u32,
    /// Bytes in the send queue behind those.
    pub unsent: u32,
    /// RCV.NXT. The unread bytes end here.
    pub receive_next: u32,
    /// In-order bytes that the program has not read.
    pub unread: u32,
    /// SND.WND, the largest it ever was, and SND.WL1.
    pub send_window: u32,
    /// See `send_window`.
    pub largest_window: u32,
    /// See `send_window`.
    pub window_seq: u32,
    /// Bytes from RCV.NXT to the right edge of the window that was offered.
    pub receive_window: u32,
    /// The MSS of the peer's SYN.
    pub peer_mss: u16,
    /// The shifts of the windows received and sent, if both sides scale them.
    pub shifts: Option<(u8, u8)>,
    /// The peer supports SACK.
    pub sack: bool,
    /// The timestamp that would be sent now, if both sides use them.
    pub timestamp: Option<u32>,
    /// The peer's timestamp to echo.
    pub echo: u32,
    /// The peer's FIN has been received.
    pub fin_received: bool,
    /// Our FIN has been sent and acknowledged.
    pub fin_acknowledged: bool,
}

impl Socket {
    /// The number behind the last byte that the program wrote.
    fn data_end(&self) -> Seq {
        self.send.end - u32::from(self.closing.fin_queued)
    }

    fn fin_acknowledged(&self) -> bool {
        self.closing.fin_queued && self.send.una == self.send.end
    }

    /// Whether another stack can take the connection: it is open, or has been closed in order.
    fn may_leave(&self) -> bool {
        let ended = self.state == TcpState::Closed && self.closing.fin_received && self.fin_acknowledged();
        let passable = self.state.is_synchronized() || ended;
        passable && !self.suspended && self.error == Pending::None && !self.urgent.is_known(self.send.una)
    }

    fn leaving(&self, now: Instant) -> Leaving {
        let end = self.data_end();
        let (una, nxt) = (self.send.una.min(end), self.send.nxt.min(end));
        let next = self.recv.next - u32::from(self.closing.fin_received);
        Leaving {
            local: self.local,
            remote: self.remote,
            interface: self.settings.interface,
            tos: self.settings.tos,
            send_una: una.0,
            in_flight: nxt.since(una),
            unsent: end.since(nxt),
            receive_next: next.0,
            unread: self.recv.bytes,
            send_window: self.send_window.size,
            largest_window: self.send_window.largest,
            window_seq: self.send_window.seq.0,
            receive_window: self.receive_window.edge.since(next),
            peer_mss: self.negotiated.peer_mss,
            shifts: self.negotiated.shifts(),
            sack: self.negotiated.sack,
            timestamp: self.negotiated.timestamps.then(|| self.timestamp(now)),
            echo: self.timestamps.recent,
            fin_received: self.closing.fin_received,
            fin_acknowledged: self.fin_acknowledged(),
        }
    }

    /// The bytes of the send queue from SND.UNA on, frame by frame.
    fn each_queued(&self, frames: &Frames<'_>, take: &mut impl FnMut(&[u8])) {
        let mut at = self.send.head;
        while let Some(id) = at.get() {
            let meta = &frames.meta[id as usize];
            at = meta.next;
            let data = frames.data(id);
            let acknowledged = self.send.una.since(Seq(meta.seq)) as usize;
            take(data.get(acknowledged..).unwrap_or_default());
        }
    }
}

impl Stack<'_> {
    /// A connection that the program has closed and that still exists: its remaining data can be
    /// handed over, too. `None` if there is none between these endpoints.
    pub fn tcp_closed(&self, local: Endpoint, remote: Endpoint) -> Option<TcpId> {
        let SocketIndex::Tcp(index) = self.find_connected(TCP, local, remote)? else { return None };
        let is_closed = self.mem.tcp[index].orphan;
        is_closed.then(|| self.id_of(index).try_into().ok()).flatten()
    }

    /// Suspends a connection until [`Stack::tcp_resume`], [`Stack::tcp_leave`] or until it is
    /// closed. Calls that read and write would block meanwhile.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if it is not open, was reset, is suspended
    /// already, or has urgent data or a pending error, which cannot be handed over.
    pub fn tcp_suspend(&mut self, id: TcpId, now: Instant) -> Result<Leaving> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        if !s.may_leave() {
            return Err(StackError::Invalid);
        }
        s.suspended = true;
        self.disarm(index);
        Ok(self.mem.tcp[index].leaving(now))
    }

    /// Passes the unread bytes of a suspended connection to `take`, then those of its send queue.
    /// Out-of-order data is not among them: it was never acknowledged.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if it is not suspended.
    pub fn tcp_leaving_bytes(&mut self, id: TcpId, mut take: impl FnMut(&[u8])) -> Result<()> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        if !s.suspended {
            return Err(StackError::Invalid);
        }
        let frames = &mut self.mem.frames;
        s.recv.read(frames, usize::MAX, true, |bytes| {
            take(bytes);
            bytes.len()
        });
        s.each_queued(frames, &mut take);
        Ok(())
    }

    /// Resumes a suspended connection: segments dropped meanwhile count as lost.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if it is not suspended.
    pub fn tcp_resume(&mut self, id: TcpId, now: Instant) -> Result<()> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        if !core::mem::take(&mut s.suspended) {
            return Err(StackError::Invalid);
        }
        // Informs the peer of RCV.NXT, whatever was dropped.
        s.ack.now = s.state.is_synchronized();
        self.tcp_output(index, now, Hold::AsSet);
        self.update_row(index);
        self.notify(id.into(), self.tcp_readiness(index));
        Ok(())
    }

    /// Another stack has taken the connection: it is freed without notifying the peer, and its
    /// handle is stale. Returns which sides the program has shut by now: reading, writing.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] if it is not suspended.
    pub fn tcp_leave(&mut self, id: TcpId) -> Result<(bool, bool)> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        if !s.suspended {
            return Err(StackError::Invalid);
        }
        let shut = (s.closing.read_shut, s.closing.write_shut);
        s.orphan = true;
        // Threads that wait for it continue with the other stack.
        self.notify(id.into(), Ready::IN | Ready::OUT | Ready::HUP);
        self.orphan(index);
        self.finish(index);
        Ok(shut)
    }
}
