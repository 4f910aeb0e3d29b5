//! The window we offer (RFC 9293 §3.8.6), and how the receive buffer grows to what the program
//! really takes.

use super::seq::Seq;
use super::socket::Socket;
use crate::frame::{FRAME_SIZE, Frames};
use crate::path::Metrics;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The receive buffer is looked at no more often than this: a round trip on a LAN is too short to
/// measure a program by.
const MIN_INTERVAL: Span = Span::from_micros(500);

/// Frames that a connection may hold when they run low, unless that is less than two segments.
const FAIR_SHARE: u32 = 4;

/// What the kernel puts into one frame: it keeps `XDP_PACKET_HEADROOM` in front. A longer segment
/// takes several.
const PIECE: u32 = FRAME_SIZE as u32 - 256;

/// Growing the receive buffer (dynamic right-sizing).
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Sizing {
    /// Bytes that the program took since `since`.
    taken: u32,
    since: Instant,
}

impl Socket {
    /// How much of a full segment comes in one frame.
    fn per_frame(&self) -> u32 {
        u32::from(self.receive_mss).min(PIECE)
    }

    pub(super) fn fair_share(&self) -> u32 {
        FAIR_SHARE.max(2 * u32::from(self.receive_mss).div_ceil(PIECE))
    }

    /// The receive buffer's free part. When this connection holds many frames, or all together hold
    /// nearly all, it is nothing or little: a program that does not read must not starve the
    /// others.
    fn receive_space(&self, frames: &Frames<'_>) -> u32 {
        let buffer = self.settings.receive_buffer;
        // A full segment fills at least half of a frame; a queue of smaller ones must not hold more
        // memory for it.
        let most_frames = (buffer / 1024).max(32);
        let space = buffer.saturating_sub(self.recv.bytes);
        // Who holds little may be sent a little in any case, or the window of one that has read all
        // would stay shut until somebody asks.
        let least = if self.recv.held() < self.fair_share() { self.fair_share() * self.per_frame() } else { 0 };
        if frames.available() < frames.meta.len() / 8 {
            return space.min(least);
        }
        // No more is promised than there are frames for.
        let room = (frames.available() - frames.meta.len() / 8) as u32;
        let room = room.saturating_mul(self.per_frame()).max(self.open_window()).max(least);
        if self.recv.held() >= most_frames { 0 } else { space.min(room) }
    }

    /// Whether data must be dropped for want of frames. Who has nothing queued must get a frame to
    /// answer with (`frames_for_others`), so whoever holds something here keeps no more before it
    /// comes to that. The fill ring is fed only while more than a sixteenth is free
    /// (`Stack::refill`), and without it no acknowledgement would come in to free others: below
    /// that, only a connection that holds nothing may keep a frame, and only while the ring is
    /// still half full (`filled`).
    pub(super) fn is_over_share(&self, frames: &Frames<'_>, filled: bool) -> bool {
        let (available, all, held) = (frames.available(), frames.meta.len(), self.recv.held());
        match available {
            _ if available <= all / 16 => held > 0 || !filled,
            _ if available <= all * 11 / 128 => held > 0,
            _ => available < all * 3 / 32 && held >= self.fair_share(),
        }
    }

    /// Bytes from RCV.NXT to the right edge already offered.
    pub(super) fn open_window(&self) -> u32 {
        self.edge.since(self.recv.next)
    }

    /// The window that could be offered now, before rounding; the right edge never moves left.
    fn possible_window(&self, frames: &Frames<'_>) -> u32 {
        // More than the field can say is not offered, so it is no news either: without scaling, 64
        // KiB.
        let most = 0xffff << self.receive_shift;
        let (open, space) = (self.open_window(), self.receive_space(frames).min(most));
        // Silly window avoidance (RFC 9293 §3.8.6.2.2): only steps worth a segment or half of the
        // buffer.
        let step = u32::from(self.receive_mss).min(self.settings.receive_buffer / 2).max(1);
        if space >= open + step { space } else { open }
    }

    /// The window field of a segment that is about to be sent with this acknowledgement; the right
    /// edge moves along.
    pub(super) fn offer_window(&mut self, frames: &Frames<'_>, ack: Seq) -> u16 {
        let shift = self.receive_shift;
        let window = self.possible_window(frames) + self.recv.next.since(ack);
        // Rounded up: rounding down would move the right edge to the left (RFC 7323 §2.4).
        let field = ((u64::from(window) + (1 << shift) - 1) >> shift).min(0xffff) as u16;
        self.edge = self.edge.max(ack + (u32::from(field) << shift));
        field
    }

    /// The window field of SYN and SYN-ACK, which is not scaled (RFC 7323 §2.2).
    pub(super) fn offer_syn_window(&mut self, route: &Metrics) -> u16 {
        let field = self.syn_window(route);
        self.edge = self.recv.next + field;
        field as u16
    }

    /// What a SYN offers: what fits into its field, and no more segments than the route says.
    pub(super) fn syn_window(&self, route: &Metrics) -> u32 {
        let most = match route.initrwnd {
            0 => 0xffff,
            segments => (u32::from(segments) * u32::from(self.offered_mss)).max(1),
        };
        self.settings.receive_buffer.min(0xffff).min(most)
    }

    /// The program took `bytes`. Grows the buffer if it took more than half of it in a round trip.
    /// Returns whether the window has opened so far that the peer should be told without being
    /// asked.
    pub(super) fn taken(&mut self, frames: &Frames<'_>, now: Instant, bytes: u32, most: u32) -> bool {
        self.sizing.taken = self.sizing.taken.saturating_add(bytes);
        let span = now.since(self.sizing.since);
        if span >= self.rtt.srtt.max(MIN_INTERVAL) {
            // Twice the data of a round trip lets the peer's slow start double (as on Linux).
            let wanted = self.sizing.taken.saturating_mul(2).saturating_add(16 * u32::from(self.receive_mss));
            // One connection never takes more than a quarter of all frames.
            let most = most.min(frames.meta.len() as u32 / 4 * 1024);
            let plenty = frames.available() > frames.meta.len() / 2;
            if !self.settings.receive_fixed && plenty && span < self.rtt.srtt.max(MIN_INTERVAL).times(4) {
                self.settings.receive_buffer = self.settings.receive_buffer.max(wanted.min(most));
            }
            (self.sizing.taken, self.sizing.since) = (0, now);
        }
        let (open, possible) = (self.open_window(), self.possible_window(frames));
        possible > open && possible >= 2 * open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Limits, OwnedMemory};

    /// RFC 9293 §3.8.6.2.2: a program that has read all has room for a segment, and nothing else
    /// would open its window. Where frames are few it must not be smaller with some more of them
    /// than with fewer: windows are what keeps them near that point.
    #[test]
    fn rfc9293_3_8_6_2_2_more_free_frames_never_mean_a_smaller_window() {
        for mss in [536, 1448, 8948] {
            let mut memory = OwnedMemory::new(&Limits { frames: 1024, tcp: 4, ..Limits::DEFAULT });
            let mut stack = memory.stack();
            let frames = &mut stack.mem.frames;
            let mut socket = Socket::new_zeroed();
            (socket.receive_mss, socket.receive_shift, socket.settings.receive_buffer) = (mss, 7, 256 << 10);
            let mut last = u32::MAX;
            loop {
                let window = socket.possible_window(frames);
                assert!(window <= last, "{window} after {last}, {} frames free, {mss}", frames.available());
                assert!(window >= u32::from(mss), "{window}, {} frames free, {mss}", frames.available());
                last = window;
                if frames.take().is_none() {
                    break;
                }
            }
        }
    }
}
