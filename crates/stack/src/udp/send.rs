//! Sending datagrams.

use super::{HEADER, MtuDiscover, Socket, UdpOptions, shut};
use crate::Stack;
use crate::addr::{Address, Endpoint, Family};
use crate::checksum::Sum;
use crate::demux::UDP;
use crate::error::{Result, StackError};
use crate::frame::{FrameId, HEADROOM, MAX_PAYLOAD, MOST_PIECES, flag};
use crate::ids::{SendSource, UdpId};
use crate::ip::output::{IPV4, IPV6, Message};
use crate::ip::{IpSend, fragment};
use crate::path::{Path, PathState, Query};
use crate::pool::PoolLink;
use crate::queue::Class;
use crate::time::Instant;

/// The largest payload of an IPv4 datagram: 65,535 less both headers.
const MOST_V4: usize = 65_535 - IPV4 - HEADER;
/// The largest payload of an IPv6 datagram without jumbo payload option.
const MOST_V6: usize = 65_535 - HEADER;
/// Most datagrams into which one send can be split, as on Linux.
pub(crate) const MOST_SEGMENTS: usize = 128;

/// Destination and parameters of one send; defaults come from the socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendTo {
    /// The destination; `None` for the connected peer.
    pub destination: Option<Endpoint>,
    /// The source address (`IP_PKTINFO`).
    pub source: Option<Address>,
    /// The outgoing interface; 0 if the host may choose. Without `destination` the connection's is
    /// used.
    pub interface: u32,
    /// Time to live, hop limit.
    pub ttl: Option<u8>,
    /// Traffic class (TOS) octet.
    pub tos: Option<u8>,
    /// Size of the datagrams into which it is split; 0: it is one datagram.
    pub segment: Option<u16>,
}

/// The next bytes of a source.
struct Part<'s, S> {
    source: &'s mut S,
    left: usize,
}

impl<S: SendSource> SendSource for Part<'_, S> {
    fn remaining(&self) -> usize {
        self.left
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        let wanted = into.len().min(self.left);
        let got = self.source.read(&mut into[..wanted]);
        self.left -= got;
        got
    }

    fn failed(&self) -> bool {
        self.source.failed()
    }
}

/// The largest payload of a datagram, and the length of its IP header.
const fn bounds(family: Family) -> (usize, usize) {
    match family {
        Family::V4 => (MOST_V4, IPV4),
        Family::V6 => (MOST_V6, IPV6),
    }
}

/// The fields of the IP header, and the path, of what a call sends.
fn header_fields(
    path: &Path,
    index: u32,
    to: &SendTo,
    query: Query,
    options: &UdpOptions,
    source: Address,
    now: Instant,
) -> IpSend {
    let hops = path.info.metrics.hops(options.ttl, options.own_ttl);
    let ttl = if query.destination.is_multicast() { options.multicast_ttl } else { hops };
    IpSend {
        path: index,
        query,
        on_guess: false,
        source,
        protocol: UDP,
        ttl: to.ttl.unwrap_or(ttl),
        tos: to.tos.unwrap_or(options.tos),
        dont_fragment: match options.mtu_discover {
            MtuDiscover::Dont | MtuDiscover::Interface => false,
            MtuDiscover::Want => !path.udp_is_narrow(now),
            MtuDiscover::Do | MtuDiscover::Probe => true,
        },
        class: Class::Prompt,
    }
}

/// The size of the datagrams into which a send is split; `cut` is the requested size, 0: it is one
/// datagram. Each of several must fit a packet without fragmentation, and together they must not
/// exceed the largest send.
fn segment_of(family: Family, mtu: usize, discover: MtuDiscover, all: usize, cut: usize) -> Result<usize> {
    let (most, header) = bounds(family);
    let whole = discover == MtuDiscover::Do || discover.ignores_routers() || cut != 0;
    let segment = if cut == 0 { all } else { cut };
    if all > most || whole && header + HEADER + segment.min(all) > mtu {
        return Err(StackError::MessageTooLong);
    }
    if cut != 0 && all > cut * MOST_SEGMENTS {
        return Err(StackError::Invalid);
    }
    Ok(segment)
}

/// The length of the IP payload of the packets for a datagram of `len` bytes: its own length, if it
/// is one packet.
fn piece_of(family: Family, mtu: usize, len: usize) -> usize {
    let total = HEADER + len;
    let one = bounds(family).1 + total <= mtu && total <= MOST_PIECES * MAX_PAYLOAD;
    if one { total } else { fragment::piece(family, mtu) }
}

