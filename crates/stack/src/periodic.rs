//! Periodic messages: which sockets receive them, and when the next one is due.
//!
//! Data acquisition is periodic. A thread that knows when the next message arrives sleeps until
//! just before, and is awake when it arrives: no wakeup latency delays it, and little CPU time is
//! spent.
//!
//! A message begins with the first packet after a pause. A socket whose messages begin at equal
//! intervals a few times in a row has a period. From then on the estimate follows early arrivals
//! quickly and late ones slowly: queueing only ever adds delay.
//!
//! Times are those of arrival in the network driver, where the lane knows them.

use crate::Stack;
use crate::ids::{Ready, SocketId};
use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// Most sockets that are tracked.
const PLACES: usize = 96;

/// Associativity: a socket can use one of so many places, which it shares with others.
const WAYS: usize = 4;

/// A packet that arrives this long after the previous one begins a message.
const PAUSE: Span = Span::from_micros(500);

/// Range of periods that are tracked. A shorter one leaves no time to sleep; a longer one drifts
/// between its messages.
const SHORTEST: Span = Span::from_millis(2);
const LONGEST: Span = Span::from_secs(2);

/// So many intervals must agree before there is a period.
const AGREE: u32 = 3;

/// The confidence in a period stops growing after so many confirmations.
const CERTAIN: u32 = 12;

/// After so many periods without a message in time the period is dropped.
const MISSED: u64 = 4;

/// A socket gives up its place to another if no two of its intervals agree for this long.
const TRIAL: Span = Span::from_secs(3);

/// Least deviation from the due time with which a message still counts as the due one: the jitter
/// of senders with a timer of their own.
const LEAST_TOLERANCE: Span = Span::from_micros(300);

/// How long after its due time a message is expected, at least and at most.
const LEAST_WAIT: Span = Span::from_micros(100);
const MOST_WAIT: Span = Span::from_millis(1);

/// How long before its due time a message is expected, at most.
const MOST_EARLY: Span = Span::from_micros(200);

/// When a message is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// It hardly ever arrives before.
    pub from: Instant,
    /// It seldom arrives after.
    pub until: Instant,
}

/// The message statistics of one socket.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
struct Messages {
    /// The bits of [`Stack::change_mask`] for it and the sets that watch it.
    bits: u64,
    /// When the last packet arrived.
    last: Instant,
    /// When the last message began.
    began: Instant,
    /// Interval of the last two messages, or the period.
    period: Span,
    /// With a period: when the next message is due.
    due: Instant,
    /// With a period: when the last message arrived in time. Without: when the socket took its
    /// place, or its intervals last agreed.
    kept: Instant,
    /// With a period: how late messages are, on average.
    late: Span,
    /// The slot plus one; 0 for none.
    slot: u32,
    /// How many intervals agreed.
    agree: u32,
}

shared_layout! { Messages { bits, last, began, period, due, kept, late, slot, agree } }

impl Messages {
    const fn has_period(&self) -> bool {
        self.agree >= AGREE
    }

    /// Whether it keeps its place when another socket requests it.
    fn stays(&self, at: Instant) -> bool {
        let time = if self.has_period() { self.period.times(MISSED) } else { TRIAL };
        self.slot != 0 && at.since(self.kept) <= time
    }

    fn tolerance(&self) -> Span {
        LEAST_TOLERANCE.max(self.period.over(16))
    }

    /// A message began at `at`.
    fn begins(&mut self, at: Instant) {
        let distance = at.since(self.began);
        self.began = at;
        if self.has_period() {
            return self.follow(at);
        }
        let difference = distance.max(self.period) - distance.min(self.period);
        if difference <= self.tolerance() && distance >= SHORTEST && distance <= LONGEST {
            self.agree = self.agree.saturating_add(1);
            let mean = self.period.times(u64::from(self.agree)) + distance;
            self.period = mean.over(u64::from(self.agree) + 1);
            (self.due, self.kept) = (at + self.period, at);
            self.late = LEAST_WAIT;
        } else {
            (self.agree, self.period) = (0, distance);
        }
    }

