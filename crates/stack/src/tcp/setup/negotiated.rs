//! What both SYNs agree on (RFC 9293 §3.7.1, RFC 7323 §2.2 and §3.2, RFC 2018 §2, RFC 3168 §6.1.1):
//! built from the options of the peer's SYN, or from what a SYN cookie has kept of them.

use crate::addr::Family;
use crate::tcp::program::settings::MIN_MSS;
use crate::tcp::wire::header::bit;
use crate::tcp::wire::options::{Options, Timestamps};
use zerocopy::FromZeros;

/// The options of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct Negotiated {
    /// The MSS of the peer's SYN.
    pub(in crate::tcp) peer_mss: u16,
    /// Both sides use timestamps.
    pub(in crate::tcp) timestamps: bool,
    /// The peer supports SACK.
    pub(in crate::tcp) sack: bool,
    /// Both sides scale windows.
    scaling: bool,
    /// Shift of the windows we receive; 0 without scaling.
    pub(in crate::tcp) send_shift: u8,
    /// Shift of the windows we send; 0 without scaling.
    pub(in crate::tcp) receive_shift: u8,
    /// Both sides take part in explicit congestion notification.
    pub(in crate::tcp) ecn: bool,
}

shared_layout! { Negotiated {
    peer_mss, timestamps, sack, scaling, send_shift, receive_shift, ecn,
} }

impl Negotiated {
    /// Before the peer's SYN: nothing, and no limit to segments.
    pub(in crate::tcp) fn nothing() -> Self {
        Self { peer_mss: u16::MAX, ..Self::default() }
    }

    /// What our SYN offers: every option, and windows shifted by `shift`.
    pub(in crate::tcp) fn offer(shift: u8) -> Self {
        Self { timestamps: true, sack: true, scaling: true, receive_shift: shift, ..Self::nothing() }
    }

    /// What is agreed with a peer whose SYN carries the options `peer`; our SYN offers all of them.
    /// `shift`: that of our windows. `ecn`: both sides take part in explicit congestion
    /// notification.
    pub(in crate::tcp) fn with(peer: &Options, family: Family, shift: u8, ecn: bool) -> Self {
        // RFC 9293 §3.7.1: without the option, what every host must take.
        let default = match family {
            Family::V4 => 536,
            Family::V6 => 1220,
        };
        let scaling = peer.window_scale.is_some();
        Self {
            peer_mss: if peer.mss == 0 { default } else { peer.mss.max(MIN_MSS) },
            timestamps: peer.timestamps.is_some(),
            sack: peer.sack_permitted,
            scaling,
            send_shift: peer.window_scale.unwrap_or(0),
            receive_shift: if scaling { shift } else { 0 },
            ecn,
        }
    }

    /// What of it a SYN cookie can keep: options other than the MSS are in our timestamp, which
    /// only a peer with timestamps echoes.
    pub(in crate::tcp) fn kept_by_cookie(self) -> Self {
        if self.timestamps { self } else { Self { peer_mss: self.peer_mss, ..Self::default() } }
    }

    /// The options of our SYN or SYN-ACK with the MSS `mss`.
    pub(in crate::tcp) fn options(&self, mss: u16, timestamps: Timestamps) -> Options {
        Options {
            mss,
            window_scale: self.scaling.then_some(self.receive_shift),
            sack_permitted: self.sack,
            timestamps: self.timestamps.then_some(timestamps),
            ..Options::default()
        }
    }

    /// The ECN bits of our SYN-ACK.
    pub(in crate::tcp) fn ecn_answer(&self) -> u8 {
        if self.ecn { bit::ECE } else { 0 }
    }

    /// The shifts of the windows received and sent, if both sides scale them.
    pub(in crate::tcp) fn shifts(&self) -> Option<(u8, u8)> {
        self.scaling.then_some((self.send_shift, self.receive_shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Timestamps = Timestamps { value: 7, echo: 9 };

    #[test]
    fn our_syn_offers_every_option() {
        let syn = Negotiated::offer(7).options(1460, STAMP);
        assert_eq!((syn.mss, syn.window_scale), (1460, Some(7)));
        assert_eq!((syn.sack_permitted, syn.timestamps), (true, Some(STAMP)));
    }

    /// RFC 7323 §2.2, §3.2: a SYN-ACK carries only options that the SYN had.
    #[test]
    fn an_answer_carries_only_what_the_peer_offered() {
        let peer = Options { mss: 1400, sack_permitted: true, ..Options::default() };
        let agreed = Negotiated::with(&peer, Family::V4, 7, false);
        assert_eq!(agreed.options(1460, STAMP), Options { mss: 1460, sack_permitted: true, ..Options::default() });
        assert_eq!((agreed.peer_mss, agreed.shifts(), agreed.receive_shift), (1400, None, 0));
        let peer = Options { window_scale: Some(9), timestamps: Some(STAMP), ..Options::default() };
        let agreed = Negotiated::with(&peer, Family::V4, 7, true);
        let options = agreed.options(1460, STAMP);
        assert_eq!((options.window_scale, options.timestamps, options.sack_permitted), (Some(7), Some(STAMP), false));
        assert_eq!((agreed.shifts(), agreed.ecn_answer()), (Some((9, 7)), bit::ECE));
    }

    /// RFC 9293 §3.7.1.
    #[test]
    fn without_the_option_the_mss_is_what_every_host_takes() {
        for (family, mss) in [(Family::V4, 536), (Family::V6, 1220)] {
            assert_eq!(Negotiated::with(&Options::default(), family, 7, false).peer_mss, mss);
        }
        let tiny = Options { mss: 1, ..Options::default() };
        assert_eq!(Negotiated::with(&tiny, Family::V4, 7, false).peer_mss, MIN_MSS);
    }

    #[test]
    fn a_cookie_without_timestamps_keeps_the_mss_only() {
        let peer = Options { mss: 1400, window_scale: Some(9), sack_permitted: true, ..Options::default() };
        let kept = Negotiated::with(&peer, Family::V4, 7, true).kept_by_cookie();
        assert_eq!(kept, Negotiated { peer_mss: 1400, ..Negotiated::default() });
        let peer = Options { timestamps: Some(STAMP), ..peer };
        let agreed = Negotiated::with(&peer, Family::V4, 7, true);
        assert_eq!(agreed.kept_by_cookie(), agreed);
    }
}
