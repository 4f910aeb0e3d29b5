//! Connection teardown: FIN in both directions, TIME-WAIT, resets, and what remains of a closed
//! connection (RFC 9293 §3.6, §3.10.4; RFC 1337; RFC 6191; RFC 2525 §2.17).

use crate::addr::Endpoint;
use crate::demux::TCP;
use crate::error::{Result, StackError};
use crate::ids::{Ready, TcpId};
use crate::pool::SlotLink;
use crate::tcp::connection::socket::{Pending, TcpState};
use crate::tcp::program::api::Shutdown;
use crate::tcp::send::output::Hold;
use crate::tcp::wire::header::{Segment, bit};
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{ConnectionIndex, ListenerIndex, SocketIndex, Stack};
use zerocopy::FromZeros;

/// How far each direction has been closed.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Closing {
    /// The peer's FIN lies here, if `fin_seen`.
    pub(in crate::tcp) fin_at: Seq,
    pub(in crate::tcp) fin_seen: bool,
    /// The peer's FIN has been received in order.
    pub(in crate::tcp) fin_received: bool,
    /// The program has shut its receiving side.
    pub(in crate::tcp) read_shut: bool,
    /// The program has shut its sending side: FIN is queued, or will be when there is a frame for
    /// it.
    pub(in crate::tcp) write_shut: bool,
    /// FIN is in the send queue.
    pub(in crate::tcp) fin_queued: bool,
}

shared_layout! { Closing { fin_at, fin_seen, fin_received, read_shut, write_shut, fin_queued } }

