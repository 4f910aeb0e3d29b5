//! Explicit congestion notification (RFC 3168): a router that would soon have to drop packets marks
//! them instead. The receiver echoes the mark, and the sender slows down as after a loss, with
//! nothing to retransmit.

use crate::table::Counters;
use crate::tcp::connection::socket::Socket;
use crate::tcp::wire::header::{Segment, bit};
use crate::tcp::wire::seq::Seq;
use zerocopy::FromZeros;

/// The ECN field: the bits of the traffic class that the program cannot set (RFC 3168 §5).
pub(in crate::tcp) const FIELD: u8 = 0b11;
/// ECT(0): routers may mark this packet.
pub(in crate::tcp) const ECT0: u8 = 0b10;
/// CE: a router has marked it.
pub(in crate::tcp) const CE: u8 = 0b11;

/// Whether connections negotiate ECN; numbered as in Linux's `net.ipv4.tcp_ecn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum Ecn {
    /// Never.
    Off = 0,
    /// If the peer agrees: our SYNs ask for it, and peers that ask for it get it.
    Ask = 1,
    /// If the peer asks for it.
    #[default]
    Accept = 2,
}

shared_layout! { enum Ecn { Off, Ask, Accept } }

impl Ecn {
    /// The choice for a value of `net.ipv4.tcp_ecn`; `None` for numbers to which Linux may give a
    /// meaning in the future.
    #[must_use]
    pub const fn from_linux(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::Ask),
            2 => Some(Self::Accept),
            _ => None,
        }
    }

    /// Whether a listener accepts it from a peer with this SYN (§6.1.1).
    pub(in crate::tcp) fn accepts(self, syn: &Segment) -> bool {
        self != Self::Off && asks(syn)
    }
}

/// The ECN state of a connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Marks {
    /// Our SYN asked for it.
    asked: bool,
    /// A mark arrived to which the peer has not signalled a reaction yet: acknowledgements carry
    /// ECE (§6.1.3).
    echo: bool,
    /// The window has been reduced, and CWR on the next new data is to inform the peer (§6.1.2).
    tell: bool,
    /// The window was reduced because of congestion, whatever its sign; at most once per window
    /// (§6.1.2).
    reacted: bool,
    /// That window ends here.
    until: Seq,
}

shared_layout! { Marks { asked, echo, tell, reacted, until } }

/// Whether a SYN asks for ECN (§6.1.1): both bits, and no codepoint that only data may carry.
fn asks(syn: &Segment) -> bool {
    syn.has(bit::ECE | bit::CWR) && syn.codepoint == 0
}

impl Marks {
    /// The bits of our SYN. A lost SYN may have been dropped because it asked for ECN, so its
    /// retransmission does not ask (§6.1.1.1).
    pub(in crate::tcp) fn ask(&mut self, used: Ecn, again: bool) -> u8 {
        if used != Ecn::Ask || again {
            return 0;
        }
        self.asked = true;
        bit::ECE | bit::CWR
    }

    /// Whether both sides take part, now that the peer's SYN or SYN-ACK has arrived. `passive`: it
    /// was the first SYN, and ours has not been sent.
    pub(in crate::tcp) fn is_agreed(&self, used: Ecn, segment: &Segment, passive: bool) -> bool {
        match (segment.has(bit::ACK), passive) {
            (true, _) => self.asked && segment.has(bit::ECE) && !segment.has(bit::CWR),
            (false, true) => used.accepts(segment),
            (false, false) => self.asked && asks(segment),
        }
    }

    /// The bits that every segment carries.
    pub(in crate::tcp) fn bits(&self) -> u8 {
        if self.echo { bit::ECE } else { 0 }
    }

    /// New data is sent: the codepoint of its packet, and the bits of its header. `agreed`: both
    /// sides take part. Retransmissions carry neither, so that a forged or old packet cannot carry
    /// a mark (§6.1.5); segments without data do not either (§6.1.4).
    pub(in crate::tcp) fn new_data(&mut self, agreed: bool) -> (u8, u8) {
        match (agreed, core::mem::take(&mut self.tell)) {
            (false, _) => (0, 0),
            (true, false) => (ECT0, 0),
            (true, true) => (ECT0, bit::CWR),
        }
    }

