//! Table 2 and figure 5, for a terminal and as a section of a page.

use super::figures::{self, ClockRow, Differences, Histogram, TimeFigures};
use comfy_table::{CellAlignment, Table, presets};
use tickwire_report::{Axis, Bar, Bars, ReportPage, Size, Tone};

/// The heading of the section.
const HEADING: &str = "How far the clock was off";

/// Description of the columns.
const COLUMNS: &str = "Differences are reference - clock. The clock is read first, so time that goes on between the two readings makes them positive, as in table 2 of Shafer et al. (2015). p99 is of their \
     size; bound is what the clock itself said that it may be off.";

const HEAD: [&str; 9] = [
    "sync interval",
    "iterations",
    "min us",
    "max us",
    "mean us",
    "median us",
    "p99 us",
    "bound us",
    "truth within the bound",
];

/// The table as text, with its description.
#[must_use]
pub fn table(figures: &TimeFigures) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header(HEAD);
    for row in &figures.rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n{COLUMNS}\n");
    for line in figures.references.iter().chain(&remarks(figures)) {
        text += line;
        text.push('\n');
    }
    text
}

/// A complete page.
#[must_use]
pub fn html(figures: &TimeFigures) -> String {
    let mut page = ReportPage::new("How good the clock is");
    let tone = if figures.is_inside() { Tone::Good } else { Tone::Bad };
    page.verdict(tone, &figures.sentence());
    section(figures, &mut page);
    page.section("Where and with what");
    let program = format!("Tickwire {}", env!("CARGO_PKG_VERSION"));
    page.definitions([("machine", vec![figures.machine.clone()]), ("program", vec![program])]);
    page.section("To repeat it");
    page.command(&figures.command);
    page.finish()
}

/// Table 2 and figure 5, as a section of a page; nothing if nothing was measured.
pub fn section(figures: &TimeFigures, page: &mut ReportPage) {
    let Some((first, others)) = figures.rows.split_first() else { return };
    page.section(HEADING);
    page.table(&HEAD, figures.rows.iter().map(toned));
    page.paragraph(COLUMNS);
    page.figures(Size::Half, [(bars(&first.differences), caption(first))]);
    page.paragraph("Dashed: the least and the greatest difference (figure 5 of 2015).");
    if !others.is_empty() {
        page.details("The same of the other rows", |page| {
            page.figures(Size::Half, others.iter().map(|row| (bars(&row.differences), caption(row))));
        });
    }
    page.list(figures.references.iter().chain(&remarks(figures)));
}

fn caption(row: &ClockRow) -> String {
    let Differences { iterations, min_ns, max_ns, .. } = row.differences;
    format!("{}: {iterations} comparisons, {} to {} us", row.name(), us(min_ns), us(max_ns))
}

/// Remarks on single rows.
fn remarks(figures: &TimeFigures) -> Vec<String> {
    let mut remarks = Vec::new();
    for row in &figures.rows {
        let Differences { missed, repeated, .. } = row.differences;
        let mut said = Vec::new();
        if let Some(exchanges) = row.exchanges {
            said.push(format!("the server answered {exchanges} times in {} s", row.measured_s));
        }
        if repeated > 0 {
            said.push(format!(
                "{repeated} comparisons were made again, for something else ran between their two readings"
            ));
        }
        if missed > 0 {
            said.push(format!("{missed} could not be made"));
        }
        if !said.is_empty() {
            remarks.push(format!("{}: {}.", row.name(), said.join("; ")));
        }
    }
    remarks
}

/// A row as the table shows it, in the order of [`HEAD`].
pub(crate) fn cells(row: &ClockRow) -> [String; HEAD.len()] {
    let found = &row.differences;
    let within = match found.outside {
        0 => "always".to_owned(),
        outside => format!("not in {outside}"),
    };
    [
        row.name(),
        found.iterations.to_string(),
        us(found.min_ns),
        us(found.max_ns),
        figures::us(found.mean_ns),
        us(found.median_ns),
        us(found.p99_ns),
        us(found.bound_ns),
        within,
    ]
}

