//! Received segments: validation, lookup, and delivery to a connection or a listener, or a RST.

use crate::addr::{Address, Endpoint};
use crate::demux::TCP;
use crate::frame::{FrameId, flag};
use crate::ip::Packet;
use crate::pool::PoolLink;
use crate::queue::Class;
use crate::tcp::congestion::ecn;
use crate::tcp::connection::socket::TcpState;
use crate::tcp::program::settings::Settings;
use crate::tcp::send::multi_frame_segment::MultiFrameSegment;
use crate::tcp::send::output::Hold;
use crate::tcp::wire::header::{Segment, bit};
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{ConnectionIndex, SocketIndex, Stack};

/// The payload of a segment: a chain of frames whose notes delimit it. Its holder frees it.
#[derive(Debug)]
pub(in crate::tcp) struct Payload {
    pub(in crate::tcp) first: PoolLink,
}

/// A segment that belongs to no connection, and its addresses.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Stray<'p> {
    pub(in crate::tcp) packet: &'p Packet,
    pub(in crate::tcp) segment: &'p Segment,
    pub(in crate::tcp) local: Endpoint,
    pub(in crate::tcp) remote: Endpoint,
    /// It ended a connection in TIME-WAIT between the same endpoints; this is its SND.NXT.
    pub(in crate::tcp) predecessor: Option<Seq>,
}

