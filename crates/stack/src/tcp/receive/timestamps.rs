//! Timestamps (RFC 7323): ours, those of the peer to be echoed, and segments that they show to be
//! old (PAWS).

use crate::tcp::connection::socket::Socket;
use crate::tcp::wire::header::Segment;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// After this long without a segment the peer's timestamp is not valid any more (RFC 7323 §5.5).
const TIMESTAMP_VALID: Span = Span::from_secs(24 * 24 * 3600);

/// The timestamps of both sides.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct TimestampState {
    /// TS.Recent.
    pub(in crate::tcp) recent: u32,
    /// Added to our timestamp clock, so that it reveals nothing about the host (§7.1).
    pub(in crate::tcp) offset: u32,
    /// When `recent` was taken.
    pub(in crate::tcp) recent_at: Instant,
}

shared_layout! { TimestampState { recent, offset, recent_at } }

impl Socket {
    /// The value of our timestamp clock (RFC 7323 §5.4): it ticks once a millisecond.
    pub(in crate::tcp) const fn timestamp(&self, now: Instant) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.timestamps.offset)
    }

    /// PAWS (RFC 7323 §5.3): whether the segment's timestamp is older than TS.Recent.
    pub(in crate::tcp) fn is_old_duplicate(&self, now: Instant, segment: &Segment) -> bool {
        self.negotiated.timestamps && segment.options.timestamps.is_some_and(|times| self.is_older(now, times.value))
    }

    /// Whether a timestamp is older than TS.Recent, if that is still valid.
    fn is_older(&self, now: Instant, value: u32) -> bool {
        (value.wrapping_sub(self.timestamps.recent) as i32) < 0
            && now.since(self.timestamps.recent_at) < TIMESTAMP_VALID
    }

    /// Takes the timestamp to be echoed (RFC 7323 §4.3).
    pub(in crate::tcp) fn take_timestamp(&mut self, now: Instant, segment: &Segment) {
        if let Some(times) = segment.options.timestamps
            && self.negotiated.timestamps
            && segment.seq.le(self.ack.last_sent)
            && !self.is_older(now, times.value)
        {
            (self.timestamps.recent, self.timestamps.recent_at) = (times.value, now);
        }
    }
}
