//! Sharing frames among those who send, and those who wait for what is missing. A peer that asks
//! for much and reads nothing keeps what is queued for it; one that leaves a gap, and sends single
//! bytes behind it, keeps a frame for each; some dozens of such peers must not keep all there is.
//!
//! A connection may hold only a part of what is left over (dynamic thresholds: Choudhury and Hahne,
//! IEEE/ACM Transactions on Networking 6(2), 1998), and once much is taken, only what its
//! congestion window has use for. If frames run short all the same, connections that have not got
//! rid of one for long are given up, as RFC 6429 §4 allows, those that no program holds first. What
//! waits behind a gap is let go sooner: it comes again (RFC 2018 §8).

use super::socket::{Pending, Socket, Waiting};
use crate::Stack;
use crate::frame::Frames;
use crate::time::{Instant, Span};

/// A connection may hold one part of what is left over in so many.
const SHARE: usize = 4;
/// Behind a gap, one in so many: a whole window of full segments may wait there.
const WAITING_SHARE: usize = 2;
/// A connection may always queue as much as a new one may send at once, with some to spare.
const LEAST: u32 = 20;
/// Connections to be given up are looked for no more often than this.
const INTERVAL: Span = Span::from_millis(100);
/// A connection is given up if none of its frames became free for so long; if no program holds it
/// any more, after a shorter time.
const STUCK: Span = Span::from_secs(60);
const STUCK_ORPHAN: Span = Span::from_secs(10);
/// The same for who is refused, once so few are left that a connection which holds none may get
/// none: many peers that read nothing must not stop all others for a minute. Whose peer does not
/// acknowledge has as much time as ever, however little he holds then: it may be the network that
/// is away, in his direction alone too, so that to hear the peer proves nothing.
const STUCK_CRITICAL: Span = Span::from_secs(5);

/// No connection takes a frame for what it sends from so few: the last sixteenth keeps the fill
/// ring fed.
fn least_for_one(all: usize) -> usize {
    all / 16 + all / 64
}

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
        // Each may have one when the others have taken nearly all.
        if more == 0 && held == 0 && available > least_for_one(all) {
            more = 1;
        }
        available - more
    }

    /// Whether the peer is there and takes nothing: all that was sent has arrived, and the rest
    /// waits for it to open its window (RFC 6429 §2).
    fn is_refused(&self) -> bool {
        self.at.waiting == Waiting::Persist && self.send.outstanding() == 0
    }

    /// Whether it keeps its part of what is left over behind a gap, so that nothing more is taken
    /// there. A window counts bytes: of single ones it would promise every frame there is.
    pub(super) fn keeps_enough_waiting(&self, frames: &Frames<'_>) -> bool {
        let spare = frames.available().saturating_sub(frames.meta.len() / 8);
        self.recv.waiting_frames as usize >= (spare / WAITING_SHARE).max(self.fair_share() as usize)
    }
}

impl Stack<'_> {
    /// Connection `except` wanted more frames than it got. If few are left, the connection that
    /// keeps most of them in vain is given up.
    pub(super) fn relieve(&mut self, except: usize, now: Instant) {
        let shared = &mut self.mem.core.tcp;
        let (available, all) = (self.mem.frames.available(), self.mem.frames.meta.len());
        if available >= all / 4 || now < shared.relieve_at {
            return;
        }
        shared.relieve_at = now + INTERVAL;
        let critical = available <= least_for_one(all);
        let stuck = |s: &Socket| {
            let (patience, least) = match s.orphan {
                _ if critical && s.is_refused() => (STUCK_CRITICAL, 1),
                _ if critical && s.send.frames < LEAST / 2 => (STUCK, 1),
                true => (STUCK_ORPHAN, LEAST / 2),
                false => (STUCK, LEAST / 2),
            };
            s.state.is_synchronized() && !s.suspended && s.send.frames >= least && now.since(s.freed_at) >= patience
        };
        let all = self.mem.tcp.iter().enumerate().filter(|(index, s)| *index != except && stuck(s));
        // First whom no program holds; but one frame, a FIN's, from each of many that are closed
        // would not help who waits.
        let first = |s: &Socket| s.orphan && s.send.frames >= LEAST / 2;
        let Some((index, _)) = all.max_by_key(|(_, s)| (first(s), s.send.frames)) else { return };
        self.mem.counters.tcp_abort_on_memory.inc();
        self.send_reset(index, now);
        self.fail(index, now, Pending::TimedOut);
    }

    /// Data has come. If few frames are left, the connection that keeps most of them behind a gap,
    /// and more than it might by now, lets them go.
    pub(super) fn prune_largest(&mut self, now: Instant) {
        let shared = &mut self.mem.core.tcp;
        let frames = &mut self.mem.frames;
        if frames.available() >= frames.meta.len() / 4 || now < shared.prune_at {
            return;
        }
        shared.prune_at = now + INTERVAL;
        let all = self.mem.tcp.iter_mut().filter(|s| s.recv.waiting_frames >= LEAST && s.keeps_enough_waiting(frames));
        let Some(s) = all.max_by_key(|s| s.recv.waiting_frames) else { return };
        self.mem.counters.tcp_ofo_drop.add(s.recv.waiting_frames.into());
        s.recv.prune(frames);
    }
}
