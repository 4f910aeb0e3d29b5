//! When to acknowledge (RFC 9293 §3.8.6.3, RFC 5681 §4.2): at once at the start of a connection, for every second full
//! segment and whenever something is out of order; otherwise a little later, in the hope of an answer to ride on.

use super::config::Config;
use super::socket::Socket;
use crate::time::Instant;

/// How many acknowledgements are sent at once at the start and after a gap, so that the peer's window opens quickly.
pub(super) const QUICK: u8 = 16;

impl Socket {
    /// Data arrived in order, with a segment of `len` bytes: acknowledge now or later.
    pub(super) fn data_arrived(&mut self, config: &Config, now: Instant, len: u32, filled_gap: bool) {
        self.receive_mss = self.receive_mss.max(len.min(0xffff) as u16);
        let unacknowledged = self.recv.next.since(self.acked);
        let full = 2 * u32::from(self.receive_mss);
        if filled_gap || self.recv.has_gap() || unacknowledged >= full {
            self.ack_now = true;
        } else if self.quick_acks > 0 {
            self.quick_acks -= 1;
            self.ack_now = true;
        } else if self.at.ack.is_never() {
            self.at.ack = now + config.delay();
        }
    }

    /// Something came that has to be answered at once: out of order, a duplicate, outside of the window.
    pub(super) fn disorder(&mut self) {
        self.ack_now = true;
        self.quick_acks = self.quick_acks.max(QUICK);
    }

    /// A segment with an acknowledgement is being sent; `data`: it carries data.
    pub(super) fn acknowledged(&mut self, now: Instant, data: bool, config: &Config) {
        // An answer soon after a question: the exchange is interactive, and later answers can carry the acknowledgement.
        if data && now.since(self.heard) < config.delay() && !self.settings.quickack {
            self.quick_acks = 0;
        }
        self.acked = self.recv.next;
        self.ack_now = false;
        self.at.ack = Instant::NEVER;
        self.recv.duplicate = Default::default();
    }
}
