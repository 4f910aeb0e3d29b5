//! CUBIC (RFC 9438): the window grows with the cube of the time since the last loss, flat around
//! the window at which that loss happened. Integers only: windows in bytes, time in milliseconds.

use super::Acked;
use crate::tcp::timers::rtt::Rtt;
use crate::time::Instant;
use zerocopy::FromZeros;

/// C = 0.4 segments / s^3 (§5), as C * 10.
const C_TIMES_10: i64 = 4;

/// beta = 0.7 (§4.6), as beta * 10.
const BETA_TIMES_10: u64 = 7;

/// alpha = 3 (1 - beta) / (1 + beta) = 9/17 (§4.3), as numerator and denominator.
const ALPHA: (u64, u64) = (3 * (10 - BETA_TIMES_10), 10 + BETA_TIMES_10);

/// For so long after an epoch begins the window grows by a segment per round trip, as on Linux.
/// Linux recomputes its target once a tick (4 ms at 250 Hz), and within the first tick the target
/// is one segment above the window. With the rate of §4.3 the window regains its size later than on
/// Linux, if round trips are short and losses frequent.
const FIRST_MS: u64 = 4;

/// The cube is evaluated at most this far from K, in milliseconds, to keep the arithmetic within 64
/// bits.
const MAX_DISTANCE_MS: i64 = 100_000;

/// An epoch of congestion avoidance: the state that a loss changes, and that is restored if the
/// loss was spurious (§4.9); windows in bytes.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Epoch {
    /// W_max: the window at the last loss (after fast convergence).
    w_max: u32,
    /// cwnd_prior: the window just before the last loss.
    cwnd_prior: u32,
    /// When the epoch began, delayed by the later time in which the window was not used; never = it
    /// has not begun.
    start: Instant,
    /// K: the time from the epoch's start until the window is W_max again, in milliseconds.
    k_ms: u32,
    /// W_est: Reno's window at this time (§4.3).
    w_est: u32,
}

shared_layout! { Epoch { w_max, cwnd_prior, start, k_ms, w_est } }

/// CUBIC's own state.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Cubic {
    pub(super) epoch: Epoch,
    /// `epoch.start` allows for the time in which the window was not used up to here.
    accounted_until: Instant,
    /// Fractions not yet turned into growth, of W_est and of the window.
    w_est_credit: u64,
    cwnd_credit: u64,
}

shared_layout! { Cubic { epoch, accounted_until, w_est_credit, cwnd_credit } }

fn cube_root(n: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..=20).rev() {
        let candidate = root | 1 << bit;
        if candidate * candidate * candidate <= n {
            root = candidate;
        }
    }
    root
}

impl Cubic {
    fn begin_epoch(&mut self, now: Instant, mss: u32, cwnd: u32) {
        (self.epoch.start, self.accounted_until) = (now, now);
        self.epoch.w_est = cwnd;
        self.w_est_credit = 0;
        self.cwnd_credit = 0;
        if cwnd < self.epoch.w_max {
            // K^3 = (W_max - cwnd) / (C * segment), in s^3 (equation 2); 1 s^3 = 10^9 ms^3.
            let bytes = u64::from(self.epoch.w_max - cwnd);
            let cube = bytes * 10 / C_TIMES_10.unsigned_abs() * 1_000_000 / u64::from(mss.max(1)) * 1_000;
            self.epoch.k_ms = cube_root(cube) as u32;
        } else {
            self.epoch.w_max = cwnd;
            self.epoch.k_ms = 0;
        }
    }

    /// W_cubic(t) (equation 1), in bytes.
    fn w_cubic(&self, t_ms: u64, mss: u32) -> i64 {
        let distance = (t_ms as i64 - i64::from(self.epoch.k_ms)).clamp(-MAX_DISTANCE_MS, MAX_DISTANCE_MS);
        // C (t - K)^3: 10^9 ms^3 are 1 s^3, and C is times 10, so / 10^10. In two steps, to stay
        // within 64 bits.
        let cube = distance * distance * distance / 100_000;
        i64::from(self.epoch.w_max) + cube * C_TIMES_10 * i64::from(mss) / 100_000
    }

