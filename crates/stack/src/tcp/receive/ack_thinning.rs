//! ACK thinning: an acknowledgement leaves out the last of several segments while more data must
//! follow it.
//!
//! A sender with a single segment in flight allows for a delayed acknowledgement before it probes
//! (RFC 8985 §7.2), on Linux for 200 ms. With two segments in flight it probes after two round
//! trips and two ticks of its clock. So if the last segment of a message is lost and all before it
//! are acknowledged, its repair takes 200 ms. If one received segment was left out of the
//! acknowledgement, it takes some 10 ms. A full segment without PSH is not the last of what is sent
//! (RFC 9293 §3.9.1.2): it may wait for what follows.
//!
//! A sender whose window holds more segments is not delayed: others replace the acknowledged ones.
//! So a segment is left out only while the peer is known to have had three segments in flight a
//! moment ago, and nothing has made its window smaller. One of the three may be left out, and two
//! trigger the next acknowledgement (RFC 5681 §4.2).
//!
//! A sender that holds the small rest of a message until all before it is acknowledged is delayed
//! all the same (Nagle, RFC 896; Linux holds back only a small segment behind another). So nothing
//! is left out before the end of a message has shown that its sender does not do so. It shows that
//! if it arrives behind unacknowledged data, or long after that data was acknowledged, as a
//! retransmission does. The second sign is unreliable: such a sender retransmits, too, or answers
//! later than its round trip. So when a segment was left out until its time was over, the next data
//! decides. If it follows within about two round trips, or is the rest of the message, the peer was
//! waiting, or does not find losses earlier. Nothing is left out again on such a connection.

use crate::tcp::connection::socket::Socket;
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// How long a segment that was left out waits for the next one: two ticks of 4 ms (Linux at 250
/// Hz), rounded up to the next tick, and two round trips, with a margin.
const TIMEOUT: Span = Span::from_millis(20);

/// A sender that waited for an acknowledgement sends within two round trips and this after it.
const PROMPT: Span = Span::from_millis(5);

/// What is known of the last segment, and of its sender.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct AckThinning {
    /// When the peer was last known to have three full segments in flight; never: not since its
    /// window may have become smaller.
    wide: Instant,
    /// When everything was acknowledged; never: something is unacknowledged.
    all_acknowledged: Instant,
    /// Bytes of the last segment, if it was a full one that more data must follow.
    unpushed: u16,
    /// Bytes below RCV.NXT that the last acknowledgement left out.
    pub(in crate::tcp) bytes: u16,
    /// The delayed acknowledgement is due when the time for the data that must follow is over, and
    /// that data has not arrived.
    waits: bool,
    /// The peer waits until all that it has sent is acknowledged, or does not retransmit earlier
    /// for what is left out.
    waited_for: bool,
    /// The peer has sent the small rest of a message without waiting for an acknowledgement.
    keeps_sending: bool,
    /// What was left out has been acknowledged because the time was over.
    given_up: bool,
}

shared_layout! { AckThinning { wide, all_acknowledged, unpushed, bytes, waits, waited_for, keeps_sending, given_up } }

impl AckThinning {
    /// In-order data has arrived. Its last segment has `len` bytes; `full` bytes make a full
    /// segment, and more than that several merged ones. `pushed`: it carries PSH. `behind`: the
    /// peer has no acknowledgement for some data before that segment. `rtt`: the round-trip time,
    /// if known.
    pub(in crate::tcp) fn arrived(
        &mut self,
        now: Instant,
        len: u32,
        full: u16,
        pushed: bool,
        behind: bool,
        rtt: Option<Span>,
    ) {
        let is_full = len >= u32::from(full);
        let prompt = rtt.is_none_or(|rtt| now.since(self.all_acknowledged) < rtt.times(2) + PROMPT);
        let rest = self.unpushed > 0 && !is_full;
        self.waited_for |= self.given_up && (prompt || rest);
        self.keeps_sending |= !is_full && (behind || rest && !prompt);
        self.given_up = false;
        self.unpushed = if len == u32::from(full) && !pushed { full } else { 0 };
    }

    /// All but the last `bytes` were acknowledged.
    pub(in crate::tcp) fn acknowledged(&mut self, now: Instant, bytes: u16) {
        self.all_acknowledged = if bytes == 0 { now } else { Instant::NEVER };
        (self.bytes, self.waits) = (bytes, false);
    }

    /// A loss or a congestion mark: from now on the peer's window may hold fewer than three
    /// segments.
    pub(in crate::tcp) fn narrowed(&mut self) {
        self.wide = Instant::NEVER;
    }

    /// The delayed acknowledgement is due. Returns whether it waited for data that must follow, and
    /// records that none did.
    pub(in crate::tcp) fn give_up(&mut self) -> bool {
        self.given_up |= self.waits;
        self.waits
    }
}

impl Socket {
    /// Before an acknowledgement is sent: how many bytes it leaves out. Other acknowledgements are
    /// sent after `delay`.
    pub(in crate::tcp) fn withhold(&mut self, now: Instant, delay: Span) -> u16 {
        let AckThinning { unpushed, bytes, .. } = self.ack.thinning;
        let unacknowledged = self.recv.next.since(self.ack.last_sent) + u32::from(bytes);
        if self.ack.now {
            return 0;
        }
        if unacknowledged >= 3 * u32::from(self.receive_mss) {
            self.ack.thinning.wide = now;
        }
        if unacknowledged > unpushed.into() && self.may_withhold(now, delay) { unpushed } else { 0 }
    }

    /// Whether the last segment may wait for what follows it.
    fn may_withhold(&self, now: Instant, delay: Span) -> bool {
        let AckThinning { unpushed, waited_for, keeps_sending, wide, .. } = self.ack.thinning;
        // The peer must have room for what is to follow. It must also learn of a gap by SACK, since
        // there would be one duplicate less.
        let room = self.open_window() >= 2 * u32::from(unpushed);
        let wanted = self.negotiated.sack
            && room
            && !self.closing.fin_received
            && !self.is_quick()
            && !self.recv.has_duplicate();
        unpushed > 0 && keeps_sending && !waited_for && wanted && now.since(wide) < delay
    }

    /// Sets the delayed acknowledgement timer, for a segment that arrived alone or for one that was
    /// left out; others wait for `delay`.
    pub(in crate::tcp) fn delay_acknowledgement(&mut self, now: Instant, delay: Span) {
        let waits = self.may_withhold(now, delay);
        let due = now + if waits { TIMEOUT.max(delay) } else { delay };
        let sooner = self.at.ack.is_never() || due < self.at.ack;
        if sooner {
            self.at.ack = due;
        }
        // Once the data that must follow has arrived, a timer set for it is an ordinary one.
        self.ack.thinning.waits = waits && (sooner || self.ack.thinning.waits);
    }
}
