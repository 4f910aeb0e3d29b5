//! The send window: what the peer allows to be in flight (RFC 9293 §3.8.6).

use crate::tcp::wire::header::Segment;
use crate::tcp::wire::seq::Seq;
use zerocopy::FromZeros;

/// The peer's window.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct SendWindow {
    /// SND.WND in bytes, and the largest it ever was.
    pub(in crate::tcp) size: u32,
    pub(in crate::tcp) largest: u32,
    /// The segment that set it (SND.WL1, SND.WL2).
    pub(in crate::tcp) seq: Seq,
    ack: Seq,
}

shared_layout! { SendWindow { size, largest, seq, ack } }

impl SendWindow {
    /// Takes the window of `segment`, which is shifted by `shift`.
    pub(in crate::tcp) fn take(&mut self, segment: &Segment, shift: u8) {
        self.size = u32::from(segment.window) << shift;
        self.largest = self.largest.max(self.size);
        (self.seq, self.ack) = (segment.seq, segment.ack);
    }

    /// Takes the window of `segment`, unless a later segment has set it (RFC 9293 §3.10.7.4).
    /// Returns whether it changed.
    ///
    /// RFC 9293 compares SEG.SEQ first. As on Linux a segment that acknowledges more than the one
    /// that set the window counts as later, even if it carries older data: such data is a
    /// retransmission. If its acknowledgement were taken without its window, SND.UNA would carry
    /// the old window beyond what the peer has ever offered.
    pub(in crate::tcp) fn update(&mut self, segment: &Segment, shift: u8) -> bool {
        let newer = self.ack.lt(segment.ack) || self.ack == segment.ack && self.seq.le(segment.seq);
        let before = self.size;
        if newer {
            self.take(segment, shift);
        }
        self.size != before
    }
}
