//! Sending datagrams larger than the MTU in fragments (RFC 791 §3.2, RFC 8200 §4.5). Only UDP uses
//! it.

use super::IpSend;
use super::output::{ETHERNET, IPV4, IPV6, write_ethertype, write_ipv4, write_ipv6};
use crate::Stack;
use crate::addr::Family;
use crate::error::{Result, StackError};
use crate::frame::{FrameId, HEADROOM, MAX_PAYLOAD, MOST_PIECES, flag};
use crate::path::PathState;
use crate::pool::PoolLink;
use crate::queue::Queued;
use crate::time::Instant;

/// Bytes of an IPv6 fragment header.
const FRAGMENT: usize = 8;
const NEXT_HEADER_FRAGMENT: u8 = 44;

/// How many bytes of a datagram one fragment carries: as many as the MTU and the frames of one
/// packet allow, in units of eight.
pub(crate) fn piece(family: Family, mtu: usize) -> usize {
    let headers = match family {
        Family::V4 => IPV4,
        Family::V6 => IPV6 + FRAGMENT,
    };
    (mtu.saturating_sub(headers).min(MOST_PIECES * MAX_PAYLOAD) & !7).max(8)
}

impl Stack<'_> {
    /// Sends a chain of frames as the fragments of one datagram, each of `piece` bytes but the
    /// last. Each frame's notes delimit its part, which starts at [`HEADROOM`]; no frame crosses
    /// the end of a fragment. The frames are freed when sent.
    ///
    /// # Errors
    /// As for `ip_output`; frames that were not sent are freed.
    pub(crate) fn ip_fragment(&mut self, now: Instant, send: &IpSend, first: FrameId, piece: usize) -> Result<()> {
        let sent = self.fragment_chain(now, send, first, piece);
        let counters = self.mem.counters;
        if sent.is_ok() { &counters.ip_frag_oks } else { &counters.ip_frag_fails }.inc();
        sent
    }

    fn fragment_chain(&mut self, now: Instant, send: &IpSend, first: FrameId, piece: usize) -> Result<()> {
        let family = send.query.destination.family();
        let mut path = send.path;
        let known = &self.mem.paths[path as usize].info;
        if known.query != send.query || known.state == PathState::Free {
            match self.path_lookup(&send.query, now) {
                Ok(index) => path = index,
                Err(error) => {
                    self.mem.frames.give_chain(first);
                    return Err(error);
                }
            }
        }
        let id = self.next_ip_id(send);
        let (mut at, mut offset) = (Some(first), 0);
        while let Some(frame) = at {
            let len = self.mem.frames.meta[frame as usize].len;
            let (rest, total, next) = self.cut_fragment(frame, piece);
            at = next;
            let more = at.is_some();
            let headers = match family {
                Family::V4 => IPV4,
                Family::V6 => IPV6 + FRAGMENT,
            };
            let start = HEADROOM - headers - ETHERNET;
            let (link, network) = self.mem.frames.bytes_mut(frame)[start..].split_at_mut(ETHERNET);
            write_ethertype(link, family);
            match family {
                Family::V4 => {
                    let field = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
                    write_ipv4(network, send, IPV4 as u16 + total, id as u16, field);
                }
                Family::V6 => {
                    write_ipv6(network, send, NEXT_HEADER_FRAGMENT, FRAGMENT as u16 + total);
                    let [o0, o1] = (offset as u16 | u16::from(more)).to_be_bytes();
                    let [i0, i1, i2, i3] = id.to_be_bytes();
                    network[IPV6..IPV6 + FRAGMENT].copy_from_slice(&[send.protocol, 0, o0, o1, i0, i1, i2, i3]);
                }
            }
            offset += u32::from(total);
            let packet = Queued {
                frame,
                offset: start as u16,
                len: (ETHERNET + headers) as u16 + len,
                rest,
                class: send.class,
                behind: 0,
            };
            self.mem.counters.ip_out_requests.inc();
            self.mem.counters.ip_frag_creates.inc();
            if let Err(error) = self.path_send(path, packet) {
                self.mem.frames.give_chain(frame);
                at.into_iter().for_each(|rest| self.mem.frames.give_chain(rest));
                return Err(if error == StackError::NeedPath { StackError::HostUnreachable } else { error });
            }
        }
        Ok(())
    }

    /// Cuts the first fragment off a chain. Returns the number of its further frames, its length,
    /// and the rest of the chain.
    fn cut_fragment(&mut self, first: FrameId, piece: usize) -> (u16, u16, Option<FrameId>) {
        let (mut at, mut rest, mut total) = (first, 0, 0);
        loop {
            let meta = &mut self.mem.frames.meta[at as usize];
            total += meta.len;
            let next = if meta.flags & flag::MORE != 0 { meta.next.get() } else { None };
            let Some(next) = next.filter(|_| usize::from(total) < piece) else {
                meta.flags &= !flag::MORE;
                meta.next = PoolLink::NONE;
                return (rest, total, next);
            };
            (at, rest) = (next, rest + 1);
        }
    }
}
