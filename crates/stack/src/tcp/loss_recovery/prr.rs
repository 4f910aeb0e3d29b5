//! Proportional rate reduction (RFC 6937, RFC 9937): sends in proportion to delivered data during
//! loss recovery. So the window reaches the slow start threshold without a pause and without a
//! burst.

use zerocopy::FromZeros;

/// The state of one recovery; all in bytes.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct Prr {
    delivered: u32,
    out: u32,
    /// RecoverFS: bytes in flight when recovery began.
    at_start: u32,
}

shared_layout! { Prr { delivered, out, at_start } }

impl Prr {
    /// A recovery that begins with `flight` bytes sent and not delivered, as far as known before
    /// the acknowledgement that begins it.
    pub(in crate::tcp) fn begin(flight: u32) -> Self {
        Self { delivered: 0, out: 0, at_start: flight.max(1) }
    }

    /// Counts bytes sent.
    pub(in crate::tcp) fn sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }

    /// The window after an acknowledgement that delivered `delivered` bytes. `safe`: SND.UNA moved,
    /// and no more loss was found. Then retransmissions arrive, and the bound of slow start applies
    /// (PRR-SSRB). Otherwise no more is sent than is delivered (PRR-CRB).
    pub(in crate::tcp) fn window(&mut self, delivered: u32, pipe: u32, ssthresh: u32, mss: u32, safe: bool) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        let allowance = if pipe > ssthresh {
            let share = (u64::from(self.delivered) * u64::from(ssthresh)).div_ceil(u64::from(self.at_start));
            (share as u32).saturating_sub(self.out)
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + if safe { mss } else { 0 };
            (ssthresh - pipe).min(bound)
        };
        // The first retransmission is always sent (§3: "fast retransmit").
        let allowance = if self.out == 0 { allowance.max(mss) } else { allowance };
        pipe.saturating_add(allowance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_falls_in_proportion_to_deliveries() {
        // 20 segments outstanding, threshold 14: about 7 sent for every 10 delivered.
        let (mss, ssthresh) = (1000, 14_000);
        let mut prr = Prr::begin(20_000);
        let (mut pipe, mut sent) = (19_000u32, 0u32);
        for _ in 0..15 {
            pipe -= mss;
            let cwnd = prr.window(mss, pipe, ssthresh, mss, false);
            while pipe + mss <= cwnd {
                prr.sent(mss);
                pipe += mss;
                sent += 1;
            }
        }
        assert!((10..=12).contains(&sent), "{sent}");
        assert!((13_000..=15_000).contains(&pipe), "{pipe}");
    }

    #[test]
    fn after_many_losses_the_window_grows_back_with_what_arrives() {
        let mut prr = Prr::begin(20_000);
        let cwnd = prr.window(1000, 2000, 14_000, 1000, true);
        assert_eq!(cwnd, 4000);
    }

    #[test]
    fn the_first_retransmission_is_never_held_back() {
        let mut prr = Prr::begin(20_000);
        assert!(prr.window(0, 19_000, 10_000, 1000, false) >= 20_000);
    }
}
