//! Receiving: from the receive reserve to the protocol of a packet.

use super::packet::Packet;
use super::{ICMP, ICMPV6, v4, v6};
use crate::Stack;
use crate::addr::{Address, Mac};
use crate::demux::{TCP, UDP};
use crate::frame::{FRAME_SIZE, FrameId, flag};
use crate::ip::output::ETHERNET;
use crate::pool::PoolLink;
use crate::time::Instant;

/// Most frames of one received packet: the longest that the kernel merges, with a margin.
const MOST_PIECES: u32 = 36;

/// A fragment of a datagram, as its header describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    /// Offset in the datagram in bytes.
    pub(super) offset: u32,
    /// Whether others follow.
    pub(super) more: bool,
    /// Identification of the datagram.
    pub(super) id: u32,
}

/// Why a packet is dropped. Each reason has its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drop {
    Header,
    Address,
    Truncated,
    Protocol,
}

/// A parsed IP header: the packet behind it, and the fragment header if there is one.
pub(super) type Parsed = core::result::Result<(Packet, Option<Fragment>), Drop>;

/// What the parsers need besides the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) frame: FrameId,
    /// Where the IP header starts in the frame.
    pub(super) network: u16,
    /// Bytes from there on, in all frames of the packet.
    pub(super) available: u32,
    pub(super) source_mac: Mac,
    pub(super) destination_mac: Mac,
}