fn toned(row: &ClockRow) -> Vec<(String, Tone)> {
    let mut cells: Vec<_> = cells(row).into_iter().map(|cell| (cell, Tone::Plain)).collect();
    if let Some((_, tone)) = cells.last_mut() {
        *tone = if row.differences.outside == 0 { Tone::Good } else { Tone::Bad };
    }
    cells
}

/// Figure 5.
fn bars(found: &Differences) -> Bars {
    let us = |ns: i64| ns as f64 / 1e3;
    let Histogram { from_ns, width_ns, counts } = &found.histogram;
    let edge = |bar: usize| us(from_ns + width_ns * bar as i64);
    let bars =
        counts.iter().enumerate().map(|(bar, &count)| Bar { from: edge(bar), to: edge(bar + 1), height: count as f64 });
    let x = Axis::linear("reference - clock, us").mark(us(found.min_ns)).mark(us(found.max_ns));
    Bars { x, y: Axis::linear("comparisons"), bars: bars.collect() }
}

fn us(ns: i64) -> String {
    figures::us(ns as f64)
}

#[cfg(test)]
mod tests {
    use super::super::figures::Origin;
    use super::*;

    fn figures(outside: u64) -> TimeFigures {
        let differences = Differences {
            iterations: 8_000_000,
            missed: 3,
            repeated: 17,
            min_ns: -5_230,
            max_ns: 3_800,
            mean_ns: -1_524.0,
            median_ns: -4,
            p99_ns: 4_900,
            bound_ns: 12_340,
            outside,
            histogram: Histogram { from_ns: -5_230, width_ns: 4_516, counts: vec![7_000_000, 1_000_000] },
        };
        let row = ClockRow {
            origin: Origin::Lab,
            interval_s: Some(30.0),
            silent_after_s: None,
            measured_s: 120.0,
            exchanges: Some(4),
            differences,
        };
        let simulated = ClockRow { origin: Origin::Virtual, interval_s: Some(960.0), exchanges: None, ..row.clone() };
        TimeFigures {
            machine: "a machine".into(),
            command: vec!["tickwire".into(), "testbed".into(), "time".into()],
            references: vec!["By <truth>.".into()],
            rows: vec![row, simulated],
        }
    }

    #[test]
    fn the_table_has_what_2015_had_and_whether_truth_was_within() {
        let shown = table(&figures(0));
        for word in [
            "30 s ",
            "8000000",
            "-5.23",
            "3.80",
            "-1.52",
            " 0.00",
            "4.90",
            "12.34",
            "always",
            "960 s, virtual",
            "By <truth>.",
        ] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        assert!(
            shown.contains("30 s: the server answered 4 times in 120 s; 17 comparisons were made again"),
            "{shown}"
        );
        assert!(table(&figures(5)).contains("not in 5"));
    }

    #[test]
    fn the_page_has_verdict_table_and_figure() {
        let shown = html(&figures(0));
        for word in [
            "a machine",
            "at all of 16000000 comparisons",
            "By &lt;truth&gt;.",
            "<svg",
            "-5.23 to 3.80 us",
            "tickwire testbed time",
        ] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        assert_eq!(shown.matches("<svg").count(), 2, "figure 5, and the same of the other row");
        let verdict = shown.find("class=\"verdict good\"").unwrap();
        assert!(verdict < shown.find("<h2>").unwrap() && verdict < shown.find("a machine").unwrap(), "{shown}");
        assert!(html(&figures(2)).contains("outside the clock&#39;s own bound at 4 of 16000000"));
        let mut page = ReportPage::new("empty");
        section(&TimeFigures { rows: Vec::new(), ..figures(0) }, &mut page);
        assert!(!page.finish().contains("<h2>"));
    }
}
