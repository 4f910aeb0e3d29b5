//! Loss recovery (RFC 6675 §5, RFC 6582, RFC 8985): acknowledgements determine retransmissions and
//! the window.

use super::frto::Frto;
use super::prr::Prr;
use super::spurious::Undo;
use crate::frame::Frames;
use crate::table::Counters;
use crate::tcp::congestion::Acked;
use crate::tcp::connection::socket::Socket;
use crate::tcp::send::queue::Delivered;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The phase of loss recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(in crate::tcp) enum Phase {
    /// Nothing is known to be lost.
    #[default]
    Open = 0,
    /// Fast recovery: PRR controls the window.
    Recovery = 1,
    /// After a retransmission timeout: slow start.
    Loss = 2,
    /// The peer has echoed a router's mark (RFC 3168 §6.1.2): PRR controls the window, and nothing
    /// is lost.
    Reduction = 3,
}

shared_layout! { enum Phase { Open, Recovery, Loss, Reduction } }

impl Phase {
    /// Whether losses are being repaired.
    pub(in crate::tcp) const fn repairs(self) -> bool {
        matches!(self, Self::Recovery | Self::Loss)
    }
}

/// The state of recovery.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Recovery {
    pub(in crate::tcp) phase: Phase,
    /// Consecutive duplicate acknowledgements.
    pub(in crate::tcp) duplicates: u8,
    /// Recovery ends when this is acknowledged (RecoveryPoint).
    pub(in crate::tcp) point: Seq,
    /// Without SACK: bytes represented by duplicate acknowledgements (RFC 6582's inflation).
    pub(in crate::tcp) arrived_unnamed: u32,
    /// A round trip ends when this is acknowledged.
    pub(in crate::tcp) round: Seq,
    /// The most bytes in flight in this round.
    pub(in crate::tcp) most_in_flight: u32,
    /// Data before this was sent while the congestion window was the limit.
    pub(in crate::tcp) limited_to: Seq,
    /// A tail loss probe is in flight up to here (RFC 8985 §7.4).
    pub(in crate::tcp) probe_end: Seq,
    pub(in crate::tcp) probing: bool,
    pub(in crate::tcp) probe_was_retransmission: bool,
    /// State of the detection of spurious timeouts.
    pub(in crate::tcp) frto: Frto,
    /// The state to restore if the recovery proves spurious.
    pub(in crate::tcp) undo: Undo,
}

shared_layout! { Recovery {
    phase, duplicates, point, arrived_unnamed, round, most_in_flight, limited_to, probe_end,
    probing, probe_was_retransmission, frto, undo,
} }

/// The results of one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct News {
    /// Bytes by which SND.UNA advanced.
    pub(in crate::tcp) acked: u32,
    /// Bytes delivered, by ACK or SACK, for the first time.
    pub(in crate::tcp) delivered: u32,
    /// Segments delivered likewise.
    pub(in crate::tcp) segments: u32,
    /// The start of the first of them that was sent once and overtaken by a later one.
    pub(in crate::tcp) overtaken: Option<Seq>,
    /// It is a duplicate acknowledgement (RFC 5681 §2).
    pub(in crate::tcp) duplicate: bool,
    /// The latest send time of retransmitted segments that SND.UNA passed; never = there were none.
    pub(in crate::tcp) resent_at: Instant,
    /// It echoes a mark, and this window has not been reduced yet.
    pub(in crate::tcp) marked: bool,
    /// Some of the delivered data had been sent once, and before the point at which recovery ends.
    pub(in crate::tcp) first_sending: bool,
    /// Some of the delivered data lies behind that point.
    pub(in crate::tcp) after_timeout: bool,
    /// SACK blocks of data that was never sent, or is already acknowledged.
    pub(in crate::tcp) senseless: u64,
}

impl News {
    /// The segment was overtaken by a later one. Segments are passed in the order of their sequence
    /// numbers, first acknowledged ones, then those of the blocks.
    #[cold]
    pub(in crate::tcp) fn overtaken(&mut self, segment: &Delivered) {
        self.overtaken.get_or_insert(segment.end - segment.bytes);
    }

