//! The block of ports from which lanes choose those of their own connections. The driver takes the
//! packets of all of them, or of none, so that a connection does not need a handle of its own.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use tickwire_steer::tables::Protocol;

/// For so long the driver goes on to take the packets of a block of which nothing is claimed any
/// more. They are given back to the kernel.
pub(super) const LINGER: Duration = Duration::from_secs(60);

/// What is claimed of the block for one protocol.
#[derive(Clone, Copy, Debug, Default)]
struct Claimed {
    ports: u32,
    /// Since when that is none. `None`: the block is not taken.
    idle_since: Option<Instant>,
    is_taken: bool,
}

/// The block.
#[derive(Clone, Debug)]
pub(super) struct PortBlock {
    ports: RangeInclusive<u16>,
    tcp: Claimed,
    udp: Claimed,
}

impl PortBlock {
    pub(super) fn new(ports: RangeInclusive<u16>) -> Self {
        Self { ports, tcp: Claimed::default(), udp: Claimed::default() }
    }

    pub(super) fn ports(&self) -> RangeInclusive<u16> {
        self.ports.clone()
    }

    pub(super) fn contains(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    fn of(&mut self, protocol: Protocol) -> &mut Claimed {
        match protocol {
            Protocol::Tcp => &mut self.tcp,
            Protocol::Udp => &mut self.udp,
        }
    }

    /// One of its ports is claimed. Returns whether the block is to be taken now.
    pub(super) fn claim(&mut self, protocol: Protocol) -> bool {
        let claimed = self.of(protocol);
        claimed.ports += 1;
        claimed.idle_since = None;
        !std::mem::replace(&mut claimed.is_taken, true)
    }

    /// One of its ports is not claimed any more.
    pub(super) fn release(&mut self, protocol: Protocol, now: Instant) {
        let claimed = self.of(protocol);
        claimed.ports = claimed.ports.saturating_sub(1);
        if claimed.ports == 0 {
            claimed.idle_since = Some(now);
        }
    }

    /// The driver has refused to take the block.
    pub(super) fn refuse(&mut self, protocol: Protocol) {
        *self.of(protocol) = Claimed::default();
    }

    /// The protocols for which the block is not to be taken any more.
    pub(super) fn end_idle(&mut self, now: Instant) -> Vec<Protocol> {
        let is_over =
            |claimed: &Claimed| claimed.idle_since.is_some_and(|since| now.saturating_duration_since(since) >= LINGER);
        let mut ended = Vec::new();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            if is_over(self.of(protocol)) {
                *self.of(protocol) = Claimed::default();
                ended.push(protocol);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_taken_from_its_first_claim_until_some_time_after_its_last() {
        let mut block = PortBlock::new(100..=200);
        assert!(block.contains(100) && block.contains(200) && !block.contains(201));
        assert!(block.claim(Protocol::Tcp) && !block.claim(Protocol::Tcp));
        assert!(block.claim(Protocol::Udp), "each protocol has ports of its own");
        let begin = Instant::now();
        block.release(Protocol::Tcp, begin);
        assert!(block.end_idle(begin + LINGER).is_empty());
        block.release(Protocol::Tcp, begin);
        assert!(block.end_idle(begin + LINGER / 2).is_empty());
        assert!(!block.claim(Protocol::Tcp), "it was still taken");
        assert!(block.end_idle(begin + LINGER).is_empty());
        block.release(Protocol::Tcp, begin);
        assert_eq!(block.end_idle(begin + LINGER), [Protocol::Tcp]);
        assert!(block.end_idle(begin + LINGER).is_empty() && block.claim(Protocol::Tcp));
        block.refuse(Protocol::Tcp);
        assert!(block.claim(Protocol::Tcp));
    }
}
