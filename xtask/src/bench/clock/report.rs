//! Table and JSON.

use super::keeper::Keeper;
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

/// For each scenario that both were measured in: our clock on Windows against our clock on Linux.
pub(super) fn ratios(outcomes: &[Outcome]) -> Vec<String> {
    let figures = |scenario: &str, keeper: Keeper| {
        let mut of = outcomes.iter().filter(|one| one.scenario == scenario && one.clock == keeper.name());
        of.next().and_then(|one| one.measured.as_ref().ok())
    };
    let line = |outcome: &Outcome| {
        let [linux, windows] = [Keeper::Tickwire, Keeper::TickwireWindows].map(|one| figures(&outcome.scenario, one));
        let (linux, windows) = (linux?, windows?);
        let ratio = |of: fn(&ClockError) -> i64| of(windows) as f64 / of(linux) as f64;
        Some(format!(
            "{}: on Windows p99 is {:.1} times, the greatest error {:.1} times, and the bound {:.1} times that on Linux",
            outcome.scenario,
            ratio(|figures| figures.p99_ns),
            ratio(|figures| figures.max_ns),
            ratio(|figures| figures.bound_ns),
        ))
    };
    outcomes.iter().filter(|one| one.clock == Keeper::TickwireWindows.name()).filter_map(line).collect()
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
    fn windows_is_compared_with_linux_where_both_were_measured() {
        let outcome = |scenario: &str, keeper: Keeper, scale: i64| Outcome {
            scenario: scenario.into(),
            clock: keeper.name().into(),
            promise: String::new(),
            kept: None,
            seconds: 9.0,
            measured: Ok(ClockError {
                p99_ns: 200 * scale,
                max_ns: 500 * scale,
                bound_ns: 40_000,
                ..ClockError::default()
            }),
        };
        let all = [
            outcome("quiet", Keeper::Tickwire, 1),
            outcome("quiet", Keeper::TickwireWindows, 3),
            outcome("outage", Keeper::TickwireWindows, 3),
        ];
        let lines = ratios(&all);
        let expected = "p99 is 3.0 times, the greatest error 3.0 times, and the bound 1.0 times";
        assert!(lines.len() == 1 && lines[0].starts_with("quiet: ") && lines[0].contains(expected), "{lines:?}");
    }

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
