//! Memory pressure: sharing frames among connections. A peer that requests much and reads nothing
//! occupies the frames that are queued for it. A peer that leaves a gap and sends single bytes
//! behind it occupies a frame for each. A few dozen such peers must not occupy all frames.
//!
//! A connection may hold only a part of the frames that are left (dynamic thresholds: Choudhury and
//! Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). Once many are taken, it may hold only
//! what its congestion window can use. If frames run short all the same, connections whose frames
//! have made no progress for long are aborted, as RFC 6429 §4 allows, those without a handle first.
//! Data behind a gap is dropped sooner: the peer retransmits it (RFC 2018 §8).

use super::socket::{Pending, Socket, Waiting};
use crate::frame::Frames;
use crate::tcp::send::multi_frame_segment;
use crate::time::{Instant, Span};
use crate::{ConnectionIndex, Stack};

/// A connection may hold one part in this many of the frames that are left.
const SHARE: usize = 4;
/// Behind a gap, one in this many: a whole window of full segments may wait there.
const WAITING_SHARE: usize = 2;
/// A connection may always queue the data of an initial window, with a margin.
const LEAST: u32 = 20;
/// Connections to abort are looked for no more often than this.
const INTERVAL: Span = Span::from_millis(100);
/// A connection is aborted if none of its frames became free for this long; sooner if it has no
/// handle any more.
const STUCK: Span = Span::from_secs(60);
const STUCK_ORPHAN: Span = Span::from_secs(10);
/// The same for a connection whose peer keeps its window shut, once so few frames are left that a
/// connection that holds none may get none. Many peers that read nothing must not stop all others
/// for a minute. A connection whose peer does not acknowledge keeps the longer time, however little
/// it holds. Its network may be down, possibly in the sending direction only, so received segments
/// prove nothing.
const STUCK_CRITICAL: Span = Span::from_secs(5);

/// Below this many free frames no connection takes one for sending: the last sixteenth keeps the
/// receive reserve filled.
fn least_for_one(all: usize) -> usize {
    all / 16 + all / 64
}

impl Socket {
    /// How many free frames this connection must leave to others.
    pub(in crate::tcp) fn frames_for_others(&self, frames: &Frames<'_>) -> usize {
        let (all, available, held) = (frames.meta.len(), frames.available(), self.send.frames);
        let spare = available.saturating_sub(all / 8);
        // So many more that the sum is one part in `SHARE` of what is then left.
        let mut more = spare.saturating_sub(SHARE * held as usize) / (SHARE + 1);
        if spare < all / 2 {
            let part = multi_frame_segment::part(self.mss.into()).max(1) as u32;
            let useful = (2 * self.cc.cwnd / part).max(LEAST);
            more = more.min(useful.saturating_sub(held) as usize);
        }
        // Each connection may have one when the others have taken nearly all.
        if more == 0 && held == 0 && available > least_for_one(all) {
            more = 1;
        }
        available - more
    }

    /// Whether the peer is alive but keeps its window shut: all that was sent is acknowledged, and
    /// the rest waits for the window to open (RFC 6429 §2).
    fn is_refused(&self) -> bool {
        self.at.waiting == Waiting::Persist && self.send.outstanding() == 0
    }

    /// Whether it holds its full share of frames behind a gap, so that no more out-of-order data is
    /// taken. The window counts bytes: in segments of single bytes it would promise every frame
    /// there is.
    pub(in crate::tcp) fn keeps_enough_waiting(&self, frames: &Frames<'_>) -> bool {
        let spare = frames.available().saturating_sub(frames.meta.len() / 8);
        self.recv.waiting_frames as usize >= (spare / WAITING_SHARE).max(self.fair_share() as usize)
    }
}

impl Stack<'_> {
    /// Connection `except` wanted more frames than it got. If few are left, aborts the connection
    /// that holds most of them without progress.
    pub(in crate::tcp) fn relieve(&mut self, except: ConnectionIndex, now: Instant) {
        let shared = &mut self.mem.core.tcp;
        let (available, all) = (self.mem.frames.available(), self.mem.frames.meta.len());
        if available >= all / 4 || now < shared.relieve_at {
            return;
        }
        shared.relieve_at = now + INTERVAL;
        let critical = available <= least_for_one(all);
        let stuck = |s: &Socket| {
            let (timeout, least) = match s.orphan {
                _ if critical && s.is_refused() => (STUCK_CRITICAL, 1),
                _ if critical && s.send.frames < LEAST / 2 => (STUCK, 1),
                true => (STUCK_ORPHAN, LEAST / 2),
                false => (STUCK, LEAST / 2),
            };
            s.state.is_synchronized()
                && !s.suspended
                && s.send.frames >= least
                && now.since(s.progress.freed_at) >= timeout
        };
        let all = self.mem.tcp.enumerate().filter(|(index, s)| *index != except && stuck(s));
        // First those without a handle. But a single frame (a FIN) from each of many closed
        // connections would not relieve the pressure.
        let first = |s: &Socket| s.orphan && s.send.frames >= LEAST / 2;
        let Some((index, _)) = all.max_by_key(|(_, s)| (first(s), s.send.frames)) else { return };
        self.mem.counters.tcp_abort_on_memory.inc();
        self.send_reset(index, now);
        self.fail(index, Pending::TimedOut);
    }

    /// Data has arrived. If few frames are left, the connection that holds most of them behind a
    /// gap drops that data, if it exceeds its present share.
    pub(in crate::tcp) fn prune_largest(&mut self, now: Instant) {
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
