//! Transmission: lost segments first, then new ones, as far as the congestion window, the peer's
//! window and Nagle's algorithm allow; then a bare acknowledgement if one is due.

use super::multi_frame_segment::MultiFrameSegment;
use super::queue::{IN_FLIGHT, length};
use crate::checksum::Sum;
use crate::demux::TCP;
use crate::frame::{FrameId, Frames, flag};
use crate::ip::IpSend;
use crate::ip::output::Message;
use crate::path::Query;
use crate::pool::PoolLink;
use crate::queue::Class;
use crate::tcp::connection::socket::{Socket, TcpState};
use crate::tcp::loss_recovery::frto::Frto;
use crate::tcp::loss_recovery::recovery::Phase;
use crate::tcp::wire::header::{HEADER_LEN, Segment, bit};
use crate::tcp::wire::options::{MAX_OPTIONS, Options, Timestamps};
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{ConnectionIndex, Stack};
use zerocopy::FromZeros;

/// What may hold back an incomplete segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Hold {
    /// Nagle's algorithm and the cork, as the program set them.
    AsSet,
    /// The program will write more at once (`MSG_MORE`).
    More,
    /// Neither of them: the program requests that the queue is flushed.
    Flush,
    /// Nothing: it has waited long enough for the timer.
    Nothing,
}

/// With more bytes in flight than this a connection is a stream, until all of them are
/// acknowledged.
const STREAM: u32 = 16 * 1024;

/// Up to this many segments at a time are sent one by one. With 20 KB sent that way a peer
/// processed each segment separately, during the write: 140 us instead of 70 us as a train.
const MOST_PROMPT: u32 = 2;

/// The segment that was sent last, if it was shorter than a full one and is not acknowledged
/// (Minshall's variant of Nagle's algorithm).
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct SmallSegment {
    /// The sequence number after it.
    pub(in crate::tcp) end: Seq,
    /// Whether there is one.
    pub(in crate::tcp) is_out: bool,
}

shared_layout! { SmallSegment { end, is_out } }

impl Socket {
    /// Chooses the queue for a segment that takes `length` sequence numbers. Later segments must
    /// not overtake it. So a connection moves from the prompt queue to the stream queue, which is
    /// behind, and does not move back before none of its segments can be in there. (SND.NXT already
    /// includes a new segment.)
    ///
    /// Several segments that are sent at once form a stream from the first one on: they leave as
    /// one train.
    fn classify(&mut self, length: u32) {
        let under_way = self.send.nxt.since(self.send.una);
        let at_once = length + self.burst();
        if under_way > STREAM || at_once > MOST_PROMPT * u32::from(self.mss) {
            self.class = Class::Stream;
        } else if under_way <= length {
            self.class = Class::Prompt;
        }
    }

    /// How many more queued bytes both windows allow to be sent now.
    fn burst(&self) -> u32 {
        let queued = self.send.end.since(self.send.nxt);
        let room = self.send_window.size.min(self.cc.cwnd).saturating_sub(self.send.nxt.since(self.send.una));
        queued.min(room)
    }

    /// The key of its path.
    pub(in crate::tcp) fn query(&self) -> Query {
        self.settings.query(self.local, self.remote)
    }

    /// The IP parameters of this connection's packets.
    pub(in crate::tcp) fn ip_send(&self) -> IpSend {
        IpSend {
            path: self.path.index,
            on_guess: self.state == TcpState::SynReceived,
            query: self.query(),
            source: self.local.address,
            protocol: TCP,
            ttl: self.settings.hops(),
            tos: self.settings.tos,
            dont_fragment: self.settings.dont_fragment,
            class: self.class,
        }
    }

    /// The header of a segment at SND.NXT without payload, with an acknowledgement of all but the
    /// last `withheld` bytes, and the options that every segment carries.
    pub(in crate::tcp) fn header(&mut self, frames: &Frames<'_>, now: Instant, withheld: u16) -> Segment {
        let timestamps =
            self.negotiated.timestamps.then(|| Timestamps { value: self.timestamp(now), echo: self.timestamps.recent });
        let ack = self.recv.next - u32::from(withheld);
        Segment {
            source_port: self.local.port,
            destination_port: self.remote.port,
            seq: self.send.nxt,
            ack,
            bits: bit::ACK | self.marks.bits(),
            window: self.offer_window(frames, ack),
            urgent: 0,
            options: Options { timestamps, ..Options::default() },
            len: 0,
            codepoint: 0,
        }
    }

