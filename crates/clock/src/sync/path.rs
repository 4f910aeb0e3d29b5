//! The path to the server: its shortest round trip, and level shifts when the path changes.
//!
//! RADclock detects an upward shift by the minimum over 1500 s. Here a window of exchanges is
//! enough, because the shape counts, too: on a new path most round trips are near the new minimum,
//! but under congestion they are spread. The least delays in each direction, measured by the
//! current clock, then show which direction has changed. The clock hardly moves meanwhile, because
//! round trips of the new level look long.
//!
//! ```text
//! Df = min(Tb - Ca(Ta)),  Db = min(Ca(Tf) - Te)        asymmetry of the new path: Df - Db
//! ```
//!
//! Only changes are visible in this way, because Ca was estimated from the same timestamps. The
//! rest of the asymmetry, at most the round trip, is part of the bound.

use super::minimum::Minimum;
use super::noise::Noise;
use std::collections::VecDeque;

/// Window of the minimum in seconds: routes and switches change, temperatures matter little.
const HISTORY: f64 = 6.0 * 3600.0;
/// Exchanges that reveal a longer path.
const WINDOW: usize = 20;
/// Shorter round trips in a row that reveal a shorter path.
const SHORTER: usize = 4;
/// Up to this many exchanges a shorter round trip is just a better minimum.
const SETTLED: usize = 30;
/// A level shift exceeds this many noise units, and this many ns.
const SHIFT_UNITS: f64 = 8.0;
const SHIFT_LEAST: f64 = 2_000.0;
/// On a stable path half of the round trips are within this many noise units of the minimum.
const LEVEL_UNITS: f64 = 4.0;

/// The delays of one exchange, in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    /// Round trip without the server's processing time.
    pub(crate) round_trip: f64,
    /// Tb - Ca(Ta).
    pub(crate) forth: f64,
    /// Ca(Tf) - Te.
    pub(crate) back: f64,
}

/// The result of a passage for the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen {
    /// The same path: by how much this round trip exceeds the shortest.
    Excess(f64),
    /// Possibly another path: the exchange must not be used.
    Unclear,
    /// Another path.
    Shifted {
        /// The least delays there and back, by the current clock.
        least: [f64; 2],
        /// By how much the round trip has changed: no direction can have changed by more.
        change: f64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Path {
    shortest: Minimum,
    noise: Noise,
    last: VecDeque<Passage>,
    shorter: usize,
    taken: usize,
}

impl Path {
    pub(crate) fn new() -> Self {
        Self { shortest: Minimum::new(HISTORY), noise: Noise::new(), last: VecDeque::new(), shorter: 0, taken: 0 }
    }

    /// The shortest round trip, in ns.
    pub(crate) fn round_trip(&self) -> f64 {
        self.shortest.get()
    }

    /// The noise unit, in ns.
    pub(crate) fn noise(&self) -> f64 {
        self.noise.unit()
    }

    /// Processes a passage at `at` seconds.
    pub(crate) fn take(&mut self, at: f64, passage: Passage) -> Seen {
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(passage);
        self.taken += 1;
        let far = (SHIFT_UNITS * self.noise()).max(SHIFT_LEAST);
        let over = passage.round_trip - self.shortest.get();
        if self.taken > SETTLED && over < -far {
            self.shorter += 1;
            return if self.shorter < SHORTER { Seen::Unclear } else { self.shift(at, SHORTER) };
        }
        self.shorter = 0;
        if self.taken > SETTLED && self.is_another_level(far) {
            return self.shift(at, WINDOW);
        }
        self.shortest.take(at, passage.round_trip);
        self.noise.take(at, passage.round_trip, self.shortest.get());
        Seen::Excess(passage.round_trip - self.shortest.get())
    }

    /// Whether the whole window is far above the minimum, and half of it is near one level.
    fn is_another_level(&self, far: f64) -> bool {
        if self.last.len() < WINDOW {
            return false;
        }
        let mut sorted: Vec<_> = self.last.iter().map(|p| p.round_trip).collect();
        sorted.sort_by(f64::total_cmp);
        let (lowest, median) = (sorted[0], sorted[WINDOW / 2]);
        let rise = lowest - self.shortest.get();
        rise > far && median - lowest < (LEVEL_UNITS * self.noise()).max(rise / 8.0)
    }

    /// Starts a new level with the last `count` passages.
    fn shift(&mut self, at: f64, count: usize) -> Seen {
        let new = self.last.iter().rev().take(count);
        let least = |of: fn(&Passage) -> f64| new.clone().map(of).fold(f64::INFINITY, f64::min);
        let (round_trip, forth, back) = (least(|p| p.round_trip), least(|p| p.forth), least(|p| p.back));
        let change = (round_trip - self.shortest.get()).abs();
        self.noise = Noise::new();
        new.for_each(|passage| self.noise.take(at, passage.round_trip, round_trip));
        self.shortest.set(at, round_trip);
        self.last.clear();
        self.shorter = 0;
        Seen::Shifted { least: [forth, back], change }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A passage with these delays, and sometimes a little queueing on the way to the server.
    fn passage(number: usize, forth: f64, back: f64) -> Passage {
        let noise = [0.0, 300.0, 100.0, 900.0, 200.0][number % 5];
        Passage { round_trip: forth + back + noise, forth: forth + noise, back }
    }

    fn settled() -> Path {
        let mut path = Path::new();
        for number in 0..60 {
            assert!(matches!(path.take(number as f64, passage(number, 15e3, 15e3)), Seen::Excess(_)));
        }
        path
    }

    #[test]
    fn the_direction_that_grew_is_told() {
        for (forth, back, asymmetry) in [(65e3, 15e3, 50e3), (15e3, 65e3, -50e3), (40e3, 40e3, 0.0)] {
            let mut path = settled();
            let shift = (60..100).find_map(|number| match path.take(number as f64, passage(number, forth, back)) {
                Seen::Shifted { least: [forth, back], .. } => Some((number, forth - back)),
                _ => None,
            });
            assert_eq!(shift, Some((60 + WINDOW - 1, asymmetry)));
            assert_eq!(path.round_trip(), 80e3);
        }
    }

    #[test]
    fn a_single_short_round_trip_is_not_believed() {
        let mut path = settled();
        assert_eq!(path.take(60.0, passage(0, 5e3, 5e3)), Seen::Unclear);
        assert!(matches!(path.take(61.0, passage(0, 15e3, 15e3)), Seen::Excess(_)));
        assert_eq!(path.round_trip(), 30e3);
    }

    #[test]
    fn spread_out_round_trips_are_congestion() {
        let mut path = settled();
        for number in 60..200 {
            let queue = (number * 7919 % 1000) as f64 * 1000.0;
            assert!(matches!(path.take(number as f64, passage(number, 35e3 + queue, 15e3)), Seen::Excess(_)));
        }
        assert!(path.noise() < 1000.0);
    }
}
