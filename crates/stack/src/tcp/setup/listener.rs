//! Listening: the SYN queue (connections in SYN-RECEIVED), SYN cookies when it is full, and the
//! accept queue.

use super::cookies::timestamp_with;
use super::handshake::announced_mss;
use super::negotiated::Negotiated;
use crate::addr::{Address, Endpoint};
use crate::error::{Result, StackError};
use crate::ids::{ListenerId, Ready, TcpId};
use crate::path::Metrics;
use crate::pool::{PoolLink, PoolSlot, SlotLink};
use crate::tcp::connection::socket::{Socket, TcpState};
use crate::tcp::program::settings::{Settings, TcpOptions};
use crate::tcp::receive::input::{Payload, Stray};
use crate::tcp::receive::queue::ReceiveQueue;
use crate::tcp::receive::window::window_of_syn;
use crate::tcp::send::output::Hold;
use crate::tcp::wire::header::{Segment, bit};
use crate::tcp::wire::options::Timestamps;
use crate::time::{Instant, Span};
use crate::{ConnectionIndex, ListenerIndex, Stack};
use zerocopy::FromZeros;

/// Cookies are checked only for so long after the last one was sent.
const COOKIE_LIFE: Span = Span::from_secs(128);

/// A listening socket.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub struct Listener {
    pub(in crate::tcp) link: PoolLink,
    pub(in crate::tcp) local: Endpoint,
    pub(in crate::tcp) settings: Settings,
    /// Accepted connections that the program has not taken, the oldest first.
    pub(in crate::tcp) accept_head: SlotLink<Socket>,
    pub(in crate::tcp) accept_tail: SlotLink<Socket>,
    pub(in crate::tcp) accept_len: u32,
    /// Most connections that may wait to be accepted.
    backlog: u32,
    /// Connections in SYN-RECEIVED.
    pub(in crate::tcp) half_open: u32,
    /// Its phase: `OPEN`, `SETTLING` or `LEAVING`.
    phase: u32,
    /// When `SETTLING` ends.
    settles: Instant,
}

shared_layout! { Listener {
    link, local, settings, accept_head, accept_tail, accept_len, backlog, half_open, phase, settles,
} }

/// The phase of a listener that answers everything.
const OPEN: u32 = 0;
/// Another stack of the host has listened before, and may have handshakes in progress: unknown
/// acknowledgements are not answered.
const SETTLING: u32 = 1;
/// Another stack of the host is about to listen instead: nothing is answered.
const LEAVING: u32 = 2;

impl PoolSlot for Listener {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

impl Listener {
    /// As on Linux, a backlog of n lets n + 1 connections wait.
    fn is_full(&self) -> bool {
        self.accept_len > self.backlog
    }

    /// Whether an acknowledgement of an unknown handshake may belong to another stack.
    fn is_settling(&self, now: Instant) -> bool {
        self.phase == SETTLING && now < self.settles
    }

    pub(in crate::tcp) fn readiness(&self) -> Ready {
        if self.accept_len > 0 { Ready::IN } else { Ready::NONE }
    }
}

impl Stack<'_> {
    /// Listens on `local`, whose address may be any address of its family, or `::` for both.
    ///
    /// # Errors
    /// [`StackError::NoBuffers`] if the lane has as many listeners as it can hold;
    /// [`StackError::Invalid`] without a port.
    pub fn tcp_listen(&mut self, options: &TcpOptions, local: Endpoint, backlog: u32) -> Result<ListenerId> {
        if local.port == 0 {
            return Err(StackError::Invalid);
        }
        let index = self.open()?;
        let listener = &mut self.mem.listeners[index];
        *listener = Listener { phase: OPEN, ..Listener::new_zeroed() };
        (listener.local, listener.settings, listener.backlog) = (local, *options, backlog);
        // Listeners share a port only by SO_REUSEPORT.
        if let Err(error) = self.demux_bind(index, local, (options.v6only, true)) {
            self.release(index);
            return Err(error);
        }
        let row = self.row(index);
        row.local.set(local);
        row.state.set(10); // LISTEN, as Linux numbers it
        ListenerId::try_from(self.id_of(index))
    }

