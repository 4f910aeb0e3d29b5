//! The table at the end of the demo.

use super::figures::Figures;
use super::side::Path;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};

/// The figures of one workload by name, one outcome for each path.
pub(crate) type Row<'a> = (&'a str, Vec<Result<Figures>>);

/// One line for each figure: kernel, Tickwire, ratio.
pub(crate) fn table(rows: &[Row<'_>], paths: &[Path]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    let mut header = vec!["program".to_owned(), String::new()];
    header.extend(paths.iter().map(|path| path.to_string()));
    header.push("ratio".into());
    table.set_header(header);
    for (name, outcomes) in rows {
        let columns: Vec<Vec<(&str, Option<f64>)>> = outcomes.iter().map(|o| lines(o, outcomes)).collect();
        let Some(first) = columns.first() else { continue };
        for (index, (figure, _)) in first.iter().enumerate() {
            let values: Vec<Option<f64>> = columns.iter().map(|c| c.get(index).and_then(|l| l.1)).collect();
            let mut cells = vec![if index == 0 { (*name).to_owned() } else { String::new() }, (*figure).to_owned()];
            cells.extend(values.iter().map(|v| v.map_or("failed".to_owned(), shown)));
            cells.push(ratio(&values, figure.contains("Gbit")));
            table.add_row(cells);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The lines of an outcome; for a failed one those of another path that did not fail, without
/// values.
fn lines(outcome: &Result<Figures>, others: &[Result<Figures>]) -> Vec<(&'static str, Option<f64>)> {
    match outcome {
        Ok(Figures::RoundTrip { p50, p99, p999, max }) => {
            vec![("p50 us", Some(*p50)), ("p99 us", Some(*p99)), ("p99.9 us", Some(*p999)), ("max us", Some(*max))]
        }
        Ok(Figures::Rate(rate)) => vec![("Gbit/s", Some(*rate))],
        Err(_) => match others.iter().find(|o| o.is_ok()) {
            Some(other) => lines(other, &[]).into_iter().map(|(name, _)| (name, None)).collect(),
            None => vec![("", None)],
        },
    }
}

fn shown(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// How many times better the last column is than the first.
fn ratio(values: &[Option<f64>], more_is_better: bool) -> String {
    match values {
        [Some(kernel), .., Some(ours)] if *kernel > 0.0 && *ours > 0.0 => {
            let ratio = if more_is_better { ours / kernel } else { kernel / ours };
            format!("{ratio:.2}")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_line_and_a_ratio() {
        let trip = |p50| Ok(Figures::RoundTrip { p50, p99: 2.0, p999: 3.0, max: 4.0 });
        let rows = [
            ("ping", vec![trip(60.0), trip(6.0)]),
            ("stream", vec![Ok(Figures::Rate(8.0)), Ok(Figures::Rate(4.0))]),
            ("broken", vec![trip(1.0), Err(anyhow::anyhow!("no"))]),
        ];
        let text = table(&rows, &[Path::Kernel, Path::Tickwire]).to_string();
        let line =
            |words: &[&str]| text.lines().any(|l| l.trim_matches('│').split_whitespace().eq(words.iter().copied()));
        assert!(line(&["ping", "p50", "us", "60.00", "6.00", "10.00"]), "{text}");
        assert!(line(&["stream", "Gbit/s", "8.00", "4.00", "0.50"]), "{text}");
        assert!(line(&["broken", "p50", "us", "1.00", "failed"]), "{text}");
    }
}
