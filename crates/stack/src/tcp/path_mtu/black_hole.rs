//! Path MTU black holes: paths that drop large packets silently (RFC 8899 §4.3, RFC 4821 §7.7).
//! Examples are a switch that takes no jumbo frames, and a tunnel whose router may not send ICMP.
//!
//! A segment that is retransmitted in vain is cut into smaller pieces after a few timeouts. That
//! alone changes nothing: a path that is down drops small packets, too. Segments stay small only if
//! a small one is the first to arrive. Then a full one is sent next, to find out whether it was an
//! outage after all: if it arrives, the full size is restored. Otherwise it is retransmitted in
//! small pieces. The next probe follows two seconds later, and the interval doubles each time.
//!
//! Such a probe is program data, and its loss counts as congestion. RFC 8899 §3 would spare the
//! window, but probes are rare.

use crate::addr::Family;
use crate::frame::{FrameId, Frames, flag};
use crate::pool::PoolLink;
use crate::tcp::connection::socket::Socket;
use crate::tcp::loss_recovery::recovery::Phase;
use crate::tcp::send::multi_frame_segment::MultiFrameSegment;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use crate::{ConnectionIndex, Stack};
use zerocopy::FromZeros;

/// Packet sizes to fall back to, and after how many timeouts: what Ethernet carries, what IPv6
/// needs (RFC 8200 §5), what every host accepts (RFC 9293 §3.7.1).
const STEPS: [(u32, u8); 3] = [(1500, 3), (LEAST_V6, 4), (576, 6)];

const LEAST_V6: u32 = 1280;

/// Interval before the next probe after a lost one; it doubles each time.
const AGAIN: Span = Span::from_secs(2);

/// The longest interval (RFC 8899 §5.1.1, PMTU_RAISE_TIMER).
const AGAIN_MOST: Span = Span::from_secs(600);

/// What is being probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
enum Trying {
    /// Nothing.
    #[default]
    Nothing = 0,
    /// Whether the first part of a lost segment arrives.
    Small,
    /// Whether a larger segment arrives.
    Large,
}

shared_layout! { enum Trying { Nothing, Small, Large } }

/// What is known of the packet sizes that a path carries, beyond its reported MTU.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct BlackHole {
    /// Sequence range of the segment that probes a size, and its first frame, if that is decisive.
    from: Seq,
    end: Seq,
    frame: PoolLink,
    /// No larger packet is probed before this.
    next: Instant,
    /// The largest packet that is sent, in bytes; 0: the path's MTU.
    limit: u16,
    /// The packet size that is probed, in bytes.
    size: u16,
    /// The larger packet that was last lost; 0: none.
    failed: u16,
    trying: Trying,
    /// How often `AGAIN` has doubled.
    doublings: u8,
}

shared_layout! { BlackHole { from, end, frame, next, limit, size, failed, trying, doublings } }

impl Socket {
    /// The largest packet to send over a path whose reported MTU is `mtu` bytes.
    pub(in crate::tcp) fn packet_limit(&self, mtu: u32) -> u32 {
        match self.path.black_hole.limit {
            0 => mtu,
            limit => mtu.min(limit.into()),
        }
    }

    /// The path has changed, or its MTU has been reported.
    pub(in crate::tcp) fn forget_black_hole(&mut self) {
        self.path.black_hole = BlackHole::default();
    }

    /// The smaller packet size to probe after the present number of timeouts.
    fn smaller(&self) -> Option<u32> {
        if self.recovery.phase != Phase::Loss {
            return None;
        }
        let now = self.packet_limit(self.path.mtu);
        let least = if self.remote.address.family() == Family::V6 { LEAST_V6 } else { 0 };
        let fits = |&&(mtu, timeouts): &&(u32, u8)| mtu < now && mtu >= least && self.progress.attempts >= timeouts;
        STEPS.iter().rfind(fits).map(|&(mtu, _)| mtu)
    }

    /// The larger packet size to probe, if one is due.
    fn larger(&self, now: Instant) -> Option<u32> {
        let BlackHole { limit, failed, trying, next, .. } = self.path.black_hole;
        if limit == 0 || trying != Trying::Nothing || self.progress.attempts > 0 || now < next {
            return None;
        }
        let untried = |&mtu: &u32| mtu <= self.path.mtu && mtu > limit.into() && (failed == 0 || mtu < failed.into());
        [self.path.mtu, 1500, LEAST_V6].into_iter().find(untried).or(Some(self.path.mtu))
    }

