//! A verified schedule, whose messages never collide, and its slots one by one.

use super::circle::{Repeated, gcd, overlap};
use super::wire::CableLink;
use crate::pattern::Pattern;
use crate::units::{millis, nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use thiserror::Error;

/// A schedule of a pattern: stream s has slots of its own from `phase + k * period`. A slot covers
/// a message from the first bit on its sender's link to the last on the consumer's, and then the
/// guard. Slots of a `Schedule` never overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    slots: Vec<Repeated>,
    guard: Duration,
    cycle: u64,
}

/// Two streams with overlapping slots.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the slots of streams {} and {} overlap by {} ms; expected phases that keep them apart",
    .streams.0, .streams.1, millis(*.by)
)]
pub struct Overlap {
    /// Their numbers. The same twice: its slot is longer than its period.
    pub streams: (u32, u32),
    /// The most by which a slot of one overlaps a slot of the other.
    pub by: Duration,
}

/// One slot of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleSlot {
    /// The stream's index in the pattern.
    pub stream: usize,
    /// Its start, relative to the cycle.
    pub start: Duration,
    /// The end of the message, and start of the guard.
    pub message_end: Duration,
    /// Its end.
    pub end: Duration,
}

impl Schedule {
    /// The schedule given by a pattern's phases; a stream without one is due at 0.
    ///
    /// # Errors
    /// Two slots overlap.
    pub fn of(pattern: &Pattern, link: &CableLink, guard: Duration) -> Result<Self, Overlap> {
        let slots: Vec<Repeated> = pattern
            .streams
            .iter()
            .map(|stream| {
                let period = nanos(stream.period).max(1);
                let phase = nanos(stream.phase.unwrap_or_default()) % period;
                let length = nanos(link.occupied(stream.transport, stream.size).saturating_add(guard));
                Repeated { phase, period, length }
            })
            .collect();
        for (i, slot) in slots.iter().enumerate() {
            let met = |j: usize, ns| {
                let streams = (pattern.streams[j].id, pattern.streams[i].id);
                Err(Overlap { streams, by: Duration::from_nanos(ns) })
            };
            if slot.length > slot.period {
                return met(i, slot.length - slot.period);
            }
            for (j, other) in slots[..i].iter().enumerate() {
                match overlap(*other, *slot) {
                    0 => {}
                    by => return met(j, by),
                }
            }
        }
        let lcm = |cycle: u64, slot: &Repeated| (cycle / gcd(cycle, slot.period)).saturating_mul(slot.period);
        Ok(Self { cycle: slots.iter().fold(1, lcm), slots, guard })
    }

    /// Sets the phases of the pattern for which it was made.
    pub fn apply(&self, pattern: &mut Pattern) {
        for (stream, slot) in pattern.streams.iter_mut().zip(&self.slots) {
            stream.phase = Some(Duration::from_nanos(slot.phase));
        }
    }

    /// Start of each stream's first slot, in the order of the pattern.
    pub fn phases(&self) -> impl ExactSizeIterator<Item = Duration> {
        self.slots.iter().map(|slot| Duration::from_nanos(slot.phase))
    }

