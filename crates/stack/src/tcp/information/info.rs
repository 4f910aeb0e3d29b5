//! Information about a connection: for the program (`TCP_INFO`, `SIOCINQ`, `SIOCOUTQ`,
//! `SIOCOUTQNSD`, names) and for the public row.

use crate::addr::Endpoint;
use crate::error::Result;
use crate::ids::{ListenerId, TcpId};
use crate::path::Query;
use crate::tcp::congestion::Algorithm;
use crate::tcp::connection::socket::{Socket, TcpState};
use crate::tcp::loss_recovery::recovery::Phase;
use crate::time::{Instant, Span};
use crate::{ConnectionIndex, Stack};

/// The statistics of a connection, enough for most of Linux's `struct tcp_info`.
#[derive(Clone, Copy, Debug)]
pub struct TcpInfo {
    /// The state.
    pub state: TcpState,
    /// Linux's congestion state: 0 open, 2 CWR (explicit congestion notification), 3 recovery, 4
    /// loss.
    pub congestion_state: u8,
    /// Consecutive retransmissions of outstanding data.
    pub retransmits: u8,
    /// Unanswered window or keepalive probes.
    pub probes: u8,
    /// Doublings of the timeout.
    pub backoff: u8,
    /// Timestamps are in use.
    pub timestamps: bool,
    /// SACK is in use.
    pub sack: bool,
    /// Explicit congestion notification is in use.
    pub ecn: bool,
    /// Shifts of the windows received and sent, if scaled.
    pub scale: Option<(u8, u8)>,
    /// Retransmission timeout.
    pub rto: Span,
    /// Delay of acknowledgements.
    pub ack_delay: Span,
    /// Payload of a full segment sent, in bytes.
    pub send_mss: u16,
    /// Payload of a full segment received.
    pub receive_mss: u16,
    /// Bytes sent and not acknowledged.
    pub outstanding: u32,
    /// Of these: selectively acknowledged.
    pub sacked: u32,
    /// Of these: deemed lost, whether or not they are in flight again.
    pub lost: u32,
    /// Of these: retransmitted, and neither deemed lost since nor selectively acknowledged.
    pub resent: u32,
    /// Bytes queued and not sent.
    pub unsent: u32,
    /// Bytes received and not read: what a read would return.
    pub unread: u32,
    /// The value of `FIONREAD`: up to an urgent byte that is ahead.
    pub unread_to_mark: u32,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// Its mean deviation.
    pub rttvar: Span,
    /// Smallest recent round trip.
    pub min_rtt: Span,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow start threshold in bytes.
    pub ssthresh: u32,
    /// The peer's window in bytes.
    pub send_window: u32,
    /// The window that we offer, in bytes.
    pub receive_window: u32,
    /// Receive buffer in bytes.
    pub receive_buffer: u32,
    /// Largest packet of the path.
    pub path_mtu: u32,
    /// Segments retransmitted since the start.
    pub total_retransmits: u32,
    /// Segments sent and received since the start, including acknowledgements. This and the
    /// following counters wrap around.
    pub segments_out: u32,
    /// See `segments_out`.
    pub segments_in: u32,
    /// Of these: with payload.
    pub data_segments_out: u32,
    /// See `data_segments_out`.
    pub data_segments_in: u32,
    /// Payload sent since the start, including retransmissions.
    pub bytes_sent: u64,
    /// Of this: retransmitted.
    pub bytes_resent: u64,
    /// Payload acknowledged.
    pub bytes_acked: u64,
    /// Payload received in order.
    pub bytes_received: u64,
    /// Segments delivered to the peer, including the SYN.
    pub delivered: u32,
    /// Of these: acknowledged together with a congestion mark.
    pub delivered_marked: u32,
    /// Segments that the peer reported as duplicates.
    pub duplicates: u32,
    /// The reordering degree: by how many segments one was overtaken at most, at least 3.
    pub reordering: u32,
    /// How often reordering was seen.
    pub overtaken: u32,
    /// Segments received before an earlier one.
    pub early: u32,
    /// For how long there was data to send or to be acknowledged.
    pub busy: Span,
    /// Time since data was last sent.
    pub since_sent: Span,
    /// Time since anything was last received.
    pub since_received: Span,
    /// Congestion control.
    pub algorithm: Algorithm,
}

impl Socket {
    /// Sequence numbers in flight that are no payload: our SYN, or our FIN.
    fn control_under_way(&self) -> u32 {
        let opening = matches!(self.state, TcpState::SynSent | TcpState::SynReceived);
        u32::from(self.send.outstanding() > 0 && (opening || self.closing.fin_queued && self.send.unsent() == 0))
    }
}