    /// Adds as many SACK blocks as fit into `room` bytes of options.
    pub(in crate::tcp) fn add_blocks(&self, frames: &Frames<'_>, options: &mut Options, room: usize) {
        let some = self.recv.has_gap() || self.recv.has_duplicate();
        if !self.negotiated.sack || !some {
            return;
        }
        let left = room.min(MAX_OPTIONS).saturating_sub(options.emitted_len());
        let most = left.saturating_sub(4) / 8;
        self.recv.blocks(frames, most, |block| options.add_block(block));
    }

    /// The lost segment that begins with the frame `id`, as it is retransmitted now: up to `most`
    /// bytes, and never more than the peer has `room` for.
    pub(in crate::tcp) fn cut_lost(
        &mut self,
        frames: &mut Frames<'_>,
        now: Instant,
        id: FrameId,
        most: usize,
        room: usize,
    ) -> Option<MultiFrameSegment> {
        let (mss, head) = (usize::from(self.mss), self.send.head.get() == Some(id));
        let size = self.segment_size(frames, now, id, head);
        if size < mss && MultiFrameSegment::from(frames, id, mss).total as usize > size {
            self.try_smaller(Seq(frames.meta[id as usize].seq));
        }
        // A larger probe packet is sent whole, a little beyond the congestion window if need be:
        // small segments would fill that forever.
        let most = if size > mss && size <= room { size } else { most.min(mss) };
        self.send.cut_run(frames, id, size.min(most))
    }

    /// After transmission: records whether the congestion window was the limit.
    fn note_limit(&mut self) {
        if self.in_flight() + u32::from(self.mss) > self.cc.cwnd {
            self.recovery.limited_to = self.send.nxt;
        }
    }

    /// The next segment to send, if any may be sent now.
    fn choose(&mut self, frames: &mut Frames<'_>, now: Instant, hold: Hold) -> Option<MultiFrameSegment> {
        if !self.state.may_transmit() {
            return None;
        }
        let mss = usize::from(self.mss);
        let edge = self.send.una + self.send_window.size;
        if let Some(id) = self.send.first_lost(frames) {
            if self.recovery.frto == Frto::Waiting && self.in_flight() > 0 {
                return None; // F-RTO: only the first, until it is known whether the others are lost
            }
            let id = self.send.released(frames, id, now)?;
            let meta = &frames.meta[id as usize];
            let bytes = (length(meta) as usize).min(mss); // it may have been queued when segments were longer
            let is_first = self.send.head.get() == Some(id);
            let room = edge.since(Seq(meta.seq)) as usize;
            let window = self.cc.cwnd.saturating_sub(self.in_flight()) as usize;
            let fits = self.in_flight() == 0 || bytes <= window;
            if !fits || !is_first && bytes > room {
                return None;
            }
            // One frame is sent in any case; those behind it as far as both windows reach.
            let more = window.min(room).max(bytes);
            return self.cut_lost(frames, now, id, more, room);
        }
        let id = self.send.next.get()?;
        let meta = &frames.meta[id as usize];
        if meta.flags & IN_FLIGHT != 0 {
            return None;
        }
        let mut most = self.segment_size(frames, now, id, false);
        let run = MultiFrameSegment::from(frames, id, most);
        let len = run.total as usize;
        let room = edge.since(self.send.nxt) as usize;
        if len > room {
            // Silly window avoidance on our side (RFC 9293 §3.8.6.2.1).
            let worth = room >= self.send_window.largest as usize / 2 || hold == Hold::Nothing;
            if room == 0 || !worth {
                return None;
            }
            most = most.min(room);
        } else if len == 0 && room == 0 && self.send.outstanding() > 0 {
            return None; // a bare FIN waits for the window as data does
        }
        let bytes = run.length.min(most as u32);
        // The congestion window limits data (RFC 5681 §2): a bare FIN is sent, as by other stacks.
        // It ends the peer's wait a round trip sooner.
        if len > 0 && self.in_flight() > 0 && self.in_flight() + bytes > self.cc.cwnd {
            return None;
        }
        if len < mss && run.is_tail && run.flags & flag::FIN == 0 && !matches!(hold, Hold::Flush | Hold::Nothing) {
            let small_under_way = self.small.is_out && self.small.end.gt(self.send.una);
            if hold == Hold::More || self.settings.cork || !self.settings.nodelay && small_under_way {
                return None;
            }
        }
        self.send.cut_run(frames, id, most)
    }
}