    /// Length of each stream's slots, with the guard, in the order of the pattern.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = Duration> {
        self.slots.iter().map(|slot| Duration::from_nanos(slot.length))
    }

    /// The rest of each slot after its message.
    #[must_use]
    pub const fn guard(&self) -> Duration {
        self.guard
    }

    /// Length of the cycle, the least common multiple of all periods; at most 584 years.
    #[must_use]
    pub const fn cycle(&self) -> Duration {
        Duration::from_nanos(self.cycle)
    }

    /// The slots of a cycle, in order: the first `most` of them.
    #[must_use]
    pub fn slots(&self, most: usize) -> Vec<ScheduleSlot> {
        let mut due: BinaryHeap<_> = self.slots.iter().enumerate().map(|(n, slot)| Reverse((slot.phase, n))).collect();
        let mut slots = Vec::new();
        while slots.len() < most
            && let Some(Reverse((start, stream))) = due.pop()
        {
            let Repeated { period, length, .. } = self.slots[stream];
            let end = Duration::from_nanos(start) + Duration::from_nanos(length);
            slots.push(ScheduleSlot {
                stream,
                start: Duration::from_nanos(start),
                message_end: end.saturating_sub(self.guard),
                end,
            });
            due.extend(start.checked_add(period).filter(|&next| next < self.cycle).map(|next| Reverse((next, stream))));
        }
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::super::circle::{any_overlap, expand};
    use super::*;
    use crate::pattern::{Stream, Transport};
    use proptest::prelude::*;

    fn stream(id: u32, size: u32, period_ms: u64, phase_us: u64) -> Stream {
        Stream {
            id,
            producer: 1,
            transport: Transport::Tcp,
            size,
            period: Duration::from_millis(period_ms),
            deadline: Duration::from_millis(1),
            phase: Some(Duration::from_micros(phase_us)),
        }
    }

    fn pattern(streams: Vec<Stream>) -> Pattern {
        Pattern { name: "test".to_owned(), streams }
    }

    #[test]
    fn an_overlap_names_both_streams_and_how_much_it_is() {
        // 120 bytes twice are 1.92 us.
        let two = |phase_us| pattern(vec![stream(7, 10, 4, 0), stream(8, 10, 6, phase_us)]);
        let us = Duration::from_micros;
        assert!(Schedule::of(&two(102), &CableLink::GIGABIT, us(100)).is_ok());
        let error = Schedule::of(&two(101), &CableLink::GIGABIT, us(100)).unwrap_err();
        assert_eq!((error.streams, error.by), ((7, 8), Duration::from_nanos(920)));
        let said = "the slots of streams 7 and 8 overlap by 0.00092 ms; expected phases that keep them apart";
        assert_eq!(error.to_string(), said);
        let error = Schedule::of(&two(500), &CableLink::GIGABIT, us(4000)).unwrap_err();
        assert_eq!((error.streams, error.by), ((7, 7), Duration::from_nanos(1920)));
        assert!(Schedule::of(&two(500), &CableLink::GIGABIT, Duration::MAX).is_err());
        assert!(Schedule::of(&two(500), &CableLink { rate_bps: 0, mtu: 0 }, us(0)).is_err());
    }

    #[test]
    fn synchronised_sending_is_no_schedule() {
        let error = Schedule::of(&Pattern::of_2015(), &CableLink::GIGABIT, Duration::ZERO).unwrap_err();
        assert_eq!(error.streams, (10, 11));
    }

    #[test]
    fn slots_of_a_cycle_are_listed_in_order_and_not_endlessly() {
        let schedule = Schedule::of(
            &pattern(vec![stream(1, 10, 2, 500), stream(2, 10, 3, 0)]),
            &CableLink::GIGABIT,
            Duration::from_micros(100),
        )
        .unwrap();
        assert_eq!(schedule.cycle(), Duration::from_millis(6));
        let us = Duration::from_micros;
        let listed: Vec<_> = schedule.slots(usize::MAX).iter().map(|slot| (slot.start, slot.stream)).collect();
        assert_eq!(listed, [(us(0), 1), (us(500), 0), (us(2500), 0), (us(3000), 1), (us(4500), 0)]);
        let first = schedule.slots(1);
        let message_end = Duration::from_nanos(1920);
        assert_eq!(first, [ScheduleSlot { stream: 1, start: us(0), message_end, end: message_end + us(100) }]);
        assert!(schedule.slots(0).is_empty());
    }

    proptest! {
        #[test]
        fn phases_are_a_schedule_if_and_only_if_no_slots_overlap(
            streams in prop::collection::vec((10u32..60_000, prop::sample::select(vec![1u64, 2, 3, 4, 6, 12]), 0u64..12_000), 1..5),
            guard in 0u64..300,
        ) {
            let streams = streams.into_iter().zip(0..).map(|((size, period, phase), id)| stream(id, size, period, phase % (period * 1000)));
            let pattern = pattern(streams.collect());
            let guard = Duration::from_micros(guard);
            let slots: Vec<_> = pattern.streams.iter().map(|stream| Repeated {
                phase: nanos(stream.phase.unwrap()),
                period: nanos(stream.period),
                length: nanos(CableLink::GIGABIT.occupied(stream.transport, stream.size) + guard),
            }).collect();
            let schedule = Schedule::of(&pattern, &CableLink::GIGABIT, guard);
            prop_assert_eq!(schedule.is_err(), any_overlap(&slots));
            if let Ok(schedule) = schedule {
                let listed: Vec<_> = schedule.slots(1000).iter().map(|slot| (nanos(slot.start), slot.stream)).collect();
                prop_assert_eq!(listed, expand(&slots, nanos(schedule.cycle())));
            }
        }
    }
}
