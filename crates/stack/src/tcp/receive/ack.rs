//! When to acknowledge (RFC 9293 §3.8.6.3, RFC 5681 §4.2). At once at the start of a connection,
//! for every second full segment, and whenever something is out of order. Otherwise the
//! acknowledgement is delayed so that an answer can carry it. If no answer follows, the next ones
//! are acknowledged at once: a timer for each message of a one-way stream wakes its program twice
//! for it.
//!
//! Segments that arrive together are acknowledged together. The kernel sees them as one large
//! segment (GRO) and does the same, and each acknowledgement costs both hosts a packet. A caller
//! that polls while packets arrive one by one answers them one by one.
//!
//! An acknowledgement of a whole small message waits a moment longer, if the caller requests it
//! ([`TcpConfig::hold_acks`]): until the program has the message and waits for the next one.
//! Sending takes several microseconds, which would delay the message; and an answer may carry the
//! acknowledgement.

use super::ack_thinning::AckThinning;
use crate::tcp::connection::config::TcpConfig;
use crate::tcp::connection::socket::Socket;
use crate::tcp::wire::options::Options;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{ConnectionIndex, Stack};
use zerocopy::FromZeros;

/// Bytes that may wait for the end of a batch: what the kernel's largest segment holds.
const MOST_TOGETHER: u32 = 64 << 10;

/// Bytes of a message whose acknowledgement waits for the program: a peer that has more to send is
/// not delayed, with the initial congestion window of RFC 6928.
const MOST_HELD: u32 = 12 << 10;

/// Number of connections whose acknowledgement may wait.
const MOST_WAITING: usize = 8;

/// The connections whose acknowledgements wait for the end of a batch of received packets.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Batch {
    /// Whether a batch is open.
    open: u32,
    waiting: u32,
    connections: [ConnectionIndex; MOST_WAITING],
}

shared_layout! { Batch { open, waiting, connections } }

impl Batch {
    /// Adds one more, if there is room.
    fn add(&mut self, connection: ConnectionIndex) {
        if let Some(place) = self.connections.get_mut(self.waiting as usize) {
            *place = connection;
            self.waiting += 1;
        }
    }
}

/// How many acknowledgements are sent without delay at the start and after a gap, so that the
/// peer's window opens quickly.
pub(in crate::tcp) const QUICK: u8 = 16;

/// What is acknowledged, and when the next acknowledgement is sent.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct AckState {
    /// Which acknowledgements may leave out the last segment.
    pub(in crate::tcp) thinning: AckThinning,
    /// Last.ACK.sent (RFC 7323 §4.3), including bytes that it left out: those have arrived, and
    /// their timestamp was evaluated.
    pub(in crate::tcp) last_sent: Seq,
    /// An acknowledgement must be sent at once.
    pub(in crate::tcp) now: bool,
    /// One must be sent at the end of the batch of received packets.
    pub(in crate::tcp) soon: bool,
    /// How many acknowledgements are still sent without delay (quick-ack mode).
    pub(in crate::tcp) quick: u8,
}

shared_layout! { AckState { thinning, last_sent, now, soon, quick } }

impl Socket {
    /// In-order data has arrived in a segment of `len` bytes: acknowledge now or later.
    /// `merged_of`: the size of the segments it was merged from, or 0. `pushed`: it has PSH.
    pub(in crate::tcp) fn data_arrived(
        &mut self,
        config: &TcpConfig,
        now: Instant,
        (len, merged_of): (u32, u32),
        pushed: bool,
        filled_gap: bool,
    ) {
        // A retransmission proves nothing, nor does data that had waited behind it.
        let behind = !filled_gap && self.recv.next.since(self.ack.last_sent) + u32::from(self.ack.thinning.bytes) > len;
        let rtt = self.rtt.known().then_some(self.rtt.srtt);
        self.ack.thinning.arrived(now, len, self.receive_mss.min(self.mss), pushed, behind, rtt);
        let merged = merged_of > 0;
        let each = if merged { merged_of } else { len };
        self.receive_mss = self.receive_mss.max(each.min(self.offered_mss.into()) as u16);
        let unacknowledged = self.recv.next.since(self.ack.last_sent);
        let full = 2 * u32::from(self.receive_mss);
        self.recv.ack_may_wait = pushed && unacknowledged <= MOST_HELD && !self.is_quick();
        if filled_gap || self.recv.has_gap() || unacknowledged >= MOST_TOGETHER {
            self.ack.now = true;
        } else if unacknowledged >= full || merged {
            self.ack.soon = true;
        } else if self.ack.quick > 0 || self.settings.route_quickack {
            // Acknowledgements are counted, not segments.
            self.ack.quick = self.ack.quick.saturating_sub(u8::from(!self.ack.soon));
            self.ack.soon = true;
        } else {
            self.delay_acknowledgement(now, config.delay());
        }
    }

    /// Whether the program or the route requests immediate acknowledgements.
    pub(in crate::tcp) const fn is_quick(&self) -> bool {
        self.settings.quickack || self.settings.route_quickack
    }

