//! Round-trip time and retransmission timeout (RFC 6298), with a floor that fits a LAN, and the
//! minimum of recent round trips that RACK needs (RFC 8985 §6.1).

use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// How long a minimum round trip is valid before a newer one replaces it.
const MIN_WINDOW: Span = Span::from_secs(10);

/// Most doublings of the timeout; the caller's maximum applies as well.
const MAX_BACKOFF: u8 = 15;

/// Bounds of the timeout.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct Bounds {
    /// Timeout before the first sample (RFC 6298 §2.1: one second).
    pub initial: Span,
    /// The least allowance beyond a round trip: a peer delays its acknowledgement, or does not run
    /// for a scheduler tick. RFC 6298 §2.4 demands a timeout of at least one second, for coarse
    /// clocks and networks; both ends of a LAN are not coarse.
    pub min: Span,
    /// Largest timeout (RFC 6298 §2.5: at least 60 s).
    pub max: Span,
}

shared_layout! { Bounds { initial, min, max } }

/// The estimator of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct Rtt {
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Span,
    /// Its mean deviation.
    pub rttvar: Span,
    /// Smallest round trip of the running window; zero before the first sample.
    pub min: Span,
    /// The latest sample.
    pub latest: Span,
    next_min: Span,
    window_ends: Instant,
    backoff: u8,
    /// The timer expired for a SYN.
    careful: bool,
}

shared_layout! { Rtt { srtt, rttvar, min, latest, next_min, window_ends, backoff, careful } }

impl Rtt {
    /// Takes a sample: the time from sending a segment that was sent once (Karn) to its
    /// acknowledgement.
    pub fn sample(&mut self, now: Instant, rtt: Span) {
        let rtt = rtt.max(Span::from_nanos(1));
        self.latest = rtt;
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.rttvar = rtt.over(2);
        } else {
            // RFC 6298 §2.3 with alpha 1/8 and beta 1/4.
            let (srtt, sample) = (self.srtt.as_nanos(), rtt.as_nanos());
            let deviation = srtt.abs_diff(sample);
            self.rttvar = Span::from_nanos(self.rttvar.as_nanos() - self.rttvar.as_nanos() / 4 + deviation / 4);
            self.srtt = Span::from_nanos(srtt - srtt / 8 + sample / 8);
        }
        self.backoff = 0;
        self.track_min(now, rtt);
    }

    /// Two half-overlapping windows: the minimum is never older than two windows, and does not jump
    /// up for want of samples.
    fn track_min(&mut self, now: Instant, rtt: Span) {
        if now >= self.window_ends {
            self.min = if self.next_min.is_zero() { rtt } else { self.next_min };
            self.next_min = rtt;
            self.window_ends = now + MIN_WINDOW;
        }
        self.next_min = self.next_min.min(rtt);
        self.min = self.min.min(rtt);
    }

    /// Whether there has been a sample.
    #[must_use]
    pub const fn known(&self) -> bool {
        !self.srtt.is_zero()
    }

    /// The timeout without backoff (RFC 6298 §2.2-2.5). As on Linux the floor applies to the
    /// deviation, not to the sum: a pause of the peer adds to the round trip.
    #[must_use]
    pub fn base(&self, bounds: &Bounds) -> Span {
        let rto = match (self.known(), self.careful) {
            (true, _) => self.srtt + self.rttvar.times(4).max(bounds.min),
            (false, false) => bounds.initial,
            // RFC 6298 §5.7: three seconds instead of one, until there is a sample.
            (false, true) => bounds.initial.times(3),
        };
        rto.max(bounds.min).min(bounds.max)
    }

    /// The present timeout, with backoff.
    #[must_use]
    pub fn rto(&self, bounds: &Bounds) -> Span {
        self.base(bounds).times(1 << self.backoff).min(bounds.max)
    }

    /// The time after which a tail loss probe is due (RFC 8985 §7.2), if the timeout is not due
    /// before. The RFC adds the peer's acknowledgement delay only for a single segment, but the
    /// delay is the same for the last of any odd number. See `peer_ack_delay`.
    pub(in crate::tcp) fn probe(&self, bounds: &Bounds) -> Span {
        self.srtt.times(2) + bounds.min
    }

    /// The time without an acknowledgement after which something is retransmitted: the earlier of
    /// probe and timeout.
    pub(in crate::tcp) fn resend_after(&self, bounds: &Bounds) -> Span {
        self.probe(bounds).min(self.rto(bounds))
    }

    /// Doubles the timeout (RFC 6298 §5.5). It stays doubled until there is a sample, that is until
    /// a segment that was sent once is acknowledged (Karn, RFC 1122 §4.2.3.1). Otherwise there
    /// would never be a sample where each acknowledgement takes longer than the timeout.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// Ends the backoff: it proved spurious, or its cause is over.
    pub fn recovered(&mut self) {
        self.backoff = 0;
    }

    /// The connection opens; `expired`: the timer expired for its SYN, so a round trip may be
    /// longer than the initial timeout.
    pub(in crate::tcp) fn careful(&mut self, expired: bool) {
        self.careful = expired;
    }

    /// How often the timeout has doubled.
    #[must_use]
    pub const fn backoff(&self) -> u8 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { initial: Span::from_secs(1), min: Span::from_millis(5), max: Span::from_secs(60) };

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_first_sample_sets_and_later_ones_smooth() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto(&BOUNDS), Span::from_secs(1));
        rtt.sample(at(1), Span::from_millis(100));
        assert_eq!((rtt.srtt, rtt.rttvar), (Span::from_millis(100), Span::from_millis(50)));
        assert_eq!(rtt.rto(&BOUNDS), Span::from_millis(300));
        rtt.sample(at(2), Span::from_millis(180));
        assert_eq!((rtt.srtt, rtt.rttvar), (Span::from_millis(110), Span::from_micros(57_500)));
    }

    #[test]
    fn the_timeout_keeps_its_bounds_and_doubles_until_a_sample() {
        let mut rtt = Rtt::default();
        rtt.sample(at(1), Span::from_micros(10));
        assert_eq!(rtt.rto(&BOUNDS), Span::from_micros(5_010));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(&BOUNDS), Span::from_micros(20_040));
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(&BOUNDS), Span::from_secs(60));
        rtt.sample(at(2), Span::from_micros(10));
        assert_eq!(rtt.rto(&BOUNDS), Span::from_micros(5_010));
    }

    #[test]
    fn the_minimum_forgets_what_is_older_than_two_windows() {
        let mut rtt = Rtt::default();
        rtt.sample(at(1), Span::from_micros(10));
        rtt.sample(at(2), Span::from_micros(30));
        assert_eq!(rtt.min, Span::from_micros(10));
        for n in 1..4 {
            rtt.sample(at(10_100 * n), Span::from_micros(50));
        }
        assert_eq!(rtt.min, Span::from_micros(50));
    }
}
