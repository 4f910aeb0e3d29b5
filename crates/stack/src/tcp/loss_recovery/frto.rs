//! F-RTO (RFC 5682): detects spurious timeouts, when a path or a peer became slow at once and
//! nothing was lost.
//!
//! It is meant for peers without timestamps (Eifel) and duplicate reports (DSACK); for others it
//! also decides sooner than a DSACK. After the timeout only the first segment is retransmitted.
//! When it is acknowledged, two new segments are sent instead of those deemed lost. The next
//! acknowledgement decides: if it covers a segment that was sent once, before the timeout, that
//! segment was not lost. As on Linux a further timeout does not change that.

use super::recovery::{News, Phase};
use crate::frame::Frames;
use crate::table::Counters;
use crate::tcp::connection::socket::Socket;
use crate::tcp::send::queue::IN_FLIGHT;
use crate::time::Instant;
use crate::{ConnectionIndex, Stack};
use zerocopy::FromZeros;

/// The state of the detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(in crate::tcp) enum Frto {
    /// Not active: segments deemed lost are retransmitted.
    #[default]
    Lost = 0,
    /// Step 2: the first segment was retransmitted.
    Waiting = 1,
    /// Step 2b: it is acknowledged, new segments are to be sent.
    Ask = 2,
    /// Step 3: they were sent.
    Asked = 3,
}

shared_layout! { enum Frto { Lost, Waiting, Ask, Asked } }

impl Socket {
    /// The retransmission timer has expired; the phase is still the previous one. Step 1: not
    /// during recovery, whose segments are lost already.
    pub(in crate::tcp) fn timeout_in_question(&self, first: bool) -> Frto {
        match self.recovery.phase {
            Phase::Open | Phase::Reduction => Frto::Waiting,
            Phase::Loss if !first => self.recovery.frto,
            _ => Frto::Lost,
        }
    }

    /// Evaluates an acknowledgement after the timeout.
    pub(in crate::tcp) fn judge_timeout(
        &mut self,
        frames: &mut Frames<'_>,
        counters: &Counters,
        now: Instant,
        news: &News,
    ) {
        if self.recovery.phase != Phase::Loss {
            return;
        }
        // An acknowledgement that arrives together with the one that triggered the new segments
        // cannot answer them.
        let answers = self.progress.sent != now && (news.acked > 0 || news.delivered > 0 || news.duplicate);
        self.recovery.frto = match self.recovery.frto {
            Frto::Waiting if news.acked > 0 && self.send.una.lt(self.recovery.point) => Frto::Ask,
            // Without SACK the peer has received something behind the first segment, and may never
            // say more about it.
            Frto::Waiting if news.acked > 0 || news.duplicate && !self.negotiated.sack => Frto::Lost,
            Frto::Asked if news.first_sending && !news.after_timeout && news.resent_at.is_never() => {
                self.undo_reduction(frames, counters);
                Frto::Lost
            }
            Frto::Asked if answers || self.send.una.ge(self.recovery.point) => {
                self.cc.cwnd = 3 * u32::from(self.mss); // step 3a
                Frto::Lost
            }
            same => same,
        };
    }
}

impl Stack<'_> {
    /// Step 2b: sends up to two new segments, whatever else holds them back. If there are none,
    /// segments deemed lost are retransmitted.
    pub(in crate::tcp) fn ask_about_timeout(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        if s.recovery.frto != Frto::Ask {
            return;
        }
        s.recovery.frto = Frto::Lost;
        s.recovery.point = s.send.nxt;
        for _ in 0..2 {
            let s = &mut self.mem.tcp[index];
            let frames = &mut self.mem.frames;
            let ready = |id: &u32| frames.meta[*id as usize].flags & IN_FLIGHT == 0;
            let next = s.send.next.get().filter(ready).filter(|_| s.state.may_transmit());
            let run = next.and_then(|id| s.send.cut_run(frames, id, s.mss.into()));
            let Some(run) = run.filter(|run| (s.send.nxt + run.length).le(s.send.una + s.send_window.size)) else {
                return;
            };
            self.send_segment(index, now, &run);
            let s = &mut self.mem.tcp[index];
            s.recovery.frto = Frto::Asked;
            s.cc.cwnd = s.in_flight(); // nothing else is sent until there is an answer
        }
    }
}
