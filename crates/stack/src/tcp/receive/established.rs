//! Segments in the synchronized states (RFC 9293 §3.10.7.4, in its order of checks; RFC 5961; RFC
//! 7323 §5).

use super::input::Payload;
use super::queue::Placed;
use crate::frame::flag;
use crate::pool::PoolLink;
use crate::tcp::connection::socket::{Pending, Socket, TcpState, Waiting};
use crate::tcp::wire::header::{Segment, bit};
use crate::tcp::wire::options::SackBlock;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{ConnectionIndex, Stack};

/// What became of a segment's payload.
struct Queued {
    /// It filled a gap.
    filled: bool,
    /// A part of it is out of order.
    early: bool,
}

impl Socket {
    /// RFC 5961 §5.2: a segment that acknowledges data that was never sent, or is older than any
    /// window, is not from the peer.
    fn may_acknowledge(&self, segment: &Segment) -> bool {
        let oldest = self.send.una - self.send_window.largest.max(1);
        segment.ack.le(self.send.nxt) && segment.ack.ge(oldest)
    }

    /// RFC 9293 §3.10.7.4, first check, with the right edge that was actually offered.
    pub(in crate::tcp) fn is_acceptable(&self, segment: &Segment) -> bool {
        let (next, edge) = (self.recv.next, self.receive_window.edge);
        let (seq, end) = (segment.seq, segment.end());
        match (segment.length() > 0, edge.gt(next)) {
            // As on Linux: FIN takes no room, and a peer with nothing more to send may not wait for
            // any.
            _ if segment.is_bare_fin() && self.state.may_receive() => next.le(seq) && seq.le(edge),
            (false, false) => seq == next,
            // A peer that has filled the window acknowledges from its right edge, which is not
            // RCV.NXT while there is a gap. In SYN-RECEIVED and for RST the window ends where the
            // RFC ends it.
            (false, true) if seq == edge => self.state.is_synchronized() && !segment.has(bit::RST),
            (false, true) => next.le(seq) && seq.lt(edge),
            (true, false) => false,
            (true, true) => seq.lt(edge) && end.gt(next),
        }
    }
}

