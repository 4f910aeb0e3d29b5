//! The state of a connection (the transmission control block of RFC 9293 §3.3.1).

use crate::addr::{Endpoint, Family};
use crate::error::Error;
use crate::path::Metrics;
use crate::pool::{Link, Slot};
use crate::queue::Class;
use crate::tcp::congestion::Congestion;
use crate::tcp::congestion::ecn::Marks;
use crate::tcp::information::stats::Stats;
use crate::tcp::loss_recovery::prr::Prr;
use crate::tcp::loss_recovery::rack::Rack;
use crate::tcp::loss_recovery::recovery::Recovery;
use crate::tcp::path_mtu::black_hole::BlackHole;
use crate::tcp::program::settings::Settings;
use crate::tcp::receive::ack_thinning::AckThinning;
use crate::tcp::receive::queue::ReceiveQueue;
use crate::tcp::receive::urgent::Urgent;
use crate::tcp::receive::window::Sizing;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::setup::negotiated::Negotiated;
use crate::tcp::timers::peer_ack_delay::PeerAckDelay;
use crate::tcp::timers::rtt::Rtt;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The state of a connection (RFC 9293 §3.3.2), numbered as Linux does in `TCP_INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum State {
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

impl State {
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

impl Pending {
    pub(in crate::tcp) const fn error(self) -> Option<Error> {
        Some(match self {
            Self::None => return None,
            Self::Refused => Error::Refused,
            Self::Reset => Error::Reset,
            Self::TimedOut => Error::TimedOut,
            Self::HostUnreachable => Error::HostUnreachable,
            Self::NetworkUnreachable => Error::NetworkUnreachable,
            Self::ProtocolUnreachable => Error::ProtocolUnreachable,
            Self::HostDown => Error::HostDown,
            Self::Isolated => Error::Isolated,
            Self::SourceRoute => Error::SourceRoute,
            Self::Malformed => Error::Malformed,
            Self::Prohibited => Error::Prohibited,
            Self::Pipe => Error::Pipe,
            Self::Aborted => Error::Aborted,
        })
    }
}

impl Pending {
    /// The reverse of [`Pending::error`].
    pub(in crate::tcp) fn of(error: Error) -> Self {
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

/// A TCP connection.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub struct Socket {
    /// Free list, accept queue, or TIME-WAIT list.
    pub(in crate::tcp) link: Link,
    /// The previous entry of the TIME-WAIT list.
    pub(in crate::tcp) back: Link,
    /// Its listener, until it is accepted.
    pub(in crate::tcp) listener: Link,
    /// Its path, and that path's MTU at the last check.
    pub(in crate::tcp) path: u32,
    pub(in crate::tcp) mtu: u32,
    pub(in crate::tcp) local: Endpoint,
    pub(in crate::tcp) remote: Endpoint,
    pub(in crate::tcp) state: State,
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
    /// The program has shut its receiving side.
    pub(in crate::tcp) read_shut: bool,
    /// The program has shut its sending side: FIN is queued, or will be when there is a frame for
    /// it.
    pub(in crate::tcp) write_shut: bool,
    /// FIN is in the send queue.
    pub(in crate::tcp) fin_queued: bool,
    /// The peer's FIN has been received in order.
    pub(in crate::tcp) fin_received: bool,
    /// An acknowledgement must be sent at once.
    pub(in crate::tcp) ack_now: bool,
    /// One must be sent at the end of the batch of received packets.
    pub(in crate::tcp) ack_soon: bool,
    /// How many acknowledgements are still sent without delay (quick-ack mode).
    pub(in crate::tcp) quick_acks: u8,
    /// Consecutive retransmissions of SYN, data or a probe.
    pub(in crate::tcp) attempts: u8,
    /// How often the wait between answers to empty segments outside of the window has doubled.
    pub(in crate::tcp) outside_doublings: u8,
    /// Unanswered keepalive probes.
    pub(in crate::tcp) keep_probes: u8,
    /// The timer of the present timeout fired late and was set again.
    pub(in crate::tcp) excused: bool,
    /// `tcp_send` found no free frame; the program is notified when there may be some.
    pub(in crate::tcp) starved: bool,
    /// The program found the send buffer full and waits for room.
    pub(in crate::tcp) wants_room: bool,
    /// The transmit queue of its segments.
    pub(in crate::tcp) class: Class,
    /// The segment that was sent last was shorter than a full one and is not acknowledged
    /// (Minshall's variant of Nagle's algorithm).
    pub(in crate::tcp) small_end: Seq,
    pub(in crate::tcp) small_out: bool,
    /// The peer's FIN lies at `fin_at`.
    pub(in crate::tcp) fin_seen: bool,

    /// What both SYNs agreed on.
    pub(in crate::tcp) negotiated: Negotiated,
    /// Payload bytes of a full segment.
    pub(in crate::tcp) mss: u16,
    /// The size of a "full segment" when acknowledging: first the MSS of our SYN; once open, at
    /// most our own segment size, raised to the largest segment received.
    pub(in crate::tcp) receive_mss: u16,
    /// The MSS of our SYN: no segment of the peer is longer, even if several were merged.
    pub(in crate::tcp) offered_mss: u16,
    /// The least retransmission timeout of the path's route, in milliseconds; 0: none.
    pub(in crate::tcp) rto_min_ms: u16,
    /// ISS and IRS.
    pub(in crate::tcp) iss: Seq,
    pub(in crate::tcp) irs: Seq,
    /// SND.WND in bytes, the largest it ever was, and the segment that set it (SND.WL1, SND.WL2).
    pub(in crate::tcp) window: u32,
    pub(in crate::tcp) max_window: u32,
    pub(in crate::tcp) window_seq: Seq,
    pub(in crate::tcp) window_ack: Seq,
    /// The right edge of the offered window: never moves left.
    pub(in crate::tcp) edge: Seq,
    /// Last.ACK.sent (RFC 7323 §4.3), including bytes that it left out: those have arrived, and
    /// their timestamp was evaluated.
    pub(in crate::tcp) acked: Seq,
    pub(in crate::tcp) left_out: AckThinning,
    /// The peer's FIN lies here, if `fin_seen`.
    pub(in crate::tcp) fin_at: Seq,
    /// TS.Recent and when it was taken.
    pub(in crate::tcp) ts_recent: u32,
    pub(in crate::tcp) ts_recent_at: Instant,
    /// Added to our timestamp clock, so that it reveals nothing about the host (RFC 7323 §7.1).
    pub(in crate::tcp) ts_offset: u32,

    pub(in crate::tcp) send: SendQueue,
    pub(in crate::tcp) recv: ReceiveQueue,
    pub(in crate::tcp) sizing: Sizing,
    pub(in crate::tcp) rtt: Rtt,
    pub(in crate::tcp) held_back: PeerAckDelay,
    pub(in crate::tcp) cc: Congestion,
    pub(in crate::tcp) rack: Rack,
    pub(in crate::tcp) prr: Prr,
    pub(in crate::tcp) recovery: Recovery,
    pub(in crate::tcp) marks: Marks,
    pub(in crate::tcp) hole: BlackHole,
    pub(in crate::tcp) urgent: Urgent,
    pub(in crate::tcp) settings: Settings,
    pub(in crate::tcp) tally: Stats,
    pub(in crate::tcp) at: Deadlines,
    /// When the peer was last heard, and when we last sent data.
    pub(in crate::tcp) heard: Instant,
    pub(in crate::tcp) sent: Instant,
    /// Since when there has been no progress though something is to be sent; never = there is
    /// progress.
    pub(in crate::tcp) stuck_since: Instant,
    /// When the peer connected, if the host had not reported a path to it by then: its address may
    /// be forged.
    pub(in crate::tcp) stranger_since: Instant,
    /// Segments retransmitted.
    pub(in crate::tcp) retransmits: u32,
    /// When the last empty segment outside of the window was answered.
    pub(in crate::tcp) outside_at: Instant,
    /// When a frame of the send queue last became free, or the queue was last empty.
    pub(in crate::tcp) freed_at: Instant,
    /// When the last challenge acknowledgement was sent.
    pub(in crate::tcp) challenged_at: Instant,
}

impl Slot for Socket {
    fn link(&mut self) -> &mut Link {
        &mut self.link
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

    /// The value of our timestamp clock (RFC 7323 §5.4): it ticks once a millisecond.
    pub(in crate::tcp) const fn timestamp(&self, now: Instant) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.ts_offset)
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
        !self.starved && space > 0 && space >= self.send.queued() / 2 && below
    }

    /// Adopts the route's settings for as long as the connection lasts.
    pub(in crate::tcp) fn follow_route(&mut self, route: &Metrics) {
        self.rto_min_ms = route.rto_min_ms;
        (self.settings.route_hops, self.settings.route_quickack) = (route.hop_limit, route.quick_ack);
    }

    /// The time since the peer was last heard.
    pub(in crate::tcp) fn idle(&self, now: Instant) -> Span {
        now.since(self.heard)
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