impl Stack<'_> {
    /// Processes a frame of the receive reserve, to whose start a packet (from its Ethernet header
    /// on) of `len` bytes, or a piece of one, has been copied. `at`: its arrival time; `known`: the
    /// bits of [`flag`] about its checksum; `more`: the packet continues in the next frame.
    pub(super) fn ingress(&mut self, now: Instant, at: Instant, frame: FrameId, len: u16, known: u16, more: bool) {
        debug_assert!(usize::from(len) <= FRAME_SIZE);
        let meta = &mut self.mem.frames.meta[frame as usize];
        debug_assert_eq!(meta.flags, flag::FILLED);
        self.mem.core.filled -= 1;
        (meta.offset, meta.len, meta.at, meta.flags) = (0, len, at, known);
        if more || self.mem.core.partial_len != 0 {
            return self.piece(now, frame, more);
        }
        self.packet(now, frame, u32::from(len));
    }

    /// One frame of a packet that spans several.
    fn piece(&mut self, now: Instant, frame: FrameId, more: bool) {
        let core = &mut *self.mem.core;
        core.partial_len += 1;
        if core.partial_len > MOST_PIECES || core.partial_bad != 0 {
            core.partial_bad = 1;
            self.mem.frames.give(frame);
        } else {
            match core.partial_tail.get() {
                None => core.partial_head = PoolLink::to(frame),
                Some(tail) => {
                    let tail = &mut self.mem.frames.meta[tail as usize];
                    tail.next = PoolLink::to(frame);
                    tail.flags |= flag::MORE;
                }
            }
            core.partial_tail = PoolLink::to(frame);
        }
        if more {
            return;
        }
        let bad = core::mem::take(&mut core.partial_bad) != 0;
        core.partial_len = 0;
        core.partial_tail = PoolLink::NONE;
        let Some(first) = core::mem::take(&mut core.partial_head).get() else { return };
        if bad {
            self.mem.counters.eth_in_bad_frame.inc();
            return self.mem.frames.give_chain(first);
        }
        let available = self.mem.frames.chain_len(first);
        self.packet(now, first, available);
    }

    /// Drops a packet of which the rest will not arrive.
    pub(super) fn drop_partial(&mut self) {
        let core = &mut *self.mem.core;
        (core.partial_len, core.partial_bad, core.partial_tail) = (0, 0, PoolLink::NONE);
        if let Some(first) = core::mem::take(&mut core.partial_head).get() {
            self.mem.frames.give_chain(first);
        }
    }

    fn packet(&mut self, now: Instant, frame: FrameId, available: u32) {
        let Some((mut packet, fragment)) = self.parsed(frame, available) else {
            return self.mem.frames.give_chain(frame);
        };
        if !self.trim(&mut packet) {
            return;
        }
        match fragment {
            None => self.deliver(now, &packet),
            Some(fragment) => self.fragment(now, &packet, fragment),
        }
    }

    #[inline(never)]
    fn fragment(&mut self, now: Instant, packet: &Packet, fragment: Fragment) {
        // The checksum state of a fragment is not that of the datagram.
        self.mem.frames.meta[packet.frame as usize].flags &= !(flag::CHECKED | flag::MAYBE_PARTIAL);
        if let Some(whole) = self.reassemble(now, packet, fragment) {
            self.deliver(now, &whole);
        }
    }

    /// Parses the headers of a packet. `None` if it is to be dropped, which has been counted.
    #[inline(never)]
    fn parsed(&mut self, frame: FrameId, available: u32) -> Option<(Packet, Option<Fragment>)> {
        let meta = &mut self.mem.frames.meta[frame as usize];
        let network = meta.offset + ETHERNET as u16;
        meta.network = network;
        let bytes = self.mem.frames.data(frame);
        let Some((link, rest)) = bytes.split_first_chunk::<ETHERNET>() else {
            self.mem.counters.eth_in_unknown.inc();
            return None;
        };
        let &[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = link;
        let arrival = Arrival {
            frame,
            network,
            available: available - ETHERNET as u32,
            source_mac: Mac([s0, s1, s2, s3, s4, s5]),
            destination_mac: Mac([d0, d1, d2, d3, d4, d5]),
        };
        self.mem.counters.ip_in_receives.inc();
        let parsed = match [t0, t1] {
            [0x08, 0x00] => v4::parse(rest, &arrival),
            [0x86, 0xdd] => v6::parse(rest, &arrival),
            _ => {
                self.mem.counters.eth_in_unknown.inc();
                return None;
            }
        };
        let (packet, fragment) = match parsed {
            Ok(parsed) => parsed,
            Err(why) => {
                let counters = self.mem.counters;
                match why {
                    Drop::Header => &counters.ip_in_hdr_errors,
                    Drop::Address => &counters.ip_in_addr_errors,
                    Drop::Truncated => &counters.ip_in_truncated,
                    Drop::Protocol => &counters.ip_in_unknown_protos,
                }
                .inc();
                return None;
            }
        };
        // A packet to a unicast address must not have been sent to a link-layer group (RFC 1122
        // §3.3.6); that would bypass the filters of switches. The source must not be a group (RFC
        // 1122 §3.2.1.3 for IP addresses; an answer would go to the group), nor our own address.
        let group = packet.destination_mac.0[0] & 1 != 0 && !packet.destination.is_multicast();
        if group || packet.source_mac.0[0] & 1 != 0 || packet.source == packet.destination {
            self.mem.counters.ip_in_addr_errors.inc();
            return None;
        }
        Some((packet, fragment))
    }

    /// Cuts the frames to the transport message: removes headers at the front and link-layer
    /// padding at the end. False if the message is incomplete and was dropped.
    fn trim(&mut self, packet: &mut Packet) -> bool {
        let meta = &mut self.mem.frames.meta[packet.frame as usize];
        if meta.flags & flag::MORE == 0 {
            // The parser has checked that the message is complete.
            (meta.offset, meta.len) = (packet.offset, packet.total as u16);
            packet.len = packet.total as u16;
            return true;
        }
        let in_first = (meta.offset + meta.len - packet.offset).min(packet.total as u16);
        (meta.offset, meta.len) = (packet.offset, in_first);
        packet.len = in_first;
        let kept = self.mem.frames.truncate_chain(packet.frame, packet.total);
        if kept == packet.total {
            return true;
        }
        self.mem.counters.ip_in_truncated.inc();
        self.mem.frames.give_chain(packet.frame);
        false
    }

    fn deliver(&mut self, now: Instant, packet: &Packet) {
        self.mem.counters.ip_in_delivers.inc();
        match packet.protocol {
            TCP if !packet.destination.is_multicast() => self.tcp_input(now, packet),
            UDP => self.udp_input(packet),
            ICMP | ICMPV6 => {
                self.icmp_input(now, packet);
                self.mem.frames.give_chain(packet.frame);
            }
            _ => {
                self.mem.counters.ip_in_unknown_protos.inc();
                self.mem.frames.give_chain(packet.frame);
            }
        }
    }
}

/// Whether an address is a valid source: one that an answer can be sent to.
pub(super) fn is_source(address: Address) -> bool {
    !address.is_unspecified() && !address.is_multicast() && !address.is_limited_broadcast() && !address.is_loopback()
}
