//! The state of a connection (the transmission control block of RFC 9293 §3.3.1).

use super::ack_thinning::AckThinning;
use super::black_hole::BlackHole;
use super::congestion::Congestion;
use super::ecn::Marks;
use super::peer_ack_delay::PeerAckDelay;
use super::prr::Prr;
use super::rack::Rack;
use super::receive::ReceiveQueue;
use super::recovery::Recovery;
use super::rtt::Rtt;
use super::send::SendQueue;
use super::seq::Seq;
use super::settings::Settings;
use super::stats::Stats;
use super::urgent::Urgent;
use super::window::Sizing;
use crate::addr::{Endpoint, Family};
use crate::error::Error;
use crate::path::Metrics;
use crate::pool::{Link, Slot};
use crate::queue::Class;
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
    pub(super) const fn may_transmit(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// Whether data from the peer is accepted.
    pub(super) const fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

/// A pending error for the program's next call, as one octet in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(super) enum Pending {
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
    pub(super) const fn error(self) -> Option<Error> {
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
    pub(super) fn of(error: Error) -> Self {
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
pub(super) enum Waiting {
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
pub(super) struct Deadlines {
    /// See [`Waiting`].
    pub(super) retransmit: Instant,
    /// A delayed acknowledgement is due.
    pub(super) ack: Instant,
    /// Keepalive; in FIN-WAIT-2 and TIME-WAIT the end of that state.
    pub(super) keep: Instant,
    /// Start of the retransmission timeout (RFC 6298 §5).
    pub(super) timeout_from: Instant,
    /// The purpose of `retransmit`.
    pub(super) waiting: Waiting,
}

/// A TCP connection.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub struct Socket {
    /// Free list, accept queue, or TIME-WAIT list.
    pub(super) link: Link,
    /// The previous entry of the TIME-WAIT list.
    pub(super) back: Link,
    /// Its listener, until it is accepted.
    pub(super) listener: Link,
    /// Its path, and that path's MTU at the last check.
    pub(super) path: u32,
    pub(super) mtu: u32,
    pub(super) local: Endpoint,
    pub(super) remote: Endpoint,
    pub(super) state: State,
    pub(super) error: Pending,
    /// An ICMP error that is reported only if the connection times out (RFC 9293 §3.9.2.2).
    pub(super) soft_error: Pending,
    /// The program has closed its handle.
    pub(super) orphan: bool,
    /// It is in its listener's accept queue.
    pub(super) queued: bool,
    /// The peer opened it.
    pub(super) passive: bool,
    /// In TIME-WAIT: a SYN was received that may not open a new connection in its place.
    pub(super) refused_syn: bool,
    /// The program has abandoned the attempt to open it.
    pub(super) abandoned: bool,
    /// It is suspended, because it is being handed over to another stack (`leaving`).
    pub(super) suspended: bool,
    /// The program has shut its receiving side.
    pub(super) read_shut: bool,
    /// The program has shut its sending side: FIN is queued, or will be when there is a frame for
    /// it.
    pub(super) write_shut: bool,
    /// FIN is in the send queue.
    pub(super) fin_queued: bool,
    /// The peer's FIN has been received in order.
    pub(super) fin_received: bool,
    /// Both sides use timestamps.
    pub(super) timestamps: bool,
    /// The peer supports SACK.
    pub(super) sack: bool,
    /// Both sides scale windows.
    pub(super) scaling: bool,
    /// Shift of the windows we receive.
    pub(super) send_shift: u8,
    /// Shift of the windows we send.
    pub(super) receive_shift: u8,
    /// An acknowledgement must be sent at once.
    pub(super) ack_now: bool,
    /// One must be sent at the end of the batch of received packets.
    pub(super) ack_soon: bool,
    /// How many acknowledgements are still sent without delay (quick-ack mode).
    pub(super) quick_acks: u8,
    /// Consecutive retransmissions of SYN, data or a probe.
    pub(super) attempts: u8,
    /// How often the wait between answers to empty segments outside of the window has doubled.
    pub(super) outside_doublings: u8,
    /// Unanswered keepalive probes.
    pub(super) keep_probes: u8,
    /// The timer of the present timeout fired late and was set again.
    pub(super) excused: bool,
    /// `tcp_send` found no free frame; the program is notified when there may be some.
    pub(super) starved: bool,
    /// The program found the send buffer full and waits for room.
    pub(super) wants_room: bool,
    /// The transmit queue of its segments.
    pub(super) class: Class,
    /// The segment that was sent last was shorter than a full one and is not acknowledged
    /// (Minshall's variant of Nagle's algorithm).
    pub(super) small_end: Seq,
    pub(super) small_out: bool,
    /// The peer's FIN lies at `fin_at`.
    pub(super) fin_seen: bool,

    /// Payload bytes of a full segment.
    pub(super) mss: u16,
    /// The MSS of the peer's SYN.
    pub(super) peer_mss: u16,
    /// The size of a "full segment" when acknowledging: first the MSS of our SYN; once open, at
    /// most our own segment size, raised to the largest segment received.
    pub(super) receive_mss: u16,
    /// The MSS of our SYN: no segment of the peer is longer, even if several were merged.
    pub(super) offered_mss: u16,
    /// The least retransmission timeout of the path's route, in milliseconds; 0: none.
    pub(super) rto_min_ms: u16,
    /// ISS and IRS.
    pub(super) iss: Seq,
    pub(super) irs: Seq,
    /// SND.WND in bytes, the largest it ever was, and the segment that set it (SND.WL1, SND.WL2).
    pub(super) window: u32,
    pub(super) max_window: u32,
    pub(super) window_seq: Seq,
    pub(super) window_ack: Seq,
    /// The right edge of the offered window: never moves left.
    pub(super) edge: Seq,
    /// Last.ACK.sent (RFC 7323 §4.3), including bytes that it left out: those have arrived, and
    /// their timestamp was evaluated.
    pub(super) acked: Seq,
    pub(super) left_out: AckThinning,
    /// The peer's FIN lies here, if `fin_seen`.
    pub(super) fin_at: Seq,
    /// TS.Recent and when it was taken.
    pub(super) ts_recent: u32,
    pub(super) ts_recent_at: Instant,
    /// Added to our timestamp clock, so that it reveals nothing about the host (RFC 7323 §7.1).
    pub(super) ts_offset: u32,

    pub(super) send: SendQueue,
    pub(super) recv: ReceiveQueue,
    pub(super) sizing: Sizing,
    pub(super) rtt: Rtt,
    pub(super) held_back: PeerAckDelay,
    pub(super) cc: Congestion,
    pub(super) rack: Rack,
    pub(super) prr: Prr,
    pub(super) recovery: Recovery,
    pub(super) marks: Marks,
    pub(super) hole: BlackHole,
    pub(super) urgent: Urgent,
    pub(super) settings: Settings,
    pub(super) tally: Stats,
    pub(super) at: Deadlines,
    /// When the peer was last heard, and when we last sent data.
    pub(super) heard: Instant,
    pub(super) sent: Instant,
    /// Since when there has been no progress though something is to be sent; never = there is
    /// progress.
    pub(super) stuck_since: Instant,
    /// When the peer connected, if the host had not reported a path to it by then: its address may
    /// be forged.
    pub(super) stranger_since: Instant,
    /// Segments retransmitted.
    pub(super) retransmits: u32,
    /// When the last empty segment outside of the window was answered.
    pub(super) outside_at: Instant,
    /// When a frame of the send queue last became free, or the queue was last empty.
    pub(super) freed_at: Instant,
    /// When the last challenge acknowledgement was sent.
    pub(super) challenged_at: Instant,
}

impl Slot for Socket {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Socket {
    /// Bytes of IP and TCP header without options.
    pub(super) const fn header_len(&self) -> u32 {
        match self.remote.address.family() {
            Family::V4 => 40,
            Family::V6 => 60,
        }
    }

    /// The value of our timestamp clock (RFC 7323 §5.4): it ticks once a millisecond.
    pub(super) const fn timestamp(&self, now: Instant) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.ts_offset)
    }

    /// Bytes in flight, as congestion control sees them.
    pub(super) fn in_flight(&self) -> u32 {
        self.send.pipe.saturating_sub(self.recovery.arrived_unnamed)
    }

    /// How much the program may queue. As on Linux, a whole segment as long as the unsent bytes are
    /// below the low-water mark.
    pub(super) fn send_space(&self) -> u32 {
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
    pub(super) fn writable(&self) -> bool {
        let (space, mark) = (self.buffer_space(), self.settings.notsent_lowat);
        let below = mark == 0 || self.send.unsent() < mark.div_ceil(2);
        !self.starved && space > 0 && space >= self.send.queued() / 2 && below
    }

    /// Adopts the route's settings for as long as the connection lasts.
    pub(super) fn follow_route(&mut self, route: &Metrics) {
        self.rto_min_ms = route.rto_min_ms;
        (self.settings.route_hops, self.settings.route_quickack) = (route.hop_limit, route.quick_ack);
    }

    /// The time since the peer was last heard.
    pub(super) fn idle(&self, now: Instant) -> Span {
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
