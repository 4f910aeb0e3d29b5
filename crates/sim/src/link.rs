//! One direction of a cable, with its faults.

use crate::{Burst, Messages, Rng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tickwire_stack::time::{Instant, Span};

/// What a link does to packets. The default is a perfect cable with a delay of 10 us.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Propagation delay.
    pub delay: Span,
    /// Random additional delay, from zero up to this; packets keep their order.
    pub jitter: Span,
    /// Packets lost, per million.
    pub loss: u32,
    /// Burst loss, in addition to `loss`.
    pub burst: Burst,
    /// Loses the first transmission of the last segment of each message of this many bytes of a TCP
    /// connection. 0: off.
    pub tail_of: u32,
    /// Packets sent before this are lost (a blackout); [`Instant::NEVER`]: none.
    pub dark_until: Instant,
    /// Packets duplicated, per million.
    pub duplicate: u32,
    /// Packets held back so that later ones overtake them, per million.
    pub reorder: u32,
    /// The longest time that such a packet is held back.
    pub reorder_by: Span,
    /// Packets in which one bit is flipped, per million.
    pub corrupt: u32,
    /// Packets that routers mark for congestion (RFC 3168), per million of the ECN-capable ones.
    pub mark: u32,
    /// Bits per second; 0: no limit.
    pub rate: u64,
    /// Bytes that may queue before the rate limit; more are dropped.
    pub queue: usize,
    /// Largest IP packet that passes; larger ones are dropped silently (a path MTU black hole).
    pub mtu: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            delay: Span::from_micros(10),
            jitter: Span::ZERO,
            loss: 0,
            burst: Burst::default(),
            tail_of: 0,
            dark_until: Instant::NEVER,
            duplicate: 0,
            reorder: 0,
            reorder_by: Span::from_micros(200),
            corrupt: 0,
            mark: 0,
            rate: 0,
            queue: 1 << 20,
            mtu: 9000,
        }
    }
}

/// Statistics of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets put in.
    pub sent: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets lost by chance, in bursts or one by one.
    pub lost: u64,
    /// Last segments of messages, lost by `tail_of`.
    pub tails: u64,
    /// Packets lost in a blackout.
    pub dark: u64,
    /// Packets dropped before the rate limit, because its queue was full.
    pub overflowed: u64,
    /// Packets larger than the MTU.
    pub too_big: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets marked for congestion.
    pub marked: u64,
    /// Packets that were sent once and arrive twice.
    pub duplicated: u64,
    /// Packets held back, for others to overtake them.
    pub reordered: u64,
    /// Bytes put in, Ethernet headers included.
    pub bytes: u64,
}

