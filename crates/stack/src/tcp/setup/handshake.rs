//! Connection setup: SYN-SENT and SYN-RECEIVED (RFC 9293 §3.5, §3.10.7.3, §3.10.7.4), including
//! simultaneous open.

use super::negotiated::Negotiated;
use crate::addr::Endpoint;
use crate::error::{Result, StackError};
use crate::ids::Ready;
use crate::path::{Metrics, PathState};
use crate::pool::SlotLink;
use crate::tcp::congestion::Congestion;
use crate::tcp::connection::config::TcpConfig;
use crate::tcp::connection::socket::{Pending, Socket, TcpState, Waiting};
use crate::tcp::loss_recovery::rack::Rack;
use crate::tcp::path_mtu::pmtu::LEAST_MTU;
use crate::tcp::program::settings::{MIN_MSS, Settings};
use crate::tcp::receive::ack::QUICK;
use crate::tcp::receive::input::Payload;
use crate::tcp::receive::queue::ReceiveQueue;
use crate::tcp::send::multi_frame_segment;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::wire::header::{Segment, bit};
use crate::tcp::wire::options::{Options, TIMESTAMPS_LEN, Timestamps};
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{ConnectionIndex, ListenerIndex, Stack};
use zerocopy::FromZeros;

impl Socket {
    /// Takes the peer's SYN.
    fn take_syn(&mut self, now: Instant, config: &TcpConfig, segment: &Segment, route: &Metrics) {
        let (family, ecn) = (self.remote.address.family(), self.marks.is_agreed(config.ecn, segment, self.passive));
        self.negotiated = Negotiated::with(&segment.options, family, config.window_shift, ecn);
        if let Some(times) = segment.options.timestamps {
            (self.timestamps.recent, self.timestamps.recent_at) = (times.value, now);
        }
        self.irs = segment.seq;
        self.recv = ReceiveQueue::new(segment.seq + 1);
        self.ack.last_sent = segment.seq + 1;
        self.receive_window.edge = self.recv.next + self.syn_window(route); // what our SYN offered, or will offer
        self.send_window.take(segment, 0); // never scaled in a SYN (RFC 7323 §2.2)
    }

    /// The segment size that fits a path of `mtu` bytes, the peer's MSS, and the program's limit.
    pub(in crate::tcp) fn fitting_mss(&self, mtu: u32) -> u16 {
        let options = if self.negotiated.timestamps { TIMESTAMPS_LEN as u32 } else { 0 };
        let path = mtu.saturating_sub(self.header_len());
        let user = if self.settings.max_segment == 0 { u32::MAX } else { u32::from(self.settings.max_segment) };
        let largest = path.min(u32::from(self.negotiated.peer_mss)).min(user).saturating_sub(options);
        multi_frame_segment::whole_parts(largest.max(32) as usize) as u16
    }
}

/// The MSS that we announce to the peer: the route's advmss, or what fits into a packet; at most
/// what the program has set. The length of the options is not known yet; the peer subtracts it by
/// itself (RFC 6691).
pub(in crate::tcp) fn announced_mss(mtu: u32, header_len: u32, route: &Metrics, settings: &Settings) -> u16 {
    let path = match route.advmss {
        0 => mtu.saturating_sub(header_len).min(u32::from(u16::MAX)) as u16,
        advmss => advmss,
    };
    match settings.max_segment {
        0 => path,
        most => path.min(most),
    }
}

