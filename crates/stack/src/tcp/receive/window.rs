//! The receive window (RFC 9293 §3.8.6), and how the receive buffer grows with what the program
//! reads.

use crate::frame::{FRAME_SIZE, Frames};
use crate::path::Metrics;
use crate::tcp::connection::socket::Socket;
use crate::tcp::program::settings::Settings;
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The receive buffer is resized no more often than this: a round trip on a LAN is too short to
/// measure a program's read rate.
const MIN_INTERVAL: Span = Span::from_micros(500);

/// Frames that a connection may hold when they run low; two segments if these take more.
const FAIR_SHARE: u32 = 4;

/// Payload bytes that are counted per received frame, a lower bound: the first one also holds the
/// headers. A longer segment takes several frames.
const PIECE: u32 = FRAME_SIZE as u32 - 256;

/// The window that we offer, and receive buffer autotuning (dynamic right-sizing).
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct ReceiveWindow {
    /// The right edge of the offered window: never moves left.
    pub(in crate::tcp) edge: Seq,
    /// Bytes that the program has read since `since`.
    taken: u32,
    since: Instant,
}

shared_layout! { ReceiveWindow { edge, taken, since } }

/// The window of a SYN that announces the MSS `mss`: what fits into its field, limited by the
/// route's initrwnd.
pub(in crate::tcp) fn window_of_syn(settings: &Settings, route: &Metrics, mss: u16) -> u32 {
    let most = match route.initrwnd {
        0 => 0xffff,
        segments => (u32::from(segments) * u32::from(mss)).max(1),
    };
    settings.receive_buffer.min(0xffff).min(most)
}

impl Socket {
    /// How many bytes of a full segment arrive in one frame.
    fn per_frame(&self) -> u32 {
        u32::from(self.receive_mss).min(PIECE)
    }

    pub(in crate::tcp) fn fair_share(&self) -> u32 {
        FAIR_SHARE.max(2 * u32::from(self.receive_mss).div_ceil(PIECE))
    }

    /// The free part of the receive buffer. It is little or nothing when this connection holds many
    /// frames, or when nearly all frames are in use: a program that does not read must not starve
    /// the others.
    fn receive_space(&self, frames: &Frames<'_>) -> u32 {
        let buffer = self.settings.receive_buffer;
        // A full segment fills at least half of a frame; a queue of smaller ones must not hold more
        // memory for it.
        let most_frames = (buffer / 1024).max(32);
        let space = buffer.saturating_sub(self.recv.bytes);
        // A connection that holds little offers a little in any case. Otherwise the window of one
        // that has read everything would stay shut until the peer probes it.
        let least = if self.recv.held() < self.fair_share() { self.fair_share() * self.per_frame() } else { 0 };
        if frames.available() < frames.meta.len() / 8 {
            return space.min(least);
        }
        // The window never promises more than the free frames can hold.
        let room = (frames.available() - frames.meta.len() / 8) as u32;
        let room = room.saturating_mul(self.per_frame()).max(self.open_window()).max(least);
        if self.recv.held() >= most_frames { 0 } else { space.min(room) }
    }

    /// Whether data must be dropped for want of frames. A connection with nothing queued must get a
    /// frame to answer with (`frames_for_others`), so a connection that holds data here stops
    /// taking more before frames are that scarce. The receive reserve is refilled only while more
    /// than a sixteenth of the frames is free (`Stack::refill`). Without it no acknowledgement
    /// would arrive to free others. Below that, only a connection that holds nothing may keep a
    /// frame, and only while the reserve is still half full (`filled`).
    pub(in crate::tcp) fn is_over_share(&self, frames: &Frames<'_>, filled: bool) -> bool {
        let (available, all, held) = (frames.available(), frames.meta.len(), self.recv.held());
        match available {
            _ if available <= all / 16 => held > 0 || !filled,
            _ if available <= all * 11 / 128 => held > 0,
            _ => available < all * 3 / 32 && held >= self.fair_share(),
        }
    }

