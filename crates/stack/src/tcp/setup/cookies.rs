//! SYN cookies (RFC 4987 §3.6): when the SYN queue is full, the state of a SYN is encoded in our
//! initial sequence number and in our timestamp. The peer's acknowledgement returns both.

use super::negotiated::Negotiated;
use crate::Stack;
use crate::addr::Endpoint;
use crate::tcp::wire::options::{MAX_WINDOW_SHIFT, Options, Timestamps};
use crate::tcp::wire::seq::Seq;
use crate::time::{Instant, Span};

/// The lifetime of a cookie: between one and two of these.
const PERIOD: Span = Span::from_secs(64);

/// The segment sizes that three bits can encode.
const SIZES: [u16; 8] = [216, 536, 1160, 1220, 1360, 1440, 1460, 8960];

/// Low bits of our timestamp that carry the options: window shift (4, 15 = none), SACK (1), ECN
/// (1).
const OPTION_BITS: u32 = 6;

fn period(now: Instant) -> u64 {
    now.as_nanos() / PERIOD.as_nanos()
}

impl Stack<'_> {
    fn cookie_at(&self, local: Endpoint, remote: Endpoint, irs: Seq, period: u64, size: usize) -> Seq {
        // Five bits of time, three of segment size, and 24 of a keyed hash that cannot be forged.
        let hash = self.tcp_hash(local, remote, u64::from(irs.0) << 32 | (period & 0xffff) << 8 | 0x80 | size as u64);
        Seq((period as u32 & 31) << 27 | (size as u32) << 24 | (hash as u32 & 0x00ff_ffff))
    }

    /// The initial sequence number that encodes a SYN.
    pub(in crate::tcp) fn make_cookie(
        &self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        irs: Seq,
        mss: u16,
    ) -> Seq {
        let size = SIZES.iter().rposition(|&s| s <= mss).unwrap_or(0);
        self.cookie_at(local, remote, irs, period(now), size)
    }

    /// Decodes the acknowledged sequence number, if it is one of our cookies and not too old.
    /// `echo` is our own timestamp as the peer echoes it.
    pub(in crate::tcp) fn check_cookie(
        &self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        irs: Seq,
        cookie: Seq,
        echo: Option<u32>,
    ) -> Option<Negotiated> {
        let size = (cookie.0 >> 24 & 7) as usize;
        let current = period(now);
        let good = [current, current.wrapping_sub(1)];
        good.iter().find(|&&p| self.cookie_at(local, remote, irs, p, size) == cookie)?;
        let mut syn = Options { mss: SIZES[size], ..Options::default() };
        let mut ecn = false;
        if let Some(echo) = echo {
            let shift = (echo & 15) as u8;
            syn.timestamps = Some(Timestamps { echo, ..Timestamps::default() });
            syn.window_scale = (shift <= MAX_WINDOW_SHIFT).then_some(shift);
            syn.sack_permitted = echo >> 4 & 1 == 1;
            ecn = echo >> 5 & 1 == 1;
        }
        let shift = self.mem.core.tcp.config.window_shift;
        Some(Negotiated::with(&syn, remote.address.family(), shift, ecn))
    }
}

/// Our timestamp with the negotiated options in its low bits. It must not be later than the clock,
/// because our timestamps must not go back after it (RFC 7323 §5.4). The peer would drop our
/// segments until the clock has caught up (§5.3).
pub(in crate::tcp) fn timestamp_with(clock: u32, negotiated: &Negotiated) -> u32 {
    let shift = negotiated.shifts().map_or(15, |(theirs, _)| u32::from(theirs));
    let agreed = u32::from(negotiated.ecn) << 5 | u32::from(negotiated.sack) << 4 | shift;
    let stamp = clock & !((1 << OPTION_BITS) - 1) | agreed;
    let ahead = (stamp.wrapping_sub(clock) as i32) > 0;
    if ahead { stamp.wrapping_sub(1 << OPTION_BITS) } else { stamp }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Address, Family};
    use crate::memory::{Limits, OwnedMemory};

    #[test]
    fn its_timestamp_is_never_ahead_of_the_clock() {
        for (window_scale, sack_permitted) in [(None, false), (None, true), (Some(0), false), (Some(14), true)] {
            let options = Options { window_scale, sack_permitted, ..Default::default() };
            let negotiated = Negotiated::with(&options, Family::V4, 7, sack_permitted);
            for clock in (0..130).chain(u32::MAX - 70..=u32::MAX) {
                let behind = clock.wrapping_sub(timestamp_with(clock, &negotiated));
                assert!(behind < 64, "{clock}: {behind}");
            }
        }
    }

    #[test]
    fn a_cookie_is_good_for_its_own_connection_and_for_a_while() {
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 4, ..Limits::DEFAULT });
        let stack = memory.stack();
        let (a, b) = (Endpoint::new(Address::v4([10, 0, 0, 1]), 80), Endpoint::new(Address::v4([10, 0, 0, 2]), 4000));
        let at = |s: u64| Instant::from_nanos(1_000_000_000 * (6400 + s));
        let cookie = stack.make_cookie(at(0), a, b, Seq(77), 1455);
        let times = Some(Timestamps { value: 1, echo: 0 });
        let options =
            Options { mss: 1440, window_scale: Some(9), sack_permitted: true, timestamps: times, ..Default::default() };
        let expected = Negotiated::with(&options, Family::V4, 0, true);
        let echo = Some(timestamp_with(0xdead_beef, &expected));
        assert_eq!(stack.check_cookie(at(70), a, b, Seq(77), cookie, echo), Some(expected));
        let plain = Negotiated::with(&Options { mss: 1440, ..Default::default() }, Family::V4, 0, false);
        assert_eq!(stack.check_cookie(at(0), a, b, Seq(77), cookie, None), Some(plain));
        assert_eq!(stack.check_cookie(at(130), a, b, Seq(77), cookie, echo), None, "too old");
        assert_eq!(stack.check_cookie(at(0), a, b, Seq(78), cookie, echo), None, "another SYN");
        assert_eq!(stack.check_cookie(at(0), b, a, Seq(77), cookie, echo), None, "another connection");
        assert_eq!(stack.check_cookie(at(0), a, b, Seq(77), cookie + (1 << 24), echo), None, "another size");
    }
}