    /// A segment was delivered; recovery, if active, ends at `point`.
    pub(in crate::tcp) fn delivered(&mut self, segment: &Delivered, point: Seq) {
        self.delivered += segment.bytes;
        self.segments += u32::from(segment.begins);
        self.after_timeout |= segment.end.gt(point);
        self.first_sending |= !segment.retransmitted && segment.end.le(point);
    }
}

impl Socket {
    /// Detects losses after an acknowledgement and updates the window. Returns after what time more
    /// losses may be detected.
    pub(in crate::tcp) fn recover(
        &mut self,
        frames: &mut Frames<'_>,
        counters: &Counters,
        now: Instant,
        news: &News,
    ) -> Option<Span> {
        let mss = u32::from(self.mss);
        let new_round = self.send.una.ge(self.recovery.round);
        if new_round {
            self.recovery.round = self.send.nxt;
        }
        self.check_probe(counters, now, news);
        self.judge_timeout(frames, counters, now, news);
        let was = self.recovery.phase;
        if was != Phase::Open && self.send.una.ge(self.recovery.point) {
            self.leave_recovery();
        }
        let lost_before = self.send.board.lost;
        let wait = self.rack.detect(now, &mut self.send, frames, &self.rtt, self.recovery.phase.repairs(), mss);
        let delivered = if self.negotiated.sack { news.delivered } else { self.count_duplicates(frames, news) };
        let found = self.send.board.lost > lost_before;
        if self.send.board.lost > 0 && !self.recovery.phase.repairs() {
            counters.tcp_recoveries.inc();
            self.enter_recovery(now, delivered);
        } else if news.marked && self.recovery.phase == Phase::Open {
            counters.tcp_ecn_reductions.inc();
            self.recovery.undo.disarm();
            self.begin_reduction(Phase::Reduction, delivered);
        }
        match self.recovery.phase {
            Phase::Open | Phase::Loss => {
                let cwnd_limited = self.was_limited(news);
                // The acknowledgement that ends slow start's repair counts as well. Otherwise a
                // single segment would follow, which a peer may not acknowledge for long.
                let after_timeout = was == Phase::Loss || self.recovery.phase == Phase::Loss;
                if news.acked > 0 && (was == Phase::Open || after_timeout) {
                    // After a timeout a number that jumps over data already reported by SACK would
                    // open the whole window at once (RFC 5681 §3.1: newly acknowledged data).
                    let bytes = if after_timeout { news.delivered } else { news.acked };
                    let acked = Acked { now, bytes, mss, cwnd_limited, new_round };
                    self.cc.on_ack(&acked, &self.rtt);
                }
            }
            Phase::Recovery | Phase::Reduction => {
                let pipe = self.in_flight();
                let safe = news.acked > 0 && !found;
                self.cc.cwnd = self.prr.window(delivered, pipe, self.cc.ssthresh, mss, safe);
            }
        }
        if new_round {
            self.recovery.most_in_flight = self.send.pipe + news.delivered;
        }
        wait
    }

    /// Whether the congestion window was the limit when the acknowledged data was sent: only then
    /// may it grow (RFC 9438 §5.8). In slow start it is enough that half of it was used in this
    /// round, as on Linux.
    fn was_limited(&mut self, news: &News) -> bool {
        let limited = self.recovery.limited_to.gt(self.send.una - news.acked);
        if self.recovery.limited_to.lt(self.send.una) {
            self.recovery.limited_to = self.send.una;
        }
        let most = self.recovery.most_in_flight.max(self.send.pipe + news.delivered).max(self.mss.into());
        limited || self.cc.in_slow_start() && self.cc.cwnd < 2 * most
    }

    /// Starts fast recovery, on an acknowledgement that delivered `delivered` bytes. A window that
    /// was reduced because of a router's mark is not reduced again for the loss (RFC 3168 §6.1.2).
    pub(in crate::tcp) fn enter_recovery(&mut self, now: Instant, delivered: u32) {
        if self.recovery.phase == Phase::Reduction {
            (self.recovery.phase, self.recovery.point) = (Phase::Recovery, self.send.nxt);
        } else {
            self.recovery.undo = Undo::before(self, now);
            self.begin_reduction(Phase::Recovery, delivered);
        }
        self.recovery.probing = false;
        self.peer_ack_delay.lost();
    }

