//! Limits to answers that any host can provoke by a forged segment (RFC 5961 §7).

use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// Empty segments outside of the window are answered no sooner than this after the last one (per
/// connection). The wait doubles each time: two peers that disagree must not keep a loop of
/// acknowledgements going (RFC 5961 §7). Linux waits half a second from the start; window probes on
/// a LAN arrive sooner than that, but back off likewise.
const OUT_OF_WINDOW_LEAST: Span = Span::from_millis(1);

/// The longest wait, as on Linux.
const OUT_OF_WINDOW_MOST: Span = Span::from_millis(500);

/// After this many waits without an answer the wait returns to the shortest.
const OUT_OF_WINDOW_QUIET: u64 = 4;

/// A challenge ACK is sent at most once in this time per connection, as on Linux.
const CHALLENGE_INTERVAL: Span = Span::from_millis(500);

/// When such answers were last sent.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct AnswerLimit {
    /// When the last empty segment outside of the window was answered.
    outside_at: Instant,
    /// When the last challenge acknowledgement was sent.
    challenged_at: Instant,
    /// How often the wait between answers to empty segments outside of the window has doubled.
    outside_doublings: u8,
}

shared_layout! { AnswerLimit { outside_at, challenged_at, outside_doublings } }

impl AnswerLimit {
    /// Rate limit for an answer that any host can provoke by a forged segment.
    pub(in crate::tcp) fn may_challenge(&mut self, now: Instant) -> bool {
        let may = self.challenged_at.is_never() || now.since(self.challenged_at) >= CHALLENGE_INTERVAL;
        if may {
            self.challenged_at = now;
        }
        may
    }

    /// Whether an empty segment outside of the window may be answered.
    pub(in crate::tcp) fn may_answer_outside(&mut self, now: Instant) -> bool {
        let wait = OUT_OF_WINDOW_LEAST.times(1 << self.outside_doublings).min(OUT_OF_WINDOW_MOST);
        let passed = now.since(self.outside_at);
        if passed < wait {
            return false;
        }
        self.outside_at = now;
        if passed >= wait.times(OUT_OF_WINDOW_QUIET) {
            self.outside_doublings = 0;
        } else if wait < OUT_OF_WINDOW_MOST {
            self.outside_doublings += 1;
        }
        true
    }
}
