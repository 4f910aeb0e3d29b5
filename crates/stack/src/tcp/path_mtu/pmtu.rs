//! Path MTU (RFC 1191, RFC 8201) and ICMP errors (RFC 9293 §3.9.2.2, RFC 5927).

use super::black_hole::BlackHole;
use crate::demux::TCP;
use crate::frame::{MAX_PAYLOAD, flag};
use crate::ip::{IcmpError, IcmpKind};
use crate::path::{Metrics, Path, PathState};
use crate::path_cache::RESOLVE_TIME;
use crate::tcp::connection::socket::{Pending, Socket, TcpState};
use crate::tcp::send::output::Hold;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use crate::{ConnectionIndex, SocketIndex, Stack};
use zerocopy::FromZeros;

/// Every link carries packets of this size (RFC 791).
pub(in crate::tcp) const LEAST_MTU: u32 = 68;

/// The host resolves the path of a peer that connected over an inferred one within this time.
const UNPROVEN: Span = RESOLVE_TIME.times(2);

/// The path of a connection, as far as the connection depends on it.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct ConnectionPath {
    /// Its slot in the cache.
    pub(in crate::tcp) index: u32,
    /// Its MTU at the last check.
    pub(in crate::tcp) mtu: u32,
    pub(in crate::tcp) black_hole: BlackHole,
    /// When the peer connected, if the host had not reported a path to it by then: its address may
    /// be forged.
    pub(in crate::tcp) stranger_since: Instant,
    /// The least retransmission timeout of the path's route, in milliseconds; 0: none.
    pub(in crate::tcp) rto_min_ms: u16,
}

shared_layout! { ConnectionPath { index, mtu, black_hole, stranger_since, rto_min_ms } }

impl Socket {
    /// Whether this peer connected a moment ago, its neighbour has not been resolved since, and it
    /// has never acknowledged any data. All that is known is that some node on the link answered
    /// our SYN-ACK, which was sent back to the source of the SYN.
    fn is_unproven(&self, found: Instant, now: Instant) -> bool {
        let since = self.path.stranger_since;
        let lately = !since.is_never() && now.since(since) <= UNPROVEN;
        let silent = self.send.una == self.iss + 1;
        self.state.is_synchronized() && lately && silent && found < since
    }
}