    /// Another stack of the host has listened before. Segments of its handshakes arrive here until
    /// the host has redirected them, which it has at `settles`. Until then unknown acknowledgements
    /// are not answered.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_settle_listener(&mut self, id: ListenerId, settles: Instant) -> Result<()> {
        let index = self.check(id)?;
        let listener = &mut self.mem.listeners[index];
        if listener.phase != LEAVING {
            (listener.phase, listener.settles) = (SETTLING, settles);
        }
        Ok(())
    }

    /// Changes how many connections may wait to be accepted (a second `listen` call).
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_set_backlog(&mut self, id: ListenerId, backlog: u32) -> Result<()> {
        let index = self.check(id)?;
        self.mem.listeners[index].backlog = backlog;
        Ok(())
    }

    /// Takes the oldest connection of the accept queue. It may have ended meanwhile; reading from
    /// it reports that.
    ///
    /// # Errors
    /// [`StackError::WouldBlock`] if none waits; [`StackError::Stale`].
    pub fn tcp_accept(&mut self, id: ListenerId) -> Result<TcpId> {
        let at = self.check(id)?;
        let index = self.dequeue_accepted(at).ok_or(StackError::WouldBlock)?;
        TcpId::try_from(self.id_of(index))
    }

    /// Stops listening. Connections that were not accepted are reset.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_close_listener(&mut self, id: ListenerId, now: Instant) -> Result<()> {
        let at = self.check(id)?;
        self.drop_unaccepted(at, now);
        self.release(at);
        Ok(())
    }

    /// Another stack of the host is about to listen instead. Until this listener is closed, its
    /// segments are not answered, so that peers retransmit their SYN and are not refused.
    /// Connections that were not accepted are reset.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_leave_listener(&mut self, id: ListenerId, now: Instant) -> Result<()> {
        let at = self.check(id)?;
        self.drop_unaccepted(at, now);
        self.mem.listeners[at].phase = LEAVING;
        if let Some(slot) = self.slot_of(at) {
            self.unwatch_all(slot);
        }
        Ok(())
    }

    fn drop_unaccepted(&mut self, at: ListenerIndex, now: Instant) {
        while let Some(index) = self.dequeue_accepted(at) {
            self.drop_connection(index, now);
        }
        if self.mem.listeners[at].half_open > 0 {
            for index in self.mem.tcp.indices() {
                let s = &self.mem.tcp[index];
                if s.state == TcpState::SynReceived && s.listener == SlotLink::to(at) {
                    self.drop_connection(index, now);
                }
            }
        }
    }

    fn dequeue_accepted(&mut self, at: ListenerIndex) -> Option<ConnectionIndex> {
        let listener = &mut self.mem.listeners[at];
        let index = listener.accept_head.get()?;
        let s = &mut self.mem.tcp[index];
        listener.accept_head = core::mem::take(&mut s.link);
        if listener.accept_head.is_none() {
            listener.accept_tail = SlotLink::NONE;
        }
        listener.accept_len -= 1;
        s.queued = false;
        s.listener = SlotLink::NONE;
        let len = listener.accept_len;
        self.row(at).rx_queue.set(len);
        Some(index)
    }

    /// Whether the accept queue has room for another connection.
    pub(in crate::tcp) fn has_accept_room(&self, index: ConnectionIndex) -> bool {
        self.mem.tcp[index].listener.get().is_none_or(|at| self.listener_has_room(at))
    }

    /// Whether a listener's accept queue has room for another connection. Counts a drop if not.
    fn listener_has_room(&self, at: ListenerIndex) -> bool {
        let full = self.mem.listeners[at].is_full();
        if full {
            self.mem.counters.tcp_listen_overflows.inc();
            self.mem.counters.tcp_listen_drops.inc();
        }
        !full
    }

    /// A connection has left SYN-RECEIVED, whatever its next state.
    pub(in crate::tcp) fn leave_half_open(&mut self, index: ConnectionIndex) {
        if let Some(at) = self.mem.tcp[index].listener.get() {
            let listener = &mut self.mem.listeners[at];
            listener.half_open = listener.half_open.saturating_sub(1);
        }
        let (path, query) = (self.mem.tcp[index].path.index, self.mem.tcp[index].query());
        self.path_leave(path, &query);
    }

    /// Appends an established connection to its listener's accept queue.
    pub(in crate::tcp) fn enqueue_accepted(&mut self, index: ConnectionIndex) {
        self.leave_half_open(index);
        let Some(at) = self.mem.tcp[index].listener.get() else { return };
        let listener = &mut self.mem.listeners[at];
        let this = SlotLink::to(index);
        match core::mem::replace(&mut listener.accept_tail, this).get() {
            Some(last) => self.mem.tcp[last].link = this,
            None => listener.accept_head = this,
        }
        listener.accept_len += 1;
        let len = listener.accept_len;
        let s = &mut self.mem.tcp[index];
        (s.queued, s.link) = (true, SlotLink::NONE);
        self.row(at).rx_queue.set(len);
        let id = self.id_of(at);
        self.notify(id, Ready::IN);
    }

    /// A segment for a listener (RFC 9293 §3.10.7.2).
    #[inline(never)]
    pub(in crate::tcp) fn listener_input(
        &mut self,
        at: ListenerIndex,
        now: Instant,
        stray: &Stray<'_>,
        payload: &mut Payload,
    ) {
        let &Stray { packet, segment, local, remote, .. } = stray;
        if segment.has(bit::RST) || self.mem.listeners[at].phase == LEAVING {
            return;
        }
        if segment.has(bit::ACK) {
            let taken = !segment.has(bit::SYN) && self.take_cookie(at, now, stray, payload);
            if !taken && !self.mem.listeners[at].is_settling(now) {
                self.refuse(now, stray);
            }
            return;
        }
        if !segment.has(bit::SYN) || segment.has(bit::FIN) {
            return;
        }
        if !self.listener_has_room(at) {
            return;
        }
        let listener = &self.mem.listeners[at];
        let most = self.mem.core.tcp.config.syn_queue.min(listener.backlog.max(8));
        let settings = self.settings_for(at, remote.address);
        // A SYN flood must not take the slots that the program's own connections need.
        let scarce =
            self.mem.core.free_tcp.used() >= self.mem.tcp.len() / 4 * 3 && listener_is_busy(&self.mem.listeners[at]);
        let query = settings.query(local, remote);
        let path = if self.mem.listeners[at].half_open >= most || scarce {
            Err(StackError::NoBuffers)
        } else {
            self.path_infer(packet, &query, now)
        };
        let index = match path {
            Ok(path) => {
                let made = self.new_connection(now, local, remote, path, &settings).ok();
                if made.is_none() {
                    self.path_leave(path, &query);
                }
                made
            }
            Err(StackError::NoBuffers) => None,
            // The host reports that the sender is not reachable by the lane.
            Err(_) => {
                self.mem.counters.tcp_listen_drops.inc();
                return;
            }
        };
        match index {
            Some(index) => {
                if let Some(sent) = stray.predecessor {
                    self.begin_beyond(index, sent);
                }
                self.mem.listeners[at].half_open += 1;
                self.answer_syn(index, at, now, segment);
            }
            None => self.send_cookie(at, now, stray),
        }
    }

    /// The initial settings of a connection with a peer.
    fn settings_for(&self, at: ListenerIndex, peer: Address) -> Settings {
        self.reached_by_its_link(self.mem.listeners[at].settings, peer)
    }

    fn send_cookie(&mut self, at: ListenerIndex, now: Instant, stray: &Stray<'_>) {
        let &Stray { segment, local, remote, .. } = stray;
        self.mem.core.tcp.cookie_sent = now;
        self.mem.counters.tcp_syncookies_sent.inc();
        let (_, offset) = self.initial_sequence(now, local, remote);
        let settings = self.settings_for(at, remote.address);
        let query = settings.query(local, remote);
        let known = self.path_find(&query);
        let metrics = known.map_or_else(Metrics::default, |path| self.path_metrics(path));
        let (config, offered) = (&self.mem.core.tcp.config, &segment.options);
        let (family, ecn) = (remote.address.family(), config.ecn.accepts(segment));
        let negotiated = Negotiated::with(offered, family, config.window_shift, ecn).kept_by_cookie();
        let clock = ((now.as_nanos() / 1_000_000) as u32).wrapping_add(offset);
        let echo = offered.timestamps.map_or(0, |theirs| theirs.value);
        let timestamps = Timestamps { value: timestamp_with(clock, &negotiated), echo };
        let mtu = known.map_or(self.mem.core.default_mtu, |path| self.path_mtu(path, now));
        let header_len = if remote.address.to_v4().is_some() { 40 } else { 60 };
        let mss = announced_mss(mtu, header_len, &metrics, &settings);
        let options = negotiated.options(mss, timestamps);
        let cookie = self.make_cookie(now, local, remote, segment.seq, negotiated.peer_mss);
        let header = Segment {
            seq: cookie,
            ack: segment.seq + 1,
            bits: bit::SYN | bit::ACK | negotiated.ecn_answer(),
            window: window_of_syn(&settings, &metrics, mss) as u16,
            options,
            ..Segment::default()
        };
        self.reply(now, stray, &settings, header);
    }

    /// Creates a connection from an acknowledgement with a valid cookie. False if it has none.
    fn take_cookie(&mut self, at: ListenerIndex, now: Instant, stray: &Stray<'_>, payload: &mut Payload) -> bool {
        let &Stray { segment, local, remote, .. } = stray;
        let sent = self.mem.core.tcp.cookie_sent;
        if sent.is_never() || now.since(sent) > COOKIE_LIFE {
            return false;
        }
        let (irs, cookie) = (segment.seq - 1, segment.ack - 1);
        let echo = segment.options.timestamps.map(|t| t.echo);
        let Some(negotiated) = self.check_cookie(now, local, remote, irs, cookie, echo) else {
            self.mem.counters.tcp_syncookies_failed.inc();
            return false;
        };
        self.mem.counters.tcp_syncookies_recv.inc();
        if !self.listener_has_room(at) {
            return true; // dropped silently: the peer tries again
        }
        let settings = self.settings_for(at, remote.address);
        // A connection with data needs more than a guessed path.
        let query = settings.query(local, remote);
        let Ok(path) = self.path_again(&query, now) else { return true };
        let Ok(index) = self.new_connection(now, local, remote, path, &settings) else {
            self.mem.counters.tcp_listen_drops.inc();
            return true;
        };
        let s = &mut self.mem.tcp[index];
        s.passive = true;
        s.listener = SlotLink::to(at);
        s.state = TcpState::SynReceived;
        s.iss = cookie;
        s.irs = irs;
        s.negotiated = negotiated;
        if let Some(times) = segment.options.timestamps {
            (s.timestamps.recent, s.timestamps.recent_at) = (times.value, now);
        }
        s.recv = ReceiveQueue::new(segment.seq);
        s.ack.last_sent = segment.seq;
        // At least what the SYN-ACK offered: the host may have reported the route since.
        s.receive_window.edge = segment.seq + window_of_syn(&settings, &Metrics::default(), 0);
        self.mem.listeners[at].half_open += 1; // `establish` subtracts it again
        self.establish(index, now, segment);
        let s = &mut self.mem.tcp[index];
        s.send_window.take(segment, s.negotiated.send_shift);
        self.established_input(index, now, segment, payload);
        if self.mem.tcp[index].state.is_synchronized() {
            self.tcp_output(index, now, Hold::AsSet);
            self.update_row(index);
        }
        true
    }
}

/// Whether a listener already has half-open connections.
fn listener_is_busy(listener: &Listener) -> bool {
    listener.half_open > 0
}