/// How many frames a send takes that is split into datagrams of `segment` bytes.
fn frames_of(family: Family, mtu: usize, all: usize, segment: usize) -> usize {
    let datagram = |len: usize| {
        let (total, piece) = (HEADER + len, piece_of(family, mtu, len));
        if total == piece && len <= MAX_PAYLOAD {
            return 1;
        }
        total / piece * piece.div_ceil(MAX_PAYLOAD) + (total % piece).div_ceil(MAX_PAYLOAD)
    };
    if segment >= all {
        return datagram(all);
    }
    all / segment * datagram(segment) + if all.is_multiple_of(segment) { 0 } else { datagram(all % segment) }
}

impl Socket {
    /// The key of the path of a datagram.
    fn query(&self, to: &SendTo) -> Query {
        let source = to.source.filter(|address| !address.is_unspecified()).unwrap_or(self.local.address);
        let peer = to.destination.unwrap_or(self.remote);
        let interface = if to.destination.is_none() && to.interface == 0 { self.interface } else { to.interface };
        Query::to(peer.address).from(source).by(interface).of_service(to.tos.unwrap_or(self.options.tos))
    }
}

impl Stack<'_> {
    /// The key of the path of a datagram that is sent with these parameters.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn udp_query(&self, id: UdpId, to: &SendTo) -> Result<Query> {
        Ok(self.mem.udp[self.check(id)?].query(to))
    }

    /// Sends all that is left in `source`: one datagram, or as many as [`SendTo::segment`]
    /// determines, all of them or none. Returns the number of bytes.
    ///
    /// # Errors
    /// [`StackError::Stale`]; the socket's pending error; [`StackError::Pipe`] if sending was shut;
    /// [`StackError::NotConnected`] without destination; [`StackError::Invalid`] if the socket is
    /// not bound, or for too many datagrams; [`StackError::MessageTooLong`], also if a part does
    /// not fit a packet; [`StackError::NeedPath`] if the path must first be requested (then nothing
    /// has been read from `source`); [`StackError::NoPath`]; [`StackError::NetworkUnreachable`];
    /// [`StackError::Fault`] if a part of `source` cannot be read (if it is unmapped during the
    /// call, earlier datagrams have been sent); [`StackError::WouldBlock`] while the socket is not
    /// writable; [`StackError::NoBuffers`] if it is writable, but there is no room for more than a
    /// writable socket guarantees (`udp_kept`): as on Linux for a datagram that its send buffer
    /// cannot hold.
    ///
    /// Datagrams sent while the neighbour is being resolved wait for it, and may be dropped there
    /// (`PathDrops`), as on Linux.
    pub fn udp_send(&mut self, id: UdpId, now: Instant, to: &SendTo, source: &mut impl SendSource) -> Result<usize> {
        let index = self.check(id)?;
        let socket = &mut self.mem.udp[index];
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
        if socket.shut & shut::SEND != 0 {
            return Err(StackError::Pipe);
        }
        let Socket { local, remote, path, options, .. } = *socket;
        let peer = to.destination.unwrap_or(remote);
        if peer.port == 0 {
            return Err(if to.destination.is_some() { StackError::Invalid } else { StackError::NotConnected });
        }
        if local.port == 0 {
            return Err(StackError::Invalid);
        }
        let query = self.mem.udp[index].query(to);
        if query.source != Address::ANY && query.source.family() != peer.address.family() {
            return Err(StackError::NetworkUnreachable);
        }
        let known = self.mem.paths.get(path as usize);
        let path = match known {
            Some(p) if p.info.query == query && p.info.state == PathState::Ready && p.inferred == 0 => path,
            _ => self.path_lookup(&query, now)?,
        };
        self.mem.udp[index].path = path;
        let from = match to.source {
            Some(address) if !address.is_unspecified() => address,
            _ => self.udp_source(local.address, options.v6only, peer.address, path)?,
        };
        if !self.udp_has_room() {
            self.mem.core.udp_full = 1;
            return Err(StackError::WouldBlock);
        }
        let info = &self.mem.paths[path as usize];
        let send = header_fields(info, path, to, query, &options, from, now);
        let (family, all) = (peer.address.family(), source.remaining());
        let mtu = if options.mtu_discover.ignores_routers() { info.info.mtu } else { info.udp_mtu(now) } as usize;
        let cut = to.segment.unwrap_or(options.segment);
        let segment = segment_of(family, mtu, options.mtu_discover, all, cut.into())?;
        // All or nothing: datagrams in flight cannot be taken back.
        let frames = frames_of(family, mtu, all, segment);
        if frames > self.mem.frames.available() {
            self.mem.counters.udp_sndbuf_errors.inc();
            return Err(StackError::NoBuffers);
        }
        if segment < all && !source.is_there() {
            return Err(StackError::Fault);
        }
        let mut done = 0;
        // An empty datagram is one, too.
        loop {
            let len = segment.min(all - done);
            let mut part = Part { source: &mut *source, left: len };
            self.udp_emit(now, &send, [local.port, peer.port], mtu, &mut part)?;
            done += len;
            self.mem.counters.udp_out_datagrams.inc();
            let row = self.row(index);
            row.tx_packets.inc();
            row.tx_bytes.add(len as u64);
            if done == all {
                self.udp_note_room();
                return Ok(all);
            }
        }
    }

    fn udp_emit(
        &mut self,
        now: Instant,
        send: &IpSend,
        ports: [u16; 2],
        mtu: usize,
        source: &mut impl SendSource,
    ) -> Result<()> {
        let len = source.remaining();
        let (total, piece) = (HEADER + len, piece_of(send.query.destination.family(), mtu, len));
        if total > piece {
            let first = self.udp_fill(send, ports, len, piece, source)?;
            return self.ip_fragment(now, send, first, piece);
        }
        if len <= MAX_PAYLOAD {
            return self.udp_emit_one(now, send, ports, len, source);
        }
        let frame = self.udp_fill(send, ports, len, total, source)?;
        let rest = self.mem.frames.chain_frames(frame) as u16 - 1;
        let message = Message { frame, offset: HEADROOM as u16, len: MAX_PAYLOAD as u16, rest, total: total as u16 };
        self.ip_output(now, send, message)
    }

    /// A datagram that fits one packet in one frame.
    fn udp_emit_one(
        &mut self,
        now: Instant,
        send: &IpSend,
        ports: [u16; 2],
        len: usize,
        source: &mut impl SendSource,
    ) -> Result<()> {
        const START: usize = HEADROOM - HEADER;
        let frame = self.control_frame().ok_or(StackError::NoBuffers)?;
        let datagram = &mut self.mem.frames.bytes_mut(frame)[START..][..HEADER + len];
        let got = source.read(&mut datagram[HEADER..]);
        if got != len {
            self.mem.frames.give(frame);
            return Err(unread(source));
        }
        write_header(datagram, ports, (HEADER + len) as u16);
        let sum = Sum::ZERO.pseudo(send.source, send.query.destination, UDP, datagram.len() as u32).bytes(datagram);
        write_checksum(datagram, sum);
        self.ip_output(now, send, Message::one(frame, START as u16, (HEADER + len) as u16))
    }

    /// Copies a datagram into a chain of frames. Every packet of `piece` bytes starts in a new
    /// frame.
    fn udp_fill(
        &mut self,
        send: &IpSend,
        ports: [u16; 2],
        len: usize,
        piece: usize,
        source: &mut impl SendSource,
    ) -> Result<FrameId> {
        let total = HEADER + len;
        let mut sum = Sum::ZERO.pseudo(send.source, send.query.destination, UDP, total as u32);
        let (mut first, mut last, mut done) = (None, 0, 0);
        while done < total {
            let taken = self.control_frame();
            let Some(frame) = taken else {
                first.into_iter().for_each(|first| self.mem.frames.give_chain(first));
                return Err(StackError::NoBuffers);
            };
            let here = MAX_PAYLOAD.min(piece - done % piece).min(total - done);
            let meta = &mut self.mem.frames.meta[frame as usize];
            (meta.offset, meta.len) = (HEADROOM as u16, here as u16);
            match first {
                None => first = Some(frame),
                Some(_) => {
                    let previous = &mut self.mem.frames.meta[last as usize];
                    previous.next = PoolLink::to(frame);
                    previous.flags |= flag::MORE;
                }
            }
            last = frame;
            let bytes = &mut self.mem.frames.bytes_mut(frame)[HEADROOM..][..here];
            let skip = if done == 0 {
                write_header(bytes, ports, total as u16);
                HEADER
            } else {
                0
            };
            if source.read(&mut bytes[skip..]) != here - skip {
                first.into_iter().for_each(|first| self.mem.frames.give_chain(first));
                return Err(unread(source));
            }
            sum = sum.bytes(bytes);
            done += here;
        }
        let first = first.ok_or(StackError::Invalid)?;
        write_checksum(&mut self.mem.frames.bytes_mut(first)[HEADROOM..], sum);
        Ok(first)
    }
}

/// Why a source returned fewer bytes than it announced.
fn unread(source: &impl SendSource) -> StackError {
    if source.failed() { StackError::Fault } else { StackError::Invalid }
}

fn write_header(datagram: &mut [u8], [source, destination]: [u16; 2], len: u16) {
    datagram[..2].copy_from_slice(&source.to_be_bytes());
    datagram[2..4].copy_from_slice(&destination.to_be_bytes());
    datagram[4..6].copy_from_slice(&len.to_be_bytes());
    datagram[6..8].copy_from_slice(&[0, 0]);
}

/// Writes the checksum; zero is sent as all ones, since zero means "no checksum" (RFC 768).
fn write_checksum(datagram: &mut [u8], sum: Sum) {
    let checksum = match sum.checksum() {
        0 => 0xffff,
        other => other,
    };
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
}