impl Stack<'_> {
    /// Sends what may be sent, acknowledges what is due, and sets the timers.
    pub(in crate::tcp) fn tcp_output(&mut self, index: ConnectionIndex, now: Instant, hold: Hold) {
        if self.mem.tcp[index].suspended {
            return;
        }
        self.append_pending_fin(index, now);
        self.follow_path(index, now);
        let mut sent = false;
        while let Some(run) = {
            let s = &mut self.mem.tcp[index];
            s.choose(&mut self.mem.frames, now, hold)
        } {
            if !sent {
                self.restart_after_idle(index, now);
                sent = true;
            }
            self.send_segment(index, now, &run);
        }
        if sent {
            self.mem.tcp[index].note_limit();
        }
        self.acknowledge(index, now);
        self.schedule(index, now, sent);
        if sent && self.mem.tcp[index].settings.notsent_lowat != 0 {
            self.tell_of_room(index);
        }
    }

    /// FIN waits for a frame if none was free when the program shut its side.
    fn append_pending_fin(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        if s.closing.write_shut && !s.closing.fin_queued && s.state.may_transmit() {
            if s.send.frames == 0 {
                s.progress.freed_at = now;
            }
            s.closing.fin_queued = s.send.append_fin(&mut self.mem.frames);
        }
    }

    /// RFC 5681 §4.1: a window that was not used for longer than a timeout is outdated. That
    /// timeout is at least a second. Ours is far shorter, and a pause of milliseconds does not
    /// matter on a LAN.
    fn restart_after_idle(&mut self, index: ConnectionIndex, now: Instant) {
        let bounds = self.mem.core.tcp.config.bounds(self.mem.tcp[index].path.rto_min_ms);
        let first = self.route_of(index).initcwnd;
        let s = &mut self.mem.tcp[index];
        if s.send.outstanding() > 0 {
            return;
        }
        if now.since(s.progress.sent) > s.rtt.base(&bounds).max(bounds.initial) {
            s.cc.on_idle(first, u32::from(s.mss));
        } else {
            s.cc.on_start(now);
        }
    }

    /// Sends a segment: the first unsent one, a retransmission, or a probe.
    pub(in crate::tcp) fn send_segment(&mut self, index: ConnectionIndex, now: Instant, run: &MultiFrameSegment) {
        let frames = &mut self.mem.frames;
        let s = &mut self.mem.tcp[index];
        let mut header = s.header(frames, now, 0);
        let is_new = s.send.next.get() == Some(run.first);
        header.seq = Seq(frames.meta[run.first as usize].seq);
        header.len = run.total;
        if run.flags & flag::FIN != 0 {
            header.bits |= bit::FIN;
        }
        if run.total > 0 && (run.flags & flag::PUSH != 0 || run.is_tail) {
            header.bits |= bit::PSH;
        }
        s.urgent_pointer(&mut header);
        // Options other than timestamps only where the segment leaves room for them.
        let spare = (usize::from(s.mss) + header.options.emitted_len()).saturating_sub(run.total as usize);
        s.add_blocks(frames, &mut header.options, spare);
        s.note_size(now, header.seq, run, !is_new);
        let was_small = run.total < u32::from(s.mss);
        let mut at = PoolLink::to(run.first);
        for piece in 0..=run.rest {
            if let Some(id) = at.get() {
                at = frames.meta[id as usize].next;
                s.send.sent(frames, id, now);
                if piece > 0 {
                    frames.meta[id as usize].flags |= flag::PIECE;
                }
            }
        }
        s.stats.segments_out = s.stats.segments_out.wrapping_add(u32::from(run.total > 0));
        if is_new {
            if run.total > 0 {
                let (codepoint, bits) = s.marks.new_data(s.negotiated.ecn);
                (header.codepoint, header.bits) = (codepoint, header.bits | bits);
            }
            if was_small {
                s.small = SmallSegment { end: s.send.nxt, is_out: true };
            }
        } else {
            s.progress.retransmits = s.progress.retransmits.saturating_add(1);
            s.stats.bytes_resent = s.stats.bytes_resent.wrapping_add(u64::from(run.total));
            s.recovery.undo.sent_again(header.seq, header.seq + run.length);
            self.mem.counters.tcp_retrans_segs.inc();
            if s.recovery.phase == Phase::Recovery {
                self.mem.counters.tcp_fast_retrans.inc();
            }
        }
        if matches!(s.recovery.phase, Phase::Recovery | Phase::Reduction) {
            s.prr.sent(run.length);
            if !is_new && s.send.head.get() == Some(run.first) {
                s.begin_timeout(now); // its acknowledgement takes a round trip, and little of the timeout may be left
            }
        }
        s.recovery.most_in_flight = s.recovery.most_in_flight.max(s.send.pipe);
        s.progress.sent = now;
        s.acknowledged(now, run.total > 0, 0, &header.options, &self.mem.core.tcp.config);
        let row = self.row(index);
        row.tx_bytes.add(u64::from(run.total));
        self.emit(index, now, &header, run);
    }

    /// Sends a segment without payload: `adjust` modifies a plain acknowledgement.
    pub(in crate::tcp) fn send_bare(
        &mut self,
        index: ConnectionIndex,
        now: Instant,
        adjust: impl FnOnce(&mut Segment),
    ) {
        self.send_bare_of(index, now, 0, adjust);
    }

    /// The same, with an acknowledgement of all but the last `withheld` bytes.
    fn send_bare_of(&mut self, index: ConnectionIndex, now: Instant, withheld: u16, adjust: impl FnOnce(&mut Segment)) {
        let Some(id) = self.control_frame() else { return };
        let frames = &self.mem.frames;
        let s = &mut self.mem.tcp[index];
        let mut header = s.header(frames, now, withheld);
        adjust(&mut header);
        if header.has(bit::ACK) && header.bits & (bit::SYN | bit::RST) == 0 {
            s.add_blocks(frames, &mut header.options, MAX_OPTIONS);
            s.acknowledged(now, false, withheld, &header.options, &self.mem.core.tcp.config);
        }
        self.emit(index, now, &header, &MultiFrameSegment::bare(id));
    }

    /// Acknowledges all received data.
    pub(in crate::tcp) fn send_ack(&mut self, index: ConnectionIndex, now: Instant) {
        self.send_ack_of(index, now, 0);
    }

    /// Acknowledges all received data but the last `withheld` bytes.
    pub(in crate::tcp) fn send_ack_of(&mut self, index: ConnectionIndex, now: Instant, withheld: u16) {
        if self.mem.tcp[index].suspended {
            return;
        }
        self.send_bare_of(index, now, withheld, |_| {});
    }

    /// Sends RST for this connection (RFC 9293 §3.5.2).
    pub(in crate::tcp) fn send_reset(&mut self, index: ConnectionIndex, now: Instant) {
        self.mem.counters.tcp_out_rsts.inc();
        let synchronized = self.mem.tcp[index].state != TcpState::SynSent;
        self.send_bare(index, now, |header| {
            header.bits = if synchronized { bit::RST | bit::ACK } else { bit::RST };
        });
    }

    /// Writes the header in front of the payload and passes the packet to IP.
    fn emit(&mut self, index: ConnectionIndex, now: Instant, header: &Segment, run: &MultiFrameSegment) {
        self.mem.tcp[index].classify(run.length);
        let mut send = self.mem.tcp[index].ip_send();
        send.tos |= header.codepoint;
        send.dont_fragment &= !self.path_of(index).is_some_and(|path| path.is_narrow(now));
        let row = self.row(index);
        row.tx_packets.inc();
        self.emit_to(now, &send, header, run);
    }

    /// Writes `header` with its checksum in front of the payload, and passes the packet to IP.
    pub(in crate::tcp) fn emit_to(&mut self, now: Instant, send: &IpSend, header: &Segment, run: &MultiFrameSegment) {
        let message = self.write_segment(send, header, run);
        // A packet that cannot be sent counts as lost: the timers repair it, and path errors are
        // reported by ICMP or timeout.
        let _ = self.ip_output(now, send, message);
    }

    /// Writes the header and the checksum; returns the message.
    pub(in crate::tcp) fn write_segment(
        &mut self,
        send: &IpSend,
        header: &Segment,
        run: &MultiFrameSegment,
    ) -> Message {
        let &MultiFrameSegment { first, rest, offset, len, .. } = run;
        let header_len = header.header_len();
        debug_assert!((HEADER_LEN..=60).contains(&header_len) && header_len <= usize::from(offset));
        let start = usize::from(offset) - header_len;
        let total = header_len as u32 + run.total;
        let frames = &mut self.mem.frames;
        let message = &mut frames.bytes_mut(first)[start..usize::from(offset + len)];
        header.emit(&mut message[..header_len]);
        let mut sum = Sum::ZERO.pseudo(send.source, send.query.destination, TCP, total).bytes(message);
        let (mut odd, mut at) = (message.len() & 1 == 1, first);
        for _ in 0..rest {
            if let Some(next) = frames.meta[at as usize].next.get() {
                let bytes = frames.data(next);
                sum = sum.bytes_at(odd, bytes);
                odd ^= bytes.len() & 1 == 1;
                at = next;
            }
        }
        frames.bytes_mut(first)[start + 16..][..2].copy_from_slice(&sum.checksum().to_be_bytes());
        self.mem.counters.tcp_out_segs.inc();
        let len = header_len as u16 + len;
        Message { frame: first, offset: start as u16, len, rest, total: total as u16 }
    }
}