    /// Bytes from RCV.NXT to the right edge already offered.
    pub(in crate::tcp) fn open_window(&self) -> u32 {
        self.receive_window.edge.since(self.recv.next)
    }

    /// The window that could be offered now, before rounding; the right edge never moves left.
    fn possible_window(&self, frames: &Frames<'_>) -> u32 {
        // A window that the field cannot express is not offered, and is no update either: 64 KiB
        // without scaling.
        let most = 0xffff << self.negotiated.receive_shift;
        let (open, space) = (self.open_window(), self.receive_space(frames).min(most));
        // Silly window avoidance (RFC 9293 §3.8.6.2.2): only steps of a segment or of half the
        // buffer.
        let step = u32::from(self.receive_mss).min(self.settings.receive_buffer / 2).max(1);
        if space >= open + step { space } else { open }
    }

    /// The window field of a segment that is about to be sent with this acknowledgement; moves the
    /// right edge along.
    pub(in crate::tcp) fn offer_window(&mut self, frames: &Frames<'_>, ack: Seq) -> u16 {
        let shift = self.negotiated.receive_shift;
        let window = self.possible_window(frames) + self.recv.next.since(ack);
        // Rounded up: rounding down would move the right edge to the left (RFC 7323 §2.4).
        let field = ((u64::from(window) + (1 << shift) - 1) >> shift).min(0xffff) as u16;
        self.receive_window.edge = self.receive_window.edge.max(ack + (u32::from(field) << shift));
        field
    }

    /// The window field of SYN and SYN-ACK, which is not scaled (RFC 7323 §2.2).
    pub(in crate::tcp) fn offer_syn_window(&mut self, route: &Metrics) -> u16 {
        let field = self.syn_window(route);
        self.receive_window.edge = self.recv.next + field;
        field as u16
    }

    /// The window of its SYN.
    pub(in crate::tcp) fn syn_window(&self, route: &Metrics) -> u32 {
        window_of_syn(&self.settings, route, self.offered_mss)
    }

    /// The program has read `bytes`. Grows the buffer if it read more than half of it in a round
    /// trip. Returns whether the window has opened so far that an unsolicited window update is due.
    pub(in crate::tcp) fn taken(&mut self, frames: &Frames<'_>, now: Instant, bytes: u32, most: u32) -> bool {
        self.receive_window.taken = self.receive_window.taken.saturating_add(bytes);
        let span = now.since(self.receive_window.since);
        if span >= self.rtt.srtt.max(MIN_INTERVAL) {
            // Twice the data of a round trip lets the peer's slow start double (as on Linux).
            let wanted = self.receive_window.taken.saturating_mul(2).saturating_add(16 * u32::from(self.receive_mss));
            // One connection never takes more than a quarter of all frames.
            let most = most.min(frames.meta.len() as u32 / 4 * 1024);
            let plenty = frames.available() > frames.meta.len() / 2;
            if !self.settings.receive_fixed && plenty && span < self.rtt.srtt.max(MIN_INTERVAL).times(4) {
                self.settings.receive_buffer = self.settings.receive_buffer.max(wanted.min(most));
            }
            (self.receive_window.taken, self.receive_window.since) = (0, now);
        }
        let (open, possible) = (self.open_window(), self.possible_window(frames));
        possible > open && possible >= 2 * open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Limits, OwnedMemory};

    /// RFC 9293 §3.8.6.2.2: a program that has read everything has room for a segment, and nothing
    /// else would open its window. Where frames are few, more free frames must not mean a smaller
    /// window: the windows keep the number of free frames near that point.
    #[test]
    fn rfc9293_3_8_6_2_2_more_free_frames_never_mean_a_smaller_window() {
        for mss in [536, 1448, 8948] {
            let mut memory = OwnedMemory::new(&Limits { frames: 1024, tcp: 4, ..Limits::DEFAULT });
            let mut stack = memory.stack();
            let frames = &mut stack.mem.frames;
            let mut socket = Socket::new_zeroed();
            (socket.receive_mss, socket.settings.receive_buffer) = (mss, 256 << 10);
            socket.negotiated.receive_shift = 7;
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