impl Stack<'_> {
    /// Changes the state of a connection and maintains the count of established ones.
    pub(in crate::tcp) fn set_state(&mut self, index: ConnectionIndex, state: TcpState) {
        let counts = |state: TcpState| matches!(state, TcpState::Established | TcpState::CloseWait);
        let old = core::mem::replace(&mut self.mem.tcp[index].state, state);
        if counts(old) && !counts(state) {
            let current = &self.mem.counters.tcp_curr_estab;
            current.set(current.get().saturating_sub(1));
        }
        if old == TcpState::SynReceived && state != TcpState::Established {
            self.leave_half_open(index);
        }
    }

    /// The peer's FIN, in this segment or an earlier one, once all data before it has arrived (RFC
    /// 9293 §3.10.7.4, eighth check).
    pub(in crate::tcp) fn fin_input(&mut self, index: ConnectionIndex, now: Instant, segment: &Segment) {
        let s = &mut self.mem.tcp[index];
        if segment.has(bit::FIN) && !s.closing.fin_received {
            let at = segment.seq + segment.len;
            if at.le(s.receive_window.edge) && at.ge(s.recv.next) {
                (s.closing.fin_seen, s.closing.fin_at) = (true, at);
            }
            if at.gt(s.recv.next) {
                s.disorder();
            }
        }
        if !s.closing.fin_seen || s.closing.fin_received || s.closing.fin_at != s.recv.next || !s.state.may_receive() {
            return;
        }
        s.closing.fin_received = true;
        s.recv.next += 1;
        s.receive_window.edge = s.receive_window.edge.max(s.recv.next);
        s.ack.now = true;
        s.recv.prune(&mut self.mem.frames);
        match s.state {
            TcpState::Established => self.set_state(index, TcpState::CloseWait),
            TcpState::FinWait1 => self.set_state(index, TcpState::Closing),
            TcpState::FinWait2 => self.enter_time_wait(index, now),
            _ => {}
        }
        let id = self.id_of(index);
        self.notify(id, self.tcp_readiness(index));
    }

    /// The peer has acknowledged our FIN.
    pub(in crate::tcp) fn fin_acknowledged(&mut self, index: ConnectionIndex, now: Instant) {
        match self.mem.tcp[index].state {
            TcpState::FinWait1 => {
                self.set_state(index, TcpState::FinWait2);
                if self.mem.tcp[index].orphan {
                    self.wait_for_fin(index, now);
                }
            }
            TcpState::Closing => self.enter_time_wait(index, now),
            TcpState::LastAck => self.finish(index),
            _ => {}
        }
    }

    /// In FIN-WAIT-2 after the program has closed its handle: the peer's FIN must arrive within a
    /// limit, or is not waited for at all. As on Linux the limit leaves time for retransmissions.
    fn wait_for_fin(&mut self, index: ConnectionIndex, now: Instant) {
        let config = &self.mem.core.tcp.config;
        let s = &mut self.mem.tcp[index];
        if s.settings.no_fin_wait {
            self.mem.counters.tcp_abort_on_linger.inc();
            self.send_reset(index, now);
            return self.finish(index);
        }
        let limit = if s.settings.fin_wait.is_zero() { config.fin_timeout } else { s.settings.fin_wait };
        let least = s.rtt.rto(&config.bounds(s.path.rto_min_ms)).times(7).over(2);
        s.at.keep = now + limit.max(least);
    }

    fn enter_time_wait(&mut self, index: ConnectionIndex, now: Instant) {
        self.set_state(index, TcpState::TimeWait);
        self.mem.counters.tcp_time_wait.inc();
        let s = &mut self.mem.tcp[index];
        s.stats.ends(now);
        s.send.clear(&mut self.mem.frames);
        s.at.retransmit = Instant::NEVER;
        if s.orphan {
            self.list_time_wait(index);
        }
        self.restart_time_wait(index, now);
        let s = &mut self.mem.tcp[index];
        if s.ack.now {
            self.send_ack(index, now); // output has nothing else to send in this state
        }
        self.set_timer(index);
    }

    fn restart_time_wait(&mut self, index: ConnectionIndex, now: Instant) {
        let lasts = self.mem.core.tcp.config.time_wait;
        self.mem.tcp[index].at.keep = now + lasts;
        self.set_timer(index);
    }

    fn list_time_wait(&mut self, index: ConnectionIndex) {
        let shared = &mut self.mem.core.tcp;
        let this = SlotLink::to(index);
        let last = core::mem::replace(&mut shared.time_wait_tail, this);
        match last.get() {
            Some(last) => self.mem.tcp[last].link = this,
            None => shared.time_wait_head = this,
        }
        let s = &mut self.mem.tcp[index];
        (s.link, s.back, s.queued) = (SlotLink::NONE, last, true);
    }

    fn unlist_time_wait(&mut self, index: ConnectionIndex) {
        let s = &mut self.mem.tcp[index];
        s.queued = false;
        let (next, last) = (core::mem::take(&mut s.link), core::mem::take(&mut s.back));
        let shared = &mut self.mem.core.tcp;
        match last.get() {
            Some(last) => self.mem.tcp[last].link = next,
            None => shared.time_wait_head = next,
        }
        match next.get() {
            Some(next) => self.mem.tcp[next].back = last,
            None => shared.time_wait_tail = last,
        }
    }

    /// Evicts the oldest TIME-WAIT connection without a handle. False if there is none.
    pub(in crate::tcp) fn evict_time_wait(&mut self) -> bool {
        let Some(oldest) = self.mem.core.tcp.time_wait_head.get() else { return false };
        self.finish(oldest);
        true
    }

    /// A segment in TIME-WAIT. If it is a SYN that may open a new connection in place of this one,
    /// frees this one and returns its SND.NXT.
    #[inline(never)]
    pub(in crate::tcp) fn time_wait_input(
        &mut self,
        index: ConnectionIndex,
        now: Instant,
        segment: &Segment,
    ) -> Option<Seq> {
        let s = &mut self.mem.tcp[index];
        if segment.has(bit::RST) {
            // RFC 1337: a RST must not end TIME-WAIT. But a peer may have lost the connection and
            // open another from the same port. It answers our acknowledgement with a RST at exactly
            // RCV.NXT, as it would for any old connection (RFC 9293 §3.5.1). Its next SYN is
            // welcome.
            if s.refused_syn && segment.seq == s.recv.next {
                self.finish(index);
            }
            return None;
        }
        if segment.bits & (bit::SYN | bit::ACK) == bit::SYN {
            // RFC 6191 and RFC 9293 §3.10.7.4: new enough by timestamp or by sequence number.
            let newer = match segment.options.timestamps {
                Some(times) if s.negotiated.timestamps => {
                    (times.value.wrapping_sub(s.timestamps.recent) as i32) > 0
                        || times.value == s.timestamps.recent && segment.seq.gt(s.recv.next)
                }
                _ => segment.seq.gt(s.recv.next),
            };
            let (local, remote, sent) = (s.local, s.remote, s.send.nxt);
            // Without a listener the SYN opens nothing, and TIME-WAIT stays (RFC 1337): any host
            // can forge such a SYN. The real peer answers our acknowledgement with a RST if it has
            // lost the connection, which it may.
            let listens = self.find_listener(local, remote).is_some();
            if newer && listens {
                self.finish(index);
                return Some(sent);
            }
            self.mem.tcp[index].refused_syn |= listens;
        }
        let s = &mut self.mem.tcp[index];
        // Only a retransmission of the peer's own FIN shows that our last acknowledgement was lost
        // (RFC 9293 §3.10.7.4).
        if segment.has(bit::FIN) && segment.seq + segment.len + 1 == s.recv.next {
            self.restart_time_wait(index, now);
            self.send_ack(index, now);
        } else if (segment.length() > 0 || segment.seq != s.recv.next) && s.answer_limit.may_challenge(now) {
            self.send_ack(index, now); // rate-limited: two peers that disagree must not loop
        }
        None
    }

    /// Ends a connection and notifies only the program. Unread data stays readable.
    pub(in crate::tcp) fn finish(&mut self, index: ConnectionIndex) {
        if self.mem.tcp[index].state == TcpState::TimeWait && self.mem.tcp[index].orphan {
            self.unlist_time_wait(index);
        }
        let (nobody, awaited) = {
            let s = &self.mem.tcp[index];
            // In SYN-RECEIVED a passive connection has no handle yet.
            let nobody = s.orphan || s.state == TcpState::SynReceived && s.passive;
            (nobody, !s.passive && matches!(s.state, TcpState::SynSent | TcpState::SynReceived))
        };
        self.set_state(index, TcpState::Closed);
        self.demux_remove(index);
        self.disarm(index);
        let s = &mut self.mem.tcp[index];
        s.at = Default::default();
        (s.ack.now, s.ack.soon, s.suspended) = (false, false, false);
        s.send.clear(&mut self.mem.frames);
        s.recv.prune(&mut self.mem.frames);
        if nobody {
            if awaited {
                // Another thread may sleep until the connection is open; it will find its handle
                // stale.
                let id = self.id_of(index);
                self.notify(id, Ready::HUP);
            }
            self.recycle(index);
            return;
        }
        self.update_row(index);
        let id = self.id_of(index);
        self.notify(id, self.tcp_readiness(index));
    }

    /// Ends a connection with an error for the program.
    pub(in crate::tcp) fn fail(&mut self, index: ConnectionIndex, why: Pending) {
        self.mem.tcp[index].error = why;
        self.finish(index);
    }

    /// Frees the slot of a closed connection without a handle.
    fn recycle(&mut self, index: ConnectionIndex) {
        let s = &mut self.mem.tcp[index];
        s.recv.clear(&mut self.mem.frames);
        s.state = TcpState::Free;
        self.release(index);
    }

    /// Resets a connection whose handle is gone, or that never had one.
    pub(in crate::tcp) fn drop_connection(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        s.orphan = s.state != TcpState::TimeWait;
        if !matches!(s.state, TcpState::Closed | TcpState::TimeWait | TcpState::SynSent) {
            self.send_reset(index, now);
        }
        if self.mem.tcp[index].state == TcpState::TimeWait {
            self.mem.tcp[index].orphan = true;
            self.list_time_wait(index);
        } else {
            self.finish(index);
        }
    }

    /// Shuts one or both directions. The program can read on until the peer sends FIN. In
    /// SYN-RECEIVED the FIN waits until the connection is open (RFC 9293 §3.10.4).
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::NotConnected`], also in TIME-WAIT, when a Linux socket
    /// is no longer attached to the connection.
    pub fn tcp_shutdown(&mut self, id: TcpId, now: Instant, how: Shutdown) -> Result<()> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        use TcpState::{Closed, Free, SynSent, TimeWait};
        if matches!(s.state, Closed | TimeWait | SynSent | Free) {
            if s.abandoned {
                // As on Linux the directions of an unconnected socket are shut all the same, for
                // readers and pollers.
                s.closing.read_shut |= how != Shutdown::Write;
                s.closing.write_shut |= how != Shutdown::Read;
                self.notify(id.into(), self.tcp_readiness(index));
            }
            return Err(StackError::NotConnected);
        }
        if how != Shutdown::Write {
            s.closing.read_shut = true;
        }
        if how != Shutdown::Read {
            self.shut_sending(index, now);
        }
        let socket = self.id_of(index);
        self.notify(socket, self.tcp_readiness(index));
        self.update_row(index);
        Ok(())
    }

    /// Queues FIN behind the data that the program has written.
    pub(in crate::tcp) fn shut_sending(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        let next = match s.state {
            TcpState::SynReceived => {
                s.closing.write_shut = true;
                return;
            }
            TcpState::Established => TcpState::FinWait1,
            TcpState::CloseWait => TcpState::LastAck,
            _ => return,
        };
        self.set_state(index, next);
        self.mem.tcp[index].closing.write_shut = true;
        self.tcp_output(index, now, Hold::AsSet);
    }

    /// Closes the program's handle. Queued data is still delivered, unless there is unread data or
    /// the linger time is zero: then the connection is reset. In SYN-RECEIVED the FIN waits until
    /// the connection is open (RFC 9293 §3.10.4).
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_close(&mut self, id: TcpId, now: Instant) -> Result<()> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        s.suspended = false;
        let unread = s.recv.bytes > 0;
        let reset = s.settings.linger && s.settings.linger_time.is_zero();
        match s.state {
            TcpState::Closed | TcpState::SynSent | TcpState::Free => {
                self.mem.tcp[index].orphan = true;
                self.finish(index);
                return Ok(());
            }
            TcpState::TimeWait => {
                let s = &mut self.mem.tcp[index];
                s.recv.clear(&mut self.mem.frames);
                s.orphan = true;
                self.orphan(index);
                self.list_time_wait(index);
                return Ok(());
            }
            _ if unread || reset => {
                if unread {
                    self.mem.counters.tcp_abort_on_data.inc();
                }
                return self.tcp_abort(id, now);
            }
            _ => {}
        }
        self.mem.tcp[index].orphan = true;
        self.mem.tcp[index].at.keep = Instant::NEVER;
        self.orphan(index);
        self.shut_sending(index, now);
        match self.mem.tcp[index].state {
            TcpState::FinWait2 => self.wait_for_fin(index, now),
            // Another thread may sleep until the connection is open; it will find its handle stale.
            TcpState::SynReceived => self.notify(self.id_of(index), Ready::HUP),
            _ => {}
        }
        self.set_timer(index);
        self.update_row(index);
        Ok(())
    }

    /// Resets the connection and closes the program's handle.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_abort(&mut self, id: TcpId, now: Instant) -> Result<()> {
        let index = self.check(id)?;
        self.orphan(index);
        self.drop_connection(index, now);
        Ok(())
    }

    /// Resets the connection for an external reason (its address was removed). The program keeps
    /// its handle, which reports an error and a hang-up. Its next call returns
    /// [`StackError::Aborted`], as on Linux after `SOCK_DESTROY`.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_sever(&mut self, id: TcpId, now: Instant) -> Result<()> {
        let index = self.check(id)?;
        let state = self.mem.tcp[index].state;
        if state == TcpState::Closed {
            return Ok(());
        }
        if state.is_synchronized() && state != TcpState::TimeWait {
            self.send_reset(index, now);
        }
        self.fail(index, Pending::Aborted);
        Ok(())
    }

    /// Aborts a connection attempt for the program, which keeps its handle. The socket is then
    /// neither connected nor shut, as on Linux after `shutdown` in SYN-SENT (`tcp_disconnect`). The
    /// next call returns [`StackError::Reset`].
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] in another state.
    pub fn tcp_abandon(&mut self, id: TcpId) -> Result<()> {
        let index = self.check(id)?;
        if self.mem.tcp[index].state != TcpState::SynSent {
            return Err(StackError::Invalid);
        }
        self.mem.tcp[index].abandoned = true;
        self.fail(index, Pending::Reset);
        Ok(())
    }

    /// Drops a connection that the program has closed, without notifying the peer. The program no
    /// longer owns its port (its address was removed), and the next connection may get it. Does
    /// nothing if there is no such connection, or the program still holds it.
    pub fn tcp_forget(&mut self, local: Endpoint, remote: Endpoint) {
        if let Some(SocketIndex::Tcp(index)) = self.find_connected(TCP, local, remote)
            && self.mem.tcp[index].orphan
        {
            self.finish(index);
        }
    }

    /// The readiness of a connection, as Linux's `poll` reports it.
    pub(crate) fn tcp_readiness(&self, index: ConnectionIndex) -> Ready {
        let s = &self.mem.tcp[index];
        let mut ready = Ready::NONE;
        if matches!(s.state, TcpState::SynSent | TcpState::SynReceived) {
            if s.closing.read_shut {
                ready |= Ready::IN | Ready::RDHUP;
            }
            if s.closing.read_shut && s.closing.write_shut {
                ready |= Ready::HUP;
            }
            return ready;
        }
        let over = s.state == TcpState::Closed;
        let (no_more_in, no_more_out) =
            (s.closing.fin_received || s.closing.read_shut || over && !s.abandoned, s.closing.write_shut || over);
        if no_more_in && no_more_out || over {
            ready |= Ready::HUP;
        }
        if no_more_in {
            ready |= Ready::IN | Ready::RDHUP;
        }
        if s.readable() > 0 {
            ready |= Ready::IN;
        }
        if no_more_out || s.writable() {
            ready |= Ready::OUT;
        }
        if s.urgent.is_readable() {
            ready |= Ready::PRI;
        }
        if s.error != Pending::None {
            ready |= Ready::ERR;
        }
        ready
    }

    /// The readiness of a listener.
    pub(crate) fn listener_readiness(&self, index: ListenerIndex) -> Ready {
        self.mem.listeners[index].readiness()
    }

    /// Notifies the program that it may write again, if it was refused before and there is room
    /// now.
    pub(in crate::tcp) fn tell_of_room(&mut self, index: ConnectionIndex) {
        let s = &mut self.mem.tcp[index];
        if s.room.wanted && s.writable() {
            s.room.wanted = false;
            self.notify_writable(index);
        }
    }

    /// Notifies the program that it may write again.
    pub(in crate::tcp) fn notify_writable(&mut self, index: ConnectionIndex) {
        let id = self.id_of(index);
        self.notify(id, Ready::OUT);
    }
}

/// The error that a call on a closed connection reports.
pub(in crate::tcp) fn over(error: Pending) -> StackError {
    error.error().unwrap_or(StackError::NotConnected)
}
