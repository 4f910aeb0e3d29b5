//! Defaults of all connections, and the state that all connections share.

use crate::pool::SlotLink;
use crate::tcp::congestion::Algorithm;
use crate::tcp::congestion::ecn::Ecn;
use crate::tcp::connection::socket::Socket;
use crate::tcp::receive::ack::Batch;
use crate::tcp::timers::rtt::Bounds;
use crate::tcp::wire::options::MAX_WINDOW_SHIFT;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// RFC 9293 §3.8.6.3.
const LONGEST_ACK_DELAY: Span = Span::from_millis(500);

/// Defaults of TCP. The values fit a LAN; the caller can change all times when it starts the stack.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct TcpConfig {
    /// Retransmission timeout before the first round-trip sample.
    pub initial_rto: Span,
    /// Smallest allowance for delay in a retransmission timeout, on top of the smoothed round trip.
    pub min_rto: Span,
    /// Largest retransmission timeout.
    pub max_rto: Span,
    /// Longest delay of an acknowledgement (RFC 9293 §3.8.6.3 allows 500 ms). The delay in use is
    /// shorter: below `min_rto`, so that a peer that runs this stack does not time out.
    pub ack_delay: Span,
    /// Send buffer at the start, in bytes.
    pub send_buffer: u32,
    /// The send buffer grows up to this many bytes.
    pub send_buffer_max: u32,
    /// Receive buffer at the start, in bytes.
    pub receive_buffer: u32,
    /// The receive buffer grows up to this many bytes.
    pub receive_buffer_max: u32,
    /// How long TIME-WAIT lasts (RFC 9293 §3.6.1: twice the segment lifetime; Linux: 60 s).
    pub time_wait: Span,
    /// How long a closed connection waits in FIN-WAIT-2 for the peer's FIN.
    pub fin_timeout: Span,
    /// How long an incomplete segment is held back by a program's cork, or because the peer's
    /// window is too small to be worth using (RFC 9293 §3.8.6.2.1: 0.1 to 1 s; Linux: 200 ms).
    pub cork_time: Span,
    /// Idle time before keepalive probes (RFC 1122 §4.2.3.6: two hours).
    pub keep_idle: Span,
    /// Time between keepalive probes.
    pub keep_interval: Span,
    /// Number of unanswered keepalive probes after which the connection ends.
    pub keep_count: u8,
    /// Retransmissions of SYN. With 6, as on Linux, a connection attempt ends after 127 s. RFC 9293
    /// §3.8.3 requires three minutes, which programs do not expect.
    pub syn_retries: u8,
    /// Retransmissions of SYN-ACK.
    pub synack_retries: u8,
    /// Retransmissions of data (RFC 9293 §3.8.3 R2).
    pub retries: u8,
    /// Retransmissions of data, FIN or a window probe after the program has closed the connection.
    /// From the smallest timeout, thirteen doublings take 82 seconds.
    pub orphan_retries: u8,
    /// Time to live of packets.
    pub ttl: u8,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Half-open connections of one listener before SYN cookies are used.
    pub syn_queue: u32,
    /// Shift of the windows offered (RFC 7323 §2.2, at most 14): with 7, receive buffers of up to 8
    /// MiB are used in full, and the window moves in steps of 128 bytes.
    pub window_shift: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Whether acknowledgements of small messages wait for [`crate::Stack::acknowledge_held`],
    /// which the caller then has to call whenever a program waits for packets.
    pub hold_acks: bool,
}

shared_layout! { TcpConfig {
    initial_rto, min_rto, max_rto, ack_delay, send_buffer, send_buffer_max, receive_buffer,
    receive_buffer_max, time_wait, fin_timeout, cork_time, keep_idle, keep_interval, keep_count,
    syn_retries, synack_retries, retries, orphan_retries, ttl, algorithm, syn_queue, window_shift,
    ecn, hold_acks,
} }

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            initial_rto: Span::from_secs(1),
            min_rto: Span::from_millis(5),
            max_rto: Span::from_secs(60),
            ack_delay: Span::from_millis(40),
            send_buffer: 256 << 10,
            send_buffer_max: 4 << 20,
            receive_buffer: 256 << 10,
            receive_buffer_max: 4 << 20,
            time_wait: Span::from_secs(60),
            fin_timeout: Span::from_secs(60),
            cork_time: Span::from_millis(200),
            keep_idle: Span::from_secs(7200),
            keep_interval: Span::from_secs(75),
            keep_count: 9,
            syn_retries: 6,
            synack_retries: 5,
            retries: 15,
            orphan_retries: 13,
            ttl: 64,
            algorithm: Algorithm::Cubic,
            syn_queue: 256,
            window_shift: 7,
            ecn: Ecn::Accept,
            hold_acks: false,
        }
    }
}

impl TcpConfig {
    /// The bounds of the retransmission timeout on a route, which may set its own minimum.
    pub(in crate::tcp) const fn bounds(&self, rto_min_ms: u16) -> Bounds {
        let min = match rto_min_ms {
            0 => self.min_rto,
            ms => Span::from_millis(ms as u64),
        };
        Bounds { initial: self.initial_rto, min, max: self.max_rto }
    }

    /// The acknowledgement delay in use.
    pub(in crate::tcp) fn delay(&self) -> Span {
        self.ack_delay.min(Span::from_nanos(self.min_rto.as_nanos() / 4 * 3)).min(LONGEST_ACK_DELAY)
    }
}

/// The state that all connections share.
#[derive(FromZeros)]
#[repr(C)]
pub(crate) struct Shared {
    pub(in crate::tcp) config: TcpConfig,
    /// Connections in TIME-WAIT, the oldest first: it is evicted when a slot is needed.
    pub(in crate::tcp) time_wait_head: SlotLink<Socket>,
    pub(in crate::tcp) time_wait_tail: SlotLink<Socket>,
    /// When to look again for connections whose frames make no progress.
    pub(in crate::tcp) relieve_at: Instant,
    /// When to look again for a connection that holds much data behind a gap.
    pub(in crate::tcp) prune_at: Instant,
    /// When a SYN cookie was last sent; never = none yet.
    pub(in crate::tcp) cookie_sent: Instant,
    /// Arrival time of the last segment from which a program has read.
    pub(in crate::tcp) taken_came: Instant,
    /// The connections whose acknowledgements wait.
    pub(in crate::tcp) batch: Batch,
}

shared_layout! { Shared {
    config, time_wait_head, time_wait_tail, relieve_at, prune_at, cookie_sent, taken_came, batch,
} }

impl Shared {
    /// Takes the configuration.
    pub(crate) fn init(&mut self, config: &TcpConfig) {
        self.config = *config;
        self.config.window_shift = config.window_shift.min(MAX_WINDOW_SHIFT);
    }
}