    /// Lowers the slow start threshold; PRR leads the window to it.
    fn begin_reduction(&mut self, phase: Phase, delivered: u32) {
        self.cc.on_congestion(u32::from(self.mss));
        self.marks.reduced(self.send.nxt);
        // RFC 9937 §6.1: data that had arrived before is not delivered in this recovery.
        let arrived = self.send.board.sacked.saturating_add(self.recovery.arrived_unnamed);
        self.prr = Prr::begin(self.send.outstanding().saturating_sub(arrived).saturating_add(delivered));
        self.recovery.phase = phase;
        self.recovery.point = self.send.nxt;
    }

    fn leave_recovery(&mut self) {
        if self.recovery.phase != Phase::Loss {
            self.cc.cwnd = self.cc.ssthresh; // RFC 6937 §3
        }
        self.recovery.phase = Phase::Open;
        self.recovery.duplicates = 0;
        self.recovery.arrived_unnamed = 0;
        self.rack.recovered();
    }

    /// Without SACK: the third duplicate acknowledgement indicates that the first segment is lost
    /// (RFC 5681 §3.2), and so does each partial acknowledgement in recovery (RFC 6582 §3.2).
    /// Returns how many bytes have arrived.
    fn count_duplicates(&mut self, frames: &mut Frames<'_>, news: &News) -> u32 {
        let (mss, mut delivered) = (u32::from(self.mss), news.delivered);
        let recovering = self.recovery.phase == Phase::Recovery;
        // After a timeout it is unknown what duplicates represent: everything is deemed lost, and
        // nothing counts as in flight.
        if news.duplicate && self.recovery.phase != Phase::Loss {
            self.recovery.duplicates = self.recovery.duplicates.saturating_add(1);
            let before = self.recovery.arrived_unnamed;
            self.recovery.arrived_unnamed = before.saturating_add(mss).min(self.send.pipe);
            delivered = self.recovery.arrived_unnamed.saturating_sub(before);
        } else if news.acked > 0 {
            self.recovery.duplicates = 0;
            // One segment filled the gap; duplicates represented the others.
            let counted = self.recovery.arrived_unnamed.min(news.acked.saturating_sub(mss));
            delivered = delivered.saturating_sub(counted);
            let left = if recovering { self.recovery.arrived_unnamed - counted } else { 0 };
            self.recovery.arrived_unnamed = left.min(self.send.pipe);
        }
        let first_is_lost = self.recovery.duplicates == 3 && !recovering || recovering && news.acked > 0;
        if first_is_lost
            && self.recovery.phase != Phase::Loss
            && let Some(head) = self.send.head.get()
            && self.send.head != self.send.next
            && frames.meta[head as usize].flags & crate::frame::flag::LOST == 0
        {
            self.send.mark_first_lost(frames, mss);
        }
        delivered
    }

    /// What the probe repeated, if anything, was late, not lost.
    pub(in crate::tcp) fn probe_was_needless(&mut self, now: Instant) {
        self.recovery.probing = false;
        if self.recovery.probe_was_retransmission {
            self.peer_ack_delay.needless_probe(now);
        }
    }

    /// RFC 8985 §7.4.2: if the probe repaired a loss, the window must react to that loss. There was
    /// none if the peer reports the segment as a duplicate.
    fn check_probe(&mut self, counters: &Counters, now: Instant, news: &News) {
        let end = self.recovery.probe_end;
        if !self.recovery.probing || self.send.una.lt(end) {
            return;
        }
        if !self.recovery.probe_was_retransmission || self.recovery.undo.duplicate_reported || news.duplicate {
            self.probe_was_needless(now);
        } else if self.send.una.gt(end) {
            self.recovery.probing = false;
            counters.tcp_loss_probe_recovery.inc();
            self.peer_ack_delay.lost();
            if self.recovery.phase == Phase::Open {
                self.cc.on_congestion(u32::from(self.mss));
                self.marks.reduced(self.send.nxt);
                self.cc.cwnd = self.cc.cwnd.min(self.cc.ssthresh);
            }
        }
    }
}