impl Stack<'_> {
    /// The path of a connection, unless it was evicted: then its slot in the cache may hold another
    /// path.
    pub(in crate::tcp) fn path_of(&self, index: ConnectionIndex) -> Option<&Path> {
        let s = &self.mem.tcp[index];
        self.mem.paths.get(s.path.index as usize).filter(|path| path.info.query == s.query())
    }

    /// The metrics of a connection's route.
    pub(in crate::tcp) fn route_of(&self, index: ConnectionIndex) -> Metrics {
        self.path_of(index).map_or_else(Metrics::default, |path| path.info.metrics)
    }

    /// The connection whose segment an ICMP error quotes, if that segment is in flight: only then
    /// is the error credible (RFC 5927 §4.1).
    fn find_quoted(&self, error: &IcmpError) -> Option<ConnectionIndex> {
        let SocketIndex::Tcp(index) = self.find_connected(TCP, error.local, error.remote)? else { return None };
        let s = &self.mem.tcp[index];
        let seq = Seq(error.seq);
        let live = !matches!(s.state, TcpState::Free | TcpState::Closed | TcpState::TimeWait);
        (live && seq.ge(s.send.una) && seq.lt(s.send.nxt)).then_some(index)
    }

    /// An ICMP error that claims to concern one of our segments.
    pub(crate) fn tcp_icmp(&mut self, now: Instant, error: &IcmpError) {
        let Some(index) = self.find_quoted(error) else { return self.mem.counters.icmp_in_unmatched.inc() };
        let s = &mut self.mem.tcp[index];
        let opening = matches!(s.state, TcpState::SynSent) || s.state == TcpState::SynReceived && !s.passive;
        let why = match error.kind {
            IcmpKind::TooBig(mtu) => {
                if self.learn_pmtu(now, error.remote.address, mtu, true) {
                    self.refresh_mss(index, now);
                    self.tcp_output(index, now, Hold::AsSet);
                }
                return;
            }
            IcmpKind::Undelivered { error, .. } => Pending::of(error),
        };
        // An established connection is not aborted because of a report that may be transient or
        // forged: RFC 9293 §3.9.2.2 for soft errors, RFC 5927 §5.2 for hard ones.
        if opening {
            self.mem.counters.tcp_attempt_fails.inc();
            self.fail(index, why);
        } else {
            s.soft_error = why;
        }
    }

    /// Adapts the segment size to the path. Segments in flight that are too long now are
    /// retransmitted in pieces; that is not a sign of congestion (RFC 1191 §6.4).
    pub(in crate::tcp) fn refresh_mss(&mut self, index: ConnectionIndex, now: Instant) {
        let Some(mtu) = self.path_of(index).map(|path| path.mtu(now).max(LEAST_MTU)) else { return };
        let s = &mut self.mem.tcp[index];
        if !s.state.is_synchronized() {
            return;
        }
        if mtu != s.path.mtu {
            s.forget_black_hole();
        }
        self.set_packet_size(index, mtu);
    }

    /// The same for a path whose MTU is `mtu` bytes.
    pub(in crate::tcp) fn set_packet_size(&mut self, index: ConnectionIndex, mtu: u32) {
        let s = &mut self.mem.tcp[index];
        s.path.mtu = mtu;
        let mss = s.fitting_mss(s.packet_limit(mtu));
        if mss == s.mss {
            return;
        }
        let before = core::mem::replace(&mut s.mss, mss);
        s.cc.on_mss(u32::from(mss));
        if mss > before {
            return;
        }
        self.mem.counters.tcp_mtu_reductions.inc();
        let frames = &mut self.mem.frames;
        // The length of segments in several frames is not recorded.
        let any = usize::from(before) > MAX_PAYLOAD;
        let mut at = s.send.head;
        while let Some(id) = at.get() {
            if at == s.send.next {
                break;
            }
            let meta = &frames.meta[id as usize];
            at = meta.next;
            if (any || meta.len > mss) && meta.flags & (flag::SACKED | flag::LOST) == 0 {
                s.send.mark_lost(frames, id);
            }
        }
    }

    /// Detects that the path's MTU has changed since this connection's last check, or that the path
    /// has moved to another slot of the cache.
    pub(in crate::tcp) fn follow_path(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        let mtu = match self.mem.paths.get(s.path.index as usize) {
            Some(path) if path.info.query == s.query() => {
                if path.inferred != 0 || !matches!(path.info.state, PathState::Ready | PathState::Resolving) {
                    return; // the host has not reported an MTU: the known one stays
                }
                let route = &path.info.metrics;
                s.follow_route(route);
                // The peer may have opened the connection before the host had reported the route.
                // After a lost SYN the window is one segment.
                let begins = s.send.nxt == s.iss + 1 && s.cc.cwnd > s.mss.into();
                if route.initcwnd != 0 && s.state.is_synchronized() && begins {
                    s.cc.begin_with(route.initcwnd, s.mss.into());
                }
                path.mtu(now)
            }
            _ => {
                // Evicted. If it has not been entered again since, sending will request it.
                let query = s.query();
                if let Some(path) = self.path_find(&query) {
                    self.mem.tcp[index].path.index = path;
                }
                return;
            }
        };
        if mtu.max(LEAST_MTU) != s.path.mtu {
            self.refresh_mss(index, now);
        }
    }

    /// The host has reported a change of a path. Connections that are being opened over an
    /// unreachable one fail; each connection notices a new MTU or next hop when it sends next.
    pub(crate) fn tcp_path_changed(&mut self, now: Instant, path: u32) {
        let Some((info, found)) = self.mem.paths.get(path as usize).map(|p| (p.info, p.found)) else {
            return;
        };
        if !matches!(info.state, PathState::Unreachable | PathState::Kernel) || self.mem.core.free_tcp.used() == 0 {
            return;
        }
        for index in self.mem.tcp.indices() {
            let s = &mut self.mem.tcp[index];
            if s.path.index != path || s.query() != info.query {
                continue;
            }
            match s.state {
                TcpState::Free | TcpState::Closed => {}
                TcpState::SynSent => {
                    self.mem.counters.tcp_attempt_fails.inc();
                    self.fail(index, Pending::HostUnreachable);
                }
                // The neighbour does not exist: the address was forged. Otherwise the connection
                // would stay forever if the program sends nothing.
                _ if s.is_unproven(found, now) => self.fail(index, Pending::HostUnreachable),
                _ => s.soft_error = Pending::HostUnreachable,
            }
        }
    }
}