impl Stack<'_> {
    /// Allocates a new connection and enters it into the demultiplexer. Evicts the oldest TIME-WAIT
    /// connection if there is no free slot.
    pub(in crate::tcp) fn new_connection(
        &mut self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        path: u32,
        settings: &Settings,
    ) -> Result<ConnectionIndex> {
        let index = match self.open() {
            Err(StackError::NoBuffers) if self.evict_time_wait() => self.open()?,
            other => other?,
        };
        let (iss, ts_offset) = self.initial_sequence(now, local, remote);
        let mtu = self.path_mtu(path, now);
        let metrics = self.path_metrics(path);
        let s = &mut self.mem.tcp[index];
        *s = Socket::new_zeroed();
        (s.local, s.remote, s.path.index, s.settings) = (local, remote, path, *settings);
        s.follow_route(&metrics);
        (s.iss, s.timestamps.offset) = (iss, ts_offset);
        s.send = SendQueue::new(iss);
        (s.progress.heard, s.progress.sent) = (now, now);
        s.negotiated = Negotiated::nothing();
        s.receive_mss = announced_mss(mtu, s.header_len(), &metrics, settings);
        s.offered_mss = s.receive_mss;
        // Nothing may be sent or counted before `establish` sets the real size, but divisions by
        // these values never meet a zero.
        s.mss = MIN_MSS;
        s.cc = Congestion::new(settings.algorithm, u32::from(MIN_MSS));
        s.state = TcpState::Closed;
        if let Err(error) = self.demux_connect(index, local, remote) {
            self.mem.tcp[index].state = TcpState::Free;
            self.release(index);
            return Err(error);
        }
        let row = self.row(index);
        row.local.set(local);
        row.remote.set(remote);
        Ok(index)
    }

    /// The metrics of a path's route.
    pub(in crate::tcp) fn path_metrics(&self, path: u32) -> Metrics {
        self.mem.paths.get(path as usize).map_or_else(Metrics::default, |path| path.info.metrics)
    }

    /// The largest packet of a path.
    pub(in crate::tcp) fn path_mtu(&self, path: u32, now: Instant) -> u32 {
        self.mem.paths.get(path as usize).map_or(self.mem.core.default_mtu, |p| p.mtu(now)).max(LEAST_MTU)
    }

    /// Sends SYN or SYN-ACK, for the first time or on timeout, and sets the timer.
    pub(in crate::tcp) fn send_syn(&mut self, index: ConnectionIndex, now: Instant) {
        let bounds = self.mem.core.tcp.config.bounds(self.mem.tcp[index].path.rto_min_ms);
        let s = &mut self.mem.tcp[index];
        (s.at.waiting, s.at.retransmit) = (Waiting::Timeout, now + s.rtt.rto(&bounds));
        self.write_syn(index, now);
        self.set_timer(index);
        self.update_row(index);
    }

    /// Repeats our SYN or SYN-ACK: the peer has repeated its SYN, or has now discarded an old
    /// connection that kept it from answering. This is rate-limited, and the timer is not reset. A
    /// peer that repeats a SYN forever must not keep a half-open connection, or reflect one answer
    /// for each SYN to a third party.
    fn repeat_syn(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        if s.answer_limit.may_challenge(now) {
            s.progress.retransmits += 1;
            self.mem.counters.tcp_retrans_segs.inc();
            self.write_syn(index, now);
        }
    }

    fn write_syn(&mut self, index: ConnectionIndex, now: Instant) {
        let route = self.route_of(index);
        let s = &mut self.mem.tcp[index];
        let answers = s.state == TcpState::SynReceived;
        let timestamps = Timestamps { value: s.timestamp(now), echo: if answers { s.timestamps.recent } else { 0 } };
        let config = &self.mem.core.tcp.config;
        let negotiated = if answers { s.negotiated } else { Negotiated::offer(config.window_shift) };
        let options = negotiated.options(s.receive_mss, timestamps);
        s.send.nxt = s.iss + 1;
        s.send.end = s.iss + 1;
        let (iss, ack) = (s.iss, s.recv.next);
        let window = s.offer_syn_window(&route);
        let marks = if answers { negotiated.ecn_answer() } else { s.marks.ask(config.ecn, s.progress.attempts > 0) };
        s.progress.sent = now;
        self.send_bare(index, now, |header| {
            header.seq = iss;
            header.bits = marks | if answers { bit::SYN | bit::ACK } else { bit::SYN };
            header.ack = if answers { ack } else { Seq(0) };
            header.window = window;
            header.options = options;
        });
    }

    /// SYN or SYN-ACK has not been answered in time.
    pub(in crate::tcp) fn handshake_timeout(&mut self, index: ConnectionIndex, now: Instant) {
        let config = &self.mem.core.tcp.config;
        let s = &mut self.mem.tcp[index];
        let retries = if s.passive { config.synack_retries } else { config.syn_retries };
        let limit = s.settings.user_timeout;
        if s.progress.stuck_since.is_never() {
            s.progress.stuck_since = s.progress.heard;
        }
        let late = !limit.is_zero() && now.since(s.progress.stuck_since) >= limit;
        if s.progress.attempts >= retries || late {
            self.mem.counters.tcp_attempt_fails.inc();
            self.time_out(index, now);
            return;
        }
        s.progress.attempts += 1;
        s.rtt.back_off();
        s.progress.retransmits += 1;
        self.mem.counters.tcp_retrans_segs.inc();
        self.send_syn(index, now);
    }

    /// A segment in SYN-SENT (RFC 9293 §3.10.7.3).
    #[inline(never)]
    pub(in crate::tcp) fn syn_sent_input(
        &mut self,
        index: ConnectionIndex,
        now: Instant,
        segment: &Segment,
        payload: &mut Payload,
    ) {
        let s = &mut self.mem.tcp[index];
        let acknowledges = segment.has(bit::ACK);
        if acknowledges && (segment.ack.le(s.iss) || segment.ack.gt(s.send.nxt)) {
            if !segment.has(bit::RST) {
                self.reset_acknowledgement(index, now, segment.ack);
                // The peer had an old connection between these endpoints, most likely in TIME-WAIT.
                // It is gone now, and our SYN is welcome. As on Linux it is repeated at once: its
                // timer, which is not reset, would delay each reuse of a port by a second.
                if self.mem.tcp[index].progress.retransmits == 0 {
                    self.repeat_syn(index, now);
                }
            }
            return;
        }
        if segment.has(bit::RST) {
            if acknowledges {
                self.mem.counters.tcp_in_rsts.inc();
                self.mem.counters.tcp_attempt_fails.inc();
                self.fail(index, Pending::Refused);
            }
            return;
        }
        if !segment.has(bit::SYN) {
            return;
        }
        let route = self.route_of(index);
        let s = &mut self.mem.tcp[index];
        s.progress.heard = now;
        s.take_syn(now, &self.mem.core.tcp.config, segment, &route);
        if acknowledges {
            self.establish(index, now, segment);
            self.mem.tcp[index].ack.now = true;
            // Data or FIN on a SYN-ACK would be retransmitted if ignored; take them now.
            let rest = Segment { seq: segment.seq + 1, bits: segment.bits & !bit::SYN, ..*segment };
            self.payload_input(index, now, &rest, payload);
            self.fin_input(index, now, &rest);
        } else {
            // Simultaneous open (RFC 9293 §3.5, figure 7).
            s.state = TcpState::SynReceived;
            s.rtt.recovered();
            self.send_syn(index, now);
        }
    }

    /// A segment in SYN-RECEIVED (RFC 9293 §3.10.7.4).
    #[inline(never)]
    pub(in crate::tcp) fn syn_received_input(
        &mut self,
        index: ConnectionIndex,
        now: Instant,
        segment: &Segment,
        payload: &mut Payload,
    ) {
        let s = &mut self.mem.tcp[index];
        let mut segment = *segment;
        if segment.has(bit::SYN) && !segment.has(bit::RST) && segment.seq == s.irs {
            if !segment.has(bit::ACK) {
                self.repeat_syn(index, now); // our SYN-ACK was lost
                return;
            }
            // The other half of a simultaneous open: the SYN is known, only the acknowledgement is
            // new.
            segment.bits &= !(bit::SYN | bit::ECE | bit::CWR);
            segment.seq += 1;
        }
        if !self.sequence_is_good(index, now, &segment) {
            if core::mem::take(&mut self.mem.tcp[index].ack.now) {
                self.send_ack(index, now);
            }
            return;
        }
        let s = &mut self.mem.tcp[index];
        if segment.has(bit::RST) {
            if segment.seq == s.recv.next {
                self.mem.counters.tcp_in_rsts.inc();
                self.mem.counters.tcp_attempt_fails.inc();
                self.fail(index, Pending::Refused);
            } else {
                self.challenge(index, now);
            }
            return;
        }
        if segment.has(bit::SYN) {
            self.challenge(index, now);
            return;
        }
        if !segment.has(bit::ACK) {
            return;
        }
        if segment.ack != s.send.nxt {
            self.reset_acknowledgement(index, now, segment.ack);
            return;
        }
        if s.passive && !(self.has_accept_room(index) && self.confirm_path(index, now)) {
            return; // as on Linux: the peer regards it as open; its data, or our repeated SYN-ACK, retries
        }
        self.establish(index, now, &segment);
        let s = &mut self.mem.tcp[index];
        s.send_window.take(&segment, s.negotiated.send_shift);
        if s.closing.write_shut {
            self.shut_sending(index, now); // the program has shut it during the handshake
        }
        self.established_input(index, now, &segment, payload);
    }

    /// Answers an acknowledgement of data that was never sent with RST; the connection itself stays
    /// (RFC 9293 §3.10.7.3, §3.10.7.4).
    fn reset_acknowledgement(&mut self, index: ConnectionIndex, now: Instant, ack: Seq) {
        self.mem.counters.tcp_out_rsts.inc();
        self.send_bare(index, now, |header| {
            *header =
                Segment { seq: ack, ack: Seq(0), bits: bit::RST, window: 0, options: Options::default(), ..*header };
        });
    }

    /// Requests the path to a peer that has proven its address from the host; until now it was
    /// inferred from a packet. False if that is not possible at present.
    fn confirm_path(&mut self, index: ConnectionIndex, now: Instant) -> bool {
        let query = self.mem.tcp[index].query();
        match self.path_again(&query, now) {
            Ok(path) => {
                self.mem.tcp[index].path.index = path;
                true
            }
            Err(_) => false,
        }
    }

    /// Both SYNs have been acknowledged, ours by `segment`.
    pub(in crate::tcp) fn establish(&mut self, index: ConnectionIndex, now: Instant, segment: &Segment) {
        let path = self.mem.tcp[index].path.index;
        let mtu = self.path_mtu(path, now);
        let known = self.path_of(index).is_some_and(|path| path.inferred == 0 && path.info.state == PathState::Ready);
        let initial = self.mem.core.tcp.config.initial_rto;
        let route = self.route_of(index);
        let s = &mut self.mem.tcp[index];
        s.path.stranger_since = if s.passive && !known { now } else { Instant::NEVER };
        s.rtt.recovered();
        // It is not known which of several SYNs was acknowledged (RFC 6298 §3). An echoed timestamp
        // gives an upper bound of the round trip, but the peer may have delayed its answer.
        if s.progress.retransmits == 0 && s.progress.sent != now {
            s.rtt.sample(now, now.since(s.progress.sent));
        } else if s.progress.retransmits > 0
            && let Some(times) = segment.options.timestamps.filter(|_| s.negotiated.timestamps)
        {
            s.take_echo(now, times.echo, initial);
        }
        s.rtt.careful(s.progress.attempts > 0);
        s.send = SendQueue::new(s.iss + 1);
        s.rack = Rack::new(s.iss + 1);
        s.recovery.round = s.iss + 1;
        s.recovery.limited_to = s.iss + 1;
        (s.path.mtu, s.mss) = (mtu, s.fitting_mss(mtu));
        s.cc = Congestion::new(s.settings.algorithm, u32::from(s.mss));
        s.cc.begin_with(route.initcwnd, u32::from(s.mss));
        if s.progress.attempts > 1 {
            s.cc.cwnd = u32::from(s.mss); // RFC 5681 §3.1: a lost SYN means a window of one segment
        }
        s.receive_mss = s.receive_mss.min(s.mss.max(536));
        (s.progress.attempts, s.progress.stuck_since) = (0, Instant::NEVER);
        s.at = Default::default();
        s.ack.quick = QUICK;
        s.state = TcpState::Established;
        if s.settings.keepalive && !s.orphan {
            s.at.keep = now + s.settings.keep_idle;
        }
        let counters = self.mem.counters;
        counters.tcp_curr_estab.inc();
        if s.passive {
            counters.tcp_passive_opens.inc();
            self.enqueue_accepted(index);
        } else {
            let id = self.id_of(index);
            self.notify(id, Ready::OUT);
        }
    }

    /// Makes a connection out of a SYN that a listener received.
    pub(in crate::tcp) fn answer_syn(
        &mut self,
        index: ConnectionIndex,
        listener: ListenerIndex,
        now: Instant,
        segment: &Segment,
    ) {
        let route = self.route_of(index);
        let s = &mut self.mem.tcp[index];
        s.passive = true;
        s.listener = SlotLink::to(listener);
        s.state = TcpState::SynReceived;
        s.take_syn(now, &self.mem.core.tcp.config, segment, &route);
        self.send_syn(index, now);
    }
}