impl Stack<'_> {
    /// Takes a received segment.
    pub(crate) fn tcp_input(&mut self, now: Instant, packet: &Packet) {
        self.mem.counters.tcp_in_segs.inc();
        let frames = &mut self.mem.frames;
        let Some((mut segment, header_len)) = Segment::parse(packet.bytes(frames), packet.total as usize) else {
            self.mem.counters.tcp_in_errs.inc();
            self.free_chain(packet.frame);
            return;
        };
        if !packet.checksum_is_good(frames) {
            self.mem.counters.tcp_in_csum_errors.inc();
            self.mem.counters.tcp_in_errs.inc();
            self.free_chain(packet.frame);
            return;
        }
        segment.codepoint = packet.tos & ecn::FIELD;
        let meta = &mut frames.meta[packet.frame as usize];
        meta.offset = packet.offset + header_len as u16;
        meta.len = packet.len - header_len as u16;
        let mut payload = Payload { first: PoolLink::to(packet.frame) };
        self.route(now, packet, &segment, &mut payload);
        if let Some(first) = payload.first.get() {
            self.free_chain(first);
        }
    }

    fn route(&mut self, now: Instant, packet: &Packet, segment: &Segment, payload: &mut Payload) {
        if packet.destination.is_multicast() || packet.source.is_multicast() || packet.source.is_unspecified() {
            self.mem.counters.tcp_in_errs.inc(); // RFC 9293 §3.9.2.3
            return;
        }
        let local = Endpoint::new(packet.destination, segment.destination_port);
        let remote = Endpoint::new(packet.source, segment.source_port);
        let mut predecessor = None;
        if let Some(SocketIndex::Tcp(index)) = self.find_connected(TCP, local, remote) {
            if self.is_of_another_link(index) {
                self.mem.counters.tcp_no_socket.inc();
                return;
            }
            predecessor = self.tcp_segment(index, now, segment, payload);
            if predecessor.is_none() {
                return;
            }
        }
        let stray = Stray { packet, segment, local, remote, predecessor };
        match self.find_listener(local, remote) {
            Some(listener) => self.listener_input(listener, now, &stray, payload),
            None => {
                self.mem.counters.tcp_no_socket.inc();
                self.refuse(now, &stray);
            }
        }
    }

    /// Whether a segment arrived by another interface than the one to which the connection is
    /// bound. As on Linux it is not delivered. It is not answered either, because nothing is sent
    /// by that interface.
    fn is_of_another_link(&self, index: ConnectionIndex) -> bool {
        let (own, came_by) = (self.mem.tcp[index].settings.interface, self.mem.core.came_by);
        own != 0 && came_by != 0 && own != came_by
    }

    /// Processes a segment for a connection. If it is a SYN that ended TIME-WAIT and opens a new
    /// connection, returns the SND.NXT of the old one.
    fn tcp_segment(
        &mut self,
        index: ConnectionIndex,
        now: Instant,
        segment: &Segment,
        payload: &mut Payload,
    ) -> Option<Seq> {
        let row = self.row(index);
        row.rx_packets.inc();
        let mut ended = None;
        let s = &mut self.mem.tcp[index];
        s.stats.segments_in = s.stats.segments_in.wrapping_add(u32::from(segment.len > 0));
        if s.suspended {
            return None;
        }
        match s.state {
            TcpState::Free | TcpState::Closed => return None,
            TcpState::SynSent => self.syn_sent_input(index, now, segment, payload),
            TcpState::SynReceived => self.syn_received_input(index, now, segment, payload),
            TcpState::TimeWait => ended = self.time_wait_input(index, now, segment),
            _ => self.established_input(index, now, segment, payload),
        }
        if self.mem.tcp[index].state.is_synchronized() && ended.is_none() {
            self.tcp_output(index, now, Hold::AsSet);
            self.update_row(index);
        }
        ended
    }

    /// Answers a segment that belongs to no connection with RST (RFC 9293 §3.10.7.1).
    #[inline(never)]
    pub(in crate::tcp) fn refuse(&mut self, now: Instant, stray: &Stray<'_>) {
        let segment = stray.segment;
        if segment.has(bit::RST) {
            return;
        }
        let (seq, ack, bits) = if segment.has(bit::ACK) {
            (segment.ack, Seq(0), bit::RST)
        } else {
            (Seq(0), segment.end(), bit::RST | bit::ACK)
        };
        self.mem.counters.tcp_out_rsts.inc();
        let settings = self.reached_by_its_link(self.tcp_defaults(), stray.remote.address);
        self.reply(now, stray, &settings, Segment { seq, ack, bits, ..Segment::default() });
    }

    /// These settings for a connection with `peer`. A link-local peer is reached by its own link.
    pub(in crate::tcp) fn reached_by_its_link(&self, settings: Settings, peer: Address) -> Settings {
        if settings.interface != 0 || !peer.is_link_local() {
            return settings;
        }
        Settings { interface: self.mem.core.came_by, ..settings }
    }

    /// Sends a segment that belongs to no connection back to the sender of a stray one, as a
    /// connection with these settings would.
    pub(in crate::tcp) fn reply(&mut self, now: Instant, stray: &Stray<'_>, settings: &Settings, header: Segment) {
        let &Stray { packet, local, remote, .. } = stray;
        let header = Segment { source_port: local.port, destination_port: remote.port, ..header };
        let query = settings.query(local, remote);
        let known = self.path_find(&query);
        let path = known.and_then(|index| self.mem.paths.get(index as usize));
        let (metrics, narrow) = path.map_or_else(Default::default, |path| (path.info.metrics, path.is_narrow(now)));
        let Some(id) = self.control_frame() else { return };
        let send = crate::ip::IpSend {
            path: known.unwrap_or(u32::MAX),
            on_guess: true,
            query,
            source: local.address,
            protocol: TCP,
            ttl: metrics.hops(settings.ttl, settings.own_ttl),
            tos: settings.tos,
            dont_fragment: settings.dont_fragment && !narrow,
            class: Class::Prompt,
        };
        let message = self.write_segment(&send, &header, &MultiFrameSegment::bare(id));
        if known.is_none() {
            return self.ip_answer(packet, &send, message);
        }
        // What the host knows of the sender takes precedence over what the packet claims.
        let _ = self.ip_output(now, &send, message);
    }

    /// Frees a frame and those that continue its packet.
    pub(in crate::tcp) fn free_chain(&mut self, first: FrameId) {
        let frames = &mut self.mem.frames;
        let mut at = PoolLink::to(first);
        while let Some(id) = at.get() {
            let meta = &frames.meta[id as usize];
            at = if meta.flags & flag::MORE != 0 { meta.next } else { PoolLink::NONE };
            frames.give(id);
        }
    }
}
