//! Reno's congestion avoidance (RFC 5681 §3.1): one segment more each round trip, half after a
//! loss.

use zerocopy::FromZeros;

/// Reno's own state.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Reno {
    /// Acknowledged bytes not yet turned into growth (appropriate byte counting, RFC 3465).
    bytes_acked: u32,
}

shared_layout! { Reno { bytes_acked } }

impl Reno {
    /// The window after `bytes` were acknowledged.
    pub(super) fn grow(&mut self, bytes: u32, mss: u32, cwnd: u32) -> u32 {
        self.bytes_acked = self.bytes_acked.saturating_add(bytes);
        if self.bytes_acked < cwnd {
            return cwnd;
        }
        self.bytes_acked -= cwnd;
        cwnd.saturating_add(mss)
    }

    /// The slow start threshold after a loss or a mark.
    pub(super) fn ssthresh_after_loss(&mut self, cwnd: u32) -> u32 {
        self.bytes_acked = 0;
        cwnd / 2
    }
}
