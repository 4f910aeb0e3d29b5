//! Sending: writes Ethernet and IP headers in front of a transport message that is already in its
//! frame.

use crate::Stack;
use crate::addr::{Address, Endpoint, Family};
use crate::checksum::{plain, same_family};
use crate::error::{Result, StackError};
use crate::frame::{FrameId, flag};
use crate::ip::Packet;
use crate::path::{GUESSED, PathState, Query};
use crate::queue::{Class, Queued, in_frame};
use crate::time::Instant;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
pub(crate) const IPV4: usize = 20;
/// Bytes of an IPv6 header.
pub(crate) const IPV6: usize = 40;

/// Parameters of a packet to send.
#[derive(Clone, Copy, Debug)]
pub struct IpSend {
    /// The path, from `path_lookup` or `path_infer`. If it no longer answers the query, the path is
    /// looked up or requested again.
    pub path: u32,
    /// The key of the path. Its destination is the packet's, of the same family as `source`.
    pub query: Query,
    /// An inferred path may be used: the packet answers one that any host may have forged.
    pub on_guess: bool,
    /// Our address.
    pub source: Address,
    /// IP protocol number.
    pub protocol: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// Traffic class (TOS) octet.
    pub tos: u8,
    /// IPv4: forbid routers to fragment it.
    pub dont_fragment: bool,
    /// The transmit queue.
    pub class: Class,
}

/// A transport message to be sent: in one frame, or in several that are chained by `next` and
/// delimited by their notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The first frame.
    pub(crate) frame: FrameId,
    /// Where the message starts in it.
    pub(crate) offset: u16,
    /// How many of its bytes are in this frame.
    pub(crate) len: u16,
    /// The number of further frames.
    pub(crate) rest: u16,
    /// The length of the whole message.
    pub(crate) total: u16,
}

impl Message {
    /// A message in a single frame.
    pub(crate) const fn one(frame: FrameId, offset: u16, len: u16) -> Self {
        Self { frame, offset, len, rest: 0, total: len }
    }
}

