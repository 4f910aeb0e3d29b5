//! Reno's congestion avoidance (RFC 5681 §3.1): one segment more each round trip, half after a
//! loss.

use zerocopy::FromZeros;

/// Reno's own state.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Reno {
    /// Acknowledged bytes not yet turned into growth (appropriate byte counting, RFC 3465).
    counted: u32,
}

shared_layout! { Reno { counted } }

impl Reno {
    /// The window after `bytes` were acknowledged.
    pub(super) fn avoid(&mut self, bytes: u32, mss: u32, cwnd: u32) -> u32 {
        self.counted = self.counted.saturating_add(bytes);
        if self.counted < cwnd {
            return cwnd;
        }
        self.counted -= cwnd;
        cwnd.saturating_add(mss)
    }

    /// The slow start threshold after a loss.
    pub(super) fn reduce(&mut self, cwnd: u32) -> u32 {
        self.counted = 0;
        cwnd / 2
    }
}
