//! Table and JSON.

use super::reading::Costs;
use crate::bench::harness::table;
use anyhow::Result;
use comfy_table::Table;
use serde_json::json;
use tickwire_bench::error::{ClockError, Virtual};

/// The result of one clock in one scenario.
pub(super) struct Outcome {
    pub(super) scenario: String,
    pub(super) clock: String,
    pub(super) promise: String,
    /// None: it is a rival, of which nothing is promised, or nothing could be measured.
    pub(super) kept: Option<bool>,
    pub(super) seconds: f64,
    pub(super) measured: Result<ClockError, String>,
}

impl Outcome {
    /// The promise, and whether it was kept.
    pub(super) fn verdict(&self) -> String {
        match self.kept {
            Some(kept) => format!("{}: {}", self.promise, if kept { "kept" } else { "not kept" }),
            None => String::new(),
        }
    }
}

impl From<Virtual> for Outcome {
    fn from(virtually: Virtual) -> Self {
        let [low, high] = virtually.range_ns.map(us);
        Self {
            scenario: format!("{} ({low} to {high})", virtually.scenario),
            clock: "tickwire, virtual".into(),
            promise: virtually.promise,
            kept: Some(virtually.kept),
            seconds: virtually.seconds,
            measured: Ok(virtually.error),
        }
    }
}

/// The headers of [`cells`].
pub(super) const HEAD: [&str; 10] = [
    "scenario",
    "clock",
    "median us",
    "IQR us",
    "p99 us",
    "max us",
    "bound us",
    "truth inside",
    "below 10 us after",
    "promise",
];

/// The row of an outcome; shorter if nothing could be measured.
pub(super) fn cells(outcome: &Outcome) -> Vec<String> {
    let mut cells = vec![outcome.scenario.clone(), outcome.clock.clone()];
    match &outcome.measured {
        Ok(figures) => {
            cells.extend([figures.median_ns, figures.iqr_ns, figures.p99_ns, figures.max_ns].map(us));
            cells.push(if figures.bounded > 0 { us(figures.bound_ns) } else { String::new() });
            cells.push(inside(figures));
            // In virtual time there is no series, so nothing is known of the convergence.
            let never = if figures.series.is_empty() { "" } else { "never" };
            cells.push(figures.converged_s.map_or(never.into(), |seconds| format!("{seconds:.2} s")));
            cells.push(outcome.verdict());
        }
        Err(why) => cells.push(format!("failed: {why:.100}")),
    }
    cells
}

/// One line for each outcome; times in us.
pub(super) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = table::with(HEAD);
    for outcome in outcomes {
        table.add_row(cells(outcome));
    }
    table::right(&mut table, 2..9);
    table
}

/// One clock's errors in short, part by part.
pub(super) fn brief(parts: &[ClockError]) -> String {
    let one = |figures: &ClockError| {
        format!("median {} us, p99 {}, max {}", us(figures.median_ns), us(figures.p99_ns), us(figures.max_ns))
    };
    parts.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn us(ns: i64) -> String {
    format!("{:.2}", ns as f64 / 1e3)
}

/// The number of reads for which the true time was inside the bound.
fn inside(figures: &ClockError) -> String {
    match (figures.bounded, figures.outside) {
        (0, _) => String::new(),
        (bounded, 0) => format!("all of {bounded}"),
        (bounded, outside) => format!("not in {outside} of {bounded}"),
    }
}

/// All results as JSON.
pub(super) fn json(machine: &str, outcomes: &[Outcome], reading: Option<&Costs>) -> Result<String> {
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let Outcome { scenario, clock, promise, kept, seconds, measured } = outcome;
            let mut whole =
                json!({"scenario": scenario, "clock": clock, "promise": promise, "kept": kept, "seconds": seconds});
            match measured {
                Ok(figures) => whole["error"] = json!(figures),
                Err(why) => whole["failure"] = json!(why),
            }
            whole
        })
        .collect();
    let reading = reading.map(|costs| json!({"clocks": costs.costs, "system_calls": costs.system_calls}));
    Ok(serde_json::to_string_pretty(&json!({"machine": machine, "outcomes": outcomes, "reading": reading}))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_was_measured_and_what_was_not() {
        let outcome = |clock: &str, measured| Outcome {
            scenario: "quiet".into(),
            clock: clock.into(),
            promise: "p99 0.4".into(),
            kept: (clock == "tickwire").then_some(true),
            seconds: 9.0,
            measured,
        };
        let figures = ClockError {
            median_ns: -1_234,
            max_ns: 4_567,
            bounded: 10,
            outside: 2,
            converged_s: Some(1.5),
            ..ClockError::default()
        };
        let outcomes = [outcome("tickwire", Ok(figures.clone())), outcome("chronyd", Err("no server".into()))];
        let shown = table(&outcomes).to_string();
        for word in ["-1.23", "4.57", "not in 2 of 10", "1.50 s", "p99 0.4: kept", "failed: no server"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        let read: serde_json::Value = serde_json::from_str(&json("a machine", &outcomes, None).unwrap()).unwrap();
        assert_eq!(read["outcomes"][0]["error"]["median_ns"], -1_234);
        assert_eq!(read["outcomes"][1]["failure"], "no server");
        let virtually = Virtual {
            scenario: "a month".into(),
            seconds: 1.0,
            promise: "max 5".into(),
            kept: false,
            range_ns: [-1_500, 4_567],
            error: ClockError { converged_s: None, ..figures },
        };
        let shown = table(&[virtually.into()]).to_string();
        assert!(
            shown.contains("a month (-1.50 to 4.57)") && shown.contains("max 5: not kept") && !shown.contains("never"),
            "{shown}"
        );
    }
}
