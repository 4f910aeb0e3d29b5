//! Taking back a reduction of the window that proved needless: the segments were late, not lost.
//!
//! Two signs count: the timestamp that is echoed is older than the first retransmission (Eifel, RFC 3522), or the peer
//! reports everything that was sent again as a duplicate (DSACK, RFC 3708).

use super::recovery::Phase;
use super::seq::Seq;
use super::socket::Socket;
use crate::frame::Frames;
use crate::table::Counters;
use crate::time::Instant;
use zerocopy::FromZeros;

/// What to return to.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Undo {
    cwnd: u32,
    ssthresh: u32,
    /// When the recovery began, and our timestamp clock then.
    since: Instant,
    stamp: u32,
    /// SND.UNA then: a duplicate from before was sent again earlier, and says nothing of this recovery.
    una: Seq,
    /// Whether there is something to return to.
    armed: bool,
    /// The peer reported a duplicate during this recovery, or of this probe.
    pub(super) duplicate_reported: bool,
    /// Segments sent again in this recovery, less those reported as duplicates.
    pub(super) resent: u16,
}

impl Undo {
    /// The state before the window is reduced at `now`.
    pub(super) fn before(socket: &Socket, now: Instant) -> Self {
        Self {
            cwnd: socket.cc.cwnd,
            ssthresh: socket.cc.ssthresh,
            since: now,
            stamp: socket.timestamp(now),
            armed: true,
            ..Self::nothing(socket.send.una)
        }
    }

    /// Nothing to return to: a probe of what lies from `una` on is sent.
    pub(super) fn nothing(una: Seq) -> Self {
        Self { una, ..Self::default() }
    }
}

impl Socket {
    /// An acknowledgement moved SND.UNA past segments that were sent again, the last at `resent_at` (never: there were
    /// none), and echoes `echo`.
    pub(super) fn check_spurious(
        &mut self,
        frames: &mut Frames<'_>,
        counters: &Counters,
        resent_at: Instant,
        echo: Option<u32>,
    ) {
        let undo = &self.recovery.undo;
        if self.recovery.phase == Phase::Open || !undo.armed {
            return;
        }
        // What was sent again in an earlier recovery says nothing about this one.
        let resent = !resent_at.is_never() && resent_at >= undo.since;
        let older = resent && self.timestamps && echo.is_some_and(|echo| (echo.wrapping_sub(undo.stamp) as i32) < 0);
        let all_reported = undo.duplicate_reported && undo.resent == 0;
        if !older && !all_reported {
            return;
        }
        if self.recovery.phase == Phase::Loss {
            counters.tcp_spurious_rtos.inc();
            self.rtt.recovered();
        }
        let Undo { cwnd, ssthresh, .. } = self.recovery.undo;
        self.cc.cwnd = self.cc.cwnd.max(cwnd);
        self.cc.ssthresh = self.cc.ssthresh.max(ssthresh);
        self.send.unmark_lost(frames);
        self.marks.restored();
        self.recovery.undo = Undo::default();
        self.recovery.phase = Phase::Open;
        self.recovery.duplicates = 0;
    }

    /// The peer reports that it received what lies before `end` twice (RFC 2883).
    pub(super) fn duplicate_reported(&mut self, end: Seq) {
        let undo = &mut self.recovery.undo;
        if end.gt(undo.una) {
            undo.duplicate_reported = true;
            undo.resent = undo.resent.saturating_sub(1);
        }
        self.rack.spurious(self.send.una, self.send.nxt);
    }
}
