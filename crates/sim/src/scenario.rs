//! Scenarios of the clock in virtual time, and the accuracy it promises in each. Tests and the
//! benchmark share the list.

use crate::figures::{ClockErrorSummary, ClockErrors};
use crate::oscillator::OscillatorWander;
use crate::time_server::{Delay, SimulatedTimeServer};
use crate::timekeeping::Timekeeping;
use core::fmt;

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// A change of the path or the server.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Delay to the server.
    Forth(Delay),
    /// Delay from the server.
    Back(Delay),
    /// Delay in both directions.
    Both(Delay),
    /// Exchanges lost from now on, per million.
    Loss(u32),
    /// The server stops answering, or answers again.
    Silent(bool),
}

/// What a clock promises, in ns. That the true time is within the bound is always promised.
#[derive(Clone, Copy, Debug)]
pub enum Promise {
    /// The difference between the largest and the smallest error is at most this.
    Span(i64),
    /// The 99th percentile of the absolute error is at most this.
    P99(i64),
    /// No absolute error is larger.
    Max(i64),
    /// Nothing but the bound.
    Bound,
}

impl Promise {
    /// Whether it is kept.
    #[must_use]
    pub fn kept(self, by: &ClockErrorSummary) -> bool {
        by.outside == 0
            && match self {
                Self::Span(most) => by.range.1 - by.range.0 <= most,
                Self::P99(most) => by.p99 <= most,
                Self::Max(most) => by.max <= most,
                Self::Bound => true,
            }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: i64| ns as f64 / 1e3;
        match *self {
            Self::Span(most) => write!(f, "from least to greatest {:.2}", us(most)),
            Self::P99(most) => write!(f, "p99 {:.1}", us(most)),
            Self::Max(most) => write!(f, "max {:.0}", us(most)),
            Self::Bound => f.write_str("the bound is true"),
        }
    }
}

/// One scenario. All times in seconds from the daemon's start.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What drives the counter.
    pub wander: OscillatorWander,
    /// Delay of both directions of the path.
    pub path: Delay,
    /// Seconds between requests.
    pub poll: f64,
    /// Begin and end of the measurement; readings before the begin are left out of the figures.
    pub measured: (f64, f64),
    /// Approximate number of clock reads in that time.
    pub reads: u32,
    /// The changes, in the order of time. With `again` the list repeats after so many seconds.
    pub changes: &'static [(f64, Change)],
    /// Period of `changes`; `None`: they happen once.
    pub again: Option<f64>,
    /// The promise to check.
    pub promise: Promise,
}

impl Scenario {
    /// Runs it.
    ///
    /// # Panics
    /// If the clock never synchronised.
    #[must_use]
    pub fn run(&self, seed: u64) -> ClockErrorSummary {
        self.figures(seed).summary().expect("the clock knew the time")
    }

    /// Runs it, and returns every reading.
    #[must_use]
    pub fn figures(&self, seed: u64) -> ClockErrors {
        let mut server = SimulatedTimeServer::new(seed ^ 0x5eed);
        (server.forth, server.back) = (self.path, self.path);
        let mut run = Timekeeping::new(self.wander, vec![server], self.poll, 0.0, seed);
        let (begin, end) = self.measured;
        let rate = f64::from(self.reads) / (end - begin);
        // The true time must be within the bound from the first exchange on.
        run.rate = rate.min(10.0);
        let mut outside = 0;
        let mut changes: Vec<(f64, Option<Change>)> = self.changes().map(|(at, change)| (at, Some(change))).collect();
        changes.push((begin, None));
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, change) in changes {
            run.until(at, |_| ());
            let server = &mut run.servers[0];
            match change {
                Some(Change::Forth(delay)) => server.forth = delay,
                Some(Change::Back(delay)) => server.back = delay,
                Some(Change::Both(delay)) => (server.forth, server.back) = (delay, delay),
                Some(Change::Loss(loss)) => server.loss = loss,
                Some(Change::Silent(silent)) => server.silent = silent,
                None => {
                    outside += run.figures().outside;
                    run.rate = rate;
                }
            }
        }
        run.until(end, |_| ());
        let mut figures = run.figures();
        figures.outside += outside;
        figures
    }

    fn changes(&self) -> impl Iterator<Item = (f64, Change)> {
        let end = self.measured.1;
        let rounds = self.again.map_or(1, |again| (end / again).ceil() as u32);
        (0..rounds)
            .flat_map(move |round| {
                let later = self.again.unwrap_or(0.0) * f64::from(round);
                self.changes.iter().map(move |&(at, change)| (at + later, change))
            })
            .filter(move |&(at, _)| at < end)
    }
}

/// A scenario without changes.
const CALM: Scenario = Scenario {
    name: "",
    wander: OscillatorWander::OFFICE,
    path: Delay::LAN,
    poll: 1.0,
    measured: (HOUR, 5.0 * HOUR),
    reads: 4_000_000,
    changes: &[],
    again: None,
    promise: Promise::P99(0),
};

