//! RACK (RFC 8985 §6): a segment is lost if one sent sufficiently later has arrived.

use crate::frame::Frames;
use crate::tcp::send::queue::{Delivered, SendQueue, end};
use crate::tcp::timers::rtt::Rtt;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// How many recoveries a widened reordering window lasts (RFC 8985 §6.2 step 4).
const PERSIST: u8 = 16;

/// RACK's state of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct Rack {
    /// Send time of the most recently sent segment that has arrived; never = none yet.
    sent: Instant,
    /// The sequence number after it.
    end: Seq,
    /// Its round trip.
    rtt: Span,
    /// The highest sequence number that has arrived (RACK.fack).
    highest: Seq,
    /// Whether segments were ever seen to arrive in another order than sent.
    reordering: bool,
    /// The reordering window is this many quarters of the smallest round trip, plus one.
    widened: u8,
    persist: u8,
    /// The window was widened in the round that ends here.
    round: Seq,
    in_round: bool,
}

shared_layout! { Rack { sent, end, rtt, highest, reordering, widened, persist, round, in_round } }

/// Whether a segment sent at `a`, ending at `a_end`, was sent after the other.
fn sent_after(a: Instant, a_end: Seq, b: Instant, b_end: Seq) -> bool {
    a > b || a == b && a_end.gt(b_end)
}

impl Rack {
    /// State of a connection whose first sequence number is `first`.
    pub(in crate::tcp) fn new(first: Seq) -> Self {
        Self { highest: first, ..Self::default() }
    }

    /// Processes a segment that has arrived (steps 2 and 3). Returns whether a later one has
    /// overtaken it.
    pub(in crate::tcp) fn delivered(&mut self, now: Instant, segment: &Delivered, min_rtt: Span) -> bool {
        let rtt = now.since(segment.at);
        // An acknowledgement this early is for the first transmission, not for the retransmission.
        if segment.retransmitted && rtt < min_rtt {
            return false;
        }
        if sent_after(segment.at, segment.end, self.sent, self.end) {
            (self.sent, self.end, self.rtt) = (segment.at, segment.end, rtt);
        }
        if segment.end.gt(self.highest) {
            self.highest = segment.end;
            return false;
        }
        let overtaken = segment.end.lt(self.highest) && !segment.retransmitted;
        self.reordering |= overtaken;
        overtaken
    }

    /// The highest sequence number that has arrived.
    pub(in crate::tcp) const fn highest(&self) -> Seq {
        self.highest
    }

    /// A duplicate was reported (RFC 2883): a segment deemed lost had only been reordered. Counts
    /// at most once a round trip.
    pub(in crate::tcp) fn spurious(&mut self, una: Seq, nxt: Seq) {
        if !self.in_round || una.ge(self.round) {
            (self.in_round, self.round) = (true, nxt);
            self.widened = self.widened.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// A recovery has ended.
    pub(in crate::tcp) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.widened = 0;
        }
    }

    /// How much later a segment may arrive without being deemed lost (step 4).
    fn window(&self, rtt: &Rtt, recovering: bool, sacked: u32, mss: u32) -> Span {
        if !self.reordering && (recovering || sacked >= 3 * mss) {
            return Span::ZERO;
        }
        rtt.min.over(4).times(u64::from(self.widened) + 1).min(rtt.srtt)
    }

    /// How long after its transmission a segment may still arrive when the retransmission timer has
    /// expired (§6.3).
    pub(in crate::tcp) fn allowed(&self, rtt: &Rtt, sacked: u32, mss: u32) -> Span {
        self.rtt + self.window(rtt, true, sacked, mss)
    }

    /// Marks lost segments (step 5). Returns after what time the next segment would be lost, if any
    /// may be.
    pub(in crate::tcp) fn detect(
        &self,
        now: Instant,
        queue: &mut SendQueue,
        frames: &mut Frames<'_>,
        rtt: &Rtt,
        recovering: bool,
        mss: u32,
    ) -> Option<Span> {
        if self.sent.is_never() {
            return None;
        }
        let window = self.window(rtt, recovering, queue.board.sacked, mss);
        let allowed = self.rtt + window;
        while let Some(id) = queue.oldest.get() {
            let meta = &frames.meta[id as usize];
            if !sent_after(self.sent, self.end, meta.at, end(meta)) {
                return None;
            }
            let age = now.since(meta.at);
            if age < allowed {
                return Some(allowed - age);
            }
            queue.mark_lost(frames, id);
        }
        None
    }
}