impl Stack<'_> {
    /// A segment for a connection that is synchronized and not in TIME-WAIT.
    pub(in crate::tcp) fn established_input(
        &mut self,
        index: ConnectionIndex,
        now: Instant,
        segment: &Segment,
        payload: &mut Payload,
    ) {
        if !self.sequence_is_good(index, now, segment) {
            return;
        }
        if segment.bits & (bit::RST | bit::SYN) != 0 {
            return self.reset_or_challenge(index, now, segment);
        }
        if !segment.has(bit::ACK) {
            return;
        }
        let s = &mut self.mem.tcp[index];
        if !s.may_acknowledge(segment) {
            self.challenge(index, now);
            return;
        }
        s.take_timestamp(now, segment);
        s.progress.heard = now;
        if !s.orphan && (s.progress.keep_probes > 0 || s.settings.keepalive && s.at.keep.is_never()) {
            s.progress.keep_probes = 0;
            s.at.keep = now + s.settings.keep_idle;
        }
        s.marks_input(self.mem.counters, segment);
        self.acknowledgement(index, now, segment);
        if self.mem.tcp[index].state == TcpState::Free {
            return;
        }
        self.urgent_input(index, segment);
        self.payload_input(index, now, segment, payload);
        self.fin_input(index, now, segment);
    }

    /// PAWS and the sequence check. A segment that fails is answered with an acknowledgement,
    /// unless it is a RST.
    pub(in crate::tcp) fn sequence_is_good(&mut self, index: ConnectionIndex, now: Instant, segment: &Segment) -> bool {
        let s = &mut self.mem.tcp[index];
        let old = s.is_old_duplicate(now, segment) && !segment.has(bit::RST);
        if !old && s.is_acceptable(segment) {
            return true;
        }
        if old {
            self.mem.counters.tcp_paws_drops.inc();
        }
        if segment.has(bit::RST) {
            return false;
        }
        if !old {
            self.mem.counters.tcp_out_of_window.inc();
            if segment.length() > 0 && !segment.has(bit::SYN) && segment.end().le(s.recv.next) {
                self.mem.counters.tcp_dup_data.inc();
                s.recv.duplicate = SackBlock { start: segment.seq, end: segment.end() };
                // As on Linux the last acknowledged segment counts as in the window here (RFC 7323
                // §5.3, R2). Otherwise a sender whose acknowledgement was lost would take its
                // timeout for a round trip. Earlier segments do not count, so that a blind attacker
                // must hit one sequence number.
                if segment.has(bit::ACK) && segment.end().ge(s.ack.last_sent) && s.may_acknowledge(segment) {
                    s.take_timestamp(now, segment);
                }
            }
            // Acknowledgements must be taken even if the window is full (RFC 9293 §3.10.7.4:
            // "special allowance"). Not in SYN-RECEIVED: a segment that acknowledges our SYN opens
            // the connection, and must be acceptable for that.
            if s.state.is_synchronized()
                && segment.has(bit::ACK)
                && segment.ack.gt(s.send.una)
                && segment.ack.le(s.send.nxt)
                && segment.seq.le(s.receive_window.edge)
                && segment.seq.ge(s.recv.next)
            {
                self.acknowledgement(index, now, segment);
            } else if segment.has(bit::ACK) && segment.ack == s.send.una && segment.seq + 1 == s.recv.next {
                s.progress.heard = now; // a keepalive or window probe: the peer is alive
            }
        }
        let s = &mut self.mem.tcp[index];
        if segment.has(bit::SYN) && s.state != TcpState::SynReceived {
            self.challenge(index, now);
        } else if segment.length() > 0 || s.answer_limit.may_answer_outside(now) {
            // Neither data nor FIN is an answer, so there is no loop, and a peer that repeats them
            // waits for our acknowledgement.
            s.disorder();
        }
        false
    }

    /// RFC 5961 §3.2 and §4.2: only a RST at exactly RCV.NXT resets. Any other, and any SYN, is
    /// answered by a challenge ACK that the real peer can respond to.
    fn reset_or_challenge(&mut self, index: ConnectionIndex, now: Instant, segment: &Segment) {
        let s = &self.mem.tcp[index];
        if segment.has(bit::SYN) && !segment.has(bit::RST) || segment.seq != s.recv.next {
            self.challenge(index, now);
            return;
        }
        self.mem.counters.tcp_in_rsts.inc();
        let why = if s.state == TcpState::CloseWait { Pending::Pipe } else { Pending::Reset };
        if matches!(s.state, TcpState::Established | TcpState::CloseWait) {
            self.mem.counters.tcp_estab_resets.inc();
        }
        self.fail(index, why);
    }

    /// Sends a challenge ACK, unless this connection has just sent one (RFC 5961 §7). The limit is
    /// per connection: a shared limit tells an attacker how much of it other connections have used
    /// (CVE-2016-5696).
    pub(in crate::tcp) fn challenge(&mut self, index: ConnectionIndex, now: Instant) {
        if !self.mem.tcp[index].answer_limit.may_challenge(now) {
            self.mem.counters.tcp_challenge_limited.inc();
            return;
        }
        self.mem.counters.tcp_challenge_acks.inc();
        self.send_ack(index, now);
    }

    /// The acknowledgement in a segment: frees acknowledged data, detects losses, moves the
    /// windows.
    pub(in crate::tcp) fn acknowledgement(&mut self, index: ConnectionIndex, now: Instant, segment: &Segment) {
        let s = &mut self.mem.tcp[index];
        let frames = &mut self.mem.frames;
        let counters = self.mem.counters;
        // As it was when the acknowledged data was sent: the sample of a late acknowledgement would
        // raise the timeout that it is compared with.
        let unlearnt = s.rtt.resend_after(&self.mem.core.tcp.config.bounds(s.path.rto_min_ms));
        let una = s.send.una;
        if segment.ack.lt(una) {
            // An old acknowledgement, overtaken by a newer one: its window counts from an outdated
            // left edge (RFC 9293 §3.10.7.4, fifth check).
            return;
        }
        let window_changed = s.send_window.update(segment, s.negotiated.send_shift);
        // A peer that keeps its window shut is alive, and may keep it so (RFC 9293 §3.8.6.1) as
        // long as the program holds the connection.
        s.progress.attempts =
            if !s.orphan && (s.send_window.size == 0 || s.send.outstanding() == 0) { 0 } else { s.progress.attempts };
        let blocks = segment.options.blocks();
        if s.send.outstanding() == 0 && blocks.is_empty() {
            if segment.length() == 0 && !window_changed && s.recovery.probing {
                s.probe_was_needless(now); // both the probe and the original arrived (RFC 8985 §7.4.2)
            }
            if window_changed && s.send_window.size > 0 {
                s.rtt.recovered();
                s.at.waiting = Waiting::Nothing;
                s.progress.stuck_since = Instant::NEVER;
            }
            return;
        }
        let queued = s.send.frames;
        let (mut news, sample) = s.take_feedback(frames, now, segment);
        if s.send.frames < queued {
            s.progress.freed_at = now;
        }
        counters.tcp_sack_recv.add(blocks.len() as u64);
        counters.tcp_sack_discard.add(news.senseless);
        s.count_news(&news, s.negotiated.ecn && segment.has(bit::ECE));
        news.duplicate = news.acked == 0 && segment.length() == 0 && !window_changed && s.send.outstanding() > 0;
        if news.duplicate {
            counters.tcp_dup_acks.inc();
        }
        s.sample_rtt(now, &sample, segment, news.acked > 0);
        if news.acked > 0 {
            (s.progress.attempts, s.progress.excused) = (0, false);
            s.progress.stuck_since = Instant::NEVER;
            s.soft_error = Pending::None;
            s.peer_ack_delay.acknowledged(now, now.since(s.at.timeout_from), unlearnt);
            s.at.timeout_from = now;
            (s.at.waiting, s.at.retransmit) = (Waiting::Nothing, Instant::NEVER);
            if s.small.is_out && s.small.end.le(s.send.una) {
                s.small.is_out = false;
            }
        }
        s.check_spurious(frames, counters, news.resent_at, segment.options.timestamps.map(|t| t.echo));
        news.marked = s.is_marked(segment);
        let wait = s.recover(frames, counters, now, &news);
        s.wait_for_reordering(now, wait);
        self.learn_packet_size(index);
        self.ask_about_timeout(index, now);
        if news.acked > 0 {
            self.after_acknowledgement(index, now);
        }
    }

    /// SND.UNA moved: our FIN may have been acknowledged, and the send buffer may have room again.
    fn after_acknowledgement(&mut self, index: ConnectionIndex, now: Instant) {
        // One connection never takes more than an eighth of all frames, about what `pressure` would
        // grant it.
        let most = self.mem.core.tcp.config.send_buffer_max.min(self.mem.frames.meta.len() as u32 / 8 * 1024);
        let s = &mut self.mem.tcp[index];
        if !s.settings.send_fixed && s.cc.cwnd.saturating_mul(2) > s.settings.send_buffer {
            s.settings.send_buffer = s.cc.cwnd.saturating_mul(2).min(most).max(s.settings.send_buffer);
        }
        s.room.starved = false;
        self.tell_of_room(index);
        let s = &self.mem.tcp[index];
        if s.closing.fin_queued && s.send.una == s.send.end {
            self.fin_acknowledged(index, now);
        }
    }

    /// The data of a segment (RFC 9293 §3.10.7.4, seventh check).
    pub(in crate::tcp) fn payload_input(
        &mut self,
        index: ConnectionIndex,
        now: Instant,
        segment: &Segment,
        payload: &mut Payload,
    ) {
        if segment.len == 0 {
            return;
        }
        let s = &mut self.mem.tcp[index];
        if !s.state.may_receive() {
            return;
        }
        let is_shut = s.closing.read_shut && matches!(s.state, TcpState::FinWait1 | TcpState::FinWait2);
        if s.orphan || is_shut {
            return self.refuse_payload(index, now, segment);
        }
        let before = s.recv.next;
        self.prune_largest(now);
        let first = core::mem::take(&mut payload.first);
        let arrived = first.get().map_or(now, |id| self.mem.frames.meta[id as usize].at);
        let Queued { filled, early } = self.queue_payload(index, segment.seq, first);
        let s = &mut self.mem.tcp[index];
        s.stats.early = s.stats.early.wrapping_add(u32::from(early));
        let news = s.recv.next - before;
        if news == 0 {
            return;
        }
        let merged_of = self.mem.core.merged_of;
        s.data_arrived(&self.mem.core.tcp.config, now, (segment.len, merged_of), segment.has(bit::PSH), filled);
        self.fetch_urgent(index);
        let row = self.row(index);
        row.rx_bytes.add(u64::from(news));
        let id = self.id_of(index);
        self.notify_of_data(id, arrived);
    }

    /// Data that the program will never read: the peer must learn of that (RFC 2525 §2.17). Data
    /// that was read before may be retransmitted together with the FIN, which is no data.
    fn refuse_payload(&mut self, index: ConnectionIndex, now: Instant, segment: &Segment) {
        let s = &self.mem.tcp[index];
        if (segment.seq + segment.len).gt(s.recv.next) {
            let told = if s.orphan { Pending::None } else { Pending::Reset };
            self.mem.counters.tcp_abort_on_data.inc();
            self.send_reset(index, now);
            self.fail(index, told);
        }
    }

    /// Puts the frames of a segment's payload into the receive queue, as far as the window and the
    /// connection's share of the frames allow.
    #[inline]
    fn queue_payload(&mut self, index: ConnectionIndex, mut seq: Seq, first: PoolLink) -> Queued {
        let (mut at, mut queued) = (first, Queued { filled: false, early: false });
        let filled_ring = self.mem.core.filled > self.mem.core.fill.wanted / 2;
        while let Some(id) = at.get() {
            let frames = &mut self.mem.frames;
            let s = &mut self.mem.tcp[index];
            let meta = &mut frames.meta[id as usize];
            at = if meta.flags & flag::MORE != 0 { meta.next } else { PoolLink::NONE };
            let start = seq;
            (meta.flags, meta.seq) = (0, start.0);
            // Data beyond the window is not taken.
            meta.len = u32::from(meta.len).min(s.receive_window.edge.since(seq)) as u16;
            seq += u32::from(meta.len);
            if meta.len == 0 {
                frames.give(id);
                continue;
            }
            let over = s.is_over_share(frames, filled_ring);
            if over || start.gt(s.recv.next) && s.keeps_enough_waiting(frames) {
                // The peer retransmits it. Out-of-order data is dropped first: it may have to wait
                // for long.
                if over {
                    s.recv.prune(frames);
                }
                frames.give(id);
                self.mem.counters.tcp_ofo_drop.inc();
                s.disorder();
                continue;
            }
            match s.recv.insert(frames, id) {
                Placed::InOrder { filled: f } => queued.filled |= f,
                Placed::OutOfOrder => {
                    self.mem.counters.tcp_ofo_queue.inc();
                    queued.early = true;
                    s.disorder();
                }
                Placed::Duplicate => {
                    self.mem.counters.tcp_dup_data.inc();
                    s.disorder();
                }
                Placed::Dropped => {
                    self.mem.counters.tcp_ofo_drop.inc();
                    s.disorder();
                }
            }
        }
        queued
    }
}
