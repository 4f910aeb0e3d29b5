//! Faults of the cable and the hosts, and the MTU and path state that the hosts are given.

use crate::{Burst, LinkConfig, Rng, SimulatedPair};
use tickwire_stack::path::PathState;
use tickwire_stack::time::Span;

/// The state of the faults.
pub(super) struct FaultInjection {
    /// The MTU of both interfaces.
    pub(super) told: u32,
    /// Hosts whose transmit ring is full.
    stalled: [bool; 2],
}

impl FaultInjection {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let told = [1500, 1500, 9000, 1400][rng.below(4) as usize];
        Self { told, stalled: [false; 2] }
    }

    /// Draws new conditions for each direction of the cable.
    pub(super) fn change(&self, pair: &mut SimulatedPair, rng: &mut Rng) {
        for from in 0..2 {
            *pair.link_mut(from) = self.drawn(rng);
        }
    }

    fn drawn(&self, rng: &mut Rng) -> LinkConfig {
        let mut some = |one_in: u64, most: u64| if rng.below(one_in) == 0 { rng.below(most + 1) as u32 } else { 0 };
        let mut link = LinkConfig {
            loss: some(2, 50_000),
            reorder: some(3, 50_000),
            duplicate: some(4, 20_000),
            corrupt: some(4, 10_000),
            mark: some(3, 100_000),
            jitter: Span::from_micros(some(3, 100).into()),
            delay: Span::from_micros(10 + u64::from(some(3, 5_000))),
            reorder_by: Span::from_micros(1 + u64::from(some(1, 2_000))),
            rate: u64::from(some(4, 1_000)) * 1_000_000,
            queue: 3_000 + some(1, 200_000) as usize,
            ..LinkConfig::default()
        };
        let (begin, bad) = (some(4, 5_000), some(1, 1_000_000));
        link.burst = Burst { begin, end: 100_000, loss: bad, longest: Span::from_millis(20) };
        // Sometimes larger packets are dropped silently.
        link.mtu = [9000, 9000, 9000, 1500, 1400, 1300][some(1, 5) as usize].min(self.told.max(1300) as usize);
        link
    }

    /// Begins or ends a random fault of one host or of the cable, or changes the MTU of both hosts.
    pub(super) fn trouble(&mut self, pair: &mut SimulatedPair, rng: &mut Rng) {
        let host = rng.below(2) as usize;
        let now = pair.now();
        match rng.below(7) {
            0 => pair.link_mut(host).dark_until = now + Span::from_millis(rng.below(1_500)),
            1 => {
                self.stalled[host] = !self.stalled[host];
                pair.host_mut(host).stall(self.stalled[host]);
            }
            2 => pair.host_mut(host).keep_transmitting(),
            3 => {
                pair.host_mut(host).give_back();
            }
            4 => {
                self.told = [1500, 9000, 1400, 1280][rng.below(4) as usize];
                pair.set_mtu(self.told);
            }
            5 => pair.tell(host, PathState::Unreachable),
            _ => pair.tell(host, PathState::Ready),
        }
    }

    /// Ends the faults of both hosts; the cable keeps its conditions.
    pub(super) fn mend(&mut self, pair: &mut SimulatedPair) {
        self.stalled = [false; 2];
        for host in 0..2 {
            pair.host_mut(host).stall(false);
            pair.host_mut(host).give_back();
            pair.tell(host, PathState::Ready);
        }
    }

    /// Ends all faults.
    pub(super) fn clear(&mut self, pair: &mut SimulatedPair) {
        self.mend(pair);
        for host in 0..2 {
            *pair.link_mut(host) = LinkConfig::default();
        }
    }
}
