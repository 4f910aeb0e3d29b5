//! The report for a browser.

use super::reading::Costs;
use super::report::{HEAD, Outcome, cells};
use tickwire_bench::error::ClockError;
use tickwire_report::{Axis, Plot, ReportPage, Series, Tone};

/// All that was measured, as one HTML file.
pub(super) fn page(machine: &str, outcomes: &[Outcome], reading: Option<&Costs>) -> String {
    let mut page = ReportPage::new("How wrong clocks are");
    page.paragraph(machine);
    let (tone, verdict) = verdict(outcomes);
    page.verdict(tone, &verdict);
    page.section("All scenarios");
    page.paragraph(
        "Errors are clock - truth. The figures of a scenario are of what came after the clock had settled, but for the last two columns: whether truth lay within \
         the bound at every reading, and how long it took from the clock's start until the error stayed below 10 us.",
    );
    page.table(&HEAD, outcomes.iter().map(row));
    for (scenario, runs) in by_scenario(outcomes) {
        page.section(scenario);
        let plot = Plot {
            x: Axis::linear("s from the start"),
            y: Axis::logarithmic("error, us"),
            series: runs.into_iter().flat_map(|(clock, figures)| series(clock, figures)).collect(),
        };
        page.figure(
            &plot,
            "The largest error of each second, whatever its sign, and the bound that a clock told then.",
        );
    }
    if let Some(costs) = reading {
        page.section("What a reading costs");
        let row = |name: &str, figures: [f64; 3]| {
            let figures = figures.map(|ns| (format!("{ns:.1}"), Tone::Plain));
            std::iter::once((name.to_owned(), Tone::Plain)).chain(figures).collect()
        };
        let rows = costs.costs.iter().map(|cost| row(&cost.clock, [cost.min_ns, cost.p50_ns, cost.p99_ns]));
        page.table(&["clock", "min ns", "p50 ns", "p99 ns"], rows);
    }
    page.finish()
}

fn verdict(outcomes: &[Outcome]) -> (Tone, String) {
    let broken: Vec<&str> =
        outcomes.iter().filter(|one| one.kept == Some(false)).map(|one| one.scenario.as_str()).collect();
    let promised = outcomes.iter().filter(|one| one.kept.is_some()).count();
    let figures = || outcomes.iter().filter_map(|one| one.measured.as_ref().ok());
    let (bounded, outside) =
        figures().fold((0, 0), |(bounded, outside), one| (bounded + one.bounded, outside + one.outside));
    let inside = match outside {
        0 => format!("Truth was within the bound at all of {bounded} readings that told one."),
        _ => format!("Truth was outside the bound at {outside} of {bounded} readings."),
    };
    match (promised, broken.len()) {
        (0, _) => (Tone::Plain, inside),
        (all, 0) => (Tone::Good, format!("Promises kept: {all} of {all}. {inside}")),
        (all, some) => {
            (Tone::Bad, format!("Promises kept: {} of {all}; not kept: {}. {inside}", all - some, broken.join("; ")))
        }
    }
}

fn row(outcome: &Outcome) -> Vec<(String, Tone)> {
    let mut cells: Vec<_> = cells(outcome).into_iter().map(|cell| (cell, Tone::Plain)).collect();
    let tone = match outcome.kept {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    };
    if let Some(last) = cells.last_mut() {
        last.1 = tone;
    }
    cells
}

/// The runs that have a series to plot, grouped by scenario.
fn by_scenario(outcomes: &[Outcome]) -> Vec<(&str, Vec<(&str, &ClockError)>)> {
    let mut scenarios: Vec<(&str, Vec<_>)> = Vec::new();
    for outcome in outcomes {
        let Some(figures) = outcome.measured.as_ref().ok().filter(|figures| !figures.series.is_empty()) else {
            continue;
        };
        let run = (outcome.clock.as_str(), figures);
        match scenarios.iter_mut().find(|(name, _)| *name == outcome.scenario) {
            Some((_, runs)) => runs.push(run),
            None => scenarios.push((&outcome.scenario, vec![run])),
        }
    }
    scenarios
}

/// A clock's errors and, if it has one, its bound.
fn series(clock: &str, figures: &ClockError) -> Vec<Series> {
    let us = |ns: i64| ns.unsigned_abs() as f64 / 1e3;
    let errors = figures.series.iter().map(|point| (point.at_s, us(point.worst_ns))).collect();
    let bounds: Vec<_> = figures.series.iter().filter_map(|point| Some((point.at_s, us(point.bound_ns?)))).collect();
    let mut series = vec![Series { name: clock.to_owned(), points: errors }];
    if !bounds.is_empty() {
        series.push(Series { name: format!("{clock}: bound"), points: bounds });
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_bench::error::Point;

    fn outcome(clock: &str, kept: Option<bool>) -> Outcome {
        let point = |at_s, worst_ns| Point { at_s, median_ns: 0, worst_ns, bound_ns: kept.map(|_| 9_000) };
        let figures =
            ClockError { bounded: 5, series: vec![point(0.0, 400), point(1.0, -300)], ..ClockError::default() };
        Outcome {
            scenario: "quiet".into(),
            clock: clock.into(),
            promise: "p99 0.4".into(),
            kept,
            seconds: 2.0,
            measured: Ok(figures),
        }
    }

    #[test]
    fn the_page_has_a_verdict_the_table_and_a_figure_for_each_scenario() {
        let kept = [outcome("tickwire", Some(true)), outcome("chronyd", None)];
        let shown = page("a machine", &kept, None);
        for word in ["a machine", "Promises kept: 1 of 1", "all of 10 readings", "<svg", "tickwire: bound", "chronyd"] {
            assert!(shown.contains(word), "{word}");
        }
        assert_eq!(shown.matches("<figure>").count(), 1, "both clocks are in one figure");
        let broken = page("a machine", &[outcome("tickwire", Some(false))], None);
        assert!(broken.contains("Promises kept: 0 of 1; not kept: quiet"));
    }
}
