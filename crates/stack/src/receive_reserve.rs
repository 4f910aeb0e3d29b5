//! The size of the receive reserve: how many free frames are reserved for received packets.
//!
//! Few, because other packets cannot use them. A ring that reuses each frame only after all others
//! would also keep many of them cold in the cache (a fifth of a stream's speed). Enough, because a
//! packet that finds no frame is lost. So it is at least what the peers of all sockets may send
//! before they get an answer, and it shrinks again when there are fewer sockets.

use zerocopy::FromZeros;

/// At the start: as many small datagrams as a Linux socket's default buffer holds, and three times
/// as many large ones.
const FIRST: u32 = 256;

/// For each connection and each UDP socket: as many full segments as its peer may send into an
/// unscaled window.
const EACH: u32 = 44;

/// After so many polls that found packets the number is halved, if fewer are needed.
const CALM: u32 = 16_384;

/// The number of frames in the receive reserve.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct ReceiveReserve {
    /// The present target.
    pub(crate) wanted: u32,
    /// Lower bound: what programs requested (`SO_RCVBUF`).
    least: u32,
    /// Upper bound.
    pub(crate) most: u32,
    /// Polls since the number was last halved.
    calm: u32,
}

shared_layout! { ReceiveReserve { wanted, least, most, calm } }

impl ReceiveReserve {
    pub(crate) fn new(most: u32) -> Self {
        let first = FIRST.min(most);
        Self { wanted: first, least: first, most, calm: 0 }
    }

    /// A poll found packets, for one or more of `sockets` sockets.
    #[inline]
    pub(crate) fn polled(&mut self, sockets: usize) {
        let least = self.least.max(u32::try_from(sockets).map_or(self.most, |n| n.saturating_mul(EACH)).min(self.most));
        self.wanted = self.wanted.max(least);
        self.calm += 1;
        if self.calm >= CALM {
            self.wanted = (self.wanted / 2).max(least);
            self.calm = 0;
        }
    }

    /// A program requests room for so many bytes of datagrams.
    pub(crate) fn room_for(&mut self, bytes: u32) {
        // A full-size Ethernet packet counts 2304 bytes in Linux's accounting.
        self.least = self.least.max((bytes / 2304).min(self.most));
        self.wanted = self.wanted.max(self.least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_socket_keeps_frames_for_what_its_peer_may_send_unasked() {
        let mut fill = ReceiveReserve::new(1024);
        assert_eq!(fill.wanted, 256);
        fill.polled(20);
        assert_eq!(fill.wanted, 880);
        fill.polled(1000);
        assert_eq!(fill.wanted, 1024, "never more than there are");
        for _ in 0..3 * CALM {
            fill.polled(7);
        }
        assert_eq!(fill.wanted, 308);
        for _ in 0..3 * CALM {
            fill.polled(1);
        }
        assert_eq!(fill.wanted, 256, "never fewer than at the start");
    }

    #[test]
    fn large_receive_buffers_keep_frames() {
        let mut fill = ReceiveReserve::new(1024);
        fill.room_for(2304 * 700);
        for _ in 0..3 * CALM {
            fill.polled(1);
        }
        assert_eq!(fill.wanted, 700);
        fill.room_for(u32::MAX);
        assert_eq!(fill.wanted, 1024);
        assert_eq!(ReceiveReserve::new(64).wanted, 64);
    }
}
