//! What the clocks go through.

use super::promise::Promise;

/// Where truth begins, seen from the system clock, and how its rate differs: a client starts 1 ms
/// and 10 ppm off.
const START: &str = "ahead_us = 1000.0\nrate_ppm = 10.0\n";
/// A cycle of temperature in a room with air conditioning: 0.05 ppm in ten minutes (an Allan
/// deviation of some 3e-8 at 200 s).
const WANDER: &str = "[wander]\nppm = 0.05\nperiod_s = 600.0\n";
/// For how long the server is gone, and how long it was there before: for one cycle, of which a
/// clock may have learnt something.
const OUTAGE: u32 = 150;
const LEARNT: u32 = 600;

/// One scenario: what one run goes through.
#[derive(Debug)]
pub(super) struct Scenario {
    /// Seconds between requests.
    pub(super) poll: u32,
    /// How long it takes unless the user says otherwise, and at least.
    pub(super) seconds: (u32, u32),
    /// What of the run has figures of its own, given the whole. What is before the first part
    /// settles the clock.
    pub(super) parts: fn(u32) -> Vec<Part>,
    /// The truth's recipe, given the whole.
    pub(super) recipe: fn(u32) -> String,
    /// What else there is from the first part on.
    pub(super) load: Load,
}

/// One part of a run; it ends where the next begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// When it begins, in seconds.
    pub(super) from: u32,
    /// What ours must reach.
    pub(super) promise: Promise,
}

impl Scenario {
    /// Its parts, the whole taking as long as usual.
    pub(super) fn usual(&self) -> Vec<Part> {
        (self.parts)(self.seconds.0)
    }
}

/// What else a machine has to do.
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

/// When the path changes, for how long it stays so, and how long a clock may take to find out.
const SHIFT: u32 = 45;
const KEPT_UP: u32 = 600;
const FOUND: u32 = 30;
/// When load or trouble begins, by which a clock has learnt the counter's rate, and for how long a
/// packet is held back in the host then, in the mean.
const SETTLED: u32 = 120;
const HELD_US: u32 = 200;

/// The same in a run that is shorter than usual.
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