/// Half a day of synchronisation, then a day with exchanges as rare as in table 2 of Shafer et al.
/// (2015).
const fn rare(name: &'static str, wander: OscillatorWander, poll: f64, reads: u32, promise: Promise) -> Scenario {
    Scenario { name, wander, poll, reads, measured: (0.5 * DAY, 1.5 * DAY), promise, ..CALM }
}

/// A quarter of the error range in that table, with an oscillator that allows it.
const fn room(name: &'static str, poll: f64, reads: u32, least: i64, most: i64) -> Scenario {
    rare(name, OscillatorWander::SERVER_ROOM, poll, reads, Promise::Span((most - least) / 4))
}

/// This oscillator alone exceeds that range after a few minutes, whatever the clock knows.
const fn office(name: &'static str, poll: f64) -> Scenario {
    rare(name, OscillatorWander::OFFICE, poll, 4_000_000, Promise::Bound)
}

/// The server stops answering for 150 s after the given time of synchronisation, with an oscillator
/// that has a cycle of 600 s.
const fn gone(name: &'static str, changes: &'static [(f64, Change)], promise: Promise) -> Scenario {
    let from = changes[0].0;
    Scenario {
        name,
        wander: OscillatorWander::TEN_MINUTES,
        measured: (from, from + 150.0),
        changes,
        reads: 1_500_000,
        promise,
        ..CALM
    }
}

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    room("30 s between exchanges, server room", 30.0, 8_000_000, -5_230, 3_800),
    room("60 s between exchanges, server room", 60.0, 4_000_000, -9_330, 5_750),
    room("120 s between exchanges, server room", 120.0, 4_000_000, -8_540, 1_860),
    room("240 s between exchanges, server room", 240.0, 4_000_000, -8_950, 12_210),
    room("480 s between exchanges, server room", 480.0, 4_000_000, -34_880, 27_880),
    room("960 s between exchanges, server room", 960.0, 4_000_000, -3_860, 39_390),
    office("30 s between exchanges, office", 30.0),
    office("60 s between exchanges, office", 60.0),
    office("120 s between exchanges, office", 120.0),
    office("240 s between exchanges, office", 240.0),
    office("480 s between exchanges, office", 480.0),
    office("960 s between exchanges, office", 960.0),
    Scenario { name: "poll 1 s, office", promise: Promise::P99(400), ..CALM },
    Scenario { name: "poll 16 s, office", poll: 16.0, promise: Promise::P99(400), ..CALM },
    Scenario {
        name: "poll 1 s, wander 0.05 ppm in 10 min",
        wander: OscillatorWander::TEN_MINUTES,
        measured: (40.0, HOUR),
        promise: Promise::P99(500),
        ..CALM
    },
    gone("server gone for 150 s after 5 min, that wander", &[(300.0, Change::Silent(true))], Promise::Bound),
    gone("server gone for 150 s after 10 min, that wander", &[(600.0, Change::Silent(true))], Promise::P99(1_000)),
    gone("server gone for 150 s after 30 min, that wander", &[(1950.0, Change::Silent(true))], Promise::P99(1_000)),
    Scenario {
        name: "server gone for an hour after an hour",
        measured: (HOUR, 2.0 * HOUR),
        changes: &[(HOUR, Change::Silent(true))],
        promise: Promise::Max(100_000),
        ..CALM
    },
    Scenario {
        name: "both directions saturated",
        measured: (900.0, 1800.0),
        changes: &[(900.0, Change::Both(Delay::FULL))],
        promise: Promise::P99(800),
        ..CALM
    },
    Scenario {
        name: "one way +50 us for 10 min",
        measured: (900.0, 1500.0),
        changes: &[(900.0, Change::Forth(Delay { least: 65_000.0, ..Delay::LAN }))],
        promise: Promise::Max(2_000),
        ..CALM
    },
    Scenario {
        name: "a month: lost answers, full cables, other paths, outages",
        poll: 16.0,
        measured: (HOUR, 30.0 * DAY),
        changes: &[
            (0.0, Change::Loss(20_000)),
            (2.0 * HOUR, Change::Both(Delay::FULL)),
            (3.0 * HOUR, Change::Both(Delay::LAN)),
            (6.0 * HOUR, Change::Forth(Delay { least: 65_000.0, ..Delay::LAN })),
            (9.0 * HOUR, Change::Both(Delay { least: 50_000.0, ..Delay::LAN })),
            (12.0 * HOUR, Change::Both(Delay::LAN)),
            (15.0 * HOUR, Change::Silent(true)),
            (16.0 * HOUR, Change::Silent(false)),
            (20.0 * HOUR, Change::Loss(600_000)),
            (22.0 * HOUR, Change::Loss(20_000)),
        ],
        again: Some(DAY),
        promise: Promise::P99(100_000),
        ..CALM
    },
    Scenario {
        name: "a month over a provider's network",
        path: Delay::WIDE,
        poll: 64.0,
        measured: (DAY, 30.0 * DAY),
        promise: Promise::P99(100_000),
        ..CALM
    },
];