impl Stack<'_> {
    /// Sends a message as one packet: writes the headers before it and puts the packet into the
    /// transmit queue, or lets it wait until the neighbour is resolved.
    ///
    /// The caller keeps the frames, unless they carry [`flag::FREE_ON_COMPLETE`]: then they are
    /// freed when sent, and also on an error. A frame that is still queued or being sent must not
    /// be sent again.
    ///
    /// # Errors
    /// [`StackError::NeedPath`] if the path has been evicted and must be requested from the host;
    /// [`StackError::NoPath`] if the host has no path; [`StackError::NoBuffers`] if the frame is
    /// already queued or being sent; [`StackError::Invalid`] for mixed address families or
    /// impossible bounds.
    pub(crate) fn ip_output(&mut self, now: Instant, send: &IpSend, message: Message) -> Result<()> {
        self.mem.counters.ip_out_requests.inc();
        let sent = self.output_inner(now, send, message);
        if sent.is_err() {
            let counter = match sent {
                Err(StackError::NeedPath | StackError::NoPath) => &self.mem.counters.ip_out_no_routes,
                _ => &self.mem.counters.ip_out_discards,
            };
            counter.inc();
            let Message { frame, offset, len, rest, .. } = message;
            let mut piece = Some(Queued { frame, offset, len, rest, class: send.class, behind: 0 });
            while let Some(unsent) = piece {
                piece = unsent.continued(&self.mem.frames);
                let meta = &self.mem.frames.meta[unsent.frame as usize];
                if meta.flags & (flag::FREE_ON_COMPLETE | flag::QUEUED | flag::IN_KERNEL) == flag::FREE_ON_COMPLETE {
                    self.mem.frames.give(unsent.frame);
                }
            }
        }
        sent
    }

    fn output_inner(&mut self, now: Instant, send: &IpSend, message: Message) -> Result<()> {
        let packet = self.write_ip(send, message)?;
        let path = match self.mem.paths.get_mut(send.path as usize) {
            Some(path)
                if path.info.query == send.query
                    && matches!(path.info.state, PathState::Ready | PathState::Resolving)
                    && (path.inferred != GUESSED || send.on_guess) =>
            {
                path.used = 1;
                send.path
            }
            _ => self.path_again(&send.query, now)?,
        };
        self.path_send(path, packet)
    }

    /// Answers the packet `to` as [`Stack::ip_output`] does, but without a path: neither cache nor
    /// host are troubled with an address that any host may have forged. The message's one frame
    /// must carry [`flag::FREE_ON_COMPLETE`].
    pub(crate) fn ip_answer(&mut self, to: &Packet, send: &IpSend, message: Message) {
        self.mem.counters.ip_out_requests.inc();
        let Ok(packet) = self.write_ip(send, message) else {
            self.mem.counters.ip_out_discards.inc();
            return self.mem.frames.give(message.frame);
        };
        let link = &mut self.mem.frames.bytes_mut(message.frame)[usize::from(packet.offset)..][..12];
        link[..6].copy_from_slice(&to.source_mac.0);
        link[6..].copy_from_slice(&to.destination_mac.0);
        self.enqueue(packet);
    }

    /// Writes the Ethernet type and the IP header.
    fn write_ip(&mut self, send: &IpSend, message: Message) -> Result<Queued> {
        let Message { frame, offset, len, rest, total } = message;
        let family = same_family(send.source, send.query.destination).ok_or(StackError::Invalid)?;
        let header = if family == Family::V4 { IPV4 } else { IPV6 };
        let start = usize::from(offset).checked_sub(header + ETHERNET).ok_or(StackError::Invalid)?;
        if !in_frame(usize::from(offset), usize::from(len)) {
            return Err(StackError::Invalid);
        }
        if self.mem.frames.meta[frame as usize].flags & (flag::QUEUED | flag::IN_KERNEL) != 0 {
            return Err(StackError::NoBuffers);
        }
        let id = if family == Family::V4 && !send.dont_fragment { self.next_ip_id(send) as u16 } else { 0 };
        let bytes = &mut self.mem.frames.bytes_mut(frame)[start..];
        let (link, network) = bytes.split_at_mut(ETHERNET);
        match family {
            Family::V4 => {
                let fragment = if send.dont_fragment { 0x4000 } else { 0 };
                write_ipv4(network, send, (header as u16) + total, id, fragment);
            }
            Family::V6 => write_ipv6(network, send, send.protocol, total),
        }
        write_ethertype(link, family);
        let len = (ETHERNET + header) as u16 + len;
        Ok(Queued { frame, offset: start as u16, len, rest, class: send.class, behind: 0 })
    }

    /// The next IPv4 or fragment identification: a counter with a secret start for each pair of
    /// addresses (RFC 7739 §5.3). A host that sees the identifications of its own packets cannot
    /// inject fragments into those of others.
    pub(crate) fn next_ip_id(&mut self, send: &IpSend) -> u32 {
        let [local, remote] = [send.source, send.query.destination].map(|address| Endpoint::new(address, 0));
        let place = (self.flow_hash(0, local, remote) >> 32) as u32;
        let core = &mut *self.mem.core;
        core.ip_id = core.ip_id.wrapping_add(1);
        place.wrapping_add(core.ip_id)
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub(crate) fn write_ethertype(link: &mut [u8], family: Family) {
    put(link, 12, &if family == Family::V4 { [0x08, 0x00] } else { [0x86, 0xdd] });
}

/// Writes an IPv4 header (RFC 791 §3.1) of 20 bytes; `fragment` is its flags and offset field.
pub(crate) fn write_ipv4(bytes: &mut [u8], send: &IpSend, total: u16, id: u16, fragment: u16) {
    let header = &mut bytes[..IPV4];
    header[0] = 0x45;
    header[1] = send.tos;
    put(header, 2, &total.to_be_bytes());
    put(header, 4, &id.to_be_bytes());
    put(header, 6, &fragment.to_be_bytes());
    header[8] = send.ttl;
    header[9] = send.protocol;
    put(header, 10, &[0, 0]);
    put(header, 12, &send.source.0[12..]);
    put(header, 16, &send.query.destination.0[12..]);
    let sum = plain(header);
    put(header, 10, &sum.to_be_bytes());
}

/// Writes an IPv6 header (RFC 8200 §3); `len` is the length of its payload.
pub(crate) fn write_ipv6(bytes: &mut [u8], send: &IpSend, next: u8, len: u16) {
    let header = &mut bytes[..IPV6];
    put(header, 0, &(0x6000_0000 | u32::from(send.tos) << 20).to_be_bytes());
    put(header, 4, &len.to_be_bytes());
    header[6] = next;
    header[7] = send.ttl;
    put(header, 8, &send.source.0);
    put(header, 24, &send.query.destination.0);
}
