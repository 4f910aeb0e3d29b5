//! What the clocks go through.

use super::promise::Promise;

/// Where truth begins, seen from the system clock, and how its rate differs: a client starts 1 ms and 10 ppm off.
const START: &str = "ahead_us = 1000.0\nrate_ppm = 10.0\n";
/// A cycle of temperature in a room with air conditioning: 0.05 ppm in ten minutes (an Allan deviation of some 3e-8 at 200 s).
const WANDER: &str = "[wander]\nppm = 0.05\nperiod_s = 600.0\n";
/// For how long the server is gone, and how long it was there before: for one cycle, of which a clock may have learnt something.
const OUTAGE: u32 = 150;
const LEARNT: u32 = 600;

/// One scenario.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Seconds between requests.
    pub(super) poll: u32,
    /// How long it takes unless the user says otherwise, and at least.
    pub(super) seconds: (u32, u32),
    /// What of the run is left out of the figures, in seconds; of the whole.
    pub(super) settle: fn(u32) -> u32,
    /// The truth's recipe, given the whole.
    pub(super) recipe: fn(u32) -> String,
    /// Traffic fills both directions once the clock has settled.
    pub(super) saturated: bool,
    /// Every processor of the machine is kept busy once the clock has settled.
    pub(super) stressed: bool,
    /// What ours must reach.
    pub(super) promise: Promise,
}

/// All of them.
pub(super) const SCENARIOS: [Scenario; 8] = [
    Scenario {
        name: "quiet, poll 1 s",
        poll: 1,
        seconds: (100, 40),
        settle: |_| 30,
        recipe: |_| START.into(),
        saturated: false,
        stressed: false,
        promise: Promise { median: Some(0.2), iqr: Some(0.1), p99: Some(0.4), max: Some(1.0), converged_s: None },
    },
    Scenario {
        name: "quiet, poll 16 s",
        poll: 16,
        seconds: (300, 100),
        settle: |whole| whole / 2,
        recipe: |_| START.into(),
        saturated: false,
        stressed: false,
        promise: Promise::p99(0.4),
    },
    Scenario {
        name: "wander",
        poll: 1,
        seconds: (120, 60),
        settle: |_| 40,
        recipe: |_| format!("{START}{WANDER}"),
        saturated: false,
        stressed: false,
        promise: Promise::p99(0.5),
    },
    Scenario {
        name: "outage",
        poll: 1,
        seconds: (LEARNT + OUTAGE, OUTAGE + 20),
        settle: |whole| whole - OUTAGE,
        recipe: |whole| {
            let (from, to) = (whole - OUTAGE, whole + 1);
            format!("{START}{WANDER}[path]\noutages = [{{ from_s = {from}.0, to_s = {to}.0 }}]\n")
        },
        saturated: false,
        stressed: false,
        promise: Promise::p99(1.0),
    },
    Scenario {
        name: "saturated",
        poll: 1,
        seconds: (110, 60),
        settle: |_| 40,
        recipe: |_| START.into(),
        saturated: true,
        stressed: false,
        promise: Promise::p99(0.8),
    },
    Scenario {
        name: "one way +50 us",
        poll: 1,
        seconds: (150, 100),
        settle: |_| SHIFT + FOUND,
        recipe: |_| format!("{START}[path]\nlevels = [{{ from_s = {SHIFT}.0, forth_us = 50.0, back_us = 0.0 }}]\n"),
        saturated: false,
        stressed: false,
        promise: Promise { max: Some(2.0), ..Promise::NONE },
    },
    Scenario {
        name: "host trouble",
        poll: 1,
        seconds: (200, 100),
        settle: |_| SETTLED,
        recipe: |whole| {
            let to = whole + 1;
            format!("{START}[path]\nheld = [{{ from_s = {SETTLED}.0, to_s = {to}.0, mean_us = {HELD_US}.0 }}]\n")
        },
        saturated: false,
        stressed: true,
        promise: Promise::p99(5.0),
    },
    Scenario {
        name: "cold start",
        poll: 1,
        seconds: (12, 5),
        settle: |_| 2,
        recipe: |_| START.into(),
        saturated: false,
        stressed: false,
        promise: Promise { converged_s: Some(2.0), ..Promise::NONE },
    },
];

/// When the path changes, and how long a clock may take to find out.
const SHIFT: u32 = 45;
const FOUND: u32 = 30;
/// When trouble begins in the host, and for how long a packet is held back there, in the mean.
const SETTLED: u32 = 40;
const HELD_US: u32 = 200;
