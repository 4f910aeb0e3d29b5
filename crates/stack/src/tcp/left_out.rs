//! Leaving the last of several segments out of an acknowledgement, while more must follow it.
//!
//! Who has a single segment under way allows for its acknowledgement being held back before he
//! probes (RFC 8985 §7.2), on Linux for 200 ms; with two he probes after two round trips and two
//! ticks of his clock. So a message of which all but the last segment has come and is acknowledged
//! waits 200 ms for that one if it was lost, and some ten if one that has come was left out. A full
//! segment without PSH is not the last of what is sent (RFC 9293 §3.9.1.2): it may wait for what
//! follows.
//!
//! Nobody waits meanwhile whose window holds more: of those that are acknowledged others take the
//! place. So it is done only while the peer is known to have had three segments under way a moment
//! ago, of which one may be left out and two come for the next acknowledgement (RFC 5681 §4.2), and
//! nothing has happened that makes a window smaller. One kind of sender waits all the same, that
//! which sends the small rest of a message when all before it is acknowledged (Nagle, RFC 896;
//! Linux holds back only a small segment behind another). So nothing is left out before the end of
//! a message has told that its sender is not of that kind: it came behind data that was not
//! acknowledged, or long after that was, as what is repaired does. The second may deceive: that
//! kind repairs, too, or answers later than its round trip. Who sends something a round trip after
//! the time was over, or at any time then the rest of the message, had waited all the same, or
//! finds no loss earlier for what is left out, and nothing is left out again on its connection.

use super::socket::Socket;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// How long what was left out waits for what follows it: two ticks of 4 ms, as Linux has them at
/// 250 Hz, rounded up to the next, and two round trips, with some to spare.
const PATIENCE: Span = Span::from_millis(20);

/// Who had waited for an acknowledgement sends within so much more than two round trips after it.
const PROMPT: Span = Span::from_millis(5);

/// What is known of the last segment, and of who sends it.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct LeftOut {
    /// When the peer was last known to have three full segments under way; never: not since its
    /// window may have become smaller.
    wide: Instant,
    /// When everything was acknowledged; never: it was not.
    told: Instant,
    /// Bytes of the last segment, if it was a full one behind which there must be more.
    unpushed: u16,
    /// Bytes below RCV.NXT that the last acknowledgement left out.
    pub(super) bytes: u16,
    /// The delayed acknowledgement is due when the time for what must follow is over, and that has
    /// not come.
    waits: bool,
    /// The peer waits until all that it has sent is acknowledged, or does not send sooner for what
    /// is left out.
    waited_for: bool,
    /// It has sent the small rest of a message without waiting for that.
    goes_on: bool,
    /// What was left out has been acknowledged because the time was over.
    given_up: bool,
}

impl LeftOut {
    /// Data has come in order, the last of it a segment of `len` bytes, of which `full` make a full
    /// one, and more several that were merged; `pushed`: with PSH. `behind`: there is some before
    /// that segment of which the peer has no acknowledgement. A round trip takes `rtt`, if that is
    /// known.
    pub(super) fn arrived(&mut self, now: Instant, len: u32, full: u16, pushed: bool, behind: bool, rtt: Option<Span>) {
        let is_full = len >= u32::from(full);
        let prompt = rtt.is_none_or(|rtt| now.since(self.told) < rtt.times(2) + PROMPT);
        let rest = self.unpushed > 0 && !is_full;
        self.waited_for |= self.given_up && (prompt || rest);
        self.goes_on |= !is_full && (behind || rest && !prompt);
        self.given_up = false;
        self.unpushed = if len == u32::from(full) && !pushed { full } else { 0 };
    }

    /// All but the last `bytes` were acknowledged.
    pub(super) fn acknowledged(&mut self, now: Instant, bytes: u16) {
        self.told = if bytes == 0 { now } else { Instant::NEVER };
        (self.bytes, self.waits) = (bytes, false);
    }

    /// Something was lost or marked: the peer's window may hold fewer than three segments from now
    /// on.
    pub(super) fn narrowed(&mut self) {
        self.wide = Instant::NEVER;
    }

    /// The delayed acknowledgement is due. Returns whether it waited for what must follow; then it
    /// is noted that nothing did.
    pub(super) fn give_up(&mut self) -> bool {
        self.given_up |= self.waits;
        self.waits
    }
}

impl Socket {
    /// Before an acknowledgement is sent: how many bytes it leaves out. Others are sent after
    /// `delay`.
    pub(super) fn leave_out(&mut self, now: Instant, delay: Span) -> u16 {
        let LeftOut { unpushed, bytes, .. } = self.left_out;
        let unacknowledged = self.recv.next.since(self.acked) + u32::from(bytes);
        if self.ack_now {
            return 0;
        }
        if unacknowledged >= 3 * u32::from(self.receive_mss) {
            self.left_out.wide = now;
        }
        if unacknowledged > unpushed.into() && self.may_leave_out(now, delay) { unpushed } else { 0 }
    }

    /// Whether the last segment may wait for what follows it.
    fn may_leave_out(&self, now: Instant, delay: Span) -> bool {
        let LeftOut { unpushed, waited_for, goes_on, wide, .. } = self.left_out;
        // The peer must have room for what is to follow, and be told of a gap by more than the
        // number of duplicates, of which there would be one less.
        let room = self.open_window() >= 2 * u32::from(unpushed);
        let wanted = self.sack && room && !self.fin_received && !self.is_quick() && !self.recv.has_duplicate();
        unpushed > 0 && goes_on && !waited_for && wanted && now.since(wide) < delay
    }

    /// Sets the timer of the delayed acknowledgement, for a segment that came alone or for what was
    /// left out of an acknowledgement; others wait for `delay`.
    pub(super) fn delay_acknowledgement(&mut self, now: Instant, delay: Span) {
        let waits = self.may_leave_out(now, delay);
        let due = now + if waits { PATIENCE.max(delay) } else { delay };
        let sooner = self.at.ack.is_never() || due < self.at.ack;
        if sooner {
            self.at.ack = due;
        }
        // Once what must follow has come, a timer that had been set for it is as any other.
        self.left_out.waits = waits && (sooner || self.left_out.waits);
    }
}