/// Marks a packet as a router does (RFC 3168 §5); false if it is not ECN-capable.
fn mark(frame: &mut [u8]) -> bool {
    const ETHERNET: usize = 14;
    let (class, shift, ipv4) = match frame.get(12..15) {
        Some([0x08, 0x00, _]) => (ETHERNET + 1, 0, true),
        Some([0x86, 0xdd, _]) => (ETHERNET + 1, 4, false),
        _ => return false,
    };
    let Some(octet) = frame.get_mut(class) else { return false };
    let codepoint = *octet >> shift & 3;
    if !matches!(codepoint, 1 | 2) {
        return false;
    }
    *octet |= 3 << shift;
    if ipv4 && let Some(header) = frame.get_mut(ETHERNET..ETHERNET + 20) {
        header[10..12].fill(0);
        let sum = tickwire_stack::checksum::plain(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    arrives: Instant,
    number: u64,
    bytes: Vec<u8>,
}

/// One direction of a cable. The caller supplies the time and the random numbers: the same seed and
/// the same packets at the same times give the same result.
#[derive(Debug)]
pub struct SimulatedLink {
    /// Its configuration; it may change at any time, and applies to packets sent from then on.
    /// Messages are followed from the first packet on, so only the initial `tail_of` sets their
    /// size.
    pub config: LinkConfig,
    /// Statistics so far.
    pub stats: LinkStats,
    messages: Messages,
    /// End of the current loss burst at the latest.
    bad_until: Instant,
    flying: BinaryHeap<Reverse<InFlight>>,
    number: u64,
    /// When the rate limit has sent all queued packets.
    free_at: Instant,
    /// The latest arrival of a packet that keeps its order.
    last: Instant,
}

impl SimulatedLink {
    /// A cable with nothing in flight.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self {
            config,
            stats: LinkStats::default(),
            messages: Messages::new(config.tail_of),
            bad_until: Instant::NEVER,
            flying: BinaryHeap::new(),
            number: 0,
            free_at: Instant::NEVER,
            last: Instant::NEVER,
        }
    }

    /// Sends a packet, Ethernet header first. `now` must not go back from one call to the next.
    pub fn send(&mut self, now: Instant, rng: &mut Rng, mut bytes: Vec<u8>) {
        let LinkConfig { delay, jitter, duplicate, reorder, reorder_by, corrupt, mtu, .. } = self.config;
        self.stats.sent += 1;
        self.stats.bytes += bytes.len() as u64;
        if bytes.len() > mtu + 14 {
            self.stats.too_big += 1;
            return;
        }
        let Some(leaves) = self.queue(now, bytes.len()) else {
            self.stats.overflowed += 1;
            return;
        };
        if self.loses(now, rng, &bytes) {
            return;
        }
        if rng.chance(corrupt) {
            let bit = rng.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.stats.corrupted += 1;
        }
        if rng.chance(self.config.mark) && mark(&mut bytes) {
            self.stats.marked += 1;
        }
        let copies = if rng.chance(duplicate) { 2 } else { 1 };
        self.stats.duplicated += copies - 1;
        for _ in 0..copies {
            let mut arrives = leaves + delay;
            if !jitter.is_zero() {
                arrives += Span::from_nanos(rng.below(jitter.as_nanos()));
            }
            if rng.chance(reorder) {
                arrives += Span::from_nanos(1 + rng.below(reorder_by.as_nanos().max(1)));
                self.stats.reordered += 1;
            } else {
                arrives = arrives.max(self.last);
                self.last = arrives;
            }
            self.number += 1;
            self.flying.push(Reverse(InFlight { arrives, number: self.number, bytes: bytes.clone() }));
        }
    }

    /// When the rate limit has sent a packet of this length; `None` if the queue is full.
    fn queue(&mut self, now: Instant, length: usize) -> Option<Instant> {
        let LinkConfig { rate, queue, .. } = self.config;
        if rate == 0 {
            return Some(now);
        }
        let start = self.free_at.max(now);
        let waiting = start.since(now).as_nanos() as u128 * u128::from(rate) / 8_000_000_000;
        if waiting > queue as u128 {
            return None;
        }
        self.free_at = start + Span::from_nanos(length as u64 * 8_000_000_000 / rate);
        Some(self.free_at)
    }

    /// Decides whether a packet is lost, and counts it.
    fn loses(&mut self, now: Instant, rng: &mut Rng, bytes: &[u8]) -> bool {
        let LinkConfig { loss, burst, tail_of, dark_until, .. } = self.config;
        // Every packet is inspected, even one lost for another reason: only the first transmission
        // of a message's last segment counts.
        let tail = tail_of != 0 && self.messages.see(bytes).end;
        let stats = &mut self.stats;
        let count = if now < dark_until {
            &mut stats.dark
        } else if tail {
            &mut stats.tails
        } else if rng.chance(loss) || burst.loses(now, &mut self.bad_until, rng) {
            &mut stats.lost
        } else {
            return false;
        };
        *count += 1;
        true
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse(packet)| packet.arrives)
    }

    /// Takes the next packet that has arrived by now.
    pub fn arrive(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        self.stats.delivered += 1;
        self.flying.pop().map(|Reverse(packet)| packet.bytes)
    }
}