    /// A message began, and there is a period.
    fn follow(&mut self, at: Instant) {
        if at.since(self.kept) > self.period.times(MISSED) {
            *self = Self { period: Span::ZERO, agree: 0, kept: at, ..*self };
            return;
        }
        self.pass(at);
        let (early, late) = (self.due.since(at), at.since(self.due));
        if early > self.tolerance() || late > self.tolerance() {
            // Not the due message, or a delayed one.
            return;
        }
        let periods = (self.due.since(self.kept).as_nanos() / self.period.as_nanos().max(1)).clamp(1, MISSED);
        if periods == 1 {
            self.agree = self.agree.saturating_add(1).min(CERTAIN);
        } else {
            self.agree = self.agree.saturating_sub(2);
        }
        if !self.has_period() {
            // For example every second time: half of the actual period.
            *self = Self { period: Span::ZERO, agree: 0, kept: at, ..*self };
            return;
        }
        self.late = self.late - self.late.over(8) + late.over(8);
        let to = earlier(self.due, early.over(2)) + late.over(16);
        // A phase that keeps moving indicates an error of the period.
        self.period = self.period - early.over(64 * periods) + late.over(512 * periods);
        self.kept = self.due;
        self.due = to + self.period;
    }

    /// Advances to the message that is due around `at`.
    fn pass(&mut self, at: Instant) {
        let half = self.period.over(2);
        if at > self.due + half {
            let periods = (at.since(self.due) + half).as_nanos() / self.period.as_nanos().max(1);
            self.due += self.period.times(periods);
        }
    }

    /// When the next message is expected that is not too late at `now`.
    fn expected(&self, now: Instant) -> Option<Expected> {
        if now.since(self.kept) > self.period.times(MISSED) || self.period < SHORTEST || self.period > LONGEST {
            return None;
        }
        let wait = self.late.times(4).max(LEAST_WAIT).min(MOST_WAIT).min(self.period.over(8));
        // A quarter of the messages arrives before the estimate, by a part of the lateness of the
        // others.
        let early = self.late.over(2).min(self.period.over(8)).min(MOST_EARLY);
        let (wait, mut from) = (wait + early, earlier(self.due, early));
        let over = now.since(from + wait);
        if !over.is_zero() {
            from += self.period.times(over.as_nanos().div_ceil(self.period.as_nanos().max(1)));
        }
        Some(Expected { from, until: from + wait })
    }
}

fn earlier(instant: Instant, by: Span) -> Instant {
    Instant::from_nanos(instant.as_nanos().saturating_sub(by.as_nanos()))
}

/// The message statistics of all sockets.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub(crate) struct Periodic {
    places: [Messages; PLACES],
    /// Bits of the places of sockets with a period.
    regular: [u64; PLACES.div_ceil(64)],
}

shared_layout! { Periodic { places, regular } }

impl Periodic {
    /// A packet with data arrived for a socket.
    fn packet(&mut self, slot: usize, bits: u64, at: Instant) {
        let number = slot as u32 + 1;
        let Some(place) = self.place_of(number, at) else { return };
        let messages = &mut self.places[place];
        if messages.slot != number {
            *messages = Messages { slot: number, bits, last: at, began: at, kept: at, ..Messages::default() };
        } else {
            let pause = at.since(core::mem::replace(&mut messages.last, at));
            if pause < PAUSE {
                // Within the message: a set may watch for its beginning only (`EPOLLONESHOT`).
                return;
            }
            messages.bits = bits;
            messages.begins(at);
        }
        let (word, bit) = (&mut self.regular[place / 64], 1 << (place % 64));
        *word = if messages.has_period() { *word | bit } else { *word & !bit };
    }

    /// The place of a socket: its own, or one that is free for reuse.
    fn place_of(&self, number: u32, at: Instant) -> Option<usize> {
        let hash = number.wrapping_mul(0x9e37_79b1) >> 16;
        let first = hash as usize % (PLACES / WAYS) * WAYS;
        let mut ways = first..first + WAYS;
        if let Some(own) = ways.clone().find(|&place| self.places[place].slot == number) {
            return Some(own);
        }
        ways.find(|&place| !self.places[place].stays(at))
    }

