//! Whether a timeout was needless (F-RTO, RFC 5682): a path or a peer that became slow at one blow,
//! and no loss.
//!
//! For peers that have neither timestamps to tell it (Eifel) nor duplicates to report (DSACK); they
//! tell it sooner than a report for the others, too. After the timeout the first segment is sent
//! again, and nothing else. When it is acknowledged two new segments are sent instead of what is
//! deemed lost. What is acknowledged next tells: something that was sent once, and before the
//! timeout, was not lost. As on Linux a timeout that follows in vain changes nothing of that.

use super::recovery::{News, Phase};
use super::send::IN_FLIGHT;
use super::socket::Socket;
use crate::Stack;
use crate::frame::Frames;
use crate::table::Counters;
use crate::time::Instant;
use zerocopy::FromZeros;

/// How far the question has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(super) enum Frto {
    /// There is none: what is deemed lost is sent again.
    #[default]
    Lost = 0,
    /// Step 2: the first segment was sent again.
    Waiting = 1,
    /// Step 2b: it is acknowledged, new segments are to be sent.
    Ask = 2,
    /// Step 3: they were.
    Asked = 3,
}

impl Socket {
    /// The retransmission timer has expired; the phase is still what it was before. Step 1: what is
    /// being recovered is lost already.
    pub(super) fn timeout_in_question(&self, first: bool) -> Frto {
        match self.recovery.phase {
            Phase::Open | Phase::Reduction => Frto::Waiting,
            Phase::Loss if !first => self.recovery.frto,
            _ => Frto::Lost,
        }
    }

    /// What an acknowledgement says about the timeout.
    pub(super) fn judge_timeout(&mut self, frames: &mut Frames<'_>, counters: &Counters, now: Instant, news: &News) {
        if self.recovery.phase != Phase::Loss {
            return;
        }
        // What comes together with the acknowledgement that led to the question cannot be the
        // answer.
        let answers = self.sent != now && (news.acked > 0 || news.delivered > 0 || news.duplicate);
        self.recovery.frto = match self.recovery.frto {
            Frto::Waiting if news.acked > 0 && self.send.una.lt(self.recovery.point) => Frto::Ask,
            // Without SACK the peer has something behind the first segment, and this may be all
            // that it ever says of it.
            Frto::Waiting if news.acked > 0 || news.duplicate && !self.sack => Frto::Lost,
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
    /// what is deemed lost is sent again.
    pub(super) fn ask_about_timeout(&mut self, index: usize, now: Instant) {
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
            let Some(run) = run.filter(|run| (s.send.nxt + run.length).le(s.send.una + s.window)) else { return };
            self.send_segment(index, now, &run);
            let s = &mut self.mem.tcp[index];
            s.recovery.frto = Frto::Asked;
            s.cc.cwnd = s.in_flight(); // and nothing else until there is an answer
        }
    }
}
