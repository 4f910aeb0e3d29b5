//! The state of a connection (the transmission control block of RFC 9293 §3.3.1).

use crate::addr::{Endpoint, Family};
use crate::error::StackError;
use crate::path::Metrics;
use crate::pool::{PoolLink, PoolSlot, SlotLink};
use crate::queue::Class;
use crate::tcp::congestion::Congestion;
use crate::tcp::congestion::ecn::Marks;
use crate::tcp::information::stats::Stats;
use crate::tcp::loss_recovery::prr::Prr;
use crate::tcp::loss_recovery::rack::Rack;
use crate::tcp::loss_recovery::recovery::Recovery;
use crate::tcp::path_mtu::pmtu::ConnectionPath;
use crate::tcp::program::settings::Settings;
use crate::tcp::receive::ack::AckState;
use crate::tcp::receive::answer_limit::AnswerLimit;
use crate::tcp::receive::queue::ReceiveQueue;
use crate::tcp::receive::timestamps::TimestampState;
use crate::tcp::receive::urgent::Urgent;
use crate::tcp::receive::window::ReceiveWindow;
use crate::tcp::send::output::SmallSegment;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::send::window::SendWindow;
use crate::tcp::setup::listener::Listener;
use crate::tcp::setup::negotiated::Negotiated;
use crate::tcp::teardown::closing::Closing;
use crate::tcp::timers::peer_ack_delay::PeerAckDelay;
use crate::tcp::timers::rtt::Rtt;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The state of a connection (RFC 9293 §3.3.2), numbered as Linux does in `TCP_INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum TcpState {
    /// The slot is free.
    #[default]
    Free = 0,
    /// ESTABLISHED.
    Established = 1,
    /// SYN-SENT.
    SynSent = 2,
    /// SYN-RECEIVED.
    SynReceived = 3,
    /// FIN-WAIT-1.
    FinWait1 = 4,
    /// FIN-WAIT-2.
    FinWait2 = 5,
    /// TIME-WAIT.
    TimeWait = 6,
    /// CLOSED, but the program has not closed its handle yet.
    Closed = 7,
    /// CLOSE-WAIT.
    CloseWait = 8,
    /// LAST-ACK.
    LastAck = 9,
    /// CLOSING.
    Closing = 11,
}

shared_layout! { enum TcpState {
    Free, Established, SynSent, SynReceived, FinWait1, FinWait2, TimeWait, Closed, CloseWait,
    LastAck, Closing,
} }

impl TcpState {
    /// Whether both SYNs have been exchanged and acknowledged, and the connection is not closed.
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Free | Self::SynSent | Self::SynReceived | Self::Closed)
    }

    /// Whether data that the program has queued may (still) be sent.
    pub(in crate::tcp) const fn may_transmit(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// Whether data from the peer is accepted.
    pub(in crate::tcp) const fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

/// A pending error for the program's next call, as one octet in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(in crate::tcp) enum Pending {
    #[default]
    None = 0,
    Refused,
    Reset,
    TimedOut,
    HostUnreachable,
    NetworkUnreachable,
    ProtocolUnreachable,
    HostDown,
    Isolated,
    SourceRoute,
    Malformed,
    Prohibited,
    Pipe,
    Aborted,
}

shared_layout! { enum Pending {
    None, Refused, Reset, TimedOut, HostUnreachable, NetworkUnreachable, ProtocolUnreachable,
    HostDown, Isolated, SourceRoute, Malformed, Prohibited, Pipe, Aborted,
} }

impl Pending {
    pub(in crate::tcp) const fn error(self) -> Option<StackError> {
        Some(match self {
            Self::None => return None,
            Self::Refused => StackError::Refused,
            Self::Reset => StackError::Reset,
            Self::TimedOut => StackError::TimedOut,
            Self::HostUnreachable => StackError::HostUnreachable,
            Self::NetworkUnreachable => StackError::NetworkUnreachable,
            Self::ProtocolUnreachable => StackError::ProtocolUnreachable,
            Self::HostDown => StackError::HostDown,
            Self::Isolated => StackError::Isolated,
            Self::SourceRoute => StackError::SourceRoute,
            Self::Malformed => StackError::Malformed,
            Self::Prohibited => StackError::Prohibited,
            Self::Pipe => StackError::Pipe,
            Self::Aborted => StackError::Aborted,
        })
    }
}

impl Pending {
    /// The reverse of [`Pending::error`].
    pub(in crate::tcp) fn of(error: StackError) -> Self {
        const ALL: [Pending; 13] = [
            Pending::Refused,
            Pending::Reset,
            Pending::TimedOut,
            Pending::HostUnreachable,
            Pending::NetworkUnreachable,
            Pending::ProtocolUnreachable,
            Pending::HostDown,
            Pending::Isolated,
            Pending::SourceRoute,
            Pending::Malformed,
            Pending::Prohibited,
            Pending::Pipe,
            Pending::Aborted,
        ];
        ALL.into_iter().find(|pending| pending.error() == Some(error)).unwrap_or_default()
    }
}

/// The purpose of the retransmission timer; these exclude each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(in crate::tcp) enum Waiting {
    /// Nothing.
    #[default]
    Nothing = 0,
    /// The oldest segment is to be deemed lost (RFC 6298).
    Timeout,
    /// The reordering window closes (RFC 8985 §6.2).
    Reordering,
    /// A tail loss probe is due (RFC 8985 §7).
    Probe,
    /// A zero window is to be probed (RFC 9293 §3.8.6.1), or a cork, too small a window or a lack
    /// of frames has held data back long enough.
    Persist,
}

shared_layout! { enum Waiting { Nothing, Timeout, Reordering, Probe, Persist } }

/// Deadlines of a connection; never = not set.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Deadlines {
    /// See [`Waiting`].
    pub(in crate::tcp) retransmit: Instant,
    /// A delayed acknowledgement is due.
    pub(in crate::tcp) ack: Instant,
    /// Keepalive; in FIN-WAIT-2 and TIME-WAIT the end of that state.
    pub(in crate::tcp) keep: Instant,
    /// Start of the retransmission timeout (RFC 6298 §5).
    pub(in crate::tcp) timeout_from: Instant,
    /// The purpose of `retransmit`.
    pub(in crate::tcp) waiting: Waiting,
}

shared_layout! { Deadlines { retransmit, ack, keep, timeout_from, waiting } }

/// When something last went on, and what has been in vain since.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Progress {
    /// When the peer was last heard, and when we last sent data.
    pub(in crate::tcp) heard: Instant,
    pub(in crate::tcp) sent: Instant,
    /// Since when there has been no progress though something is to be sent; never = there is
    /// progress.
    pub(in crate::tcp) stuck_since: Instant,
    /// When a frame of the send queue last became free, or the queue was last empty.
    pub(in crate::tcp) freed_at: Instant,
    /// Segments retransmitted.
    pub(in crate::tcp) retransmits: u32,
    /// Consecutive retransmissions of SYN, data or a probe.
    pub(in crate::tcp) attempts: u8,
    /// Unanswered keepalive probes.
    pub(in crate::tcp) keep_probes: u8,
    /// The timer of the present timeout fired late and was set again.
    pub(in crate::tcp) excused: bool,
}

shared_layout! { Progress {
    heard, sent, stuck_since, freed_at, retransmits, attempts, keep_probes, excused,
} }

/// Room in the send buffer that the program waits for.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Room {
    /// `tcp_send` found no free frame; the program is notified when there may be some.
    pub(in crate::tcp) starved: bool,
    /// The program found the send buffer full and waits for room.
    pub(in crate::tcp) wanted: bool,
}

shared_layout! { Room { starved, wanted } }

/// A TCP connection. Fields that are used together adjoin, in an order that needs little padding.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub struct Socket {
    /// Free list, accept queue, or TIME-WAIT list.
    pub(in crate::tcp) link: SlotLink<Self>,
    /// The previous entry of the TIME-WAIT list.
    pub(in crate::tcp) back: SlotLink<Self>,
    /// Its listener, until it is accepted.
    pub(in crate::tcp) listener: SlotLink<Listener>,
    pub(in crate::tcp) local: Endpoint,
    pub(in crate::tcp) remote: Endpoint,
    pub(in crate::tcp) state: TcpState,
    pub(in crate::tcp) error: Pending,
    /// An ICMP error that is reported only if the connection times out (RFC 9293 §3.9.2.2).
    pub(in crate::tcp) soft_error: Pending,
    /// The program has closed its handle.
    pub(in crate::tcp) orphan: bool,
    /// It is in its listener's accept queue.
    pub(in crate::tcp) queued: bool,
    /// The peer opened it.
    pub(in crate::tcp) passive: bool,
    /// In TIME-WAIT: a SYN was received that may not open a new connection in its place.
    pub(in crate::tcp) refused_syn: bool,
    /// The program has abandoned the attempt to open it.
    pub(in crate::tcp) abandoned: bool,
    /// It is suspended, because it is being handed over to another stack (`leaving`).
    pub(in crate::tcp) suspended: bool,
    pub(in crate::tcp) room: Room,
    /// The transmit queue of its segments.
    pub(in crate::tcp) class: Class,

    /// Payload bytes of a full segment.
    pub(in crate::tcp) mss: u16,
    /// The size of a "full segment" when acknowledging: first the MSS of our SYN; once open, at
    /// most our own segment size, raised to the largest segment received.
    pub(in crate::tcp) receive_mss: u16,
    /// The MSS of our SYN: no segment of the peer is longer, even if several were merged.
    pub(in crate::tcp) offered_mss: u16,
    /// What both SYNs agreed on.
    pub(in crate::tcp) negotiated: Negotiated,
    pub(in crate::tcp) closing: Closing,
    /// The last small segment (Nagle's algorithm).
    pub(in crate::tcp) small: SmallSegment,
    /// ISS and IRS.
    pub(in crate::tcp) iss: Seq,
    pub(in crate::tcp) irs: Seq,

    pub(in crate::tcp) send_window: SendWindow,
    pub(in crate::tcp) send: SendQueue,
    pub(in crate::tcp) recv: ReceiveQueue,
    pub(in crate::tcp) receive_window: ReceiveWindow,
    pub(in crate::tcp) ack: AckState,
    pub(in crate::tcp) timestamps: TimestampState,
    pub(in crate::tcp) rtt: Rtt,
    pub(in crate::tcp) peer_ack_delay: PeerAckDelay,
    pub(in crate::tcp) cc: Congestion,
    pub(in crate::tcp) rack: Rack,
    pub(in crate::tcp) prr: Prr,
    pub(in crate::tcp) urgent: Urgent,
    pub(in crate::tcp) recovery: Recovery,
    pub(in crate::tcp) marks: Marks,
    pub(in crate::tcp) path: ConnectionPath,
    pub(in crate::tcp) settings: Settings,
    pub(in crate::tcp) stats: Stats,
    pub(in crate::tcp) at: Deadlines,
    pub(in crate::tcp) progress: Progress,
    pub(in crate::tcp) answer_limit: AnswerLimit,
}

shared_layout! { Socket {
    link, back, listener, local, remote, state, error, soft_error, orphan, queued, passive,
    refused_syn, abandoned, suspended, room, class, mss, receive_mss, offered_mss, negotiated,
    closing, small, iss, irs, send_window, send, recv, receive_window, ack, timestamps, rtt,
    peer_ack_delay, cc, rack, prr, urgent, recovery, marks, path, settings, stats, at, progress,
    answer_limit,
} }

impl PoolSlot for Socket {
    fn link(&mut self) -> &mut PoolLink {
        self.link.untyped()
    }
}

impl Socket {
    /// Bytes of IP and TCP header without options.
    pub(in crate::tcp) const fn header_len(&self) -> u32 {
        match self.remote.address.family() {
            Family::V4 => 40,
            Family::V6 => 60,
        }
    }

    /// Bytes in flight, as congestion control sees them.
    pub(in crate::tcp) fn in_flight(&self) -> u32 {
        self.send.pipe.saturating_sub(self.recovery.arrived_unnamed)
    }

    /// How much the program may queue. As on Linux, a whole segment as long as the unsent bytes are
    /// below the low-water mark.
    pub(in crate::tcp) fn send_space(&self) -> u32 {
        let (space, mark, unsent) = (self.buffer_space(), self.settings.notsent_lowat, self.send.unsent());
        match mark {
            0 => space,
            _ if unsent >= mark => 0,
            _ => space.min((mark - unsent).max(self.mss.into())),
        }
    }

    /// The free part of the send buffer.
    fn buffer_space(&self) -> u32 {
        // A queue of small segments must not occupy more memory than a queue of large ones.
        let frames = (self.settings.send_buffer / 1024).max(16);
        if self.send.frames >= frames { 0 } else { self.settings.send_buffer.saturating_sub(self.send.queued()) }
    }

    /// Whether there is enough room to report the socket as writable, as on Linux. The free space
    /// must be half of what is queued (a third of the buffer), and the unsent bytes less than half
    /// of the low-water mark.
    pub(in crate::tcp) fn writable(&self) -> bool {
        let (space, mark) = (self.buffer_space(), self.settings.notsent_lowat);
        let below = mark == 0 || self.send.unsent() < mark.div_ceil(2);
        !self.room.starved && space > 0 && space >= self.send.queued() / 2 && below
    }

    /// Adopts the route's settings for as long as the connection lasts.
    pub(in crate::tcp) fn follow_route(&mut self, route: &Metrics) {
        self.path.rto_min_ms = route.rto_min_ms;
        (self.settings.route_hops, self.settings.route_quickack) = (route.hop_limit, route.quick_ack);
    }

    /// The time since the peer was last heard.
    pub(in crate::tcp) fn idle(&self, now: Instant) -> Span {
        now.since(self.progress.heard)
    }
}

#[cfg(test)]
mod tests {
    /// 8192 of them must leave a lane below 32 MiB beside 16 MiB of frames.
    #[test]
    fn a_connection_takes_less_than_1000_bytes() {
        assert!(size_of::<super::Socket>() < 1000, "{} bytes", size_of::<super::Socket>());
    }
}