    /// When the first message is expected for sockets of these bits.
    fn expected(&self, mask: u64, now: Instant) -> Option<Expected> {
        let mut first: Option<Expected> = None;
        for (word, places) in self.regular.iter().zip(self.places.chunks(64)) {
            let mut left = *word;
            while left != 0 {
                let at = left.trailing_zeros() as usize;
                left &= left - 1;
                // Memory that other processes may have written can have bits without a place.
                if let Some(messages) = places.get(at)
                    && messages.bits & mask != 0
                    && let Some(expected) = messages.expected(now)
                    && first.is_none_or(|first| expected.from < first.from)
                {
                    first = Some(expected);
                }
            }
        }
        first
    }

    fn is_any_regular(&self) -> bool {
        self.regular.iter().any(|&word| word != 0)
    }
}

impl Stack<'_> {
    /// When the next message is expected for sockets of these bits ([`Stack::change_mask`]), of
    /// messages that are not too late at `now`. `None` if none of the sockets receives periodic
    /// messages.
    #[must_use]
    pub fn expected(&self, mask: u64, now: Instant) -> Option<Expected> {
        self.mem.core.periodic.expected(mask, now)
    }

    /// Whether any socket receives periodic messages.
    #[must_use]
    #[inline]
    pub fn expects_any(&self) -> bool {
        self.mem.core.periodic.is_any_regular()
    }

    /// A packet with data arrived at `at` for a socket, which is readable now.
    pub(crate) fn notify_of_data(&mut self, id: SocketId, at: Instant) {
        let Some(slot) = self.slot(id.kind, id.index) else { return };
        let before = core::mem::take(&mut self.mem.core.wakeups.changes);
        self.notify(id, Ready::IN);
        let core = &mut *self.mem.core;
        core.periodic.packet(slot, core.wakeups.changes, at);
        core.wakeups.changes |= before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const MS: u64 = 1_000_000;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + ns)
    }

    fn periodic() -> Box<Periodic> {
        Periodic::new_box_zeroed().unwrap()
    }

    /// Whether a message is expected at this time and hardly before.
    fn is_expected_at(expected: Option<Expected>, ns: u64) -> bool {
        expected.is_some_and(|e| e.from <= at(ns) && at(ns).since(e.from) <= LEAST_WAIT && at(ns) <= e.until)
    }

    /// Pseudo-random numbers below `below`.
    fn noise(seed: &mut u64, below: u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    }

    #[test]
    fn equal_distances_are_a_period_and_the_next_message_is_expected() {
        let mut all = periodic();
        for n in 0..4 {
            assert_eq!(all.expected(1, at(n * 10 * MS)), None);
            all.packet(3, 1, at(n * 10 * MS));
        }
        all.packet(3, 1, at(40 * MS));
        let expected = all.expected(1, at(41 * MS)).unwrap();
        assert!(is_expected_at(Some(expected), 50 * MS) && expected.until < at(52 * MS));
        assert_eq!(all.expected(2, at(41 * MS)), None, "others' sockets");
        // Within the time, and when it is over.
        assert_eq!(all.expected(1, expected.until), Some(expected));
        assert!(is_expected_at(all.expected(1, expected.until + Span::from_nanos(1)), 60 * MS));
        // No more messages arrive.
        assert_eq!(all.expected(1, at(91 * MS)), None);
    }

    #[test]
    fn what_varies_a_little_is_expected_early_enough_and_not_for_long() {
        let mut all = periodic();
        let (mut seed, mut hits, mut open) = (7, 0, 0);
        for n in 0..2000 {
            // The period is not a round one; delays are some 60 us, each tenth some milliseconds.
            let delay =
                noise(&mut seed, 120_000) + if noise(&mut seed, 10) == 0 { noise(&mut seed, 4 * MS) } else { 0 };
            let came = at(n * 10_000_300 + delay);
            if n >= 200 {
                let expected = all.expected(1, at((n - 1) * 10_000_300 + 5 * MS)).unwrap();
                hits += u64::from(expected.from <= came && came <= expected.until);
                open += expected.until.since(expected.from).as_nanos();
            }
            all.packet(9, 1, came);
        }
        assert!(hits >= 1800 * 70 / 100, "{hits} of 1800");
        assert!(open / 1800 < 800_000, "{} ns a message", open / 1800);
    }

    #[test]
    fn packets_of_one_message_are_one_and_a_lost_message_is_passed_over() {
        let mut all = periodic();
        for n in (0..12).filter(|n| *n != 8) {
            for packet in 0..20 {
                all.packet(1, 1, at(n * 20 * MS + packet * 100_000));
            }
        }
        assert!(is_expected_at(all.expected(1, at(230 * MS)), 240 * MS));
    }

    #[test]
    fn what_comes_at_random_is_not_expected() {
        let mut all = periodic();
        let (mut seed, mut now, mut expected) = (3, 0, 0);
        for _ in 0..5000 {
            now += MS + noise(&mut seed, 50 * MS);
            expected += u32::from(all.expected(1, at(now)).is_some());
            all.packet(1, 1, at(now));
        }
        assert!(expected < 250, "{expected} of 5000");
    }

    #[test]
    fn a_period_that_changes_is_found_anew() {
        let mut all = periodic();
        (0..20).for_each(|n| all.packet(1, 1, at(n * 10 * MS)));
        (0..20).for_each(|n| all.packet(1, 1, at(207 * MS + n * 33 * MS)));
        assert!(is_expected_at(all.expected(1, at(207 * MS + 19 * 33 * MS + MS)), 207 * MS + 20 * 33 * MS));
    }

    #[test]
    fn a_period_that_doubles_is_found_anew() {
        let mut all = periodic();
        (0..40).for_each(|n| all.packet(1, 1, at(n * 5 * MS)));
        (20..60).for_each(|n| all.packet(1, 1, at(n * 10 * MS)));
        assert!(is_expected_at(all.expected(1, at(591 * MS)), 600 * MS));
    }

    #[test]
    fn as_many_sockets_as_there_are_places_do_not_hide_a_periodic_one() {
        let mut all = periodic();
        let (mut seed, mut now) = (5, 0);
        // Irregular ones came first, and hold all places for a while.
        for slot in 1000..1400 {
            all.packet(slot, 1, at(0));
        }
        for n in 0..1000 {
            all.packet(1, 2, at(n * 10 * MS));
            now = n * 10 * MS;
            for slot in 1000..1400 {
                all.packet(slot, 1, at(now + MS + noise(&mut seed, 5 * MS)));
            }
        }
        assert!(is_expected_at(all.expected(2, at(now + 8 * MS)), now + 10 * MS));
    }

    #[test]
    fn sixty_periodic_sockets_are_followed_at_one_time() {
        let mut all = periodic();
        // Slots of two kinds of sockets.
        let slots = || (0..48).chain(8192..8204);
        for n in 0..20 {
            for slot in slots() {
                all.packet(slot, 1 << (slot % 64), at(n * 100 * MS + slot as u64 % 64 * MS));
            }
        }
        let followed = all.places.iter().filter(|messages| messages.has_period()).count();
        assert!(followed >= 58, "{followed} of 60");
    }

    #[test]
    fn nothing_that_memory_may_hold_makes_it_panic() {
        let mut all = periodic();
        for word in [0, 1, u64::MAX / 2, u64::MAX] {
            let messages = Messages {
                bits: word,
                last: Instant::from_nanos(word),
                began: Instant::from_nanos(!word),
                period: Span::from_nanos(word),
                due: Instant::from_nanos(word),
                kept: Instant::from_nanos(word),
                late: Span::from_nanos(word),
                slot: 2,
                agree: word as u32,
            };
            all.places = [messages; PLACES];
            all.regular = [u64::MAX; PLACES.div_ceil(64)];
            for time in [0, 1, word, u64::MAX] {
                let _ = all.expected(u64::MAX, Instant::from_nanos(time));
                all.packet(1, 1, Instant::from_nanos(time));
            }
        }
    }
}