impl Stack<'_> {
    /// The statistics of a connection.
    ///
    /// # Errors
    /// [`crate::StackError::Stale`].
    pub fn tcp_info(&self, id: TcpId, now: Instant) -> Result<TcpInfo> {
        let index = self.check(id)?;
        let config = &self.mem.core.tcp.config;
        let s = &self.mem.tcp[index];
        let row = self.row(index);
        let outstanding = s.send.outstanding().saturating_sub(s.control_under_way());
        let acked = row.tx_bytes.get().saturating_sub(s.stats.bytes_resent).saturating_sub(outstanding.into());
        // A closed connection is not busy any more.
        let until = if s.state == TcpState::Closed { s.progress.sent.max(s.progress.heard) } else { now };
        Ok(TcpInfo {
            state: s.state,
            congestion_state: match s.recovery.phase {
                Phase::Open => 0,
                Phase::Reduction => 2,
                Phase::Recovery => 3,
                Phase::Loss => 4,
            },
            retransmits: s.progress.attempts,
            probes: s.progress.keep_probes,
            backoff: s.rtt.backoff(),
            timestamps: s.negotiated.timestamps,
            sack: s.negotiated.sack,
            ecn: s.negotiated.ecn,
            scale: s.negotiated.shifts(),
            rto: s.rtt.rto(&config.bounds(s.path.rto_min_ms)),
            ack_delay: config.delay(),
            send_mss: s.mss,
            receive_mss: s.receive_mss,
            outstanding: s.send.outstanding(),
            sacked: s.send.board.sacked,
            lost: s.send.board.lost + s.send.board.resent,
            resent: s.send.board.again,
            unsent: s.send.unsent(),
            unread: s.readable(),
            unread_to_mark: s.unread_to_mark(),
            srtt: s.rtt.srtt,
            rttvar: s.rtt.rttvar,
            min_rtt: s.rtt.min,
            cwnd: s.cc.cwnd,
            ssthresh: s.cc.ssthresh,
            send_window: s.send_window.size,
            receive_window: s.open_window(),
            receive_buffer: s.settings.receive_buffer,
            path_mtu: self.path_of(index).map_or(s.path.mtu, |path| path.mtu(now)),
            total_retransmits: s.progress.retransmits,
            segments_out: row.tx_packets.get() as u32,
            segments_in: row.rx_packets.get() as u32,
            data_segments_out: s.stats.segments_out,
            data_segments_in: s.stats.segments_in,
            bytes_sent: row.tx_bytes.get(),
            bytes_resent: s.stats.bytes_resent,
            bytes_acked: acked,
            bytes_received: row.rx_bytes.get(),
            delivered: s.stats.delivered.wrapping_add(u32::from(s.send.una != s.iss)),
            delivered_marked: s.stats.delivered_marked,
            duplicates: s.stats.duplicates,
            reordering: s.stats.degree(),
            overtaken: s.stats.overtaken,
            early: s.stats.early,
            busy: s.stats.busy(until),
            since_sent: now.since(s.progress.sent),
            since_received: now.since(s.progress.heard),
            algorithm: s.cc.algorithm,
        })
    }

    /// The key of a connection's path.
    ///
    /// # Errors
    /// [`crate::StackError::Stale`].
    pub fn tcp_query(&self, id: TcpId) -> Result<Query> {
        let index = self.check(id)?;
        Ok(self.mem.tcp[index].query())
    }

    /// Both endpoints of a connection: ours, then the peer's.
    ///
    /// # Errors
    /// [`crate::StackError::Stale`].
    pub fn tcp_endpoints(&self, id: TcpId) -> Result<(Endpoint, Endpoint)> {
        let index = self.check(id)?;
        let s = &self.mem.tcp[index];
        Ok((s.local, s.remote))
    }

    /// The outgoing interface of a connection, by the host's number; 0 if the host may choose. It
    /// is set if the program has bound it, or for a link-local peer.
    ///
    /// # Errors
    /// [`crate::StackError::Stale`].
    pub fn tcp_interface(&self, id: TcpId) -> Result<u32> {
        Ok(self.mem.tcp[self.check(id)?].settings.interface)
    }

    /// The endpoint of a listener.
    ///
    /// # Errors
    /// [`crate::StackError::Stale`].
    pub fn tcp_listener_endpoint(&self, id: ListenerId) -> Result<Endpoint> {
        let index = self.check(id)?;
        Ok(self.mem.listeners[index].local)
    }

    /// Writes the public information about a connection into its row.
    pub(in crate::tcp) fn update_row(&mut self, index: ConnectionIndex) {
        let s = &self.mem.tcp[index];
        if s.state == TcpState::Free {
            return;
        }
        let bounds = self.mem.core.tcp.config.bounds(s.path.rto_min_ms);
        let row = self.row(index);
        row.state.set(u32::from(s.state as u8));
        row.rx_queue.set(s.recv.bytes);
        row.tx_queue.set(s.send.queued());
        row.snd_nxt.set(s.send.nxt.0);
        row.snd_una.set(s.send.una.0);
        row.rcv_nxt.set(s.recv.next.0);
        row.cwnd.set(s.cc.cwnd);
        row.ssthresh.set(s.cc.ssthresh);
        row.mss.set(u32::from(s.mss));
        row.retransmits.set(s.progress.retransmits);
        row.srtt_us.set(s.rtt.srtt.as_micros() as u32);
        row.rto_us.set(s.rtt.rto(&bounds).as_micros() as u32);
        // The next hop may change at any time; the service needs the one in use to reset a dead
        // program's connections.
        if let Some(path) = self.path_of(index) {
            row.interface.set(path.info.interface);
            row.source_mac.set(path.info.source_mac);
            row.next_hop_mac.set(path.info.next_hop_mac);
        }
    }
}
