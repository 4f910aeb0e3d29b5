//! The scenarios for the clocks.

use super::promise::Promise;

/// The initial offset and rate of the reference time against the system clock: a client starts 1 ms
/// and 10 ppm off.
const START: &str = "ahead_us = 1000.0\nrate_ppm = 10.0\n";
/// A cycle of temperature in a room with air conditioning: 0.05 ppm in ten minutes (an Allan
/// deviation of some 3e-8 at 200 s).
const WANDER: &str = "[wander]\nppm = 0.05\nperiod_s = 600.0\n";
/// How long the server is gone, and how long it was there before: one cycle of temperature, from
/// which a clock may have learnt.
const OUTAGE: u32 = 150;
const LEARNT: u32 = 600;

/// One scenario, for one run.
#[derive(Debug)]
pub(super) struct Scenario {
    /// Seconds between requests.
    pub(super) poll: u32,
    /// Its default and its least length.
    pub(super) seconds: (u32, u32),
    /// The parts of a run with figures of their own, given its length. Before the first part the
    /// clock settles.
    pub(super) parts: fn(u32) -> Vec<Part>,
    /// The recipe of the reference time, given the length.
    pub(super) recipe: fn(u32) -> String,
    /// The load, from the first part on.
    pub(super) load: Load,
}

/// One part of a run; it ends where the next begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// When it begins, in seconds.
    pub(super) from: u32,
    /// The promise for our clock.
    pub(super) promise: Promise,
}

impl Scenario {
    /// Its parts with the default length.
    pub(super) fn usual(&self) -> Vec<Part> {
        (self.parts)(self.seconds.0)
    }
}

/// The load of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Nothing.
    None,
    /// Traffic fills both directions of the cable.
    Cable,
    /// Every processor of the machine is kept busy.
    Processors,
}

/// All of them.
pub(super) const SCENARIOS: [Scenario; 7] = [
    Scenario {
        poll: 1,
        seconds: (110, 40),
        parts: |_| {
            let promise =
                Promise { median: Some(0.2), iqr: Some(0.1), p99: Some(0.4), max: Some(1.0), converged_s: None };
            vec![Part { name: "quiet, poll 1 s", from: 30, promise }]
        },
        recipe: |_| START.into(),
        load: Load::None,
    },
    Scenario {
        poll: 16,
        seconds: (300, 100),
        parts: |whole| vec![Part { name: "quiet, poll 16 s", from: whole / 2, promise: Promise::p99(0.4) }],
        recipe: |_| START.into(),
        load: Load::None,
    },
    Scenario {
        poll: 1,
        seconds: (LEARNT + OUTAGE, OUTAGE + 60),
        parts: |whole| {
            let outage = Part { name: "outage", from: whole - OUTAGE, promise: Promise::p99(1.0) };
            vec![Part { name: "wander", from: 40, promise: Promise::p99(0.5) }, outage]
        },
        recipe: |whole| {
            let (from, to) = (whole - OUTAGE, whole + 1);
            format!("{START}{WANDER}[path]\noutages = [{{ from_s = {from}.0, to_s = {to}.0 }}]\n")
        },
        load: Load::None,
    },
    Scenario {
        poll: 1,
        seconds: (SETTLED + 100, 60),
        parts: |whole| vec![Part { name: "saturated", from: settled(whole), promise: Promise::p99(0.8) }],
        recipe: |_| START.into(),
        load: Load::Cable,
    },
    Scenario {
        poll: 1,
        seconds: (SHIFT + KEPT_UP, 100),
        parts: |_| {
            let promise = Promise { max: Some(2.0), ..Promise::NONE };
            vec![Part { name: "one way +50 us", from: SHIFT + FOUND, promise }]
        },
        recipe: |_| format!("{START}[path]\nlevels = [{{ from_s = {SHIFT}.0, forth_us = 50.0, back_us = 0.0 }}]\n"),
        load: Load::None,
    },
    Scenario {
        poll: 1,
        seconds: (SETTLED + 160, 100),
        parts: |whole| vec![Part { name: "host trouble", from: settled(whole), promise: Promise::p99(5.0) }],
        recipe: |whole| {
            let (from, to) = (settled(whole), whole + 1);
            format!("{START}[path]\nheld = [{{ from_s = {from}.0, to_s = {to}.0, mean_us = {HELD_US}.0 }}]\n")
        },
        load: Load::Processors,
    },
    Scenario {
        poll: 1,
        seconds: (60, 5),
        parts: |_| {
            let promise = Promise { converged_s: Some(2.0), ..Promise::NONE };
            vec![Part { name: "cold start", from: 2, promise }]
        },
        recipe: |_| START.into(),
        load: Load::None,
    },
];

/// When the path changes, how long it stays so, and how long a clock may take to detect that.
const SHIFT: u32 = 45;
const KEPT_UP: u32 = 600;
const FOUND: u32 = 30;
/// When load or disturbance begins: by then a clock has learnt the counter's rate. Then the mean
/// delay of a packet in the host.
const SETTLED: u32 = 120;
const HELD_US: u32 = 200;

/// The same in a run that is shorter than the default.
fn settled(whole: u32) -> u32 {
    SETTLED.min(whole / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_order_and_within_the_run() {
        for scenario in &SCENARIOS {
            let (usual, least) = scenario.seconds;
            for whole in [usual, least] {
                let parts = (scenario.parts)(whole);
                let marks: Vec<_> = parts.iter().map(|part| part.from).chain([whole]).collect();
                assert!(!parts.is_empty() && marks.is_sorted_by(|a, b| a < b), "{parts:?} of {whole} s");
            }
        }
    }
}
