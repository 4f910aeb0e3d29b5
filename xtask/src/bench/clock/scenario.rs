//! What the clocks go through.

/// Where truth begins, seen from the system clock, and how its rate differs: a client starts 1 ms and 10 ppm off.
const START: &str = "ahead_us = 1000.0\nrate_ppm = 10.0\n";
/// A cycle of temperature in a room with air conditioning: 0.05 ppm in ten minutes (an Allan deviation of some 3e-8 at 200 s).
const WANDER: &str = "[wander]\nppm = 0.05\nperiod_s = 600.0\n";
/// For how long the server is gone.
const OUTAGE: u32 = 150;

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
    /// What ours must reach, for the table.
    pub(super) promise: &'static str,
}

/// All of them.
pub(super) const SCENARIOS: [Scenario; 7] = [
    Scenario {
        name: "quiet, poll 1 s",
        poll: 1,
        seconds: (100, 40),
        settle: |_| 30,
        recipe: |_| START.into(),
        saturated: false,
        promise: "median 0.2, IQR 0.1, p99 0.4, max 1.0",
    },
    Scenario {
        name: "quiet, poll 16 s",
        poll: 16,
        seconds: (150, 100),
        settle: |whole| whole / 2,
        recipe: |_| START.into(),
        saturated: false,
        promise: "p99 0.4",
    },
    Scenario {
        name: "wander",
        poll: 1,
        seconds: (120, 60),
        settle: |_| 40,
        recipe: |_| format!("{START}{WANDER}"),
        saturated: false,
        promise: "p99 0.5",
    },
    Scenario {
        name: "outage",
        poll: 1,
        seconds: (OUTAGE + 30, OUTAGE + 20),
        settle: |whole| whole - OUTAGE,
        recipe: |whole| {
            let (from, to) = (whole - OUTAGE, whole + 1);
            format!("{START}{WANDER}[path]\noutages = [{{ from_s = {from}.0, to_s = {to}.0 }}]\n")
        },
        saturated: false,
        promise: "p99 1.0",
    },
    Scenario {
        name: "saturated",
        poll: 1,
        seconds: (110, 60),
        settle: |_| 40,
        recipe: |_| START.into(),
        saturated: true,
        promise: "p99 0.8",
    },
    Scenario {
        name: "one way +50 us",
        poll: 1,
        seconds: (150, 100),
        settle: |_| SHIFT + FOUND,
        recipe: |_| format!("{START}[path]\nlevels = [{{ from_s = {SHIFT}.0, forth_us = 50.0, back_us = 0.0 }}]\n"),
        saturated: false,
        promise: "within 2",
    },
    Scenario {
        name: "cold start",
        poll: 1,
        seconds: (12, 5),
        settle: |_| 2,
        recipe: |_| START.into(),
        saturated: false,
        promise: "below 10 in 2 s",
    },
];

/// When the path changes, and how long a clock may take to find out.
const SHIFT: u32 = 45;
const FOUND: u32 = 30;
