//! Undoing a window reduction that proved spurious: the segments were late, not lost.
//!
//! Two signs are evaluated here (`frto` has a third). The echoed timestamp is older than the first
//! retransmission (Eifel, RFC 3522), or the peer reports all retransmissions as duplicates (DSACK,
//! RFC 3708). The second sign arrives a round trip later than the first: by then the late segments
//! have ended the recovery. So the earlier state is kept until another window has been
//! acknowledged.

use super::frto::Frto;
use super::recovery::Phase;
use crate::frame::Frames;
use crate::table::Counters;
use crate::tcp::congestion::SavedWindow;
use crate::tcp::connection::socket::Socket;
use crate::tcp::wire::options::SackBlock;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use zerocopy::FromZeros;

/// The state to restore.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Undo {
    /// The window, and its growth state.
    window: SavedWindow,
    /// When the recovery began, and our timestamp clock at that time.
    since: Instant,
    stamp: u32,
    /// The lowest sequence number that was retransmitted, and the one after the highest; equal:
    /// none was.
    start: Seq,
    end: Seq,
    /// Whether there is a state to restore.
    armed: bool,
    /// The peer reported a duplicate of a retransmission.
    pub(in crate::tcp) duplicate_reported: bool,
    /// Retransmitted segments, less those reported as duplicates.
    resent: u16,
}

shared_layout! { Undo { window, since, stamp, start, end, armed, duplicate_reported, resent } }

impl Undo {
    /// The state before the window is reduced at `now`.
    pub(in crate::tcp) fn before(socket: &Socket, now: Instant) -> Self {
        // Copies in flight (of a probe, or of the recovery that a timeout ends) may still be
        // reported as duplicates. Those reports do not concern retransmissions from now on, so they
        // count in addition.
        let recovery = &socket.recovery;
        let under_way = recovery.undo.resent > 0 && (recovery.probing || recovery.phase != Phase::Open);
        let Self { start, end, resent, .. } = if under_way { recovery.undo } else { Self::default() };
        Self {
            window: socket.cc.save(),
            since: now,
            stamp: socket.timestamp(now),
            start,
            end,
            armed: true,
            duplicate_reported: false,
            resent,
        }
    }

    /// The window is reduced for another reason than loss: there is nothing to undo.
    pub(in crate::tcp) fn disarm(&mut self) {
        self.armed = false;
    }

    /// A segment is retransmitted.
    pub(in crate::tcp) fn sent_again(&mut self, start: Seq, end: Seq) {
        let first = self.start == self.end;
        (self.start, self.end) = if first { (start, end) } else { (self.start.min(start), self.end.max(end)) };
        self.resent = self.resent.saturating_add(1);
    }

    /// Whether a reported duplicate was retransmitted, as far as known: if not, the network
    /// duplicated it, or it is from long ago.
    fn covers(&self, block: SackBlock) -> bool {
        self.start != self.end && block.start.ge(self.start) && block.start.lt(block.end) && block.end.le(self.end)
    }
}

impl Socket {
    /// An acknowledgement echoes `echo`. It moved SND.UNA past retransmitted segments, the last
    /// sent at `resent_at` (never: none), or reports duplicates.
    pub(in crate::tcp) fn check_spurious(
        &mut self,
        frames: &mut Frames<'_>,
        counters: &Counters,
        resent_at: Instant,
        echo: Option<u32>,
    ) {
        let recovering = self.recovery.phase != Phase::Open;
        if !recovering && self.send.una.since(self.recovery.point) > self.recovery.undo.window.cwnd {
            self.recovery.undo.armed = false; // all data in flight then has arrived, and so have its reports
        }
        let undo = &self.recovery.undo;
        if !undo.armed {
            return;
        }
        // Retransmissions of an earlier recovery prove nothing about this one.
        let resent = recovering && !resent_at.is_never() && resent_at >= undo.since;
        let older =
            resent && self.negotiated.timestamps && echo.is_some_and(|echo| (echo.wrapping_sub(undo.stamp) as i32) < 0);
        let all_reported = undo.duplicate_reported && undo.resent == 0;
        if older || all_reported {
            self.undo_reduction(frames, counters);
        }
    }

    /// Restores the state before the window was reduced.
    pub(in crate::tcp) fn undo_reduction(&mut self, frames: &mut Frames<'_>, counters: &Counters) {
        let undo = core::mem::take(&mut self.recovery.undo);
        self.cc.restore(&undo.window);
        self.marks.restored();
        if self.recovery.phase == Phase::Open {
            return;
        }
        if self.recovery.phase == Phase::Loss {
            counters.tcp_spurious_rtos.inc();
            self.rtt.recovered();
        }
        self.send.unmark_lost(frames);
        (self.recovery.phase, self.recovery.frto) = (Phase::Open, Frto::Lost);
        self.recovery.duplicates = 0;
    }

    /// The peer reports that it received `block` twice (RFC 2883).
    pub(in crate::tcp) fn duplicate_reported(&mut self, block: SackBlock) {
        // Segments that arrive together may be reported together.
        let segments = (block.end - block.start).div_ceil(u32::from(self.mss).max(1));
        if block.start.lt(block.end) && block.end - block.start <= self.send_window.largest {
            self.stats.duplicates = self.stats.duplicates.wrapping_add(segments);
        }
        let undo = &mut self.recovery.undo;
        let sent_again = undo.covers(block);
        if sent_again {
            undo.duplicate_reported = true;
            undo.resent = undo.resent.saturating_sub(segments.min(u16::MAX.into()) as u16);
        }
        // A spurious probe is no sign of reordering.
        if !sent_again || undo.armed {
            self.rack.spurious(self.send.una, self.send.nxt);
        }
    }
}
