//! Sharing frames among those who send. A peer that asks for much and reads nothing keeps what is queued for it; some dozens of
//! such peers must not keep all there is.
//!
//! A connection may hold only a part of what is left over (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on
//! Networking 6(2), 1998), and once much is taken, only what its congestion window has use for. If frames run short all the same,
//! connections that have not got rid of one for long are given up, as RFC 6429 §4 allows, those that no program holds first.

use super::socket::{Pending, Socket};
use crate::Stack;
use crate::frame::Frames;
use crate::time::{Instant, Span};

/// A connection may hold one part of what is left over in so many.
const SHARE: usize = 4;
/// A connection may always queue as much as a new one may send at once, with some to spare.
const LEAST: u32 = 20;
/// Connections to be given up are looked for no more often than this.
const INTERVAL: Span = Span::from_millis(100);
/// A connection is given up if none of its frames became free for so long; if no program holds it any more, after a shorter time.
const STUCK: Span = Span::from_secs(60);
const STUCK_ORPHAN: Span = Span::from_secs(10);

impl Socket {
    /// How many free frames this connection has to leave to others.
    pub(super) fn frames_for_others(&self, frames: &Frames<'_>) -> usize {
        let (all, available, held) = (frames.meta.len(), frames.available(), self.send.frames);
        let spare = available.saturating_sub(all / 8);
        // So many more that the sum is one part in `SHARE` of what is left over then.
        let mut more = spare.saturating_sub(SHARE * held as usize) / (SHARE + 1);
        if spare < all / 2 {
            let part = super::run::part(self.mss.into()).max(1) as u32;
            let useful = (2 * self.cc.cwnd / part).max(LEAST);
            more = more.min(useful.saturating_sub(held) as usize);
        }
        // Each may have one when the others have taken nearly all; the last sixteenth keeps the fill ring fed.
        if more == 0 && held == 0 && available > all / 16 + all / 64 {
            more = 1;
        }
        available - more
    }
}

impl Stack<'_> {
    /// Connection `except` wanted more frames than it got. If few are left, the connection that keeps most of them in vain is given up.
    pub(super) fn relieve(&mut self, except: usize, now: Instant) {
        let shared = &mut self.mem.core.tcp;
        if self.mem.frames.available() >= self.mem.frames.meta.len() / 4 || now < shared.relieve_at {
            return;
        }
        shared.relieve_at = now + INTERVAL;
        let stuck = |s: &Socket| {
            let patience = if s.orphan { STUCK_ORPHAN } else { STUCK };
            s.state.is_synchronized() && s.send.frames >= LEAST / 2 && now.since(s.freed_at) >= patience
        };
        let all = self.mem.tcp.iter().enumerate().filter(|(index, s)| *index != except && stuck(s));
        let Some((index, _)) = all.max_by_key(|(_, s)| (s.orphan, s.send.frames)) else { return };
        self.mem.counters.tcp_abort_on_memory.inc();
        self.send_reset(index, now);
        self.fail(index, now, Pending::TimedOut);
    }
}