    /// Payload bytes allowed for the segment that begins with the frame `id` and is sent now. One
    /// that probes a size may have fewer or more than others. `head`: it is the first in the queue,
    /// and lost.
    pub(in crate::tcp) fn segment_size(&self, frames: &Frames<'_>, now: Instant, id: FrameId, head: bool) -> usize {
        let mss = usize::from(self.mss);
        if head && let Some(mtu) = self.smaller() {
            return mss.min(self.fitting_mss(mtu).into());
        }
        let Some(mtu) = self.larger(now) else { return mss };
        let size = usize::from(self.fitting_mss(mtu));
        // Whole frames may add up to a little less; much less is only the rest of the queue.
        let enough = MultiFrameSegment::from(frames, id, size).total as usize >= size - size / 16;
        if enough { size } else { mss }
    }

    /// How many bytes the next full segment that is queued may have.
    pub(in crate::tcp) fn queue_size(&self, now: Instant) -> usize {
        self.larger(now).map_or(self.mss, |mtu| self.fitting_mss(mtu)).into()
    }

    /// A segment that begins at `seq` is being sent; `again`: it is a retransmission.
    pub(in crate::tcp) fn note_size(&mut self, now: Instant, seq: Seq, run: &MultiFrameSegment, again: bool) {
        let end = seq + run.length;
        if again
            && self.path.black_hole.trying == Trying::Large
            && seq.lt(self.path.black_hole.end)
            && end.gt(self.path.black_hole.from)
        {
            let hole = &mut self.path.black_hole;
            let wait = AGAIN.times(1 << hole.doublings).min(AGAIN_MOST);
            (hole.trying, hole.failed, hole.next) = (Trying::Nothing, hole.size, now + wait);
            if wait < AGAIN_MOST {
                hole.doublings += 1;
            }
        } else if run.total > self.mss.into()
            && let Some(mtu) = self.larger(now)
        {
            let missing = u32::from(self.fitting_mss(mtu)).saturating_sub(run.total);
            let (size, frame) = (mtu.saturating_sub(missing).min(0xffff) as u16, PoolLink::to(run.first));
            self.path.black_hole =
                BlackHole { trying: Trying::Large, size, from: seq, end, frame, ..self.path.black_hole };
        }
    }

    /// The first segment, which begins at `seq`, is to be cut because its present size does not get
    /// through.
    pub(in crate::tcp) fn try_smaller(&mut self, seq: Seq) {
        if let Some(mtu) = self.smaller() {
            self.path.black_hole =
                BlackHole { trying: Trying::Small, size: mtu as u16, from: seq, ..self.path.black_hole };
        }
    }

    /// Whether the probed size has arrived. Then the packet size changes from now on.
    fn size_is_proven(&mut self, frames: &Frames<'_>) -> bool {
        let hole = &mut self.path.black_hole;
        if hole.trying == Trying::Nothing {
            return false;
        }
        let acknowledged = self.send.una.gt(hole.from);
        // Data before a larger probe may have been lost for another reason, and its repair takes
        // time.
        let sacked = || hole.frame.get().is_some_and(|id| frames.meta[id as usize].flags & flag::SACKED != 0);
        match hole.trying {
            Trying::Small if acknowledged => {
                *hole = BlackHole { limit: hole.size, ..BlackHole::default() };
            }
            Trying::Large if acknowledged || sacked() => {
                *hole = match u32::from(hole.size) >= self.path.mtu {
                    true => BlackHole::default(),
                    false => BlackHole { limit: hole.size, trying: Trying::Nothing, ..*hole },
                };
            }
            _ => return false,
        }
        true
    }
}

impl Stack<'_> {
    /// Adopts the probed packet size if the probe has arrived.
    pub(in crate::tcp) fn learn_packet_size(&mut self, index: ConnectionIndex) {
        let s = &mut self.mem.tcp[index];
        if s.size_is_proven(&self.mem.frames) {
            let mtu = s.path.mtu;
            self.set_packet_size(index, mtu);
        }
    }
}