    /// The window was reduced, for whatever reason, while all data before `nxt` was in flight.
    pub(in crate::tcp) fn reduced(&mut self, nxt: Seq) {
        (self.tell, self.reacted, self.until) = (true, true, nxt);
    }

    /// The reduction was undone.
    pub(in crate::tcp) fn restored(&mut self) {
        (self.tell, self.reacted) = (false, false);
    }

    /// Whether the acknowledged data was in flight when the window was last reduced. The segment
    /// with our CWR is the first beyond that, so the peer may continue to echo until then.
    fn has_reacted(&mut self, una: Seq) -> bool {
        self.reacted &= una.le(self.until);
        self.reacted
    }
}

impl Socket {
    /// An acceptable segment has arrived: processes its marks as the receiver of data.
    pub(in crate::tcp) fn marks_input(&mut self, counters: &Counters, segment: &Segment) {
        if !self.negotiated.ecn {
            return;
        }
        let marks = &mut self.marks;
        if segment.has(bit::CWR) && segment.length() > 0 {
            marks.echo = false;
            // The peer's window may now be a single segment: acknowledge at once.
            self.ack.now = true;
            self.ack.thinning.narrowed();
        }
        if segment.codepoint == CE && segment.length() > 0 {
            counters.tcp_in_ce.inc();
            self.ack.now |= !marks.echo;
            marks.echo = true;
            self.ack.thinning.narrowed();
        }
    }

    /// Whether an acknowledgement echoes a mark, and the window has not been reduced since the
    /// marked packets were sent.
    pub(in crate::tcp) fn is_marked(&mut self, segment: &Segment) -> bool {
        let una = self.send.una;
        let echoed = self.negotiated.ecn && segment.has(bit::ECE) && !segment.has(bit::SYN);
        // Evaluated in any case: sequence numbers of long ago would seem to lie ahead.
        !self.marks.has_reacted(una) && echoed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(bits: u8) -> Segment {
        Segment { bits: bit::SYN | bits, ..Segment::default() }
    }

    #[test]
    fn both_must_want_it() {
        const BOTH: u8 = bit::ECE | bit::CWR;
        for (used, bits, agreed) in [
            (Ecn::Off, BOTH, false),
            (Ecn::Accept, BOTH, true),
            (Ecn::Ask, BOTH, true),
            (Ecn::Accept, bit::ECE, false),
            (Ecn::Accept, 0, false),
        ] {
            assert_eq!(Marks::default().is_agreed(used, &syn(bits), true), agreed, "{used:?} {bits:#x}");
        }
        for (used, answer, agreed) in [
            (Ecn::Ask, bit::ECE, true),
            (Ecn::Ask, 0, false),
            (Ecn::Ask, BOTH, false), // the peer reflects bits that it does not support (§6.1.1)
            (Ecn::Accept, bit::ECE, false),
        ] {
            let mut marks = Marks::default();
            marks.ask(used, false);
            assert_eq!(marks.is_agreed(used, &syn(bit::ACK | answer), false), agreed, "{used:?} {answer:#x}");
        }
        let rewritten = Segment { codepoint: ECT0, ..syn(BOTH) };
        assert!(!Ecn::Accept.accepts(&rewritten), "a node on the path rewrites the field");
    }

    #[test]
    fn one_window_suffers_once() {
        let mut marks = Marks::default();
        assert!(!marks.has_reacted(Seq(1)));
        marks.reduced(Seq(1000));
        assert!(marks.has_reacted(Seq(1000)));
        assert_eq!(marks.new_data(true), (ECT0, bit::CWR));
        assert_eq!(marks.new_data(true), (ECT0, 0), "said once");
        assert!(!marks.has_reacted(Seq(1001)));
        assert!(!marks.has_reacted(Seq(999)), "however the numbers lie later");
    }
}
