//! The feedback in an acknowledgement: which segments have arrived, by number or by SACK block, and
//! their round-trip time.

use super::recovery::News;
use crate::frame::Frames;
use crate::tcp::connection::socket::Socket;
use crate::tcp::send::queue::Delivered;
use crate::tcp::wire::header::Segment;
use crate::tcp::wire::options::{MAX_SACK_BLOCKS, SackBlock};
use crate::time::{Instant, Span};

/// An echoed timestamp gives a round trip only if that is shorter than this: with its coarse tick,
/// a longer one is implausible.
const LONGEST_ECHO: Span = Span::from_secs(60);

/// The round-trip sample of one acknowledgement: of the segments that were sent once (Karn) the one
/// sent last. None if the number also acknowledges a retransmission.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Sample {
    sent: Instant,
    /// The peer had received the data before its retransmission, and echoes the timestamp of that
    /// time: its first acknowledgement was lost.
    stale: bool,
}

impl Socket {
    /// Processes the acknowledgement number and the SACK blocks of a segment: frees and marks
    /// delivered segments, and updates RACK. The number is between SND.UNA and SND.NXT.
    pub(in crate::tcp) fn take_feedback(
        &mut self,
        frames: &mut Frames<'_>,
        now: Instant,
        segment: &Segment,
    ) -> (News, Sample) {
        let una = self.send.una;
        let mut news = News { acked: segment.ack - una, ..News::default() };
        let mut sample = Sample::default();
        let echo = segment.options.timestamps.filter(|_| self.negotiated.timestamps).map(|times| times.echo);
        let (min_rtt, offset, point) = (self.rtt.min, self.timestamps.offset, self.recovery.point);
        let Self { send, rack, .. } = self;
        // RFC 8985 §6.2 step 2: an echo older than the last transmission means that an earlier one
        // has arrived.
        let earlier = |at: Instant| {
            let stamp = ((at.as_nanos() / 1_000_000) as u32).wrapping_add(offset);
            echo.is_some_and(|echo| (echo.wrapping_sub(stamp) as i32) < 0)
        };
        // Returns whether the segment was overtaken.
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
            // The acknowledgement was triggered by the retransmission, and may have waited for it:
            // segments sent once would be measured across the gap (RFC 6298 §3).
            if !news.resent_at.is_never() {
                sample = Sample::default();
            }
        }
        let mut blocks = segment.options.blocks();
        let Some((first, rest)) = blocks.split_first().filter(|_| self.negotiated.sack) else { return (news, sample) };
        // RFC 2883 §4: a block below the acknowledgement, or inside the second block, reports a
        // duplicate.
        let inside = rest.first().is_some_and(|second| first.start.ge(second.start) && first.end.le(second.end));
        let duplicate = first.start.lt(segment.ack) || inside;
        if duplicate {
            blocks = rest;
            // RFC 7323 §5.3: the timestamp of a segment before the window is not taken (R2 precedes
            // R3), so the echoed round trip began with the first transmission.
            sample.stale = first.start.ge(una) && !news.resent_at.is_never() && earlier(news.resent_at);
        }
        // In the order of their sequence numbers. The newest block comes first (RFC 2018 §4), and
        // RACK would take earlier segments behind it for reordered (RFC 8985 §6.2, step 3).
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
    pub(in crate::tcp) fn sample_rtt(&mut self, now: Instant, sample: &Sample, segment: &Segment, acked: bool) {
        if !sample.sent.is_never() {
            self.rtt.sample(now, now.since(sample.sent));
        } else if let Some(times) = segment.options.timestamps
            && self.negotiated.timestamps
            && acked
            && !sample.stale
        {
            // A retransmission was acknowledged: the echo identifies the transmission (RFC 7323
            // §4.1).
            self.take_echo(now, times.echo, LONGEST_ECHO);
        }
    }

    /// Takes the round trip of an echoed timestamp, in milliseconds, if it is shorter than `limit`.
    /// The clock ticks once a millisecond. If the estimate differs by less than a tick, the echo
    /// adds nothing to it, but proves that the backoff is over.
    pub(in crate::tcp) fn take_echo(&mut self, now: Instant, echo: u32, limit: Span) {
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