    /// The window after `bytes` were acknowledged in congestion avoidance.
    pub(super) fn grow(&mut self, acked: &Acked, bytes: u32, rtt: &Rtt, cwnd: u32) -> u32 {
        if self.epoch.start.is_never() {
            self.begin_epoch(acked.now, acked.mss, cwnd);
        }
        self.accounted_until = acked.now;
        let window = u64::from(cwnd.max(acked.mss).max(1));
        let t = acked.now.since(self.epoch.start).as_millis();
        // §4.3: alpha until the window before the loss is regained, then 1.
        let below_prior = self.epoch.w_est < self.epoch.cwnd_prior;
        let (numerator, denominator) = if below_prior && t >= FIRST_MS { ALPHA } else { (1, 1) };
        self.w_est_credit += u64::from(bytes) * u64::from(acked.mss) * numerator;
        let whole = window * denominator;
        self.epoch.w_est = self.epoch.w_est.saturating_add((self.w_est_credit / whole) as u32);
        self.w_est_credit %= whole;

        // Reno-friendly region (§4.3).
        if self.w_cubic(t, acked.mss) < i64::from(self.epoch.w_est) {
            return cwnd.max(self.epoch.w_est);
        }
        // §4.4, §4.5: towards the target of the next round trip, at most half a window per round
        // trip.
        let target = self.w_cubic(t + rtt.srtt.as_millis(), acked.mss).clamp(i64::from(cwnd), i64::from(cwnd) * 3 / 2);
        self.cwnd_credit += u64::from(bytes) * (target as u64 - u64::from(cwnd));
        let growth = self.cwnd_credit / window;
        self.cwnd_credit %= window;
        cwnd.saturating_add(growth as u32)
    }

    /// The slow start threshold after a loss or a mark: the window times beta (§4.6), with fast
    /// convergence (§4.7). In whole segments, because a partial one is not sent. Rounded up, since
    /// the curve continues upwards from there, but reduced by at least one segment. (Linux rounds
    /// down, and its curve, in whole segments too, adds one within a round trip.)
    pub(super) fn ssthresh_after_loss(&mut self, mss: u32, cwnd: u32) -> u32 {
        self.epoch.cwnd_prior = cwnd;
        // Fast convergence: W_max = cwnd (1 + beta) / 2. A window within a segment of the last
        // W_max has regained it: windows grow by bytes, and only whole segments are sent.
        let converges = cwnd + mss < self.epoch.w_max;
        self.epoch.w_max = if converges { (u64::from(cwnd) * (10 + BETA_TIMES_10) / 20) as u32 } else { cwnd };
        self.epoch.start = Instant::NEVER;
        let (segment, exact) = (mss.max(1), (u64::from(cwnd) * BETA_TIMES_10 / 10) as u32);
        exact.div_ceil(segment).saturating_mul(segment).min(cwnd.saturating_sub(segment))
    }

    /// The window was not used since the last acknowledgement: that time does not count (§4.2).
    /// Otherwise the curve would run away from a window that does not grow, and the window would
    /// follow in one leap (§5.8).
    pub(super) fn skip_unused_time(&mut self, now: Instant) {
        if !self.epoch.start.is_never() {
            self.epoch.start += now.since(self.accounted_until);
            self.accounted_until = now;
        }
    }

    /// The next acknowledgement in congestion avoidance starts a new epoch (§5.8).
    pub(super) fn restart(&mut self) {
        self.epoch.start = Instant::NEVER;
    }

    /// After a timeout the old window is no target: the epoch after slow start begins at a W_max of
    /// its own, with K = 0 (§4.8).
    pub(super) fn timed_out(&mut self) {
        self.epoch.w_max = 0;
        self.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_rounded_down() {
        for (n, root) in
            [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1_000_000_000, 1000), (750_000_000_000, 9085)]
        {
            assert_eq!(cube_root(n), root);
        }
    }
}