    /// A segment arrived that must be acknowledged at once: out of order, duplicate, or outside of
    /// the window.
    pub(in crate::tcp) fn disorder(&mut self) {
        self.ack.now = true;
        self.ack.thinning.narrowed();
        self.ack.quick = self.ack.quick.max(QUICK);
    }

    /// The delay is over, and no answer has been sent.
    pub(in crate::tcp) fn was_one_way(&mut self) {
        self.ack.quick = self.ack.quick.max(QUICK);
    }

    /// Whether a segment of ours with these options informs the peer of out-of-order data. One
    /// without data always does, by its acknowledgement number if not by SACK blocks.
    fn tells_of_disorder(&self, data: bool, options: &Options) -> bool {
        !data || options.block_count > 0 || !(self.recv.has_gap() || self.negotiated.sack && self.recv.has_duplicate())
    }

    /// A segment with an acknowledgement of all but the last `withheld` bytes and with these
    /// options is being sent; `data`: it carries data.
    pub(in crate::tcp) fn acknowledged(
        &mut self,
        now: Instant,
        data: bool,
        withheld: u16,
        options: &Options,
        config: &TcpConfig,
    ) {
        // An answer soon after a request: the exchange is interactive, and later answers can carry
        // the acknowledgement.
        if data && now.since(self.progress.heard) < config.delay() && !self.is_quick() {
            self.ack.quick = 0;
        }
        self.ack.thinning.acknowledged(now, withheld);
        self.ack.last_sent = self.recv.next;
        self.ack.soon = false;
        self.at.ack = Instant::NEVER;
        if withheld > 0 {
            self.delay_acknowledgement(now, config.delay());
        }
        // A full segment has no room for SACK blocks, and one with data is no duplicate
        // acknowledgement (RFC 5681 §2). A bare one must follow, or the peer would not learn of a
        // gap while we have much to send.
        if self.tells_of_disorder(data, options) {
            self.ack.now = false;
            self.recv.duplicate = Default::default();
        } else {
            self.ack.now |= self.recv.has_duplicate();
        }
    }
}

impl Stack<'_> {
    /// A batch of packets is about to be processed.
    pub(crate) fn tcp_batch_begin(&mut self) {
        self.mem.core.tcp.batch.open = 1;
    }

    /// The batch is complete: sends the acknowledgements that waited only for that.
    pub(crate) fn tcp_batch_end(&mut self, now: Instant) {
        self.mem.core.tcp.batch.open = 0;
        let hold = self.mem.core.tcp.config.hold_acks;
        self.acknowledge_waiting(now, hold);
    }

    /// The program waits, or has sent what it wanted to: sends the acknowledgements held back for
    /// that ([`TcpConfig::hold_acks`]).
    pub fn acknowledge_held(&mut self, now: Instant) {
        self.acknowledge_waiting(now, false);
    }

    /// Whether any acknowledgement is held back.
    #[must_use]
    #[inline]
    pub fn has_held_acks(&self) -> bool {
        let batch = &self.mem.core.tcp.batch;
        let held = |&index: &ConnectionIndex| self.mem.tcp.get(index).is_some_and(|s| s.ack.soon);
        batch.waiting > 0 && batch.connections.iter().take(batch.waiting as usize).any(held)
    }

    /// Sends the pending acknowledgement of a connection now, or enters it into the batch.
    pub(in crate::tcp) fn acknowledge(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &self.mem.tcp[index];
        let tcp = &self.mem.core.tcp;
        let waits = tcp.batch.open != 0 || s.recv.ack_may_wait && tcp.config.hold_acks;
        if s.ack.now || s.ack.soon && !waits {
            return self.acknowledge_received(index, now);
        }
        let known = tcp.batch.connections.get(..tcp.batch.waiting as usize);
        if !s.ack.soon || known.is_some_and(|known| known.contains(&index)) {
            return;
        }
        if known.is_none_or(|known| known.len() == MOST_WAITING) {
            self.acknowledge_waiting(now, false);
        }
        self.mem.core.tcp.batch.add(index);
    }

    /// Sends the waiting acknowledgements; with `hold` only those that cannot wait for the program.
    fn acknowledge_waiting(&mut self, now: Instant, hold: bool) {
        let batch = &mut self.mem.core.tcp.batch;
        let (connections, waiting) = (batch.connections, core::mem::take(&mut batch.waiting));
        for &index in connections.iter().take(waiting as usize) {
            // It may have been sent with data, or the connection may have ended meanwhile.
            let Some(s) =
                self.mem.tcp.get_mut(index).filter(|s| s.ack.soon && s.state.is_synchronized() && !s.suspended)
            else {
                continue;
            };
            if hold && s.recv.ack_may_wait {
                // The program may not call again soon.
                s.delay_acknowledgement(now, self.mem.core.tcp.config.delay());
                self.mem.core.tcp.batch.add(index);
            } else {
                self.acknowledge_received(index, now);
            }
            self.schedule(index, now, false);
        }
    }

    /// Acknowledges received data, and may leave out a segment that more data must follow.
    fn acknowledge_received(&mut self, index: ConnectionIndex, now: Instant) {
        let delay = self.mem.core.tcp.config.delay();
        let withheld = self.mem.tcp[index].withhold(now, delay);
        self.send_ack_of(index, now, withheld);
    }
}
