//! One direction of a cable with all that can go wrong on the way.

use crate::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tickwire_stack::time::{Instant, Span};

/// What a link does to packets. The default is a perfect cable with 10 us delay.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Time on the way.
    pub delay: Span,
    /// Added at random, from nothing up to this; packets keep their order.
    pub jitter: Span,
    /// Packets lost, per million.
    pub loss: u32,
    /// Packets that arrive twice, per million.
    pub duplicate: u32,
    /// Packets held back so that later ones overtake them, per million.
    pub reorder: u32,
    /// How long such a packet is held back, at most.
    pub reorder_by: Span,
    /// Packets in which one bit is flipped, per million.
    pub corrupt: u32,
    /// Bits per second; 0: no limit.
    pub rate: u64,
    /// Bytes that may wait in front of the rate limit; more are dropped.
    pub queue: usize,
    /// Largest IP packet that passes; larger ones vanish without a word (a path MTU black hole).
    pub mtu: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            delay: Span::from_micros(10),
            jitter: Span::ZERO,
            loss: 0,
            duplicate: 0,
            reorder: 0,
            reorder_by: Span::from_micros(200),
            corrupt: 0,
            rate: 0,
            queue: 1 << 20,
            mtu: 9000,
        }
    }
}

/// What happened on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets put in.
    pub sent: u64,
    /// Packets that came out.
    pub delivered: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets dropped in front of the rate limit.
    pub overflowed: u64,
    /// Packets larger than the MTU.
    pub too_big: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Bytes put in, Ethernet headers included.
    pub bytes: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    arrives: Instant,
    number: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) config: LinkConfig,
    pub(crate) stats: LinkStats,
    flying: BinaryHeap<Reverse<InFlight>>,
    number: u64,
    /// When the rate limit has sent all that waits.
    free_at: Instant,
    /// The latest arrival of a packet that keeps its order.
    last: Instant,
}

impl Link {
    pub(crate) fn new(config: LinkConfig) -> Self {
        let never = Instant::NEVER;
        Self { config, stats: LinkStats::default(), flying: BinaryHeap::new(), number: 0, free_at: never, last: never }
    }

    pub(crate) fn send(&mut self, now: Instant, rng: &mut Rng, mut bytes: Vec<u8>) {
        let LinkConfig { delay, jitter, loss, duplicate, reorder, reorder_by, corrupt, rate, queue, mtu } = self.config;
        self.stats.sent += 1;
        self.stats.bytes += bytes.len() as u64;
        if bytes.len() > mtu + 14 {
            self.stats.too_big += 1;
            return;
        }
        let mut leaves = now;
        if rate != 0 {
            let start = self.free_at.max(now);
            let waiting = start.since(now).as_nanos() as u128 * u128::from(rate) / 8_000_000_000;
            if waiting > queue as u128 {
                self.stats.overflowed += 1;
                return;
            }
            leaves = start + Span::from_nanos(bytes.len() as u64 * 8_000_000_000 / rate);
            self.free_at = leaves;
        }
        if rng.chance(loss) {
            self.stats.lost += 1;
            return;
        }
        if rng.chance(corrupt) {
            let bit = rng.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.stats.corrupted += 1;
        }
        let copies = if rng.chance(duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let mut arrives = leaves + delay;
            if !jitter.is_zero() {
                arrives += Span::from_nanos(rng.below(jitter.as_nanos()));
            }
            if rng.chance(reorder) {
                arrives += Span::from_nanos(1 + rng.below(reorder_by.as_nanos().max(1)));
            } else {
                arrives = arrives.max(self.last);
                self.last = arrives;
            }
            self.number += 1;
            self.flying.push(Reverse(InFlight { arrives, number: self.number, bytes: bytes.clone() }));
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse(packet)| packet.arrives)
    }

    pub(crate) fn arrive(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        self.stats.delivered += 1;
        self.flying.pop().map(|Reverse(packet)| packet.bytes)
    }
}
