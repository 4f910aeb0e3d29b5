//! What an acknowledgement tells: which segments have arrived, by number or by SACK block, and how
//! long they took.

use super::header::Segment;
use super::options::{MAX_SACK_BLOCKS, SackBlock};
use super::recovery::News;
use super::send::Delivered;
use super::socket::Socket;
use crate::frame::Frames;
use crate::time::{Instant, Span};

/// An echoed timestamp gives a round trip only if that is shorter than this: the clock ticks too
/// coarsely to be fooled by.
const LONGEST_ECHO: Span = Span::from_secs(60);

/// The round-trip sample of one acknowledgement: the segment that was sent last among those that
/// were sent once (Karn). None if the number also acknowledges one that was sent again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    sent: Instant,
    /// The peer had got before what was sent again, and echoes the timestamp of then: its answer to
    /// that was lost.
    stale: bool,
}

impl Socket {
    /// Takes the acknowledgement number and the SACK blocks of a segment: frees and marks what has
    /// arrived, and lets RACK learn from it. The number lies between SND.UNA and SND.NXT.
    pub(super) fn take_feedback(&mut self, frames: &mut Frames<'_>, now: Instant, segment: &Segment) -> (News, Sample) {
        let una = self.send.una;
        let mut news = News { acked: segment.ack - una, ..News::default() };
        let mut sample = Sample::default();
        let echo = segment.options.timestamps.filter(|_| self.timestamps).map(|times| times.echo);
        let (min_rtt, offset, point) = (self.rtt.min, self.ts_offset, self.recovery.point);
        let Self { send, rack, .. } = self;
        // RFC 8985 §6.2 step 2: an echo older than the last transmission means that an earlier one
        // has arrived.
        let earlier = |at: Instant| {
            let stamp = ((at.as_nanos() / 1_000_000) as u32).wrapping_add(offset);
            echo.is_some_and(|echo| (echo.wrapping_sub(stamp) as i32) < 0)
        };
        // Says whether the segment was overtaken.
        let mut learn = |sample: &mut Sample, segment: &Delivered| {
            if !segment.retransmitted {
                sample.sent = sample.sent.max(segment.at);
            } else if earlier(segment.at) {
                return false;
            }
            rack.delivered(now, segment, min_rtt)
        };
        if segment.ack.gt(una) {
            send.acknowledge(frames, segment.ack, |segment| {
                news.delivered(&segment, point);
                if segment.retransmitted {
                    news.resent_at = news.resent_at.max(segment.at);
                }
                if learn(&mut sample, &segment) {
                    news.overtaken(&segment);
                }
            });
            // The acknowledgement was caused by the retransmission, and may have waited for it:
            // what was sent once is measured across the gap (RFC 6298 §3).
            if !news.resent_at.is_never() {
                sample = Sample::default();
            }
        }
        let mut blocks = segment.options.blocks();
        let Some((first, rest)) = blocks.split_first().filter(|_| self.sack) else { return (news, sample) };
        // RFC 2883 §4: a block below the acknowledgement, or inside the second block, reports a
        // duplicate.
        let inside = rest.first().is_some_and(|second| first.start.ge(second.start) && first.end.le(second.end));
        let duplicate = first.start.lt(segment.ack) || inside;
        if duplicate {
            blocks = rest;
            // RFC 7323 §5.3: the timestamp of what lies before the window is not taken (R2 comes
            // before R3), so the round trip that it tells began with the first transmission.
            sample.stale = first.start.ge(una) && !news.resent_at.is_never() && earlier(news.resent_at);
        }
        // In the order of their numbers. The newest comes first (RFC 2018 §4), and after it RACK
        // would take what lies before it for reordered (RFC 8985 §6.2, step 3).
        let mut ordered = [SackBlock::default(); MAX_SACK_BLOCKS];
        let ordered = &mut ordered[..blocks.len()];
        ordered.copy_from_slice(blocks);
        ordered.sort_unstable_by_key(|block| block.start - segment.ack);
        news.senseless = send.sack(frames, ordered, |segment| {
            news.delivered(&segment, point);
            if learn(&mut sample, &segment) {
                news.overtaken(&segment);
            }
        });
        if duplicate {
            self.duplicate_reported(*first);
        }
        (news, sample)
    }

    /// Takes the round-trip sample of an acknowledgement. `acked`: it moved SND.UNA.
    pub(super) fn sample_rtt(&mut self, now: Instant, sample: &Sample, segment: &Segment, acked: bool) {
        if !sample.sent.is_never() {
            self.rtt.sample(now, now.since(sample.sent));
        } else if let Some(times) = segment.options.timestamps
            && self.timestamps
            && acked
            && !sample.stale
        {
            // A retransmission was acknowledged: the echo tells which transmission it was (RFC 7323
            // §4.1).
            self.take_echo(now, times.echo, LONGEST_ECHO);
        }
    }

    /// Takes the round trip that an echoed timestamp tells, in milliseconds, if it is shorter than
    /// `limit`. The clock ticks once in one: where what is known is no further from it, it says no
    /// more than that nothing is to be waited for longer.
    pub(super) fn take_echo(&mut self, now: Instant, echo: u32, limit: Span) {
        let ms = self.timestamp(now).wrapping_sub(echo);
        let rtt = Span::from_millis(u64::from(ms.max(1)));
        if rtt >= limit {
            return;
        }
        let tick = Span::from_millis(1).as_nanos();
        if !self.rtt.known() || self.rtt.srtt.as_nanos().abs_diff(u64::from(ms) * tick) >= tick {
            self.rtt.sample(now, rtt);
        } else {
            self.rtt.recovered();
        }
    }
}
