//! Statistics of a connection for `TCP_INFO` only: the stack itself does not depend on them.
//! Packets and bytes in both directions, which the connection's public row counts, are not counted
//! again here.

use crate::tcp::connection::socket::Socket;
use crate::tcp::loss_recovery::recovery::News;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The degree of reordering that Linux assumes of every path (`net.ipv4.tcp_reordering`), and its
/// maximum.
const LEAST_DEGREE: u32 = 3;
const MOST_DEGREE: u32 = 300;

/// The counters of one connection. They wrap around, as on Linux.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Stats {
    /// Payload retransmitted, in bytes.
    pub(in crate::tcp) bytes_resent: u64,
    /// Since when there has been data to send or to be acknowledged; never = there is none.
    busy_since: Instant,
    /// The sum of earlier busy times.
    busy_before: Span,
    /// Segments with payload, received and sent.
    pub(in crate::tcp) segments_in: u32,
    pub(in crate::tcp) segments_out: u32,
    /// Segments delivered to the peer, and those of them acknowledged together with a mark (RFC
    /// 3168).
    pub(in crate::tcp) delivered: u32,
    pub(in crate::tcp) delivered_marked: u32,
    /// Segments that the peer reported as duplicates (RFC 2883).
    pub(in crate::tcp) duplicates: u32,
    /// Segments received before an earlier one.
    pub(in crate::tcp) early: u32,
    /// Acknowledgements that showed segments to have been overtaken.
    pub(in crate::tcp) overtaken: u32,
    /// The reordering degree, if it is more than Linux assumes.
    degree: u32,
}

shared_layout! { Stats {
    bytes_resent, busy_since, busy_before, segments_in, segments_out, delivered, delivered_marked,
    duplicates, early, overtaken, degree,
} }

impl Stats {
    /// There is data to send or to be acknowledged.
    pub(in crate::tcp) fn begins(&mut self, now: Instant) {
        if self.busy_since.is_never() {
            self.busy_since = now;
        }
    }

    /// There is none any more.
    pub(in crate::tcp) fn ends(&mut self, now: Instant) {
        if !self.busy_since.is_never() {
            (self.busy_before, self.busy_since) = (self.busy(now), Instant::NEVER);
        }
    }

    /// How long it has been busy, up to `now`.
    pub(in crate::tcp) fn busy(&self, now: Instant) -> Span {
        self.busy_before + if self.busy_since.is_never() { Span::ZERO } else { now.since(self.busy_since) }
    }

    /// The reordering degree: by how many segments one was overtaken at most, as on Linux.
    pub(in crate::tcp) fn degree(&self) -> u32 {
        self.degree.max(LEAST_DEGREE)
    }
}

impl Socket {
    /// Counts the results of an acknowledgement. `echoes`: it echoes a mark.
    pub(in crate::tcp) fn count_news(&mut self, news: &News, echoes: bool) {
        self.stats.delivered = self.stats.delivered.wrapping_add(news.segments);
        if echoes {
            self.stats.delivered_marked = self.stats.delivered_marked.wrapping_add(news.segments);
        }
        if let Some(first) = news.overtaken {
            self.tally_overtaken(first);
        }
    }

    /// Segments from `first` on have arrived after some that were sent later.
    fn tally_overtaken(&mut self, first: Seq) {
        let by = self.rack.highest().since(first).div_ceil(u32::from(self.mss).max(1));
        self.stats.degree = self.stats.degree.max(by.min(MOST_DEGREE));
        self.stats.overtaken = self.stats.overtaken.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_while_there_is_something_to_do() {
        let at = |ms: u64| Instant::from_nanos(1 + ms * 1_000_000);
        let mut tally = Stats::default();
        for (ms, busy) in [(0, false), (10, true), (15, true), (30, false), (31, false), (100, true)] {
            if busy { tally.begins(at(ms)) } else { tally.ends(at(ms)) }
        }
        assert_eq!(tally.busy(at(105)), Span::from_millis(25));
        tally.ends(at(105));
        assert_eq!(tally.busy(at(200)), Span::from_millis(25));
    }
}
