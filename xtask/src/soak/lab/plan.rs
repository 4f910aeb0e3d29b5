//! The events of a round, and their times: all of it follows from the round's seed.

use std::fmt;
use std::time::Duration;

/// The random numbers of a seed (SplitMix64, <https://prng.di.unimi.it/splitmix64.c>).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `end`, without it.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(super) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "a",
            Self::B => "b",
        })
    }
}

/// A talker: a client of the other host's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Talker {
    pub(super) on: Side,
    pub(super) accelerated: bool,
    pub(super) threads: u32,
    pub(super) seed: u32,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The service is asked to end, and restarted after a time.
    Restart(Side, Duration),
    /// The service is killed, and restarted after a time.
    Kill(Side, Duration),
    /// The link goes down at this end, and up again after a time.
    Flap(Side, Duration),
    /// The host loses its second address of one family for a time.
    Address { on: Side, v6: bool, lasts: Duration },
    /// Both ends of the cable get this MTU.
    Mtu(u32),
    /// The server is killed under load, and restarted at once.
    KillServer(Side),
    /// One of the talkers is killed under load: the one with this index, modulo their number.
    KillTalker(u32),
    /// Another talker starts.
    Start(Talker),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart(side, gap) => write!(f, "service of {side} restarts, {} ms without", gap.as_millis()),
            Self::Kill(side, gap) => write!(f, "service of {side} is killed, {} ms without", gap.as_millis()),
            Self::Flap(side, lasts) => write!(f, "eth0 of {side} is down for {} ms", lasts.as_millis()),
            Self::Address { on, v6, lasts } => {
                let family = if *v6 { "IPv6" } else { "IPv4" };
                write!(f, "{on} loses its second {family} address for {} ms", lasts.as_millis())
            }
            Self::Mtu(mtu) => write!(f, "MTU {mtu}"),
            Self::KillServer(side) => write!(f, "server of {side} is killed"),
            Self::KillTalker(which) => write!(f, "talker {which} is killed"),
            Self::Start(talker) => write!(
                f,
                "a talker on {} starts, {}, {} threads, seed {}",
                talker.on,
                if talker.accelerated { "accelerated" } else { "on the kernel" },
                talker.threads,
                talker.seed
            ),
        }
    }
}

/// A round.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Whether the servers of `a` and `b` are accelerated.
    pub(super) servers: [bool; 2],
    /// The talkers that run from the beginning.
    pub(super) talkers: Vec<Talker>,
    /// The events, each with the time since the one before began.
    pub(super) steps: Vec<(Duration, Event)>,
}

impl Plan {
    /// The round of a seed, with `events` events.
    pub(super) fn new(seed: u64, events: u32) -> Self {
        let mut dice = Dice::new(seed);
        let servers = [dice.chance(80), dice.chance(80)];
        let talkers = Side::BOTH.into_iter().map(|on| talker(&mut dice, on)).collect();
        let steps = (0..events).map(|_| (dice.millis(150, 900), event(&mut dice))).collect();
        Self { servers, talkers, steps }
    }
}

fn talker(dice: &mut Dice, on: Side) -> Talker {
    Talker { on, accelerated: dice.chance(75), threads: 1 + dice.below(3) as u32, seed: dice.below(1_000_000) as u32 }
}

fn event(dice: &mut Dice) -> Event {
    let side = dice.of(&Side::BOTH);
    match dice.below(100) {
        0..8 => Event::Restart(side, dice.millis(0, 400)),
        8..15 => Event::Kill(side, dice.millis(0, 400)),
        15..30 => Event::Flap(side, dice.millis(5, 800)),
        30..45 => Event::Address { on: side, v6: dice.chance(50), lasts: dice.millis(5, 1500) },
        45..58 => Event::Mtu(dice.of(&[1280, 1400, 1500, 4000, 9000])),
        58..66 => Event::KillServer(side),
        66..80 => Event::KillTalker(dice.below(100) as u32),
        _ => Event::Start(talker(dice, side)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_round_each_time_and_another_seed_another() {
        assert_eq!(Plan::new(7, 20), Plan::new(7, 20));
        assert_ne!(Plan::new(7, 20), Plan::new(8, 20));
        assert_eq!(Plan::new(7, 20).steps.len(), 20);
    }

    #[test]
    fn all_kinds_of_events_come_in_a_few_rounds() {
        let mut kinds: Vec<_> = (0..20)
            .flat_map(|seed| Plan::new(seed, 20).steps)
            .map(|(_, event)| std::mem::discriminant(&event))
            .collect();
        kinds.sort_by_key(|kind| format!("{kind:?}"));
        kinds.dedup();
        assert_eq!(kinds.len(), 8);
    }
}
